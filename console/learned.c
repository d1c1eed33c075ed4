/* learned: watches sources and endpoints, and stores what is usual for them. */
#include "learned.h"
#include "clock.h"
#include "console.h"
#include "glob.h"
#include "log.h"
#include "lookup.h"
#include "siphash.h"
#include "status_mix.h"
#include "usual.h"
#include <stdlib.h>
#include <string.h>

enum {
    ENDPOINTS_MAX =
        4000, /* that are learned; names of endpoints come from many people */
    GAPS =
        3, /* evaluations without a look in between, then the time was not observed */
};
#define NEW_MS \
    (7 *       \
     DAY_MS) /* a reason that was not seen for so long is new, if its source was watched for so long … */
#define NEW_FIRES_MS HOUR_MS       /* … and its alert fires for so long */
#define FORGET_MS    (28 * DAY_MS) /* what was not seen for so long */
#define LISTED_MS \
    DAY_MS /* an endpoint without responses for so long has no alert */
#define SLACK_MS (10 * SECOND_MS)

static const char own_reasons[] =
    "stopping disk_* replication_stalled backlog_full store_slow bodies_full "
    "types_unknown";

struct counter {
    double sum;       /* what the processes say in this look */
    double counted;   /* of it, until the last look */
    double committed; /* … whose transaction was committed */
};

struct learned_source {
    char name[NAME_MAX_BYTES + 1];
    struct usual usual;
    int64_t event_ms; /* of its last event; 0: none is known */
    struct counter accepted;
    struct counter own; /* requests that ingress refused for its own reasons */
    int64_t last_ms;    /* the newest event, as ingress says in this look */
    bool there;         /* in the configuration */
};

struct learned_endpoint {
    char name[NAME_MAX_BYTES + 1];
    struct mix mix;
    int64_t seen_ms; /* wall: its last response */
    struct counter responses[MIX_COUNT];
};

/* As they are in a row. */
#define MIX_LISTS(mix)                                             \
    {                                                              \
        (mix).now, (mix).last, (mix).past, (mix).peak, (mix).worst \
    }

struct learned_refusal {
    char source[NAME_MAX_BYTES + 1], reason[NAME_MAX_BYTES + 1];
    int64_t seen_ms, new_ms, stored_ms;
    struct counter refused;
};

struct learned {
    struct console *c;
    struct lookup sources, endpoints, refusals; /* by name; of refusals both */
    size_t endpoint_count;
    int64_t looked_ms;  /* mono: the last look; 0: none */
    int64_t purged_ms;  /* mono */
    bool ingress_heard; /* in the last look */
    bool looked;        /* … which is not committed yet */
    stmt *source_get, *source_put, *hours_get, *hours_put, *endpoint_all,
        *endpoint_put, *refusal_all, *refusal_put, *source_cut, *hours_cut,
        *endpoint_cut, *refusal_cut, *source_all;
};

/* ---- memory ---- */

static void set_name(char out[NAME_MAX_BYTES + 1], const char *name)
{
    snprintf(out, NAME_MAX_BYTES + 1, "%.*s", NAME_MAX_BYTES, name);
}

static struct learned_source *source_of(struct learned *l, const char *name,
                                        bool make)
{
    uint64_t key = lookup_text(name);
    struct learned_source *s;

    for (size_t at = 0; (s = lookup_get(&l->sources, key, &at));)
        if (strcmp(s->name, name) == 0)
            return s;
    if (!make)
        return NULL;
    s = gr_alloc(sizeof *s);
    set_name(s->name, name);
    usual_init(&s->usual);
    lookup_add(&l->sources, key, s);
    return s;
}

/* NULL: there are too many. */
static struct learned_endpoint *endpoint_of(struct learned *l, const char *name)
{
    uint64_t key = lookup_text(name);
    struct learned_endpoint *e;

    for (size_t at = 0; (e = lookup_get(&l->endpoints, key, &at));)
        if (strcmp(e->name, name) == 0)
            return e;
    if (l->endpoint_count >= ENDPOINTS_MAX)
        return NULL;
    e = gr_alloc(sizeof *e);
    set_name(e->name, name);
    lookup_add(&l->endpoints, key, e);
    l->endpoint_count++;
    return e;
}

