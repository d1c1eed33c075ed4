/* event_routing: GET /events/{id}/routing: what the sequencer knows, and the circuit breakers and rate limits of
 * endpoints whose deliveries are at deliverers. */
#include "api_request.h"
#include "commands.h"
#include <stdlib.h>
#include <string.h>

enum { ASKED_MAX = 20 }; /* endpoints whose deliverers are asked */

struct routing_state {
    json_t *reply;
    json_t *asked[ASKED_MAX]; /* borrowed from the reply */
    size_t count;
};

static void routing_free(void *state)
{
    struct routing_state *s = state;

    json_decref(s->reply);
    free(s);
}

static bool has_cause(const json_t *one, const char *name)
{
    const char *cause = json_string_value(json_object_get(one, "cause"));

    return cause && strcmp(cause, name) == 0;
}

static bool may_be_throttled(const json_t *one)
{
    return (has_cause(one, "in_flight") || has_cause(one, "capacity") ||
            has_cause(one, "retry_scheduled")) &&
           json_is_string(json_object_get(one, "deliverer"));
}

static void ask_deliverers(struct api_request *r, struct routing_state *s)
{
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(s->reply, "endpoints"), i, one)
    {
        if (s->count == ASKED_MAX || !may_be_throttled(one))
            continue;
        s->asked[s->count++] = one;
        api_ask(
            r, json_string_value(json_object_get(one, "deliverer")),
            &command_throttle,
            json_pack("{s:O}", "endpoint", json_object_get(one, "endpoint")));
    }
}

/* What its deliverer said. A retry that is not due waits for its time, not for the rate. */
static void explain(json_t *one, const json_t *throttle)
{
    const char *breaker = json_string_value(
        json_object_get(throttle, "breaker"));
    json_int_t wait_ms = json_integer_value(
        json_object_get(throttle, "rate_wait_ms"));

    if (breaker && strcmp(breaker, "closed") != 0) {
        json_object_set_new(one, "cause", json_string("breaker_open"));
        json_object_set_new(
            one, "why",
            json_string(
                "the circuit breaker of the endpoint is open: it fails "
                "continuously, and gets one attempt at a time until one "
                "succeeds"));
    } else if (wait_ms > 0 && !has_cause(one, "retry_scheduled")) {
        json_object_set_new(one, "cause", json_string("rate_limit"));
        json_object_set_new(
            one, "why",
            json_sprintf("deliveries wait for the rate_limit of the endpoint: "
                         "it permits the next attempt in %" JSON_INTEGER_FORMAT
                         " ms",
                         wait_ms));
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
        ask_deliverers(r, s);
        if (s->count)
            return;
    }
    for (size_t i = 0; i < s->count; i++) {
        explain(s->asked[i], api_reply(r, i));
    }
    api_respond(r, json_incref(s->reply));
}
