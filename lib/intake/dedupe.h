/* dedupe: idempotency keys as numbers, and the filters that show quickly that a key was not
 * seen. Pure; keys.c stores both.
 *
 * A key is 96 bits of a SHA-256. The id of its row consists of the number of a generation, the number of a segment of this
 * generation, and 45 bits of the key. The row has the other 51, which distinguish keys whose 45 bits are equal. */
#ifndef INTAKE_DEDUPE_H
#define INTAKE_DEDUPE_H

#include "alloc.h"
#include "rc.h"

struct key {
    uint64_t hash;  /* 48 bits, of which 45 are a part of its row's id */
    uint64_t check; /* 48 more bits */
};

enum {
    KEY_HASH_BITS = 48,
    /* Keys in a generation: so many that a lookup asks few filters. */
    GENERATION_KEYS = 1 << 19,
    /* A generation has segments, which are filled one after the other: so many that about 30 of the rows that are moved
     * together (recent_keys.h) share a page, and so few that a duplicate is found with few reads. */
    KEY_SEGMENT_BITS = 3,
    KEY_SEGMENTS = 1 << KEY_SEGMENT_BITS,
    SEGMENT_KEYS = GENERATION_KEYS >> KEY_SEGMENT_BITS,
    /* 16 bits for each key, of which 4 are set: one search in 400 is in vain. */
    FILTER_BITS_MAX = GENERATION_KEYS * 16,
    FILTER_BITS_MIN = 1 << 12,
};

/* `text`: all parts of the key, each with its length, so that two keys whose parts end at
 * different places differ. */
struct key key_make(const void *text, size_t n);

/* ---- a Bloom filter whose size is a power of two ---- */

struct filter {
    uint8_t *bits;
    uint64_t bit_count; /* 0: there is no filter, so any key may be in it */
};

void filter_init(struct filter *f, uint64_t bit_count);
void filter_fini(struct filter *f);
void filter_add(struct filter *f, struct key k);
/* false: it was never added. true: it may have been. */
bool filter_may_have(const struct filter *f, struct key k);
/* Shrink it to the size that `count` keys need, by combining its halves. */
void filter_fold(struct filter *f, uint64_t count);

/* ---- generations ---- */

/* Keys are in classes by how long they are kept, so that a key that is needed for a week does
 * not keep a million keys that are needed for an hour. */
enum {
    KEY_CLASSES = 6,
    /* Digests of signed parts, for `dedupe.replays`, in a limited number of generations (67
     * million digests, 128 MiB of filters): with more, each event would search the disk for
     * many of them. */
    KEY_CLASS_SIGNED = 5,
    SIGNED_GENERATIONS_MAX = 128,
};
/* The class of an idempotency key; never KEY_CLASS_SIGNED. */
int key_class(int64_t ttl_ms);
/* The age at which a generation of this class is closed at the latest, so that it can be
 * deleted as a whole soon after its last key has expired. */
int64_t key_class_span_ms(int class);
/* How long a key of this class is kept at most; ten years for the last class. */
int64_t key_class_ttl_ms(int class);

#endif
