/* dispatch: decides which waiting delivery is sent to its endpoint's deliverer, and when. */
#include "dispatch.h"
#include "backfill.h"
#include "choice.h"
#include "db_sums.h"
#include "endpoint_config.h"
#include "headers.h"
#include "hops.h"
#include "lanes.h"
#include "log.h"
#include "priority.h"
#include "publication.h"
#include "signature.h"
#include "store.h"
#include "trace_context.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    /* Tasks of one deliverer; its memory has space for twice as many. */
    OWNER_MAX_COUNT = 16384,
    OWNER_MAX_BYTES = 48 * 1024 * 1024, /* of 64 MiB */
    LINK_COUNT = 8192, /* unacknowledged rows in the log to one deliverer */
    PER_TURN = SWEEP_MAX,
    PER_LANE = 16,  /* of one ordered lane, before the next lane has its turn */
    SHARE_MIN = 16, /* of one endpoint, before the next endpoint has its turn */
};

/* The deliverer has its tasks on disk until consumers take them, so they need no memory there. */
static bool is_pulled(const struct endpoint *e)
{
    return e->settings && e->settings->transport == TRANSPORT_PULL;
}

static bool has_capacity(const struct sequencer *q, const struct endpoint *e)
{
    return e->grant && e->owner && e->settings && !e->revoking &&
           !e->sweeping && e->laning == SETTLED &&
           e->in_window < e->window.size &&
           (is_pulled(e) ||
            (e->owner->in_window - e->owner->pulled < OWNER_MAX_COUNT &&
             e->owner->out_bytes < OWNER_MAX_BYTES)) &&
           links_backlog(q->d.links, e->owner->name) < LINK_COUNT;
}

/* Once a deliverer has half of the tasks that it may have, dispatch_work() shares the rest among its
 * endpoints. */
static bool owner_is_busy(const struct endpoint *e)
{
    return !is_pulled(e) &&
           e->owner->in_window - e->owner->pulled >= OWNER_MAX_COUNT / 2;
}

bool dispatch_at_once(const struct sequencer *q, const struct endpoint *e)
{
    return has_capacity(q, e) && !owner_is_busy(e) && !e->waiting &&
           !e->revoke && !q->was_undone;
}

/* The next deliveries of one queue. */
struct batch {
    struct ready_row rows[PER_LANE];
    int count, at;
};

/* Workspaces of which each event is the first would stop all others, so every second batch leaves out
 * those that are first in their round. */
static void read_batch(struct sequencer *q, struct endpoint *e, enum priority p,
                       int max, struct batch *b)
{
    struct endpoint_queue *queue = &e->queues[p];

    if (max > PER_LANE)
        max = PER_LANE;
    b->at = b->count = 0;
    if (queue->past_first)
        b->count = store_ready(q->store, e->id,
                               queue_lane(p, queue->round, true), queue_last(p),
                               max, b->rows);
    if (!b->count)
        b->count = store_ready(q->store, e->id, queue_before(p), queue_last(p),
                               max, b->rows);
    queue->past_first = !queue->past_first;
}

/* Dispatch deliveries of an endpoint that is not ordered in the order of its queues. Returns how
 * many. */
static int dispatch_queues(struct sequencer *q, struct endpoint *e, int max)
{
    struct batch batches[PRIORITIES] = {0};
    unsigned waiting = (1U << PRIORITIES) - (1U << PRIORITY_HIGH);
    int given = 0;

    while (waiting && given < max && has_capacity(q, e)) {
        enum priority p = priority_next(e->taken, waiting);
        struct batch *b = &batches[p];

        if (b->at == b->count)
            read_batch(q, e, p, max - given, b);
        if (!b->count) {
            waiting &= ~(1U << p);
            continue;
        }
        delivery_dispatch(q, e, b->rows[b->at].event, b->rows[b->at].next_ms);
        lanes_reached(q, e, b->rows[b->at].lane);
        b->at++;
        e->taken++;
        given++;
    }
    e->waiting = waiting != 0;
    return given;
}

/* Dispatch deliveries of an ordered endpoint lane by lane, beginning after the last lane that had
 * its turn. Returns how many. */
