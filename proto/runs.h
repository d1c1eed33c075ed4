/* runs: which start of a sender wrote which rows of its log. A short list of
 * (run, first number), oldest first; a run reaches to the first of the next.
 * Pure: no clock, no disk. */
#ifndef PROTO_RUNS_H
#define PROTO_RUNS_H

#include "alloc.h"
#include "rc.h"

struct run {
    uint64_t run;
    uint64_t first;
};

struct runs {
    struct run *list;
    size_t count, room;
};

void runs_fini(struct runs *r);
/* `first` is above every first so far; the same run again adds nothing. */
void runs_add(struct runs *r, uint64_t run, uint64_t first);
/* Forget runs that begin above n. */
void runs_cut(struct runs *r, uint64_t n);
/* Forget the oldest runs while there are more than `keep`, but none that
 * reaches to row `n` or beyond. true: there were some. */
bool runs_shorten(struct runs *r, size_t keep, uint64_t n);
/* The run of row n; 0 for n == 0 or a row before the first that is known. The
 * caller knows that n is not past the end. */
uint64_t runs_of(const struct runs *r, uint64_t n);
/* Row n was there, but its run is forgotten. */
bool runs_forgot(const struct runs *r, uint64_t n);
/* The last number that both logs have with the same run. 0: none. */
uint64_t runs_common(const struct runs *a, uint64_t a_last,
                     const struct runs *b, uint64_t b_last);

/* As 16 bytes each, little endian: run, first. The newest, RUNS_MAX_COUNT at
 * most; returns how many. */
size_t runs_put(const struct runs *r, struct buf *out);
GR_MUST_CHECK gr_rc runs_get(struct runs *r, struct bytes in, uint64_t count);

#endif