static struct learned_refusal *refusal_of(struct learned *l, const char *source,
                                          const char *reason)
{
    uint64_t key = hash_keyed_text(lookup_text(source), reason);
    struct learned_refusal *r;

    for (size_t at = 0; (r = lookup_get(&l->refusals, key, &at));)
        if (strcmp(r->source, source) == 0 && strcmp(r->reason, reason) == 0)
            return r;
    r = gr_alloc(sizeof *r);
    set_name(r->source, source);
    set_name(r->reason, reason);
    lookup_add(&l->refusals, key, r);
    return r;
}

static void free_all(struct lookup *l)
{
    void *thing;

    for (size_t at = 0; (thing = lookup_walk(l, &at));)
        free(thing);
    lookup_fini(l);
}

/* ---- rows ---- */

static void load_sources(struct learned *l)
{
    struct db *db = l->c->daemon.db;

    while (db_step(db, l->source_all)) {
        struct learned_source *s = source_of(l, col_text(l->source_all, 0),
                                             true);
        struct learned_source_row row;
        int i = 0;

        ROW_READ(LEARNED_SOURCE_COLUMNS, l->source_all, i, &row);
        usual_init(&s->usual);
        s->event_ms = row.event_ms;
        s->usual.now = (struct usual_now){
            row.hour,     row.count,          row.observed_ms, row.learned_ms,
            row.expected, row.missing,        row.pause_ms,    row.overdue,
            row.longest,  row.longest_overdue};
        bind_text(l->hours_get, 1, s->name);
        if (db_step(db, l->hours_get) &&
            usual_hours_read(&s->usual, col_blob(l->hours_get, 0)) != GR_OK) {
            log_warn(NULL,
                     "the learned rates of a source are unreadable; they are "
                     "learned anew",
                     LS("source", s->name));
            usual_init(&s->usual);
        }
        db_done(l->hours_get);
    }
}

static void load_endpoints(struct learned *l)
{
    while (db_step(l->c->daemon.db, l->endpoint_all)) {
        struct learned_endpoint *e = endpoint_of(l,
                                                 col_text(l->endpoint_all, 0));
        struct bytes counts = col_blob(l->endpoint_all, 4);
        const size_t each = sizeof e->mix.now;

        if (!e)
            continue;
        double *const lists[] = MIX_LISTS(e->mix);

        e->seen_ms = col_i64(l->endpoint_all, 1);
        e->mix = (struct mix){.learned_ms = col_real(l->endpoint_all, 2),
                              .hour_ms = col_real(l->endpoint_all, 3)};
        if (counts.n == COUNT_OF(lists) * each)
            for (size_t i = 0; i < COUNT_OF(lists); i++)
                memcpy(lists[i], (const char *)counts.p + i * each, each);
        else
            e->mix = (struct mix){0};
        if (!mix_is_sane(&e->mix))
            e->mix = (struct mix){0};
    }
}

static void load_refusals(struct learned *l)
{
    stmt *q = l->refusal_all;

    while (db_step(l->c->daemon.db, q)) {
        struct learned_refusal *r = refusal_of(l, col_text(q, 0),
                                               col_text(q, 1));

        r->seen_ms = r->stored_ms = col_i64(q, 2);
        r->new_ms = col_i64(q, 3);
    }
}

static void load_all(struct learned *l)
{
    load_sources(l);
    load_endpoints(l);
    load_refusals(l);
}

static void put_source(struct learned *l, struct learned_source *s,
                       bool hour_ended)
{
    struct db *db = l->c->daemon.db;
    const struct usual_now *n = &s->usual.now;
    const struct learned_source_row row = {
        .source = s->name,
        .seen_ms = l->c->daemon.loop.now_ms,
        .event_ms = s->event_ms,
        .hour = n->hour,
        .count = n->count,
        .observed_ms = n->observed_ms,
        .learned_ms = n->learned_ms,
        .expected = n->expected,
        .missing = n->missing,
        .pause_ms = n->pause_ms,
        .overdue = n->overdue,
        .longest = n->longest,
        .longest_overdue = n->longest_overdue};
    uint8_t hours[USUAL_HOURS_BYTES];
    int i = 0;

    ROW_BIND(LEARNED_SOURCE_COLUMNS, l->source_put, i, &row);
    db_run(db, l->source_put);
    if (!hour_ended)
        return;
    usual_hours_write(&s->usual, hours);
    bind_text(l->hours_put, 1, s->name);
    bind_blob(l->hours_put, 2, (struct bytes){hours, sizeof hours});
    db_run(db, l->hours_put);
}

