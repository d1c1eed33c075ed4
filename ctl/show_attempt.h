/* show_attempt: one attempt of an event: what was sent, and what came back. */
#ifndef CTL_SHOW_ATTEMPT_H
#define CTL_SHOW_ATTEMPT_H

#include "ctl.h"

/* `--attempt N [--endpoint E]` of the event `id`. `body` is what was sent, as it is
 * made of the request that ingress has; NULL: no ingress has it. The exit code. */
int show_attempt(struct ctl *c, const char *id, const struct buf *body);

/* The start of each attempt's response body, for trace; prints nothing where there
 * is none. */
void show_responses(const json_t *attempts);

#endif
