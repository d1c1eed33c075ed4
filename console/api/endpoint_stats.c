/* endpoint_stats: GET /endpoints/{name}/stats: what the sequencer and the endpoint's deliverer know. */
#include "api_request.h"
#include "commands.h"

static void stats_free(void *state)
{
    json_decref(state);
}

void stats_read(struct api_request *r)
{
    const char *owner;
    json_t *throttle;

    if (r->stage == 0) {
        r->stage = 1;
        api_ask(r, "sequencer", &command_endpoint_stats, json_incref(r->args));
        return;
    }
    if (r->stage == 1) {
        if (!api_answered(r, 0))
            return;
        r->stage = 2;
        r->state = json_incref(api_reply(r, 0));
        r->state_free = stats_free;
        api_forget(r);
        owner = json_string_value(json_object_get(r->state, "owner"));
        if (owner) {
            api_ask(r, owner, &command_throttle,
                    json_pack("{s:O}", "endpoint",
                              json_object_get(r->args, "name")));
            return;
        }
    }
    throttle = api_reply(r, 0);
    for (size_t i = 0; i < 3; i++) {
        static const char *const keys[] = {"breaker", "window", "rate_wait_ms"};
        json_t *v = json_object_get(throttle, keys[i]);

        json_object_set_new(r->state, keys[i],
                            v ? json_incref(v) : json_null());
    }
    api_respond(r, json_incref(r->state));
}
