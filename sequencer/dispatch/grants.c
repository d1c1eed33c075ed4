/* grants: decides which deliverer owns which endpoint. docs/ARCHITECTURE.md describes the
 * protocol, and tests/model/grants.pml specifies it. Its rules:
 *
 *   a grant is on disk before the first task is sent under it
 *   it ends by `released`; by a silence of its owner that is longer than the lease, the
 *   longest attempt and a margin, counted from our last heartbeat_ack; or when its owner
 *   loses its disk
 *   a deliverer begins no attempt under a grant that was not confirmed within its lease */
#include "grants.h"
#include "backoff.h"
#include "clock.h"
#include "endpoint_config.h"
#include "grant.h"
#include "lanes.h"
#include "le64.h"
#include "log.h"
#include "managed_endpoints.h"
#include "owner.h"
#include "retry_choice.h"
#include "sequencer.h"
#include "sha256.h"
#include "store.h"
#include <stdlib.h>
#include <string.h>

enum {
    CLOSER_LOOK_MS = 100, /* at most, between two checks for silence */
    LONGEST_MIN_MS = 1000,
};

/* ---- ends of grants ---- */

struct endpoint *grants_endpoint_under(struct sequencer *q, uint64_t grant,
                                       const struct deliverer_peer *d)
{
    size_t i, at = 0;

    while ((i = lookup_next(&q->grants, grant, &at)) != LOOKUP_END)
        if (q->endpoints[i].owner == d)
            return &q->endpoints[i];
    return NULL;
}

static void end_grant(struct sequencer *q, struct endpoint *e)
{
    if (e->owner) {
        e->owner->in_window -= e->in_window;
        if (e->owner->in_window < 0)
            e->owner->in_window = 0;
    }
    lookup_drop(&q->grants, e->grant, (size_t)(e - q->endpoints));
    endpoint_list_drop(q, e, ENDPOINTS_GRANTED);
    endpoint_wake(q, e);
    e->owner = NULL;
    e->grant = 0;
    e->in_window = 0;
    e->window.measured = 0; /* the next link has numbers of its own */
    e->revoke = e->revoking = e->granted_pending = false;
    e->sweeping = true;
    store_endpoint_set(q->store, e->id, "", 0, 0);
    q->metrics[METRIC_GRANTS_ENDED]++;
    q->assign = true;
}

void grants_end_all(struct sequencer *q, struct deliverer_peer *d,
                    const char *reason)
{
    int count = 0;

    for (size_t i = q->lists[ENDPOINTS_GRANTED].count; i-- > 0;) {
        struct endpoint *e = endpoint_listed(q, ENDPOINTS_GRANTED, i);

        if (e->owner == d) {
            end_grant(q, e);
            count++;
        }
    }
    d->in_window = 0;
    if (count)
        log_warn(NULL, "grants ended", LS("deliverer", d->name),
                 LI("endpoints", count), LS("reason", reason));
}

void grants_released(struct sequencer *q, const char *from, uint64_t grant)
{
    struct deliverer_peer *d = deliverer_find_or_add(q, from);
    struct endpoint *e = grants_endpoint_under(q, grant, d);

    if (!e)
        return;
    if (!e->revoking) /* it was not asked to: it is leaving */
        d->leaving_epoch = d->epoch;
    log_info(NULL, "released", LS("endpoint", e->name), LS("deliverer", from));
    if (!e->lossy)
        e->complete_grant = grant;
    end_grant(q, e);
}

/* A restored copy has set back the numbering, so receivers must not compare new numbers with
 * old ones. Once in a start, though every peer with newer rows reports the copy. */
static void begin_series(struct sequencer *q)
{
    if (q->series_begun)
        return;
    q->series_begun = true;
    q->series = random_id();
    q->metrics[METRIC_SERIES]++;
    store_meta_set(q->store, "series", (int64_t)q->series);
    log_warn(NULL,
             "this database is an older copy; a new series of sequence numbers "
             "begins",
             LI("series", q->series));
}

/* The grants of the lost time are unknown, so the deliverers have to release all. */
void grants_restored(struct sequencer *q)
{
    begin_series(q);
    for (size_t i = 0; i < q->lists[ENDPOINTS_GRANTED].count; i++) {
        struct endpoint *e = endpoint_listed(q, ENDPOINTS_GRANTED, i);

        e->config = 0; /* revoked as if its configuration had changed */
        store_endpoint_set(q->store, e->id, e->owner->name, e->grant, 0);
    }
}