static void put_endpoint(struct learned *l, const struct learned_endpoint *e)
{
    const double *const lists[] = MIX_LISTS(e->mix);
    double counts[COUNT_OF(lists)][MIX_COUNT];

    for (size_t i = 0; i < COUNT_OF(lists); i++)
        memcpy(counts[i], lists[i], sizeof counts[i]);
    bind_text(l->endpoint_put, 1, e->name);
    bind_i64(l->endpoint_put, 2, e->seen_ms);
    bind_real(l->endpoint_put, 3, e->mix.learned_ms);
    bind_real(l->endpoint_put, 4, e->mix.hour_ms);
    bind_blob(l->endpoint_put, 5, (struct bytes){counts, sizeof counts});
    db_run(l->c->daemon.db, l->endpoint_put);
}

static void put_refusal(struct learned *l, struct learned_refusal *r)
{
    r->stored_ms = r->seen_ms;
    bind_text(l->refusal_put, 1, r->source);
    bind_text(l->refusal_put, 2, r->reason);
    bind_i64(l->refusal_put, 3, r->seen_ms);
    bind_i64(l->refusal_put, 4, r->new_ms);
    db_run(l->c->daemon.db, l->refusal_put);
}

/* Rows of what is no longer there. Memory keeps them until the next start. */
static void purge(struct learned *l)
{
    const struct daemon *d = &l->c->daemon;
    stmt *const cuts[] = {l->source_cut, l->endpoint_cut, l->refusal_cut};

    if (l->purged_ms && d->loop.mono_ms - l->purged_ms < HOUR_MS)
        return;
    l->purged_ms = d->loop.mono_ms;
    for (size_t i = 0; i < COUNT_OF(cuts); i++) {
        bind_i64(cuts[i], 1,
                 retention_before(&d->retention, d->loop.now_ms, FORGET_MS));
        db_run(d->db, cuts[i]);
    }
    db_run(d->db, l->hours_cut);
}

struct learned *learned_open(struct console *c)
{
    struct learned *l = gr_alloc(sizeof *l);
    struct db *db = c->daemon.db;

    *l = (struct learned){.c = c};
    l->source_all = db_prepare(
        db,
        "SELECT " ROW_NAMES(LEARNED_SOURCE_COLUMNS) " FROM learned_sources");
    l->source_put = db_prepare(
        db,
        ROW_REPLACE_WITH("learned_sources", LEARNED_SOURCE_COLUMNS, "", ""));
    l->hours_get = db_prepare(
        db, "SELECT rates FROM learned_hours WHERE source = ?");
    l->hours_put = db_prepare(
        db, "INSERT OR REPLACE INTO learned_hours(source, rates) VALUES(?, ?)");
    l->endpoint_all = db_prepare(
        db, "SELECT endpoint, seen_ms, learned_ms, hour_ms, counts "
            "FROM learned_endpoints ORDER BY seen_ms DESC");
    l->endpoint_put = db_prepare(
        db, "INSERT OR REPLACE INTO learned_endpoints(endpoint, seen_ms, "
            "learned_ms, hour_ms, counts) VALUES(?, ?, ?, ?, ?)");
    l->refusal_all = db_prepare(
        db, "SELECT source, reason, seen_ms, new_ms FROM learned_refusals");
    l->refusal_put = db_prepare(
        db, "INSERT OR REPLACE INTO learned_refusals(source, reason, seen_ms, "
            "new_ms) VALUES(?, ?, ?, ?)");
    l->source_cut = db_prepare(db,
                               "DELETE FROM learned_sources WHERE seen_ms < ?");
    l->hours_cut = db_prepare(
        db, "DELETE FROM learned_hours WHERE source NOT IN (SELECT source FROM "
            "learned_sources)");
    l->endpoint_cut = db_prepare(
        db, "DELETE FROM learned_endpoints WHERE seen_ms < ?");
    l->refusal_cut = db_prepare(
        db, "DELETE FROM learned_refusals WHERE seen_ms < ?");
    load_all(l);
    return l;
}

void learned_close(struct learned *l)
{
    if (!l)
        return;
    free_all(&l->sources);
    free_all(&l->endpoints);
    free_all(&l->refusals);
    free(l);
}

static void undo_source(struct learned_source *s)
{
    usual_init(&s->usual);
    s->event_ms = 0;
    s->accepted.counted = s->accepted.committed;
    s->own.counted = s->own.committed;
}

static void undo_endpoint(struct learned_endpoint *e)
{
    e->mix = (struct mix){0};
    e->seen_ms = 0;
    for (int i = 0; i < MIX_COUNT; i++)
        e->responses[i].counted = e->responses[i].committed;
}

