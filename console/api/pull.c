/* pull: the routes of consumers of pull endpoints, /pull/{endpoint}/…: finds the deliverer that has
 * the endpoint, and asks it. */
#include "api_request.h"
#include "clock.h"
#include "commands.h"
#include "ulid.h"
#include <stdlib.h>
#include <string.h>

enum {
    MARGIN_MS = 5 *
                1000, /* for the reply, beside the wait that was asked for */
    /* Takes that wait; other requests need connections, too. */
    WAITING_MAX = 48,
    WAITING_OF_TOKEN = 16,
    WAITING_OF_TENANTS = 24, /* operators get the others */
    /* While no deliverer has the endpoint: it may be about to get one. */
    AGAIN_MS = 100,
    PATIENCE_MS = 2000,
};

enum { RESTART = 1000 }; /* a stage that is not reached otherwise */

/* ---- take: each deliverer is asked, until one has the endpoint ---- */

struct taking {
    struct processes deliverers;
    size_t next;
    int64_t until_ms, began_ms; /* mono: end and begin of the wait */
    bool given_back;            /* nobody is there to get the reply */
};

static void taking_free(void *state)
{
    struct taking *t = state;

    processes_fini(&t->deliverers);
    free(t);
}

static int64_t wait_ms_of(const struct api_request *r)
{
    return json_integer_value(json_object_get(r->args, "wait_ms"));
}

/* Whether another take may wait. */
static bool may_wait(struct api_request *r)
{
    int64_t tenant_max = r->api->daemon->settings->tenants.takes;
    const struct api_request *other;
    int all = 0, of_token = 0, of_tenant = 0, of_tenants = 0;

    TAILQ_FOREACH(other, &r->api->all, link)
    if (other->command == &command_pull_take && other != r &&
        !other->responded && other->args && wait_ms_of(other) > 0) {
        all++;
        of_token += strcmp(other->actor.owner, r->actor.owner) == 0;
        of_tenants += api_is_tenant(other);
        of_tenant += api_is_tenant(r) &&
                     strcmp(other->actor.workspace, r->actor.workspace) == 0;
    }
    if (api_is_tenant(r) && of_tenant >= tenant_max) {
        web_add_header(r->web, "Retry-After", "1");
        api_fail(r, WEB_RATE_LIMITED, NULL,
                 "too many takes of this workspace wait for deliveries: at "
                 "most %lld",
                 (long long)tenant_max);
        return false;
    }
    if (api_is_tenant(r) && of_tenants >= WAITING_OF_TENANTS)
        all = WAITING_MAX;
    if (all < WAITING_MAX && of_token < WAITING_OF_TOKEN)
        return true;
    web_add_header(r->web, "Retry-After", "1");
    api_fail(r, WEB_BUSY, NULL,
             "too many requests wait for deliveries: at most %d of a token, "
             "and %d in all",
             WAITING_OF_TOKEN, WAITING_MAX);
    return false;
}

static bool refused_with(const struct api_request *r, const char *code)
{
    const struct process_question *q = r->asked_count ? r->asked[0] : NULL;

    return q && q->end == QUESTION_REFUSED && strcmp(q->code, code) == 0;
}

/* It does not have the endpoint, or cannot say so. */
static bool is_elsewhere(const struct api_request *r)
{
    return refused_with(r, "not_owner") ||
           r->asked[0]->end == QUESTION_UNAVAILABLE ||
           r->asked[0]->end == QUESTION_UNHEARD;
}

/* No deliverer has the endpoint: the sequencer knows why. */
static void explain(struct api_request *r, const json_t *endpoint)
{
    const char *state = json_string_value(json_object_get(endpoint, "state"));
    const char *name = json_string_value(json_object_get(endpoint, "name"));
    struct taking *t = r->state;

    if (state && strcmp(state, "active") != 0 && strcmp(state, "held") != 0) {
        api_fail(r, WEB_REFUSED, NULL, "the endpoint %s is %s", name, state);
        return;
    }
    if (mono_ms() - t->began_ms < PATIENCE_MS || mono_ms() < t->until_ms) {
        t->next = 0;
        r->stage = RESTART;
        api_forget(r);
        api_again_in(r, AGAIN_MS);
        return;
    }
    web_add_header(r->web, "Retry-After", "1");
    api_fail(r, WEB_PROCESS_UNAVAILABLE, NULL,
             "no deliverer has the endpoint %s at the moment: repeat the "
             "request; `grapnel status` shows the processes",
             name);
}

