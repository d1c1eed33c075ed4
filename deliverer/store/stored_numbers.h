/* stored_numbers: which of the numbers taken from the link are on our disk. Pure.
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
#ifndef DELIVERER_STORED_NUMBERS_H
#define DELIVERER_STORED_NUMBERS_H

#include "rc.h"

enum {
    STORED_NUMBERS_SPAN =
        4096, /* numbers past the cursor that can be told apart */
    STORED_NUMBERS_BYTES = STORED_NUMBERS_SPAN / 8,
    STORED_NUMBERS_EPOCHS =
        8, /* of the numbers past the cursor; more have to wait */
    STORED_NUMBERS_MAX_BYTES = 8 + STORED_NUMBERS_BYTES +
                               16 * STORED_NUMBERS_EPOCHS,
};

struct stored_numbers {
    uint64_t base;  /* everything up to here is on disk: the cursor */
    uint64_t taken; /* the last number that came; >= base */
    uint8_t bits[STORED_NUMBERS_BYTES]; /* number n is bit n % SPAN */
    int epoch_count;
    struct number_epoch {
        uint64_t first, epoch;       /* wrote the numbers from `first` on */
    } epochs[STORED_NUMBERS_EPOCHS]; /* oldest first */
};

/* Begin at this cursor with nothing ahead. */
void stored_numbers_init(struct stored_numbers *s, uint64_t base);

/* Number n has come, as `epoch` wrote it. GR_OK: it is to be settled. GR_REFUSE:
 * it is on disk, skip it. GR_AGAIN: too far ahead, or of too many epochs; settle
 * some and ask again. Numbers that were jumped over are held by nobody and count
 * as settled. What is remembered of n and later numbers under another epoch is
 * dropped. */
GR_MUST_CHECK gr_rc stored_numbers_receive(struct stored_numbers *s, uint64_t n,
                                           uint64_t epoch);
/* Number n is on disk (in the transaction now open). */
void stored_numbers_add(struct stored_numbers *s, uint64_t n);

/* Numbers past the cursor. */
uint64_t stored_numbers_span(const struct stored_numbers *s);
/* Some of them are on disk. */
bool stored_numbers_past_cursor(const struct stored_numbers *s);

/* All of it as one value of a row (returns how many bytes), and back. What is not
 * past `base` any more, or does not parse, is left out. */
size_t stored_numbers_save(const struct stored_numbers *s,
                           uint8_t out[STORED_NUMBERS_MAX_BYTES]);
void stored_numbers_load(struct stored_numbers *s, struct bytes saved);

#endif
