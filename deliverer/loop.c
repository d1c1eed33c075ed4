/* The deliverer's turn.
 *
 *   frames    tasks, recalls and drops of the hop (take.c); pulses and grants
 *   work      outcomes of what has ended (outcome.c); rows for what takes
 *             longer, the hop's place (rows.c); grants that end (grants.c);
 *             due rows (due.c); a step of housekeeping
 *   commit    results are promised; tasks are ours. For a group of outcomes in
 *             a thread; libcurl goes on meanwhile
 *   tell      memory follows; libcurl's sockets; begin what may begin; beat
 *
 * An attempt is begun in tell(), or while a later turn is committed, so a task is
 * not begun before the commit of the turn it came in. */
#include "begin.h"
#include "clock.h"
#include "deliverer.h"
#include "due.h"
#include "log.h"
#include "outcome.h"
#include "rows.h"
#include "stores.h"
#include "take.h"
#include "trace.h"
#include "trouble.h"
#include "wire.h"
#include <stdlib.h>
#include <string.h>

enum {
    TIDY_EVERY_MS = 1000,
    PURGE_ATTEMPTS = 256, /* in one step */
    /* Under this no task is taken: what is left is for outcomes. Ingress and
     * the sequencer stop earlier. */
    ROOM_LOW_BYTES = 4 * 1024 * 1024,
    GROUP_COUNT = 16,   /* outcomes: the way to a thread and back is worth it */
    ENDED_MOST = 512,   /* not committed: then nothing is begun meanwhile */
    LAST_ACK_MS = 2000, /* wait for the sequencer to have our last words */
};

/* ---- start and end ---- */

static void on_open(void *self)
{
    struct deliverer *d = self;
    struct hop_link link;
    char *care_path;
    int at = 0;

    d->turn = 1;
    store_open(&d->store, d->daemon.db);
    results_open(d);
    templates_open(d);
    hop_hold(d->daemon.hop, SEQUENCER);
    while (hop_links(d->daemon.hop, &at, &link))
        if (!link.out && strcmp(link.peer, SEQUENCER) == 0)
            settle_init(&d->settle, link.done);
    store_settled_get(&d->store, &d->settle);
    grants_open(d);
    care_path = gr_printf("%s/%s.flying", d->daemon.settings->state_dir,
                          d->daemon.name);
    care_open(d, care_path);
    free(care_path);
    flights_open(&d->flights, &d->grants.lease_until_ms);
    loop_watch_fd(&d->daemon.loop, d->flights.sockets.epoll);
}

static void on_restored(void *self)
{
    struct deliverer *d = self;

    store_restored(&d->store);
    settle_init(&d->settle, d->settle.base);
    store_settled_set(&d->store, &d->settle);
}

static void on_close(void *self)
{
    struct deliverer *d = self;

    flights_close(&d->flights);
    probe_close(d);
    results_close(d);
    templates_close(d);
    tasks_fini(&d->tasks);
    grants_close(d);
    schedule_fini(&d->schedule);
    lanes_fini(&d->lanes);
    care_close(d);
}

static void on_frame(void *self, int kind, struct bytes frame)
{
    if (kind == WIRE_KIND_PULSE)
        grants_pulse(self, frame);
    else if (kind == WIRE_KIND_GRANTED)
        grants_granted(self, frame);
    else if (kind == WIRE_KIND_VOIDED)
        grants_voided(self, frame);
    else
        log_warn(NULL, "a frame that is not for a deliverer; dropped",
                 LS("kind", wire_kind_name(kind)));
}

/* ---- housekeeping ---- */

static void purge_history(struct deliverer *d)
{
    struct hop *hop = d->daemon.hop;
    uint64_t last = 0;
    int64_t now = d->daemon.loop.now_ms;
    int64_t before_ms = retention_history(&d->daemon.retention, d->daemon.db,
                                          d->daemon.settings, now);
    int n = store_attempts_purge(&d->store, before_ms, now,
                                 hop_cursor(hop, SEQUENCER), PURGE_ATTEMPTS,
                                 &last);

    if (n > 0)
        hop_floor(hop, SEQUENCER, last + 1);
    if (n == PURGE_ATTEMPTS)
        d->tidy_ms = 0; /* there is more */
    else
        templates_purge(d,
                        retention_before(&d->daemon.retention, now,
                                         d->daemon.settings->history_keep_ms));
}

