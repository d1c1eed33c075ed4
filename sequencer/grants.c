/* grants: which deliverer is whose home. docs/ARCHITECTURE.md tells the
 * protocol, tests/model/grants.pml is its specification. The rules, once more:
 *
 *   a grant is on disk before anything goes out under it
 *   it ends by `drained`, or by silence longer than the lease, the longest
 *   attempt and a margin, counted from our last answer; or with its home's disk
 *   what is not confirmed to a deliverer within its lease, it does not begin */
#include "clock.h"
#include "endpoint_config.h"
#include "log.h"
#include "runs.h"
#include "store.h"
#include "store_lanes.h"
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum {
    LONGEST_LEAST_MS = 1000,
    CLOSER_LOOK_MS = 100, /* how often silence is judged, at the least */
};

/* ---- endpoints ---- */

struct endpoint *endpoint_find(struct sequencer *q, const char *name)
{
    for (size_t i = 0; i < q->endpoint_count; i++)
        if (strcmp(q->endpoints[i].name, name) == 0)
            return &q->endpoints[i];
    return NULL;
}

struct endpoint *endpoint_by_id(struct sequencer *q, int64_t id)
{
    for (size_t i = 0; i < q->endpoint_count; i++)
        if (q->endpoints[i].id == id)
            return &q->endpoints[i];
    return NULL;
}

static struct endpoint *endpoint_new(struct sequencer *q, int64_t id,
                                     const char *name)
{
    struct endpoint *e;

    if (id >= ENDPOINTS_MAX)
        die(EXIT_CONFIG,
            "endpoints: there can be at most %d in all, removed "
            "ones included",
            ENDPOINTS_MAX - 1);
    q->endpoints = gr_realloc(q->endpoints,
                              (q->endpoint_count + 1) * sizeof *q->endpoints);
    e = &q->endpoints[q->endpoint_count++];
    *e = (struct endpoint){.id = id,
                           .sweeping = true,
                           .waiting = true,
                           .ordered = -1,
                           .turn = INT64_MIN};
    buf_init(&e->carried, ENDPOINT_CONFIG_MAX_BYTES);
    wire_copy(e->name, sizeof e->name, wire_text(name));
    return e;
}

struct endpoint *endpoint_adopt(struct sequencer *q, const char *name)
{
    struct endpoint *e = endpoint_find(q, name);

    return e ? e : endpoint_new(q, store_endpoint_add(q->store, name), name);
}

static struct deliverer *deliverer_find(struct sequencer *q, const char *name)
{
    struct deliverer *d;

    for (size_t i = 0; i < q->deliverer_count; i++)
        if (strcmp(q->deliverers[i]->name, name) == 0)
            return q->deliverers[i];
    d = gr_alloc(sizeof *d);
    wire_copy(d->name, sizeof d->name, wire_text(name));
    d->answered_ms = q->started_ms;
    q->deliverers = gr_realloc(q->deliverers, (q->deliverer_count + 1) *
                                                  sizeof(struct deliverer *));
    q->deliverers[q->deliverer_count++] = d;
    return d;
}

static void on_deliverer_row(void *arg, const char *name, uint64_t store)
{
    deliverer_find(arg, name)->store = store;
}

static void on_endpoint_row(void *arg, const struct endpoint_row *r)
{
    struct sequencer *q = arg;
    struct endpoint *e = endpoint_new(q, r->id, r->name);

    e->grant = r->grant;
    e->config = r->config;
    e->ordered = r->ordered;
    e->state = (enum endpoint_state)r->state;
    e->since_ms = r->since_ms;
    wire_copy(e->why, sizeof e->why, wire_text(r->why));
    e->failing_ms = r->failing_ms;
    e->warned = r->warned;
    e->paused_ms = r->paused_ms;
    if (r->grant)
        e->home = deliverer_find(q, r->home);
}

