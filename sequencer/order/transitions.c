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

static bool leads_from(const char *transition, const char *from)
{
    size_t n = strlen(from);

    return strncmp(transition, from, n) == 0 && transition[n] == '>';
}

bool transition_is_valid(const struct state_rules *r, const char *from,
                         const char *to)
{
    if (!from)
        return string_list_has(&r->initial, to);
    for (size_t i = 0; i < r->transitions.count; i++) {
        const char *transition = r->transitions.items[i];

        if (leads_from(transition, from) &&
            strcmp(transition + strlen(from) + 1, to) == 0)
            return true;
    }
    return false;
}

static void put_state(struct buf *out, const char *state)
{
    buf_printf(out, "%s%s", out->len ? ", " : "", state);
}

void transitions_valid_from(const struct state_rules *r, const char *from,
                            struct buf *out)
{
    for (size_t i = 0; !from && i < r->initial.count; i++)
        put_state(out, r->initial.items[i]);
    for (size_t i = 0; from && i < r->transitions.count; i++)
        if (leads_from(r->transitions.items[i], from))
            put_state(out, r->transitions.items[i] + strlen(from) + 1);
    if (!out->len)
        buf_puts(out, "no other state");
}

bool state_is_last(const struct state_rules *r, const char *state)
{
    for (size_t i = 0; i < r->transitions.count; i++)
        if (leads_from(r->transitions.items[i], state))
            return false;
    return true;
}

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

    if (!r || r->object.kind == EXPR_NONE)
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
