/* turn: the deliverer's start, turn and end.
 *
 *   frames    tasks and other messages of the link (task_messages.c); heartbeat_acks and
 *             grants (lease.c)
 *   work      outcomes of attempts that have ended (outcome.c); rows for tasks that
 *             take longer, and the link's cursor (rows.c); the end of grants (own_grants.c);
 *             due rows (due.c); a step of housekeeping
 *   commit    in a thread for a group of outcomes; libcurl goes on meanwhile
 *   send      memory follows the commit; libcurl reads and writes; attempts begin; the
 *             heartbeat is sent
 *
 * An attempt begins in deliverer_after_commit(), or while a later turn is committed, so a task
 * does not begin before the commit of the turn in which it was received. */
#include "attempts.h"
#include "clock.h"
#include "deliverer.h"
#include "delivery_trace.h"
#include "due.h"
#include "log.h"
#include "outcome.h"
#include "rows.h"
#include "task_messages.h"
#include "trouble.h"
#include "wire.h"
#include <stdlib.h>
#include <string.h>

enum {
    TIDY_EVERY_MS = 1000,
    /* With less, no task is accepted: the rest is for outcomes. Ingress and the
     * sequencer stop earlier. */
    DISK_LOW_BYTES = 4 * 1024 * 1024,
    GROUP_COUNT = 16, /* so many outcomes are worth a commit in a thread */
    ENDED_MAX = 512,  /* uncommitted outcomes: then no attempt begins */
    LAST_ACK_MS =
        2000, /* at the end, wait for the sequencer's acknowledgement */
};

/* ---- start and end ---- */

void deliverer_open(void *self)
{
    struct deliverer *d = self;
    struct link_state link;
    char *quarantine_path, *old_path;
    int at = 0;

    d->turn = 1;
    store_open(&d->store, d->daemon.db);
    result_log_open(d);
    templates_open(d);
    schedule_init(&d->schedule);
    tasks_init(&d->tasks);
    links_hold(d->daemon.links, SEQUENCER);
    while (links_each(d->daemon.links, &at, &link))
        if (!link.out && strcmp(link.peer, SEQUENCER) == 0)
            stored_numbers_init(&d->numbers, link.done);
    store_numbers_get(&d->store, &d->numbers);
    own_grants_open(d);
    quarantine_path = gr_printf("%s/%s.inflight", d->daemon.settings->state_dir,
                                d->daemon.name);
    old_path = gr_printf("%s/%s.flying", d->daemon.settings->state_dir,
                         d->daemon.name);
    (void)rename(old_path, quarantine_path); /* its name until 0.2.0 */
    takes_open(d);
    pull_open(d);
    quarantine_open(d, quarantine_path);
    free(quarantine_path);
    free(old_path);
    transfers_open(&d->transfers, &d->lease.until_ms);
    loop_watch_fd(&d->daemon.loop, d->transfers.sockets.epoll);
}

void deliverer_restored(void *self)
{
    struct deliverer *d = self;

    store_restored(&d->store);
    stored_numbers_init(&d->numbers, d->numbers.base);
    store_numbers_put(&d->store, &d->numbers);
    take_rows_forget(&d->takes.rows);
    takes_undo(d);
}

void deliverer_close(void *self)
{
    struct deliverer *d = self;

    transfers_close(&d->transfers);
    endpoint_test_close(d);
    pull_close(d);
    takes_close(d);
    result_log_close(d);
    templates_close(d);
    tasks_fini(&d->tasks);
    own_grants_close(d);
    schedule_fini(&d->schedule);
    busy_lanes_fini(&d->busy_lanes);
    quarantine_close(d);
}

void deliverer_frame(void *self, int kind, struct bytes frame)
{
    if (kind == WIRE_KIND_HEARTBEAT_ACK)
        lease_heartbeat_ack(self, frame);
    else if (kind == WIRE_KIND_GRANTED)
        lease_granted(self, frame);
    else if (kind == WIRE_KIND_REVOKED)
        lease_revoked(self, frame);
    else
        log_warn(NULL, "a frame for another kind of process arrived; dropped",
                 LS("kind", wire_kind_name(kind)));
}

