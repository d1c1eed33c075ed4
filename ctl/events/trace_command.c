/* trace_command: `grapnel trace`: the history of an event from all processes (P10). The
 * sequencer knows the event; the other processes add what they stored about it. */
#include "trace_command.h"
#include "ask.h"
#include "bounds.h"
#include "json_text.h"
#include "list.h"
#include "rejects_command.h"
#include "show_attempt.h"
#include "timeline.h"
#include "ulid.h"
#include "when.h"
#include <stdlib.h>
#include <string.h>

struct tracing {
    struct ctl *c;
    const char *id; /* as the user gave it */
    json_t *event;  /* the sequencer's reply; NULL: unknown to it */
    json_t *timeline;
    json_t *unreachable; /* names */
    bool sequencer_away;
    bool failed;     /* it is not away, but cannot tell, as after an upgrade */
    json_t *rejects; /* with this id; NULL: not searched */
    json_t *stored;  /* the request in ingress; NULL: none found */
    bool handed_on;  /* the sequencer has acknowledged it */
    char why[200];   /* the reason why the sequencer sent no event */
};

static void match_status(struct table *t, const json_t *event)
{
    const char *of = text_of(event, "duplicate_of");

    table_add(t, PLAIN, "%s%s%s", text_of(event, "status"), *of ? " of " : "",
              of);
}

int trace_print_matches(struct ctl *c, json_t *reply)
{
    static const struct column columns[] = {
        {.head = "ID", .key = "id"},
        {.head = "RECEIVED (UTC)", .key = "received_at", .kind = COLUMN_TIME},
        {.head = "TYPE", .key = "type"},
        {.head = "WORKSPACE", .key = "workspace"},
        {.head = "STATUS", .cell = match_status},
        {0}};
    json_t *matches = json_object_get(reply, "matches");
    size_t count = json_array_size(matches);

    if (c->json) {
        print_json(json_incref(reply));
        return EXIT_REFUSED;
    }
    print_rows(c, columns, matches, 0);
    fflush(stdout);
    return complain(
        EXIT_REFUSED,
        "%zu%s events share this provider id; use one of the evt_ ids above",
        count, count < SAME_ID_MAX ? "" : " or more");
}

/* ---- ask ---- */

/* Asks all processes but the sequencer and the console, at the same time. */
static void ask_others(struct tracing *t, const struct processes *p,
                       const char *id)
{
    const char *ours = json_string_value(json_object_get(t->event, "id")),
               *request = json_string_value(
                   json_object_get(t->event, "request"));
    struct question *all = gr_alloc((p->count + 1) * sizeof *all);
    size_t n = 0;

    ours = ours ? ours : id;
    for (size_t i = 0; i < p->count; i++) {
        /* Ingress knows only the request of an event that came with others. */
        bool part = request && process_is(p->names[i], PROCESSES_WITH_ARCHIVE);

        if (process_is(p->names[i], "sequencer") ||
            process_is(p->names[i], "console"))
            continue;
        all[n] = (struct question){
            .process = p->names[i],
            .what = "trace",
            .args = json_pack("{s:s}", "id", part ? request : ours)};
        if (part)
            json_object_set_new(all[n].args, "event", json_string(ours));
        n++;
    }
    ask_all(t->c, all, n, ASK_STATUS_MS);
    for (size_t i = 0; i < n; i++) {
        struct question *q = &all[i];

        if (q->unreachable)
            json_array_append_new(t->unreachable, json_string(q->process));
        t->handed_on |= json_is_true(json_object_get(q->reply, "handed_on"));
        if (json_object_get(q->reply, "body_bytes") && !t->stored)
            t->stored = json_incref(q->reply);
        timeline_add(t->timeline, q->reply);
        timeline_add_attempts(t->timeline, t->event, q->reply);
        json_decref(q->reply);
    }
    free(all);
}

