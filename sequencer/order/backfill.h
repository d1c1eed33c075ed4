/* backfill: asks a source for missing events. A gap that opens becomes an internal
 * event, `gap.opened`, for the endpoint `backfill:SOURCE`. So a deliverer makes the
 * call, signed, guarded, with backoff, one at a time, and a call that fails for good
 * is a dead letter (docs/decisions/0014). */
#ifndef SEQUENCER_BACKFILL_H
#define SEQUENCER_BACKFILL_H

#include "alloc.h"
#include "rc.h"

struct sequencer;
struct source;
struct gap_row;

/* Why it can't be asked for, a static sentence for the gap's note; NULL: it can. */
const char *backfill_wrong(const struct source *source,
                           const struct gap_row *g);
void backfill_ask(struct sequencer *q, const struct source *source,
                  const struct gap_row *g);
/* The URL of such an event: the template, filled from its body. GR_REFUSE: it would be
 * too long, or have a dot segment in its path (backfill_climbs()). Workspaces and types
 * come from a provider and are accepted as they are; they are judged here, where they
 * could change the path. Pure. */
GR_MUST_CHECK gr_rc backfill_url(const char *template, struct bytes body,
                                 struct buf *out);
/* A client or server may take a segment of the URL's path for a step up or none. */
bool backfill_climbs(const char *url);

#endif