void grants_rewound(struct sequencer *q, const char *peer, bool we_are_older)
{
    if (we_are_older)
        begin_series(q);
    for (size_t i = 0; i < q->lists[ENDPOINTS_GRANTED].count; i++) {
        struct endpoint *e = endpoint_listed(q, ENDPOINTS_GRANTED, i);

        if (strcmp(e->owner->name, peer) != 0)
            continue;
        e->revoke = true;
        e->revoking = false; /* it may have lost the first `revoke` */
        endpoint_wake(q, e);
    }
}

/* ---- owners ---- */

/* Its tasks may have a retry policy of their own. */
static bool takes_choices(const struct sequencer *q,
                          const struct endpoint_settings *es)
{
    return q->choices && !es->internal && es->retry_choice != RETRY_CHOICE_NONE;
}

/* Of all that its tasks and its deliverer have of the configuration. */
static int64_t digest_of(const struct sequencer *q, const struct endpoint *e)
{
    uint8_t raw[SHA256_BYTES];
    uint64_t digest;

    sha256((struct bytes){e->encoded_config.data, e->encoded_config.len}, raw);
    digest = get_le64(raw);
    if (e->settings && takes_choices(q, e->settings))
        digest ^= q->policies_digest + (uint64_t)e->settings->retry_choice;
    return (int64_t)(digest & INT64_MAX);
}

/* Consumers of pull endpoints take from their deliverer's control socket, which only processes of
 * its host reach. */
static bool reaches_consumers(const struct endpoint *e,
                              const struct deliverer_peer *d)
{
    return !e->settings || e->settings->transport != TRANSPORT_PULL ||
           !deliverer_is_elsewhere(d);
}

/* Rendezvous hashing over the present owner and the deliverers that have sent heartbeats for at
 * least `healthy_ms`, so that a short silence does not move endpoints away and back. */
static struct deliverer_peer *
best_owner(struct sequencer *q, const struct endpoint *e, int64_t healthy_ms)
{
    struct deliverer_peer *best = NULL;
    uint64_t max = 0;

    for (size_t i = 0; i < q->deliverer_count; i++) {
        struct deliverer_peer *d = q->deliverers[i];

        if (!deliverer_is_here(q, d) || !reaches_consumers(e, d))
            continue;
        if (d != e->owner && q->d.loop.awake_ms - d->healthy_ms < healthy_ms)
            continue;
        if (!best || owner_score(e->name, d->name) > max) {
            best = d;
            max = owner_score(e->name, d->name);
        }
    }
    return best;
}

static void give_grant(struct sequencer *q, struct endpoint *e,
                       struct deliverer_peer *d)
{
    e->owner = d;
    e->grant = random_id();
    lookup_put(&q->grants, e->grant, (size_t)(e - q->endpoints));
    endpoint_list_put(q, e, ENDPOINTS_GRANTED);
    e->config = digest_of(q, e);
    e->granted_pending = q->granted_pending = true;
    e->revoking = e->lossy = false;
    store_endpoint_set(q->store, e->id, d->name, e->grant, e->config);
    q->metrics[METRIC_GRANTS]++;
    log_info(NULL, "granted", LS("endpoint", e->name),
             LS("deliverer", d->name));
}

/* Grant each endpoint without an owner that has something to do; one of the file always. Returns
 * how many have none. */
static int64_t grant_unowned(struct sequencer *q)
{
    int64_t unowned = 0;

    for (size_t i = 0; i < q->lists[ENDPOINTS_AWAKE].count; i++) {
        struct endpoint *e = endpoint_listed(q, ENDPOINTS_AWAKE, i);
        struct deliverer_peer *d;

        if (e->grant || !endpoint_is_on(e) || !e->settings ||
            (e->managed && !e->waiting))
            continue;
        d = best_owner(q, e, 0);
        if (d)
            give_grant(q, e, d);
        unowned += !e->grant;
    }
    return unowned;
}

/* Move endpoints to new deliverers by their hash. */
static void rebalance(struct sequencer *q)
{
    size_t count = q->lists[ENDPOINTS_GRANTED].count;
    bool waiting = false;

    for (size_t i = 0; i < count; i++) {
        struct endpoint *e = endpoint_listed(q, ENDPOINTS_GRANTED, i);
        struct deliverer_peer *d;

        if (!endpoint_is_on(e) || e->revoking || e->revoke)
            continue;
        d = best_owner(q, e, grant_lease_ms());
        if (d && d != e->owner && deliverer_is_here(q, e->owner)) {
            e->revoke = true;
            endpoint_wake(q, e);
        }
        /* A new deliverer may become the better owner when it is healthy for long enough. */
        waiting = waiting ||
                  best_owner(q, e, 0) != best_owner(q, e, grant_lease_ms());
    }
    q->assign = waiting;
}