static void ask_sequencer(struct tracing *t, const char *id)
{
    struct question q = {.process = "sequencer",
                         .what = "trace",
                         .args = json_pack("{s:s}", "id", id)};

    ask_all(t->c, &q, 1, ASK_MS);
    t->event = q.reply;
    t->failed = question_failed(&q);
    t->sequencer_away = q.unreachable || t->failed;
    memcpy(t->why, q.why, sizeof t->why);
    if (q.unreachable)
        json_array_append_new(t->unreachable, json_string("sequencer"));
    timeline_add(t->timeline, t->event);
}

/* Looks for a provider's id in the newest requests of each ingress, while the sequencer, which
 * finds events by these ids, cannot be reached. Returns our id of the event, the caller's, or
 * NULL. */
static char *find_stored(struct tracing *t, const struct processes *p,
                         const char *id)
{
    json_t *found = json_array(), *reply;
    bool unreachable;
    char why[200], *ours = NULL;

    for (size_t i = 0; i < p->count; i++) {
        if (!process_is(p->names[i], PROCESSES_WITH_ARCHIVE))
            continue;
        reply = ask(t->c, p->names[i], "find", json_pack("{s:s}", "id", id),
                    ASK_STATUS_MS, &unreachable, why);
        json_array_extend(found, json_object_get(reply, "events"));
        json_decref(reply);
    }
    if (json_array_size(found))
        ours = gr_strdup(
            json_string_value(json_array_get(json_array_get(found, 0), 0)));
    if (json_array_size(found) > 1)
        complain(0, "%zu stored requests have %s; this is the newest",
                 json_array_size(found), id);
    json_decref(found);
    return ours;
}

static void ask_them(struct tracing *t, const char *id)
{
    struct processes p;
    char *ours = NULL;

    processes_find(t->c, &p);
    ask_sequencer(t, id);
    if (t->sequencer_away && !ulid_is_of_event(id))
        ours = find_stored(t, &p, id);
    id = ours ? ours : id;
    if (!json_object_get(t->event, "matches"))
        ask_others(t, &p, id);
    if (!ulid_is_of_event(t->id) && !json_object_get(t->event, "matches"))
        t->rejects = rejects_with_id(t->c, &p, t->id);
    /* The event may have arrived at the sequencer meanwhile. */
    if (!t->event && t->handed_on && !t->sequencer_away)
        ask_sequencer(t, id);
    processes_fini(&p);
    free(ours);
    t->timeline = timeline_sorted(t->timeline);
}

/* ---- print ---- */

static void print_head(struct ctl *c, const json_t *e)
{
    const char *reason = text_of(e, "reason"), *number = text_of(e, "sequence");
    const char *of = text_of(e, "duplicate_of"),
               *request = text_of(e, "request"),
               *key = text_of(e, "ordering_key"),
               *trace = text_of(e, "trace_id");
    char *names = provider_names(e);

    printf("%s%s%s  %s\n", colour_on(BOLD, c->colour), text_of(e, "id"),
           colour_off(BOLD, c->colour), text_of(e, "type"));
    printf("  source     %s%s\n", text_of(e, "source"), names);
    free(names);
    printf("  workspace  %s%s%s\n", text_of(e, "workspace"),
           *number ? ", number " : "", number);
    if (*key)
        printf("  ordering   key %s\n", key);
    printf("  received   %s %s\n", time_of(e, "received_at"), when_zone());
    if (*trace)
        printf("  trace      %s%s\n", trace,
               *text_of(e, "traceparent") ? ", of its request" : "");
    if (*request)
        printf("  request    %s, which contained several events\n", request);
    printf("  status     %s%s%s%s%s\n", text_of(e, "status"),
           *reason ? ": " : "", reason, *of ? " of " : "", of);
}

static enum colour status_colour(const char *status)
{
    if (strcmp(status, "delivered") == 0)
        return GREEN;
    if (strcmp(status, "dead") == 0)
        return RED;
    return YELLOW;
}

