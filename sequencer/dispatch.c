/* dispatch: which delivery goes out when. A delivery is out when it is
 * unfinished and carries its endpoint's present grant. An endpoint has at most
 * its window out (window.h), so one that is slow or down costs its neighbours
 * nothing: what does not fit waits here, on disk.
 *
 * Endpoints take turns, and within one its lanes do (lane.h): a few of each, so
 * that neither an endpoint nor a workspace with much waiting starves the rest.
 * Each pick is a search in an index of what waits, however much that is. */
#include "acts.h"
#include "backfill.h"
#include "db_sums.h"
#include "headers.h"
#include "log.h"
#include "publication.h"
#include "signature.h"
#include "store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    /* What one deliverer holds in memory; it has room for twice as many tasks. */
    ROOM_COUNT = 16384,
    ROOM_BYTES = 48 * 1024 * 1024, /* of 64 MiB */
    LINK_COUNT = 8192, /* rows waiting in the log to one deliverer */
    PER_TURN = 256,
    PER_LANE = 16,    /* of one lane, before it is the next one's turn */
    SHARE_LEAST = 16, /* of one endpoint, likewise */
};

int64_t delivery_ref(int64_t event, int64_t endpoint)
{
    return event << EVENT_BITS_ENDPOINT | endpoint;
}

static bool has_room(const struct sequencer *q, const struct endpoint *e)
{
    return e->grant && e->home && e->settings && !e->recalling &&
           !e->sweeping && e->laning == SETTLED && e->out < e->window.size &&
           e->home->out < ROOM_COUNT && e->home->out_bytes < ROOM_BYTES &&
           hop_backlog(q->d.hop, e->home->name) < LINK_COUNT;
}

bool dispatch_may(const struct sequencer *q, const struct endpoint *e)
{
    return has_room(q, e) && !e->waiting;
}

uint64_t dispatch_task(struct sequencer *q, struct endpoint *e, int64_t event,
                       bool parked)
{
    uint64_t n = hop_next(q->d.hop, e->home->name);

    hop_put(q->d.hop, e->home->name, WIRE_KIND_TASK,
            delivery_ref(event, e->id));
    if (!parked) { /* a parked one waits on the home's disk */
        e->out++;
        e->home->out++;
        e->home->out_bytes += e->window.bytes;
    }
    return n;
}

static void give(struct sequencer *q, struct endpoint *e,
                 const struct ready_row *r)
{
    bool parked = r->next_ms > q->d.loop.now_ms;
    uint64_t out_n = dispatch_task(q, e, r->event, parked);

    store_delivery_out(q->store, r->event, e->id,
                       parked ? DELIVERY_RETRYING : DELIVERY_IN_FLIGHT,
                       e->grant, out_n);
    e->turn = r->lane;
}

/* Give out what may go, lane by lane, beginning behind the last that had its
 * turn. Returns how many. */
static int give_out(struct sequencer *q, struct endpoint *e, int most)
{
    struct ready_row rows[PER_LANE];
    bool from_the_first = e->turn == INT64_MIN;
    int given = 0;

    while (given < most && has_room(q, e)) {
        int want = most - given < PER_LANE ? most - given : PER_LANE;
        int n, i = 0;

        if (e->turn == INT64_MIN)
            e->round_end = lanes_round_end(q, e);
        n = store_ready(q->store, e->id, e->turn, e->round_end, want, rows);

        for (; i < n && has_room(q, e); i++, given++)
            give(q, e, &rows[i]);
        if (n > 0) {
            from_the_first = false;
        } else if (from_the_first) {
            e->waiting = false;
            break;
        } else {
            e->turn = INT64_MIN;
            from_the_first = true;
        }
    }
    return given;
}

