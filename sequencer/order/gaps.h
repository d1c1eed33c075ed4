/* gaps: records of the numbers that are missing in a stream. Only stream.c and streams.c
 * call it. Gaps of one stream never overlap.
 *
 *            ┌──▶ FILLED    its numbers arrived; if only some did, the rest is another gap
 *   OPEN ────┼──▶ SKIPPED   its wait has ended, the buffer was full   ──▶ FILLED
 *            └──▶ CLOSED    by a person                             ──▶ FILLED
 */
#ifndef SEQUENCER_GAPS_H
#define SEQUENCER_GAPS_H

#include "stream.h"

void gaps_open(struct streams *s, const struct stream *st,
               const struct source *source, struct span span);
/* A number came that may be one of a gap's. */
void gaps_fill(struct streams *s, const struct stream *st, int64_t number);
/* End the wait for it; `note`: why, NULL or "". */
void gaps_give_up(struct streams *s, int64_t id, const char *note);
/* The status of the gap before `number`; id 0: there is no record of it. */
enum gap_status gaps_before(struct streams *s, const struct stream *st,
                            int64_t number, int64_t *id);
/* The stream begins anew: all of its open ones are given up, and none is taken
 * for one of its new numbers. */
void gaps_abandon(struct streams *s, const struct stream *st);

#endif
