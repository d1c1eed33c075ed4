/* relay: runs the thread of each relay, and makes events of the rows that it took. */
#include "relay.h"
#include "archive_erase.h"
#include "clock.h"
#include "headers.h"
#include "json_text.h"
#include "log.h"
#include "outbox.h"
#include "published.h"
#include "relay_figures.h"
#include "resend.h"
#include "worker.h"
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    AGAIN_MS = 500, /* until rows are taken while there is no space for them */
    FAILED_FIRST_MS = 500,
    FAILED_MOST_MS = 30 * 1000,
    POLL_FIRST_MS = 50, /* after a batch; then the wait doubles up to `poll` */
    WRITES_MAX = 500,
    BACKLOG_MAX = 50000,         /* events that wait for the sequencer */
    PAYLOAD_GROWS_BY = 8 * 1024, /* the rest of an event */
    /* Rows that the database refuses to let us change. With more of them, something is wrong with the
     * table. */
    ASIDE_MAX = 100,
    ASIDE_FIRST_MS = 2000,
    ASIDE_MOST_MS = 5 * 60 * 1000,
    /* Where so many outcomes are refused and no other is written, all of them wait. */
    HOLD_MIN = 20,
    HOLD_FIRST_MS = 1000,
    HOLD_MOST_MS = 60 * 1000,
    HOLD_FULL_MS = 30 * 1000, /* after this process's own disk was full */
    PURGE_MAX = 500,
    PURGE_NEXT_MS = 1000,
    PURGE_EVERY_MS = 60 * 1000,
    LOOK_EVERY_MS = 5000,
    LOOK_FAILED_MS = 60 * 1000,
};

enum relay_state {
    RELAY_IDLE,    /* no transaction is open; the next run is begun at due_ms */
    RELAY_RUNNING, /* all members up to `look_why` belong to the thread */
    RELAY_TAKEN,   /* rows are to be stored; the transaction is open */
    RELAY_ENDING,  /* the next run ends the transaction, as `work.end` says */
};

/* A row that is not taken before `due_ms`, because the database refuses to change it. */
struct aside {
    char *id;
    int64_t wait_ms, due_ms; /* mono */
};

struct relay_run {
    const struct driver_ops *ops;
    struct driver *driver;
    int wake_fd;
    /* What the run is to do. */
    struct driver_work work;
    struct driver_refusal *refusals;
    const char *except[ASIDE_MAX];
    int64_t wait_ms;
    /* Delivered rows that are older are deleted; 0: not in this run. */
    int64_t purge_age_ms;
    bool looks;
    /* Its result. */
    gr_rc rc, purge_rc, look_rc;
    char why[DRIVER_WHY_BYTES];
    bool notified;
    int64_t deleted;
    struct driver_look look;
    char purge_why[DRIVER_WHY_BYTES], look_why[DRIVER_WHY_BYTES];

    char name[NAME_MAX_BYTES + 1];
    char *table;
    /* The driver does not read larger payloads; a reload does not change it. */
    int64_t max_payload;
    struct worker *worker;
    int watch;
    enum relay_state state;
    int64_t due_ms; /* mono */
    int64_t poll_ms;
    /* The wait after the last failure; 0: it did not fail. */
    int64_t failed_ms;
    /* The last failure in the log, and that of a deletion. */
    char logged[DRIVER_WHY_BYTES], purge_logged[DRIVER_WHY_BYTES];
    /* wake_fd was written in this run. */
    bool woken;
    bool connected;
    /* How many rows are taken, at most: fewer while the database refuses one of them. 0: `batch` of
     * the settings. */
    int64_t batch;
    /* How many were taken last; their id if it was one. */
    size_t taken;
    char *only_id;
    struct aside aside[ASIDE_MAX];
    size_t aside_count;
    /* The last writes were refused: the next ones are written one by one. */
    bool alone;
    /* Outcomes that were refused have their turn. */
    bool refused_next;
    /* No outcome is written before hold_ms (mono). */
    int64_t hold_wait_ms, hold_ms;
    /* When an outcome is due that was put off (mono); 0: there is none. */
    int64_t outcome_ms;
    int64_t purge_ms, look_ms; /* mono */
    struct relay_figures figures;
};

/* ---- the thread ---- */

static void run(void *arg)
{
    struct relay_run *r = arg;
    uint64_t times;

    r->notified = false;
    r->rc = r->ops->step(r->driver, &r->work, r->why);
    if (r->rc == GR_OK && r->purge_age_ms)
        r->purge_rc = r->ops->purge(r->driver, r->purge_age_ms, PURGE_MAX,
                                    &r->deleted, r->purge_why);
    if (r->rc == GR_OK && r->looks)
        r->look_rc = r->ops->look(r->driver, &r->look, r->look_why);
    if (r->rc == GR_OK && r->work.max > 0 && !r->work.write_count &&
        !r->ops->count(r->driver))
        r->notified = r->ops->wait(r->driver, r->wake_fd, r->wait_ms);
    (void)!read(r->wake_fd, &times, sizeof times);
}

