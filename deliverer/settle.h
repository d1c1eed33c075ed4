/* settle: which of the numbers taken from the hop are on our disk. Pure.
 *
 * Tasks are begun as they come and end in any order, but the hop's place can
 * only move to a number below which nothing is missing. So the numbers behind
 * the place that are already on disk are kept as bits, in memory and in one
 * row: after a crash the sequencer sends everything past the place again, and a
 * task whose end we have already told must not begin a second time (its lane
 * has moved on). Numbers mean nothing once a link was set back: start again. */
#ifndef DELIVERER_SETTLE_H
#define DELIVERER_SETTLE_H

#include "rc.h"

enum {
    SETTLE_SPAN = 4096, /* numbers past the place that can be told apart */
    SETTLE_BYTES = SETTLE_SPAN / 8,
};

struct settle {
    uint64_t base;  /* everything up to here is on disk: the place */
    uint64_t taken; /* the last number that came; >= base */
    uint8_t bits[SETTLE_BYTES]; /* number n is bit n % SPAN */
};

/* Begin at this place with nothing ahead. */
void settle_init(struct settle *s, uint64_t base);

/* Number n has come. GR_OK: it is to be settled. GR_REFUSE: it is on disk, skip
 * it. GR_AGAIN: too far ahead; settle some and ask again. Numbers that were
 * jumped over are held by nobody and count as settled. */
GR_MUST_CHECK gr_rc settle_take(struct settle *s, uint64_t n);
/* Number n is on disk (in the transaction now open). */
void settle_done(struct settle *s, uint64_t n);

/* Numbers past the place. */
uint64_t settle_span(const struct settle *s);
/* Some of them are on disk. */
bool settle_ahead(const struct settle *s);

/* The bits as one value of a row, and back. What is not past `base` any more,
 * or does not parse, is left out. */
void settle_save(const struct settle *s, uint8_t out[SETTLE_BYTES + 8]);
void settle_load(struct settle *s, struct bytes saved);

#endif
