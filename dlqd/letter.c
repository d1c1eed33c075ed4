#include "letter.h"
#include "alloc.h"
#include "clock.h"
#include "json_text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct state table[LETTER_STATES] = {
    [LETTER_DEAD] = {"dead",
                     STATE_TO(LETTER_REQUEUED) | STATE_TO(LETTER_RECOVERED) |
                         STATE_TO(LETTER_RESOLVED) |
                         STATE_TO(LETTER_DISCARDED) | STATE_TO(LETTER_DEAD)},
    [LETTER_REQUEUED] = {"requeued",
                         STATE_TO(LETTER_RECOVERED) | STATE_TO(LETTER_DEAD)},
    [LETTER_RECOVERED] = {"recovered", STATE_TO(LETTER_DEAD)},
    [LETTER_RESOLVED] = {"resolved",
                         STATE_TO(LETTER_RECOVERED) | STATE_TO(LETTER_DEAD)},
    [LETTER_DISCARDED] = {"discarded",
                          STATE_TO(LETTER_RECOVERED) | STATE_TO(LETTER_DEAD)},
};

const struct states letter_states = {"letter", table, LETTER_STATES};

void letter_fini(struct letter *l)
{
    free(l->id);
    free(l->sequencer);
    free(l->event_id);
    free(l->endpoint);
    free(l->reason);
    free(l->source);
    free(l->provider_id);
    free(l->type);
    free(l->workspace);
    free(l->clock);
    free(l->last_error);
    free(l->note);
    free((void *)l->last_response.p);
    *l = (struct letter){0};
}

enum letter_news letter_died(const struct letter *l, uint64_t life,
                             int64_t dead_ms)
{
    if (!l)
        return LETTER_NEW;
    if (life < (uint64_t)l->life ||
        (life == (uint64_t)l->life && dead_ms <= l->dead_ms))
        return LETTER_REPEATED;
    return LETTER_MOVES;
}

enum letter_news letter_recovered(const struct letter *l, uint64_t life)
{
    if (!l)
        return LETTER_UNKNOWN;
    if (life < (uint64_t)l->life || l->state == LETTER_RECOVERED)
        return LETTER_REPEATED;
    return LETTER_MOVES;
}

bool letter_may_retry(const struct letter *l, char why[200])
{
    char since[RFC3339_BYTES];

    if (!l) {
        snprintf(why, 200, "there is no such letter");
        return false;
    }
    rfc3339(since, l->moved_ms);
    switch ((enum letter_state)l->state) {
    case LETTER_DEAD:
        return true;
    case LETTER_REQUEUED:
        snprintf(why, 200,
                 "it was requeued already at %s and is being tried; it comes "
                 "back as dead if that fails",
                 since);
        return false;
    case LETTER_RECOVERED:
        snprintf(why, 200, "it was delivered at %s; there is nothing to retry",
                 since);
        return false;
    case LETTER_RESOLVED:
    case LETTER_DISCARDED:
        snprintf(why, 200, "it was %s at %s; there is nothing to retry",
                 states_name(&letter_states, l->state), since);
        return false;
    case LETTER_STATES:
        break;
    }
    snprintf(why, 200, "it is in a state that this program does not know");
    return false;
}

bool letter_may_decide(const struct letter *l, char why[200])
{
    char since[RFC3339_BYTES];

    if (!l) {
        snprintf(why, 200, "there is no such letter");
    } else if (l->state != LETTER_DEAD) {
        rfc3339(since, l->moved_ms);
        snprintf(why, 200, "it is not dead: %s since %s",
                 states_name(&letter_states, l->state), since);
    }
    return l && l->state == LETTER_DEAD;
}

const char *letter_fault(const char *reason)
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

json_t *letter_json(const struct letter *l)
{
    json_t *out = json_object();

    json_object_set_new(out, "id", json_text_of(l->id));
    json_object_set_new(out, "event_id", json_text_of(l->event_id));
    json_object_set_new(out, "endpoint", json_text_of(l->endpoint));
    json_object_set_new(out, "reason", json_text_of(l->reason));
    json_object_set_new(out, "state",
                        json_string(states_name(&letter_states, l->state)));
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
