/* plan: the waits of a retry policy, its end, and the load of many events that failed together.
 * Pure: the waits are those of lib/webhook/backoff, as in a deliverer, and the random numbers are
 * the same in every run. For `retry-plan`, and for the plan of an endpoint. */
#ifndef WEBHOOK_PLAN_H
#define WEBHOOK_PLAN_H

#include "backoff.h"

enum { PLAN_ATTEMPTS_MAX = 10000 };

/* One attempt at an endpoint that always fails at once. It begins `wait_ms` after the one
 * before without jitter, and min_ms to max_ms with jitter; at_ms: after the first attempt,
 * without jitter. */
struct plan_attempt {
    int64_t wait_ms, min_ms, max_ms, at_ms;
};

struct plan {
    struct plan_attempt *attempts; /* owned */
    size_t count;
    bool cut;             /* there are more than `most` */
    enum backoff_end end; /* why there is no further attempt */
};

/* At most `most` attempts; `cut` says whether there are more. */
void plan_make(struct plan *p, const struct retry_policy *policy, size_t most);
void plan_fini(struct plan *p);

/* Events whose first attempt is at the beginning of an outage; each is retried by its own timers
 * until the endpoint responds, or its budget is used up. */
struct load {
    int64_t delivered, dead;
    int64_t in_vain;        /* attempts that failed in the outage */
    int64_t p50_ms, p95_ms; /* of deliveries, from the recovery on */
    int64_t last_ms;        /* the last delivery */
    int64_t peak_per_s;     /* most deliveries in one second */
    int64_t *seconds;       /* deliveries in each second; owned */
    size_t second_count;
};

void load_make(struct load *l, const struct retry_policy *policy,
               int64_t events, int64_t outage_ms);
void load_fini(struct load *l);
/* Sums the seconds into `rows` equal parts; returns the length of a part in s. */
int64_t load_parts(const struct load *l, int64_t *out, size_t rows);

#endif
