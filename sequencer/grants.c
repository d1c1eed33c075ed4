/* grants: which deliverer is whose home. docs/ARCHITECTURE.md tells the
 * protocol, tests/model/grants.pml is its specification. The rules, once more:
 *
 *   a grant is on disk before anything goes out under it
 *   it ends by `drained`, or by silence longer than the lease, the longest
 *   attempt and a margin, counted from our last answer; or with its home's disk
 *   what is not confirmed to a deliverer within its lease, it does not begin */
#include "clock.h"
#include "grants_inside.h"
#include "home.h"
#include "log.h"
#include "store.h"
#include <string.h>

enum { CLOSER_LOOK_MS = 100 }; /* how often silence is judged, at the least */

/* ---- a grant's end ---- */

struct endpoint *grants_endpoint_under(struct sequencer *q, uint64_t grant,
                                       const struct deliverer *d)
{
    size_t i, at = 0;

    while ((i = lookup_next(&q->grants, grant, &at)) != LOOKUP_END)
        if (q->endpoints[i].home == d)
            return &q->endpoints[i];
    return NULL;
}

static void end_grant(struct sequencer *q, struct endpoint *e)
{
    if (e->home) {
        e->home->out -= e->out;
        if (e->home->out < 0)
            e->home->out = 0;
    }
    lookup_drop(&q->grants, e->grant, (size_t)(e - q->endpoints));
    e->home = NULL;
    e->grant = 0;
    e->out = 0;
    e->recall = e->recalling = e->say_granted = false;
    e->sweeping = true;
    store_endpoint_set(q->store, e->id, "", 0, 0);
    q->metrics[METRIC_GRANTS_ENDED]++;
    q->place = true;
}

void grants_end_all(struct sequencer *q, struct deliverer *d, const char *why)
{
    int count = 0;

    for (size_t i = 0; i < q->endpoint_count; i++) {
        if (q->endpoints[i].grant && q->endpoints[i].home == d) {
            end_grant(q, &q->endpoints[i]);
            count++;
        }
    }
    d->out = 0;
    if (count)
        log_warn(NULL, "grants ended", LS("deliverer", d->name),
                 LI("endpoints", count), LS("reason", why));
}

void grants_drained(struct sequencer *q, const char *from, uint64_t grant)
{
    struct deliverer *d = grants_deliverer(q, from);
    struct endpoint *e = grants_endpoint_under(q, grant, d);

    if (!e)
        return;
    if (!e->recalling) /* it drains by itself: it is leaving */
        d->leaving_run = d->run;
    log_info(NULL, "drained", LS("endpoint", e->name), LS("deliverer", from));
    if (!e->lossy)
        e->drained = grant;
    end_grant(q, e);
}

/* Our numbering was set back with us: receivers must not compare. Once in a start:
 * every peer with newer rows says the same. */
static void begin_series(struct sequencer *q)
{
    if (q->series_begun)
        return;
    q->series_begun = true;
    q->series = random_id();
    q->metrics[METRIC_SERIES]++;
    store_meta_set(q->store, "series", (int64_t)q->series);
    log_warn(NULL,
             "this database is an older copy: a new series of sequence numbers "
             "begins",
             LI("series", q->series));
}

/* Which grants the deliverers had in the time that is lost is not known: they give
 * back all that are ours. */
void grants_restored(struct sequencer *q)
{
    begin_series(q);
    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];

        if (!e->grant || !e->home)
            continue;
        e->config = 0; /* recalled as if its configuration had changed */
        store_endpoint_set(q->store, e->id, e->home->name, e->grant, 0);
    }
}

void grants_set_back(struct sequencer *q, const char *peer, bool we_are_older)
{
    if (we_are_older)
        begin_series(q);
    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];

        if (!e->grant || !e->home || strcmp(e->home->name, peer) != 0)
            continue;
        e->recall = true;
        e->recalling = false; /* it may not know of that any more */
    }
}

/* ---- homes ---- */

