/* process_commands: the processes and the relays of outboxes over HTTP. One that does not respond is a
 * row like the others, which says so. */
#include "api_request.h"
#include "commands.h"
#include "json_text.h"
#include <string.h>

/* "deliverer-1" is a deliverer. */
static json_t *kind_of(const char *name)
{
    return json_stringn(name, strcspn(name, "-"));
}

static bool is_wanted(const struct processes *p, const char *name)
{
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->names[i], name) == 0)
            return true;
    return false;
}

/* Adds a process of this kind if there is none. */
static void need(struct processes *p, const char *kind)
{
    size_t at = 0;

    while (at < p->count && process_rank(p->names[at]) < process_rank(kind))
        at++;
    if (at < p->count && process_is(p->names[at], kind))
        return;
    p->names = gr_realloc(p->names, (p->count + 1) * sizeof *p->names);
    memmove(p->names + at + 1, p->names + at,
            (p->count - at) * sizeof *p->names);
    p->names[at] = gr_strdup(kind);
    p->count++;
}

/* The names of all processes. An outbox is needed if there are relays, reconcile if a source has it. */
static void find(struct api_request *r, struct processes *p)
{
    const struct settings *s = r->api->daemon->settings;
    bool reconciles = false;

    processes_in(s->run_dir, p);
    for (size_t i = 0; i < s->source_count; i++)
        reconciles |= s->sources[i].reconcile.every_ms > 0;
    if (s->relay_count)
        need(p, "outbox");
    if (reconciles)
        need(p, "reconcile");
}

/* What there is to say about a process that did not reply. */
static const char *why_not(const struct process_question *q)
{
    switch (q->end) {
    case QUESTION_UNAVAILABLE:
    case QUESTION_LOST:
        return *q->why ? q->why : "does not run";
    case QUESTION_BUSY:
        return "was asked too often; this is read again";
    case QUESTION_UNREADABLE:
        return "responds with something that this console cannot read";
    case QUESTION_REFUSED:
        return q->why;
    default:
        return "does not respond";
    }
}

static bool is_up(const struct process_question *q)
{
    return q->end == QUESTION_REPLIED || q->end == QUESTION_REFUSED ||
           q->end == QUESTION_BUSY || q->end == QUESTION_UNREADABLE;
}

static void add_problem(json_t *row, json_t *text)
{
    json_array_append_new(json_object_get(row, "problems"), text);
}

static void add_absent(json_t *row, const struct process_question *q)
{
    const char *name = q->name;

    if (*q->why && !is_up(q))
        add_problem(row, json_sprintf("%s, on another host, cannot be reached: "
                                      "%s",
                                      name, q->why));
    else if (q->end == QUESTION_UNAVAILABLE || q->end == QUESTION_LOST)
        add_problem(row, json_sprintf("%s does not run: start it; its log says "
                                      "why it ended",
                                      name));
    else if (q->end == QUESTION_TIMEOUT || q->end == QUESTION_UNHEARD)
        add_problem(row, json_sprintf("%s does not respond: it may be stopped, "
                                      "or wait for its disk",
                                      name));
    else
        add_problem(row, json_text_of(why_not(q)));
}

/* The fields of `health`; those that an older version does not have stay null. */
static json_t *row_of(const struct api_request *r,
                      const struct process_question *q)
{
    static const char *const same[] = {
        "ready", "state", "version", "pid", "started_at", "waiting", "store"};
    char *host = process_host(r->api->daemon->settings->run_dir, q->name);
    json_t *row = json_pack(
        "{s:s,s:o,s:o,s:b,s:b,s:s,s:n,s:n,s:n,s:n,s:n,s:[]}", "process",
        q->name, "kind", kind_of(q->name), "host", json_text_or_null(host),
        "up", (int)is_up(q), "ready", 0, "state", why_not(q), "version", "pid",
        "started_at", "waiting", "store", "problems");
    const char *version, *state;

    free(host);
    if (!q->reply) {
        add_absent(row, q);
        return row;
    }
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        json_t *value = json_object_get(q->reply, same[i]);

        if (value)
            json_object_set(row, same[i], value);
    }
    version = json_string_value(json_object_get(row, "version"));
    state = json_string_value(json_object_get(row, "state"));
    if (!json_is_true(json_object_get(row, "ready")))
        add_problem(row, json_sprintf("it cannot work: %s", state));
    if (version && strcmp(version, GRAPNEL_VERSION) != 0)
        add_problem(row, json_sprintf("it runs version %s, and the console %s: "
                                      "restart the one that was not upgraded",
                                      version, GRAPNEL_VERSION));
    json_array_extend(json_object_get(row, "problems"),
                      json_object_get(q->reply, "problems"));
    return row;
}

void process_list(struct api_request *r)
{
    struct processes p;
    json_t *rows;

    if (r->stage++ == 0) {
        find(r, &p);
        for (size_t i = 0; i < p.count; i++)
            api_ask_briefly(r, p.names[i], &command_health);
        processes_fini(&p);
        return;
    }
    rows = json_array();
    for (size_t i = 0; i < r->asked_count; i++)
        json_array_append_new(rows, row_of(r, r->asked[i]));
    api_respond(r, json_pack("{s:o}", "processes", rows));
}

void process_read(struct api_request *r)
{
    const char *name = json_string_value(json_object_get(r->args, "process"));
    struct processes p;

    if (r->stage++ == 0) {
        find(r, &p);
        if (is_wanted(&p, name))
            api_ask(r, name, &command_status, NULL);
        else
            api_fail(r, WEB_NOT_FOUND, NULL,
                     "there is no process of this name: GET /processes lists "
                     "them");
        processes_fini(&p);
    } else if (api_answered(r, 0)) {
        api_respond(r, json_incref(api_reply(r, 0)));
    }
}

/* ---- relays ---- */

/* Each outbox runs all relays of the configuration. */
static void add_silent(const struct api_request *r, json_t *rows,
                       const struct process_question *q)
{
    const struct settings *s = r->api->daemon->settings;

    for (size_t i = 0; i < s->relay_count; i++)
        json_array_append_new(
            rows,
            json_pack(
                "{s:s,s:s,s:b,s:n,s:o,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n}",
                "process", q->name, "relay", s->relays[i].name, "connected", 0,
                "since", "error", json_sprintf("%s %s", q->name, why_not(q)),
                "waiting", "oldest_ms", "taken_per_s", "written_per_s",
                "outcomes_waiting", "set_aside", "lag_p50_ms", "lag_p99_ms"));
}

void relay_list(struct api_request *r)
{
    struct processes p;
    json_t *rows;

    if (r->stage++ == 0) {
        find(r, &p);
        for (size_t i = 0; i < p.count; i++)
            if (process_is(p.names[i], "outbox"))
                api_ask_briefly(r, p.names[i], &command_relays);
        processes_fini(&p);
        if (r->asked_count)
            return;
    }
    rows = json_array();
    for (size_t i = 0; i < r->asked_count; i++) {
        if (api_reply(r, i))
            json_array_extend(rows, json_object_get(api_reply(r, i), "relays"));
        else
            add_silent(r, rows, r->asked[i]);
    }
    api_respond(r, json_pack("{s:o}", "relays", rows));
}