/* ---- housekeeping ---- */

/* Delete attempts that are old enough, a step at a time. When the disk requires it before history.keep has
 * passed, a step in each turn. */
static void purge_history(struct deliverer *d)
{
    struct links *links = d->daemon.links;
    uint64_t last = 0;
    int64_t now = d->daemon.loop.now_ms, mono = d->daemon.loop.mono_ms;
    int64_t before_ms = retention_history(&d->daemon.retention, d->daemon.db,
                                          d->daemon.settings, now);
    bool early = before_ms == INT64_MAX;
    int max = early ? TURN_MAX_COUNT
                    : purge_pace_step(&d->purge_pace, mono,
                                      (int64_t)links_next(links, SEQUENCER));
    int n = store_attempts_purge(&d->store, before_ms, now,
                                 links_cursor(links, SEQUENCER), max, &last);

    if (n > 0)
        links_floor(links, SEQUENCER, last + 1);
    purge_pace_stepped(&d->purge_pace, n == max);
    if (n == max)
        d->tidy_ms = early ? 0
                           : mono + purge_pace_wait_ms(&d->purge_pace, mono);
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
    low = db_free_bytes(d->daemon.db) < DISK_LOW_BYTES;
    if (low != d->low)
        log_warn(NULL,
                 low ? "little free disk space; no new tasks are accepted"
                     : "there is free disk space again; tasks are accepted",
                 LI("free_bytes", db_free_bytes(d->daemon.db)));
    d->low = low;
    purge_history(d);
}

static int tidy_wait_ms(const struct deliverer *d)
{
    int64_t ms = d->tidy_ms - d->daemon.loop.mono_ms;

    return ms > 0 ? (int)ms : 0;
}

/* ---- SIGTERM ---- */

/* Interrupt requests that do not end within the grace; their tasks are released with their
 * grants. */
static void end_grace(struct deliverer *d)
{
    if (d->stop_ms && d->transfers.active.count > 0 &&
        mono_ms() - d->stop_ms >= d->daemon.settings->shutdown_grace_ms) {
        log_warn(NULL, "attempts did not end in time and were interrupted",
                 LI("requests", d->transfers.active.count));
        transfers_interrupt(&d->transfers, NULL, "the deliverer was stopping");
    }
}

/* `released` of all grants is committed, and the sequencer has acknowledged it, or does not
 * respond: then it receives it after both processes have started again. */
bool deliverer_stopped(void *self)
{
    struct deliverer *d = self;
    int64_t now = mono_ms();

    if (!d->stop_ms || !own_grants_all_released(d) ||
        d->transfers.ended.count > 0)
        return false;
    if (!d->all_released_ms)
        d->all_released_ms = now;
    return links_backlog(d->daemon.links, SEQUENCER) == 0 ||
           now - d->all_released_ms >= LAST_ACK_MS;
}

/* ---- the turn ---- */

int deliverer_work(void *self)
{
    struct deliverer *d = self;

    if (d->daemon.loop.stopping) {
        if (!d->stop_ms)
            d->stop_ms = d->daemon.loop.mono_ms;
        own_grants_stop(d); /* again after a rollback */
    }
    d->daemon.loop.read_on = outcome_work(d) >= GROUP_COUNT;
    endpoint_test_work(d);
    quarantine_work(d);
    rows_work(d);
    takes_work(d);
    pull_work(d);
    lease_expire(d);
    own_grants_work(d);
    due_work(d);
    tidy(d);
    return -1; /* deliverer_after_commit() sets the wait */
}

/* Called while outcomes are committed in a thread. It does not change these outcomes, and does
 * not begin tasks that this turn received. A crash repeats attempts that have ended and are not
 * committed, so their number is bounded while the disk stalls. */
