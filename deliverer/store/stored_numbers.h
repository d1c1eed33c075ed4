/* stored_numbers: which of the numbers received from a link are on disk. Pure; rows.h calls
 * it.
 *
 * Tasks begin in the order of their numbers and end in any order, but the link's cursor can
 * only move to a number below which all are on disk. The numbers past the cursor that are on
 * disk already are kept as bits, in memory and in one row: after a crash the sequencer sends
 * everything past the cursor again, and a task whose result is stored must not begin a second
 * time (the next delivery of its lane may have begun).
 *
 * A number names a message only together with the epoch (the start of the sequencer) that
 * wrote it: a sequencer that was restored from an older copy gives the same numbers to other
 * messages. So the epochs are kept beside the bits: when a number is received with another
 * epoch, the bits of it and of later numbers are dropped. */
#ifndef DELIVERER_STORED_NUMBERS_H
#define DELIVERER_STORED_NUMBERS_H

#include "rc.h"

enum {
    STORED_NUMBERS_SPAN = 4096, /* there are bits for so many past the cursor */
    STORED_NUMBERS_BYTES = STORED_NUMBERS_SPAN / 8,
    STORED_NUMBERS_EPOCHS = 8, /* of the numbers past the cursor */
    STORED_NUMBERS_MAX_BYTES = 8 + STORED_NUMBERS_BYTES +
                               16 * STORED_NUMBERS_EPOCHS,
};

struct stored_numbers {
    uint64_t base;  /* the cursor: all numbers up to here are on disk */
    uint64_t taken; /* the last number that was received; >= base */
    uint8_t bits[STORED_NUMBERS_BYTES]; /* of number n: bit n % SPAN */
    int epoch_count;
    struct number_epoch {
        uint64_t first, epoch;       /* wrote the numbers from `first` on */
    } epochs[STORED_NUMBERS_EPOCHS]; /* oldest first */
};

/* All numbers up to `base` are on disk, and no later one. */
void stored_numbers_init(struct stored_numbers *s, uint64_t base);

/* Number n was received, as `epoch` wrote it. GR_OK: it is not on disk. GR_REFUSE: it is on
 * disk, skip it. GR_AGAIN: it is too far past the cursor, or there are too many epochs; store
 * some numbers and ask again. Numbers that were jumped over belong to no message and count as
 * stored. */
GR_MUST_CHECK gr_rc stored_numbers_receive(struct stored_numbers *s, uint64_t n,
                                           uint64_t epoch);
/* Number n is on disk (in the transaction that is open now). */
void stored_numbers_add(struct stored_numbers *s, uint64_t n);

/* How many numbers were received past the cursor. */
uint64_t stored_numbers_span(const struct stored_numbers *s);
/* Some of them are on disk. */
bool stored_numbers_past_cursor(const struct stored_numbers *s);

/* Write it as one value of a row (returns how many bytes), and read it back. Numbers that are
 * not past `base` any more are left out; a value that does not parse changes nothing. */
size_t stored_numbers_save(const struct stored_numbers *s,
                           uint8_t out[STORED_NUMBERS_MAX_BYTES]);
void stored_numbers_load(struct stored_numbers *s, struct bytes saved);

#endif
