/* turn: starts ingress, runs its turns, and ends it. ingress_work() reads requests and inserts
 * rows; ingress_after_commit() responds to those whose rows are on disk, and the next turn
 * writes the responses, or ingress_after_commit() if that turn is to wait. */
#include "clock.h"
#include "event_types.h"
#include "ingress.h"
#include "log.h"
#include "peers.h"
#include "stores.h"
#include <stdlib.h>
#include <string.h>

extern const char ingress_store_sql[];
extern const char *const ingress_upgrades[];
const struct db_schema ingress_schema = {.create = ingress_store_sql,
                                         .steps = ingress_upgrades,
                                         .count = INGRESS_SCHEMA,
                                         .page_bytes = ARCHIVE_PAGE_BYTES,
                                         .cache_kib = 2 * 1024,
                                         .program = "grapnel-ingress",
                                         .table = "archive"};

enum {
    STALL_MS = 5000,     /* a commit that takes longer: providers give up */
    AWAY_MS = 2000,      /* a peer that was silent for so long is away */
    TURN_WAIT_US = 2000, /* between two turns, while processors are contended */
    COPY_BYTES = 512 * 1024, /* per step; rows are only appended to the WAL */
};

static void set_bounds(struct ingress *g, const struct settings *s)
{
    g->bounds.max_body_bytes = s->ingress.max_body_bytes;
    g->bounds.max_connections = s->ingress.max_connections;
    g->bounds.read_timeout_ms = s->ingress.read_timeout_ms;
}

/* Tests shorten it with GRAPNEL_TEST_STALL_MS. */
static int64_t stall_ms(void)
{
    const char *text = getenv("GRAPNEL_TEST_STALL_MS");
    int64_t ms = text ? strtoll(text, NULL, 10) : 0;

    return ms > 0 ? ms : STALL_MS;
}

void ingress_open(void *self)
{
    struct ingress *g = self;
    const struct settings *s = g->daemon.settings;

    g->stall_ms = stall_ms();
    db_copy_in_pieces(g->daemon.db, COPY_BYTES);
    archive_open(&g->archive);
    reject_store_open(&g->rejects.store, g->daemon.db);
    intake_open(&g->intake);
    last_events_open(&g->last_events, g->daemon.db);
    g->event_types = event_types_open(g);
    set_bounds(g, s);
    g->http = http_open(s->ingress.host, s->ingress.port, &g->bounds,
                        &intake_http_ops, g, peers_running, &g->daemon);
    g->http_watch = loop_watch_fd(&g->daemon.loop, http_fd(g->http));
    g->daemon.loop.read_on_fd = http_fd(g->http);
    log_info(NULL, "listening", LS("host", s->ingress.host),
             LI("port", s->ingress.port));
}

static void publish(struct ingress *g)
{
    struct http_figures f = http_figures(g->http);

    g->counts[COUNT_CONNECTIONS] = f.connections;
    g->counts[COUNT_BODIES_BYTES] = f.body_bytes;
    g->counts[COUNT_PENDING] = g->intake.pending_count +
                               g->intake.batches.count;
    g->counts[COUNT_ARCHIVE_ROWS] = g->archive.space.last_n -
                                    g->archive.space.first_n + 1;
    g->counts[COUNT_ARCHIVE_BYTES] = g->archive.space.used_bytes;
    g->counts[COUNT_BACKLOG] = (int64_t)links_backlog(g->daemon.links,
                                                      SEQUENCER);
    g->counts[COUNT_RESPONSES_DELAYED] = g->intake_rate.on;
    g->counts[COUNT_FREE_BYTES] = g->archive.space.free_bytes;
}

static bool is_configured(const struct ingress *g, const char *name)
{
    const struct settings *s = g->daemon.settings;

    return settings_source(s, name) || settings_producer(s, name);
}

/* Once per metrics.interval, because it reads a row. */
void ingress_measure(void *self)
{
    struct ingress *g = self;

    for (size_t i = 0; i < g->last_events.count; i++)
        if (is_configured(g, g->last_events.all[i].source))
            series_set(METRIC_SERIES(g->daemon.metrics, FAMILY_LAST,
                                     g->last_events.all[i].source),
                       g->last_events.all[i].at_ms);
    g->counts[COUNT_REPLAYED] = g->archive.replayed;
    series_set(METRIC_SERIES(g->daemon.metrics, FAMILY_OLDEST, NULL),
               archive_oldest_ms(&g->archive));
}

/* A watermark request is answered when all requests received before it have a number, batches
 * to their end. */