static int dispatch_lanes(struct sequencer *q, struct endpoint *e, int max)
{
    struct ready_row rows[PER_LANE];
    bool from_the_first = e->last_lane == INT64_MIN;
    int given = 0;

    while (given < max && has_capacity(q, e)) {
        int want = max - given < PER_LANE ? max - given : PER_LANE;
        int n, i = 0;

        if (e->last_lane == INT64_MIN)
            e->round_end = lanes_round_end(q, e);
        n = store_ready(q->store, e->id, e->last_lane, e->round_end, want,
                        rows);

        for (; i < n && has_capacity(q, e); i++, given++) {
            delivery_dispatch(q, e, rows[i].event, rows[i].next_ms);
            e->last_lane = rows[i].lane;
        }
        if (n > 0) {
            from_the_first = false;
        } else if (from_the_first) {
            e->waiting = false;
            break;
        } else {
            e->last_lane = INT64_MIN;
            from_the_first = true;
        }
    }
    return given;
}

/* Take back deliveries under ended grants. Returns how many. */
static int sweep(struct sequencer *q, struct endpoint *e, int max)
{
    uint64_t grant = 0;
    int n = 0;

    while ((grant = store_open_grant(q->store, e->id, grant)) != 0) {
        if (grant == e->grant)
            continue;
        n += deliveries_sweep(q, e, grant, grant != e->complete_grant, max - n);
        if (n >= max)
            return n;
    }
    e->sweeping = false;
    return n;
}

/* End the waiting deliveries of a removed endpoint: they are dead, or abandoned if it was
 * temporary. Returns how many. */
static int end_waiting(struct sequencer *q, struct endpoint *e, int max)
{
    static const struct delivery_cause removed = {.reason = "endpoint_removed"};
    int64_t events[PER_TURN];
    struct delivery d;
    int n = store_waiting(q->store, e->id, max, events);

    for (int i = 0; i < n; i++) {
        if (delivery_load(q->deliveries, events[i], e->id, &d))
            delivery_move(q, e, &d, DELIVERY_DEAD, &removed);
        lanes_reached(q, e, d.lane);
        delivery_fini(&d);
    }
    if (n < max)
        e->waiting = false;
    return n;
}

/* serve() has something to do for it. */
static bool has_deliveries_to_send(const struct sequencer *q,
                                   const struct endpoint *e)
{
    return (e->sweeping && !e->revoking) ||
           (e->laning != SETTLED && !e->revoking && e->settings) ||
           (e->waiting &&
            (has_capacity(q, e) || (!endpoint_is_configured(e) && !e->grant)));
}

static int serve(struct sequencer *q, struct endpoint *e, int max)
{
    int n = 0;

    if (e->sweeping && !e->revoking)
        n += sweep(q, e, max);
    if (n < max && e->laning != SETTLED && e->settings)
        n += lanes_work(q, e, max - n);
    if (n < max && e->waiting && !endpoint_is_configured(e) && !e->grant)
        n += end_waiting(q, e, max - n);
    else if (n < max && e->waiting && has_capacity(q, e))
        n += e->settings->ordered == LANES_NONE ? dispatch_queues(q, e, max - n)
                                                : dispatch_lanes(q, e, max - n);
    return n;
}

/* Set the window of each endpoint, and estimate how many bytes each deliverer has. */
static void look_at_windows(struct sequencer *q)
{
    for (size_t i = 0; i < q->deliverer_count; i++)
        q->deliverers[i]->out_bytes = q->deliverers[i]->pulled = 0;
    for (size_t i = 0; i < q->lists[ENDPOINTS_AWAKE].count; i++) {
        struct endpoint *e = endpoint_listed(q, ENDPOINTS_AWAKE, i);

        if (!e->owner || !e->settings)
            continue;
        window_look(&e->window, q->d.loop.awake_ms,
                    links_round_trip_ms(q->d.links, e->owner->name),
                    e->settings->max_in_flight);
        if (is_pulled(e))
            e->owner->pulled += e->in_window;
        else
            e->owner->out_bytes += e->in_window * e->window.bytes;
    }
}