void relays_open(struct outbox *o)
{
    const struct settings *s = o->daemon.settings;
    int64_t max_payload = s->ingress.max_body_bytes;

    o->relays.items = gr_alloc((s->relay_count + 1) * sizeof *o->relays.items);
    o->relays.count = s->relay_count;
    if (max_payload > BODY_MAX_BYTES - PAYLOAD_GROWS_BY)
        max_payload = BODY_MAX_BYTES - PAYLOAD_GROWS_BY;
    for (size_t i = 0; i < s->relay_count; i++) {
        const struct relay *relay = &s->relays[i];
        struct relay_run *r = &o->relays.items[i];

        *r = (struct relay_run){.ops = driver_of(relay),
                                .poll_ms = POLL_FIRST_MS,
                                .max_payload = max_payload,
                                .table = gr_strdup(relay->table)};
        figures_init(&r->figures);
        wire_copy(r->name, sizeof r->name, wire_text(relay->name));
        r->driver = r->ops->open(relay, o->daemon.name, max_payload);
        r->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (r->wake_fd < 0)
            die(EXIT_UNAVAILABLE, "eventfd: %s", strerror(errno));
        r->worker = worker_open(run, r);
        r->watch = loop_watch_fd(&o->daemon.loop, worker_fd(r->worker));
    }
    if (!s->relay_count)
        log_warn(NULL, "no relays are configured: there is nothing to do");
}

static void forget_writes(struct relay_run *r)
{
    for (size_t i = 0; i < r->work.write_count; i++) {
        free(r->work.writes[i].row_id);
        free(r->work.writes[i].error);
        free(r->work.writes[i].why);
    }
    r->work.write_count = 0;
}

static void forget_refusals(struct relay_run *r)
{
    for (size_t i = 0; i < r->work.refusal_count; i++) {
        free(r->refusals[i].id);
        free(r->refusals[i].why);
    }
    free(r->refusals);
    r->refusals = NULL;
    r->work.refusals = NULL;
    r->work.refusal_count = 0;
}

void relays_close(struct outbox *o)
{
    for (size_t i = 0; i < o->relays.count; i++) {
        struct relay_run *r = &o->relays.items[i];

        if (r->state == RELAY_RUNNING)
            continue;
        worker_close(r->worker);
        r->ops->close(r->driver);
        close(r->wake_fd);
        forget_refusals(r);
        forget_writes(r);
        free(r->work.writes);
        free(r->table);
        free(r->only_id);
        for (size_t k = 0; k < r->aside_count; k++)
            free(r->aside[k].id);
        figures_fini(&r->figures);
    }
}

/* ---- from row to event ---- */

/* What one row has that the table or the settings say. */
struct row_event {
    const struct relay *relay;
    const struct driver_row *row;
    char id[EVENT_ID_BYTES + 1];
    /* PAYLOAD_JSON, PAYLOAD_TEXT, PAYLOAD_EVENT. */
    const char *payload_kind;
};

static int append(const char *text, size_t n, void *out)
{
    buf_put(out, text, n);
    return 0;
}

static void put_text(struct buf *out, struct bytes text)
{
    json_t *value = json_text(text);

    json_dump_callback(value, append, out, JSON_ENCODE_ANY | JSON_COMPACT);
    json_decref(value);
}

static void put_member(struct buf *out, const char *name, const char *value,
                       const char *otherwise)
{
    const char *text = *value ? value : otherwise;

    if (!text)
        return;
    buf_printf(out, ",\"%s\":", name);
    put_text(out, wire_text(text));
}

/* Writes the object that a producer would publish; `data` is its last member. Returns where the
 * data begins. */
static size_t write_event(const struct row_event *e, struct bytes payload,
                          bool as_text, struct buf *out)
{
    const struct relay *r = e->relay;
    const struct driver_row *row = e->row;
    const char *endpoint = *row->endpoint ? row->endpoint : r->endpoint;
    size_t at;

    buf_reset(out);
    buf_puts(out, "{\"id\":");
    put_text(out, wire_text(row->id));
    put_member(out, "type", row->type, r->type);
    put_member(out, "workspace", row->workspace, r->workspace);
    if (endpoint) {
        buf_puts(out, ",\"endpoints\":[");
        put_text(out, wire_text(endpoint));
        buf_puts(out, "]");
    }
    put_member(out, "url", row->url, NULL);
    put_member(out, "ordering_key", row->ordering_key, NULL);
    put_member(out, "retry_policy", "", r->retry_policy);
    buf_puts(out, ",\"data\":");
    at = out->len;
    if (as_text)
        put_text(out, payload);
    else
        buf_put(out, payload.p, payload.n);
    buf_puts(out, "}");
    return at;
}

