/* otlp_feed: polls the processes, and joins events and attempts with the facts of their event. */
#include "otlp_feed.h"
#include "commands.h"
#include "process_client.h"
#include "processes.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EVERY_MS = 500,
    SOON_MS = 50,
    LOOK_MS = 1000, /* for new processes */
    REPLY_MS = 5000,
    FULL_COUNT = 250, /* of items in a reply */
    PENDING_MAX = 4000,
    IDS_MAX = 500, /* whose facts are asked for at once */
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

struct otlp_feed {
    struct process_client *processes;
    char *run_dir;
    LIST_HEAD(, feed_source) sources;
    json_t *pending; /* events and attempts that wait for the facts */
    size_t sent;     /* of these, whose facts were asked for */
    int64_t look_due_ms;
    otlp_feed_fn *take;
    void *self;
    int64_t *skipped; /* during otlp_feed_work() */
};

struct otlp_feed *otlp_feed_open(const char *run_dir, otlp_feed_fn *take,
                                 void *self)
{
    struct otlp_feed *f = gr_alloc(sizeof *f);

    f->processes = process_client_open(run_dir);
    f->run_dir = gr_strdup(run_dir);
    f->pending = json_array();
    f->take = take;
    f->self = self;
    LIST_INIT(&f->sources);
    return f;
}

static void drop_source(struct otlp_feed *f, struct feed_source *s)
{
    if (s->asked)
        process_client_cancel(f->processes, &s->question);
    LIST_REMOVE(s, link);
    free(s);
}

static void forget(struct otlp_feed *f)
{
    struct feed_source *s;

    while ((s = LIST_FIRST(&f->sources)))
        drop_source(f, s);
    json_array_clear(f->pending);
    f->sent = 0;
    f->look_due_ms = 0;
}

void otlp_feed_close(struct otlp_feed *f)
{
    forget(f);
    process_client_close(f->processes);
    json_decref(f->pending);
    free(f->run_dir);
    free(f);
}

int otlp_feed_fd(const struct otlp_feed *f)
{
    return process_client_fd(f->processes);
}

/* ---- asking ---- */

static void note_source(struct otlp_feed *f, const char *name, bool sequencer)
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

/* A process that is away for a while is asked again from where it was. */
static void look(struct otlp_feed *f)
{
    struct processes p;

    processes_in(f->run_dir, &p);
    for (size_t i = 0; i < p.count; i++) {
        bool sequencer = process_is(p.names[i], "sequencer");

        if (sequencer || process_is(p.names[i], "deliverer"))
            note_source(f, p.names[i], sequencer);
    }
    processes_fini(&p);
}

static const char *text_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

/* An attempt names its event. */
static const char *event_id(const json_t *item)
{
    const char *id = text_of(item, "event_id");

    return id ? id : text_of(item, "id");
}

static void ask(struct otlp_feed *f, struct feed_source *s, int64_t mono_ms)
{
    const struct command_spec *c = s->sequencer ? &command_recent_events
                                                : &command_recent_attempts;
    json_t *args = json_object();

    if (*s->after)
        json_object_set_new(args, "after", json_string(s->after));
    if (s->sequencer && json_array_size(f->pending)) {
        json_t *ids = json_array();

        f->sent = json_array_size(f->pending);
        if (f->sent > IDS_MAX)
            f->sent = IDS_MAX;
        for (size_t i = 0; i < f->sent; i++)
            json_array_append_new(
                ids, json_string(event_id(json_array_get(f->pending, i))));
        json_object_set_new(args, "ids", ids);
    }
    s->asked = true;
    s->due_ms = mono_ms + EVERY_MS;
    process_client_ask(f->processes, &s->question, s->name, c->name, args, NULL,
                       mono_ms, REPLY_MS, false);
    json_decref(args);
}

/* ---- replies ---- */

/* Rows from after `from` up to `to`, of which some are in the reply. */
static void count_skipped(struct otlp_feed *f, const struct feed_source *s,
                          const json_t *reply, const char *last, size_t count)
{
    int64_t rows;

    if (!*s->after || !json_is_true(json_object_get(reply, "skipped")))
        return;
    rows = strtoll(last, NULL, 10) - strtoll(s->after, NULL, 10);
    if (rows > (int64_t)count)
        *f->skipped += rows - (int64_t)count;
}

static void add_pending(struct otlp_feed *f, const json_t *items)
{
    json_t *item;
    size_t i;

    json_array_foreach(items, i, item)
    {
        if (json_array_size(f->pending) >= PENDING_MAX)
            ++*f->skipped; /* the sequencer does not reply */
        else if (event_id(item))
            json_array_append(f->pending, item);
    }
}

/* Without facts, its event was deleted or erased. */
static void give_facts(struct otlp_feed *f, const json_t *of)
{
    json_t *by_id = json_object(), *facts;
    size_t i, sent = f->sent;

    json_array_foreach(of, i, facts)
        json_object_set(by_id, text_of(facts, "id"), facts);
    for (i = 0; i < sent; i++) {
        const json_t *item = json_array_get(f->pending, i);

        facts = json_object_get(by_id, event_id(item));
        if (facts)
            f->take(f->self, item, !text_of(item, "event_id"), facts);
        else
            ++*f->skipped;
    }
    json_decref(by_id);
    facts = json_array();
    for (; i < json_array_size(f->pending); i++)
        json_array_append(facts, json_array_get(f->pending, i));
    json_decref(f->pending);
    f->pending = facts;
    f->sent = 0;
}

static void take_reply(struct otlp_feed *f, struct process_question *q,
                       int64_t mono_ms)
{
    struct feed_source *s = q->self;
    const json_t *items = json_object_get(q->reply,
                                          s->sequencer ? "events" : "attempts");
    const char *last = text_of(q->reply, "last");
    size_t count = json_array_size(items);

    s->asked = false;
    if (s->sequencer && last)
        give_facts(f, json_object_get(q->reply, "of"));
    else if (s->sequencer)
        f->sent = 0; /* they are asked for again */
    if (last) {
        count_skipped(f, s, q->reply, last, count);
        snprintf(s->after, sizeof s->after, "%s", last);
    }
    if (count >= FULL_COUNT)
        s->due_ms = mono_ms + SOON_MS;
    add_pending(f, items);
    process_question_fini(q);
}

int otlp_feed_work(struct otlp_feed *f, bool on, int64_t mono_ms,
                   int64_t *skipped)
{
    struct process_question *q;
    struct feed_source *s;
    int wait_ms;

    f->skipped = skipped;
    if (!on) {
        forget(f);
        return -1;
    }
    if (mono_ms >= f->look_due_ms) {
        look(f);
        f->look_due_ms = mono_ms + LOOK_MS;
    }
    (void)process_client_run(f->processes, mono_ms);
    while ((q = process_client_ended(f->processes)))
        take_reply(f, q, mono_ms);
    wait_ms = EVERY_MS;
    LIST_FOREACH(s, &f->sources, link)
    {
        int64_t due_ms = s->due_ms;

        if (s->asked)
            continue;
        /* Facts are wanted soon, but not more often than an eager poll. */
        if (s->sequencer && json_array_size(f->pending) &&
            due_ms > mono_ms + SOON_MS)
            due_ms = s->due_ms = mono_ms + SOON_MS;
        if (due_ms <= mono_ms)
            ask(f, s, mono_ms);
        else if (due_ms - mono_ms < wait_ms)
            wait_ms = (int)(due_ms - mono_ms);
    }
    (void)process_client_run(f->processes, mono_ms);
    return wait_ms;
}
