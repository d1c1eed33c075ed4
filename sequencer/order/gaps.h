/* gaps: records of the numbers that are missing in a stream. Gaps of one stream never overlap.
 *
 *            ┌──▶ FILLED   its numbers arrived; if only some did, the rest is another gap
 *   OPEN ────┼──▶ SKIPPED  its wait has expired, the buffer is full, or
 *            │             the configuration of its order changed        ──▶ FILLED
 *            └──▶ CLOSED   a person closed it                            ──▶ FILLED
 *
 * Only streams.c calls it, inside the turn's transaction; all state is in rows. */
#ifndef SEQUENCER_GAPS_H
#define SEQUENCER_GAPS_H

#include "order.h"

struct sequencer;
struct source;
struct event_row;
struct stream_row;

/* These numbers are missing now: record them, and ask the source for them if it has
 * `order.backfill`. Returns when the wait for them ends (watermark clock). */
int64_t gaps_open(struct sequencer *q, const struct stream_row *st,
                  const struct source *source, struct span span);
/* This number has arrived. true: it belonged to a gap. */
bool gaps_fill(struct sequencer *q, const struct stream_row *st,
               int64_t number);
/* End the wait for this gap; `note`: why; "": the wait has expired. */
void gaps_skip(struct sequencer *q, int64_t id, const char *note);
/* A person ends the wait for a gap, of *stream. GR_REFUSE: `why`. */
GR_MUST_CHECK gr_rc gaps_close(struct sequencer *q, int64_t id,
                               const char *note, int64_t *stream,
                               char why[200]);
/* The stream begins anew: skip its open gaps, and let the new numbers not match any old
 * gap. */
void gaps_skip_all(struct sequencer *q, int64_t stream);

/* An event is taken in that never arrived, and that was found in the list of its provider: a record of its
 * own, which belongs to no stream. */
void gaps_reconciled(struct sequencer *q, const struct event_row *ev);

/* The status of the gap before `number`; *id 0: there is no record of one. */
enum gap_status gaps_before(struct sequencer *q, int64_t stream, int64_t number,
                            int64_t *id);

#endif
