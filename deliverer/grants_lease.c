/* Until when we may begin work, and whether we know how: what is said and heard
 * beside the hop. Frames that are lost do no harm. */
#include "clock.h"
#include "deliverer.h"
#include "grant.h"
#include "grants_inside.h"
#include "le64.h"
#include "log.h"
#include "wire.h"
#include <string.h>

enum {
    WANTED_MAX = 64 * 1024, /* asked about in one beat; the next asks on */
    ASK_GAP_MS = 50,        /* between a beat and one that asks */
    BEAT_MAX_BYTES = 1024 * 1024,
};

/* ---- the lease ---- */

/* Which an answer to the beat of `stamp_ms` gives us; mono, as that. */
static int64_t lease_end_ms(int64_t stamp_ms)
{
    return stamp_ms + grant_lease_ms();
}

bool grants_may_begin(const struct deliverer *d)
{
    return mono_ms() < d->grants.lease_until_ms;
}

void grants_set_config(struct deliverer *d, struct grant *g,
                       struct endpoint_config *config)
{
    d->grants.confirmed += (config != NULL) - (g->endpoint.config != NULL);
    endpoint_config_drop(g->endpoint.config);
    g->endpoint.config = config;
    endpoint_schedule(&g->endpoint, &d->schedule);
}

void grants_lapse(struct deliverer *d, int64_t now)
{
    int count = 0;

    if (now < d->grants.lease_until_ms || d->grants.confirmed == 0)
        return;
    for (struct grant *g = grants_next(d, NULL); g; g = grants_next(d, g))
        if (g->endpoint.config && lease_end_ms(g->stamp_ms) <= now) {
            if (g->endpoint.config->ordered != LANES_NONE)
                flights_interrupt(&d->flights, g, "our lease was over");
            grants_set_config(d, g, NULL);
            count++;
        }
    d->grants.ask = d->grants.ask || count;
    if (count)
        log_warn(NULL,
                 "the sequencer is silent: nothing is begun until it "
                 "confirms again",
                 LI("grants", count));
}

/* An answer to a beat of this run, whose lease has not passed. */
static bool counts(const struct deliverer *d, uint64_t run, int64_t stamp_ms,
                   int64_t now)
{
    return run == d->daemon.run && stamp_ms <= now &&
           lease_end_ms(stamp_ms) > now;
}

void grants_pulse(struct deliverer *d, struct bytes frame)
{
    struct wire_pulse p;
    int64_t now = mono_ms();

    if (wire_get_pulse(&p, frame) != GR_OK) {
        log_warn(NULL, "a pulse makes no sense; dropped");
        return;
    }
    if (!counts(d, p.run, p.stamp_ms, now))
        return;
    grants_lapse(d, now); /* what lapsed while we slept stays lapsed */
    if (mailbox_reaches(d->daemon.mailbox, p.inbox))
        wire_copy(d->grants.inbox, sizeof d->grants.inbox, p.inbox);
    if (lease_end_ms(p.stamp_ms) > d->grants.lease_until_ms)
        d->grants.lease_until_ms = lease_end_ms(p.stamp_ms);
}

/* Rows that were due while we could not begin (we were down, or without the
 * sequencer) do not go all at once. */
static void note_late(struct grant *g)
{
    struct endpoint *e = &g->endpoint;

    if (!e->config && e->rows > 0 && e->due_ms < INT64_MAX)
        gate_late(&e->gate, now_ms() - e->due_ms, mono_us());
}

static void confirm(struct deliverer *d, struct grant *g,
                    const struct wire_granted *w)
{
    struct endpoint_config *config;
    const char *why;

    if (endpoint_config_new(&config, w->config, &why) != GR_OK) {
        log_warn(NULL, "an endpoint can't be served as it is configured",
                 LS("endpoint", g->name), LS("error", why));
        return;
    }
    g->stamp_ms = w->stamp_ms;
    gate_configure(&g->endpoint.gate, config);
    gate_restore(&g->endpoint.gate, config, w->healthy, (int64_t)w->held_status,
                 w->held_since_ms, w->held_ms, mono_us());
    note_late(g);
    if (g->endpoint.rows > g->endpoint.rows_here)
        endpoint_row_due(&g->endpoint, now_ms()); /* look at them (due.c) */
    grants_set_config(d, g, config);
}