static void ask_next(struct api_request *r)
{
    struct taking *t = r->state;
    int64_t left_ms = t->until_ms - mono_ms();

    api_forget(r);
    if (t->next == t->deliverers.count) {
        t->next++;
        api_ask(r, "sequencer", &command_pull_want,
                json_pack("{s:O}", "endpoint",
                          json_object_get(r->args, "endpoint")));
        return;
    }
    if (json_object_get(r->args, "wait_ms"))
        json_object_set_new(r->args, "wait_ms",
                            json_integer(left_ms > 0 ? left_ms : 0));
    api_ask_waiting(r, t->deliverers.names[t->next++], r->command,
                    json_incref(r->args),
                    (left_ms > 0 ? (int)left_ms : 0) + MARGIN_MS);
}

/* The client left while its take was made: its deliveries need not wait for the end of the lease. */
static void return_take(struct api_request *r)
{
    struct taking *t = r->state;
    json_t *args = json_pack("{s:O,s:O,s:i,s:s}", "endpoint",
                             json_object_get(r->args, "endpoint"), "take",
                             json_object_get(api_reply(r, 0), "take"),
                             "delay_ms", 0, "note", "the client has gone");

    t->given_back = true;
    api_forget(r);
    api_ask(r, t->deliverers.names[t->next - 1], &command_pull_retry, args);
}

void pull_take(struct api_request *r)
{
    struct taking *t = r->state;

    if (r->stage++ == 0) {
        if (wait_ms_of(r) > 0 && !may_wait(r))
            return;
        r->waits = true;
        r->state = t = gr_alloc(sizeof *t);
        r->state_free = taking_free;
        t->began_ms = mono_ms();
        t->until_ms = t->began_ms + wait_ms_of(r);
        api_processes(r, "deliverer", &t->deliverers);
        ask_next(r);
    } else if (t->given_back) {
        api_fail(r, WEB_BUSY, NULL, "the client has gone");
    } else if (r->stage > RESTART) { /* api_again_in() */
        r->stage = 1;
        ask_next(r);
    } else if (t->next > t->deliverers.count) {
        if (api_answered(r, 0))
            explain(r, api_reply(r, 0));
    } else if (is_elsewhere(r)) {
        ask_next(r);
    } else if (api_answered(r, 0)) {
        if (web_client_left(r->web) &&
            json_is_string(json_object_get(api_reply(r, 0), "take")))
            return_take(r);
        else
            api_respond(r, json_incref(api_reply(r, 0)));
    }
}

/* ---- ack, retry, dead: the take's id names the deliverer that made it ---- */

/* "take_", a ULID, "_", a name; NULL: it is not. */
static const char *maker_of(const char *id)
{
    static const char prefix[] = "take_";
    const size_t n = sizeof prefix - 1 + ULID_BYTES;
    const char *name;

    if (strncmp(id, prefix, sizeof prefix - 1) != 0 || strnlen(id, n) < n ||
        id[n] != '_')
        return NULL;
    name = id + n + 1;
    if (!process_is(name, "deliverer") || strlen(name) > NAME_MAX_BYTES ||
        name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-")])
        return NULL;
    return name;
}

void pull_end(struct api_request *r)
{
    const char *id = json_string_value(json_object_get(r->args, "take"));
    const char *maker = maker_of(id);

    if (r->stage++ == 0 && !maker)
        api_fail(r, WEB_NOT_FOUND, "take", "take: %.60s is not one", id);
    else if (r->stage == 1)
        api_ask(r, maker, r->command, json_incref(r->args));
    else if (api_answered(r, 0))
        api_respond(r, json_incref(api_reply(r, 0)));
}
