/* relay: runs the thread of each relay, and makes events of the rows that it took. */
#include "relay.h"
#include "archive_erase.h"
#include "clock.h"
#include "headers.h"
#include "json_text.h"
#include "log.h"
#include "outbox.h"
#include "published.h"
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
    NEW_AGAIN_MS = 100,          /* until rows are written that were new */
    BACKLOG_MAX = 50000,         /* events that wait for the sequencer */
    PAYLOAD_GROWS_BY = 8 * 1024, /* the rest of an event */
};

enum relay_state {
    RELAY_IDLE,    /* no transaction is open; the next run is begun at due_ms */
    RELAY_RUNNING, /* all members up to `notified` belong to the thread */
    RELAY_TAKEN,   /* rows are to be stored; the transaction is open */
    RELAY_ENDING,  /* the next run ends the transaction, as `work.end` says */
};

struct relay_run {
    const struct driver_ops *ops;
    struct driver *driver;
    int wake_fd;
    /* what the run is to do */
    struct driver_work work;
    struct driver_refusal *refusals;
    int64_t wait_ms;
    /* its result */
    gr_rc rc;
    char why[DRIVER_WHY_BYTES];
    bool notified;

    char name[NAME_MAX_BYTES + 1];
    char *table;
    struct worker *worker;
    int watch;
    enum relay_state state;
    int64_t due_ms; /* mono */
    int64_t poll_ms;
    int64_t failed_ms; /* the wait after the last failure; 0: it did not fail */
    char logged[DRIVER_WHY_BYTES]; /* the last failure in the log */
    bool woken;                    /* wake_fd was written in this run */
    bool connected;
};

/* ---- the thread ---- */

static void run(void *arg)
{
    struct relay_run *r = arg;
    uint64_t times;

    r->notified = false;
    r->rc = r->ops->step(r->driver, &r->work, r->why);
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

        *r = (struct relay_run){.ops = &postgres_driver,
                                .poll_ms = POLL_FIRST_MS,
                                .table = gr_strdup(relay->table)};
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
    }
}

/* ---- from row to event ---- */

/* What one row has that the table or the settings say. */
struct row_event {
    const struct relay *relay;
    const struct driver_row *row;
    char id[EVENT_ID_BYTES + 1];
    const char
        *payload_kind; /* PAYLOAD_JSON, PAYLOAD_TEXT; NULL: in an event */
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
        e->payload_kind = NULL;
    return rc;
}

/* Why the row cannot become an event, the caller's; NULL: it can, and its body is in o->body. */
static char *judge(struct outbox *o, struct row_event *e)
{
    const struct driver_row *row = e->row;
    int64_t max = o->daemon.settings->ingress.max_body_bytes;
    struct published_wrong wrong;
    struct published p = {0};
    char *why = NULL;

    if (!row->has_payload)
        return gr_strdup("the payload is NULL");
    if (row->payload_bytes > max)
        return gr_printf("the payload has %lld bytes: at most %lld are "
                         "allowed (ingress.max_body)",
                         (long long)row->payload_bytes, (long long)max);
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
    if (!why && e->payload_kind)
        headers_put(&o->headers, PUBLISHED_PAYLOAD, wire_text(e->payload_kind));
    return why;
}

static int64_t store(struct outbox *o, const char *table,
                     const struct row_event *e)
{
    struct archive *a = &o->archive;
    char *remote = gr_printf("%s of table %s", e->row->id, table);
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
                             .who = "the row was reset"};

    replay_put(&o->archive, &row);
    log_info(id, "a row was reset; its event is sent again");
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
        if (outcomes_reset(o, e.id))
            send_again(o, archived, e.id);
        else
            o->counts[COUNT_KNOWN]++;
        return;
    }
    why = judge(o, &e);
    buf_reset(rest);
    if (!why && erase_refuses(&o->archive, r->name, (struct bytes){"", 0},
                              (struct bytes){o->body.data, o->body.len}, rest))
        why = gr_strdup("its workspace was erased");
    if (why) {
        refuse_row(o, r, &e, why);
        return;
    }
    archived = store(o, r->table, &e);
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
    series_add(METRIC_SERIES(o->daemon.metrics, FAMILY_ERRORS, r->name), 1);
}

static void run_ended(struct outbox *o, struct relay_run *r)
{
    const struct relay *relay = settings_relay(o->daemon.settings, r->name);
    int64_t poll_ms = relay ? relay->poll_ms : POLL_FIRST_MS;
    bool wrote, waits = false;

    worker_end(r->worker);
    forget_refusals(r);
    if (r->rc == GR_OK)
        outcomes_written(o, r->work.writes, r->work.write_count);
    wrote = r->work.write_count > 0;
    for (size_t i = 0; i < r->work.write_count; i++)
        waits = waits || r->work.writes[i].is_new;
    if (waits)
        r->due_ms = o->daemon.loop.mono_ms + NEW_AGAIN_MS;
    forget_writes(r);
    r->work.end = DRIVER_NOTHING;
    r->state = RELAY_IDLE;
    if (r->rc != GR_OK) {
        run_failed(o, r);
        return;
    }
    if (!r->connected)
        log_info(NULL, "connected to the database of a relay",
                 LS("relay", r->name));
    r->connected = true;
    r->logged[0] = 0;
    r->failed_ms = 0;
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

/* For the run that begins after this turn's commit. Rows that were new when they were written are
 * taken first, so their outcomes wait for a moment. */
static void list_writes(struct outbox *o, struct relay_run *r)
{
    if (!r->work.writes)
        r->work.writes = gr_alloc(WRITES_MAX * sizeof *r->work.writes);
    r->work.write_count = outcomes_list(o, r->name, r->work.writes, WRITES_MAX);
}

int relays_work(struct outbox *o)
{
    struct loop *loop = &o->daemon.loop;
    int wait_ms = -1;

    for (size_t i = 0; i < o->relays.count; i++) {
        struct relay_run *r = &o->relays.items[i];

        if (r->state == RELAY_RUNNING && loop_ready(loop, r->watch))
            run_ended(o, r);
        if (r->state == RELAY_RUNNING && loop->stopping)
            wake(r);
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

static void begin(struct outbox *o, struct relay_run *r)
{
    const struct relay *relay = settings_relay(o->daemon.settings, r->name);
    bool takes = relay && !o->daemon.loop.stopping &&
                 r->work.end != DRIVER_ROLLBACK && has_space(o);

    r->work.max = takes ? (int)relay->batch : 0;
    r->wait_ms = r->poll_ms;
    if (!takes)
        r->due_ms = o->daemon.loop.mono_ms + AGAIN_MS;
    if (!takes && r->state == RELAY_IDLE && !r->work.write_count)
        return;
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
