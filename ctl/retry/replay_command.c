/* replay_command: resend and replay. Ingress has the requests, the sequencer knows their
 * types and workspaces; this joins the two, page by page, at a limited rate. */
#include "ask.h"
#include "bounds.h"
#include "clock.h"
#include "conf.h"
#include "glob.h"
#include "names.h"
#include "operational.h"
#include "progress.h"
#include "when.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    RATE_DEFAULT = 500, /* events a second */
    RATE_MAX = 100000,
    PAGES_PER_S = 5,
    PAGE_MAX = 500,
};

static const char sequencer[] = "sequencer";

struct replay {
    struct ctl *c;
    const char *endpoint, *workspace, *source, *type, *reason;
    bool dry, fresh;
    struct progress progress;
    int64_t since_ms, until_ms, rate;
    struct processes p;
    int64_t sent, matched, unsure, limit, at_ms;
    json_t *skipped; /* {"reason": number of events} */
    json_t *missing; /* events that the archive no longer has */
    int code;        /* the exit code; -1: no error yet */
};

/* Set by a signal: the command then ends and prints how to continue. */
static volatile sig_atomic_t interrupted;

static void on_signal(int signo)
{
    (void)signo;
    interrupted = 1;
}

static json_t *question(struct replay *r, const char *process, const char *what,
                        json_t *args)
{
    return ask_needed(r->c, process, what, args, ASK_MS, &r->code);
}

/* ---- a page ---- */

static void count(struct replay *r, const char *why)
{
    json_object_set_new(r->skipped, why,
                        json_integer(integer_of(r->skipped, why) + 1));
}

/* Makes one ingress send these events again. false: it failed. `missing` gets the events that
 * it does not have. */
static bool send_to(struct replay *r, const char *ingress, json_t *events,
                    bool always)
{
    json_t *args = json_pack("{s:O,s:b,s:b,s:s}", "events", events, "new_id",
                             r->fresh, "always", always, "who", user_name());
    json_t *reply;
    bool good;

    if (r->endpoint)
        json_object_set_new(args, "endpoint", json_string(r->endpoint));
    reply = question(r, ingress, "resend", args);
    r->sent += (int64_t)json_array_size(json_object_get(reply, "resent"));
    json_array_extend(r->missing, json_object_get(reply, "missing"));
    good = reply != NULL;
    json_decref(reply);
    return good;
}

static bool judge(struct replay *r, json_t *ids, json_t *chosen);

/* Judges each event of a request that contained several. */
static bool judge_parts(struct replay *r, json_t *parts, json_t *chosen)
{
    size_t count_all = json_array_size(parts);
    bool good = true;

    for (size_t i = 0; i < count_all && good; i += PAGE_MAX) {
        json_t *some = json_array();

        for (size_t k = i; k < i + PAGE_MAX && k < count_all; k++)
            json_array_append(some, json_array_get(parts, k));
        good = judge(r, some, chosen);
        json_decref(some);
    }
    return good;
}

static bool fits(const char *glob, const json_t *facts, const char *key)
{
    const char *text = json_string_value(json_object_get(facts, key));

    return !glob || (text && glob_match(glob, text));
}

/* Whether the event matches the options. If only the archive has it, just its time and source are
 * known. */
static bool is_chosen(struct replay *r, const json_t *facts)
{
    bool known = json_is_string(json_object_get(facts, "status"));
    const json_t *subscribed = json_object_get(facts, "subscribed");
    bool reason = !r->reason;
    json_t *each;
    size_t i;

    json_array_foreach(json_object_get(facts, "reasons"), i, each)
        reason |= r->reason && glob_match(r->reason, json_string_value(each));
    if (!known && (r->workspace || r->type || r->reason)) {
        count(r, "unknown");
        return false;
    }
    if (known && (!fits(r->workspace, facts, "workspace") ||
                  !fits(r->source, facts, "source") ||
                  !fits(r->type, facts, "type") || !reason))
        return false;
    if (json_is_false(subscribed)) {
        count(r, "not subscribed");
        return false;
    }
    r->unsure += r->endpoint && !json_is_true(subscribed);
    return true;
}

/* Appends to `chosen` the events to send: those that were routed, or that only the archive
 * has, and that match the options. */
