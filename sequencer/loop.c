/* The sequencer's turn: results before new events, rows before words. */
#include "blocks.h"
#include "clock.h"
#include "doors.h"
#include "keys.h"
#include "log.h"
#include "loop_parts.h"
#include "replay.h"
#include "store.h"
#include "store_lanes.h"
#include "store_order.h"
#include "store_search.h"
#include "streams.h"
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

enum {
    LOOK_MS = 1000,
    PURGE_PER_TURN = 64,
    ORDER_PER_TURN = 128,
    EVENTS_MORE = 16, /* in a turn, than deliveries ended */
    WORKSPACES_CACHED = 65536,
    CONFIG_MAX_BYTES = 16 * 1024 * 1024,
};

/* The door refuses first (at 5 % of the disk); we stop taking events later, and
 * results are taken to the end. */
#define ROOM_PART  25
#define ROOM_BYTES (192LL * 1024 * 1024)

static bool lacks_room(const struct sequencer *q)
{
    struct statvfs v;
    int64_t mark;

    if (statvfs(db_path(q->d.db), &v) != 0)
        return true;
    mark = (int64_t)v.f_blocks * (int64_t)v.f_frsize / ROOM_PART;
    return db_room_bytes(q->d.db) < (mark < ROOM_BYTES ? mark : ROOM_BYTES);
}

gr_rc loop_apply(void *self, const char *from, uint64_t n, struct bytes msg)
{
    struct sequencer *q = self;
    struct wire_accepted accepted;
    struct wire_result result;
    struct wire_drained drained;
    struct wire_missing missing;
    struct wire_requeued requeued;
    struct wire_decided decided;
    struct wire_replayed replayed;
    struct wire_redirected redirected;

    (void)n;
    switch (wire_kind(msg)) {
    case WIRE_KIND_ACCEPTED:
        if (wire_get_accepted(&accepted, msg) != GR_OK)
            return GR_REFUSE;
        doors_came(q->doors, from, accepted.received_ms);
        q->event_credit--;
        return intake_accepted(q, &accepted);
    case WIRE_KIND_RESULT:
        return wire_get_result(&result, msg) == GR_OK
                   ? results_take(q, from, &result)
                   : GR_REFUSE;
    case WIRE_KIND_DRAINED:
        if (wire_get_drained(&drained, msg) != GR_OK)
            return GR_REFUSE;
        grants_drained(q, from, drained.grant);
        return GR_OK;
    case WIRE_KIND_MISSING:
        return wire_get_missing(&missing, msg) == GR_OK
                   ? results_missing(q, from, &missing)
                   : GR_REFUSE;
    case WIRE_KIND_REQUEUED:
        return wire_get_requeued(&requeued, msg) == GR_OK
                   ? letters_requeued(q, &requeued)
                   : GR_REFUSE;
    case WIRE_KIND_DECIDED:
        return wire_get_decided(&decided, msg) == GR_OK
                   ? letters_decided(q, &decided)
                   : GR_REFUSE;
    case WIRE_KIND_REPLAYED:
        return wire_get_replayed(&replayed, msg) == GR_OK
                   ? replay_taken(q, &replayed)
                   : GR_REFUSE;
    case WIRE_KIND_REDIRECTED:
        return wire_get_redirected(&redirected, msg) == GR_OK
                   ? replay_redirected(q, &redirected)
                   : GR_REFUSE;
    default:
        return GR_REFUSE;
    }
}

bool loop_load(void *self, const char *peer, uint64_t n, int kind, int64_t ref,
               struct buf *out)
{
    struct sequencer *q = self;
    struct wire_recalled recalled = {.grant = (uint64_t)ref};

    switch (kind) {
    case WIRE_KIND_TASK:
        return dispatch_load(q, peer, n, ref, out);
    case WIRE_KIND_DROPPED:
        return dispatch_load_dropped(q, ref, out);
    case WIRE_KIND_RETRY_NOW:
        return dispatch_load_retry_now(q, peer, ref, out);
    case WIRE_KIND_CHECK:
        return watch_load(q, n, ref, out);
    case WIRE_KIND_RECALLED:
        wire_put_recalled(out, &recalled);
        return true;
    default:
        return letters_load(q, kind, ref, out);
    }
}

void loop_set_back(void *self, const char *peer, bool we_are_older)
{
    struct sequencer *q = self;

    doors_set_back(q->doors, peer);
    grants_set_back(q, peer, we_are_older);
}

/* Deliverers: their results make room for the next tasks, while the events that wait
 * are safe in ingress. */
