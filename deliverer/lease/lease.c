/* lease: sends heartbeats, and confirms grants or ends their confirmation by the
 * sequencer's responses. */
#include "lease.h"
#include "clock.h"
#include "deliverer.h"
#include "grant.h"
#include "le64.h"
#include "log.h"
#include "rows.h"
#include "wire.h"
#include <string.h>

enum {
    UNCONFIGURED_MAX =
        64 * 1024,   /* grants in one heartbeat; the next has the others */
    ASK_GAP_MS = 50, /* between a heartbeat and one that asks */
    HEARTBEAT_MAX_BYTES = 1024 * 1024,
};

/* ---- the lease ---- */

/* The end of the lease that a response to the heartbeat of `stamp_ms` gives (mono). */
static int64_t lease_end_ms(int64_t stamp_ms)
{
    return stamp_ms + grant_lease_ms();
}

bool lease_may_begin(const struct deliverer *d)
{
    return mono_ms() < d->lease.until_ms;
}

void lease_expire(struct deliverer *d)
{
    int64_t now = mono_ms();
    int count = 0;

    if (now < d->lease.until_ms || d->own_grants.confirmed == 0)
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
    d->lease.ask = d->lease.ask || count;
    if (count)
        log_warn(
            NULL,
            "the sequencer does not respond; no attempts start until it does",
            LI("grants", count));
}

/* The frame responds to a heartbeat of this epoch whose lease has not expired. */
static bool is_in_time(const struct deliverer *d, uint64_t epoch,
                       int64_t stamp_ms)
{
    int64_t now = mono_ms();

    return epoch == d->daemon.epoch && stamp_ms <= now &&
           lease_end_ms(stamp_ms) > now;
}

void lease_heartbeat_ack(struct deliverer *d, struct bytes frame)
{
    struct wire_heartbeat_ack p;

    if (wire_get_heartbeat_ack(&p, frame) != GR_OK) {
        log_warn(NULL, "invalid heartbeat_ack; dropped");
        return;
    }
    if (!is_in_time(d, p.epoch, p.stamp_ms))
        return;
    /* First end what expired while this process was stopped: the new lease must not
     * extend that. */
    lease_expire(d);
    if (mailbox_reaches(d->daemon.mailbox, p.inbox))
        wire_copy(d->lease.inbox, sizeof d->lease.inbox, p.inbox);
    if (lease_end_ms(p.stamp_ms) > d->lease.until_ms)
        d->lease.until_ms = lease_end_ms(p.stamp_ms);
}

/* ---- configurations ---- */

static void confirm(struct deliverer *d, struct grant *g,
                    const struct wire_granted *w)
{
    struct granted_endpoint *e = &g->endpoint;
    struct endpoint_config *config;
    const char *why;
    struct task *t;

    if (endpoint_config_new(&config, w->config, &why) != GR_OK) {
        log_warn(NULL, "the configuration of an endpoint cannot be used",
                 LS("endpoint", g->name), LS("error", why));
        return;
    }
    g->stamp_ms = w->stamp_ms;
    e->temporary = w->temporary != 0;
    throttle_configure(&e->throttle, config);
    throttle_restore(&e->throttle, config, w->healthy, (int64_t)w->held_status,
                     w->held_since_ms, w->held_ms, mono_us());
    /* Retries that became due while this process was down, or without the sequencer,
     * must not all begin at once. */
    if (!e->config && e->rows > 0 && e->due_ms < INT64_MAX)
        throttle_late(&e->throttle, now_ms() - e->due_ms, mono_us());
    if (e->rows > e->rows_here)
        endpoint_row_due(e, now_ms()); /* due.c reads them */
    own_grants_set_config(d, g, config);
    while (endpoint_is_pulled(e) && (t = endpoint_first(e)))
        rows_move_out(d, t); /* they came before the configuration */
}

void lease_granted(struct deliverer *d, struct bytes frame)
{
    struct wire_granted w;
    struct grant *g;

    if (wire_get_granted(&w, frame) != GR_OK || !w.grant || !w.endpoint.n ||
        w.endpoint.n > NAME_MAX_BYTES) {
        log_warn(NULL, "invalid grant; dropped");
        return;
    }
    if (!is_in_time(d, w.epoch, w.stamp_ms))
        return;
    g = own_grants_take(d, w.grant, w.endpoint);
    if (g->state == GRANT_OPEN && wire_is(w.endpoint, g->name))
        confirm(d, g, &w);
}

void lease_revoked(struct deliverer *d, struct bytes frame)
{
    struct wire_revoked v;
    struct grant *g;

    if (wire_get_revoked(&v, frame) != GR_OK)
        return;
    g = own_grants_find(d, v.grant);
    if (g)
        own_grants_revoke(d, g, "ended");
}

/* ---- the heartbeat ---- */

static void send_heartbeat(struct deliverer *d, int64_t now)
{
    char to[INBOX_MAX_BYTES + 1];
    struct buf unconfigured, frame;
    struct wire_heartbeat b = {.from = wire_text(d->daemon.name),
                               .store = d->store.id,
                               .epoch = d->daemon.epoch,
                               .stamp_ms = now};

    buf_init(&unconfigured, UNCONFIGURED_MAX * 8);
    buf_init(&frame, HEARTBEAT_MAX_BYTES);
    /* Also grants without tasks: the sequencer says which of them have ended. */
    for (struct grant *g = own_grants_next(d, NULL);
         g && b.unconfigured_count < UNCONFIGURED_MAX;
         g = own_grants_next(d, g))
        if (g->state == GRANT_OPEN && !g->endpoint.config) {
            put_le64(&unconfigured, g->id);
            b.unconfigured_count++;
        }
    b.unconfigured = (struct bytes){unconfigured.data ? unconfigured.data : "",
                                    unconfigured.len};
    /* To the address that the sequencer named, while the lease holds; else to the inbox
     * made of its name, which it always reads. */
    if (lease_may_begin(d) && *d->lease.inbox)
        memcpy(to, d->lease.inbox, sizeof d->lease.inbox);
    else
        mailbox_address_of(d->daemon.mailbox, SEQUENCER, to);
    b.inbox = wire_text(mailbox_address(d->daemon.mailbox, to));
    wire_put_heartbeat(&frame, &b);
    /* If the pipe is full, the heartbeat is lost, and the next one replaces it. */
    if (mailbox_send(d->daemon.mailbox, to,
                     (struct bytes){frame.data, frame.len}) != GR_OK)
        log_debug(NULL,
                  "a heartbeat could not be sent: the socket's queue is full");
    buf_fini(&frame);
    buf_fini(&unconfigured);
}

void lease_flush(struct deliverer *d)
{
    int64_t now = mono_ms();
    bool asks = d->lease.ask && now - d->lease.heartbeat_sent_ms >= ASK_GAP_MS;

    /* A process that is stopping sends no heartbeats, so it gets no grants. */
    if (d->daemon.loop.stopping || (now < d->lease.heartbeat_ms && !asks))
        return;
    send_heartbeat(d, now);
    d->lease.ask = false;
    d->lease.heartbeat_sent_ms = now;
    d->lease.heartbeat_ms = now + grant_heartbeat_ms();
}

int lease_wait_ms(const struct deliverer *d)
{
    int64_t now = mono_ms(), at = d->lease.heartbeat_ms;

    if (d->daemon.loop.stopping)
        return -1;
    if (d->lease.ask)
        at = d->lease.heartbeat_sent_ms + ASK_GAP_MS;
    if (d->lease.until_ms > now && d->lease.until_ms < at)
        at = d->lease.until_ms;
    return at <= now ? 0 : (int)(at - now);
}