/* Deliveries wait for results of others, or for a deliverer. Not if the endpoint is down: its window may stay full for days, and
 * results for other endpoints would never wait for events (RESULTS_WAIT_MS in turn.c). */
static bool lacks_capacity(const struct sequencer *q, const struct endpoint *e)
{
    return e->waiting && !has_capacity(q, e) &&
           (!e->grant || e->window.per_s || e->window.ended);
}

int dispatch_work(struct sequencer *q)
{
    int left = PER_TURN, busy = 0, share;
    size_t count = q->lists[ENDPOINTS_AWAKE].count;

    look_at_windows(q);
    for (size_t i = 0; i < count; i++)
        busy += has_deliveries_to_send(q,
                                       endpoint_listed(q, ENDPOINTS_AWAKE, i));
    share = busy ? PER_TURN / busy : 0;
    if (share < SHARE_MIN)
        share = SHARE_MIN;
    /* The next turn begins with the first endpoint that this one did not reach. */
    for (size_t k = 0; busy > 0 && k < count && left > 0; k++) {
        struct endpoint *e = endpoint_listed(q, ENDPOINTS_AWAKE,
                                             q->next_endpoint++ % count);

        if (has_deliveries_to_send(q, e))
            left -= serve(q, e, share < left ? share : left);
    }
    busy = 0;
    q->crowded = q->in_lanes = q->needs_results = false;
    for (size_t i = 0; i < count; i++) {
        const struct endpoint *e = endpoint_listed(q, ENDPOINTS_AWAKE, i);
        bool in_lanes = e->in_window && e->settings &&
                        e->settings->ordered != LANES_NONE,
             full = e->waiting && e->grant && e->settings &&
                    e->in_window >= e->window.size;

        q->needs_results |= in_lanes || lacks_capacity(q, e);
        /* Fewer events do not help a pull endpoint whose consumer is away. */
        q->in_lanes |= in_lanes && !is_pulled(e);
        q->crowded |= full && !is_pulled(e);
        busy += has_deliveries_to_send(q, e);
    }
    return busy ? 0 : -1;
}

/* ---- messages to deliverers, as they leave ---- */

static bool is_named(const struct string_list *names, struct bytes name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strlen(names->items[i]) == name.n &&
            strncasecmp(names->items[i], name.p, name.n) == 0)
            return true;
    return false;
}

/* A header that the endpoint asks for is forwarded, unless it has the source's signature. When
 * the source was removed, its signature's header is unknown, and no such header is
 * forwarded. */
static bool is_trace(struct bytes name)
{
    static char *headers[] = {TRACEPARENT_HEADER, TRACESTATE_HEADER};
    const struct string_list all = {headers, COUNT_OF(headers)};

    return is_named(&all, name);
}

static bool is_forwarded(const struct sequencer *q, const struct endpoint *e,
                         const struct source *source, const char *source_name,
                         struct bytes name)
{
    static char *hops[] = {HOPS_HEADER};
    const struct string_list counted = {hops, 1};

    if (!e->settings || !is_named(&e->settings->forward_headers, name) ||
        is_named(&counted, name))
        return false;
    if (source)
        return !signature_is_in(&source->verify, name);
    return settings_producer(q->d.settings, source_name) != NULL;
}

/* Forward the content type, the source's event headers, and the headers that the endpoint asks
 * for; the event's trace, of which the deliverer makes a span; and count one hop more. */
static void pick_headers(const struct sequencer *q, const struct endpoint *e,
                         const struct event_row *ev, struct bytes all,
                         struct buf *out)
{
    static char *content_type[] = {"content-type"};
    const struct string_list always = {content_type, 1};
    const char *source_name = ev->source;
    const struct source *source = settings_source(q->d.settings, source_name);
    int trace = e->settings ? e->settings->trace_context : TRACE_HEADERS_NONE;
    struct bytes name, value;
    size_t at = 0;

