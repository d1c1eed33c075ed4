/* live_feed: polls the processes, and joins attempts with the workspace and source of their event. */
#include "live_feed.h"
#include "commands.h"
#include "live.h"
#include "processes.h"
#include <stdlib.h>
#include <string.h>

enum {
    EVERY_MS = 500,
    REPLY_MS = 5000,
    ATTEMPTS_MAX = 1000, /* that wait for the facts of their events */
};

/* A process that is asked. */
struct feed_source {
    LIST_ENTRY(feed_source) link;
    struct process_question question;
    char name[NAME_MAX_BYTES + 1];
    bool sequencer, asked, there;
    char after[24]; /* the `last` of its last reply; "": none */
    int64_t due_ms;
};

struct live_feed {
    struct live *live;
    struct process_client *processes;
    char *run_dir;
    LIST_HEAD(, feed_source) sources;
    json_t *attempts; /* that wait for the facts of their events */
    size_t sent;      /* of these, whose facts were asked for */
};

struct live_feed *live_feed_open(struct live *l, struct process_client *p,
                                 const char *run_dir)
{
    struct live_feed *f = gr_alloc(sizeof *f);

    f->live = l;
    f->processes = p;
    f->run_dir = gr_strdup(run_dir);
    f->attempts = json_array();
    LIST_INIT(&f->sources);
    return f;
}

static void drop_source(struct live_feed *f, struct feed_source *s)
{
    if (s->asked)
        process_client_cancel(f->processes, &s->question);
    LIST_REMOVE(s, link);
    free(s);
}

static void forget(struct live_feed *f)
{
    struct feed_source *s;

    while ((s = LIST_FIRST(&f->sources)))
        drop_source(f, s);
    json_array_clear(f->attempts);
    f->sent = 0;
}

void live_feed_close(struct live_feed *f)
{
    forget(f);
    json_decref(f->attempts);
    free(f->run_dir);
    free(f);
}

/* ---- asking ---- */

static void note_source(struct live_feed *f, const char *name, bool sequencer)
{
    struct feed_source *s;

    LIST_FOREACH(s, &f->sources, link)
    if (strcmp(s->name, name) == 0) {
        s->there = true;
        return;
    }
    s = gr_alloc(sizeof *s);
    snprintf(s->name, sizeof s->name, "%s", name);
    s->sequencer = sequencer;
    s->there = true;
    s->question.self = s;
    LIST_INSERT_HEAD(&f->sources, s, link);
}

static void look(struct live_feed *f, unsigned kinds)
{
    struct feed_source *s, *next;
    struct processes p;

    LIST_FOREACH(s, &f->sources, link)
    s->there = false;
    processes_in(f->run_dir, &p);
    for (size_t i = 0; i < p.count; i++) {
        bool sequencer = process_is(p.names[i], "sequencer");

        if (sequencer ||
            (kinds & LIVE_ATTEMPT && process_is(p.names[i], "deliverer")))
            note_source(f, p.names[i], sequencer);
    }
    processes_fini(&p);
    for (s = LIST_FIRST(&f->sources); s; s = next) {
        next = LIST_NEXT(s, link);
        if (!s->there && !s->asked)
            drop_source(f, s);
    }
}

/* The ids of the events whose attempts wait. */
static json_t *ids_of(struct live_feed *f)
{
    json_t *ids = json_array(), *attempt;
    size_t i;

    json_array_foreach(f->attempts, i, attempt)
        json_array_append(ids, json_object_get(attempt, "event_id"));
    f->sent = json_array_size(f->attempts);
    return ids;
}

/* The endpoints that they were sent to. */
static json_t *endpoints_of(const struct live_feed *f)
{
    json_t *seen = json_object(), *out = json_array(), *attempt;
    const char *name;
    size_t i;

    json_array_foreach(f->attempts, i, attempt) json_object_set_new(
        seen, json_string_value(json_object_get(attempt, "endpoint")),
        json_true());
    json_object_foreach(seen, name, attempt)
        json_array_append_new(out, json_string(name));
    json_decref(seen);
    return out;
}

static void ask(struct live_feed *f, struct feed_source *s, int64_t mono_ms)
{
    const struct command_spec *c = s->sequencer ? &command_recent_events
                                                : &command_recent_attempts;
    json_t *args = json_object();

    if (*s->after)
        json_object_set_new(args, "after", json_string(s->after));
    if (s->sequencer && json_array_size(f->attempts)) {
        json_object_set_new(args, "ids", ids_of(f));
        json_object_set_new(args, "endpoints", endpoints_of(f));
    }
    s->asked = true;
    s->due_ms = mono_ms + EVERY_MS;
    process_client_ask(f->processes, &s->question, s->name, c->name, args, NULL,
                       mono_ms, REPLY_MS, false);
    json_decref(args);
}