static void revoke(struct sequencer *q)
{
    for (size_t i = 0; i < q->lists[ENDPOINTS_AWAKE].count; i++) {
        struct endpoint *e = endpoint_listed(q, ENDPOINTS_AWAKE, i);

        if (!e->revoke)
            continue;
        e->revoke = false;
        if (!e->grant || e->revoking)
            continue;
        e->revoking = true;
        links_put(q->d.links, e->owner->name, WIRE_KIND_REVOKE,
                  (int64_t)e->grant);
        log_info(NULL, "revoked", LS("endpoint", e->name),
                 LS("deliverer", e->owner->name));
    }
}

/* Judge silence only when the priority inbox is empty, so that all heartbeats that have arrived
 * were read. Time in which this process was suspended does not count. */
static void judge_silence(struct sequencer *q)
{
    for (size_t i = 0; i < q->deliverer_count; i++) {
        struct deliverer_peer *d = q->deliverers[i];

        if (q->d.priority_empty && !d->heartbeat_ack_pending &&
            q->d.loop.awake_ms - d->acked_ms > q->silence_ms)
            grants_end_all(q, d, "no_heartbeat");
    }
}

int grants_work(struct sequencer *q)
{
    int64_t here = 0;

    judge_silence(q);
    /* Once no attempt that began under the old, longer timeout can still run, use the present
     * one. */
    if (q->d.loop.mono_ms >= q->shorten_ms &&
        q->silence_ms != grant_silence_ms(q->longest_ms)) {
        store_meta_set(q->store, "longest_attempt_ms", q->longest_ms);
        q->silence_ms = grant_silence_ms(q->longest_ms);
    }
    revoke(q);
    if (q->assign)
        rebalance(q);
    q->metrics[METRIC_ENDPOINTS_UNOWNED] = grant_unowned(q);
    for (size_t i = 0; i < q->deliverer_count; i++)
        here += deliverer_is_here(q, q->deliverers[i]);
    q->metrics[METRIC_DELIVERERS] = here;
    return CLOSER_LOOK_MS;
}

/* ---- the configuration ---- */

/* Attempts in flight may have begun under a longer timeout than today's, of
 * this start or of the one before. */
static void keep_longest(struct sequencer *q, int64_t longest_ms)
{
    int64_t before_ms = store_meta(q->store, "longest_attempt_ms");

    q->longest_ms = longest_ms;
    if (before_ms > longest_ms)
        longest_ms = before_ms;
    else if (before_ms < longest_ms)
        store_meta_set(q->store, "longest_attempt_ms", longest_ms);
    q->silence_ms = grant_silence_ms(longest_ms);
    q->shorten_ms = mono_ms() + q->silence_ms;
}

void grants_forget_settings(struct sequencer *q)
{
    for (size_t i = 0; i < q->endpoint_count; i++) {
        if (q->endpoints[i].managed)
            managed_sleep(&q->endpoints[i]);
        q->endpoints[i].settings = NULL;
    }
    subscriptions_free(q->subscriptions);
    q->subscriptions = NULL;
    q->configure = true;
}

/* Once an event could choose, deliveries with choices may be stored for ever. */
static void note_choices(struct sequencer *q, const struct settings *s)
{
    bool can = s->producer_count > 0;

    q->choices = store_meta(q->store, "retry_choices") != 0;
    for (size_t i = 0; i < s->route_count && !can; i++)
        can = !retry_choice_is_empty(&s->routes[i].choice);
    if (can && !q->choices)
        store_meta_set(q->store, "retry_choices", 1);
    q->choices = q->choices || can;
}

/* Sets the digest of all policies. Returns the longest wait of any. */
static int64_t look_at_policies(struct sequencer *q, const struct settings *s)
{
    uint8_t raw[SHA256_BYTES];
    int64_t longest_ms = 0;
    struct buf all;

    buf_init(&all, 64 * RETRY_POLICY_MAX_BYTES);
    for (size_t i = 0; i < s->policy_count; i++) {
        int64_t wait_ms = backoff_longest_ms(&s->policies[i]);

        buf_put(&all, s->policies[i].name, strlen(s->policies[i].name) + 1);
        retry_policy_encode(&s->policies[i], &all);
        longest_ms = wait_ms > longest_ms ? wait_ms : longest_ms;
    }
    sha256((struct bytes){all.data, all.len}, raw);
    q->policies_digest = get_le64(raw);
    buf_fini(&all);
    string_list_fini(&q->unknown_policies);
    return longest_ms;
}