    while (headers_next(all, &at, &name, &value)) {
        if (is_trace(name))
            continue;
        if (is_named(&always, name) ||
            (source && is_named(&source->forward_headers, name)) ||
            is_forwarded(q, e, source, source_name, name)) {
            char *text = gr_strndup(name.p, name.n);

            headers_put(out, text, value);
            free(text);
        }
    }
    if (trace != TRACE_HEADERS_NONE && ev->traceparent && *ev->traceparent) {
        headers_put(out, TRACEPARENT_HEADER, wire_text(ev->traceparent));
        if (trace == TRACE_HEADERS_ALL)
            tracestate_put(all, out);
    }
    hops_put(out, hops_of(all) + 1);
}

void dispatch_damaged(struct sequencer *q)
{
    static const struct delivery_cause damaged = {
        .reason = REASON_DAMAGED,
        .error = "the stored data of the event is damaged"};

    for (; q->damaged_count; q->damaged_count--) {
        int64_t ref = q->damaged[q->damaged_count - 1];
        struct endpoint *e = endpoint_by_id(q, ref & (ENDPOINTS_MAX - 1));
        struct delivery d;

        if (!e)
            continue;
        if (delivery_load(q->deliveries, ref >> EVENT_BITS_ENDPOINT, e->id,
                          &d) &&
            d.status < DELIVERY_DELIVERED)
            delivery_move(q, e, &d, DELIVERY_DEAD, &damaged);
        delivery_fini(&d);
    }
}

void dispatch_encode_task(struct sequencer *q, struct endpoint *e,
                          const struct event_row *ev, const struct delivery *d,
                          const struct event_content *content, struct buf *out)
{
    size_t before = out->len;
    char number[24] = "";
    struct buf headers, url, retry;
    struct wire_task t = {
        .grant = d->grant_id,
        .endpoint = wire_text(e->name),
        .event_id = wire_text(ev->id),
        .source = wire_text(ev->source),
        .type = wire_text(ev->type),
        .workspace = wire_text(ev->workspace),
        .ordering_key = wire_text(ev->ordering_key ? ev->ordering_key : ""),
        .received_ms = ev->received_ms,
        .sequence = ev->sequence,
        .previous = d->previous,
        .clock = wire_text(ev->clock),
        .gap = wire_text(ev->gap),
        .late = ev->late,
        .series = q->series,
        .replay = (d->generation > 1 || d->action_id) && d->sent,
        .attempts = (uint64_t)d->attempts,
        .budget_base = (uint64_t)d->earlier,
        .first_ms = endpoint_budget_ms(e, d->first_ms, d->paused_ms),
        .next_ms = d->next_ms,
        .body = content->body,
    };

    if (ev->numbered)
        snprintf(number, sizeof number, "%lld", (long long)ev->source_sequence);
    t.source_sequence = wire_text(number);
    buf_init(&url, URL_MAX_BYTES);
    if (e->settings && e->settings->internal &&
        backfill_url(e->settings->url, content->body, &url) != GR_OK) {
        /* An earlier URL template, or an earlier version of this program, made this request,
         * and it does not fit the present URL. The deliverer refuses it, which makes a dead
         * letter. */
        buf_reset(&url);
        buf_puts(&url, "unsafe:path");
    }
    t.url = (struct bytes){url.data ? url.data : "", url.failed ? 0 : url.len};
    if (!t.url.n)
        t.url = publication_url(content->headers, e->name);
    buf_init(&headers, 2 * HEADERS_MAX_BYTES);
    pick_headers(q, e, ev, content->headers, &headers);
    t.headers = (struct bytes){headers.data ? headers.data : "", headers.len};
    /* A delivery that an operator reopened does not expire. */
    if (d->generation == 1)
        t.expires_ms = publication_expires_ms(content->headers);
    if (d->generation == 1 && !t.expires_ms)
        t.expires_ms = choice_expires_ms(d->retry_choice);
    buf_init(&retry, RETRY_POLICY_MAX_BYTES);
    choice_encode(q, e, d->retry_choice, &retry);
    t.retry = (struct bytes){retry.data ? retry.data : "",
                             retry.failed ? 0 : retry.len};
    t.high = choice_priority(d->retry_choice) == PRIORITY_HIGH;
    wire_put_task(out, &t);
    if (!out->failed)
        window_measure_task(&e->window, d->out_n, out->len - before);
    buf_fini(&headers);
    buf_fini(&url);
    buf_fini(&retry);
}

