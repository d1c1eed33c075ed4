/* dead_letter: the table of states, and the rules of its transitions. */
#include "dead_letter.h"
#include "alloc.h"
#include "clock.h"
#include "json_text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct state table[DEAD_LETTER_STATES] = {
    [DEAD_LETTER_DEAD] = {"dead", STATE_TO(DEAD_LETTER_REQUEUED) |
                                      STATE_TO(DEAD_LETTER_RECOVERED) |
                                      STATE_TO(DEAD_LETTER_RESOLVED) |
                                      STATE_TO(DEAD_LETTER_DISCARDED) |
                                      STATE_TO(DEAD_LETTER_DEAD)},
    [DEAD_LETTER_REQUEUED] = {"requeued", STATE_TO(DEAD_LETTER_RECOVERED) |
                                              STATE_TO(DEAD_LETTER_DEAD)},
    [DEAD_LETTER_RECOVERED] = {"recovered", STATE_TO(DEAD_LETTER_DEAD)},
    [DEAD_LETTER_RESOLVED] = {"resolved", STATE_TO(DEAD_LETTER_RECOVERED) |
                                              STATE_TO(DEAD_LETTER_DEAD)},
    [DEAD_LETTER_DISCARDED] = {"discarded", STATE_TO(DEAD_LETTER_RECOVERED) |
                                                STATE_TO(DEAD_LETTER_DEAD)},
};

const struct states dead_letter_states = {"dead letter", table,
                                          DEAD_LETTER_STATES};

void dead_letter_fini(struct dead_letter *l)
{
    ROW_FREE(DEAD_LETTER_COLUMNS, l);
    *l = (struct dead_letter){0};
}

enum dead_letter_news dead_letter_died(const struct dead_letter *l,
                                       uint64_t generation, int64_t dead_ms)
{
    if (!l)
        return DEAD_LETTER_NEW;
    if (generation < (uint64_t)l->generation ||
        (generation == (uint64_t)l->generation && dead_ms <= l->dead_ms))
        return DEAD_LETTER_DUPLICATE;
    return DEAD_LETTER_MOVES;
}

enum dead_letter_news dead_letter_recovered(const struct dead_letter *l,
                                            uint64_t generation)
{
    if (!l)
        return DEAD_LETTER_UNKNOWN;
    if (generation < (uint64_t)l->generation ||
        l->state == DEAD_LETTER_RECOVERED)
        return DEAD_LETTER_DUPLICATE;
    return DEAD_LETTER_MOVES;
}

bool dead_letter_may_retry(const struct dead_letter *l, char why[200])
{
    char since[RFC3339_BYTES];

    if (!l) {
        snprintf(why, 200,
                 "no dead letter has this id: `grapnel dlq` lists them");
        return false;
    }
    rfc3339(since, l->moved_ms);
    switch ((enum dead_letter_state)l->state) {
    case DEAD_LETTER_DEAD:
        return true;
    case DEAD_LETTER_REQUEUED:
        snprintf(why, 200,
                 "it was already requeued at %s and is being tried; if that "
                 "fails, it is dead again",
                 since);
        return false;
    case DEAD_LETTER_RECOVERED:
        snprintf(why, 200, "it was delivered at %s; there is nothing to retry",
                 since);
        return false;
    case DEAD_LETTER_RESOLVED:
    case DEAD_LETTER_DISCARDED:
        snprintf(why, 200, "it was %s at %s; there is nothing to retry",
                 states_name(&dead_letter_states, l->state), since);
        return false;
    case DEAD_LETTER_STATES:
        break;
    }
    snprintf(why, 200, "its state is unknown to this version");
    return false;
}

bool dead_letter_may_decide(const struct dead_letter *l, char why[200])
{
    char since[RFC3339_BYTES];

    if (!l) {
        snprintf(why, 200,
                 "no dead letter has this id: `grapnel dlq` lists them");
    } else if (l->state != DEAD_LETTER_DEAD) {
        rfc3339(since, l->moved_ms);
        snprintf(why, 200, "it is not dead: %s since %s",
                 states_name(&dead_letter_states, l->state), since);
    }
    return l && l->state == DEAD_LETTER_DEAD;
}

const char *dead_letter_fault(const char *reason)
{
    static const char *const endpoints[] = {"rejected", "budget_attempts",
                                            "budget_time", "endpoint_gone",
                                            "blocked_address"};

    for (size_t i = 0; i < COUNT_OF(endpoints); i++)
        if (strcmp(reason, endpoints[i]) == 0)
            return "endpoint";
    if (strncmp(reason, "refused:", strlen("refused:")) == 0 ||
        strcmp(reason, "invalid_transition") == 0 ||
        strcmp(reason, "expired") == 0)
        return "event";
    return "pipeline";
}

json_t *dead_letter_json(const struct dead_letter *l)
{
    json_t *out = json_object();

    json_object_set_new(out, "id", json_text_of(l->id));
    json_object_set_new(out, "event_id", json_text_of(l->event_id));
    json_object_set_new(out, "endpoint", json_text_of(l->endpoint));
    json_object_set_new(out, "reason", json_text_of(l->reason));
    json_object_set_new(
        out, "state", json_string(states_name(&dead_letter_states, l->state)));
    json_object_set_new(out, "attempts", json_integer(l->attempts));
    json_object_set_new(out, "first_at", json_time(l->first_ms));
    json_object_set_new(out, "dead_at", json_time(l->dead_ms));
    json_object_set_new(out, "last_http_status",
                        json_number_or_null(l->last_http_status));
    json_object_set_new(out, "last_error", json_text_or_null(l->last_error));
    json_object_set_new(out, "last_response",
                        l->last_response.n ? json_text(l->last_response)
                                           : json_null());
    json_object_set_new(out, "note", json_text_or_null(l->note));
    return out;
}