void deliverer_meanwhile(void *self)
{
    struct deliverer *d = self;

    transfers_read(&d->transfers);
    attempts_mark_ended(d);
    if (d->full || d->quarantine.count || d->transfers.ended.count >= ENDED_MAX)
        return;
    attempts_begin(d);
    transfers_read(&d->transfers); /* send what was begun */
    attempts_mark_ended(d);
}

static void measure(struct deliverer *d)
{
    int64_t *m = d->metrics;

    m[METRIC_IN_FLIGHT] = d->transfers.active.count;
    m[METRIC_QUEUED] = (int64_t)d->tasks.ids.used - d->transfers.active.count -
                       d->transfers.ended.count;
    m[METRIC_SCHEDULED_RETRIES] = d->scheduled_retries;
    m[METRIC_CONNECTIONS] = d->transfers.connections;
    m[METRIC_REUSED] = d->transfers.reused;
    m[METRIC_REUSE] = m[METRIC_ATTEMPTS]
                          ? 100 * m[METRIC_REUSED] / m[METRIC_ATTEMPTS]
                          : 0;
    m[METRIC_RESENT] = d->transfers.resent;
    m[METRIC_GRANTS] = (int64_t)d->own_grants.ids.used;
    m[METRIC_CONFIRMED] = d->own_grants.confirmed;
    m[METRIC_LEASE] = lease_may_begin(d);
    m[METRIC_TAKEN] = d->takes.count;
    m[METRIC_TAKES_WAITING] = d->pull.count;
}

/* Breaker and window of each endpoint that this deliverer owns. Open breakers are counted here,
 * not where one opens, because a rollback does not close a breaker. */
void deliverer_measure(void *self)
{
    struct deliverer *d = self;
    struct metrics *m = d->daemon.metrics;
    struct grant *g = NULL;

    d->metrics[METRIC_OPEN] = 0;
    while ((g = own_grants_next(d, g))) {
        const struct granted_endpoint *e = &g->endpoint;
        bool open = e->throttle.breaker.state != BREAKER_CLOSED;

        d->metrics[METRIC_OPEN] += open;
        if (!e->config || e->temporary)
            continue;
        series_set(METRIC_SERIES(m, FAMILY_BREAKER, g->name), open);
        series_set(METRIC_SERIES(m, FAMILY_WINDOW, g->name),
                   e->throttle.window.size);
    }
}

static int wait_ms(struct deliverer *d)
{
    int ms = transfers_wait_ms(&d->transfers);

    if (d->transfers.tested.count > 0)
        return 0;
    ms = loop_sooner(ms, outcome_wait_ms(d));
    ms = loop_sooner(ms, attempts_wait_ms(d));
    ms = loop_sooner(ms, rows_wait_ms(d));
    ms = loop_sooner(ms, due_wait_ms(d));
    ms = loop_sooner(ms, lease_wait_ms(d));
    ms = loop_sooner(ms, takes_wait_ms(d));
    ms = loop_sooner(ms, pull_wait_ms(d));
    return loop_sooner(ms, tidy_wait_ms(d));
}

void deliverer_after_commit(void *self)
{
    struct deliverer *d = self;

    d->turn++; /* the last one is on disk */
    d->full = false;
    outcome_after_commit(d);
    end_grace(d);
    transfers_turn(&d->transfers, d->daemon.loop.awake_ms);
    attempts_mark_ended(d);
    attempts_begin(d);
    endpoint_test_after_commit(d);
    transfers_turn(&d->transfers,
                   d->daemon.loop.awake_ms); /* send what was begun */
    attempts_mark_ended(d);
    lease_flush(d);
    pull_flush(d);
    measure(d);
    daemon_wake_in(&d->daemon, wait_ms(d));
}

/* The disk is full. Outcomes that could not be written stay in memory and are written first;
 * until then no attempt begins and no task is accepted. */
