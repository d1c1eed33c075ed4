/* tally: a ring of five-minute counts for each endpoint that had attempts. */
#include "tally.h"
#include "alloc.h"
#include "histogram.h"
#include "lookup.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct slot {
    int64_t number; /* wall time divided by TALLY_SLOT_MS */
    uint64_t delivered_ms;
    uint32_t outcomes[OUTCOME_DEAD + 1], classes[TALLY_CLASSES],
        durations[TALLY_BOUNDS + 1];
};

struct tally {
    TAILQ_ENTRY(tally) link;
    int64_t endpoint, added_ms, success_ms, failure_ms;
    struct slot slots[TALLY_SLOTS]; /* by number modulo TALLY_SLOTS */
};

struct tallies {
    TAILQ_HEAD(tally_list, tally) all; /* the last one has the newest result */
    struct lookup endpoints;
    int count;
    int64_t complete_ms; /* from then on the counts are complete */
};

struct tallies *tallies_open(int64_t now_ms)
{
    struct tallies *t = gr_alloc(sizeof *t);

    TAILQ_INIT(&t->all);
    t->complete_ms = now_ms;
    return t;
}

static void drop(struct tallies *t, struct tally *it)
{
    TAILQ_REMOVE(&t->all, it, link);
    lookup_remove(&t->endpoints, (uint64_t)it->endpoint, it);
    t->count--;
    free(it);
}

void tallies_close(struct tallies *t)
{
    struct tally *it;

    while ((it = TAILQ_FIRST(&t->all)))
        drop(t, it);
    lookup_fini(&t->endpoints);
    free(t);
}

static struct tally *find(const struct tallies *t, int64_t endpoint)
{
    struct tally *it;

    for (size_t at = 0;
         (it = lookup_get(&t->endpoints, (uint64_t)endpoint, &at));)
        if (it->endpoint == endpoint)
            return it;
    return NULL;
}

static struct tally *add(struct tallies *t, int64_t endpoint)
{
    struct tally *it = gr_alloc(sizeof *it), *oldest;

    it->endpoint = endpoint;
    lookup_add(&t->endpoints, (uint64_t)endpoint, it);
    TAILQ_INSERT_TAIL(&t->all, it, link);
    if (++t->count > TALLIES_MAX) {
        oldest = TAILQ_FIRST(&t->all);
        if (oldest->added_ms >= t->complete_ms)
            t->complete_ms = oldest->added_ms + 1;
        drop(t, oldest);
    }
    return it;
}

static enum tally_class class_of(uint64_t status)
{
    return status < 200 || status > 599 ? TALLY_NO_RESPONSE
                                        : (enum tally_class)(status / 100 - 1);
}

void tallies_add(struct tallies *t, int64_t endpoint,
                 const struct wire_result *r, int64_t now_ms)
{
    struct tally *it = find(t, endpoint);
    int64_t number = now_ms / TALLY_SLOT_MS;
    struct slot *s;
    int i = 0;

    if (!it)
        it = add(t, endpoint);
    TAILQ_REMOVE(&t->all, it, link);
    TAILQ_INSERT_TAIL(&t->all, it, link);
    it->added_ms = now_ms;
    if (r->outcome == OUTCOME_DELIVERED)
        it->success_ms = r->at_ms;
    else
        it->failure_ms = r->at_ms;
    s = &it->slots[number % TALLY_SLOTS];
    if (s->number != number)
        *s = (struct slot){.number = number};
    s->outcomes[r->outcome]++;
    s->classes[class_of(r->http_status)]++;
    if (r->outcome == OUTCOME_DELIVERED && r->duration_ms > 0)
        s->delivered_ms += (uint64_t)r->duration_ms;
    while (i < TALLY_BOUNDS && r->duration_ms > metric_latency_bounds_ms[i])
        i++;
    s->durations[i] += r->http_status > 0;
}

void tallies_sum(const struct tallies *t, int64_t endpoint, int64_t period_ms,
                 int64_t now_ms, struct tally_sum *out)
{
    static const double quantiles[] = {0.5, 0.95, 0.99};
    const struct tally *it = find(t, endpoint);
    int64_t last = now_ms / TALLY_SLOT_MS,
            first = (now_ms - period_ms) / TALLY_SLOT_MS;
    struct histogram durations = {0};
    double le[TALLY_BOUNDS], counts[TALLY_BOUNDS + 1];

    *out = (struct tally_sum){.from_ms = first * TALLY_SLOT_MS};
    if (out->from_ms < t->complete_ms)
        out->from_ms = t->complete_ms;
    for (int i = 0; i < TALLY_BOUNDS; i++)
        le[i] = (double)metric_latency_bounds_ms[i];
    for (int i = 0; it && i < TALLY_SLOTS; i++) {
        const struct slot *s = &it->slots[i];

        if (s->number < first || s->number > last)
            continue;
        for (int k = 0; k <= OUTCOME_DEAD; k++)
            out->outcomes[k] += s->outcomes[k];
        for (int k = 0; k < TALLY_CLASSES; k++)
            out->classes[k] += s->classes[k];
        for (int k = 0; k <= TALLY_BOUNDS; k++)
            counts[k] = s->durations[k];
        out->delivered_ms += (int64_t)s->delivered_ms;
        histogram_add(&durations, TALLY_BOUNDS, le, counts, NULL);
    }
    for (size_t i = 0; i < COUNT_OF(quantiles); i++)
        out->latency_ms[i] = histogram_quantile(&durations, quantiles[i]);
    if (it) {
        out->success_ms = it->success_ms;
        out->failure_ms = it->failure_ms;
    }
}
