/* watch: asks deliverers about deliveries whose results are overdue. */
#include "watch.h"
#include "grant.h"
#include "log.h"
#include "store.h"

enum {
    EVERY_MS = 1000,
    /* In one look. An endpoint counts as one more than its rows. */
    ROWS_PER_LOOK = 256,
    ROWS_AT_ONCE = 64,
    BACKLOG_MAX = 1024, /* unacknowledged rows in the log to the deliverer */
};

/* Longer than any attempt and the way of its result. */
static int64_t watch_after_ms(const struct sequencer *q)
{
    return q->silence_ms;
}

static bool may_ask(const struct sequencer *q, const struct endpoint *e)
{
    return e->grant && e->owner && e->settings && !e->revoking && !e->revoke &&
           !e->sweeping && e->owner->watch_n &&
           deliverer_is_here(q, e->owner) &&
           links_backlog(q->d.links, e->owner->name) < BACKLOG_MAX;
}

/* Returns how many rows it looked at. */
static int look(struct sequencer *q, struct endpoint *e, int max)
{
    struct out_row rows[ROWS_AT_ONCE];
    int n;

    if (max > ROWS_AT_ONCE)
        max = ROWS_AT_ONCE;
    n = store_out_after(q->store, e->id, e->grant, &e->watched, max, rows);
    for (int i = 0; i < n; i++) {
        const struct out_row *r = &rows[i];
        bool late = r->status != DELIVERY_RETRYING ||
                    r->next_ms < q->d.loop.now_ms - watch_after_ms(q);

        /* If the delivery is final, the deliverer has a copy to drop: send `dropped` again. */
        if (late && r->out_n < e->owner->watch_n)
            links_put(q->d.links, e->owner->name,
                      r->status < DELIVERY_DELIVERED ? WIRE_KIND_CHECK
                                                     : WIRE_KIND_DROPPED,
                      delivery_ref(r->event, e->id));
    }
    e->watched = n < max ? (struct out_row){0} : rows[n - 1];
    return n;
}

void watch_work(struct sequencer *q)
{
    int64_t now = q->d.loop.awake_ms;
    int left = ROWS_PER_LOOK;

    if (q->d.loop.mono_ms - q->watched_ms < EVERY_MS)
        return;
    q->watched_ms = q->d.loop.mono_ms;
    /* Take a mark each time this period has passed: tasks queued before the previous mark are
     * overdue. */
    for (size_t i = 0; i < q->deliverer_count; i++) {
        struct deliverer_peer *d = q->deliverers[i];

        if (d->watch_ms && now - d->watch_ms < watch_after_ms(q))
            continue;
        d->watch_n = d->watch_ms ? d->watch_next : 0;
        d->watch_next = links_next(q->d.links, d->name);
        d->watch_ms = now;
    }
    for (size_t k = 0, n = q->lists[ENDPOINTS_GRANTED].count; left > 0 && k < n;
         k++) {
        struct endpoint *e = endpoint_listed(q, ENDPOINTS_GRANTED,
                                             q->watch_turn++ % n);

        if (may_ask(q, e))
            left -= 1 + look(q, e, left);
    }
}

bool watch_load(struct sequencer *q, uint64_t n, int64_t ref, struct buf *out)
{
    struct endpoint *e = endpoint_by_id(q, ref & (ENDPOINTS_MAX - 1));
    struct wire_check m = {0};
    struct delivery d = {0};
    struct event_row ev = {0};
    /* If the delivery was dispatched again since, its new task is after this message. */
    bool there = e && e->grant &&
                 delivery_load(q->deliveries, ref >> EVENT_BITS_ENDPOINT, e->id,
                               &d) &&
                 d.status < DELIVERY_DELIVERED && d.grant_id == e->grant &&
                 d.out_n < n && store_event(q->store, d.event, &ev);

    if (there) {
        m.grant = d.grant_id;
        m.endpoint = wire_text(e->name);
        m.event_id = wire_text(ev.id);
        m.task = d.out_n;
        wire_put_check(out, &m);
    }
    event_fini(&ev);
    delivery_fini(&d);
    return there;
}