/* Its task is not sent. Rows cannot be changed while a message is encoded: the next turn ends the delivery
 * of a damaged event. If there is no space here, the task is missing at its deliverer, and watch.c brings
 * it back. */
static void note_unusable(struct sequencer *q, int64_t ref,
                          enum stored_state state)
{
    struct event_row ev;

    if (store_event(q->store, ref >> EVENT_BITS_ENDPOINT, &ev) &&
        state == STORED_WITHOUT_BODY)
        log_error(ev.id, "an unfinished event has no body; it is not sent");
    if (state == STORED_DAMAGED) {
        db_damage_found(ev.id, db_path(q->d.db), "bodies");
        if (q->damaged_count < (int)COUNT_OF(q->damaged))
            q->damaged[q->damaged_count++] = ref;
        daemon_wake_in(&q->d, 0);
    }
    event_fini(&ev);
}

/* Only if this row of the log is the latest task of the delivery: the grant may have ended
 * since, or the delivery may have been dispatched again. */
bool dispatch_load(struct sequencer *q, const char *peer, uint64_t n,
                   int64_t ref, struct buf *out)
{
    struct endpoint *e = endpoint_by_id(q, ref & (ENDPOINTS_MAX - 1));
    struct delivery d = {0};
    const struct whole_event *event;
    enum stored_state state = STORED_NOWHERE;

    if (!e || !e->owner || strcmp(e->owner->name, peer) != 0)
        return false;
    if (delivery_load(q->deliveries, ref >> EVENT_BITS_ENDPOINT, e->id, &d) &&
        d.status < DELIVERY_DELIVERED && d.grant_id == e->grant && d.out_n == n)
        state = store_whole_event(q->store, d.event, &event);
    if (state == STORED_WHOLE) {
        dispatch_encode_task(q, e, &event->row, &d, &event->content, out);
        delivery_keep(q->deliveries, &d, event->row.id);
    } else if (state != STORED_NOWHERE) {
        note_unusable(q, ref, state);
    }
    delivery_fini(&d);
    return state == STORED_WHOLE;
}

bool dispatch_load_dropped(struct sequencer *q, int64_t ref, struct buf *out)
{
    struct endpoint *e = endpoint_by_id(q, ref & (ENDPOINTS_MAX - 1));
    struct wire_dropped m = {0};
    struct delivery d = {0};
    struct event_row ev = {0};
    bool there = e && e->grant &&
                 delivery_load(q->deliveries, ref >> EVENT_BITS_ENDPOINT, e->id,
                               &d) &&
                 store_event(q->store, d.event, &ev);

    if (there) {
        m.grant = e->grant; /* its owner has a copy */
        m.endpoint = wire_text(e->name);
        m.event_id = wire_text(ev.id);
        wire_put_dropped(out, &m);
    }
    event_fini(&ev);
    delivery_fini(&d);
    return there;
}

/* Only while that deliverer has the delivery: under a later grant its task is dispatched as
 * due. */
bool dispatch_load_retry_now(struct sequencer *q, const char *peer, int64_t ref,
                             struct buf *out)
{
    struct endpoint *e = endpoint_by_id(q, ref & (ENDPOINTS_MAX - 1));
    struct wire_retry_now m = {0};
    struct delivery d = {0};
    struct event_row ev = {0};
    bool there;

    if (!e || !e->grant || !e->owner || strcmp(e->owner->name, peer) != 0)
        return false;
    there = delivery_load(q->deliveries, ref >> EVENT_BITS_ENDPOINT, e->id,
                          &d) &&
            d.status < DELIVERY_DELIVERED && d.grant_id == e->grant &&
            store_event(q->store, d.event, &ev);
    if (there) {
        m.grant = e->grant;
        m.endpoint = wire_text(e->name);
        m.event_id = wire_text(ev.id);
        wire_put_retry_now(out, &m);
    }
    event_fini(&ev);
    delivery_fini(&d);
    return there;
}