static struct bytes trimmed(struct bytes text)
{
    const char *p = text.p;

    while (text.n && strchr(" \t\r\n", *p))
        p++, text.n--;
    while (text.n && strchr(" \t\r\n", p[text.n - 1]))
        text.n--;
    return (struct bytes){p, text.n};
}

/* Reads the event of a row into *p, and its object into `body`. */
static gr_rc read_as(struct row_event *e, const char *kind, struct buf *body,
                     struct published *p, struct published_wrong *wrong)
{
    bool as_text = strcmp(kind, PAYLOAD_TEXT) == 0;
    struct bytes payload = as_text ? e->row->payload : trimmed(e->row->payload);
    size_t at = write_event(e, payload, as_text, body);

    e->payload_kind = kind;
    if (body->failed)
        return GR_REFUSE;
    if (published_read(p, (struct bytes){body->data, body->len}, wrong) !=
        GR_OK)
        return GR_REFUSE;
    /* What looks like JSON with more members behind it is not JSON. */
    return as_text || (p->data.p == body->data + at && p->data.n == payload.n)
               ? GR_OK
               : GR_REFUSE;
}

/* A payload that is not JSON is sent as text. */
static gr_rc read_event(struct row_event *e, struct buf *body,
                        struct published *p, struct published_wrong *wrong)
{
    gr_rc rc = read_as(e, PAYLOAD_JSON, body, p, wrong);

    if (rc != GR_OK) {
        published_fini(p);
        rc = read_as(e, PAYLOAD_TEXT, body, p, wrong);
    }
    if (e->relay->body == RELAY_BODY_EVENT)
        e->payload_kind = PAYLOAD_EVENT;
    return rc;
}

/* Why the payload is not here, or may not be sent, the caller's; NULL: it is here. */
static char *judge_payload(struct outbox *o, const struct relay_run *r,
                           const struct driver_row *row)
{
    int64_t max = o->daemon.settings->ingress.max_body_bytes;
    bool of_start = r->max_payload < max;

    if (of_start)
        max = r->max_payload;
    if (!row->has_payload)
        return gr_strdup("the payload is NULL");
    if (row->payload_bytes > max || (row->payload_bytes && !row->payload.n))
        return gr_printf("the payload has %lld bytes: at most %lld are "
                         "allowed (ingress.max_body%s)",
                         (long long)row->payload_bytes, (long long)max,
                         of_start ? " when grapnel-outbox started" : "");
    return NULL;
}

/* Why the row cannot become an event, the caller's; NULL: it can, and its body is in o->body. */
static char *judge(struct outbox *o, const struct relay_run *r,
                   struct row_event *e)
{
    const struct driver_row *row = e->row;
    struct published_wrong wrong;
    struct published p = {0};
    char *why = judge_payload(o, r, row);

    if (why)
        return why;
    if (*row->url && !*row->endpoint && !e->relay->endpoint)
        return gr_printf("the row names a URL, but neither it nor relay %s "
                         "names the endpoint whose settings apply",
                         e->relay->name);
    if (read_event(e, &o->body, &p, &wrong) != GR_OK ||
        published_judge(&p, o->daemon.settings, &e->relay->producer, &wrong) !=
            PUBLISHED_GOOD)
        why = o->body.failed ? gr_strdup("the row is too large")
                             : gr_printf("%s%s%s", wrong.field,
                                         *wrong.field ? ": " : "", wrong.why);
    published_fini(&p);
    buf_reset(&o->headers);
    if (!why)
        headers_put(&o->headers, PUBLISHED_PAYLOAD, wire_text(e->payload_kind));
    return why;
}