/* Deliveries under grants that ended wait again. Returns how many. */
static int sweep(struct sequencer *q, struct endpoint *e, int most)
{
    int64_t freed[PER_TURN];
    uint64_t grant = 0;
    int n = 0, freed_count;

    while ((grant = store_open_grant(q->store, e->id, grant)) != 0) {
        if (grant == e->grant)
            continue;
        n += store_sweep(q->store, e->id, grant, grant != e->drained, most - n,
                         freed, &freed_count);
        for (int i = 0; i < freed_count; i++)
            lanes_freed(q, e, freed[i]);
        e->waiting = true;
        if (n >= most)
            return n;
    }
    e->sweeping = false;
    return n;
}

/* A removed endpoint's waiting deliveries become dead letters. */
static int bury(struct sequencer *q, struct endpoint *e, int most)
{
    int64_t events[PER_TURN];
    struct delivery_row d;
    int n = store_waiting(q->store, e->id, most, events);

    for (int i = 0; i < n; i++) {
        char *error, *by;

        if (!store_delivery(q->store, events[i], e->id, &d))
            continue;
        error = gr_strdup(d.error);
        by = gr_strdup(d.deliverer);
        store_delivery_done(q->store);
        d.status = DELIVERY_DEAD;
        d.behind = false;
        d.error = error;
        d.deliverer = by;
        d.reason = "endpoint_removed";
        store_delivery_set(q->store, &d);
        letters_dead(q, &d, (struct bytes){"", 0});
        q->metrics[METRIC_DEAD]++;
        free(error);
        free(by);
    }
    if (n < most)
        e->waiting = false;
    return n;
}

/* Deliveries wait for it, and its window is full. */
static bool is_crowded(const struct endpoint *e)
{
    return e->waiting && e->grant && e->settings && e->out >= e->window.size;
}

/* It has something to do that takes rows. */
static bool is_wanting(const struct sequencer *q, const struct endpoint *e)
{
    return (e->sweeping && !e->recalling) ||
           (e->laning != SETTLED && !e->recalling && e->settings) ||
           (e->waiting && (has_room(q, e) || (!e->settings && !e->grant)));
}

static int serve(struct sequencer *q, struct endpoint *e, int most)
{
    int n = 0;

    if (e->sweeping && !e->recalling)
        n += sweep(q, e, most);
    if (n < most && e->laning != SETTLED && e->settings)
        n += lanes_work(q, e, most - n);
    if (n < most && e->waiting && !e->settings && !e->grant)
        n += bury(q, e, most - n);
    else if (n < most && e->waiting && has_room(q, e))
        n += give_out(q, e, most - n);
    return n;
}

/* How much each endpoint may have out, and about how many bytes each deliverer has. */
static void look_at_windows(struct sequencer *q)
{
    for (size_t i = 0; i < q->deliverer_count; i++)
        q->deliverers[i]->out_bytes = 0;
    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];

        if (!e->home || !e->settings)
            continue;
        window_look(&e->window, q->d.loop.awake_ms,
                    hop_round_trip_ms(q->d.hop, e->home->name),
                    e->settings->max_in_flight);
        e->home->out_bytes += e->out * e->window.bytes;
    }
}

int dispatch_work(struct sequencer *q)
{
    int left = PER_TURN, wanting = 0, share;
    size_t count = q->endpoint_count;

    look_at_windows(q);
    for (size_t i = 0; i < count; i++)
        wanting += is_wanting(q, &q->endpoints[i]);
    share = wanting ? PER_TURN / wanting : 0;
    if (share < SHARE_LEAST)
        share = SHARE_LEAST;
    /* Whoever was not reached is first in the next turn. */
    for (size_t k = 0; wanting > 0 && k < count && left > 0; k++) {
        struct endpoint *e = &q->endpoints[q->turn++ % count];

        if (is_wanting(q, e))
            left -= serve(q, e, share < left ? share : left);
    }
    wanting = 0;
    q->crowded = false;
    for (size_t i = 0; i < count; i++) {
        q->crowded = q->crowded || is_crowded(&q->endpoints[i]);
        wanting += is_wanting(q, &q->endpoints[i]);
    }
    return wanting ? 0 : -1;
}

/* ---- the task, as it leaves ---- */

