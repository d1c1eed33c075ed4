/* gaps: what is missing in a stream, as records. For stream.c and streams.c
 * only; gaps of one stream never overlap.
 *
 *            ┌──▶ FILLED    its numbers came; a part of it is a gap of its own
 *   OPEN ────┼──▶ SKIPPED   its wait is over, the buffer was full   ──▶ FILLED
 *            └──▶ CLOSED    by a person                             ──▶ FILLED
 */
#ifndef SEQUENCER_GAPS_H
#define SEQUENCER_GAPS_H

#include "stream.h"

void gaps_open(struct streams *s, const struct stream *st,
               const struct source *source, struct span span);
/* A number came that may be one of a gap's. */
void gaps_fill(struct streams *s, const struct stream *st, int64_t number);
/* Nobody waits for it any more; `note`: why, NULL or "". */
void gaps_give_up(struct streams *s, int64_t id, const char *note);
/* How what is missing before `number` stands; id 0: without a record. */
enum gap_status gaps_before(struct streams *s, const struct stream *st,
                            int64_t number, int64_t *id);
/* The stream begins anew: all of its open ones are given up, and none is taken
 * for one of its new numbers. */
void gaps_abandon(struct streams *s, const struct stream *st);

#endif