void deliverer_undo(void *self)
{
    struct deliverer *d = self;

    d->full = true;
    d->tidy_ms = d->daemon.loop.mono_ms + TIDY_EVERY_MS; /* outcomes first */
    outcome_undo(d);
    templates_undo(d);
    quarantine_undo(d);
    rows_undo(d);
    takes_undo(d);
    d->all_released_ms = 0;
    d->turn++;
}

/* ---- status ---- */

static json_t *grant_json(struct grant *g)
{
    const struct granted_endpoint *e = &g->endpoint;

    return json_pack("{s:s,s:s,s:b,s:i,s:i,s:i,s:I,s:I,s:s,s:b,s:b}",
                     "endpoint", g->name, "state", grant_state_name(g->state),
                     "confirmed", e->config != NULL, "in_flight",
                     e->in_flight + (int)e->taken, "window",
                     e->throttle.window.size, "queued", endpoint_waiting(e),
                     "rows", (json_int_t)e->rows, "scheduled_retries",
                     (json_int_t)e->scheduled_retries, "breaker",
                     breaker_state_name(e->throttle.breaker.state), "held",
                     e->throttle.hold.on, "ramp", e->throttle.ramp.on);
}

/* How long rate_limit holds up deliveries that wait; 0: it holds up none. */
static int64_t rate_wait_ms(const struct granted_endpoint *e)
{
    int64_t us = 0;

    if (e->config && endpoint_waiting(e) > 0)
        us = throttle_rate_ready_us(&e->throttle, e->config) - mono_us();
    return us > 0 ? (us + 999) / 1000 : 0;
}

json_t *deliverer_throttle(void *self, json_t *args, char why[200])
{
    const char *name = json_string_value(json_object_get(args, "endpoint"));
    const struct grant *g = own_grants_named(self, name);

    (void)why;
    if (!g)
        return json_pack("{s:n,s:n,s:n}", "breaker", "window", "rate_wait_ms");
    return json_pack("{s:s,s:i,s:I}", "breaker",
                     breaker_state_name(g->endpoint.throttle.breaker.state),
                     "window", g->endpoint.throttle.window.size, "rate_wait_ms",
                     (json_int_t)rate_wait_ms(&g->endpoint));
}

/* Endpoints that fail. The sequencer lists the held ones. */
static void put_troubles(const struct deliverer *d, json_t *out)
{
    json_t *list = json_array();
    json_int_t more = 0;

    for (struct grant *g = NULL; (g = own_grants_next(d, g));) {
        const struct throttle *throttle = &g->endpoint.throttle;
        int64_t open_ms = (mono_us() - throttle->breaker.since_us) / 1000;

        if (g->state != GRANT_OPEN || throttle->hold.on ||
            throttle->breaker.state == BREAKER_CLOSED)
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

void deliverer_status(void *self, json_t *out)
{
    enum { SHOWN = 100 };
    struct deliverer *d = self;
    json_t *grants = json_array();
    struct grant *g = NULL;

    for (int n = 0; n < SHOWN && (g = own_grants_next(d, g)); n++)
        json_array_append_new(grants, grant_json(g));
    json_object_set_new(out, "lease",
                        json_string(lease_may_begin(d) ? "held" : "lapsed"));
    json_object_set_new(out, "grants", grants);
    json_object_set_new(out, "in_flight",
                        json_integer(d->transfers.active.count));
    json_object_set_new(out, "scheduled_retries",
                        json_integer(d->scheduled_retries));
    put_troubles(d, out);
}

/* daemon_plan's (daemon_erase.h). The sequencer asks when no copy of the deliveries is here. */
void deliverer_erase(void *self, struct erase_step *s)
{
    struct deliverer *d = self;
    json_t *id;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)s->ids, i, id)
    {
        s->changed += store_erase_event(&d->store, json_string_value(id));
        s->changed += taken_erase(&d->takes.rows, json_string_value(id));
    }
    s->done = true;
}
