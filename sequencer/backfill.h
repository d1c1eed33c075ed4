/* backfill: ask for what is missing. A gap that opens becomes an event of our
 * own, `gap.opened`, for the endpoint `backfill:SOURCE`; so a deliverer makes
 * the call, signed, guarded, with backoff, one at a time, and what fails for
 * good is a dead letter (docs/decisions/0014). */
#ifndef SEQUENCER_BACKFILL_H
#define SEQUENCER_BACKFILL_H

#include "alloc.h"
#include "rc.h"

struct sequencer;
struct source;
struct gap_row;

void backfill_ask(struct sequencer *q, const struct source *source,
                  const struct gap_row *g);
/* Where such an event goes: the template with what its body says. Pure. */
void backfill_url(const char *template, struct bytes body, struct buf *out);

#endif
