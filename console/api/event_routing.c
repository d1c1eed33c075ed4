/* event_routing: GET /events/{id}/routing: what the sequencer knows, and the circuit breakers of endpoints whose
 * deliveries are at deliverers. */
#include "api_request.h"
#include "commands.h"
#include <stdlib.h>
#include <string.h>

enum { BREAKERS_MAX = 20 }; /* endpoints whose deliverers are asked */

struct routing_state {
    json_t *reply;
    json_t *asked[BREAKERS_MAX]; /* borrowed from the reply */
    size_t count;
};

static void routing_free(void *state)
{
    struct routing_state *s = state;

    json_decref(s->reply);
    free(s);
}

static bool may_be_broken(const json_t *one)
{
    static const char *const causes[] = {"in_flight", "retry_scheduled",
                                         "capacity"};
    const char *cause = json_string_value(json_object_get(one, "cause"));

    for (size_t i = 0; i < COUNT_OF(causes); i++)
        if (cause && strcmp(cause, causes[i]) == 0)
            return json_is_string(json_object_get(one, "deliverer"));
    return false;
}

static void ask_breakers(struct api_request *r, struct routing_state *s)
{
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(s->reply, "endpoints"), i, one)
    {
        if (s->count == BREAKERS_MAX || !may_be_broken(one))
            continue;
        s->asked[s->count++] = one;
        api_ask(
            r, json_string_value(json_object_get(one, "deliverer")),
            &command_throttle,
            json_pack("{s:O}", "endpoint", json_object_get(one, "endpoint")));
    }
}

void event_routing_read(struct api_request *r)
{
    struct routing_state *s = r->state;

    if (r->stage == 0) {
        r->stage = 1;
        api_ask(r, "sequencer", r->command, json_incref(r->args));
        return;
    }
    if (r->stage == 1) {
        if (!api_answered(r, 0))
            return;
        r->stage = 2;
        r->state = s = gr_alloc(sizeof *s);
        r->state_free = routing_free;
        s->reply = json_incref(api_reply(r, 0));
        api_forget(r);
        ask_breakers(r, s);
        if (s->count)
            return;
    }
    for (size_t i = 0; i < s->count; i++) {
        const char *breaker = json_string_value(
            json_object_get(api_reply(r, i), "breaker"));

        if (!breaker || strcmp(breaker, "closed") == 0)
            continue;
        json_object_set_new(s->asked[i], "cause", json_string("breaker_open"));
        json_object_set_new(
            s->asked[i], "why",
            json_string(
                "the circuit breaker of the endpoint is open: it fails "
                "continuously, and gets one attempt at a time until one "
                "succeeds"));
    }
    api_respond(r, json_incref(s->reply));
}
