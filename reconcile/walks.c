/* walks: takes each walk through its pages, one bounded step in a turn. */
#include "walks.h"
#include "archive_erase.h"
#include "clock.h"
#include "commands.h"
#include "headers.h"
#include "http_get.h"
#include "json_text.h"
#include "log.h"
#include "page.h"
#include "profile.h"
#include "published.h"
#include "reconcile.h"
#include "resend.h"
#include "worker.h"
#include <czmq.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    RUN_PAGES_MAX = 200,
    WALK_PAGES_MAX = 5000,
    ASK_MAX = 500, /* events in one question; a reply may be about fewer */
    ASK_AGAIN_MS = 25,
    REPLY_MS = 3000, /* until a question is asked again */
    /* until the sequencer has replied, and until every ingress has */
    ASKED_MOST_MS = 60 * 1000,
    LOOK_MS = 1000,
    FETCH_TRIES_MAX = 20, /* of one event, one in a run */
    AGAIN_MS = 5000,      /* after a failure; the wait doubles */
    AGAIN_MOST_MS = 10 * 60 * 1000,
    BACKLOG_MAX = 50000,               /* events that wait for the sequencer */
    STORE_MAX_BYTES = 4 * 1024 * 1024, /* in one turn */
    TOKEN_MAX_BYTES = 8 * 1024,
    SINCE_FILE_MAX_BYTES = 64 * 1024,
};
#define RUN_MOST_MS      (10 * MINUTE_MS)
#define PURGED_MARGIN_MS (10 * MINUTE_MS)

#define SINCE_FILE "reconcile-since"

enum walk_state {
    WALK_IDLE,     /* the next run begins at `due_ms` of its row */
    WALK_LISTING,  /* the thread reads a page */
    WALK_ASKING,   /* the sequencer is asked about its events */
    WALK_STORING,  /* the missing ones from `at` on are stored */
    WALK_FETCHING, /* the thread reads the missing event at `at` */
    WALK_PAUSING,  /* until `pause_ms` */
};

struct walk {
    char source[NAME_MAX_BYTES + 1];
    enum walk_state state;
    struct http_get get;
    int watch;
    char *token;
    int64_t run_ms,
        pause_ms;      /* mono: when the run began; until when it pauses */
    bool fetches_next; /* after the pause: an event, not a page */
    int64_t run_pages;
    struct page page;
    struct buf body; /* of the page */
    size_t at;       /* of the page's items, in ASKING and STORING */
    size_t in_window, found;
    zsock_t *asked; /* NULL: the question is still to be sent */
    int64_t asked_ms,
        asking_ms; /* mono: this question; the first one since the last verdict */
    int64_t again_ms; /* mono: when it asks again, if it waits for that */
    int64_t clock;    /* the watermark clock of the first reply; -1: none yet */
    /* What it reads is dropped, because it begins anew. */
    bool stale;
    bool failed;
    char *unfetched; /* the id of the event whose request failed last; NULL */
    int tries;       /* for it */
    char logged[WALK_TEXT_BYTES];
};

static const char *const state_names[] = {
    [WALK_IDLE] = "waiting",      [WALK_LISTING] = "listing",
    [WALK_ASKING] = "asking",     [WALK_STORING] = "storing",
    [WALK_FETCHING] = "fetching", [WALK_PAUSING] = "listing"};

static const struct source *source_of(struct reconciler *r,
                                      const struct walk *w)
{
    const struct source *s = settings_source(r->daemon.settings, w->source);

    return s && s->reconcile.every_ms ? s : NULL;
}

void walks_open(struct reconciler *r)
{
    const struct settings *s = r->daemon.settings;

    r->walks.items = gr_alloc((s->source_count + 1) * sizeof *r->walks.items);
    for (size_t i = 0; i < s->source_count; i++) {
        struct walk *w = &r->walks.items[r->walks.count];

        if (!s->sources[i].reconcile.every_ms)
            continue;
        r->walks.count++;
        wire_copy(w->source, sizeof w->source, wire_text(s->sources[i].name));
        http_get_open(&w->get);
        buf_init(&w->body, PAGE_MAX_BYTES);
        w->watch = loop_watch_fd(&r->daemon.loop, worker_fd(w->get.worker));
    }
    if (!r->walks.count)
        log_warn(NULL, "no source has `reconcile`: there is nothing to do");
}

static void forget_token(struct walk *w)
{
    if (w->token)
        explicit_bzero(w->token, strlen(w->token));
    free(w->token);
    w->token = NULL;
}

/* Ends what it does with a page; no request is under way. */
static void forget_page(struct walk *w)
{
    zsock_destroy(&w->asked);
    page_fini(&w->page);
    buf_reset(&w->body);
    w->at = w->in_window = w->found = 0;
    w->fetches_next = false;
}

