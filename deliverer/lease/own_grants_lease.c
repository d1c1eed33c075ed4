/* own_grants_lease: the lease and the configurations of grants: heartbeats to the sequencer
 * and its responses, outside the durable link. A lost frame does no harm. */
#include "clock.h"
#include "deliverer.h"
#include "grant.h"
#include "le64.h"
#include "log.h"
#include "own_grants_inside.h"
#include "wire.h"
#include <string.h>

enum {
    UNCONFIGURED_MAX =
        64 * 1024,   /* asked about in one heartbeat; the next asks on */
    ASK_GAP_MS = 50, /* between a heartbeat and one that asks */
    HEARTBEAT_MAX_BYTES = 1024 * 1024,
};

/* ---- the lease ---- */

/* The end of the lease that a response to the heartbeat of `stamp_ms` gives (mono). */
static int64_t lease_end_ms(int64_t stamp_ms)
{
    return stamp_ms + grant_lease_ms();
}

bool own_grants_may_begin(const struct deliverer *d)
{
    return mono_ms() < d->own_grants.lease_until_ms;
}

void own_grants_set_config(struct deliverer *d, struct grant *g,
                           struct endpoint_config *config)
{
    d->own_grants.confirmed += (config != NULL) - (g->endpoint.config != NULL);
    endpoint_config_drop(g->endpoint.config);
    g->endpoint.config = config;
    endpoint_schedule(&g->endpoint, &d->schedule);
}

void own_grants_lapse(struct deliverer *d, int64_t now)
{
    int count = 0;

    if (now < d->own_grants.lease_until_ms || d->own_grants.confirmed == 0)
        return;
    for (struct grant *g = own_grants_next(d, NULL); g;
         g = own_grants_next(d, g))
        if (g->endpoint.config && lease_end_ms(g->stamp_ms) <= now) {
            if (g->endpoint.config->settings.ordered != LANES_NONE)
                transfers_interrupt(&d->transfers, g,
                                    "the deliverer's lease has expired");
            own_grants_set_config(d, g, NULL);
            count++;
        }
    d->own_grants.ask = d->own_grants.ask || count;
    if (count)
        log_warn(
            NULL,
            "the sequencer does not respond; no attempts start until it does",
            LI("grants", count));
}

/* Whether it responds to a heartbeat of this epoch whose lease has not passed. */
static bool counts(const struct deliverer *d, uint64_t epoch, int64_t stamp_ms,
                   int64_t now)
{
    return epoch == d->daemon.epoch && stamp_ms <= now &&
           lease_end_ms(stamp_ms) > now;
}

void own_grants_heartbeat_ack(struct deliverer *d, struct bytes frame)
{
    struct wire_heartbeat_ack p;
    int64_t now = mono_ms();

    if (wire_get_heartbeat_ack(&p, frame) != GR_OK) {
        log_warn(NULL, "invalid heartbeat_ack; dropped");
        return;
    }
    if (!counts(d, p.epoch, p.stamp_ms, now))
        return;
    own_grants_lapse(d, now); /* what lapsed while we slept stays lapsed */
    if (mailbox_reaches(d->daemon.mailbox, p.inbox))
        wire_copy(d->own_grants.inbox, sizeof d->own_grants.inbox, p.inbox);
    if (lease_end_ms(p.stamp_ms) > d->own_grants.lease_until_ms)
        d->own_grants.lease_until_ms = lease_end_ms(p.stamp_ms);
}

/* Retries that became due while this process was down, or without the sequencer, are
 * not made all at once. */
static void note_late(struct grant *g)
{
    struct granted_endpoint *e = &g->endpoint;

    if (!e->config && e->rows > 0 && e->due_ms < INT64_MAX)
        throttle_late(&e->throttle, now_ms() - e->due_ms, mono_us());
}

static void confirm(struct deliverer *d, struct grant *g,
                    const struct wire_granted *w)
{
    struct endpoint_config *config;
    const char *why;

    if (endpoint_config_new(&config, w->config, &why) != GR_OK) {
        log_warn(NULL, "the configuration of an endpoint cannot be used",
                 LS("endpoint", g->name), LS("error", why));
        return;
    }
    g->stamp_ms = w->stamp_ms;
    throttle_configure(&g->endpoint.throttle, config);
    throttle_restore(&g->endpoint.throttle, config, w->healthy,
                     (int64_t)w->held_status, w->held_since_ms, w->held_ms,
                     mono_us());
    note_late(g);
    if (g->endpoint.rows > g->endpoint.rows_here)
        endpoint_row_due(&g->endpoint, now_ms()); /* look at them (due.c) */
    own_grants_set_config(d, g, config);
}

