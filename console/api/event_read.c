/* event_read: GET /events/{id} and GET /attempts/{id}: what all processes know of an event. */
#include "alloc.h"
#include "api_request.h"
#include "bounds.h"
#include "commands.h"
#include "json_text.h"
#include "tenant.h"
#include "timeline.h"
#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

/* A delivery may have thousands of attempts, with their requests and responses. */
enum { NEWEST_ATTEMPTS = 100 };

/* ---- asking ---- */

/* The command by which a process tells what it knows of an event; NULL: it knows nothing. */
static const struct command_spec *trace_of(const char *process)
{
    return process_is(process, PROCESSES_WITH_ARCHIVE) ? &command_request_trace
           : process_is(process, "deliverer")          ? &command_attempts
           : process_is(process, "dlqd") ? &command_dead_letter_trace
                                         : NULL;
}

/* Asks all processes but the sequencer and the console. Ingress knows only the request of an
 * event that came with others. */
static void ask_others(struct api_request *r, const char *id,
                       const char *request)
{
    struct processes p;

    processes_in(r->api->daemon->settings->run_dir, &p);
    for (size_t i = 0; i < p.count; i++) {
        const struct command_spec *trace = trace_of(p.names[i]);
        bool part = *request && trace == &command_request_trace;
        json_t *args;

        if (!trace || (api_is_tenant(r) && trace != &command_attempts))
            continue; /* texts of the others name endpoints of others */
        args = json_pack("{s:s}", "id", part ? request : id);
        if (part)
            json_object_set_new(args, "event", json_string(id));
        if (trace == &command_attempts)
            json_object_set_new(args, "newest", json_integer(NEWEST_ATTEMPTS));
        api_ask(r, p.names[i], trace, args);
    }
    processes_fini(&p);
}

/* ---- GET /events/{id} ---- */

struct event_reading {
    json_t *event; /* the sequencer's reply; NULL: it has none */
    json_t *unreachable;
};

static void reading_free(void *state)
{
    struct event_reading *e = state;

    json_decref(e->event);
    json_decref(e->unreachable);
    free(e);
}

static void take_sequencer(struct api_request *r)
{
    struct event_reading *e = gr_alloc(sizeof *e);

    e->event = json_incref(api_reply(r, 0));
    e->unreachable = json_array();
    if (api_is_absent(r, 0))
        json_array_append_new(e->unreachable, json_string("sequencer"));
    r->state = e;
    r->state_free = reading_free;
}

/* The document of an event that the sequencer does not know. NULL: nobody does. */
static json_t *stored_document(const struct api_request *r, bool handed_on,
                               json_t *timeline)
{
    static const char *const fields[] = {"source", "received_at", "remote",
                                         "body_bytes", "handed_on"};
    const struct event_reading *e = r->state;
    json_t *out, *stored = NULL;

    for (size_t i = 0; i < r->asked_count && !stored; i++)
        if (json_object_get(api_reply(r, i), "body_bytes"))
            stored = api_reply(r, i);
    if (!stored && !json_array_size(timeline))
        return NULL;
    out = json_pack("{s:O,s:O,s:O}", "id", json_object_get(r->args, "id"),
                    "timeline", timeline, "unreachable", e->unreachable);
    for (size_t i = 0; stored && i < COUNT_OF(fields); i++)
        json_object_set(out, fields[i], json_object_get(stored, fields[i]));
    if (stored && !json_array_size(e->unreachable))
        json_object_set_new(out, "status",
                            json_string(handed_on ? "done" : "accepted"));
    return out;
}

/* The sequencer has left out deliveries to endpoints of others; do the same with attempts. */
static void keep_own(const json_t *event, json_t *reply)
{
    json_t *own = json_array(), *delivery;
    size_t i;

    json_array_foreach(json_object_get(event, "deliveries"), i, delivery)
        json_array_append(own, json_object_get(delivery, "endpoint"));
    tenant_keep(json_object_get(reply, "attempts"), own);
    json_decref(own);
}