static bool judge(struct replay *r, json_t *ids, json_t *chosen)
{
    json_t *args = json_pack("{s:O}", "ids", ids), *reply, *events, *facts;
    bool good;
    size_t i;

    if (r->endpoint)
        json_object_set_new(args, "endpoint", json_string(r->endpoint));
    reply = question(r, sequencer, "facts", args);
    good = reply != NULL;

    events = json_object_get(reply, "events");
    json_array_foreach(events, i, facts)
    {
        const char *status = json_string_value(
            json_object_get(facts, "status"));

        if (status && strcmp(status, "split") == 0) {
            good = good &&
                   judge_parts(r, json_object_get(facts, "events"), chosen);
        } else if (status && strcmp(status, "routed") != 0) {
            count(r, status);
        } else if (r->matched < r->limit && is_chosen(r, facts)) {
            json_t *one = json_pack("{s:O}", "id", json_array_get(ids, i));

            if (json_is_string(json_object_get(facts, "request")))
                json_object_set(one, "request",
                                json_object_get(facts, "request"));
            json_array_append_new(chosen, one);
            r->matched++;
        }
    }
    json_decref(reply);
    return good;
}

/* At most a page of `chosen` at a time, at the rate. */
static bool send_chosen(struct replay *r, const char *ingress, json_t *chosen)
{
    int64_t per_page = (r->rate + PAGES_PER_S - 1) / PAGES_PER_S;
    size_t n = (size_t)(per_page < PAGE_MAX ? per_page : PAGE_MAX);
    bool good = true;

    for (size_t i = 0; i < json_array_size(chosen) && good && !interrupted;
         i += n) {
        json_t *some = json_array();

        for (size_t k = i; k < i + n && k < json_array_size(chosen); k++)
            json_array_append(some, json_array_get(chosen, k));
        good = send_to(r, ingress, some, false);
        if (!interrupted)
            usleep((useconds_t)(json_array_size(some) * 1000000 /
                                (size_t)r->rate));
        json_decref(some);
    }
    return good;
}

/* Handles a page of the archive, [[id, time]…], and shows how much of the period is done; the
 * number of events in the period is not known before the end. */
static bool replay_page(struct replay *r, const char *ingress,
                        const json_t *events)
{
    double span = (double)(r->until_ms - r->since_ms), part = 0;
    json_t *ids = json_array(), *chosen = json_array(), *e;
    bool good;
    size_t i;

    json_array_foreach(events, i, e)
    {
        json_array_append(ids, json_array_get(e, 0));
        r->at_ms = json_integer_value(json_array_get(e, 1));
    }
    good = !json_array_size(ids) ||
           (judge(r, ids, chosen) &&
            (r->dry || send_chosen(r, ingress, chosen)));
    if (span > 0)
        part = (double)(r->at_ms - r->since_ms) / span;
    progress_show(&r->progress, part, "%lld %s, %.0f%% of the period",
                  (long long)(r->dry ? r->matched : r->sent),
                  r->dry ? "found" : "sent again", 100 * part);
    json_decref(ids);
    json_decref(chosen);
    return good;
}

/* All events of the period that this process has. */
static bool replay_archive(struct replay *r, const char *ingress)
{
    json_t *args = json_pack("{s:I,s:I}", "since_ms", (json_int_t)r->since_ms,
                             "until_ms", (json_int_t)r->until_ms);
    bool more = true, good = true;

    if (r->source && !strchr(r->source, '*'))
        json_object_set_new(args, "source", json_string(r->source));
    while (more && good && !interrupted && r->matched < r->limit) {
        json_t *reply = question(r, ingress, "archive", json_incref(args));
        json_t *next = json_object_get(reply, "next");

        good = reply &&
               replay_page(r, ingress, json_object_get(reply, "events"));
        more = json_is_integer(next);
        if (more)
            json_object_set(args, "after", next);
        json_decref(reply);
    }
    json_decref(args);
    return good;
}

/* ---- replay ---- */

static bool read_time(struct ctl *c, const char *option, int64_t *ms)
{
    const char *text = parsed_value(&c->parsed, option);
    char why[200];

    if (!text || when_parse(text, now_ms(), ms, why) == GR_OK)
        return true;
    complain(EXIT_USAGE, "%s: %s", option, why);
    return false;
}

