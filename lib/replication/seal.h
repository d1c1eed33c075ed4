/* seal: compresses (zstd) and encrypts (AES-256-GCM) what is written into the engine, as parts of a bounded size.
 *
 * Each start of a process seals under a key of its own: HKDF-SHA256 of the key in the file, the history, the epoch and 32 random bytes, which
 * each part carries. The nonce is a counter, so it is never used twice under one key. What a part is (struct seal_about, and which of how many
 * parts) is authenticated. A process that forks does not use its sealer in the child. Source: docs/decisions/0126. */
#ifndef REPLICATION_SEAL_H
#define REPLICATION_SEAL_H

#include "turn.h"

enum {
    SEAL_KEY_BYTES = 32,
    SEAL_PART_BYTES = 256 * 1024, /* of a sealed part, at most */
    SEAL_PARTS_MAX = 65536,
    SEAL_ONE_PART_BYTES = 192 *
                          1024, /* plain bytes that always make one part */
};

enum seal_kind {
    SEAL_TURN = 1,
    SEAL_SNAPSHOT,
    SEAL_MANIFEST,
    SEAL_SETTINGS,
    SEAL_SLICE, /* large_turn.h */
};

struct seal_about {
    enum seal_kind kind;
    const char *process;
    uint8_t history[HISTORY_BYTES];
    int64_t epoch, n;
};

struct sealed_parts {
    struct buf *parts; /* each is not empty */
    size_t count;
};

struct sealer;

/* `key` is copied. One thread at a time. */
struct sealer *sealer_open(const uint8_t key[SEAL_KEY_BYTES]);
void sealer_close(struct sealer *s); /* wipes its keys; NULL is allowed */
/* The caller frees the parts with sealed_parts_fini(). */
void sealer_seal(struct sealer *s, const struct seal_about *about,
                 struct bytes plain, struct sealed_parts *out);
void sealed_parts_fini(struct sealed_parts *p);
/* The opposite, of all parts of one sealer_seal() in order. Appends to `plain`, which is unchanged after GR_REFUSE: another key, changed, cut, exchanged, parts missing, longer
 * than `plain` may become. */
GR_MUST_CHECK gr_rc sealer_open_parts(struct sealer *s,
                                      const struct seal_about *about,
                                      const struct bytes *parts, size_t count,
                                      struct buf *plain, char why[200]);

#endif