static bool is_named(const struct text_list *names, struct bytes name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strlen(names->items[i]) == name.n &&
            strncasecmp(names->items[i], name.p, name.n) == 0)
            return true;
    return false;
}

/* What the endpoint asked for, but for the header with the source's signature, whatever it
 * is called. Once the source is removed nobody knows which one that was: then none. */
static bool is_forwarded(const struct sequencer *q, const struct endpoint *e,
                         const struct source *source, const char *source_name,
                         struct bytes name)
{
    if (!e->settings || !is_named(&e->settings->forward_headers, name))
        return false;
    if (source)
        return !signature_is_in(&source->verify, name);
    return settings_producer(q->d.settings, source_name) != NULL;
}

/* Of all that came in: the content type, the source's event headers, and what
 * the endpoint asked for. */
static void pick_headers(const struct sequencer *q, const struct endpoint *e,
                         const char *source_name, struct bytes all,
                         struct buf *out)
{
    static char *content_type[] = {"content-type"};
    const struct text_list always = {content_type, 1};
    const struct source *source = settings_source(q->d.settings, source_name);
    struct bytes name, value;
    size_t at = 0;

    while (headers_next(all, &at, &name, &value)) {
        if (is_named(&always, name) ||
            (source && is_named(&source->forward_headers, name)) ||
            is_forwarded(q, e, source, source_name, name)) {
            char *text = gr_strndup(name.p, name.n);

            headers_put(out, text, value);
            free(text);
        }
    }
}

/* Rows can't be changed while a message is put together: the next turn does it. One
 * that finds no place here is missing at its deliverer, and comes again (watch.c). */
static void note_damaged(struct sequencer *q, int64_t event, int64_t endpoint)
{
    if (q->damaged_count < (int)COUNT_OF(q->damaged))
        q->damaged[q->damaged_count++] = delivery_ref(event, endpoint);
    daemon_wake_in(&q->d, 0);
}

void dispatch_damaged(struct sequencer *q)
{
    for (; q->damaged_count; q->damaged_count--) {
        int64_t ref = q->damaged[q->damaged_count - 1];
        struct endpoint *e = endpoint_by_id(q, ref & (ENDPOINTS_MAX - 1));
        struct delivery_row d;
        bool there = e && store_delivery(q->store, ref >> EVENT_BITS_ENDPOINT,
                                         e->id, &d);

        if (there && d.status < DELIVERY_DELIVERED) {
            acts_give_up(q, e, &d, REASON_DAMAGED,
                         "what was stored of the event is damaged");
            log_warn(NULL, "a delivery of a damaged event is a dead letter",
                     LS("endpoint", e->name));
        }
        store_delivery_done(q->store);
    }
}

/* false: an unfinished event has no body. Then nothing is sent rather than
 * something else. */
static bool put_task(struct sequencer *q, const struct endpoint *e,
                     const struct event_row *ev, const struct delivery_row *d,
                     struct buf *out)
{
    char number[24] = "";
    struct buf headers, url;
    struct bytes all, body;
    struct wire_task t = {
        .grant = d->grant,
        .endpoint = wire_text(e->name),
        .event_id = wire_text(ev->id),
        .source = wire_text(ev->source),
        .type = wire_text(ev->type),
        .workspace = wire_text(ev->workspace),
        .received_ms = ev->received_ms,
        .sequence = ev->sequence,
        .previous = d->previous,
        .clock = wire_text(ev->clock),
        .gap = wire_text(ev->gap),
        .late = ev->late,
        .series = q->series,
        .replay = (d->life > 1 || d->act) && d->sent,
        .attempts = (uint64_t)d->attempts,
        .budget_base = (uint64_t)d->earlier,
        .first_ms = endpoint_budget_ms(e, d->first_ms, d->paused_ms),
        .next_ms = d->next_ms,
    };