int live_feed_work(struct live_feed *f, unsigned kinds, int64_t mono_ms)
{
    struct feed_source *s;
    int wait_ms = EVERY_MS;

    if (!(kinds & (LIVE_EVENT | LIVE_ATTEMPT))) {
        forget(f);
        return -1;
    }
    look(f, kinds);
    LIST_FOREACH(s, &f->sources, link)
    {
        bool soon = s->sequencer && json_array_size(f->attempts);

        if (s->asked)
            continue;
        if (soon || s->due_ms <= mono_ms)
            ask(f, s, mono_ms);
        else if (s->due_ms - mono_ms < wait_ms)
            wait_ms = (int)(s->due_ms - mono_ms);
    }
    return wait_ms;
}

/* ---- replies ---- */

static const char *text_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void take_attempts(struct live_feed *f, const json_t *reply)
{
    const json_t *all = json_object_get(reply, "attempts");

    if (json_array_size(f->attempts) + json_array_size(all) > ATTEMPTS_MAX)
        live_skipped(f->live, LIVE_ATTEMPT); /* the sequencer does not reply */
    else
        json_array_extend(f->attempts, (json_t *)(uintptr_t)all);
}

/* Attempts of events that the sequencer does not know, or about which it does not reply, have no
 * workspace. */
static void put_attempts(struct live_feed *f, const json_t *of,
                         const json_t *owners)
{
    json_t *by_id = json_object(), *by_name = json_object(), *v;
    const char *owner;
    size_t i;

    json_array_foreach(of, i, v) json_object_set(by_id, text_of(v, "id"), v);
    json_array_foreach(owners, i, v) json_object_set(
        by_name, text_of(v, "endpoint"), json_object_get(v, "workspace"));
    for (; f->sent; f->sent--) {
        json_t *attempt = json_array_get(f->attempts, 0);
        const json_t *event = json_object_get(by_id,
                                              text_of(attempt, "event_id"));
        struct live_item item = {.kind = LIVE_ATTEMPT,
                                 .endpoint = text_of(attempt, "endpoint"),
                                 .workspace = text_of(event, "workspace"),
                                 .source = text_of(event, "source"),
                                 .data = attempt};

        owner = item.endpoint ? text_of(by_name, item.endpoint) : NULL;
        if (owner && item.workspace && strcmp(owner, item.workspace) == 0)
            item.tenant = owner;
        json_object_set(attempt, "workspace",
                        json_object_get(event, "workspace"));
        json_object_set(attempt, "source", json_object_get(event, "source"));
        json_object_set(attempt, "type", json_object_get(event, "type"));
        live_put(f->live, &item);
        json_array_remove(f->attempts, 0);
    }
    json_decref(by_name);
    json_decref(by_id);
}

/* The reason of one that was routed names endpoints that are not subscribed. */
static bool names_endpoints(const json_t *event)
{
    static const char *const routed[] = {"routed", "done", "expired"};
    const char *status = text_of(event, "status");

    for (size_t i = 0; i < COUNT_OF(routed); i++)
        if (status && strcmp(status, routed[i]) == 0)
            return json_is_string(json_object_get(event, "reason"));
    return false;
}

static void put_events(struct live_feed *f, const json_t *events,
                       const json_t *hidden)
{
    json_t *event, *id, *is_hidden = json_object();
    size_t i;

    json_array_foreach(hidden, i, id)
        json_object_set(is_hidden, json_string_value(id), id);
    json_array_foreach(events, i, event)
    {
        struct live_item item = {.kind = LIVE_EVENT,
                                 .workspace = text_of(event, "workspace"),
                                 .source = text_of(event, "source"),
                                 .data = event};
        json_t *other = NULL;

        if (!json_object_get(is_hidden, text_of(event, "id")))
            item.tenant = item.workspace;
        if (item.tenant && names_endpoints(event)) {
            item.tenant_data = other = json_copy(event);
            json_object_set_new(other, "reason", json_null());
        }
        live_put(f->live, &item);
        json_decref(other);
    }
    json_decref(is_hidden);
}

bool live_feed_take(struct live_feed *f, struct process_question *q)
{
    struct feed_source *s;
    const char *last;

    LIST_FOREACH(s, &f->sources, link)
    if (&s->question == q)
        break;
    if (!s)
        return false;
    s->asked = false;
    last = text_of(q->reply, "last");
    if (last && json_is_true(json_object_get(q->reply, "skipped")))
        live_skipped(f->live, s->sequencer ? LIVE_EVENT : LIVE_ATTEMPT);
    if (last)
        snprintf(s->after, sizeof s->after, "%s", last);
    if (s->sequencer) {
        put_events(f, json_object_get(q->reply, "events"),
                   json_object_get(q->reply, "hidden"));
        put_attempts(f, json_object_get(q->reply, "of"),
                     json_object_get(q->reply, "owners"));
    } else if (last) {
        take_attempts(f, q->reply);
    }
    process_question_fini(q);
    return true;
}
