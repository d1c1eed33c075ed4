/* audit_chain: the hashes that chain audit rows, and the verification of the chain.
 *
 * Each row has a random salt, a keyed hash (HMAC-SHA-256) of number, salt and content, and a
 * keyed hash of number, time, the hash of the row before and the hash of the content. Without the
 * key, rows cannot be changed, removed, inserted or swapped without a trace. Rows at the end can
 * be cut off with their hashes; only a hash that was published elsewhere shows that.
 *
 * Erasure deletes content and salt of a row and puts a keyed hash in their place; the chain
 * needs only the hash of the content. The anchor is where the chain begins: behind the last row
 * that was deleted by age, or that was written before there was a chain.
 *
 * acts.c writes rows in the transaction of their act; a crash leaves the act, its row and its
 * hash, or nothing. A database has one head: the number and the hash of its newest row. */
#ifndef DAEMON_AUDIT_CHAIN_H
#define DAEMON_AUDIT_CHAIN_H

#include "audit_key.h"
#include "db.h"
#include <jansson.h>

enum {
    AUDIT_HASH_BYTES = 32,
    AUDIT_SALT_BYTES = 16,
};

/* What is hashed of a row beside its number and time. All are borrowed. */
struct audit_content {
    const char *actor, *role, *command, *args, *outcome, *request_id;
};

struct audit_link {
    int64_t n;
    uint8_t hash[AUDIT_HASH_BYTES];
};

void audit_mac(const struct audit_key *k, struct bytes text,
               uint8_t out[AUDIT_HASH_BYTES]);
void audit_hash_content(const struct audit_key *k, int64_t n, struct bytes salt,
                        const struct audit_content *c,
                        uint8_t out[AUDIT_HASH_BYTES]);
/* The hash of row `n`, whose content has the hash `content`. */
void audit_hash_row(const struct audit_key *k, const struct audit_link *before,
                    int64_t n, int64_t at_ms,
                    const uint8_t content[AUDIT_HASH_BYTES],
                    uint8_t out[AUDIT_HASH_BYTES]);
/* In place of salt and content of an erased row. */
void audit_hash_erased(const struct audit_key *k, const struct audit_link *row,
                       uint8_t out[AUDIT_HASH_BYTES]);

/* The anchor and the head, inside a transaction. A database without an anchor gets one behind
 * its newest row. `head_key`: the id of the key of the head; "" if there is no row. */
struct audit_chain;
struct audit_chain *audit_chain_open(struct db *db,
                                     const struct audit_keys *keys);
void audit_chain_close(struct audit_chain *c);
/* Read from disk when it is not known. The number for the next row is *next. false: the disk is
 * full, and the turn will be rolled back. */
bool audit_chain_head(struct audit_chain *c, struct audit_link *head,
                      int64_t *next, char head_key[AUDIT_KEY_ID_BYTES + 1]);
/* A row was added with this number and hash. */
void audit_chain_added(struct audit_chain *c, const struct audit_link *row);
/* Call it before rows up to number `n` are deleted by age. */
void audit_chain_cut(struct audit_chain *c, int64_t n, int64_t now_ms);
/* After a rollback: read the head again. */
void audit_chain_undo(struct audit_chain *c);
/* Whether it has an anchor, and its head is of the key in use. */
bool audit_chain_ready(struct audit_chain *c);

/* The commands `audit_verify` and `audit_head`; docs/CONTROL.md describes the replies. */
json_t *audit_chain_verify(struct audit_chain *c, json_t *args);
/* "sequencer:152:HASH"; the caller's. NULL: there is no row yet, or the disk is full. */
char *audit_chain_head_text(struct audit_chain *c, const char *process);

#endif