static bool in_thread(const struct walk *w)
{
    return w->state == WALK_LISTING || w->state == WALK_FETCHING;
}

void walks_close(struct reconciler *r)
{
    for (size_t i = 0; i < r->walks.count; i++) {
        struct walk *w = &r->walks.items[i];

        if (in_thread(w)) { /* it ends soon: it was cancelled */
            atomic_store(&w->get.cancelled, true);
            http_get_end(&w->get);
        }
        http_get_close(&w->get);
        forget_page(w);
        forget_token(w);
        free(w->unfetched);
        buf_fini(&w->body);
    }
    free(r->walks.items);
    r->walks.items = NULL;
    r->walks.count = 0;
}

/* ---- the row ---- */

static int64_t whole_seconds(int64_t ms)
{
    return ms - ms % 1000;
}

static void read_row(struct reconciler *r, const struct walk *w,
                     struct walk_row *row)
{
    if (walk_read(&r->rows, w->source, row))
        return;
    row->first_ms = row->covered_ms = whole_seconds(r->daemon.loop.now_ms);
    row->due_ms = r->daemon.loop.now_ms;
    walk_put(&r->rows, w->source, row);
}

/* Times in the future are of a clock that was wrong: in their shadow nothing would be compared until it is
 * that late. Goes back to the begin of that walk, or by a day. */
static void mend_times(struct reconciler *r, struct walk *w,
                       const struct source *source, struct walk_row *row)
{
    int64_t now_ms = whole_seconds(r->daemon.loop.now_ms),
            every_ms = source->reconcile.every_ms, covered_ms = row->covered_ms;

    if (row->due_ms > now_ms +
                          (every_ms > WAIT_MOST_MS ? every_ms : WAIT_MOST_MS) +
                          SECOND_MS) {
        row->due_ms = now_ms;
        walk_put(&r->rows, w->source, row);
    }
    if (covered_ms <= now_ms && row->to_ms <= now_ms)
        return;
    if (covered_ms > now_ms)
        row->covered_ms = row->from_ms && row->from_ms <= now_ms
                              ? row->from_ms
                              : now_ms - DAY_MS;
    if (row->first_ms > row->covered_ms && row->first_ms > now_ms)
        row->first_ms = row->covered_ms;
    row->to_ms = 0;
    row->position[0] = 0;
    row->due_ms = now_ms;
    walk_put(&r->rows, w->source, row);
    log_warn(NULL,
             "the list of a provider was compared up to a time in the future: "
             "the clock was wrong; it is compared again",
             LS("source", w->source), LT("covered_until", covered_ms),
             LT("from", row->covered_ms));
}

static void end_run(struct walk *w)
{
    forget_page(w);
    forget_token(w);
    w->state = WALK_IDLE;
    w->stale = false;
}

/* The run ends; the next one goes on where it was. */
static void fail(struct reconciler *r, struct walk *w, int64_t wait_ms,
                 const char *why)
{
    const struct source *source = source_of(r, w);
    struct walk_row row;
    int64_t again_ms = AGAIN_MS, most = AGAIN_MOST_MS;

    read_row(r, w, &row);
    if (source && source->reconcile.every_ms < most)
        most = source->reconcile.every_ms;
    for (int64_t i = 0; i < row.failures && again_ms < most; i++)
        again_ms *= 2;
    if (again_ms > most)
        again_ms = most;
    if (again_ms < wait_ms)
        again_ms = wait_ms;
    row.failures++;
    row.due_ms = r->daemon.loop.now_ms + again_ms;
    wire_copy(row.error, sizeof row.error, wire_text(why));
    walk_put(&r->rows, w->source, &row);
    if (strcmp(row.error, w->logged) != 0)
        log_warn(NULL, "the list of a provider cannot be read; trying again",
                 LS("source", w->source), LS("error", row.error),
                 LI("wait_ms", again_ms));
    memcpy(w->logged, row.error, sizeof w->logged);
    series_add(METRIC_SERIES(r->daemon.metrics, FAMILY_ERRORS, w->source), 1);
    w->failed = true;
    end_run(w);
}

/* ---- a request ---- */