static int64_t store(struct outbox *o, struct relay_run *r,
                     const struct row_event *e)
{
    struct archive *a = &o->archive;
    char *remote = gr_printf("%s of table %s", e->row->id, r->table);
    struct archive_row row = {
        .n = (int64_t)links_next(o->daemon.links, SEQUENCER),
        .event_id = e->id,
        .source = e->relay->name,
        .received_ms = o->daemon.loop.now_ms,
        .remote = remote,
        .headers = {o->headers.data ? o->headers.data : "", o->headers.len},
        .body = {o->body.data, o->body.len},
    };

    archive_insert(&a->store, &row);
    buf_reset(&o->message);
    archive_put_message(&row, &o->message);
    links_put_message(o->daemon.links, SEQUENCER, KIND_ARCHIVED, row.n,
                      (struct bytes){o->message.data,
                                     o->message.failed ? 0 : o->message.len});
    archive_space_took(&a->space, row.n, (int64_t)(row.body.n + row.headers.n));
    series_add(METRIC_SERIES(o->daemon.metrics, FAMILY_TAKEN, e->relay->name),
               1);
    if (e->row->age_ms >= 0)
        series_observe(METRIC_SERIES(o->daemon.metrics, FAMILY_LAG, r->name),
                       e->row->age_ms);
    figures_taken(&r->figures, e->row->age_ms);
    if (log_has_capacity(LEVEL_INFO))
        log_info(e->id, "accepted", LS("source", e->relay->name),
                 LS("row", e->row->id), LI("body_bytes", e->row->payload.n));
    free(remote);
    return row.n;
}

static void refuse_row(struct outbox *o, struct relay_run *r,
                       const struct row_event *e, char *why)
{
    log_warn(NULL, "a row is not a valid event; it is marked as failed",
             LS("source", r->name), LS("row", e->row->id), LS("reason", why));
    series_add(METRIC_SERIES(o->daemon.metrics, FAMILY_REFUSED, r->name), 1);
    outcomes_cut(why);
    r->refusals[r->work.refusal_count++] = (struct driver_refusal){
        .id = gr_strdup(e->row->id), .why = why};
}

/* A person has reset the row: its event gets a new budget. If the sequencer has no such event, this only
 * makes its first attempt due. */
static void send_again(struct outbox *o, int64_t archived, const char *id)
{
    struct replay_row row = {.archived = archived,
                             .action_id = random_id(),
                             .event_id = id,
                             .new_id = "",
                             .endpoint = "",
                             .who = "a reset of its row"};

    replay_put(&o->archive, &row);
    log_info(id, "a row was reset; its event is sent again");
}

/* White space and the order of members do not matter: a column of another type may have changed them. */
static void digest_data(struct bytes data, uint8_t out[PUBLISHED_DIGEST_BYTES])
{
    struct published_wrong wrong;
    struct published p;
    struct buf object;

    memset(out, 0, PUBLISHED_DIGEST_BYTES);
    buf_init(&object, data.n + 64);
    buf_puts(&object, "{\"type\":\"x\",\"workspace\":\"x\",\"data\":");
    buf_put(&object, data.p, data.n);
    buf_puts(&object, "}");
    if (published_read(&p, (struct bytes){object.data, object.len}, &wrong) ==
        GR_OK)
        published_digest(&p, (struct bytes){object.data, object.len}, out);
    published_fini(&p);
    buf_fini(&object);
}

static bool data_differs(const struct row_event *e, const struct published *p,
                         const struct published *was,
                         struct bytes headers_before)
{
    uint8_t now[PUBLISHED_DIGEST_BYTES], before[PUBLISHED_DIGEST_BYTES];
    struct bytes kind;

    if (strcmp(e->payload_kind, PAYLOAD_EVENT) != 0 &&
        headers_get(headers_before, PUBLISHED_PAYLOAD, &kind, NULL) &&
        !wire_is(kind, PAYLOAD_EVENT) && !wire_is(kind, e->payload_kind))
        return true;
    if (p->data.n == was->data.n &&
        memcmp(p->data.p, was->data.p, p->data.n) == 0)
        return false;
    digest_data(p->data, now);
    digest_data(was->data, before);
    return memcmp(now, before, sizeof now) != 0;
}

static bool differs(const char *now, const char *before)
{
    return strcmp(now ? now : "", before ? before : "") != 0;
}

/* The column that was changed since the event was made; NULL: none. What the settings add to a row may
 * have changed. */
static const char *changed_column(const struct row_event *e,
                                  const struct published *p,
                                  const struct published *was,
                                  struct bytes headers_before)
{
    const struct driver_row *row = e->row;

    if (data_differs(e, p, was, headers_before))
        return "payload";
    if (differs(p->url, was->url))
        return "URL";
    if (*row->type && differs(row->type, was->type))
        return "type";
    if (*row->workspace && differs(row->workspace, was->workspace))
        return "workspace";
    if (*row->endpoint &&
        differs(row->endpoint,
                json_string_value(json_array_get(was->endpoints, 0))))
        return "endpoint";
    return NULL;
}

/* Why a row that was reset cannot be sent again, the caller's; NULL: it can. Its event keeps its
 * contents, so the row must have the same. */