static void attempt_response(struct table *t, const json_t *attempt)
{
    const char *status = text_of(attempt, "http_status");

    table_add(t, *status == '2' ? GREEN : YELLOW, "%s",
              *status && *status != '0' ? status : "none");
}

static const struct column attempt_columns[] = {
    {.head = "#", .key = "n"},
    {.head = "AT (UTC)", .key = "at", .kind = COLUMN_TIME},
    {.head = "RESPONSE", .cell = attempt_response},
    {.head = "TOOK", .key = "duration_ms", .kind = COLUMN_DURATION},
    {.head = "DELIVERER", .key = "deliverer"},
    {.head = "ERROR", .key = "error"},
    {0}};

/* The retry policy of a delivery that is not its endpoint's. */
static void print_retry(const json_t *retry)
{
    int64_t attempts = integer_of(retry, "max_attempts"),
            duration = integer_of(retry, "max_duration_ms");
    char time[32];

    printf("    retry policy %s, chosen for this delivery",
           text_of(retry, "policy"));
    if (attempts)
        printf(", at most %lld attempts", (long long)attempts);
    if (duration)
        printf(", for at most %s", human_ms(duration, time));
    printf("\n");
}

static void print_deliveries(struct ctl *c, const json_t *deliveries)
{
    json_t *d;
    size_t i;

    if (!json_array_size(deliveries))
        return;
    printf("\nDeliveries\n");
    json_array_foreach(deliveries, i, d)
    {
        const char *status = text_of(d, "status");
        const char *next = text_of(d, "next_attempt_at");
        const json_t *retry = json_object_get(d, "retry");
        const char *priority = text_of(d, "priority");

        printf("  %s  %s%s%s%s%s\n", text_of(d, "endpoint"),
               colour_on(status_colour(status), c->colour), status,
               colour_off(status_colour(status), c->colour),
               *next ? ", next attempt " : "",
               *next ? time_of(d, "next_attempt_at") : "");
        if (*priority && strcmp(priority, "normal") != 0)
            printf("    priority %s\n", priority);
        if (json_is_object(retry))
            print_retry(retry);
        if (json_array_size(json_object_get(d, "attempts")))
            print_rows(c, attempt_columns, json_object_get(d, "attempts"), 4);
        show_responses(json_object_get(d, "attempts"));
    }
}

/* Whether nothing is known but that ingress refused requests with this id. */
static bool only_rejected(const struct tracing *t)
{
    return !t->event && !t->stored && !json_array_size(t->timeline) &&
           json_array_size(t->rejects);
}

