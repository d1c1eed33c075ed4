/* accepted: `grapnel events --status accepted`. */
#ifndef CTL_ACCEPTED_H
#define CTL_ACCEPTED_H

#include "list.h"

/* `filters`: as of the sequencer's question. Returns what to exit with. */
int list_accepted(struct ctl *c, const json_t *filters,
                  const struct page_listing *l);

#endif