static void work_on_requests(struct ingress *g)
{
    if (g->archive.watermark.fresh)
        intake_watermark_requested(&g->intake);
    g->archive.watermark.fresh = false;
    intake_work(g);
    if (!g->intake.ahead_count)
        g->archive.watermark.next = links_next(g->daemon.links, SEQUENCER);
}

/* The sequencer was heard lately. */
static bool responds(struct ingress *g)
{
    struct link_state l;
    int at = 0;

    while (links_each(g->daemon.links, &at, &l))
        if (l.out && strcmp(l.peer, SEQUENCER) == 0)
            return l.heard_ms && g->daemon.loop.mono_ms - l.heard_ms < AWAY_MS;
    return false;
}

/* intake_rate_look() limits itself to ten times a second. */
static void look_at_intake_rate(struct ingress *g)
{
    bool was_on = g->intake_rate.on;
    int64_t mono_ms = g->daemon.loop.mono_ms;

    intake_rate_look(
        &g->intake_rate,
        &(struct intake_rate_facts){
            .now_ms = mono_ms,
            .cursor = links_cursor(g->daemon.links, SEQUENCER),
            .backlog = links_backlog(g->daemon.links, SEQUENCER),
            .responds = responds(g) && !g->daemon.loop.stopping,
            .target_ms = g->daemon.settings->ingress.target_delay_ms});
    if (!g->intake_rate.on || was_on ||
        (g->rate_said_ms && mono_ms - g->rate_said_ms < MINUTE_MS))
        return;
    g->rate_said_ms = mono_ms;
    log_info(NULL,
             "events arrive faster than the sequencer processes them; "
             "responses are delayed",
             LI("waiting", links_backlog(g->daemon.links, SEQUENCER)),
             LI("taken_per_s", g->intake_rate.per_s),
             LI("wait_ms", g->intake_rate.wait_ms));
}

/* Read requests and write responses, unless the intake rate demands a pause; then the loop does
 * not wake for them. Returns how long it may sleep, in ms. */
static int turn_http(struct ingress *g, int64_t now, int64_t mono)
{
    int pause_ms = intake_rate_pause_ms(&g->intake_rate, mono_us());

    g->daemon.loop.watch[g->http_watch].wakes = !pause_ms;
    return pause_ms ? pause_ms : http_run(g->http, now, mono);
}

/* Whether the next turn may wait: all that was read is stored, and not many of the clients that sent requests lately
 * wait for the responses. They send nothing before, and a wait would make them slower. */
static bool may_wait(const struct ingress *g)
{
    const struct intake *t = &g->intake;

    return t->stored_count && !t->pending_count && !t->batches.count &&
           3 * t->stored_count <= http_figures(g->http).recent;
}

int ingress_work(void *self)
{
    struct ingress *g = self;
    struct loop *loop = &g->daemon.loop;
    int http_ms = 0, space_ms, rejects_ms;
    bool group;

    if (g->stalled_ms)
        log_info(NULL,
                 g->stalled_by_engine
                     ? "the replication database responds again; accepting "
                       "events"
                     : "the disk responds again; accepting events",
                 LI("stalled_ms", mono_ms() - g->stalled_ms));
    g->stalled_ms = 0;
    if (loop->stopping && !g->stopping_ms) {
        g->stopping_ms = loop->mono_ms;
        http_quiesce(g->http);
    }
    /* When ingress stops, batches are stored for half of shutdown_grace; in the rest their
     * clients read which lines were stored. */
    if (g->stopping_ms && loop->mono_ms - g->stopping_ms >=
                              g->daemon.settings->shutdown_grace_ms / 2)
        batches_give_up(g, RESPONSE_STOPPING);
    g->counts[COUNT_PURGED] += archive_space_work(
        &g->archive.space, &g->archive.store, g->daemon.links,
        g->daemon.settings, &g->daemon.retention, loop->now_ms, loop->mono_ms,
        &space_ms);
    /* Store a group that was read during the last commit before ingress_meanwhile() writes the
     * responses of that commit. */
    look_at_intake_rate(g);
    /* Reading on during a commit needs a thread for it, and an idle processor. If there is none, larger
     * groups and no thread cost less, and what they leave is for deliveries. */
    g->intake.whole = g->intake_rate.on || loop->pace.processor.contended;
    group = !g->intake.whole && intake_has_group(&g->intake);
    if (!group)
        http_ms = turn_http(g, loop->now_ms, loop->mono_ms);
    work_on_requests(g);
    intake_rate_stored(&g->intake_rate, mono_us(), g->intake.stored_count,
                       g->counts[COUNT_CONNECTIONS]);
    loop->read_on = intake_stored_group(&g->intake) && !g->intake.whole;
    if (group && !loop->read_on) /* the disk was full */
        http_ms = turn_http(g, loop->now_ms, loop->mono_ms);
    rejects_ms = loop_sooner(rejects_work(&g->rejects, g, loop->stopping),
                             event_types_work(g->event_types));
    if (space_ms && rejects_ms && may_wait(g))
        loop->may_wait_us = TURN_WAIT_US;
    publish(g);
    return intake_has_more(g)
               ? 0
               : loop_sooner(loop_sooner(http_ms, space_ms), rejects_ms);
}

