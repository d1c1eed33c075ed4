/* What deliverers and we say beside the hop: a beat, and its answers. Frames that
 * are lost do no harm. */
#include "clock.h"
#include "grants_inside.h"
#include "le64.h"
#include "log.h"
#include "store.h"
#include <stdlib.h>

enum { ROOM_MS = 2 }; /* until there may be room on the way to a deliverer */

static void keep_wanted(struct deliverer *d, const struct wire_beat *b)
{
    const uint8_t *p = b->wanted.p;

    free(d->wanted);
    d->wanted_count = b->wanted.n / 8;
    d->wanted = gr_alloc(d->wanted_count * sizeof *d->wanted);
    for (size_t i = 0; i < d->wanted_count; i++, p += 8)
        d->wanted[i] = get_le64(p);
}

/* One that comes with another disk has lost what it had under its grants. */
static void judge_disk(struct sequencer *q, struct deliverer *d, uint64_t store)
{
    if (d->store == store)
        return;
    if (d->store)
        grants_end_all(q, d, "it came back with another disk");
    d->store = store;
    store_deliverer_set(q->store, d->name, store);
}

/* Since when it beats without a break, and whether it is leaving. */
static void judge_health(struct sequencer *q, struct deliverer *d, uint64_t run,
                         int64_t now)
{
    /* Whoever leaves does not beat: it drained for another reason. */
    if (d->leaving_run == run)
        d->leaving_run = 0;
    if (d->run == run && now - d->beat_ms <= grant_lease_ms() && d->beat_ms)
        return;
    d->healthy_ms = now;
    q->place = true;
    if (d->run == run)
        return;
    log_info(NULL, "a deliverer is here", LS("deliverer", d->name));
    /* One that stopped in order gave its grants back before. */
    for (size_t i = 0; i < q->endpoint_count; i++)
        if (q->endpoints[i].grant && q->endpoints[i].home == d)
            q->endpoints[i].lossy = true;
}

void grants_beat(struct sequencer *q, const struct wire_beat *b)
{
    char name[NAME_MAX_BYTES + 1];
    int64_t now = q->d.loop.awake_ms;
    struct deliverer *d;

    if (!b->from.n || b->from.n > NAME_MAX_BYTES || b->wanted.n % 8 ||
        !b->store || !b->run || b->inbox.n > INBOX_MAX_BYTES)
        return;
    wire_copy(name, sizeof name, b->from);
    d = grants_deliverer(q, name);
    judge_disk(q, d, b->store);
    /* Two heartbeats further apart are the end of an outage: of the deliverer, or
     * of the sequencer, whose clock `now` also stands while it is suspended. */
    if (d->beat_ms && now - d->beat_ms <= grant_lease_ms())
        endpoints_alive(q, d, now - d->beat_ms);
    judge_health(q, d, b->run, now);
    d->run = b->run;
    d->stamp_ms = b->stamp_ms;
    d->beat_ms = now;
    d->say_pulse = true;
    wire_copy(d->inbox, sizeof d->inbox, b->inbox);
    keep_wanted(d, b);
}

/* ---- what we say ---- */

static gr_rc say(struct sequencer *q, const struct deliverer *d, struct buf *b)
{
    gr_rc rc = b->failed ? GR_REFUSE
                         : mailbox_send(q->d.mailbox, d->inbox,
                                        (struct bytes){b->data, b->len});

    buf_fini(b);
    return rc;
}

static void say_pulse(struct sequencer *q, struct deliverer *d)
{
    struct wire_pulse p = {
        .from = wire_text(q->d.name),
        .inbox = wire_text(mailbox_priority_address(q->d.mailbox)),
        .run = d->run,
        .stamp_ms = d->stamp_ms};
    struct buf b;

    buf_init(&b, FRAME_MAX_BYTES);
    wire_put_pulse(&b, &p);
    /* It may arrive, whatever send says. */
    d->answered_ms = q->d.loop.awake_ms + mono_ms() - q->d.loop.mono_ms;
    (void)!say(q, d, &b);
    d->say_pulse = false;
}

static gr_rc say_granted(struct sequencer *q, const struct deliverer *d,
                         const struct endpoint *e)
{
    struct wire_granted g = {
        .from = wire_text(q->d.name),
        .inbox = wire_text(mailbox_priority_address(q->d.mailbox)),
        .run = d->run,
        .stamp_ms = d->stamp_ms,
        .grant = e->grant,
        .endpoint = wire_text(e->name),
        .config = (struct bytes){e->carried.data, e->carried.len},
        .healthy = e->healthy,
        .held_since_ms = e->held_ms,
        .held_status = (uint64_t)e->held_status,
        .held_ms = e->paused_ms};
    struct buf b;

    buf_init(&b, FRAME_MAX_BYTES);
    wire_put_granted(&b, &g);
    return say(q, d, &b);
}

static void say_voided(struct sequencer *q, struct deliverer *d, uint64_t grant)
{
    struct wire_voided v = {
        .from = wire_text(q->d.name),
        .inbox = wire_text(mailbox_priority_address(q->d.mailbox)),
        .grant = grant};
    struct buf b;

    buf_init(&b, FRAME_MAX_BYTES);
    wire_put_voided(&b, &v);
    (void)!say(q, d, &b);
}

/* What it has asked about in its last beat. */
static void answer_wanted(struct sequencer *q, struct deliverer *d)
{
    for (size_t k = 0; k < d->wanted_count; k++) {
        struct endpoint *e = grants_endpoint_under(q, d->wanted[k], d);

        if (e)
            e->say_granted = q->say_granted = true;
        else
            say_voided(q, d, d->wanted[k]); /* not heard? It asks again */
    }
    d->wanted_count = 0;
}

/* As many as there is room for on the way to it. true: some are left. */
static bool say_grants(struct sequencer *q, const struct deliverer *d)
{
    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];

        if (e->home != d || !e->say_granted)
            continue;
        if (e->settings && say_granted(q, d, e) == GR_AGAIN)
            return true;
        e->say_granted = false;
    }
    return false;
}

void grants_tell(struct sequencer *q)
{
    bool full = false;

    for (size_t i = 0; i < q->deliverer_count; i++) {
        struct deliverer *d = q->deliverers[i];

        if (!d->say_pulse)
            continue;
        say_pulse(q, d);
        answer_wanted(q, d);
    }
    /* Who is not here, or no longer, asks when he is. */
    for (size_t i = 0; q->say_granted && i < q->deliverer_count; i++)
        if (grants_is_here(q, q->deliverers[i]))
            full = say_grants(q, q->deliverers[i]) || full;
    q->say_granted = full;
    if (full)
        daemon_wake_in(&q->d, ROOM_MS);
}