static void print_trace(struct tracing *t)
{
    static const struct column event_columns[] = {
        {.head = "ID", .key = "id"},
        {.head = "PROVIDER ID", .key = "provider_id"},
        {.head = "TYPE", .key = "type"},
        {.head = "WORKSPACE", .key = "workspace"},
        {.head = "STATUS", .key = "status"},
        {0}};
    static const struct column timeline_columns[] = {
        {.head = "AT (UTC)", .key = "at", .kind = COLUMN_TIME},
        {.head = "PROCESS", .key = "process"},
        {.head = "WHAT", .key = "what"},
        {0}};
    const json_t *events = json_object_get(t->event, "events");
    size_t rejects = json_array_size(t->rejects), i;
    char bytes[32];
    json_t *name;

    if (t->event) {
        print_head(t->c, t->event);
        if (json_array_size(events)) {
            printf("\nEvents\n");
            print_rows(t->c, event_columns, events, 2);
        }
        print_deliveries(t->c, json_object_get(t->event, "deliveries"));
    } else if (!only_rejected(t)) {
        printf("%s: the sequencer %s.\n", t->id,
               t->failed ? "cannot tell now; this is what the other processes "
                           "have"
               : t->sequencer_away
                   ? "cannot be reached; this is what the other processes have"
               : t->handed_on ? "had it; it has ended and was deleted from the "
                                "history (history.keep)"
                              : "does not have it (yet)");
        if (t->stored) {
            printf("  event      %s\n", text_of(t->stored, "id"));
            printf("  source     %s\n", text_of(t->stored, "source"));
            printf("  received   %s %s from %s, %s\n",
                   time_of(t->stored, "received_at"), when_zone(),
                   text_of(t->stored, "remote"),
                   human_bytes(integer_of(t->stored, "body_bytes"), bytes));
            printf("  status     %s\n",
                   t->handed_on ? "processed by the sequencer"
                                : "accepted: stored by ingress, not yet "
                                  "processed by the sequencer");
        }
    }
    if (json_array_size(t->timeline)) {
        printf("\nTimeline\n");
        print_rows(t->c, timeline_columns, t->timeline, 2);
    }
    if (rejects) {
        printf("%s%s: ingress refused %zu request%s with this id of the "
               "provider's (grapnel rejects show ID)\n",
               only_rejected(t) ? "" : "\n", t->id, rejects,
               rejects > 1 ? "s" : "");
        print_rows(t->c, rejects_columns, t->rejects, 2);
    }
    json_array_foreach(t->unreachable, i, name)
        printf("\n%s%s cannot be reached, so its part of the history is "
               "missing here.%s\n",
               colour_on(YELLOW, t->c->colour), json_string_value(name),
               colour_off(YELLOW, t->c->colour));
}

/* The document of --json. An event that the sequencer does not know has only the fields that
 * ingress stores. */
static json_t *document(struct tracing *t)
{
    static const char *const stored[] = {"id",     "source",     "received_at",
                                         "remote", "body_bytes", "handed_on"};
    json_t *out = t->event ? json_copy(t->event)
                           : json_pack("{s:o}", "id", json_text_of(t->id));

    if (json_array_size(t->rejects))
        json_object_set(out, "rejects", t->rejects);
    if (!t->event && !t->sequencer_away &&
        !only_rejected(t)) /* the status that ingress knows */
        json_object_set_new(out, "status",
                            json_string(t->handed_on ? "done" : "accepted"));
    for (size_t i = 0; !t->event && t->stored && i < COUNT_OF(stored); i++)
        json_object_set(out, stored[i], json_object_get(t->stored, stored[i]));
    json_object_set(out, "timeline", t->timeline);
    json_object_set(out, "unreachable", t->unreachable);
    return out;
}

char *trace_event_id(const char *id)
{
    char *event;

    if (strncmp(id, "dlq_", 4) != 0 || strlen(id) < EVENT_ID_BYTES)
        return gr_strdup(id);
    event = gr_strndup(id, EVENT_ID_BYTES);
    memcpy(event, "evt_", 4);
    return event;
}

int run_trace(struct ctl *c)
{
    struct tracing t = {
        .c = c, .timeline = json_array(), .unreachable = json_array()};
    char *id = trace_event_id(c->parsed.args[0]);
    bool known;
    int code = 0;

    if (!*id) {
        code = complain(EXIT_USAGE, "the id of an event is missing");
    } else {
        t.id = id;
        ask_them(&t, id);
        known = t.event || json_array_size(t.timeline) ||
                json_array_size(t.rejects);
        if (json_object_get(t.event, "matches")) {
            code = trace_print_matches(c, t.event);
        } else {
            if (known && c->json)
                print_json(document(&t));
            else if (known)
                print_trace(&t);
            fflush(stdout);
            if (t.sequencer_away && !t.failed)
                code = complain_away(c, "sequencer", t.why);
            else if (t.failed || !known)
                code = complain(EXIT_REFUSED, "%s", t.why);
        }
    }
    json_decref(t.event);
    json_decref(t.rejects);
    json_decref(t.stored);
    json_decref(t.timeline);
    json_decref(t.unreachable);
    free(id);
    return code;
}
