/* deliverers: the known deliverers, their heartbeats, and the frames that respond to them.
 * These frames are not in the durable link: a lost one is sent again after the next
 * heartbeat. */
#include "deliverers.h"
#include "clock.h"
#include "grant.h"
#include "le64.h"
#include "log.h"
#include "sequencer.h"
#include "store.h"
#include "temporary.h"
#include <stdlib.h>
#include <string.h>

enum { SEND_AGAIN_MS = 2 }; /* until a deliverer's pipe may have space */

struct deliverer_peer *deliverer_find_or_add(struct sequencer *q,
                                             const char *name)
{
    struct deliverer_peer *d;

    for (size_t i = 0; i < q->deliverer_count; i++)
        if (strcmp(q->deliverers[i]->name, name) == 0)
            return q->deliverers[i];
    d = gr_alloc(sizeof *d);
    wire_copy(d->name, sizeof d->name, wire_text(name));
    d->acked_ms = q->started_ms;
    q->deliverers = gr_realloc(q->deliverers,
                               (q->deliverer_count + 1) *
                                   sizeof(struct deliverer_peer *));
    q->deliverers[q->deliverer_count++] = d;
    return d;
}

static void on_deliverer_row(void *arg, const char *name, uint64_t store)
{
    deliverer_find_or_add(arg, name)->store = store;
}

bool deliverer_is_here(const struct sequencer *q,
                       const struct deliverer_peer *d)
{
    return d->heartbeat_ms && d->epoch != d->leaving_epoch &&
           q->d.loop.awake_ms - d->heartbeat_ms < grant_lease_ms();
}

static bool is_elsewhere(struct bytes inbox)
{
    const size_t scheme = strlen(PEER_SCHEME);

    return inbox.n >= scheme && memcmp(inbox.p, PEER_SCHEME, scheme) == 0;
}

bool deliverer_is_elsewhere(const struct deliverer_peer *d)
{
    return is_elsewhere(wire_text(d->inbox));
}

void deliverers_load(struct sequencer *q)
{
    for (size_t i = 0; i < q->deliverer_count; i++) {
        q->deliverers[i]->in_window = 0;
        q->deliverers[i]->store = 0;
    }
    store_deliverers(q->store, on_deliverer_row, q);
}

void deliverers_close(struct sequencer *q)
{
    for (size_t i = 0; i < q->deliverer_count; i++) {
        free(q->deliverers[i]->unconfigured);
        free(q->deliverers[i]);
    }
    free(q->deliverers);
    q->deliverers = NULL;
    q->deliverer_count = 0;
}

/* ---- heartbeats ---- */

/* Since when has it sent heartbeats without a break, and is it leaving? */
static void judge_health(struct sequencer *q, struct deliverer_peer *d,
                         uint64_t epoch, int64_t now)
{
    /* Its heartbeats continue, so it is not stopping. It released its grants because its link
     * was rewound. */
    if (d->leaving_epoch == epoch)
        d->leaving_epoch = 0;
    if (d->epoch == epoch && now - d->heartbeat_ms <= grant_lease_ms() &&
        d->heartbeat_ms)
        return;
    d->healthy_ms = now;
    q->assign = true;
    if (d->epoch == epoch)
        return;
    log_info(NULL, "a deliverer registered", LS("deliverer", d->name));
    /* It crashed: before an orderly stop it would have released its grants. */
    for (size_t i = 0; i < q->lists[ENDPOINTS_GRANTED].count; i++) {
        struct endpoint *e = endpoint_listed(q, ENDPOINTS_GRANTED, i);

        if (e->owner == d)
            e->lossy = true;
    }
}

/* On one host the lock of state_dir shows that the former process of this name has ended. On
 * another it may run on, with a copy of this one's key: its grants end by its silence. */
static bool is_second(struct sequencer *q, struct deliverer_peer *d,
                      const struct wire_heartbeat *b)
{
    if (!is_elsewhere(b->inbox))
        return false;
    for (size_t i = 0; i < q->lists[ENDPOINTS_GRANTED].count; i++)
        if (endpoint_listed(q, ENDPOINTS_GRANTED, i)->owner == d) {
            if (!d->second)
                log_warn(NULL,
                         "a deliverer has another database than the one that "
                         "has grants under its name; it gets none before "
                         "those have ended",
                         LS("deliverer", d->name));
            d->second = true;
            return true;
        }
    d->second = false;
    return false;
}

void deliverers_heartbeat(struct sequencer *q, const struct wire_heartbeat *b)
{
    char name[NAME_MAX_BYTES + 1];
    int64_t now = q->d.loop.awake_ms;
    struct deliverer_peer *d;

    if (!b->from.n || b->from.n > NAME_MAX_BYTES || b->unconfigured.n % 8 ||
        !b->store || !b->epoch || b->inbox.n > INBOX_MAX_BYTES)
        return;
    wire_copy(name, sizeof name, b->from);
    d = deliverer_find_or_add(q, name);
    if (d->store != b->store) {
        if (is_second(q, d, b))
            return;
        if (d->store) /* the tasks of its grants are lost */
            grants_end_all(q, d, "new_database");
        d->store = b->store;
        store_deliverer_set(q->store, d->name, b->store);
    }
    /* If the two heartbeats are further apart, the deliverer or the sequencer was down or
     * suspended in between. */
    if (d->heartbeat_ms && now - d->heartbeat_ms <= grant_lease_ms())
        endpoints_alive(q, d, now - d->heartbeat_ms);
    judge_health(q, d, b->epoch, now);
    d->epoch = b->epoch;
    d->stamp_ms = b->stamp_ms;
    d->heartbeat_ms = now;
    d->heartbeat_ack_pending = true;
    wire_copy(d->inbox, sizeof d->inbox, b->inbox);
    free(d->unconfigured);
    d->unconfigured_count = b->unconfigured.n / 8;
    d->unconfigured = gr_alloc(d->unconfigured_count * sizeof *d->unconfigured);
    for (size_t i = 0; i < d->unconfigured_count; i++)
        d->unconfigured[i] = get_le64((const uint8_t *)b->unconfigured.p +
                                      8 * i);
}