static void undo_refusal(struct learned_refusal *r)
{
    r->seen_ms = r->new_ms = r->stored_ms = 0;
    r->refused.counted = r->refused.committed;
}

/* What is not in the database is as if it had never been seen, and the next look counts it again. */
void learned_undo(struct learned *l)
{
    void *one;

    if (!l->looked)
        return;
    l->looked = false;
    for (size_t at = 0; (one = lookup_walk(&l->sources, &at));)
        undo_source(one);
    for (size_t at = 0; (one = lookup_walk(&l->endpoints, &at));)
        undo_endpoint(one);
    for (size_t at = 0; (one = lookup_walk(&l->refusals, &at));)
        undo_refusal(one);
    load_all(l);
    l->looked_ms = 0;
}

void learned_flush(struct learned *l)
{
    struct learned_source *s;
    struct learned_endpoint *e;
    struct learned_refusal *r;

    if (!l->looked)
        return;
    l->looked = false;
    for (size_t at = 0; (s = lookup_walk(&l->sources, &at));) {
        s->accepted.committed = s->accepted.counted;
        s->own.committed = s->own.counted;
    }
    for (size_t at = 0; (e = lookup_walk(&l->endpoints, &at));)
        for (int i = 0; i < MIX_COUNT; i++)
            e->responses[i].committed = e->responses[i].counted;
    for (size_t at = 0; (r = lookup_walk(&l->refusals, &at));)
        r->refused.committed = r->refused.counted;
}

/* ---- a look ---- */

/* NULL: no process has published it. */
static const struct collected *series_of(const struct learned *l,
                                         const char *metric)
{
    const struct collected_metric *m = collector_metric(l->c->collector,
                                                        metric);

    return m ? m->series : NULL;
}

static void mark_source(struct learned *l, const char *name)
{
    struct learned_source *s = source_of(l, name, true);

    s->there = true;
}

static void mark_sources(struct learned *l)
{
    const struct settings *s = l->c->daemon.settings;
    struct learned_source *one;

    for (size_t at = 0; (one = lookup_walk(&l->sources, &at));) {
        one->there = false;
        one->accepted.sum = one->own.sum = 0;
        one->last_ms = 0;
    }
    for (size_t i = 0; i < s->source_count; i++)
        mark_source(l, s->sources[i].name);
    for (size_t i = 0; i < s->producer_count; i++)
        mark_source(l, s->producers[i].name);
}

bool learned_is_own_reason(const char *reason)
{
    const char *at = own_reasons;
    char pattern[64];

    while (*at) {
        size_t n = strcspn(at, " ");

        snprintf(pattern, sizeof pattern, "%.*s", (int)n, at);
        if (glob_match(pattern, reason))
            return true;
        at += n + strspn(at + n, " ");
    }
    return false;
}

static void add_up_sources(struct learned *l)
{
    struct learned_source *s;

    for (const struct collected *p =
             series_of(l, "grapnel_ingress_source_accepted_total");
         p; p = p->next)
        if ((s = source_of(l, collected_label(p, "source"), false)))
            s->accepted.sum += collected_total(p);
    for (const struct collected *p =
             series_of(l, "grapnel_ingress_source_last_event_seconds");
         p; p = p->next)
        if ((s = source_of(l, collected_label(p, "source"), false)) &&
            p->value * 1000 > (double)s->last_ms)
            s->last_ms = (int64_t)(p->value * 1000);
}

static void add_up_refusals(struct learned *l)
{
    const char *source, *reason;
    struct learned_refusal *r;
    struct learned_source *s;

    for (size_t at = 0; (r = lookup_walk(&l->refusals, &at));)
        r->refused.sum = 0;
    for (const struct collected *p =
             series_of(l, "grapnel_ingress_rejected_total");
         p; p = p->next) {
        source = collected_label(p, "source");
        reason = collected_label(p, "reason");
        s = source_of(l, source, false);
        if (!s || !s->there)
            continue;
        if (learned_is_own_reason(reason))
            s->own.sum += collected_total(p);
        else
            refusal_of(l, source, reason)->refused.sum += collected_total(p);
    }
}

/* Whether all of the kind that ever published still do. */
static bool all_heard(const struct learned *l, const char *kind)
{
    bool any = false;

    for (struct publisher *p = collector_publishers(l->c->collector); p;
         p = p->next) {
        if (!p->heard || strcmp(p->kind, kind) != 0)
            continue;
        if (!collector_hears(p, l->c->daemon.loop.mono_ms))
            return false;
        any = true;
    }
    return any;
}