static bool read_options(struct replay *r)
{
    struct ctl *c = r->c;
    const char *rate = parsed_value(&c->parsed, "--rate"), *why = "";

    r->endpoint = parsed_value(&c->parsed, "--endpoint");
    r->workspace = parsed_value(&c->parsed, "--workspace");
    r->source = parsed_value(&c->parsed, "--source");
    r->type = parsed_value(&c->parsed, "--type");
    r->reason = parsed_value(&c->parsed, "--reason");
    r->limit = INT64_MAX;
    if (parsed_value(&c->parsed, "--limit")) {
        json_t *limit = json_object();
        bool good = put_limit(c, limit);

        r->limit = integer_of(limit, "limit");
        json_decref(limit);
        if (!good)
            return false;
    }
    r->dry = parsed_value(&c->parsed, "--dry-run") != NULL;
    r->fresh = parsed_value(&c->parsed, "--new-id") != NULL;
    progress_begin(&r->progress, !c->json && isatty(STDERR_FILENO));
    r->rate = RATE_DEFAULT;
    r->until_ms = now_ms();
    if (!parsed_value(&c->parsed, "--since")) {
        complain(EXIT_USAGE, "--since is missing: write --since 1h or --since "
                             "2026-11-21T10:00:00Z");
        return false;
    }
    if (!read_time(c, "--since", &r->since_ms) ||
        !read_time(c, "--until", &r->until_ms))
        return false;
    if (r->until_ms < r->since_ms) {
        complain(EXIT_USAGE, "--until: the time is before that of --since");
        return false;
    }
    if (!rate || (conf_parse_int(rate, &r->rate, &why) == GR_OK &&
                  r->rate >= 1 && r->rate <= RATE_MAX))
        return true;
    complain(EXIT_USAGE,
             "--rate: \"%s\" is not a whole number from 1 to %d (events per "
             "second)",
             rate, RATE_MAX);
    return false;
}

static void print_done(struct replay *r)
{
    const char *why;
    json_t *n;

    if (r->c->json) {
        print_json(json_pack(
            "{s:b,s:I,s:I,s:I,s:O,s:O}", "dry_run", r->dry, "matched",
            (json_int_t)r->matched, "unsure", (json_int_t)r->unsure, "replayed",
            (json_int_t)r->sent, "skipped", r->skipped, "missing", r->missing));
        return;
    }
    printf("%lld %s\n", (long long)(r->dry ? r->matched : r->sent),
           r->dry ? "would be sent again" : "sent again");
    if (r->unsure)
        printf("  %s may not be subscribed to %lld of these: its conditions "
               "are checked with each body when it is sent\n",
               r->endpoint, (long long)r->unsure);
    json_object_foreach(r->skipped, why, n)
        printf("  left out, %s: %lld\n", why, (long long)json_integer_value(n));
    if (json_array_size(r->missing))
        printf("  deleted from the archive meanwhile: %zu\n",
               json_array_size(r->missing));
}

int run_replay(struct ctl *c)
{
    static const char *const filters[] = {"--source", "--workspace", "--type",
                                          "--reason", NULL};
    struct replay r = {.c = c, .code = -1};
    bool good = true;

    if (!read_options(&r))
        return EXIT_USAGE;
    if (!is_endpoint(c, r.endpoint))
        return EXIT_REFUSED;
    r.skipped = json_object();
    r.missing = json_array();
    r.at_ms = r.since_ms;
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    processes_find(c, &r.p);
    for (size_t i = 0; i < r.p.count && good && !interrupted; i++)
        if (process_is(r.p.names[i], PROCESSES_WITH_ARCHIVE) ||
            (!r.fresh && strcmp(r.p.names[i], sequencer) == 0))
            good = replay_archive(&r, r.p.names[i]);
    progress_end(&r.progress);
    if (interrupted)
        r.code = complain(EXIT_REFUSED, "interrupted");
    if (good && !interrupted) {
        print_done(&r);
        fflush(stdout);
        r.code = r.matched ? 0 : unknown_filter(c, filters);
    } else if (!r.dry && r.sent) {
        char at[RFC3339_BYTES];

        rfc3339(at, r.at_ms);
        complain(EXIT_REFUSED,
                 "%lld event%s sent again before that; continue with --since "
                 "%s",
                 (long long)r.sent, r.sent == 1 ? " was" : "s were", at);
    }
    processes_fini(&r.p);
    json_decref(r.skipped);
    json_decref(r.missing);
    return r.code;
}

/* ---- resend ---- */

/* The event in the form that `resend` expects; *own: Grapnel made it itself. NULL: it cannot be
 * sent again; the reason was printed. */
