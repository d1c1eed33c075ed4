/* plan: what a retry policy comes to: its waits, its end, and the load of many
 * events that failed together. Pure; the waits are lib/webhook/backoff's, as the
 * deliverer's are, and chance is the same in every run. */
#ifndef CTL_PLAN_H
#define CTL_PLAN_H

#include "backoff.h"

enum { PLAN_ATTEMPTS_MAX = 10000 };

/* Attempt n begins `wait_ms` after the one before, which chance may make
 * anything from min_ms to max_ms; without chance that is at_ms after the
 * first. An endpoint is meant that fails at once, and always. */
struct plan_attempt {
    int64_t wait_ms, min_ms, max_ms, at_ms;
};

struct plan {
    struct plan_attempt *attempts; /* owned */
    size_t count;
    bool cut;             /* there are more than PLAN_ATTEMPTS_MAX */
    enum backoff_end end; /* why there is no further one */
};

void plan_make(struct plan *p, const struct retry_policy *policy);
void plan_fini(struct plan *p);

/* `events` are first tried at the beginning of an outage, and each by its own
 * timers until the endpoint is back, or its budget has expired. */
struct load {
    int64_t delivered, dead;
    int64_t in_vain;        /* attempts during the outage */
    int64_t p50_ms, p95_ms; /* of the delivered: after the recovery … */
    int64_t last_ms;        /* … and when the last is through */
    int64_t peak_per_s;     /* the most in one second */
    int64_t *seconds;       /* owned: how many in each second */
    size_t second_count;
};

void load_make(struct load *l, const struct retry_policy *policy,
               int64_t events, int64_t outage_ms);
void load_fini(struct load *l);
/* The same of `rows` equal parts of the time: sums into `out`; returns the
 * length of one in s. */
int64_t load_parts(const struct load *l, int64_t *out, size_t rows);

#endif