static char *judge_reset(struct outbox *o, const struct relay_run *r,
                         struct row_event *e, int64_t archived)
{
    struct archive_row before;
    struct published_wrong wrong;
    struct published p = {0}, was = {0};
    const char *column;
    char *why = judge_payload(o, r, e->row);

    if (why)
        return why;
    if (archive_request(&o->archive.store, archived, &before) &&
        !before.damaged && published_read(&was, before.body, &wrong) == GR_OK) {
        column = read_event(e, &o->body, &p, &wrong) == GR_OK
                     ? changed_column(e, &p, &was, before.headers)
                     : "contents";
        if (column)
            why = gr_printf("its %s differs from what was sent: to send "
                            "something else, insert a row with a new id",
                            column);
    }
    archive_request_done(&o->archive.store);
    published_fini(&p);
    published_fini(&was);
    return why;
}

static void take_row(struct outbox *o, struct relay_run *r,
                     const struct relay *relay, size_t i)
{
    struct driver_row row;
    struct row_event e = {.relay = relay, .row = &row};
    struct buf *rest = &o->message;
    int64_t archived;
    char *key, *why;

    r->ops->row(r->driver, i, &row);
    key = gr_printf("%s:%s", r->table, row.id);
    published_event_id(e.id, r->name, wire_text(key));
    free(key);
    archived = archive_number(&o->archive.store, e.id);
    if (archived) {
        if (!outcomes_ended(o, e.id)) {
            o->counts[COUNT_KNOWN]++;
            return;
        }
        why = judge_reset(o, r, &e, archived);
        if (why) {
            refuse_row(o, r, &e, why);
            return;
        }
        outcomes_reset(o, e.id);
        send_again(o, archived, e.id);
        return;
    }
    why = judge(o, r, &e);
    buf_reset(rest);
    if (!why && erase_refuses(&o->archive, r->name, (struct bytes){"", 0},
                              (struct bytes){o->body.data, o->body.len}, rest))
        why = gr_strdup("its workspace was erased");
    if (why) {
        refuse_row(o, r, &e, why);
        return;
    }
    archived = store(o, r, &e);
    if (row.attempted) /* another process, or an archive that was lost, had it */
        send_again(o, archived, e.id);
}

/* Whether rows can be stored now. */
static bool has_space(struct outbox *o)
{
    return !o->archive.space.refusal && !db_full(o->daemon.db) &&
           links_backlog(o->daemon.links, SEQUENCER) < BACKLOG_MAX;
}

static void take_rows(struct outbox *o, struct relay_run *r)
{
    const struct relay *relay = settings_relay(o->daemon.settings, r->name);
    size_t count = r->ops->count(r->driver);

    r->state = RELAY_ENDING;
    r->work.end = DRIVER_ROLLBACK;
    r->taken = count;
    free(r->only_id);
    r->only_id = NULL;
    if (count == 1) {
        struct driver_row row;

        r->ops->row(r->driver, 0, &row);
        r->only_id = gr_strdup(row.id);
    }
    if (!relay || !has_space(o)) /* it is no longer configured */
        return;
    r->refusals = gr_alloc((count + 1) * sizeof *r->refusals);
    r->work.refusals = r->refusals;
    for (size_t i = 0; i < count; i++)
        take_row(o, r, relay, i);
    o->counts[COUNT_BATCHES]++;
    r->work.end = DRIVER_COMMIT;
}

/* ---- the turn ---- */

static void run_failed(struct outbox *o, struct relay_run *r)
{
    int64_t wait_ms = r->failed_ms ? 2 * r->failed_ms : FAILED_FIRST_MS;

    if (r->connected || strcmp(r->why, r->logged) != 0)
        log_warn(NULL, "the database of a relay cannot be used; trying again",
                 LS("relay", r->name), LS("error", r->why));
    memcpy(r->logged, r->why, sizeof r->logged);
    r->failed_ms = wait_ms < FAILED_MOST_MS ? wait_ms : FAILED_MOST_MS;
    r->due_ms = o->daemon.loop.mono_ms + r->failed_ms;
    r->connected = false;
    figures_connected(&r->figures, o->daemon.loop.now_ms, r->why);
    series_add(METRIC_SERIES(o->daemon.metrics, FAMILY_ERRORS, r->name), 1);
}

