/* transitions: judges and applies events as transitions of their object's state. */
#include "transitions.h"
#include "event.h"
#include "sequencer.h"
#include "store.h"
#include "store_order.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VALID_MAX_BYTES = 2 * LABEL_MAX_BYTES
}; /* of the states that are listed */

/* With the states that are valid, so that a reader need not look them up. */
static void explain_invalid(const struct state_rules *r, const char *object,
                            const char *from, const char *to,
                            char reason[EVENT_REASON_BYTES])
{
    struct buf valid;

    buf_init(&valid, VALID_MAX_BYTES);
    transitions_valid_from(r, from, &valid);
    if (from)
        snprintf(reason, EVENT_REASON_BYTES,
                 "invalid_transition: object %s is %s, which cannot become %s; "
                 "valid: %s",
                 object, from, to, valid.failed ? "…" : valid.data);
    else
        snprintf(reason, EVENT_REASON_BYTES,
                 "invalid_transition: object %s is new and cannot start as %s; "
                 "valid: %s",
                 object, to, valid.failed ? "…" : valid.data);
    buf_fini(&valid);
}

bool transition_apply(struct sequencer *q, const struct source *source,
                      const struct event_row *ev, const struct parsed_event *f,
                      bool forced, char reason[EVENT_REASON_BYTES])
{
    const struct state_rules *r = source ? &source->states : NULL;
    const char *object = f->object.data, *to = f->state.data;
    char *from;
    bool valid;

    if (!r || r->object.kind == EXPR_NONE || !f->has_transition)
        return true;
    from = store_object(q->order, ev->source, ev->workspace, object);
    valid = forced || transition_is_valid(r, from, to);
    if (valid) {
        store_object_set(q->order, ev->source, ev->workspace, object, to,
                         q->d.loop.now_ms, state_is_last(r, to));
        store_transition_add(q->store, ev->n, object, from, to);
    } else {
        explain_invalid(r, object, from, to, reason);
    }
    free(from);
    return valid;
}
