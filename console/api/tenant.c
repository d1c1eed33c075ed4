/* tenant: checks the requests of workspaces. */
#include "tenant.h"
#include "bounds.h"
#include "clock.h"
#include "commands.h"
#include "json_text.h"
#include <stdlib.h>
#include <string.h>

enum {
    WORKSPACES_MAX = 1024,
    TESTS_AT_ONCE = 3,
    CHANGES_AT_ONCE = 60,
    ID_BYTES = EVENT_ID_BYTES - 4
};

/* ---- how often ---- */

struct limited {
    char workspace[TOKEN_WORKSPACE_MAX_BYTES + 1]; /* "": the entry is free */
    int64_t used_us;
    struct bucket requests, tests, changes;
};

struct tenant_limits {
    struct limited all[WORKSPACES_MAX];
};

struct tenant_limits *tenant_limits_new(void)
{
    return gr_alloc(sizeof(struct tenant_limits));
}

void tenant_limits_free(struct tenant_limits *t)
{
    free(t);
}

/* That of the workspace; one that is new gets the place that was not used for the longest time. */
static struct limited *limits_of(struct api_request *r, int64_t now_us)
{
    struct limited *all = r->api->tenants->all, *best = all;

    for (size_t i = 0; i < WORKSPACES_MAX; i++) {
        if (strcmp(all[i].workspace, r->actor.workspace) == 0) {
            best = &all[i];
            break;
        }
        if (all[i].used_us < best->used_us)
            best = &all[i];
    }
    if (strcmp(best->workspace, r->actor.workspace) != 0) {
        *best = (struct limited){.workspace = ""};
        snprintf(best->workspace, sizeof best->workspace, "%s",
                 r->actor.workspace);
    }
    best->used_us = now_us;
    return best;
}

/* What `burst_us` permits may come at once. false: responds. */
static bool is_slow_enough(struct api_request *r, struct bucket *b,
                           const struct rate *rate, int64_t burst_us,
                           int64_t now_us, const char *what)
{
    int64_t left_us;
    char seconds[24];

    if (!rate->count)
        return true;
    if (bucket_has(b, burst_us, now_us)) {
        bucket_take(b, rate_interval_us(rate), now_us);
        return true;
    }
    left_us = bucket_ready_us(b, burst_us) - now_us;
    snprintf(seconds, sizeof seconds, "%lld",
             (long long)(left_us / 1000000 + 1));
    web_add_header(r->web, "Retry-After", seconds);
    api_fail(r, WEB_RATE_LIMITED, NULL,
             "too many %s for this workspace: wait %s s", what, seconds);
    return false;
}

bool tenant_may_ask(struct api_request *r)
{
    int64_t now_us = mono_us();

    return is_slow_enough(r, &limits_of(r, now_us)->requests,
                          &r->api->daemon->settings->tenants.requests, 1000000,
                          now_us, "requests");
}

static bool is_rare_enough(struct api_request *r)
{
    const struct settings *s = r->api->daemon->settings;
    int64_t now_us = mono_us();
    struct limited *l = limits_of(r, now_us);

    return /* The audit keeps a bounded number of rows: a customer must not fill it. */
        (!(r->command->flags & COMMAND_ACTS) ||
         r->command->flags & COMMAND_FREQUENT ||
         is_slow_enough(r, &l->changes, &s->tenants.changes,
                        (CHANGES_AT_ONCE - 1) *
                            rate_interval_us(&s->tenants.changes),
                        now_us, "changes")) &&
        (r->command != &command_endpoint_test ||
         is_slow_enough(r, &l->tests, &s->tenants.tests,
                        (TESTS_AT_ONCE - 1) *
                            rate_interval_us(&s->tenants.tests),
                        now_us, "tests"));
}

bool tenant_permits(struct api_request *r)
{
    if (r->command->tenant == TENANT_NONE) {
        api_fail(r, WEB_ROLE, NULL,
                 "this needs a token with the role %s; this one is for one "
                 "workspace",
                 role_name(r->command->role));
        return false;
    }
    /* The portal is for people: it takes no deliveries. */
    if (r->portal &&
        (r->command->flags & COMMAND_FREQUENT ||
         (r->actor.read_only && r->command->flags & COMMAND_ACTS))) {
        api_fail(r, WEB_ROLE, NULL,
                 r->actor.read_only ? "this portal only shows"
                                    : "the portal cannot do this");
        return false;
    }
    return is_rare_enough(r);
}

/* ---- what a request names ---- */

static const char *text_of(const struct api_request *r, const char *name)
{
    return json_string_value(json_object_get(r->args, name));
}

static void not_there(struct api_request *r)
{
    api_fail(r, WEB_NOT_FOUND, NULL, "it is not there");
}

static void refuse_field(struct api_request *r, const char *field,
                         const char *why)
{
    api_fail(r, WEB_INVALID_ARGUMENT, field, "%s: %s", field, why);
}

/* Asks whether all of this belongs to the workspace. */
static void ask(struct api_request *r, const char *event,
                const char *const *endpoints)
{
    json_t *args = json_pack("{s:s,s:[]}", "workspace", r->actor.workspace,
                             "endpoints");

    for (; *endpoints; endpoints++)
        json_array_append_new(json_object_get(args, "endpoints"),
                              json_string(*endpoints));
    if (event)
        json_object_set_new(args, "event", json_string(event));
    api_ask(r, "sequencer", &command_tenant_check, args);
}

static void checked(struct api_request *r)
{
    const json_t *reply;
    size_t named = r->tenant_endpoints;

    if (!api_answered(r, 0))
        return;
    reply = api_reply(r, 0);
    if (!json_is_true(json_object_get(reply, "event")) ||
        json_array_size(json_object_get(reply, "endpoints")) != named) {
        not_there(r);
        return;
    }
    api_forget(r);
    api_run(r);
}