static void tidy(struct deliverer *d)
{
    bool low;

    if (d->daemon.loop.mono_ms < d->tidy_ms || d->full)
        return;
    d->tidy_ms = d->daemon.loop.mono_ms + TIDY_EVERY_MS;
    low = db_room_bytes(d->daemon.db) < ROOM_LOW_BYTES;
    if (low != d->low)
        log_warn(NULL,
                 low ? "little room on the disk: no new tasks"
                     : "room on the disk again",
                 LI("room_bytes", db_room_bytes(d->daemon.db)));
    d->low = low;
    purge_history(d);
}

/* ---- SIGTERM ---- */

static void begin_to_stop(struct deliverer *d)
{
    if (!d->daemon.loop.stopping)
        return;
    if (!d->stop_ms)
        d->stop_ms = d->daemon.loop.mono_ms;
    grants_recall_all(d, "stopping"); /* a turn may have been taken back */
}

/* Requests that do not end within the grace are broken off; what they were for
 * is given back like the rest. */
static void end_grace(struct deliverer *d)
{
    if (d->stop_ms && d->flights.active.count > 0 &&
        mono_ms() - d->stop_ms >= d->daemon.settings->shutdown_grace_ms) {
        log_warn(NULL, "requests did not end in time and are broken off",
                 LI("requests", d->flights.active.count));
        flights_interrupt(&d->flights, NULL, "we were stopping");
    }
}

/* All grants are told as drained, and the sequencer has that, or is away: then
 * it finds it in our log when both are there again. */
static bool on_stopped(void *self)
{
    struct deliverer *d = self;
    int64_t now = mono_ms();

    if (!d->stop_ms || !grants_all_drained(d) || d->flights.ended.count > 0)
        return false;
    if (!d->drained_ms)
        d->drained_ms = now;
    return hop_backlog(d->daemon.hop, SEQUENCER) == 0 ||
           now - d->drained_ms >= LAST_ACK_MS;
}

/* ---- the turn ---- */

static int sooner(int a, int b)
{
    return b < 0 ? a : a < 0 ? b : a < b ? a : b;
}

static int on_work(void *self)
{
    struct deliverer *d = self;

    begin_to_stop(d);
    d->daemon.loop.read_on = outcome_work(d) >= GROUP_COUNT;
    probe_work(d);
    care_work(d);
    rows_work(d);
    grants_work(d);
    due_work(d);
    tidy(d);
    return -1; /* tell() knows */
}

/* While outcomes are committed, in a thread: of what is being committed, and of
 * what this turn took, nothing is touched. A crash repeats what had ended and
 * was not committed, so while a disk stalls it does not grow without end. */
static void meanwhile(void *self)
{
    struct deliverer *d = self;

    flights_read(&d->flights);
    begin_mark_ended(d);
    if (d->full || d->care.count || d->flights.ended.count >= ENDED_MOST)
        return;
    begin_attempts(d);
    flights_read(&d->flights); /* send what was begun */
    begin_mark_ended(d);
}

static void measure(struct deliverer *d)
{
    int64_t *m = d->metrics;

    m[METRIC_IN_FLIGHT] = d->flights.active.count;
    m[METRIC_QUEUED] = (int64_t)d->tasks.count - d->flights.active.count -
                       d->flights.ended.count;
    m[METRIC_PARKED_ROWS] = d->parked_rows;
    m[METRIC_CONNECTIONS] = d->flights.connections;
    m[METRIC_REUSED] = d->flights.reused;
    m[METRIC_REUSE] = m[METRIC_ATTEMPTS]
                          ? 100 * m[METRIC_REUSED] / m[METRIC_ATTEMPTS]
                          : 0;
    m[METRIC_RESENT] = d->flights.resent;
    m[METRIC_GRANTS] = (int64_t)d->grants.count;
    m[METRIC_CONFIRMED] = d->grants.confirmed;
    m[METRIC_LEASE] = grants_may_begin(d);
}

/* How each endpoint that is at home here stands. Open breakers are counted here,
 * not where one opens: a turn that is taken back closes none of them again. */
