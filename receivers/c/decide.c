/* decide.c: what a number says about an event: the rule of docs/RECEIVING.md. Pure. */
#include "internal.h"
#include <string.h>

const char *grapnel_result_name(enum grapnel_result result)
{
    switch (result) {
    case GRAPNEL_OK:
        return "ok";
    case GRAPNEL_DUPLICATE:
        return "duplicate";
    case GRAPNEL_OLD_EVENT:
        return "old_event";
    case GRAPNEL_GAP_DETECTED:
        return "gap_detected";
    case GRAPNEL_NEW_SERIES:
        return "new_series";
    }
    return "";
}

void grapnel_plain(bool first, struct grapnel_check *check)
{
    memset(check, 0, sizeof *check);
    check->result = first ? GRAPNEL_OK : GRAPNEL_DUPLICATE;
}

void grapnel_decide(const struct grapnel_event *e, bool first,
                    const struct grapnel_facts *f, struct grapnel_check *check,
                    struct grapnel_state *state)
{
    *state = (struct grapnel_state){f->has_floor, f->floor, f->announced};
    /* An event that an operator sent again is old, so it does not begin the numbering. */
    if (!f->has_floor && !e->replay) {
        state->has_floor = true;
        state->floor = e->previous;
    }
    state->announced = f->announced || (first && !e->replay);

    memset(check, 0, sizeof *check);
    check->result = GRAPNEL_OK;
    if (state->has_floor && e->previous > state->floor && !f->has_previous) {
        check->result = GRAPNEL_GAP_DETECTED;
        check->missing = e->previous;
        check->after = f->below > state->floor ? f->below : state->floor;
        check->unsure = f->in_other;
    }
    if (!first)
        check->result = GRAPNEL_DUPLICATE;
    else if (f->earlier && !f->announced && !e->replay)
        check->result = GRAPNEL_NEW_SERIES;
    else if (!state->has_floor || e->sequence <= state->floor ||
             e->sequence <= f->highest)
        check->result = GRAPNEL_OLD_EVENT;
    check->filled = f->named && !f->holder[0] && f->has_floor &&
                    e->sequence > f->floor;
    if (strcmp(f->holder, e->id) != 0)
        grapnel_copy(check->conflict, sizeof check->conflict, f->holder);
}