static json_t *one_event(struct replay *r, const char *id, bool *own)
{
    json_t *ids = json_pack("[s]", id), *reply, *facts, *one = NULL, *args;
    const char *status;

    if (!ids || strlen(id) != EVENT_ID_BYTES) {
        json_decref(ids);
        r->code = complain(
            EXIT_REFUSED,
            "%.60s is not an event id: evt_ and 26 letters and digits; "
            "`grapnel trace` also finds events by the provider's id",
            id);
        return NULL;
    }
    args = json_pack("{s:o}", "ids", ids);
    if (r->endpoint)
        json_object_set_new(args, "endpoint", json_string(r->endpoint));
    reply = question(r, sequencer, "facts", args);
    if (!reply)
        return NULL;
    facts = json_array_get(json_object_get(reply, "events"), 0);
    status = json_string_value(json_object_get(facts, "status"));
    *own = strcmp(text_of(facts, "source"), OPERATIONAL_SOURCE) == 0;
    if (status && strcmp(status, "duplicate") == 0)
        r->code = complain(EXIT_REFUSED,
                           "%s is a duplicate of %s and was not delivered; "
                           "`grapnel release %s` delivers it",
                           id, text_of(facts, "duplicate_of"), id);
    else if (status && strcmp(status, "split") == 0)
        r->code = complain(EXIT_REFUSED,
                           "%s is a request of several events; `grapnel trace "
                           "%s` lists them",
                           id, id);
    else if (status && strcmp(status, "buffered") == 0)
        r->code = complain(EXIT_REFUSED,
                           "%s waits for earlier events and was not delivered "
                           "yet; see `grapnel gaps --open`",
                           id);
    else if (status && strcmp(status, "erased") == 0)
        r->code = complain(EXIT_REFUSED,
                           "the workspace of %s was erased: there is nothing "
                           "to send",
                           id);
    else if (status && strcmp(status, "routed") != 0)
        r->code = complain(EXIT_REFUSED,
                           "%s was %s and never delivered; see `grapnel trace "
                           "%s`",
                           id, status, id);
    else
        one = json_pack("{s:s}", "id", id);
    if (one && json_object_get(facts, "request"))
        json_object_set(one, "request", json_object_get(facts, "request"));
    json_decref(reply);
    return one;
}

/* Endpoints of the event's deliveries that have not ended, the caller's. A resend makes their
 * next attempt now, within the present retry budget. */
static json_t *open_deliveries(struct replay *r, const char *id)
{
    json_t *out = json_array(), *event, *d;
    bool unreachable;
    char why[200];
    size_t i;

    event = ask(r->c, sequencer, "trace", json_pack("{s:s}", "id", id), ASK_MS,
                &unreachable, why);
    json_array_foreach(json_object_get(event, "deliveries"), i, d)
    {
        const char *status = text_of(d, "status"), *to = text_of(d, "endpoint");

        if (strcmp(status, "delivered") != 0 && strcmp(status, "dead") != 0 &&
            strcmp(status, "abandoned") != 0 &&
            (!r->endpoint || strcmp(to, r->endpoint) == 0))
            json_array_append_new(out, json_string(to));
    }
    json_decref(event);
    return out;
}

int run_resend(struct ctl *c)
{
    struct replay r = {.c = c, .code = -1};
    const char *id = c->parsed.args[0];
    json_t *one, *open, *events, *name;
    bool own;
    size_t i;

    r.endpoint = parsed_value(&c->parsed, "--endpoint");
    if (!is_endpoint(c, r.endpoint))
        return EXIT_REFUSED;
    one = one_event(&r, id, &own);
    if (!one)
        return r.code;
    open = open_deliveries(&r, id);
    events = json_pack("[o]", one);
    r.missing = json_array();
    processes_find(c, &r.p);
    for (i = 0; i < r.p.count && r.code < 0 && !r.sent; i++)
        if (process_is(r.p.names[i], own ? sequencer : PROCESSES_WITH_ARCHIVE))
            send_to(&r, r.p.names[i], events, r.endpoint != NULL);
    processes_fini(&r.p);
    json_decref(events);
    json_decref(r.missing);
    if (r.code < 0 && !r.sent)
        r.code = complain(EXIT_REFUSED,
                          "%s is not in the archive (any more); %s sets how "
                          "long requests are kept",
                          id, own ? "history.keep" : "`ingress.archive`");
    if (r.code < 0 && c->json) {
        print_json(json_pack("{s:s,s:b,s:o,s:O}", "id", id, "resent", true,
                             "endpoint",
                             r.endpoint ? json_string(r.endpoint) : json_null(),
                             "tried_now", open));
    } else if (r.code < 0) {
        if (!r.endpoint || !json_array_size(open))
            printf("%s is sent again%s%s.\n", id, r.endpoint ? " to " : "",
                   r.endpoint ? r.endpoint : "");
        json_array_foreach(open, i, name)
            printf("Its delivery to %s has not ended; the next attempt is now, "
                   "with its present retry budget.\n",
                   json_string_value(name));
    }
    json_decref(open);
    return r.code < 0 ? 0 : r.code;
}
