/* backfill: asks a source for missing events. A gap that opens becomes an internal event,
 * `gap.opened`, for the endpoint `backfill:SOURCE`. So a deliverer sends the request: signed,
 * guarded, with backoff, one at a time; a request that fails for good is a dead letter
 * (docs/decisions/0014). gaps.c calls it, inside the turn's transaction; dispatch.c asks for
 * the URL. */
#ifndef SEQUENCER_BACKFILL_H
#define SEQUENCER_BACKFILL_H

#include "alloc.h"
#include "rc.h"

struct sequencer;
struct source;
struct gap_row;

/* Why the source cannot be asked for this gap, a static sentence for its note; NULL: it can. */
const char *backfill_wrong(const struct source *source,
                           const struct gap_row *g);
void backfill_ask(struct sequencer *q, const struct source *source,
                  const struct gap_row *g);
/* Pure: the URL of such an event: the template, filled from the event's body. GR_REFUSE: it
 * would be too long, or have a dot segment in its path (backfill_climbs()). Workspaces and
 * types come from a provider and are accepted as they are; they are judged here, where they
 * could change the path. */
GR_MUST_CHECK gr_rc backfill_url(const char *template, struct bytes body,
                                 struct buf *out);
/* Pure: a client or server may resolve a segment of the URL's path as `.` or `..`. */
bool backfill_climbs(const char *url);

#endif
