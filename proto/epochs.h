/* epochs: which start of a sender wrote which rows of its log: a short list of (epoch, first
 * number), oldest first; an epoch reaches to the first number of the next. Pure: no clock, no
 * disk. Used by the durable link on both ends. */
#ifndef PROTO_EPOCHS_H
#define PROTO_EPOCHS_H

#include "alloc.h"
#include "rc.h"

struct epoch {
    uint64_t epoch;
    uint64_t first;
};

struct epochs {
    struct epoch *list;
    size_t count, capacity;
};

void epochs_fini(struct epochs *r);
/* `first` is above every first so far; adding the last epoch again does nothing. */
void epochs_add(struct epochs *r, uint64_t epoch, uint64_t first);
/* Forget epochs that begin above n. */
void epochs_cut(struct epochs *r, uint64_t n);
/* Forget the oldest epochs while there are more than `keep`, but none that reaches to row `n`
 * or beyond. true: some were forgotten. */
bool epochs_shorten(struct epochs *r, size_t keep, uint64_t n);
/* The epoch of row n; 0 for n == 0 or a row before the first that is known. The
 * caller knows that n is not past the end. */
uint64_t epochs_of(const struct epochs *r, uint64_t n);
/* Row n existed, but its epoch is forgotten. */
bool epochs_forgot(const struct epochs *r, uint64_t n);
/* The last number that both logs have with the same epoch. 0: none. */
uint64_t epochs_common(const struct epochs *a, uint64_t a_last,
                       const struct epochs *b, uint64_t b_last);

/* As 16 bytes each, little endian: epoch, first. The newest, EPOCHS_MAX_COUNT at
 * most; returns how many. */
size_t epochs_put(const struct epochs *r, struct buf *out);
GR_MUST_CHECK gr_rc epochs_get(struct epochs *r, struct bytes in,
                               uint64_t count);

#endif
