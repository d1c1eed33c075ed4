/* dispatch: which delivery goes out when. A delivery is out when it is
 * unfinished and carries its endpoint's present grant. An endpoint has at most
 * its window out, so one that is slow or down costs its neighbours nothing:
 * what does not fit waits here, on disk. */
#include "headers.h"
#include "log.h"
#include "store.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    WINDOW_LEAST = 256, /* keeps a fast endpoint busy over a round trip */
    WINDOW_TIMES = 2,   /* of max_in_flight */
    ROOM_COUNT = 16384, /* tasks that one deliverer holds in memory */
    LINK_COUNT = 8192,  /* rows waiting in the log to one deliverer */
    PER_TURN = 256,
};

int64_t delivery_ref(int64_t event, int64_t endpoint)
{
    return event << EVENT_BITS_ENDPOINT | endpoint;
}

static int64_t window(const struct endpoint *e)
{
    int64_t w = WINDOW_TIMES * e->settings->max_in_flight;

    return w > WINDOW_LEAST ? w : WINDOW_LEAST;
}

static bool has_room(const struct sequencer *q, const struct endpoint *e)
{
    return e->grant && e->home && e->settings && !e->recalling &&
           !e->sweeping && e->out < window(e) && e->home->out < ROOM_COUNT &&
           hop_backlog(q->d.hop, e->home->name) < LINK_COUNT;
}

bool dispatch_may(const struct sequencer *q, const struct endpoint *e)
{
    return has_room(q, e) && !e->waiting;
}

void dispatch_waits(struct endpoint *e, int64_t event)
{
    e->waiting = true;
    if (e->cursor >= event)
        e->cursor = event - 1;
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
    }
    return n;
}

/* Give out what waits, in order. Returns how many. */
static int give_out(struct sequencer *q, struct endpoint *e, int most)
{
    int64_t events[PER_TURN], next_ms[PER_TURN];
    int n = store_waiting(q->store, e->id, e->cursor, most, events, next_ms);
    int i = 0;

    for (; i < n && has_room(q, e); i++) {
        bool parked = next_ms[i] > q->d.loop.now_ms;
        uint64_t out_n = dispatch_task(q, e, events[i], parked);

        store_delivery_out(q->store, events[i], e->id,
                           parked ? DELIVERY_RETRYING : DELIVERY_IN_FLIGHT,
                           e->grant, out_n);
        e->cursor = events[i];
    }
    if (i == n && n < most)
        e->waiting = false;
    return i;
}

/* Open deliveries under grants that ended wait again. Returns how many. */
static int sweep(struct sequencer *q, struct endpoint *e, int most)
{
    uint64_t grant = 0;
    int64_t lowest = 0;
    int n = 0;

    while ((grant = store_open_grant(q->store, e->id, grant)) != 0) {
        if (grant == e->grant)
            continue;
        n += store_sweep(q->store, e->id, grant, most - n, &lowest);
        if (n > 0)
            dispatch_waits(e, lowest);
        if (n >= most)
            return n;
    }
    e->sweeping = false;
    dispatch_waits(e, 1);
    return n;
}

/* A removed endpoint's waiting deliveries become dead letters. */
static int bury(struct sequencer *q, struct endpoint *e, int most)
{
    int64_t events[PER_TURN], next_ms[PER_TURN];
    struct delivery_row d;
    int n = store_waiting(q->store, e->id, e->cursor, most, events, next_ms);

    for (int i = 0; i < n; i++) {
        if (store_delivery(q->store, events[i], e->id, &d)) {
            char *error = gr_strdup(d.error), *by = gr_strdup(d.deliverer);

            store_delivery_done(q->store);
            d.status = DELIVERY_DEAD;
            d.error = error;
            d.deliverer = by;
            d.reason = "endpoint_removed";
            store_delivery_set(q->store, &d);
            letters_dead(q, events[i], e->id, d.life, (struct bytes){"", 0});
            free(error);
            free(by);
        }
        e->cursor = events[i];
    }
    if (n < most)
        e->waiting = false;
    return n;
}

int dispatch_work(struct sequencer *q)
{
    int left = PER_TURN;
    bool more = false;

    /* Each turn begins with another endpoint, so that none is always last. */
    for (size_t k = 0; k < q->endpoint_count && left > 0; k++) {
        struct endpoint *e = &q->endpoints[(k + q->turn) % q->endpoint_count];

        if (e->sweeping && !e->recalling)
            left -= sweep(q, e, left);
        if (left > 0 && e->waiting && !e->settings && !e->grant)
            left -= bury(q, e, left);
        else if (left > 0 && e->waiting && has_room(q, e))
            left -= give_out(q, e, left);
        more = more || e->sweeping || (e->waiting && has_room(q, e));
    }
    q->turn++;
    return left <= 0 || more ? 0 : -1;
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
            (e->settings && is_named(&e->settings->forward_headers, name))) {
            char *text = gr_strndup(name.p, name.n);

            headers_put(out, text, value);
            free(text);
        }
    }
}

/* false: an unfinished event has no body. Then nothing is sent rather than
 * something else. */
static bool put_task(struct sequencer *q, const struct endpoint *e,
                     const struct event_row *ev, const struct delivery_row *d,
                     struct buf *out)
{
    struct buf headers;
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
        .series = q->series,
        .replay = d->life > 1,
        .attempts = (uint64_t)d->attempts,
        .budget_base = (uint64_t)d->earlier,
        .first_ms = d->first_ms,
        .next_ms = d->next_ms,
    };

    if (!store_body(q->store, d->event, &all, &body)) {
        store_body_done(q->store);
        log_error(ev->id, "an unfinished event has no body: it is not sent");
        return false;
    }
    buf_init(&headers, 2 * HEADERS_MAX_BYTES);
    pick_headers(q, e, ev->source, all, &headers);
    t.headers = (struct bytes){headers.data ? headers.data : "", headers.len};
    t.body = body;
    wire_put_task(out, &t);
    store_body_done(q->store);
    buf_fini(&headers);
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
    bool there;

    if (!e || !e->home || strcmp(e->home->name, peer) != 0)
        return false;
    there = store_delivery(q->store, ref >> EVENT_BITS_ENDPOINT, e->id, &d) &&
            d.status < DELIVERY_DELIVERED && d.grant == e->grant &&
            d.out_n == n && store_event(q->store, d.event, &ev) &&
            put_task(q, e, &ev, &d, out);
    store_done(q->store);
    store_delivery_done(q->store);
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