static bool read_token(struct walk *w, const struct source *source,
                       char why[PAGE_WHY_BYTES])
{
    const char *path = source->reconcile.token_file;
    char text[TOKEN_MAX_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    if (n < 0)
        snprintf(why, PAGE_WHY_BYTES, "token_file: %.200s: %s", path,
                 strerror(errno));
    if (fd >= 0)
        close(fd);
    while (n > 0 && strchr(" \t\r\n", text[n - 1]))
        n--;
    if (n >= 0)
        text[n] = 0;
    if (n == 0)
        snprintf(why, PAGE_WHY_BYTES, "token_file: %.200s is empty", path);
    else if (n > 0 && strpbrk(text, "\r\n")) {
        snprintf(why, PAGE_WHY_BYTES, "token_file: %.200s has several lines",
                 path);
        n = -1;
    }
    forget_token(w);
    if (n > 0)
        w->token = gr_strdup(text);
    explicit_bzero(text, sizeof text);
    return n > 0;
}

static void begin_get(struct reconciler *r, struct walk *w,
                      const struct source *source, char *url,
                      enum walk_state state, int64_t max_bytes)
{
    http_get_begin(&w->get, url,
                   w->token ? page_credentials(source, w->token) : NULL,
                   source->reconcile.timeout_ms, (size_t)max_bytes);
    series_add(METRIC_SERIES(r->daemon.metrics, FAMILY_REQUESTS, w->source), 1);
    w->state = state;
}

static void begin_page(struct reconciler *r, struct walk *w,
                       const struct source *source)
{
    struct walk_row row;

    read_row(r, w, &row);
    forget_page(w);
    begin_get(r, w, source,
              page_url(source, row.from_ms, row.to_ms, row.position),
              WALK_LISTING, PAGE_MAX_BYTES);
}

/* Whether events can be stored now. */
static bool has_space(struct reconciler *r)
{
    return !r->archive.space.refusal && !db_full(r->daemon.db) &&
           links_backlog(r->daemon.links, SEQUENCER) < BACKLOG_MAX;
}

static void begin_run(struct reconciler *r, struct walk *w,
                      const struct source *source)
{
    const struct reconcile *c = &source->reconcile;
    char why[PAGE_WHY_BYTES];
    struct walk_row row;

    read_row(r, w, &row);
    if (!row.to_ms) {
        int64_t from_ms = row.covered_ms - c->look_back_ms;

        row.from_ms = whole_seconds(from_ms > row.first_ms ? from_ms
                                                           : row.first_ms);
        row.to_ms = whole_seconds(r->daemon.loop.now_ms - c->grace_ms);
        if (row.to_ms < row.from_ms) { /* everything is younger than `grace` */
            row.to_ms = 0;
            row.due_ms = r->daemon.loop.now_ms + c->every_ms;
            walk_put(&r->rows, w->source, &row);
            return;
        }
        row.position[0] = 0;
        row.pages = row.listed = row.found = 0;
        walk_put(&r->rows, w->source, &row);
    }
    if (c->token_file && !read_token(w, source, why)) {
        fail(r, w, 0, why);
        return;
    }
    w->run_ms = r->daemon.loop.mono_ms;
    w->run_pages = 0;
    begin_page(r, w, source);
}

/* ---- a page ---- */

/* A response that is not 200: of an event, or of a page. */
static void refused(struct reconciler *r, struct walk *w, bool of_event)
{
    struct walk_row row;
    char why[PAGE_WHY_BYTES];
    long status = w->get.status;

    read_row(r, w, &row);
    if (!status)
        snprintf(why, sizeof why, "%s", w->get.error);
    else if (w->get.wait_ms)
        snprintf(why, sizeof why,
                 "the provider responds %ld and asks to wait %lld s", status,
                 (long long)(w->get.wait_ms / 1000));
    else if (status == 401 || status == 403)
        snprintf(why, sizeof why,
                 "the provider responds %ld: check token_file, and what the "
                 "key may read",
                 status);
    else if (status >= 300 && status < 400)
        snprintf(why, sizeof why,
                 "the provider responds %ld, and redirects are not followed: "
                 "set `url`",
                 status);
    else
        snprintf(why, sizeof why, "the provider responds %ld", status);
    /* It may not know the position any more. */
    if (!of_event && row.position[0] &&
        (status == 400 || status == 404 || status == 410 || status == 422)) {
        row.position[0] = 0;
        walk_put(&r->rows, w->source, &row);
    }
    fail(r, w, w->get.wait_ms, why);
}

static void event_id_of(const struct walk *w, const char *id,
                        char out[EVENT_ID_BYTES + 1])
{
    char *key = gr_printf("reconcile %s", id);

    published_event_id(out, w->source, wire_text(key));
    free(key);
}

static void page_came(struct reconciler *r, struct walk *w,
                      const struct source *source)
{
    struct bytes body;
    struct walk_row row;
    char why[PAGE_WHY_BYTES];
    bool older = true;

    /* The thread's buffer is used again while events of the page are fetched. */
    buf_put(&w->body, w->get.body.data ? w->get.body.data : "",
            w->get.body.len);
    body = (struct bytes){w->body.data, w->body.len};
    read_row(r, w, &row);
    if (page_read(&w->page, source, body, row.position, w->get.link,
                  source_listing_url(source), why) != GR_OK) {
        fail(r, w, 0, why);
        return;
    }
    if (w->get.link_cut && source_listing(source)->paging == LISTING_LINK) {
        fail(r, w, 0, "the header Link is longer than 8 KiB");
        return;
    }
    if (w->page.unusable)
        log_warn(NULL, "a list has events without an id or a time",
                 LS("source", w->source), LI("events", w->page.unusable));
    for (size_t i = 0; i < w->page.count; i++)
        older = older && w->page.items[i].ms < row.from_ms;
    /* A list that cannot be asked for a time has its newest events first. */
    if (w->page.count && older &&
        !strstr(source_listing_url(source), "{from}")) {
        free(w->page.next);
        w->page.next = NULL;
    }
    w->state = WALK_ASKING;
    w->asking_ms = r->daemon.loop.mono_ms;
    w->again_ms = 0;
    w->clock = -1;
}

/* Whether the sequencer may have had the event and purged it. The clock of its provider may differ. */
static bool may_be_purged(const json_t *reply, const struct listed *item)
{
    int64_t purged_ms = json_integer_value(json_object_get(reply, "purged_ms"));

    return purged_ms && item->ms < purged_ms + PURGED_MARGIN_MS;
}

static bool is_asked_for(const struct walk_row *row, const struct listed *item)
{
    return item->ms >= row->from_ms && item->ms < row->to_ms + 1000;
}

/* Asks about the next events of the page. */
static void ask(struct reconciler *r, struct walk *w)
{
    json_t *ids = json_array(), *own = json_array(), *question;
    char id[EVENT_ID_BYTES + 1];

    for (size_t i = w->at; i < w->page.count && json_array_size(ids) < ASK_MAX;
         i++) {
        const struct listed *item = &w->page.items[i];

        event_id_of(w, item->id, id);
        json_array_append_new(ids, json_string(item->id));
        json_array_append_new(own, json_string(id));
    }
    question = json_pack("{s:s,s:o,s:o}", "source", w->source, "provider_ids",
                         ids, "own_ids", own);
    w->asked_ms = r->daemon.loop.mono_ms;
    w->asked = control_send(r->daemon.settings->run_dir, SEQUENCER,
                            command_listed.name, question, NULL, 0);
    json_decref(question);
}

/* Whether what the reply says is final: every ingress was read up to the first question. */
static bool is_final(struct walk *w, const json_t *reply)
{
    int64_t clock = json_integer_value(json_object_get(reply, "clock"));

    if (w->clock < 0 || clock < w->clock) /* the sequencer was restarted */
        w->clock = clock;
    return json_integer_value(json_object_get(reply, "arrived")) >= w->clock;
}

static void take_verdict(struct reconciler *r, struct walk *w,
                         const json_t *reply)
{
    const json_t *missing = json_object_get(reply, "missing");
    struct walk_row row;
    char id[EVENT_ID_BYTES + 1];
    size_t unknown = 0, from = w->at;

    read_row(r, w, &row);
    for (size_t i = 0; i < json_array_size(missing) && w->at < w->page.count;
         i++, w->at++) {
        struct listed *item = &w->page.items[w->at];

        if (!is_asked_for(&row, item))
            continue;
        w->in_window++;
        event_id_of(w, item->id, id);
        item->missing = json_is_true(json_array_get(missing, i)) &&
                        !archive_number(&r->archive.store, id);
        if (item->missing && may_be_purged(reply, item)) {
            item->missing = false;
            unknown++;
        }
    }
    if (unknown)
        log_warn(NULL,
                 "a provider lists events that are older than the history of "
                 "the sequencer; they may have arrived, so they are not taken "
                 "in",
                 LS("source", w->source), LI("events", unknown));
    if (w->at > from)
        w->asking_ms = r->daemon.loop.mono_ms;
    else
        w->again_ms = r->daemon.loop.mono_ms + ASK_AGAIN_MS;
    if (w->at < w->page.count)
        return;
    w->at = 0;
    w->state = WALK_STORING;
}

/* Returns ms until it must be called again. */
static int work_on_question(struct reconciler *r, struct walk *w)
{
    int64_t now_ms = r->daemon.loop.mono_ms;
    bool unreachable, unanswered = false;
    bool late = now_ms - w->asking_ms >= ASKED_MOST_MS;
    char why[200], code[CONTROL_CODE_BYTES];
    json_t *reply;

    if (w->at >= w->page.count) { /* there are none */
        w->at = 0;
        w->state = WALK_STORING;
        return 0;
    }
    if (!w->asked && now_ms < w->again_ms)
        return (int)(w->again_ms - now_ms);
    if (w->asked && now_ms - w->asked_ms >= REPLY_MS) {
        zsock_destroy(&w->asked); /* the sequencer may have been killed */
        unanswered = true;
    }
    if (!w->asked && !(unanswered && late))
        ask(r, w);
    if (!w->asked && late) {
        fail(r, w, 0, "the sequencer does not respond");
        return 0;
    }
    if (!w->asked || !(zsock_events(w->asked) & ZMQ_POLLIN))
        return 10;
    reply = control_take_coded(w->asked, &unreachable, code, why);
    w->asked = NULL;
    if (reply && is_final(w, reply))
        take_verdict(r, w, reply);
    else if (!reply && (late || strcmp(code, "busy") != 0))
        fail(r, w, 0, why);
    else if (late)
        fail(r, w, 0,
             "an ingress process does not respond, and may have the events "
             "that seem to be missing");
    else
        w->again_ms = now_ms + ASK_AGAIN_MS;
    json_decref(reply);
    return 0;
}

/* ---- a missing event ---- */

static void put_row(struct reconciler *r, struct walk *w, const char *id,
                    struct bytes body, const struct listed *item)
{
    struct archive *a = &r->archive;
    struct archive_row row = {
        .n = (int64_t)links_next(r->daemon.links, SEQUENCER),
        .event_id = id,
        .source = w->source,
        .received_ms = r->daemon.loop.now_ms,
        .remote = "the list of its provider",
        .headers = {r->headers.data, r->headers.len},
        .body = body,
    };

    archive_insert(&a->store, &row);
    buf_reset(&r->message);
    archive_put_message(&row, &r->message);
    links_put_message(r->daemon.links, SEQUENCER, KIND_ARCHIVED, row.n,
                      (struct bytes){r->message.data,
                                     r->message.failed ? 0 : r->message.len});
    archive_space_took(&a->space, row.n, (int64_t)(body.n + row.headers.n));
    series_add(METRIC_SERIES(r->daemon.metrics, FAMILY_FOUND, w->source), 1);
    w->found++;
    if (log_has_capacity(LEVEL_WARN))
        log_warn(id,
                 "an event that its provider lists never arrived; it is taken "
                 "in now",
                 LS("source", w->source), LS("provider_id", item->id),
                 LT("provider_time", item->ms), LI("body_bytes", body.n));
}

/* Whether the stored request would have the id by which it was found: only then is it recognised
 * when the original arrives. */
static bool has_id(const struct source *source, struct bytes headers,
                   struct bytes body, const char *id)
{
    struct subject s = {.source = source->name,
                        .provider = source->provider,
                        .headers = headers,
                        .body = body};
    const char *why;
    struct buf out;
    bool same;

    buf_init(&out, TEXT_MAX_BYTES);
    same = profile_event_id(source, &s, &out, &why) == GR_OK && out.len &&
           strcmp(out.data, id) == 0;
    buf_fini(&out);
    subject_fini(&s);
    return same;
}

/* Whether a header names its workspace, and is not there: what was sent to the source had it, as a
 * rule, and another workspace must not get the event. */
static bool lacks_workspace(const struct source *source, struct bytes headers,
                            struct bytes body)
{
    struct subject s = {.source = source->name,
                        .provider = source->provider,
                        .headers = headers,
                        .body = body};
    bool lacks = false, found = false;
    const char *why;
    struct buf out;

    buf_init(&out, TEXT_MAX_BYTES);
    for (const struct expr *e = &source->workspace; e && !found; e = e->other) {
        struct expr alone = {.kind = e->kind, .text = e->text};

        if (e->kind == EXPR_NONE)
            break;
        found = expr_value(&alone, &s, &out, &why) == GR_OK;
        if (e->kind == EXPR_HEADER)
            lacks = !found;
    }
    buf_fini(&out);
    subject_fini(&s);
    return lacks;
}

/* The event is missing, and is not taken in. */
static void skip(struct reconciler *r, struct walk *w, const char *why)
{
    series_add(METRIC_SERIES(r->daemon.metrics, FAMILY_SKIPPED, w->source), 1);
    log_warn(NULL, "an event that never arrived cannot be taken in",
             LS("source", w->source),
             LS("provider_id", w->page.items[w->at].id), LS("reason", why));
}

static void store(struct reconciler *r, struct walk *w,
                  const struct source *source, struct bytes text)
{
    const struct listed *item = &w->page.items[w->at];
    char id[EVENT_ID_BYTES + 1], time[RFC3339_BYTES], why[PAGE_WHY_BYTES] = "";
    struct bytes body, headers;
    struct buf rest;

    event_id_of(w, item->id, id);
    if (archive_number(&r->archive.store, id)) /* listed twice */
        return;
    buf_init(&rest, BODY_MAX_BYTES);
    if (page_event(source, text, &r->headers, &body, why) == GR_OK) {
        rfc3339(time, item->ms);
        headers_put(&r->headers, RECONCILED_HEADER, wire_text(time));
        headers = (struct bytes){r->headers.data, r->headers.len};
        if (r->headers.failed)
            snprintf(why, sizeof why, "its headers are too large");
        else if ((int64_t)body.n > r->daemon.settings->ingress.max_body_bytes)
            snprintf(why, sizeof why, "it is larger than ingress.max_body");
        else if (!has_id(source, headers, body, item->id))
            snprintf(why, sizeof why,
                     "what was fetched has another id than the list");
        else if (lacks_workspace(source, headers, body))
            snprintf(why, sizeof why,
                     "what was fetched lacks the header that names the "
                     "workspace");
        else if (!erase_refuses(&r->archive, w->source, headers, body, &rest))
            put_row(r, w, id,
                    rest.len ? (struct bytes){rest.data, rest.len} : body,
                    item);
    }
    if (*why)
        skip(r, w, why);
    buf_fini(&rest);
}

/* Whether another try would have the same response. The others may be about the token or the time. */
static bool is_unavailable(long status)
{
    return status >= 400 && status < 500 && status != 401 && status != 403 &&
           status != 408 && status != 429;
}

/* Whether this event could not be fetched so many times that others must not wait for it any more. Its
 * list was readable each time, with the same token. */
static bool tried_enough(struct walk *w)
{
    const char *id = w->page.items[w->at].id;

    if (w->get.status == 401 || w->get.status == 429 || w->get.wait_ms)
        return false;
    if (!w->unfetched || strcmp(w->unfetched, id) != 0) {
        free(w->unfetched);
        w->unfetched = gr_strdup(id);
        w->tries = 0;
    }
    return ++w->tries >= FETCH_TRIES_MAX;
}

static void fetched(struct reconciler *r, struct walk *w,
                    const struct source *source)
{
    char why[PAGE_WHY_BYTES];

    w->state = WALK_STORING;
    if (w->get.status == 200) {
        store(r, w, source,
              (struct bytes){w->get.body.data ? w->get.body.data : "",
                             w->get.body.len});
        w->at++;
    } else if (w->get.body.failed) {
        skip(r, w, "it is larger than ingress.max_body");
        w->at++;
    } else if (is_unavailable(w->get.status) || tried_enough(w)) {
        snprintf(why, sizeof why, "the provider responds %ld", w->get.status);
        skip(r, w, w->get.status ? why : w->get.error);
        w->at++;
    } else {
        refused(r, w, true);
    }
}

/* The page is done: the next one, or the end of the walk or the run. */
static void finish_page(struct reconciler *r, struct walk *w,
                        const struct source *source)
{
    const struct reconcile *c = &source->reconcile;
    struct walk_row row;

    read_row(r, w, &row);
    row.pages++;
    row.listed += (int64_t)w->in_window;
    row.found += (int64_t)w->found;
    row.failures = 0;
    row.error[0] = 0;
    series_add(METRIC_SERIES(r->daemon.metrics, FAMILY_LISTED, w->source),
               (int64_t)w->in_window);
    w->failed = false;
    w->logged[0] = 0;
    w->run_pages++;
    if (!w->page.next) {
        row.covered_ms = row.to_ms;
        row.to_ms = 0;
        row.position[0] = 0;
        row.ended_ms = r->daemon.loop.now_ms;
        row.due_ms = r->daemon.loop.now_ms + c->every_ms;
        walk_put(&r->rows, w->source, &row);
        log_info(NULL, "the list of a provider was compared",
                 LS("source", w->source), LI("listed", row.listed),
                 LI("found", row.found), LI("pages", row.pages));
        end_run(w);
        return;
    }
    if (strlen(w->page.next) >= WALK_TEXT_BYTES ||
        row.pages >= WALK_PAGES_MAX) {
        row.to_ms = 0;
        row.position[0] = 0;
        walk_put(&r->rows, w->source, &row);
        fail(r, w, c->every_ms,
             row.pages >= WALK_PAGES_MAX
                 ? "the list does not end: 5000 pages were read"
                 : "what asks for the next page is too long");
        return;
    }
    wire_copy(row.position, sizeof row.position, wire_text(w->page.next));
    if (w->run_pages >= RUN_PAGES_MAX ||
        r->daemon.loop.mono_ms - w->run_ms >= RUN_MOST_MS) {
        row.due_ms = r->daemon.loop.now_ms + c->every_ms;
        walk_put(&r->rows, w->source, &row);
        end_run(w);
        return;
    }
    walk_put(&r->rows, w->source, &row);
    forget_page(w);
    w->state = WALK_PAUSING;
    w->pause_ms = r->daemon.loop.mono_ms + c->pause_ms;
}

/* Stores missing events, as many as a turn may; begins to fetch the next one. */
static void store_some(struct reconciler *r, struct walk *w,
                       const struct source *source)
{
    const struct provider_list *list = source_listing(source);
    size_t bytes = 0;
    char *url;

    for (; w->at < w->page.count && bytes < STORE_MAX_BYTES; w->at++) {
        const struct listed *item = &w->page.items[w->at];

        if (!item->missing)
            continue;
        if (!has_space(r)) {
            fail(r, w, 0, "there is no space for events now");
            return;
        }
        if (!list->event_url) {
            store(r, w, source, item->text);
            bytes += item->text.n;
            continue;
        }
        url = page_event_url(source, item);
        if (!url) {
            skip(r, w, "the list has no key of it");
            continue;
        }
        free(url);
        w->state = WALK_PAUSING;
        w->fetches_next = true;
        w->pause_ms = r->daemon.loop.mono_ms + source->reconcile.pause_ms;
        return;
    }
    if (w->at >= w->page.count)
        finish_page(r, w, source);
}

static void end_pause(struct reconciler *r, struct walk *w,
                      const struct source *source)
{
    char *url = w->fetches_next ? page_event_url(source, &w->page.items[w->at])
                                : NULL;

    if (!w->fetches_next) {
        begin_page(r, w, source);
    } else if (url) {
        w->fetches_next = false;
        begin_get(r, w, source, url, WALK_FETCHING,
                  r->daemon.settings->ingress.max_body_bytes + PAGE_MAX_BYTES);
    } else { /* its settings have changed */
        end_run(w);
    }
}

/* ---- the turn ---- */

/* Returns ms until it must be called again; -1: when its thread is done. */
static int step(struct reconciler *r, struct walk *w)
{
    const struct source *source = source_of(r, w);
    struct loop *loop = &r->daemon.loop;
    struct walk_row row;

    if (in_thread(w)) {
        if (loop->stopping)
            atomic_store(&w->get.cancelled, true);
        if (!loop_ready(loop, w->watch))
            return -1;
        http_get_end(&w->get);
        if (!source || w->stale || loop->stopping)
            end_run(w);
        else if (w->state == WALK_FETCHING)
            fetched(r, w, source);
        else if (w->get.status == 200)
            page_came(r, w, source);
        else
            refused(r, w, false);
        return 0;
    }
    if (!source || loop->stopping || w->stale) {
        end_run(w);
        return loop->stopping || !source ? -1 : 0;
    }
    switch (w->state) {
    case WALK_ASKING:
        return work_on_question(r, w);
    case WALK_STORING:
        store_some(r, w, source);
        return 0;
    case WALK_PAUSING:
        if (w->pause_ms > loop->mono_ms)
            return (int)(w->pause_ms - loop->mono_ms);
        end_pause(r, w, source);
        return -1;
    default:
        read_row(r, w, &row);
        mend_times(r, w, source, &row);
        if (row.due_ms > loop->now_ms)
            return (int)(row.due_ms - loop->now_ms < LOOK_MS
                             ? row.due_ms - loop->now_ms
                             : LOOK_MS);
        if (!has_space(r))
            return LOOK_MS;
        begin_run(r, w, source);
        return w->state == WALK_IDLE ? LOOK_MS : -1;
    }
}

/* The source is read from this time on, beginning now. */
static bool begin_from(struct reconciler *r, const char *source,
                       int64_t since_ms)
{
    for (size_t i = 0; i < r->walks.count; i++) {
        struct walk *w = &r->walks.items[i];
        struct walk_row row;

        if (strcmp(w->source, source) != 0)
            continue;
        read_row(r, w, &row);
        if (since_ms) {
            since_ms = whole_seconds(since_ms);
            row.to_ms = 0;
            row.position[0] = 0;
            if (since_ms < row.covered_ms)
                row.covered_ms = since_ms;
            if (since_ms < row.first_ms)
                row.first_ms = since_ms;
            w->stale = w->state != WALK_IDLE;
        }
        row.failures = 0;
        row.due_ms = r->daemon.loop.now_ms;
        walk_put(&r->rows, w->source, &row);
        return true;
    }
    return false;
}

static char *since_path(struct reconciler *r)
{
    return gr_printf("%s/" SINCE_FILE, r->daemon.settings->state_dir);
}

/* What `grapnel restore --then-reconcile` has written: lines of "SOURCE MS". */
static void take_file(struct reconciler *r)
{
    char *path = since_path(r), *text, *line, *at = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n;

    free(path);
    if (fd < 0)
        return;
    text = gr_alloc(SINCE_FILE_MAX_BYTES + 1);
    n = read(fd, text, SINCE_FILE_MAX_BYTES);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    for (line = strtok_r(text, "\n", &at); line;
         line = strtok_r(NULL, "\n", &at)) {
        char *space = strchr(line, ' ');
        int64_t since_ms = space ? strtoll(space + 1, NULL, 10) : 0;

        if (space)
            *space = 0;
        if (since_ms <= 0 || !begin_from(r, line, since_ms))
            log_warn(NULL,
                     "a restore asked to reconcile a source that has no "
                     "`reconcile`",
                     LS("source", line));
        else
            log_info(NULL, "a restore asked to reconcile a source",
                     LS("source", line), LT("since", since_ms));
    }
    free(text);
    r->walks.took_file = true;
}

int walks_work(struct reconciler *r)
{
    struct loop *loop = &r->daemon.loop;
    int wait_ms = LOOK_MS;

    if (!r->walks.took_file && !loop->stopping &&
        (!r->walks.looked_ms ||
         loop->mono_ms - r->walks.looked_ms >= LOOK_MS)) {
        r->walks.looked_ms = loop->mono_ms;
        take_file(r);
    }
    for (size_t i = 0; i < r->walks.count; i++)
        wait_ms = loop_sooner(wait_ms, step(r, &r->walks.items[i]));
    return wait_ms;
}

void walks_after_commit(struct reconciler *r)
{
    char *path;

    if (!r->walks.took_file)
        return;
    path = since_path(r);
    if (unlink(path) != 0 && errno != ENOENT)
        log_warn(NULL, "a file of a restore cannot be deleted",
                 LS("file", path), LS("error", strerror(errno)));
    free(path);
    r->walks.took_file = false;
}

void walks_undo(struct reconciler *r)
{
    r->walks.took_file = false;
    for (size_t i = 0; i < r->walks.count; i++) {
        struct walk *w = &r->walks.items[i];

        if (in_thread(w))
            w->stale = true;
        else
            end_run(w);
    }
}

bool walks_idle(struct reconciler *r)
{
    for (size_t i = 0; i < r->walks.count; i++)
        if (r->walks.items[i].state != WALK_IDLE)
            return false;
    return true;
}

bool walks_good(const struct reconciler *r)
{
    for (size_t i = 0; i < r->walks.count; i++)
        if (r->walks.items[i].failed)
            return false;
    return true;
}

void walks_measure(struct reconciler *r)
{
    for (size_t i = 0; i < r->walks.count; i++) {
        const struct walk *w = &r->walks.items[i];
        struct walk_row row;

        read_row(r, w, &row);
        series_set(METRIC_SERIES(r->daemon.metrics, FAMILY_COVERED, w->source),
                   r->daemon.loop.now_ms - row.covered_ms);
    }
}

/* ---- commands ---- */

json_t *walks_status(void *self, json_t *args, char why[200])
{
    struct reconciler *r = self;
    json_t *list = json_array();

    (void)args, (void)why;
    for (size_t i = 0; i < r->walks.count; i++) {
        const struct walk *w = &r->walks.items[i];
        struct walk_row row;

        read_row(r, w, &row);
        json_array_append_new(
            list,
            json_pack("{s:s,s:s,s:s,s:o,s:o,s:o,s:I,s:I,s:I,s:o}", "process",
                      r->daemon.name, "source", w->source, "state",
                      state_names[w->state], "covered_until",
                      json_time(row.covered_ms), "completed_at",
                      json_time(row.ended_ms), "next_at", json_time(row.due_ms),
                      "pages", (json_int_t)row.pages, "listed",
                      (json_int_t)row.listed, "found", (json_int_t)row.found,
                      "error", json_text_or_null(row.error)));
    }
    return json_pack("{s:s,s:o}", "process", r->daemon.name, "sources", list);
}

json_t *walks_begin(void *self, json_t *args, char why[200])
{
    struct reconciler *r = self;
    const char *source = json_string_value(json_object_get(args, "source"));
    int64_t since_ms = json_integer_value(json_object_get(args, "since_ms"));

    if (!begin_from(r, source, since_ms)) {
        control_fail(why, CONTROL_NOT_FOUND,
                     "no source \"%.60s\" with `reconcile` is read: add it, "
                     "and restart grapnel-reconcile",
                     source);
        return NULL;
    }
    return json_pack("{s:s,s:o}", "source", source, "since",
                     json_time(since_ms));
}