/* The row is not taken for a time, so that those behind it are. false: there are too many. */
static bool set_aside(struct outbox *o, struct relay_run *r, const char *id)
{
    struct aside *a = r->aside;

    while (a < r->aside + r->aside_count && strcmp(a->id, id) != 0)
        a++;
    if (a == r->aside + ASIDE_MAX)
        return false;
    if (a == r->aside + r->aside_count) {
        *a = (struct aside){.id = gr_strdup(id), .wait_ms = ASIDE_FIRST_MS / 2};
        r->aside_count++;
    }
    a->wait_ms = 2 * a->wait_ms < ASIDE_MOST_MS ? 2 * a->wait_ms
                                                : ASIDE_MOST_MS;
    a->due_ms = o->daemon.loop.mono_ms + a->wait_ms;
    log_warn(NULL,
             "the database refused to change a row; it is set aside, and taken "
             "again later",
             LS("relay", r->name), LS("row", id), LS("error", r->why),
             LI("wait_ms", a->wait_ms));
    series_add(METRIC_SERIES(o->daemon.metrics, FAMILY_SET_ASIDE, r->name), 1);
    return true;
}

/* One of `tried` rows is refused: fewer of them are taken, until it is alone. */
static void narrow(struct outbox *o, struct relay_run *r, size_t tried,
                   const char *id)
{
    if (tried > 1)
        r->batch = (int64_t)tried / 2;
    else if (!id || !set_aside(o, r, id))
        run_failed(o, r);
}

/* Rows that were set aside and have been good since are forgotten. Lists those that still wait. */
static void list_aside(struct relay_run *r, int64_t mono_now_ms)
{
    size_t kept = 0;

    r->work.except = r->except;
    r->work.except_count = 0;
    for (size_t i = 0; i < r->aside_count; i++) {
        struct aside a = r->aside[i];

        if (a.due_ms + 2 * ASIDE_MOST_MS < mono_now_ms) {
            free(a.id);
            continue;
        }
        r->aside[kept++] = a;
        if (a.due_ms > mono_now_ms)
            r->except[r->work.except_count++] = a.id;
    }
    r->aside_count = kept;
}

/* What became of the outcomes of the run. */
static void writes_ended(struct outbox *o, struct relay_run *r)
{
    size_t applied = 0, refused = 0;

    outcomes_written(o, r->name, r->work.writes, r->work.write_count);
    for (size_t i = 0; i < r->work.write_count; i++) {
        applied += r->work.writes[i].written == DRIVER_APPLIED;
        refused += r->work.writes[i].written == DRIVER_WRITE_REFUSED;
    }
    if (applied)
        series_add(METRIC_SERIES(o->daemon.metrics, FAMILY_WRITTEN, r->name),
                   (int64_t)applied);
    if (refused)
        series_add(METRIC_SERIES(o->daemon.metrics, FAMILY_SET_ASIDE, r->name),
                   (int64_t)refused);
    r->figures.written += (double)applied;
    r->alone = false;
    if (applied)
        r->hold_wait_ms = 0;
    if (refused < HOLD_MIN || applied)
        return;
    r->hold_wait_ms = r->hold_wait_ms ? 2 * r->hold_wait_ms : HOLD_FIRST_MS;
    if (r->hold_wait_ms > HOLD_MOST_MS)
        r->hold_wait_ms = HOLD_MOST_MS;
    r->hold_ms = o->daemon.loop.mono_ms + r->hold_wait_ms;
}

/* The deletion and the look of the run. */
static void chores_ended(struct outbox *o, struct relay_run *r)
{
    int64_t now_ms = o->daemon.loop.mono_ms;

    if (r->purge_age_ms && r->purge_rc == GR_OK) {
        r->purge_ms = now_ms + (r->deleted >= PURGE_MAX ? PURGE_NEXT_MS
                                                        : PURGE_EVERY_MS);
        r->purge_logged[0] = 0;
        if (r->deleted)
            series_add(
                METRIC_SERIES(o->daemon.metrics, FAMILY_DELETED, r->name),
                r->deleted);
    } else if (r->purge_age_ms) {
        r->purge_ms = now_ms + PURGE_EVERY_MS;
        if (strcmp(r->purge_why, r->purge_logged) != 0)
            log_warn(NULL,
                     "delivered rows cannot be deleted (after_success); trying "
                     "again",
                     LS("relay", r->name), LS("error", r->purge_why));
        memcpy(r->purge_logged, r->purge_why, sizeof r->purge_logged);
    }
    if (r->looks) {
        r->figures.look = r->look;
        r->look_ms = now_ms +
                     (r->look_rc == GR_OK ? LOOK_EVERY_MS : LOOK_FAILED_MS);
    }
}

static void run_succeeded(struct outbox *o, struct relay_run *r)
{
    if (!r->connected)
        log_info(NULL, "connected to the database of a relay",
                 LS("relay", r->name));
    r->connected = true;
    figures_connected(&r->figures, o->daemon.loop.now_ms, "");
    r->logged[0] = 0;
    r->failed_ms = 0;
}

