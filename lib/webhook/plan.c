/* plan: the attempts of a retry policy, and the load after an outage. */
#include "plan.h"
#include "alloc.h"
#include "clock.h"
#include <stdlib.h>

/* ---- one delivery ---- */

static void add(struct plan *p, struct plan_attempt a)
{
    if (p->count % 64 == 0)
        p->attempts = gr_realloc(p->attempts,
                                 (p->count + 64) * sizeof *p->attempts);
    p->attempts[p->count++] = a;
}

/* The first attempt is at 1 ms, because 0 means that there was no attempt. */
static enum backoff_end next(const struct retry_policy *policy, uint64_t n,
                             int64_t now_ms, uint64_t random, int64_t *next_ms)
{
    struct backoff b = {.policy = policy,
                        .attempts = n,
                        .first_ms = 1,
                        .now_ms = now_ms,
                        .random = random};

    return backoff_next(&b, next_ms);
}

void plan_make(struct plan *p, const struct retry_policy *policy, size_t most)
{
    struct retry_policy even = *policy, endless = *policy;
    int64_t now_ms = 1, next_ms = 0;

    *p = (struct plan){0};
    even.jitter.full = false;
    even.jitter.part = 0;
    endless.max_duration_ms = 0; /* does not cut the bounds of one wait */
    add(p, (struct plan_attempt){0});
    while ((p->end = next(&even, p->count, now_ms, 0, &next_ms)) ==
           BACKOFF_WAIT) {
        int64_t min = now_ms, max = now_ms;

        p->cut = p->count == most;
        if (p->cut)
            return;
        next(&endless, p->count, now_ms, 0, &min);
        next(&endless, p->count, now_ms, UINT64_MAX, &max);
        add(p, (struct plan_attempt){.wait_ms = next_ms - now_ms,
                                     .min_ms = min - now_ms,
                                     .max_ms = max - now_ms,
                                     .at_ms = next_ms - 1});
        now_ms = next_ms;
    }
}

void plan_fini(struct plan *p)
{
    free(p->attempts);
    *p = (struct plan){0};
}

/* ---- many ---- */

/* The next number of the generator splitmix64. */
static uint64_t chance(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/* Waits of 0 ms would never use a time budget up. */
enum { TRIES_MAX = 100000 };

/* The time from the beginning of the outage to the success of one event, ms; -1: never. */
static int64_t live(struct load *l, const struct retry_policy *policy,
                    int64_t outage_ms, uint64_t *seed)
{
    int64_t now_ms = 1, next_ms = 0;

    for (uint64_t n = 1; n <= TRIES_MAX; n++) {
        if (now_ms - 1 >= outage_ms)
            return now_ms - 1;
        l->in_vain++;
        if (next(policy, n, now_ms, chance(seed), &next_ms) != BACKOFF_WAIT)
            return -1;
        now_ms = next_ms;
    }
    return -1;
}

static int64_t percentile(const struct load *l, int percent)
{
    int64_t seen = 0;

    for (size_t i = 0; i < l->second_count; i++) {
        seen += l->seconds[i];
        if (seen * 100 >= l->delivered * percent)
            return ((int64_t)i + 1) * SECOND_MS < l->last_ms
                       ? ((int64_t)i + 1) * SECOND_MS
                       : l->last_ms;
    }
    return 0;
}

void load_make(struct load *l, const struct retry_policy *policy,
               int64_t events, int64_t outage_ms)
{
    uint64_t seed = 1;

    *l = (struct load){0};
    for (int64_t i = 0; i < events; i++) {
        int64_t after_ms = live(l, policy, outage_ms, &seed) - outage_ms;
        size_t second = (size_t)(after_ms / SECOND_MS);

        if (after_ms < 0) {
            l->dead++;
            continue;
        }
        if (second >= l->second_count) {
            size_t capacity = second + second / 2 + 64;

            l->seconds = gr_realloc(l->seconds, capacity * sizeof *l->seconds);
            for (size_t k = l->second_count; k < capacity; k++)
                l->seconds[k] = 0;
            l->second_count = capacity;
        }
        l->seconds[second]++;
        l->delivered++;
        if (after_ms > l->last_ms)
            l->last_ms = after_ms;
    }
    l->second_count = l->delivered ? (size_t)(l->last_ms / SECOND_MS) + 1 : 0;
    for (size_t i = 0; i < l->second_count; i++)
        if (l->seconds[i] > l->peak_per_s)
            l->peak_per_s = l->seconds[i];
    l->p50_ms = percentile(l, 50);
    l->p95_ms = percentile(l, 95);
}

void load_fini(struct load *l)
{
    free(l->seconds);
    *l = (struct load){0};
}

int64_t load_parts(const struct load *l, int64_t *out, size_t rows)
{
    size_t part = (l->second_count + rows - 1) / rows;

    if (part == 0)
        part = 1;
    for (size_t i = 0; i < rows; i++)
        out[i] = 0;
    for (size_t i = 0; i < l->second_count; i++)
        out[i / part] += l->seconds[i];
    return (int64_t)part;
}