static void read_endpoints(struct sequencer *q)
{
    store_endpoints(q->store, on_endpoint_row, q);
    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];

        e->halts = store_halt_count(q->lanes, e->id);
        if (!e->grant)
            continue;
        e->out = store_count_in_flight(q->store, e->id, e->grant);
        e->home->out += e->out;
    }
}

void grants_open(struct sequencer *q)
{
    store_deliverers(q->store, on_deliverer_row, q);
    read_endpoints(q);
    q->configure = true;
}

static void forget_endpoints(struct sequencer *q)
{
    for (size_t i = 0; i < q->endpoint_count; i++)
        buf_fini(&q->endpoints[i].carried);
    free(q->endpoints);
    q->endpoints = NULL;
    q->endpoint_count = 0;
}

/* Endpoints, and which disk each deliverer has, as our disk has them (another
 * disk is to be noticed again); who was heard when is not on it and stays.
 * A recall that is forgotten here is made again when it is still wanted. */
void grants_undo(struct sequencer *q)
{
    forget_endpoints(q);
    for (size_t i = 0; i < q->deliverer_count; i++) {
        q->deliverers[i]->out = 0;
        q->deliverers[i]->store = 0;
    }
    store_deliverers(q->store, on_deliverer_row, q);
    read_endpoints(q);
    q->configure = true;
}

void grants_close(struct sequencer *q)
{
    forget_endpoints(q);
    for (size_t i = 0; i < q->deliverer_count; i++) {
        free(q->deliverers[i]->wanted);
        free(q->deliverers[i]);
    }
    free(q->deliverers);
    q->deliverers = NULL;
    q->deliverer_count = 0;
}

/* ---- what a grant carries ---- */

/* All that an attempt needs, encoded into e->carried. */
static void carry(struct endpoint *e)
{
    buf_reset(&e->carried);
    endpoint_config_encode(e->settings, &e->carried);
}

static int64_t digest(struct bytes text)
{
    uint8_t raw[EVP_MAX_MD_SIZE] = {0};

    EVP_Digest(text.p, text.n, raw, NULL, EVP_sha256(), NULL);
    return (int64_t)(get_le64(raw) & INT64_MAX);
}

/* What is in flight may have been begun under a longer timeout than today's, of
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

/* When nothing of then can be in flight any more, today's is enough. */
static void forget_longest(struct sequencer *q)
{
    if (q->d.loop.mono_ms < q->shorten_ms ||
        q->silence_ms == grant_silence_ms(q->longest_ms))
        return;
    store_meta_set(q->store, "longest_attempt_ms", q->longest_ms);
    q->silence_ms = grant_silence_ms(q->longest_ms);
}

void grants_forget_settings(struct sequencer *q)
{
    for (size_t i = 0; i < q->endpoint_count; i++)
        q->endpoints[i].settings = NULL;
    q->configure = true;
}

/* After a start or a reload: whose configuration changed is recalled and gets
 * a new grant that carries the new one. Rows only; the rest is the turn's. */
void grants_configure(struct sequencer *q, const struct settings *s)
{
    int64_t longest_ms = LONGEST_LEAST_MS;

    for (size_t i = 0; i < q->endpoint_count; i++)
        q->endpoints[i].settings = NULL;
    for (size_t i = 0; i < s->endpoint_count + s->backfill_count; i++) {
        const struct endpoint_settings *es =
            i < s->endpoint_count ? &s->endpoints[i]
                                  : &s->backfills[i - s->endpoint_count];
        struct endpoint *e = endpoint_adopt(q, es->name);

        e->settings = es;
        carry(e);
        if (es->timeout_ms > longest_ms)
            longest_ms = es->timeout_ms;
    }
    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];

        e->waiting = true;
        lanes_configure(q, e);
        if (e->grant && (!endpoint_is_on(e) ||
                         digest((struct bytes){e->carried.data,
                                               e->carried.len}) != e->config))
            e->recall = true;
    }
    keep_longest(q, longest_ms);
    q->place = true;
    q->configure = false;
}