bool grants_is_here(const struct sequencer *q, const struct deliverer *d)
{
    return d->beat_ms && d->run != d->leaving_run &&
           q->d.loop.awake_ms - d->beat_ms < grant_lease_ms();
}

/* Rendezvous hashing over those who are here since `healthy_ms` at least, and
 * the present home: a moment's silence is no reason to move away and back. */
static struct deliverer *best_home(struct sequencer *q,
                                   const struct endpoint *e, int64_t healthy_ms)
{
    struct deliverer *best = NULL;
    uint64_t most = 0;

    for (size_t i = 0; i < q->deliverer_count; i++) {
        struct deliverer *d = q->deliverers[i];

        if (!grants_is_here(q, d))
            continue;
        if (d != e->home && q->d.loop.awake_ms - d->healthy_ms < healthy_ms)
            continue;
        if (!best || home_score(e->name, d->name) > most) {
            best = d;
            most = home_score(e->name, d->name);
        }
    }
    return best;
}

static void give_grant(struct sequencer *q, struct endpoint *e,
                       struct deliverer *d)
{
    e->home = d;
    e->grant = random_id();
    lookup_put(&q->grants, e->grant, (size_t)(e - q->endpoints));
    e->config = grants_digest(e);
    e->say_granted = q->say_granted = true;
    e->recalling = e->lossy = false;
    store_endpoint_set(q->store, e->id, d->name, e->grant, e->config);
    q->metrics[METRIC_GRANTS]++;
    log_info(NULL, "granted", LS("endpoint", e->name),
             LS("deliverer", d->name));
}

/* Homes for those who have none; joiners get what hashes to them. */
static void place(struct sequencer *q)
{
    bool waiting = false;

    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];
        struct deliverer *d;

        if (!endpoint_is_on(e) || e->recalling || e->recall)
            continue;
        d = best_home(q, e, e->grant ? grant_lease_ms() : 0);
        if (!e->grant && d)
            give_grant(q, e, d);
        else if (e->grant && d && d != e->home && grants_is_here(q, e->home))
            e->recall = true;
        /* A young deliverer may be the better home when it has lasted. */
        waiting = waiting || !e->grant ||
                  best_home(q, e, 0) != best_home(q, e, grant_lease_ms());
    }
    q->place = waiting;
}

static void recall(struct sequencer *q)
{
    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];

        if (!e->recall)
            continue;
        e->recall = false;
        if (!e->grant || e->recalling)
            continue;
        e->recalling = true;
        hop_put(q->d.hop, e->home->name, WIRE_KIND_RECALLED, (int64_t)e->grant);
        log_info(NULL, "recalled", LS("endpoint", e->name),
                 LS("deliverer", e->home->name));
    }
}

/* Silence is judged only when all heartbeats that have come were read (they come to the
 * priority inbox), and time in which we stood still ourselves does not count. */
static void judge_silence(struct sequencer *q)
{
    for (size_t i = 0; i < q->deliverer_count; i++) {
        struct deliverer *d = q->deliverers[i];

        if (q->d.priority_empty && !d->say_pulse &&
            q->d.loop.awake_ms - d->answered_ms > q->silence_ms)
            grants_end_all(q, d,
                           "it has been silent for longer than its lease");
    }
}

int grants_work(struct sequencer *q)
{
    int64_t homeless = 0, here = 0;

    judge_silence(q);
    grants_forget_longest(q);
    recall(q);
    if (q->place)
        place(q);
    for (size_t i = 0; i < q->endpoint_count; i++)
        homeless += endpoint_is_on(&q->endpoints[i]) && !q->endpoints[i].grant;
    for (size_t i = 0; i < q->deliverer_count; i++)
        here += grants_is_here(q, q->deliverers[i]);
    q->metrics[METRIC_ENDPOINTS_HOMELESS] = homeless;
    q->metrics[METRIC_DELIVERERS] = here;
    return CLOSER_LOOK_MS;
}