static void run_ended(struct outbox *o, struct relay_run *r)
{
    const struct relay *relay = settings_relay(o->daemon.settings, r->name);
    int64_t poll_ms = relay ? relay->poll_ms : POLL_FIRST_MS;
    bool wrote = r->work.write_count > 0,
         committed = r->work.end == DRIVER_COMMIT;

    worker_end(r->worker);
    forget_refusals(r);
    if (wrote && (r->rc == GR_OK || r->work.refused == DRIVER_TAKE_REFUSED))
        writes_ended(o, r);
    forget_writes(r);
    r->work.end = DRIVER_NOTHING;
    r->state = RELAY_IDLE;
    if (r->rc != GR_OK) {
        r->alone = r->work.refused == DRIVER_WRITES_REFUSED;
        if (r->work.refused == DRIVER_NOTHING_REFUSED)
            run_failed(o, r);
        else if (r->work.refused == DRIVER_END_REFUSED)
            narrow(o, r, r->taken, r->only_id);
        else if (r->work.refused == DRIVER_TAKE_REFUSED)
            narrow(o, r, (size_t)r->work.max, r->work.row_id);
        free(r->work.row_id);
        r->work.row_id = NULL;
        return;
    }
    run_succeeded(o, r);
    chores_ended(o, r);
    if (committed && r->batch && relay)
        r->batch = 2 * r->batch < relay->batch ? 2 * r->batch : 0;
    if (r->ops->count(r->driver)) {
        r->state = RELAY_TAKEN;
        r->poll_ms = POLL_FIRST_MS;
    } else if (r->work.max > 0 && !wrote) { /* it has waited */
        r->poll_ms = r->notified ? POLL_FIRST_MS : 2 * r->poll_ms;
    }
    if (r->poll_ms > poll_ms)
        r->poll_ms = poll_ms;
}

static void wake(struct relay_run *r)
{
    const uint64_t one = 1;

    if (!r->woken)
        (void)!write(r->wake_fd, &one, sizeof one);
    r->woken = true;
}

void relays_wake(struct outbox *o, const char *relay)
{
    for (size_t i = 0; i < o->relays.count; i++) {
        struct relay_run *r = &o->relays.items[i];

        if (strcmp(r->name, relay) == 0 && r->state == RELAY_RUNNING)
            wake(r);
    }
}

bool relays_has(const struct outbox *o, const char *relay)
{
    for (size_t i = 0; i < o->relays.count; i++)
        if (strcmp(o->relays.items[i].name, relay) == 0)
            return true;
    return false;
}

/* For the run that begins after this turn's commit. */
static void list_writes(struct outbox *o, struct relay_run *r)
{
    bool refused = !r->alone && r->refused_next;

    r->work.write_count = 0;
    r->work.alone = false;
    r->outcome_ms = r->hold_ms;
    if (r->hold_ms > o->daemon.loop.mono_ms)
        return;
    if (!r->work.writes)
        r->work.writes = gr_alloc(WRITES_MAX * sizeof *r->work.writes);
    for (int i = 0; i < 2 && !r->work.write_count; i++, refused = !refused) {
        r->work.write_count = outcomes_list(o, r->name, r->table, refused,
                                            r->work.writes, WRITES_MAX);
        r->work.alone = r->work.write_count && (r->alone || refused);
    }
    r->refused_next = !r->refused_next;
    r->outcome_ms = outcomes_due_ms(o, r->name);
}

int relays_work(struct outbox *o)
{
    struct loop *loop = &o->daemon.loop;
    int wait_ms = -1;

    for (size_t i = 0; i < o->relays.count; i++) {
        struct relay_run *r = &o->relays.items[i];

        figures_sample(&r->figures, loop->mono_ms);
        if (r->state == RELAY_RUNNING && loop_ready(loop, r->watch))
            run_ended(o, r);
        if (r->state == RELAY_RUNNING && loop->stopping)
            wake(r);
        if (r->state == RELAY_RUNNING && !r->woken) {
            int64_t next_ms = r->connected ? r->look_ms : INT64_MAX;

            if (r->outcome_ms && r->outcome_ms < next_ms)
                next_ms = r->outcome_ms;
            if (next_ms <= loop->mono_ms)
                wake(r);
            else if (next_ms != INT64_MAX)
                wait_ms = loop_sooner(wait_ms, (int)(next_ms - loop->mono_ms));
        }
        if (r->state == RELAY_TAKEN)
            take_rows(o, r);
        if (r->state == RELAY_ENDING ||
            (r->state == RELAY_IDLE && r->due_ms <= loop->mono_ms &&
             !loop->stopping))
            list_writes(o, r);
        if (r->state == RELAY_IDLE && !loop->stopping)
            wait_ms = loop_sooner(wait_ms,
                                  r->due_ms > loop->mono_ms
                                      ? (int)(r->due_ms - loop->mono_ms)
                                      : 0);
    }
    return wait_ms;
}