/* ---- a grant's end ---- */

static void end_grant(struct sequencer *q, struct endpoint *e)
{
    if (e->home) {
        e->home->out -= e->out;
        if (e->home->out < 0)
            e->home->out = 0;
    }
    e->home = NULL;
    e->grant = 0;
    e->out = 0;
    e->recall = e->recalling = e->say_granted = false;
    e->sweeping = true;
    store_endpoint_set(q->store, e->id, "", 0, 0);
    q->metrics[METRIC_GRANTS_ENDED]++;
    q->place = true;
}

static void end_all(struct sequencer *q, struct deliverer *d, const char *why)
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
                 LI("endpoints", count), LS("why", why));
}

void grants_drained(struct sequencer *q, const char *from, uint64_t grant)
{
    struct deliverer *d = deliverer_find(q, from);

    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];

        if (e->grant != grant || e->home != d)
            continue;
        if (!e->recalling) /* it drains by itself: it is leaving */
            d->leaving_run = d->run;
        log_info(NULL, "drained", LS("endpoint", e->name),
                 LS("deliverer", from));
        end_grant(q, e);
        return;
    }
}

void grants_set_back(struct sequencer *q, const char *peer, bool we_are_older)
{
    if (we_are_older) {
        /* Our numbering was set back with us: receivers must not compare. */
        q->series = random_id();
        q->metrics[METRIC_SERIES]++;
        store_meta_set(q->store, "series", (int64_t)q->series);
        log_warn(NULL,
                 "this database is an older copy: a new series of "
                 "sequence numbers begins",
                 LI("series", q->series));
    }
    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];

        if (!e->grant || !e->home || strcmp(e->home->name, peer) != 0)
            continue;
        e->recall = true;
        e->recalling = false; /* it may not know of that any more */
    }
}

/* ---- beats ---- */

static void keep_wanted(struct deliverer *d, const struct wire_beat *b)
{
    const uint8_t *p = b->wanted.p;

    free(d->wanted);
    d->wanted_count = b->wanted.n / 8;
    d->wanted = gr_alloc(d->wanted_count * sizeof *d->wanted);
    for (size_t i = 0; i < d->wanted_count; i++, p += 8)
        d->wanted[i] = get_le64(p);
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
    d = deliverer_find(q, name);
    if (d->store != b->store) {
        if (d->store)
            end_all(q, d, "it came back with another disk");
        d->store = b->store;
        store_deliverer_set(q->store, name, b->store);
    }
    /* Whoever leaves does not beat: it drained for another reason. */
    if (d->leaving_run == b->run)
        d->leaving_run = 0;
    if (d->run != b->run || now - d->beat_ms > grant_lease_ms() ||
        !d->beat_ms) {
        d->healthy_ms = now;
        q->place = true;
        if (d->run != b->run)
            log_info(NULL, "a deliverer is here", LS("deliverer", name));
    }
    d->run = b->run;
    d->stamp_ms = b->stamp_ms;
    d->beat_ms = now;
    d->say_pulse = true;
    wire_copy(d->inbox, sizeof d->inbox, b->inbox);
    keep_wanted(d, b);
}

/* ---- homes ---- */

static uint64_t score(const struct endpoint *e, const struct deliverer *d)
{
    uint64_t h = 1469598103934665603ULL;

    for (const char *p = e->name; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211ULL;
    h = (h ^ 0xff) * 1099511628211ULL;
    for (const char *p = d->name; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211ULL;
    h ^= h >> 33; /* splitmix: neighbours in, strangers out */
    h *= 0xff51afd7ed558ccdULL;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53ULL;
    return h ^ h >> 33;
}

static bool is_here(const struct sequencer *q, const struct deliverer *d)
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

        if (!is_here(q, d))
            continue;
        if (d != e->home && q->d.loop.awake_ms - d->healthy_ms < healthy_ms)
            continue;
        if (!best || score(e, d) > most) {
            best = d;
            most = score(e, d);
        }
    }
    return best;
}