bool loop_urgent(void *self, const char *peer)
{
    struct sequencer *q = self;

    for (size_t i = 0; i < q->deliverer_count; i++)
        if (strcmp(q->deliverers[i]->name, peer) == 0)
            return true;
    return false;
}

/* While more deliveries wait than their endpoints' windows permit, events are taken as
 * fast as deliveries end, and a few more: else the events, which ingress has safely, would
 * take the time of the deliveries. A turn in which none ended leaves time for events,
 * however many wait: then it is their endpoints that are slow. */
bool loop_has_time(void *self)
{
    struct sequencer *q = self;
    int ended = hop_taken_count(q->d.hop);

    if (!q->crowded || !ended) {
        q->event_credit = 0;
        return true;
    }
    q->event_credit += ended + EVENTS_MORE;
    if (q->event_credit > TURN_MAX_COUNT)
        q->event_credit = TURN_MAX_COUNT;
    return q->event_credit > 0;
}

void loop_frame(void *self, int kind, struct bytes frame)
{
    struct sequencer *q = self;
    struct wire_sounded sounded;
    struct wire_beat beat;

    if (kind == WIRE_KIND_BEAT && wire_get_beat(&beat, frame) == GR_OK)
        grants_beat(q, &beat);
    else if (kind == WIRE_KIND_SOUNDED &&
             wire_get_sounded(&sounded, frame) == GR_OK)
        doors_sounded(q->doors, &sounded);
    else
        log_warn(NULL, "a frame that is not for a sequencer; dropped",
                 LS("kind", wire_kind_name(kind)));
}

static void count(struct sequencer *q)
{
    int64_t open, oldest_ms;

    store_gap_figures(q->order, &open, &oldest_ms);
    q->metrics[METRIC_GAPS_OPEN] = open;
    /* After a step of the clock it may have been opened in what is to come. */
    q->metrics[METRIC_GAP_OLDEST] = open && q->d.loop.now_ms > oldest_ms
                                        ? (q->d.loop.now_ms - oldest_ms) / 1000
                                        : 0;
    q->metrics[METRIC_KEYS] = keys_count(q->keys);
}

static int64_t history_before(const struct sequencer *q)
{
    return retention_before(&q->d.retention, q->d.loop.now_ms,
                            q->d.settings->history_keep_ms);
}

/* Once a second: the disk, and what may be forgotten. */
static void look(struct sequencer *q)
{
    bool had_no_room = q->no_room;

    q->looked_ms = q->d.loop.mono_ms;
    q->no_room = lacks_room(q);
    q->was_undone = false;
    if (q->no_room != had_no_room)
        log_warn(NULL, q->no_room
                           ? "the disk is nearly full: no new events are "
                             "taken until there is room"
                           : "there is room again: events are taken");
    q->purge_keys = q->purge_events = q->purge_order = true;
    blocks_tidy(q->blocks);
    store_acts_forget(q->search, history_before(q), ORDER_PER_TURN);
    count(q);
}

/* Events that are over; where they must go early, no slower than new ones come. */
static bool purge_events(struct sequencer *q)
{
    int64_t now = q->d.loop.now_ms;
    int64_t before_ms = retention_history(&q->d.retention, q->d.db,
                                          q->d.settings, now);
    bool early = before_ms == INT64_MAX;
    int most = early ? TURN_MAX_COUNT : PURGE_PER_TURN;

    if (store_purge(q->store, now, before_ms, most, &q->purged_to))
        return true;
    if (now - q->purged_ms > (early ? 10 * MINUTE_MS : HOUR_MS)) {
        q->purged_to = 0; /* look at those left behind */
        q->purged_ms = now;
    }
    return false;
}

static bool purge(struct sequencer *q)
{
    int64_t cutoff = history_before(q);

    q->purge_keys = keys_work(q->keys, &q->d.retention, q->d.loop.now_ms,
                              q->purge_keys ? doors_received_ms(q->doors) : 0);
    if (q->purge_order)
        q->purge_order = store_gaps_purge(q->order, cutoff, ORDER_PER_TURN) +
                             store_objects_purge(q->order, cutoff,
                                                 ORDER_PER_TURN) >=
                         ORDER_PER_TURN;
    if (q->purge_events)
        q->purge_events = purge_events(q);
    return q->purge_keys || q->purge_events || q->purge_order;
}

/* Since when is it as it is? Trace judges by it what rows don't say. */
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

