/* trace: what the trace*.c share; nobody else's. */
#ifndef SEQUENCER_TRACE_H
#define SEQUENCER_TRACE_H

#include "store.h"
#include "store_search.h"

struct trace {
    struct sequencer *q;
    char *event_id;
    json_t *timeline;
    json_t *tried; /* the part of it that tells what was tried */
    json_t *deliveries;
    int count;
    /* of the delivery being told */
    json_t *attempts;
    const char *endpoint;
};

/* Onto the timeline. */
void trace_say(struct trace *t, int64_t at_ms, const char *fmt, ...)
    GR_PRINTF(3, 4);

/* trace_event.c */
void trace_event_itself(struct trace *t, const struct event_row *e);
/* When it went: then it got its number and was routed. */
int64_t trace_gone_ms(const struct event_row *e);

/* trace_routes.c */
void trace_routes(struct trace *t, const struct event_row *e);

/* trace_ends.c. How each generation of a delivery ended, oldest first. */
void trace_ends(struct sequencer *q, const char *event_id,
                const struct delivery_row *d, const char *endpoint, act_fn *fn,
                void *arg);

/* trace_acts.c. Of one subject within a time; `told` is said before each. */
void trace_acts(struct trace *t, const char *subject, const char *told,
                int64_t from_ms, int64_t to_ms);
/* The last of them before `at_ms`, if that paused or disabled it. */
void trace_hold_before(struct trace *t, const char *subject, int64_t at_ms);

#endif