static void measure_endpoints(void *self)
{
    struct deliverer *d = self;
    struct metrics *m = d->daemon.metrics;
    struct grant *g = NULL;

    d->metrics[METRIC_OPEN] = 0;
    while ((g = grants_next(d, g))) {
        const struct endpoint *e = &g->endpoint;
        bool open = e->gate.breaker.state != BREAKER_CLOSED;

        d->metrics[METRIC_OPEN] += open;
        if (!e->config)
            continue;
        series_set(METRIC_SERIES(m, FAMILY_BREAKER, g->name), open);
        series_set(METRIC_SERIES(m, FAMILY_WINDOW, g->name),
                   e->gate.window.size);
    }
}

static int wait_ms(struct deliverer *d)
{
    int ms = flights_wait_ms(&d->flights);

    if (d->flights.tested.count > 0)
        return 0;
    ms = sooner(ms, outcome_wait_ms(d));
    ms = sooner(ms, begin_wait_ms(d));
    ms = sooner(ms, rows_wait_ms(d));
    ms = sooner(ms, due_wait_ms(d));
    ms = sooner(ms, grants_wait_ms(d));
    return sooner(ms, TIDY_EVERY_MS);
}

static void on_tell(void *self)
{
    struct deliverer *d = self;

    d->turn++; /* what this one did is on disk */
    d->full = false;
    outcome_tell(d);
    end_grace(d);
    flights_turn(&d->flights, d->daemon.loop.awake_ms);
    begin_mark_ended(d);
    begin_attempts(d);
    probe_tell(d);
    flights_turn(&d->flights,
                 d->daemon.loop.awake_ms); /* send what was begun */
    begin_mark_ended(d);
    grants_tell(d);
    measure(d);
    daemon_wake_in(&d->daemon, wait_ms(d));
}

/* The disk is full. What ended and could not be written stays in memory and is
 * written first; nothing is begun or taken meanwhile. */
static void on_undo(void *self)
{
    struct deliverer *d = self;

    d->full = true;
    outcome_undo(d);
    templates_undo(d);
    care_undo(d);
    rows_undo(d);
    d->drained_ms = 0;
    d->turn++;
}

/* ---- what others may ask ---- */

static json_t *grant_json(struct grant *g)
{
    const struct endpoint *e = &g->endpoint;

    return json_pack("{s:s,s:s,s:b,s:i,s:i,s:i,s:I,s:I,s:s,s:b,s:b}",
                     "endpoint", g->name, "state", grant_state_name(g->state),
                     "confirmed", e->config != NULL, "in_flight", e->in_flight,
                     "window", e->gate.window.size, "queued",
                     endpoint_waiting(e), "rows", (json_int_t)e->rows, "parked",
                     (json_int_t)e->parked, "breaker",
                     breaker_state_name(e->gate.breaker.state), "held",
                     e->gate.hold.on, "ramp", e->gate.ramp.on);
}

/* Endpoints that fail. The sequencer lists those that are held. */
static void put_troubles(const struct deliverer *d, json_t *out)
{
    json_t *list = json_array();
    json_int_t more = 0;

    for (struct grant *g = NULL; (g = grants_next(d, g));) {
        const struct gate *gate = &g->endpoint.gate;
        int64_t open_ms = (mono_us() - gate->breaker.since_us) / 1000;

        if (g->state != GRANT_OPEN || gate->hold.on ||
            gate->breaker.state == BREAKER_CLOSED)
            continue;
        if (json_array_size(list) < TROUBLES_SHOWN)
            json_array_append_new(list, trouble_json(g->name, "failing",
                                                     now_ms() - open_ms,
                                                     g->endpoint.failure));
        else
            more++;
    }
    json_object_set_new(out, "troubles", list);
    json_object_set_new(out, "troubles_more", json_integer(more));
}

static void on_status(void *self, json_t *out)
{
    enum { SHOWN = 100 };
    struct deliverer *d = self;
    json_t *grants = json_array();
    struct grant *g = NULL;

    for (int n = 0; n < SHOWN && (g = grants_next(d, g)); n++)
        json_array_append_new(grants, grant_json(g));
    json_object_set_new(out, "lease",
                        json_string(grants_may_begin(d) ? "held" : "lapsed"));
    json_object_set_new(out, "grants", grants);
    json_object_set_new(out, "in_flight",
                        json_integer(d->flights.active.count));
    json_object_set_new(out, "parked", json_integer(d->parked_rows));
    put_troubles(d, out);
}

static const struct control_command commands[] = {
    {"trace", "id", "attempts of an event here, and what waits", trace_event},
    {"test", "config", "send a test event by this configuration; the exchange",
     probe_ask},
    {0},
};

