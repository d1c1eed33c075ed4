/* turn: the sequencer's start, turn and end. The daemon has applied the messages of a turn
 * before it calls sequencer_work(), which does what follows from them and from time. */
#include "turn.h"
#include "clock.h"
#include "config.h"
#include "dead_letters.h"
#include "dispatch.h"
#include "ended.h"
#include "event_types.h"
#include "keys.h"
#include "log.h"
#include "managed_endpoints.h"
#include "operational_archive.h"
#include "operational_events.h"
#include "outcomes.h"
#include "provider_ids.h"
#include "replay.h"
#include "search_filters.h"
#include "sequencer.h"
#include "store.h"
#include "store_lanes.h"
#include "store_order.h"
#include "store_search.h"
#include "streams.h"
#include "tally.h"
#include "tokens.h"
#include "watch.h"
#include "watermarks.h"
#include "workspace_erase.h"
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

enum {
    LOOK_MS = 1000,
    TURN_WAIT_US = 2000, /* between two turns, while processors are contended */
    RESULTS_WAIT_MS = 10, /* for events, to be in one commit with them */
    ORDER_PER_TURN = 128,
    /* events taken in a turn beyond the deliveries that ended */
    EVENTS_MORE = 16,
    WORKSPACES_CACHED = 65536,
    ROUTE_ORDERS_RESERVED = 1024,
    CONFIG_MAX_BYTES = 16 * 1024 * 1024,
};

/* Ingress refuses events first (at 5 % of the disk). The sequencer stops taking events later,
 * and takes results to the end. */
#define DISK_LOW_PART  25
#define DISK_LOW_BYTES (192LL * 1024 * 1024)

static bool is_disk_low(const struct sequencer *q)
{
    struct statvfs v;
    int64_t mark;

    if (statvfs(db_path(q->d.db), &v) != 0)
        return true;
    mark = (int64_t)v.f_blocks * (int64_t)v.f_frsize / DISK_LOW_PART;
    return db_free_bytes(q->d.db) <
           (mark < DISK_LOW_BYTES ? mark : DISK_LOW_BYTES);
}

/* While deliveries wait for space in their endpoints' windows, take events only as fast as
 * deliveries end, and a few more: the events are safe at ingress, and would take time from
 * the deliveries. A turn in which no delivery ended has time for events, however many
 * deliveries wait: then the endpoints are slow, not this process. */
bool sequencer_has_time(void *self)
{
    struct sequencer *q = self;
    int ended = links_taken_count(q->d.links);

    if (!q->crowded || !ended) {
        q->event_credit = 0;
        return true;
    }
    q->event_credit += ended + EVENTS_MORE;
    if (q->event_credit > TURN_MAX_COUNT)
        q->event_credit = TURN_MAX_COUNT;
    return q->event_credit > 0;
}

static int64_t history_before(const struct sequencer *q)
{
    return retention_before(&q->d.retention, q->d.loop.now_ms,
                            q->d.settings->history_keep_ms);
}

/* Once a second: check the disk, and look for rows to purge. */
static void look(struct sequencer *q)
{
    bool was_disk_low = q->disk_low;
    int64_t open, oldest_ms;

    q->looked_ms = q->d.loop.mono_ms;
    q->disk_low = is_disk_low(q);
    q->was_undone = false;
    if (q->disk_low != was_disk_low)
        log_warn(NULL, q->disk_low
                           ? "the disk is nearly full; no new events are "
                             "accepted until there is free space"
                           : "there is free space again; events are accepted");
    q->purge_keys = q->purge_events = q->purge_order = true;
    search_filters_tidy(q->search_filters);
    provider_ids_tidy(q->provider_ids);
    tokens_work(q);
    workspace_erase_look(q);
    store_actions_forget(q->search, history_before(q), ORDER_PER_TURN);
    store_gap_figures(q->order, &open, &oldest_ms);
    q->metrics[METRIC_GAPS_OPEN] = open;
    /* After a step of the clock the gap may have been opened in the future. */
    q->metrics[METRIC_GAP_OLDEST] = open && q->d.loop.now_ms > oldest_ms
                                        ? (q->d.loop.now_ms - oldest_ms) / 1000
                                        : 0;
    q->metrics[METRIC_KEYS] = keys_count(q->keys);
}

static bool is_needed(void *self, int64_t event, int64_t subscriber,
                      int64_t taken_ms)
{
    return outcomes_needs(self, event, subscriber, taken_ms);
}

/* Purge events that have ended. If the disk requires it before history.keep has passed, purge
 * them in each turn, no more slowly than new ones are received. */