/* The longest attempt that this endpoint can have. */
static int64_t longest_attempt(const struct sequencer *q,
                               const struct settings *s,
                               const struct endpoint_settings *es)
{
    int64_t longest_ms = settings_timeout_ms(es, es->policy);

    for (size_t i = 0; i < s->policy_count && takes_choices(q, es); i++) {
        int64_t ms = settings_timeout_ms(es, &s->policies[i]);

        longest_ms = ms > longest_ms ? ms : longest_ms;
    }
    return longest_ms;
}

void grants_encode_config(struct sequencer *q, struct endpoint *e)
{
    buf_reset(&e->encoded_config); /* all that its deliverer needs */
    endpoint_config_encode(
        e->settings, takes_choices(q, e->settings) ? q->longest_wait_ms : 0,
        &e->encoded_config);
}

bool grants_config_differs(const struct sequencer *q, const struct endpoint *e)
{
    return digest_of(q, e) != e->config;
}

void grants_allow_longer(struct sequencer *q, int64_t longest_ms)
{
    if (longest_ms > q->longest_ms)
        keep_longest(q, longest_ms);
}

/* Give each endpoint of the file its settings, and index the subscriptions. Returns the longest timeout of
 * all. */
static int64_t apply_settings(struct sequencer *q, const struct settings *s)
{
    int64_t longest_ms = LONGEST_MIN_MS, attempt_ms;
    size_t all = s->endpoint_count + s->backfill_count;
    size_t *slots = gr_alloc(all * sizeof *slots);

    q->longest_wait_ms = look_at_policies(q, s);

    for (size_t i = 0; i < all; i++) {
        const struct endpoint_settings *es =
            i < s->endpoint_count ? &s->endpoints[i]
                                  : &s->backfills[i - s->endpoint_count];
        struct endpoint *e = endpoint_find_or_add(q, es->name);

        e->settings = es;
        if (e->gone_after)
            endpoint_changed(q, e);
        e->gone_after = 0;
        slots[i] = (size_t)(e - q->endpoints);
        grants_encode_config(q, e);
        attempt_ms = longest_attempt(q, s, es);
        if (attempt_ms > longest_ms)
            longest_ms = attempt_ms;
    }
    q->subscriptions = subscriptions_new(s, slots, q->endpoint_count);
    free(slots);
    return longest_ms;
}

void grants_configure(struct sequencer *q, const struct settings *s)
{
    int64_t longest_ms;

    if (endpoints_forget_gone(q))
        grants_undo(q);
    grants_forget_settings(q);
    note_choices(q, s);
    longest_ms = apply_settings(q, s);
    managed_configure(q);
    if (managed_longest_ms(q) > longest_ms)
        longest_ms = managed_longest_ms(q);
    keep_longest(q, longest_ms);
    q->configure = false;
    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];

        /* Its settings are read when it wakes. */
        if (e->managed && !e->at[ENDPOINTS_AWAKE] && !e->grant)
            continue;
        e->waiting = true;
        endpoint_wake(q, e);
        if (e->was_off && e->settings && e->settings->enabled)
            endpoint_resumed(q, e);
        e->was_off = e->settings && !e->settings->enabled;
        if (!endpoint_is_configured(e) && !e->gone_after)
            endpoint_note_gone(q, e);
        if (e->managed) {
            e->revoke = e->revoke || (e->grant && !endpoint_is_on(e));
            continue;
        }
        lanes_configure(q, e);
        if (!e->settings || !e->settings->guard)
            endpoint_end_hold(q, e);
        if (e->grant && (!endpoint_is_on(e) || digest_of(q, e) != e->config))
            e->revoke = true;
    }
    q->assign = true;
}

/* ---- a start, and a rolled back turn ---- */

void grants_open(struct sequencer *q)
{
    q->configure = true;
    deliverers_load(q);
    endpoints_load(q);
}

/* Read endpoints and the database id of each deliverer from disk again, so that a changed id
 * is noticed again. The times of heartbeats stay. A revocation that is forgotten here is
 * repeated if it is still needed. */
void grants_undo(struct sequencer *q)
{
    endpoints_unload(q);
    grants_open(q);
}

void grants_close(struct sequencer *q)
{
    endpoints_unload(q);
    deliverers_close(q);
    string_list_fini(&q->unknown_policies);
}