static void respond_merged(struct api_request *r)
{
    struct event_reading *e = r->state;
    json_t *timeline = json_array(), *out;
    bool handed_on = false;

    timeline_add(timeline, e->event);
    for (size_t i = 0; i < r->asked_count; i++) {
        json_t *reply = api_reply(r, i);

        if (api_is_absent(r, i))
            json_array_append_new(e->unreachable,
                                  json_string(r->asked[i]->name));
        handed_on |= json_is_true(json_object_get(reply, "handed_on"));
        if (api_is_tenant(r))
            keep_own(e->event, reply);
        else
            timeline_add(timeline, reply);
        timeline_add_attempts(timeline, e->event, reply);
    }
    timeline = timeline_sorted(timeline);
    if (e->event) {
        out = json_incref(e->event);
        json_object_set(out, "timeline", timeline);
        json_object_set(out, "unreachable", e->unreachable);
    } else {
        out = stored_document(r, handed_on, timeline);
    }
    json_decref(timeline);
    if (out)
        api_respond(r, out);
    else if (json_array_size(e->unreachable))
        api_fail(r, WEB_PROCESS_UNAVAILABLE, NULL,
                 "no process that responds knows this event; %s does not "
                 "respond",
                 json_string_value(json_array_get(e->unreachable, 0)));
    else
        api_fail(r, WEB_NOT_FOUND, NULL, "no event has this id");
}

static bool is_one_event(struct api_request *r, const json_t *reply)
{
    if (!json_object_get(reply, "matches"))
        return true;
    api_fail(r, WEB_NOT_FOUND, NULL,
             "several events have this provider id; GET /events?id= lists "
             "them");
    return false;
}

void event_read(struct api_request *r)
{
    const struct event_reading *e;
    const char *id;

    if (r->stage++ == 0) {
        json_t *args = json_copy(r->args);

        json_object_set_new(args, "newest", json_integer(NEWEST_ATTEMPTS));
        api_ask(r, "sequencer", &command_event, args);
    } else if (r->stage == 2) {
        if (!is_one_event(r, api_reply(r, 0)))
            return;
        if ((api_is_tenant(r) || api_has_failed(r, 0)) && !api_answered(r, 0))
            return;
        take_sequencer(r);
        e = r->state;
        id = e->event ? text_of(e->event, "id") : text_of(r->args, "id");
        api_forget(r);
        ask_others(r, id, text_of(e->event, "request"));
    } else {
        respond_merged(r);
    }
}

/* ---- GET /attempts/{id} ---- */

/* "evt_….crm.2"; an endpoint's name may have dots. false: it has another form. */
static bool split_id(const char *id, char event[EVENT_ID_BYTES + 1],
                     char **endpoint, json_int_t *n)
{
    const char *last = strrchr(id, '.');
    char *end;

    if (!last || strlen(id) <= EVENT_ID_BYTES || id[EVENT_ID_BYTES] != '.' ||
        last <= id + EVENT_ID_BYTES + 1 || last[1] < '1' || last[1] > '9')
        return false;
    *n = strtoll(last + 1, &end, 10);
    if (*end)
        return false;
    memcpy(event, id, EVENT_ID_BYTES);
    event[EVENT_ID_BYTES] = 0;
    *endpoint = gr_strndup(id + EVENT_ID_BYTES + 1,
                           (size_t)(last - id) - EVENT_ID_BYTES - 1);
    return true;
}

void attempt_read(struct api_request *r)
{
    char event[EVENT_ID_BYTES + 1], *endpoint = NULL;
    json_t *found = NULL, *a;
    struct processes p;
    json_int_t n = 0;
    size_t k;

    if (!split_id(text_of(r->args, "id"), event, &endpoint, &n)) {
        api_fail(r, WEB_NOT_FOUND, NULL,
                 "the id of an attempt is EVENT.ENDPOINT.N");
        return;
    }
    if (r->stage++ == 0) {
        api_processes(r, "deliverer", &p);
        for (size_t i = 0; i < p.count; i++)
            api_ask(r, p.names[i], &command_attempts,
                    json_pack("{s:s,s:s,s:I}", "id", event, "endpoint",
                              endpoint, "n", n));
        processes_fini(&p);
        free(endpoint);
        return;
    }
    free(endpoint);
    for (size_t i = 0; i < r->asked_count; i++)
        json_array_foreach(json_object_get(api_reply(r, i), "attempts"), k, a)
            found = a;
    if (found) {
        api_respond(r, json_incref(found));
        return;
    }
    for (size_t i = 0; i < r->asked_count; i++)
        if (api_is_absent(r, i)) {
            api_answered(r, i); /* that one may have it */
            return;
        }
    api_fail(r, WEB_NOT_FOUND, NULL,
             "no deliverer has this attempt; GET /events/{id} lists the "
             "attempts, which are kept for history.keep");
}