static bool purge_events(struct sequencer *q)
{
    int64_t now = q->d.loop.now_ms;
    int64_t before_ms = retention_history(&q->d.retention, q->d.db,
                                          q->d.settings, now);
    bool early = before_ms == INT64_MAX;
    int max = early ? TURN_MAX_COUNT
                    : purge_pace_step(&q->purge_pace, q->d.loop.mono_ms,
                                      q->next_event);
    bool left;

    if (!max)
        return true;
    left = store_purge(q->store, now, before_ms, max, &q->purged_to, is_needed,
                       q);
    purge_pace_stepped(&q->purge_pace, left);
    if (left)
        return true;
    if (now - q->purged_ms > (early ? 10 * MINUTE_MS : HOUR_MS)) {
        q->purged_to = 0; /* check those again that had not ended */
        q->purged_ms = now;
    }
    return false;
}

/* Returns how long until it has more to do; -1: nothing. */
static int purge(struct sequencer *q)
{
    int64_t cutoff = history_before(q);

    q->purge_keys = keys_work(
        q->keys, &q->d.retention, q->d.loop.now_ms,
        q->purge_keys ? watermarks_received_ms(q->watermarks) : 0);
    if (q->purge_order)
        q->purge_order = store_gaps_purge(q->order, cutoff, ORDER_PER_TURN) +
                             store_objects_purge(q->order, cutoff,
                                                 ORDER_PER_TURN) >=
                         ORDER_PER_TURN;
    if (q->purge_events)
        q->purge_events = purge_events(q);
    if (q->purge_keys || q->purge_order)
        return 0;
    return q->purge_events
               ? purge_pace_wait_ms(&q->purge_pace, q->d.loop.mono_ms)
               : -1;
}

/* Note when the configuration last changed. A trace explains old events by the current
 * configuration, and says so if that is newer. */
static void date_configuration(struct sequencer *q)
{
    struct buf text;
    struct key digest;

    buf_init(&text, CONFIG_MAX_BYTES);
    settings_print(q->d.settings, &text);
    digest = key_make(text.data, text.len);
    buf_fini(&text);
    q->config_since_ms = store_meta(q->store, "config_since_ms");
    if (store_meta(q->store, "config_digest") == (int64_t)digest.hash)
        return;
    q->config_since_ms = q->config_since_ms ? q->d.loop.now_ms : 1;
    store_meta_set(q->store, "config_digest", (int64_t)digest.hash);
    store_meta_set(q->store, "config_since_ms", q->config_since_ms);
}

/* After a start, a reload or a rolled back turn, first match the endpoints with the settings:
 * nothing is routed or dispatched before. Inside the transaction, so that a full disk rolls
 * it back as a whole. */
void sequencer_begin(void *self)
{
    struct sequencer *q = self;

    if (!q->configure)
        return;
    if (!q->series) { /* the first start */
        q->series = random_id();
        store_meta_set(q->store, "series", (int64_t)q->series);
    }
    date_configuration(q);
    grants_configure(q, q->d.settings);
    streams_configure(q->streams);
    if (ended_count(q->ended)) {
        tokens_end(q);
        managed_end(q);
    }
}

/* Reserves many at once. Otherwise each turn would write a page of `meta`: a tenth of what a turn with one event writes. A
 * restart skips those that were not used. */
static void reserve_route_orders(struct sequencer *q)
{
    if (q->next_route_order <= q->reserved_route_order + 1)
        return;
    q->reserved_route_order = q->next_route_order - 1 + ROUTE_ORDERS_RESERVED;
    store_meta_set(q->store, "next_route_order", q->reserved_route_order);
}

int sequencer_work(void *self)
{
    struct sequencer *q = self;
    int wait_ms, more_ms, order_ms = -1, replay_ms;

    watermarks_work(q->watermarks);
    if (streams_work(q->streams, q->disk_low || q->was_undone))
        order_ms = 0;
    watermarks_set_due(q->watermarks, streams_due(q->streams));
    q->metrics[METRIC_BUFFERED] = streams_buffered(q->streams);
    managed_work(q);
    wait_ms = grants_work(q);
    dispatch_damaged(q);
    watch_work(q);
    replay_ms = replay_work(q);
    wait_ms = loop_sooner(wait_ms, replay_ms);
    more_ms = q->was_undone ? -1 : dispatch_work(q);
    if (q->d.loop.mono_ms - q->looked_ms >= LOOK_MS)
        look(q);
    if (dead_letters_work(q))
        more_ms = 0;
    else
        wait_ms = loop_sooner(wait_ms, purge(q));
    if (outcomes_work(q))
        more_ms = 0;
    wait_ms = loop_sooner(
        wait_ms, q->disk_low ? -1 : search_filters_work(q->search_filters));
    if (!q->disk_low && provider_ids_work(q->provider_ids, q->next_event))
        more_ms = 0;
    wait_ms = loop_sooner(wait_ms, operational_events_work(q));
    keys_store(q->keys);
    store_workspaces(q->store, &q->workspaces);
    endpoints_save(q);
    reserve_route_orders(q);
    if (q->workspaces.names.used > WORKSPACES_CACHED)
        workspaces_clear(&q->workspaces);
    if (more_ms == 0 || order_ms == 0)
        return 0;
    /* Not while deliveries wait for the result of another one: each would be late. */
    if (wait_ms && !q->crowded && !q->in_lanes && db_dirty(q->d.db))
        q->d.loop.may_wait_us = TURN_WAIT_US;
    if (wait_ms && !q->needs_results)
        q->d.loop.patient_ms = RESULTS_WAIT_MS;
    return wait_ms;
}