void ingress_frame(void *self, int kind, struct bytes frame)
{
    watermark_frame(self, kind, frame);
}

void ingress_after_commit(void *self)
{
    struct ingress *g = self;

    intake_flush(g);
    watermark_flush(&g->archive);
    event_types_flush(g->event_types);
    /* Neither rows nor responses wait. What is read here is for the next turn; after a stall that turn reads first, as it ends
     * the refusals. */
    if (loop_will_wait(&g->daemon.loop) && !g->stalled_ms) {
        daemon_wake_in(&g->daemon, links_flush(g->daemon.links));
        daemon_wake_in(&g->daemon, turn_http(g, now_ms(), mono_ms()));
    }
}

/* During a commit, in another thread or not: read and judge requests for the next turn. Touches
 * no row. */
void ingress_meanwhile(void *self)
{
    struct ingress *g = self;
    int64_t since_ms = g->daemon.loop.disk_ms;

    if (!g->stalled_ms && mono_ms() - since_ms >= g->stall_ms) {
        g->stalled_ms = since_ms;
        g->stalled_by_engine = daemon_waits_for_engine(&g->daemon);
        log_warn(NULL,
                 g->stalled_by_engine
                     ? "the replication database does not acknowledge; ingress "
                       "responds 503 until it does"
                     : "the disk stalls: a write has not ended; ingress "
                       "responds 503 until it ends",
                 LI("stalled_ms", mono_ms() - since_ms));
    }
    intake_give_up(g, g->stalled_ms != 0);
    http_run(g->http, now_ms(), mono_ms());
}

void ingress_undo(void *self)
{
    struct ingress *g = self;

    archive_undo(&g->archive);
    rejects_undo(&g->rejects);
    event_types_undo(g->event_types);
    intake_undo(g);
}

void ingress_reload(void *self, struct settings *fresh)
{
    set_bounds(self, fresh);
}

/* Stop when all clients have their response and the sequencer takes no more events, or when
 * shutdown_grace has passed. Unprocessed events are safe on disk, so an absent sequencer does
 * not delay the stop. */
bool ingress_stopped(void *self)
{
    struct ingress *g = self;

    if (!intake_idle(g))
        return false;
    if (g->daemon.loop.mono_ms - g->stopping_ms >=
        g->daemon.settings->shutdown_grace_ms)
        return true;
    if (!g->stopping_ms || http_figures(g->http).busy)
        return false;
    /* Events wait for the sequencer, and it takes them. */
    return !links_backlog(g->daemon.links, SEQUENCER) || !responds(g);
}

/* The same judgement as /readyz. When the loop can ask, no write stalls. */
const char *ingress_state(void *self, bool *ready)
{
    struct ingress *g = self;

    *ready = !g->archive.space.refusal;
    switch (g->archive.space.refusal) {
    case ARCHIVE_HAS_SPACE:
        return "accepting events";
    case ARCHIVE_DISK_LOW:
        return "refusing events: little disk space is free";
    default:
        return "refusing events: unprocessed requests fill "
               "ingress.archive.max_size";
    }
}

void ingress_close(void *self)
{
    struct ingress *g = self;

    intake_close(g);
    http_run(g->http, now_ms(), mono_ms());
    http_close(g->http);
    rejects_fini(&g->rejects);
    last_events_fini(&g->last_events);
    event_types_close(g->event_types);
    archive_close(&g->archive);
    admission_fini(&g->admission);
}

bool ingress_load(void *self, const char *peer, uint64_t n, int kind,
                  int64_t ref, struct buf *out)
{
    struct ingress *g = self;

    (void)peer;
    (void)n; /* equals ref */
    return kind == KIND_ARCHIVED && archive_load(&g->archive.store, ref, out);
}