/* After a start, a reload or a turn that was taken back nobody wants anything
 * until the endpoints are matched with the settings. Inside a turn, so that a
 * full disk takes it back as a whole. */
void loop_begin(void *self)
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
}

/* Of two waits; -1: there is nothing to wait for. */
static int sooner(int a, int b)
{
    if (a < 0 || b < 0)
        return a < 0 ? b : a;
    return a < b ? a : b;
}

int loop_work(void *self)
{
    struct sequencer *q = self;
    int wait_ms, more_ms, order_ms = -1, replay_ms;

    doors_work(q->doors);
    if (streams_work(q->streams, q->no_room || q->was_undone))
        order_ms = 0;
    doors_due(q->doors, streams_due(q->streams));
    q->metrics[METRIC_BUFFERED] = streams_held(q->streams);
    wait_ms = grants_work(q);
    dispatch_damaged(q);
    watch_work(q);
    replay_ms = replay_work(q);
    wait_ms = sooner(wait_ms, replay_ms);
    more_ms = q->was_undone ? -1 : dispatch_work(q);
    if (q->d.loop.mono_ms - q->looked_ms >= LOOK_MS)
        look(q);
    if (letters_work(q) || purge(q))
        more_ms = 0;
    wait_ms = sooner(wait_ms, q->no_room ? -1 : blocks_work(q->blocks));
    store_workspaces(q->store, &q->workspaces);
    endpoints_work(q);
    if (q->next_place != q->saved_place) {
        store_meta_set(q->store, "next_place", q->next_place - 1);
        q->saved_place = q->next_place;
    }
    if (q->workspaces.count > WORKSPACES_CACHED)
        workspaces_clear(&q->workspaces);
    q->metrics[METRIC_OUT] = 0;
    for (size_t i = 0; i < q->endpoint_count; i++)
        q->metrics[METRIC_OUT] += q->endpoints[i].out;
    return more_ms == 0 || order_ms == 0 ? 0 : wait_ms;
}

void loop_tell(void *self)
{
    struct sequencer *q = self;
    int ms = doors_tell(q->doors);

    grants_tell(q);
    if (ms >= 0)
        daemon_wake_in(&q->d, ms);
}

static void read_next_event(struct sequencer *q)
{
    int64_t last = store_last_event(q->store);

    q->reserved_event = store_meta(q->store, "reserved_event");
    q->next_event = (last > q->reserved_event ? last : q->reserved_event) + 1;
}

void loop_open(void *self)
{
    struct sequencer *q = self;

    q->started_ms = mono_ms();
    q->store = store_open(q->d.db);
    hop_keep_log(q->d.hop, "dlqd");
    q->lanes = store_lanes_open(q->d.db);
    q->next_place = q->saved_place = store_meta(q->store, "next_place") + 1;
    q->order = store_order_open(q->d.db);
    q->search = store_search_open(q->d.db);
    q->blocks = blocks_open(q);
    q->keys = keys_open(q->d.db);
    q->doors = doors_open(q);
    q->streams = streams_open(q);
    workspaces_init(&q->workspaces);
    read_next_event(q);
    q->series = (uint64_t)store_meta(q->store, "series");
    grants_open(q);
    q->agains = true; /* perhaps */
}

void loop_restored(void *self)
{
    grants_restored(self);
}

/* Memory as the disk has it. Who was heard when is not on disk and stays. */
void loop_undo(void *self)
{
    struct sequencer *q = self;

    workspaces_clear(&q->workspaces);
    store_bodies_undo(q->store);
    q->next_place = q->saved_place = store_meta(q->store, "next_place") + 1;
    keys_undo(q->keys);
    doors_undo(q->doors);
    streams_undo(q->streams);
    blocks_undo(q->blocks);
    q->config_since_ms = store_meta(q->store, "config_since_ms");
    read_next_event(q);
    q->series = (uint64_t)store_meta(q->store, "series");
    q->series_begun = false;
    q->agains = true;
    q->agains_after = 0;
    grants_undo(q);
    q->no_room = q->was_undone = true;
}

void loop_reload(void *self, struct settings *fresh)
{
    (void)fresh; /* the daemon's settings by the next turn */
    grants_forget_settings(self);
}

void loop_close(void *self)
{
    struct sequencer *q = self;

    grants_close(q);
    workspaces_fini(&q->workspaces);
    store_lanes_close(q->lanes);
    streams_close(q->streams);
    doors_close(q->doors);
    keys_close(q->keys);
    store_order_close(q->order);
    blocks_close(q->blocks);
    store_search_close(q->search);
    store_close(q->store);
}