/* What is done every few seconds, without an open transaction and so without taking rows. */
static bool has_chores(struct outbox *o, struct relay_run *r,
                       const struct relay *relay)
{
    int64_t now_ms = o->daemon.loop.mono_ms;
    bool may = relay && r->connected && !o->daemon.loop.stopping;

    r->purge_age_ms = may && r->purge_ms <= now_ms ? relay->delete_after_ms : 0;
    r->looks = may && r->look_ms <= now_ms;
    return r->purge_age_ms || r->looks;
}

static void begin(struct outbox *o, struct relay_run *r)
{
    const struct relay *relay = settings_relay(o->daemon.settings, r->name);
    bool takes = relay && !o->daemon.loop.stopping &&
                 r->work.end != DRIVER_ROLLBACK && has_space(o);
    bool chores = has_chores(o, r, relay);
    int64_t max = relay ? relay->batch : 0;

    if (r->batch && r->batch < max)
        max = r->batch;
    r->work.max = takes && !chores ? (int)max : 0;
    r->wait_ms = r->poll_ms;
    if (!takes)
        r->due_ms = o->daemon.loop.mono_ms + AGAIN_MS;
    if (!takes && !chores && r->state == RELAY_IDLE && !r->work.write_count)
        return;
    list_aside(r, o->daemon.loop.mono_ms);
    r->woken = false;
    r->state = RELAY_RUNNING;
    worker_begin(r->worker);
}

void relays_flush(struct outbox *o)
{
    for (size_t i = 0; i < o->relays.count; i++) {
        struct relay_run *r = &o->relays.items[i];

        if (r->state == RELAY_ENDING ||
            (r->state == RELAY_IDLE && r->due_ms <= o->daemon.loop.mono_ms))
            begin(o, r);
    }
}

void relays_undo(struct outbox *o)
{
    for (size_t i = 0; i < o->relays.count; i++) {
        struct relay_run *r = &o->relays.items[i];

        if (r->state != RELAY_RUNNING)
            forget_writes(r);
        /* What rows have could not be noted here, so it would be written to them again and again. */
        if (db_full(o->daemon.db))
            r->hold_ms = o->daemon.loop.mono_ms + HOLD_FULL_MS;
        if (r->state != RELAY_ENDING)
            continue;
        forget_refusals(r);
        r->work.end = DRIVER_ROLLBACK;
    }
}

bool relays_idle(struct outbox *o)
{
    for (size_t i = 0; i < o->relays.count; i++)
        if (o->relays.items[i].state != RELAY_IDLE)
            return false;
    return true;
}

int64_t relays_connected(const struct outbox *o)
{
    int64_t n = 0;

    for (size_t i = 0; i < o->relays.count; i++)
        n += o->relays.items[i].connected;
    return n;
}

void relays_measure(struct outbox *o)
{
    struct metrics *m = o->daemon.metrics;

    for (size_t i = 0; i < o->relays.count; i++) {
        const struct relay_run *r = &o->relays.items[i];

        if (r->figures.look.waiting >= 0)
            series_set(METRIC_SERIES(m, FAMILY_WAITING, r->name),
                       r->figures.look.waiting);
        if (r->figures.look.oldest_ms >= 0)
            series_set(METRIC_SERIES(m, FAMILY_OLDEST_ROW, r->name),
                       r->figures.look.oldest_ms);
        series_set(METRIC_SERIES(m, FAMILY_OUTCOMES, r->name),
                   outcomes_waiting(o, r->name));
    }
}

json_t *relays_status(void *self, json_t *args, char why[200])
{
    struct outbox *o = self;
    json_t *list = json_array();

    (void)args;
    (void)why;
    for (size_t i = 0; i < o->relays.count; i++) {
        const struct relay_run *r = &o->relays.items[i];
        json_t *row = figures_json(&r->figures, o->daemon.loop.mono_ms);

        json_object_set_new(row, "process", json_string(o->daemon.name));
        json_object_set_new(row, "relay", json_string(r->name));
        json_object_set_new(row, "set_aside",
                            json_integer((json_int_t)r->aside_count));
        json_object_set_new(row, "outcomes_waiting",
                            json_integer(outcomes_waiting(o, r->name)));
        json_array_append_new(list, row);
    }
    return json_pack("{s:s,s:o}", "process", o->daemon.name, "relays", list);
}