void grants_granted(struct deliverer *d, struct bytes frame)
{
    struct wire_granted w;
    struct grant *g;

    if (wire_get_granted(&w, frame) != GR_OK || !w.grant || !w.endpoint.n ||
        w.endpoint.n > NAME_MAX_BYTES) {
        log_warn(NULL, "a grant makes no sense; dropped");
        return;
    }
    if (!counts(d, w.run, w.stamp_ms, mono_ms()))
        return;
    g = grants_take(d, w.grant, w.endpoint);
    if (g->state == GRANT_OPEN && wire_is(w.endpoint, g->name))
        confirm(d, g, &w);
}

void grants_voided(struct deliverer *d, struct bytes frame)
{
    struct wire_voided v;
    struct grant *g;

    if (wire_get_voided(&v, frame) != GR_OK)
        return;
    g = grants_find(d, v.grant);
    if (g)
        grants_recall(d, g, "the sequencer has ended it");
}

/* ---- the beat ---- */

/* Without work too: one that has ended is to be forgotten. */
static bool wants(const struct grant *g)
{
    return g->state == GRANT_OPEN && !g->endpoint.config;
}

static uint64_t put_wanted(const struct deliverer *d, struct buf *out)
{
    uint64_t count = 0;

    for (struct grant *g = grants_next(d, NULL); g && count < WANTED_MAX;
         g = grants_next(d, g))
        if (wants(g)) {
            put_le64(out, g->id);
            count++;
        }
    return count;
}

/* The sequencer's address for heartbeats: what it named while our lease holds, else the
 * inbox of its name, which it always reads. */
static void find_sequencer(const struct deliverer *d, char *to)
{
    if (grants_may_begin(d) && *d->grants.inbox)
        memcpy(to, d->grants.inbox, sizeof d->grants.inbox);
    else
        mailbox_address_of(d->daemon.mailbox, SEQUENCER, to);
}

static void beat(struct deliverer *d, int64_t now)
{
    char to[INBOX_MAX_BYTES + 1];
    struct buf wanted, frame;
    struct wire_beat b = {
        .from = wire_text(d->daemon.name),
        .inbox = wire_text(mailbox_address(d->daemon.mailbox)),
        .store = d->store.id,
        .run = d->daemon.run,
        .stamp_ms = now};

    buf_init(&wanted, WANTED_MAX * 8);
    buf_init(&frame, BEAT_MAX_BYTES);
    b.wanted_count = put_wanted(d, &wanted);
    b.wanted = (struct bytes){wanted.data ? wanted.data : "", wanted.len};
    wire_put_beat(&frame, &b);
    find_sequencer(d, to);
    /* A beat that finds no room is one that was lost. */
    if (mailbox_send(d->daemon.mailbox, to,
                     (struct bytes){frame.data, frame.len}) != GR_OK)
        log_debug(NULL, "no room for a beat");
    buf_fini(&frame);
    buf_fini(&wanted);
}

void grants_tell(struct deliverer *d)
{
    int64_t now = mono_ms();
    bool asks = d->grants.ask && now - d->grants.beaten_ms >= ASK_GAP_MS;

    /* Whoever leaves does not say that he is there: he is given nothing. */
    if (d->daemon.loop.stopping || (now < d->grants.beat_ms && !asks))
        return;
    beat(d, now);
    d->grants.ask = false;
    d->grants.beaten_ms = now;
    d->grants.beat_ms = now + grant_beat_ms();
}

int grants_wait_ms(const struct deliverer *d)
{
    int64_t now = mono_ms(), at = d->grants.beat_ms;

    if (d->daemon.loop.stopping)
        return -1;
    if (d->grants.ask)
        at = d->grants.beaten_ms + ASK_GAP_MS;
    if (d->grants.lease_until_ms > now && d->grants.lease_until_ms < at)
        at = d->grants.lease_until_ms;
    return at <= now ? 0 : (int)(at - now);
}