static void take_source(struct learned *l, struct learned_source *s,
                        int64_t span_ms)
{
    const struct counter *a = &s->accepted;
    double events = a->sum > a->counted ? a->sum - a->counted : 0;
    bool hour_ended = false;

    if (s->own.sum > s->own.counted)
        span_ms = 0; /* it sends, and ingress could not accept */
    if (events == 0 && s->last_ms > s->event_ms) /* while nobody counted */
        hour_ended = usual_take(&s->usual, l->c->daemon.loop.now_ms, 0, 1);
    s->accepted.counted = s->accepted.sum;
    s->own.counted = s->own.sum;
    if (s->last_ms)
        s->event_ms = s->last_ms;
    else if (events > 0)
        s->event_ms = l->c->daemon.loop.now_ms;
    if (!s->event_ms) /* it has not been used yet */
        return;
    hour_ended |= usual_take(&s->usual, l->c->daemon.loop.now_ms, span_ms,
                             events);
    if (span_ms > 0 || events > 0)
        put_source(l, s, hour_ended);
}

static void take_refusal(struct learned *l, struct learned_refusal *r)
{
    const struct learned_source *s = source_of(l, r->source, false);
    int64_t now = l->c->daemon.loop.now_ms;
    bool rare;

    if (r->refused.sum <= r->refused.counted)
        return;
    r->refused.counted = r->refused.sum;
    rare = now - r->seen_ms > NEW_MS;
    r->seen_ms = now;
    /* Of a source that was watched for less, nobody knows what is usual; one that never worked is being
     * set up. */
    if (rare && s && s->event_ms && s->usual.now.learned_ms >= NEW_MS)
        r->new_ms = now;
    if (rare || now - r->stored_ms > HOUR_MS || now < r->stored_ms)
        put_refusal(l, r);
}

static void take_endpoints(struct learned *l, int64_t span_ms)
{
    struct learned_endpoint *e;

    for (size_t at = 0; (e = lookup_walk(&l->endpoints, &at));)
        for (int i = 0; i < MIX_COUNT; i++)
            e->responses[i].sum = 0;
    for (const struct collected *p =
             series_of(l, "grapnel_endpoint_responses_total");
         p; p = p->next) {
        const char *class = collected_label(p, "class");

        for (int i = 0; i < MIX_COUNT; i++)
            if (strcmp(class, mix_words[i]) == 0 &&
                (e = endpoint_of(l, collected_label(p, "endpoint"))))
                e->responses[i].sum += collected_total(p);
    }
    for (size_t at = 0; (e = lookup_walk(&l->endpoints, &at));) {
        double came[MIX_COUNT];
        bool any = false;

        for (int i = 0; i < MIX_COUNT; i++) {
            struct counter *n = &e->responses[i];

            came[i] = n->sum > n->counted ? n->sum - n->counted : 0;
            n->counted = n->sum;
            any |= came[i] > 0;
        }
        mix_take(&e->mix, span_ms, came);
        if (!any)
            continue;
        e->seen_ms = l->c->daemon.loop.now_ms;
        put_endpoint(l, e);
    }
}

void learned_take(struct learned *l)
{
    int64_t now = l->c->daemon.loop.mono_ms, span = now - l->looked_ms;
    struct learned_source *s;
    struct learned_refusal *r;

    if (!l->looked_ms ||
        span > GAPS * l->c->daemon.settings->console.evaluate_ms + SLACK_MS)
        span = 0;
    l->looked_ms = now;
    l->looked = true;
    l->ingress_heard = all_heard(l, "ingress");
    mark_sources(l);
    add_up_sources(l);
    add_up_refusals(l);
    for (size_t at = 0; (s = lookup_walk(&l->sources, &at));)
        if (s->there)
            take_source(l, s, l->ingress_heard ? span : 0);
    for (size_t at = 0; (r = lookup_walk(&l->refusals, &at));)
        take_refusal(l, r);
    take_endpoints(l, all_heard(l, "deliverer") ? span : 0);
    purge(l);
}

/* ---- for rules ---- */

bool learned_judges(const struct alert_rule *rule)
{
    return rule->when == ALERT_UNUSUAL_SILENCE ||
           rule->when == ALERT_NEW_REFUSAL || rule->when == ALERT_STATUS_MIX;
}