static void give_grant(struct sequencer *q, struct endpoint *e,
                       struct deliverer *d)
{
    e->home = d;
    e->grant = random_id();
    e->config = digest((struct bytes){e->carried.data, e->carried.len});
    e->say_granted = true;
    e->recalling = false;
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
        else if (e->grant && d && d != e->home && is_here(q, e->home))
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

/* Silence is judged only when all that has come was read, and time in which we
 * stood still ourselves does not count. */
static void judge_silence(struct sequencer *q)
{
    for (size_t i = 0; i < q->deliverer_count; i++) {
        struct deliverer *d = q->deliverers[i];

        if (q->d.inbox_empty && !d->say_pulse &&
            q->d.loop.awake_ms - d->answered_ms > q->silence_ms)
            end_all(q, d, "it has been silent for longer than its lease");
    }
}

int grants_work(struct sequencer *q)
{
    int64_t homeless = 0, here = 0;

    judge_silence(q);
    forget_longest(q);
    recall(q);
    if (q->place)
        place(q);
    for (size_t i = 0; i < q->endpoint_count; i++)
        homeless += endpoint_is_on(&q->endpoints[i]) && !q->endpoints[i].grant;
    for (size_t i = 0; i < q->deliverer_count; i++)
        here += is_here(q, q->deliverers[i]);
    q->metrics[METRIC_ENDPOINTS_HOMELESS] = homeless;
    q->metrics[METRIC_DELIVERERS] = here;
    return CLOSER_LOOK_MS;
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
    struct wire_pulse p = {.from = wire_text(q->d.name),
                           .inbox = wire_text(mailbox_address(q->d.mailbox)),
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

static void say_granted(struct sequencer *q, struct deliverer *d,
                        struct endpoint *e)
{
    struct wire_granted g = {
        .from = wire_text(q->d.name),
        .inbox = wire_text(mailbox_address(q->d.mailbox)),
        .run = d->run,
        .stamp_ms = d->stamp_ms,
        .grant = e->grant,
        .endpoint = wire_text(e->name),
        .config = (struct bytes){e->carried.data, e->carried.len}};
    struct buf b;

    buf_init(&b, FRAME_MAX_BYTES);
    wire_put_granted(&b, &g);
    (void)!say(q, d, &b); /* not heard? It asks when it has work */
}

static void say_voided(struct sequencer *q, struct deliverer *d, uint64_t grant)
{
    struct wire_voided v = {.from = wire_text(q->d.name),
                            .inbox = wire_text(mailbox_address(q->d.mailbox)),
                            .grant = grant};
    struct buf b;

    buf_init(&b, FRAME_MAX_BYTES);
    wire_put_voided(&b, &v);
    (void)!say(q, d, &b);
}

static void answer_wanted(struct sequencer *q, struct deliverer *d)
{
    for (size_t k = 0; k < d->wanted_count; k++) {
        struct endpoint *e = NULL;

        for (size_t i = 0; i < q->endpoint_count && !e; i++)
            if (q->endpoints[i].grant == d->wanted[k] &&
                q->endpoints[i].home == d)
                e = &q->endpoints[i];
        if (!e)
            say_voided(q, d, d->wanted[k]);
        else if (e->settings)
            say_granted(q, d, e);
    }
    d->wanted_count = 0;
}

void grants_tell(struct sequencer *q)
{
    for (size_t i = 0; i < q->deliverer_count; i++) {
        struct deliverer *d = q->deliverers[i];

        if (!d->say_pulse)
            continue;
        say_pulse(q, d);
        answer_wanted(q, d);
    }
    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];

        if (e->say_granted && e->home && e->home->beat_ms)
            say_granted(q, e->home, e);
        e->say_granted = false;
    }
}