const struct metric deliverer_metrics[] = {
    [METRIC_ATTEMPTS] = {"grapnel_attempts_total", METRIC_COUNTER, "attempts",
                         "requests made to endpoints that have ended"},
    [METRIC_DELIVERED] = {"grapnel_attempts_delivered_total", METRIC_COUNTER,
                          "attempts", "answered 2xx"},
    [METRIC_PARKED] = {"grapnel_attempts_parked_total", METRIC_COUNTER,
                       "attempts", "failed; a retry waits"},
    [METRIC_DEAD] = {"grapnel_attempts_dead_total", METRIC_COUNTER, "attempts",
                     "failed for good"},
    [METRIC_RELEASED] = {"grapnel_attempts_released_total", METRIC_COUNTER,
                         "attempts", "broken off, or final elsewhere"},
    [METRIC_IN_FLIGHT] = {"grapnel_in_flight", METRIC_GAUGE, "attempts",
                          "requests that are unanswered now"},
    [METRIC_QUEUED] = {"grapnel_queued", METRIC_GAUGE, "tasks",
                       "in memory, waiting for their endpoint's turn"},
    [METRIC_PARKED_ROWS] = {"grapnel_parked", METRIC_GAUGE, "tasks",
                            "on disk, waiting for their next try"},
    [METRIC_CONNECTIONS] = {"grapnel_connections_total", METRIC_COUNTER,
                            "connections", "opened"},
    [METRIC_REUSED] = {"grapnel_connections_reused_total", METRIC_COUNTER,
                       "attempts", "that went over a kept connection"},
    [METRIC_REUSE] = {"grapnel_connections_reused_percent", METRIC_GAUGE,
                      "percent", "of all attempts since the start"},
    [METRIC_RESENT] = {"grapnel_attempts_resent_total", METRIC_COUNTER,
                       "attempts",
                       "sent a second time, as a kept connection was dead"},
    [METRIC_OPENED] = {"grapnel_breaker_opened_total", METRIC_COUNTER,
                       "endpoints", "began to fail, and only to fail"},
    [METRIC_OPEN] = {"grapnel_breakers_open", METRIC_GAUGE, "endpoints",
                     "that are asked by one attempt at a time"},
    [METRIC_PROBES] = {"grapnel_probes_total", METRIC_COUNTER, "attempts",
                       "that asked whether such an endpoint is back"},
    [METRIC_PULLED] = {"grapnel_pulled_forward_total", METRIC_COUNTER, "tasks",
                       "parked, and tried early as their endpoint is back"},
    [METRIC_GRANTS] = {"grapnel_grants", METRIC_GAUGE, "grants",
                       "held or being given back"},
    [METRIC_CONFIRMED] = {"grapnel_grants_confirmed", METRIC_GAUGE, "grants",
                          "under which attempts may begin"},
    [METRIC_LEASE] = {"grapnel_lease", METRIC_GAUGE, "",
                      "1: the sequencer has answered in time"},
    [METRIC_COUNT] = {0},
};

static const char *const steps[] = {
    deliverer_store_sql, proto_hop_sql,      deliverer_answers_sql,
    deliverer_early_sql, deliverer_log_sql,  deliverer_fresh_sql,
    deliverer_sent_sql,  deliverer_held_sql, deliverer_templates_sql,
    deliverer_sums_sql};
STORE_HAS_STEPS(steps, DELIVERER_SCHEMA);
static const struct db_schema schema = {.steps = steps,
                                        .count = COUNT_OF(steps),
                                        .program = "grapnel-deliverer",
                                        .table = "tasks"};

static const struct hop_ops hop_ops = {
    .apply = take_message, .load = results_load, .set_back = take_set_back};

const struct daemon_plan deliverer_plan = {
    .process = "deliverer",
    .default_name = "deliverer-1",
    .summary = "tries each delivery until its answer is final",
    .schema = &schema,
    .hop = &hop_ops,
    .commands = commands,
    .metrics = deliverer_metrics,
    .families = deliverer_families,
    .open = on_open,
    .restored = on_restored,
    .frame = on_frame,
    .work = on_work,
    .meanwhile = meanwhile,
    .tell = on_tell,
    .undo = on_undo,
    .stopped = on_stopped,
    .close = on_close,
    .measure = measure_endpoints,
    .status = on_status};
