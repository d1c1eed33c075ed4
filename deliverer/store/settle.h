/* settle: which of the numbers taken from the link are on our disk. Pure.
 *
 * Tasks are begun as they come and end in any order, but the link's cursor can
 * only move to a number below which nothing is missing. So the numbers behind
 * the cursor that are already on disk are kept as bits, in memory and in one
 * row: after a crash the sequencer sends everything past the cursor again, and a
 * task whose end we have already told must not begin a second time (its lane
 * has moved on).
 *
 * A number names a message only together with the epoch (the start of the
 * sequencer) that wrote it: a sequencer that was restored from an older copy
 * gives the same numbers to other messages. So the epochs are kept beside the
 * bits: when a number comes with another epoch, what is stored of it and of later numbers is
 * dropped. */
#ifndef DELIVERER_SETTLE_H
#define DELIVERER_SETTLE_H

#include "rc.h"

enum {
    SETTLE_SPAN = 4096, /* numbers past the cursor that can be told apart */
    SETTLE_BYTES = SETTLE_SPAN / 8,
    SETTLE_EPOCHS = 8, /* of the numbers past the cursor; more have to wait */
    SETTLE_SAVED_MAX_BYTES = 8 + SETTLE_BYTES + 16 * SETTLE_EPOCHS,
};

struct settle {
    uint64_t base;  /* everything up to here is on disk: the cursor */
    uint64_t taken; /* the last number that came; >= base */
    uint8_t bits[SETTLE_BYTES]; /* number n is bit n % SPAN */
    int epoch_count;
    struct settle_epoch {
        uint64_t first, epoch; /* wrote the numbers from `first` on */
    } epochs[SETTLE_EPOCHS];   /* oldest first */
};

/* Begin at this cursor with nothing ahead. */
void settle_init(struct settle *s, uint64_t base);

/* Number n has come, as `epoch` wrote it. GR_OK: it is to be settled. GR_REFUSE:
 * it is on disk, skip it. GR_AGAIN: too far ahead, or of too many epochs; settle
 * some and ask again. Numbers that were jumped over are held by nobody and count
 * as settled. What is remembered of n and later numbers under another epoch is
 * dropped. */
GR_MUST_CHECK gr_rc settle_take(struct settle *s, uint64_t n, uint64_t epoch);
/* Number n is on disk (in the transaction now open). */
void settle_done(struct settle *s, uint64_t n);

/* Numbers past the cursor. */
uint64_t settle_span(const struct settle *s);
/* Some of them are on disk. */
bool settle_ahead(const struct settle *s);

/* All of it as one value of a row (returns how many bytes), and back. What is not
 * past `base` any more, or does not parse, is left out. */
size_t settle_save(const struct settle *s, uint8_t out[SETTLE_SAVED_MAX_BYTES]);
void settle_load(struct settle *s, struct bytes saved);

#endif