void own_grants_granted(struct deliverer *d, struct bytes frame)
{
    struct wire_granted w;
    struct grant *g;

    if (wire_get_granted(&w, frame) != GR_OK || !w.grant || !w.endpoint.n ||
        w.endpoint.n > NAME_MAX_BYTES) {
        log_warn(NULL, "invalid grant; dropped");
        return;
    }
    if (!counts(d, w.epoch, w.stamp_ms, mono_ms()))
        return;
    g = own_grants_take(d, w.grant, w.endpoint);
    if (g->state == GRANT_OPEN && wire_is(w.endpoint, g->name))
        confirm(d, g, &w);
}

void own_grants_revoked(struct deliverer *d, struct bytes frame)
{
    struct wire_revoked v;
    struct grant *g;

    if (wire_get_revoked(&v, frame) != GR_OK)
        return;
    g = own_grants_find(d, v.grant);
    if (g)
        own_grants_revoke(d, g, "the sequencer has ended it");
}

/* ---- the heartbeat ---- */

/* Also without tasks: so an ended grant is found and forgotten. */
static bool is_unconfigured(const struct grant *g)
{
    return g->state == GRANT_OPEN && !g->endpoint.config;
}

static uint64_t put_unconfigured(const struct deliverer *d, struct buf *out)
{
    uint64_t count = 0;

    for (struct grant *g = own_grants_next(d, NULL);
         g && count < UNCONFIGURED_MAX; g = own_grants_next(d, g))
        if (is_unconfigured(g)) {
            put_le64(out, g->id);
            count++;
        }
    return count;
}

/* The sequencer's address for heartbeats: the one that it named while our lease holds, else
 * the inbox made of its name, which it always reads. */
static void find_sequencer(const struct deliverer *d, char *to)
{
    if (own_grants_may_begin(d) && *d->own_grants.inbox)
        memcpy(to, d->own_grants.inbox, sizeof d->own_grants.inbox);
    else
        mailbox_address_of(d->daemon.mailbox, SEQUENCER, to);
}

static void send_heartbeat(struct deliverer *d, int64_t now)
{
    char to[INBOX_MAX_BYTES + 1];
    struct buf unconfigured, frame;
    struct wire_heartbeat b = {
        .from = wire_text(d->daemon.name),
        .inbox = wire_text(mailbox_address(d->daemon.mailbox)),
        .store = d->store.id,
        .epoch = d->daemon.epoch,
        .stamp_ms = now};

    buf_init(&unconfigured, UNCONFIGURED_MAX * 8);
    buf_init(&frame, HEARTBEAT_MAX_BYTES);
    b.unconfigured_count = put_unconfigured(d, &unconfigured);
    b.unconfigured = (struct bytes){unconfigured.data ? unconfigured.data : "",
                                    unconfigured.len};
    wire_put_heartbeat(&frame, &b);
    find_sequencer(d, to);
    /* A full pipe: the same as a lost heartbeat. */
    if (mailbox_send(d->daemon.mailbox, to,
                     (struct bytes){frame.data, frame.len}) != GR_OK)
        log_debug(NULL,
                  "a heartbeat could not be sent: the socket's queue is full");
    buf_fini(&frame);
    buf_fini(&unconfigured);
}

void own_grants_flush(struct deliverer *d)
{
    int64_t now = mono_ms();
    bool asks = d->own_grants.ask &&
                now - d->own_grants.heartbeat_sent_ms >= ASK_GAP_MS;

    /* A process that is stopping sends no heartbeats, so it gets no grants. */
    if (d->daemon.loop.stopping || (now < d->own_grants.heartbeat_ms && !asks))
        return;
    send_heartbeat(d, now);
    d->own_grants.ask = false;
    d->own_grants.heartbeat_sent_ms = now;
    d->own_grants.heartbeat_ms = now + grant_heartbeat_ms();
}

int own_grants_wait_ms(const struct deliverer *d)
{
    int64_t now = mono_ms(), at = d->own_grants.heartbeat_ms;

    if (d->daemon.loop.stopping)
        return -1;
    if (d->own_grants.ask)
        at = d->own_grants.heartbeat_sent_ms + ASK_GAP_MS;
    if (d->own_grants.lease_until_ms > now && d->own_grants.lease_until_ms < at)
        at = d->own_grants.lease_until_ms;
    return at <= now ? 0 : (int)(at - now);
}
