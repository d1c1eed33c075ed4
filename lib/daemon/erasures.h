/* erasures: the workspaces that were erased, in state_dir/erasures: one line each, with the time and
 * an HMAC-SHA256 of the name. The file's first line has the key.
 *
 * The file is the second place in which an erasure is recorded: it is not in a backup, so a database
 * that is restored from an older copy does not bring a workspace back silently. The sequencer adds
 * lines before anything is erased; all processes read the file at their start, and when they are asked to
 * erase. A crash leaves the old file or the new one. */
#ifndef DAEMON_ERASURES_H
#define DAEMON_ERASURES_H

#include "rc.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ERASURE_HASH_BYTES = 64, /* hexadecimal digits */
    ERASURES_MAX = 10000,
};

struct erasures;

/* Ends the process (74) if the file cannot be read or is not as erasures_add() writes it: without it
 * erased data could come back. */
struct erasures *erasures_open(const char *state_dir);
void erasures_close(struct erasures *e);
/* Reads the file again if another process has changed it. */
void erasures_refresh(struct erasures *e);

size_t erasures_count(const struct erasures *e);
/* `i` below the count, in the order of hashes. */
const char *erasures_at(const struct erasures *e, size_t i, int64_t *at_ms);
/* Whether the workspace was erased. Costs one comparison when there are no erasures. */
bool erasures_has(const struct erasures *e, struct bytes workspace);
bool erasures_has_hash(const struct erasures *e, const char *hash);

/* The hash of a name; makes the file, with a new key, if there is none. GR_REFUSE: it cannot be
 * written; `why` says so. */
GR_MUST_CHECK gr_rc erasures_hash(struct erasures *e, const char *workspace,
                                  char hash[ERASURE_HASH_BYTES + 1],
                                  char why[200]);
/* Adds a line and syncs the file; nothing if it has the hash. GR_REFUSE: `why`. */
GR_MUST_CHECK gr_rc erasures_add(struct erasures *e, const char *hash,
                                 int64_t now_ms, char why[200]);

/* For the processes of other hosts, whose state_dir has a file of its own with the same key: the key as hexadecimal
 * digits (in `digits`), after erasures_hash() or erasures_add(). */
enum { ERASURE_KEY_DIGITS = 64 };
void erasures_key(const struct erasures *e,
                  char digits[ERASURE_KEY_DIGITS + 1]);
/* Such a process adds a hash that was made with this key. GR_REFUSE: the file cannot be written, or has workspaces that were
 * erased with another key; `why` says so. */
GR_MUST_CHECK gr_rc erasures_add_from(struct erasures *e, const char *digits,
                                      const char *hash, int64_t now_ms,
                                      char why[200]);

/* state_dir/erase-again: a process that starts from an older copy makes it, when there are erasures;
 * the sequencer then erases all of them again, and removes it. */
void erasures_ask_again(const struct erasures *e);
bool erasures_again(const struct erasures *e);
void erasures_again_done(const struct erasures *e);

#endif
