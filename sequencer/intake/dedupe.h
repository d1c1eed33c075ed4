/* dedupe: idempotency keys as numbers, and the filters that show quickly that a key was
 * not seen. Pure; keys.c keeps both.
 *
 * A key is 96 bits of a SHA-256. 48 of them, after the number of a generation,
 * are a row's id; the other 48 are in the row, so that two keys which share the first are
 * not confused. */
#ifndef SEQUENCER_DEDUPE_H
#define SEQUENCER_DEDUPE_H

#include "alloc.h"
#include "rc.h"

struct key {
    uint64_t hash;  /* 48 bits: its position */
    uint64_t check; /* 48 bits more: that it is this one */
};

enum {
    KEY_HASH_BITS = 48,
    /* Keys in a generation. Small enough that the part of the table that is
     * being written stays in SQLite's cache. */
    GENERATION_KEYS = 1 << 19,
    /* 16 bits a key and 4 of them set: one in 400 is looked up in vain. */
    FILTER_BITS_MAX = GENERATION_KEYS * 16,
    FILTER_BITS_MIN = 1 << 12,
};

/* Over each part's text, each with its length, so that no two keys are told
 * apart by where a part ends. */
struct key key_make(const void *text, size_t n);

/* ---- a Bloom filter whose size is a power of two ---- */

struct filter {
    uint8_t *bits;
    uint64_t bit_count; /* 0: none, which holds everything */
};

void filter_init(struct filter *f, uint64_t bit_count);
void filter_fini(struct filter *f);
void filter_add(struct filter *f, struct key k);
/* false: it was never added. true: it may have been. */
bool filter_may_have(const struct filter *f, struct key k);
/* As small as `count` keys need: half is laid over half. */
void filter_fold(struct filter *f, uint64_t count);

/* ---- generations ---- */

/* Keys are kept in classes by how long they are kept, so that one that is
 * needed for a week does not keep a million that are needed for an hour. */
enum {
    KEY_CLASSES = 6,
    /* Digests of what is signed, for `dedupe.replays`. So many generations of them
     * at most (67 million digests, 128 MiB of filters): beyond that each event
     * would search the disk for many of them. */
    KEY_CLASS_SIGNED = 5,
    SIGNED_GENERATIONS_MAX = 128,
};
/* Of an idempotency key; never KEY_CLASS_SIGNED. */
int key_class(int64_t ttl_ms);
/* A generation of this class is closed at the latest when it is so old: then
 * it goes as a whole, not long after its last key has expired. */
int64_t key_class_span_ms(int class);
/* So long a key of this class is kept at most; of the last, ten years is taken. */
int64_t key_class_ttl_ms(int class);

#endif