    if (!store_body(q->store, d->event, &all, &body)) {
        store_body_done(q->store);
        log_error(ev->id, "an unfinished event has no body: it is not sent");
        return false;
    }
    if (store_body_damaged(q->store)) {
        store_body_done(q->store);
        db_damage_found(ev->id, db_path(q->d.db), "bodies");
        note_damaged(q, d->event, e->id);
        return false;
    }
    if (ev->numbered)
        snprintf(number, sizeof number, "%lld", (long long)ev->source_sequence);
    t.source_sequence = wire_text(number);
    buf_init(&url, URL_MAX_BYTES);
    if (e->settings && e->settings->internal &&
        backfill_url(e->settings->url, body, &url) != GR_OK) {
        /* Asked for by another template, or by a program that did not look. The
         * deliverer can't use it, which makes a dead letter. */
        buf_reset(&url);
        buf_puts(&url, "unsafe:path");
    }
    t.url = (struct bytes){url.data ? url.data : "", url.failed ? 0 : url.len};
    buf_init(&headers, 2 * HEADERS_MAX_BYTES);
    pick_headers(q, e, ev->source, all, &headers);
    t.headers = (struct bytes){headers.data ? headers.data : "", headers.len};
    t.body = body;
    if (d->life == 1) /* what is sent again on somebody's word is wanted */
        t.expires_ms = publication_expires_ms(all);
    wire_put_task(out, &t);
    store_body_done(q->store);
    buf_fini(&headers);
    buf_fini(&url);
    return true;
}

/* Only what is still out as this very row: a row whose grant ended, or that
 * was given out again since, goes as an empty number. */
bool dispatch_load(struct sequencer *q, const char *peer, uint64_t n,
                   int64_t ref, struct buf *out)
{
    struct endpoint *e = endpoint_by_id(q, ref & (ENDPOINTS_MAX - 1));
    struct delivery_row d;
    struct event_row ev;
    size_t before = out->len;
    bool there;

    if (!e || !e->home || strcmp(e->home->name, peer) != 0)
        return false;
    there = store_delivery(q->store, ref >> EVENT_BITS_ENDPOINT, e->id, &d) &&
            d.status < DELIVERY_DELIVERED && d.grant == e->grant &&
            d.out_n == n && store_event(q->store, d.event, &ev) &&
            put_task(q, e, &ev, &d, out);
    store_done(q->store);
    store_delivery_done(q->store);
    if (there)
        window_sent(&e->window, out->len - before);
    return there;
}

bool dispatch_load_dropped(struct sequencer *q, int64_t ref, struct buf *out)
{
    struct endpoint *e = endpoint_by_id(q, ref & (ENDPOINTS_MAX - 1));
    struct wire_dropped m = {0};
    struct delivery_row d;
    struct event_row ev;
    bool there = e && e->grant &&
                 store_delivery(q->store, ref >> EVENT_BITS_ENDPOINT, e->id,
                                &d) &&
                 store_event(q->store, d.event, &ev);

    if (there) {
        m.grant = e->grant; /* its home has the copy */
        m.endpoint = wire_text(e->name);
        m.event_id = wire_text(ev.id);
        wire_put_dropped(out, &m);
    }
    store_done(q->store);
    store_delivery_done(q->store);
    return there;
}

/* Only while the delivery is at that deliverer: under a later grant its task goes out
 * as due by itself. */
bool dispatch_load_retry_now(struct sequencer *q, const char *peer, int64_t ref,
                             struct buf *out)
{
    struct endpoint *e = endpoint_by_id(q, ref & (ENDPOINTS_MAX - 1));
    struct wire_retry_now m = {0};
    struct delivery_row d;
    struct event_row ev;
    bool there;

    if (!e || !e->grant || !e->home || strcmp(e->home->name, peer) != 0)
        return false;
    there = store_delivery(q->store, ref >> EVENT_BITS_ENDPOINT, e->id, &d) &&
            d.status < DELIVERY_DELIVERED && d.grant == e->grant &&
            store_event(q->store, d.event, &ev);
    if (there) {
        m.grant = e->grant;
        m.endpoint = wire_text(e->name);
        m.event_id = wire_text(ev.id);
        wire_put_retry_now(out, &m);
    }
    store_done(q->store);
    store_delivery_done(q->store);
    return there;
}
