/* show_attempt: one attempt of an event: what was sent, and what came back. */
#ifndef CTL_SHOW_ATTEMPT_H
#define CTL_SHOW_ATTEMPT_H

#include "ctl.h"

/* What an attempt's request is made of, where the deliverer does not keep it whole. */
struct sent_from {
    const json_t *event;    /* the sequencer's; NULL: it does not know it */
    const json_t *request;  /* of ingress, with its headers; NULL: it is gone */
    const struct buf *body; /* that was sent; NULL with `request` */
};

/* `--attempt N [--endpoint E]` of the event `id`. The exit code. */
int show_attempt(struct ctl *c, const char *id, const struct sent_from *from);

/* The start of each attempt's response body, for trace; nothing for an attempt
 * without a body. */
void show_responses(const json_t *attempts);

#endif