void sequencer_after_commit(void *self)
{
    struct sequencer *q = self;
    int ms = watermarks_flush(q->watermarks);

    deliverers_flush(q);
    if (ms >= 0)
        daemon_wake_in(&q->d, ms);
}

static void read_next_event(struct sequencer *q)
{
    int64_t last = store_last_event(q->store);

    q->reserved_event = store_meta(q->store, "reserved_event");
    q->next_event = (last > q->reserved_event ? last : q->reserved_event) + 1;
}

static void read_next_route_order(struct sequencer *q)
{
    q->reserved_route_order = store_meta(q->store, "next_route_order");
    q->next_route_order = q->reserved_route_order + 1;
}

void sequencer_open(void *self)
{
    struct sequencer *q = self;

    q->started_ms = mono_ms();
    q->store = store_open(q->d.db);
    q->deliveries = deliveries_open(q->d.db);
    links_keep_log(q->d.links, "dlqd");
    q->lanes = store_lanes_open(q->d.db);
    read_next_route_order(q);
    q->order = store_order_open(q->d.db);
    q->search = store_search_open(q->d.db);
    q->search_filters = search_filters_open(q);
    q->provider_ids = provider_ids_open(q->d.db);
    q->keys = keys_open(q->d.db);
    q->ended = ended_open(
        q->d.settings->state_dir,
        retention_before(&q->d.retention, now_ms(), ENDED_KEEP_DAYS * DAY_MS));
    q->tokens = tokens_open(q->d.db, q->ended);
    q->operational = operational_events_open(q->d.db);
    q->outcomes = outcomes_open(q);
    q->erasing = workspace_erase_open(q);
    q->event_types = event_types_open(q->d.db);
    q->operational_archive = operational_archive_open(q->d.db);
    q->managed = managed_open(q->d.db);
    q->tallies = tallies_open(now_ms());
    q->watermarks = watermarks_open(q);
    q->streams = streams_open(q);
    read_next_event(q);
    q->series = (uint64_t)store_meta(q->store, "series");
    grants_open(q);
    q->reopenings = true; /* the first look finds out */
}

void sequencer_restored(void *self)
{
    grants_restored(self);
}

/* The times at which peers were heard are not on disk, and stay. */
void sequencer_undo(void *self)
{
    struct sequencer *q = self;

    workspaces_clear(&q->workspaces);
    deliveries_forget(q->deliveries);
    store_bodies_undo(q->store);
    read_next_route_order(q);
    keys_undo(q->keys);
    operational_events_undo(q->operational);
    outcomes_undo(q);
    workspace_erase_undo(q->erasing);
    event_types_undo(q->event_types);
    watermarks_undo(q->watermarks);
    streams_undo(q->streams);
    search_filters_undo(q->search_filters);
    provider_ids_undo(q->provider_ids);
    q->config_since_ms = store_meta(q->store, "config_since_ms");
    read_next_event(q);
    q->purged_to = 0; /* what this turn had deleted is there again */
    q->series = (uint64_t)store_meta(q->store, "series");
    q->series_begun = false;
    q->reopenings = true;
    q->reopenings_after = 0;
    grants_undo(q);
    q->disk_low = q->was_undone = true;
}

void sequencer_reload(void *self, struct settings *fresh)
{
    (void)fresh; /* the daemon's settings by the next turn */
    grants_forget_settings(self);
}

void sequencer_close(void *self)
{
    struct sequencer *q = self;

    grants_close(q);
    workspaces_clear(&q->workspaces);
    store_lanes_close(q->lanes);
    streams_close(q->streams);
    watermarks_close(q->watermarks);
    event_types_close(q->event_types);
    operational_archive_close(q->operational_archive);
    operational_events_close(q->operational);
    outcomes_close(q->outcomes);
    workspace_erase_close(q->erasing);
    tokens_close(q->tokens);
    ended_close(q->ended);
    tallies_close(q->tallies);
    managed_close(q->managed);
    keys_close(q->keys);
    store_order_close(q->order);
    provider_ids_close(q->provider_ids);
    search_filters_close(q->search_filters);
    store_search_close(q->search);
    deliveries_close(q->deliveries);
    store_close(q->store);
}