void deliverers_taken(struct sequencer *q, const struct wire_taken *t)
{
    struct deliverer_peer *d = NULL;
    struct endpoint *e;

    for (size_t i = 0; i < q->deliverer_count && !d; i++)
        if (wire_is(t->from, q->deliverers[i]->name))
            d = q->deliverers[i];
    e = d ? grants_endpoint_under(q, t->grant, d) : NULL;
    if (e)
        temporary_used(q, e);
}

/* ---- frames to deliverers ---- */

static gr_rc send_frame(struct sequencer *q, const struct deliverer_peer *d,
                        struct buf *b)
{
    gr_rc rc = b->failed ? GR_REFUSE
                         : mailbox_send(q->d.mailbox, d->inbox,
                                        (struct bytes){b->data, b->len});

    buf_fini(b);
    return rc;
}

static void send_heartbeat_ack(struct sequencer *q, struct deliverer_peer *d)
{
    struct wire_heartbeat_ack p = {
        .from = wire_text(q->d.name),
        .inbox = wire_text(mailbox_priority_address(q->d.mailbox, d->inbox)),
        .epoch = d->epoch,
        .stamp_ms = d->stamp_ms};
    struct buf b;

    buf_init(&b, FRAME_MAX_BYTES);
    wire_put_heartbeat_ack(&b, &p);
    /* Set before the send, as the frame may arrive even if that fails. */
    d->acked_ms = q->d.loop.awake_ms + mono_ms() - q->d.loop.mono_ms;
    (void)!send_frame(q, d, &b);
    d->heartbeat_ack_pending = false;
}

static gr_rc send_granted(struct sequencer *q, const struct deliverer_peer *d,
                          const struct endpoint *e)
{
    struct wire_granted g = {
        .from = wire_text(q->d.name),
        .inbox = wire_text(mailbox_priority_address(q->d.mailbox, d->inbox)),
        .epoch = d->epoch,
        .stamp_ms = d->stamp_ms,
        .grant = e->grant,
        .endpoint = wire_text(e->name),
        .config = (struct bytes){e->encoded_config.data, e->encoded_config.len},
        .healthy = e->healthy,
        .held_since_ms = endpoint_held_ms(e),
        .held_status = (uint64_t)e->held_status,
        .held_ms = e->paused_ms,
        .temporary = e->temporary};
    struct buf b;

    buf_init(&b, FRAME_MAX_BYTES);
    wire_put_granted(&b, &g);
    return send_frame(q, d, &b);
}

static void send_revoked(struct sequencer *q, struct deliverer_peer *d,
                         uint64_t grant)
{
    struct wire_revoked v = {
        .from = wire_text(q->d.name),
        .inbox = wire_text(mailbox_priority_address(q->d.mailbox, d->inbox)),
        .grant = grant};
    struct buf b;

    buf_init(&b, FRAME_MAX_BYTES);
    wire_put_revoked(&b, &v);
    (void)!send_frame(q, d, &b);
}

/* For the grants of which its last heartbeat asked the configuration. */
static void send_configurations(struct sequencer *q, struct deliverer_peer *d)
{
    for (size_t k = 0; k < d->unconfigured_count; k++) {
        struct endpoint *e = grants_endpoint_under(q, d->unconfigured[k], d);

        if (e) {
            e->granted_pending = q->granted_pending = true;
            endpoint_wake(q, e);
        } else
            send_revoked(
                q, d, d->unconfigured[k]); /* if this is lost, it asks again */
    }
    d->unconfigured_count = 0;
}

/* As many as its pipe has space for. true: some are left. */
static bool send_grants(struct sequencer *q, const struct deliverer_peer *d)
{
    for (size_t i = 0; i < q->lists[ENDPOINTS_AWAKE].count; i++) {
        struct endpoint *e = endpoint_listed(q, ENDPOINTS_AWAKE, i);

        if (e->owner != d || !e->granted_pending)
            continue;
        if (e->settings && send_granted(q, d, e) == GR_AGAIN)
            return true;
        e->granted_pending = false;
    }
    return false;
}

void deliverers_flush(struct sequencer *q)
{
    bool full = false;

    for (size_t i = 0; i < q->deliverer_count; i++) {
        struct deliverer_peer *d = q->deliverers[i];

        if (!d->heartbeat_ack_pending)
            continue;
        send_heartbeat_ack(q, d);
        send_configurations(q, d);
    }
    /* Skip offline deliverers; they ask for their configuration in their next heartbeat. */
    for (size_t i = 0; q->granted_pending && i < q->deliverer_count; i++)
        if (deliverer_is_here(q, q->deliverers[i]))
            full = send_grants(q, q->deliverers[i]) || full;
    q->granted_pending = full;
    if (full)
        daemon_wake_in(&q->d, SEND_AGAIN_MS);
}