static bool fires(const struct learned_refusal *r, int64_t now)
{
    return r->new_ms && r->new_ms <= now && now - r->new_ms <= NEW_FIRES_MS;
}

static void measure_refusals(const struct learned *l, const char *source,
                             struct measurement *m)
{
    int64_t now = l->c->daemon.loop.now_ms;
    struct learned_refusal *r;
    size_t n = 0;

    m->known = true;
    for (size_t at = 0; (r = lookup_walk(&l->refusals, &at));) {
        if (!fires(r, now) || strcmp(r->source, source) != 0)
            continue;
        m->value++;
        m->again |= r->new_ms == now;
        if (n < sizeof m->note)
            n += (size_t)snprintf(m->note + n, sizeof m->note - n, "%s%s",
                                  n ? ", " : "", r->reason);
    }
}

static void measure_source(const struct learned *l,
                           const struct alert_rule *rule, const char *name,
                           struct measurement_list *out)
{
    /* The lookup is not changed. */
    struct learned_source *s = source_of((struct learned *)l, name, false);
    struct measurement *m;

    if (!s || !measurement_selects(&rule->sources, name))
        return;
    m = measurement_add(out, name);
    if (rule->when == ALERT_NEW_REFUSAL) {
        measure_refusals(l, name, m);
        return;
    }
    m->value = usual_missing(&s->usual);
    m->known = l->ingress_heard;
}

static void measure_endpoint(const struct learned_endpoint *e,
                             const struct alert_rule *rule,
                             struct measurement_list *out)
{
    struct mix_change change = mix_judge(&e->mix, (double)rule->at_least);
    struct measurement *m;

    if (!measurement_selects(&rule->endpoints, e->name))
        return;
    m = measurement_add(out, e->name);
    m->known = change.known;
    m->value = change.by;
    if (change.by > 0)
        snprintf(m->note, sizeof m->note,
                 "%s: %.3g %% of the responses, usually %.3g %%",
                 change.risen == MIX_NONE ? "no response"
                                          : mix_words[change.risen],
                 change.is * 100, change.was * 100);
}

void learned_measure(const struct learned *l, const struct alert_rule *rule,
                     struct measurement_list *out)
{
    const struct settings *s = l->c->daemon.settings;
    int64_t now = l->c->daemon.loop.now_ms;
    struct learned_endpoint *e;

    *out = (struct measurement_list){0};
    if (rule->when != ALERT_STATUS_MIX) {
        for (size_t i = 0; i < s->source_count; i++)
            measure_source(l, rule, s->sources[i].name, out);
        for (size_t i = 0; i < s->producer_count; i++)
            measure_source(l, rule, s->producers[i].name, out);
        return;
    }
    for (size_t at = 0; (e = lookup_walk(&l->endpoints, &at));)
        if (now - e->seen_ms < LISTED_MS)
            measure_endpoint(e, rule, out);
}

/* ---- for people ---- */

struct learned_about learned_about_source(const struct learned *l,
                                          const char *name)
{
    /* The lookup is not changed. */
    const struct learned_source *s = source_of((struct learned *)l, name,
                                               false);

    return s ? (struct learned_about){&s->usual, s->event_ms, l->ingress_heard}
             : (struct learned_about){0};
}

const struct mix *learned_mix(const struct learned *l, const char *endpoint)
{
    struct learned_endpoint *e;

    for (size_t at = 0;
         (e = lookup_get(&l->endpoints, lookup_text(endpoint), &at));)
        if (strcmp(e->name, endpoint) == 0)
            return &e->mix;
    return NULL;
}

void learned_each_refusal(const struct learned *l, const char *source,
                          void (*each)(void *self, const char *reason,
                                       int64_t seen_ms, bool is_new),
                          void *self)
{
    struct learned_refusal *r;

    for (size_t at = 0; (r = lookup_walk(&l->refusals, &at));)
        if (r->seen_ms && strcmp(r->source, source) == 0)
            each(self, r->reason, r->seen_ms,
                 fires(r, l->c->daemon.loop.now_ms));
}

void learned_publish(const struct learned *l)
{
    struct learned_source *s;

    for (size_t at = 0; (s = lookup_walk(&l->sources, &at));)
        if (s->there && s->event_ms)
            series_set(METRIC_SERIES(l->c->daemon.metrics, F_MISSING, s->name),
                       (int64_t)(usual_missing(&s->usual) * SLO_PER));
}