/* `endpoints` ends with NULL. */
static void check(struct api_request *r, const char *event,
                  const char *const *endpoints)
{
    while (endpoints[r->tenant_endpoints])
        r->tenant_endpoints++;
    r->step = checked;
    ask(r, event, endpoints);
}

/* "evt_ULID.ENDPOINT.N" */
static void check_attempt(struct api_request *r, const char *id)
{
    const char *last = strrchr(id, '.');
    char event[EVENT_ID_BYTES + 1], *endpoint;

    if (strlen(id) <= EVENT_ID_BYTES + 1 || id[EVENT_ID_BYTES] != '.' ||
        last <= id + EVENT_ID_BYTES + 1) {
        not_there(r);
        return;
    }
    memcpy(event, id, EVENT_ID_BYTES);
    event[EVENT_ID_BYTES] = 0;
    endpoint = gr_strndup(id + EVENT_ID_BYTES + 1,
                          (size_t)(last - id) - EVENT_ID_BYTES - 1);
    check(r, event, (const char *const[]){endpoint, NULL});
    free(endpoint);
}

/* "dlq_ULID-ENDPOINT" */
static void check_dead_letter(struct api_request *r, const char *id)
{
    const size_t n = strlen("dlq_") + ID_BYTES;

    if (!id || strncmp(id, "dlq_", 4) != 0 || strlen(id) <= n + 1 ||
        id[n] != '-')
        not_there(r);
    else
        check(r, NULL,
              (const char *const[]){id + n + 1, text_of(r, "to"), NULL});
}

static void check_delivery(struct api_request *r)
{
    if (!text_of(r, "endpoint"))
        refuse_field(r, "endpoint",
                     "with the token of a workspace, name the endpoint that "
                     "gets it");
    else if (json_is_true(json_object_get(r->args, "new_id")))
        refuse_field(r, "new_id",
                     "cannot be set with the token of a workspace");
    else
        check(r, text_of(r, "event"),
              (const char *const[]){text_of(r, "endpoint"), NULL});
}

static bool takes_tenant(const struct api_request *r)
{
    switch (r->command->tenant) {
    case TENANT_LIST:
    case TENANT_CREATES:
    case TENANT_EVENT:
    case TENANT_DEAD_LETTER:
    case TENANT_DEAD_LETTERS:
        return true;
    default:
        return command_arg(r->command, "tenant") != NULL;
    }
}

void tenant_begin(struct api_request *r)
{
    const char *name;

    if (takes_tenant(r))
        json_object_set_new(r->args, "tenant", json_string(r->actor.workspace));
    switch (r->command->tenant) {
    case TENANT_WORKSPACE:
        name = text_of(r, "workspace");
        if (name && strcmp(name, r->actor.workspace) == 0)
            api_run(r);
        else
            not_there(r);
        return;
    case TENANT_ENDPOINT:
        name = text_of(r, "name");
        name = name ? name : text_of(r, "endpoint");
        check(r, NULL, (const char *const[]){name ? name : "", NULL});
        return;
    case TENANT_EVENT:
        check(r, text_of(r, "id"), (const char *const[]){NULL});
        return;
    case TENANT_DELIVERY:
        check_delivery(r);
        return;
    case TENANT_ATTEMPT:
        check_attempt(r, text_of(r, "id"));
        return;
    case TENANT_DEAD_LETTER:
        check_dead_letter(r, text_of(r, "id"));
        return;
    case TENANT_SHARED:
    case TENANT_LIST:
    case TENANT_CREATES:
    case TENANT_DEAD_LETTERS:
    case TENANT_STREAM:
        api_run(r);
        return;
    case TENANT_NONE:
        break;
    }
    api_fail(r, WEB_ROLE, NULL, "a token of a workspace cannot do this");
}

/* ---- lists ---- */

static bool has(const json_t *names, const char *name)
{
    json_t *each;
    size_t i;

    json_array_foreach(names, i,
                       each) if (name && strcmp(json_string_value(each),
                                                name) == 0) return true;
    return false;
}

void tenant_keep(json_t *list, const json_t *own)
{
    for (size_t i = json_array_size(list); i-- > 0;)
        if (!has(own, json_string_value(json_object_get(json_array_get(list, i),
                                                        "endpoint"))))
            json_array_remove(list, i);
}

static void letters_free(void *state)
{
    json_decref(state);
}

/* dlqd knows the workspace of a dead letter, and the sequencer that of its endpoint. */
void tenant_dead_letters(struct api_request *r)
{
    json_t *reply, *letter, *names, *name;
    size_t i;

    if (r->stage++ == 0) {
        api_ask(r, "dlqd", &command_dlq, json_incref(r->args));
        return;
    }
    if (!api_answered(r, 0))
        return;
    if (r->stage == 3) {
        reply = r->state;
        tenant_keep(json_object_get(reply, "dead_letters"),
                    json_object_get(api_reply(r, 0), "endpoints"));
        api_respond(r, json_incref(reply));
        return;
    }
    r->state = reply = json_incref(api_reply(r, 0));
    r->state_free = letters_free;
    names = json_array();
    json_array_foreach(json_object_get(reply, "dead_letters"), i, letter)
    {
        name = json_object_get(letter, "endpoint");
        if (name && !has(names, json_string_value(name)))
            json_array_append(names, name);
    }
    api_forget(r);
    api_ask(r, "sequencer", &command_tenant_check,
            json_pack("{s:s,s:o}", "workspace", r->actor.workspace, "endpoints",
                      names));
}
