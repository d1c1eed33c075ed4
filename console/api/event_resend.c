/* event_resend: POST /events/{event}/resend: the sequencer knows whether it was delivered, and an
 * ingress, or the sequencer for an operational event, has its request. */
#include "api_request.h"
#include "bounds.h"
#include "commands.h"
#include "operational.h"
#include <stdlib.h>
#include <string.h>

struct resending {
    json_t *args; /* of the command */
    const struct command_spec *command;
    struct processes processes; /* that may have it */
    size_t next;
};

static void resending_free(void *state)
{
    struct resending *s = state;

    json_decref(s->args);
    processes_fini(&s->processes);
    free(s);
}

/* Whether an event with these facts (JSON null: unknown) can be sent again. */
static bool may_resend(struct api_request *r, const json_t *facts)
{
    const char *status = json_string_value(json_object_get(facts, "status"));

    if (!status || strcmp(status, "routed") == 0)
        return true;
    if (strcmp(status, "duplicate") == 0)
        api_fail(r, WEB_REFUSED, NULL,
                 "it is a duplicate and was not delivered; POST "
                 "/events/{event}/release delivers it");
    else if (strcmp(status, "split") == 0)
        api_fail(r, WEB_REFUSED, NULL,
                 "it is a request of several events; GET /events/{id} lists "
                 "them");
    else if (strcmp(status, "erased") == 0)
        api_fail(r, WEB_NOT_FOUND, NULL,
                 "the workspace of the event was erased: there is nothing to "
                 "send");
    else if (strcmp(status, "buffered") == 0)
        api_fail(r, WEB_REFUSED, NULL,
                 "it waits for earlier events and was not delivered yet; GET "
                 "/gaps?open=true lists what is missing");
    else
        api_fail(r, WEB_REFUSED, NULL, "it was %s and never delivered", status);
    return false;
}

static void take_facts(struct api_request *r)
{
    const json_t *facts = json_array_get(
        json_object_get(api_reply(r, 0), "events"), 0);
    json_t *one = json_pack("{s:O}", "id", json_object_get(r->args, "event"));
    const char *source = json_string_value(json_object_get(facts, "source"));
    bool own = source && strcmp(source, OPERATIONAL_SOURCE) == 0;
    struct resending *s = gr_alloc(sizeof *s);

    if (json_is_string(json_object_get(facts, "request")))
        json_object_set(one, "request", json_object_get(facts, "request"));
    s->args = json_copy(r->args);
    json_object_del(s->args, "event");
    json_object_set_new(s->args, "events", json_pack("[o]", one));
    if (json_object_get(s->args, "endpoint") &&
        !json_object_get(s->args, "always"))
        json_object_set_new(s->args, "always", json_true());
    s->command = own ? &command_operational_resend : &command_resend;
    api_processes(r, own ? s->command->process : PROCESSES_WITH_ARCHIVE,
                  &s->processes);
    r->state = s;
    r->state_free = resending_free;
}

static void ask_next(struct api_request *r)
{
    struct resending *s = r->state;

    api_forget(r);
    if (s->next < s->processes.count)
        api_ask(r, s->processes.names[s->next++], s->command,
                json_incref(s->args));
    else
        api_fail(r, WEB_NOT_FOUND, NULL,
                 "no %s has this event any more; %s sets how long requests are "
                 "kept",
                 s->command->process,
                 s->command == &command_resend ? "ingress.archive"
                                               : "history.keep");
}

void event_resend(struct api_request *r)
{
    const char *event = json_string_value(json_object_get(r->args, "event"));

    if (r->stage++ == 0) {
        if (json_object_get(r->args, "events"))
            api_fail(r, WEB_INVALID_ARGUMENT, "events",
                     "events: the path names the event");
        else if (strlen(event) != EVENT_ID_BYTES)
            api_fail(r, WEB_NOT_FOUND, NULL, "no event has the id %.60s",
                     event);
        else
            api_ask(r, "sequencer", &command_facts,
                    json_pack("{s:[O],s:O*}", "ids",
                              json_object_get(r->args, "event"), "endpoint",
                              json_object_get(r->args, "endpoint")));
        return;
    }
    if (!api_answered(r, 0))
        return;
    if (r->stage == 2) {
        if (!may_resend(r, json_array_get(
                               json_object_get(api_reply(r, 0), "events"), 0)))
            return;
        take_facts(r);
        ask_next(r);
    } else if (json_array_size(json_object_get(api_reply(r, 0), "resent"))) {
        api_respond(r, json_incref(api_reply(r, 0)));
    } else {
        ask_next(r);
    }
}
