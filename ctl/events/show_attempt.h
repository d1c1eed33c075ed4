/* show_attempt: shows attempts of an event: what was sent, and the response. For `show` and
 * `trace`. */
#ifndef CTL_SHOW_ATTEMPT_H
#define CTL_SHOW_ATTEMPT_H

#include "ctl.h"

/* The sources of the parts of a request that the deliverer does not store. */
struct sent_from {
    const json_t *event;    /* from the sequencer; NULL: unknown */
    const json_t *request;  /* from ingress; NULL: deleted */
    const struct buf *body; /* as it was sent; NULL if `request` is */
};

/* `--attempt N [--endpoint E]` of the event `id`. The exit code. */
int show_attempt(struct ctl *c, const char *id, const struct sent_from *from);

/* The start of each attempt's response body, for trace; nothing for an attempt
 * without a body. */
void show_responses(const json_t *attempts);

#endif
