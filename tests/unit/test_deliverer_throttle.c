/* Tests of an endpoint's throttle on a simulated clock: window, circuit breaker, ramp,
 * hold and rate limit. P9. */
#include "clock.h"
#include "granted_endpoint.h"
#include "task.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define S  1000000LL /* in us */
#define MS 1000LL

static const struct retry_policy strict = {
    .backoff = BACKOFF_EXPONENTIAL,
    .first_wait_ms = 1000,
    .max_wait_ms = 60000,
    .factor = 2,
    .jitter.full = true,
    .max_attempts = 12,
    .respect_retry_after = true,
};

/* ---- window ---- */

static void the_window_follows_successes_and_failures(void **state)
{
    struct window w = {0};

    (void)state;
    window_set(&w, 4);
    assert_int_equal(w.size, 4); /* the user said so */
    for (int i = 0; i < 10; i++)
        window_shrink(&w);
    assert_int_equal(w.size, 1);
    for (int i = 2; i <= 4; i++) {
        window_grow(&w);
        assert_int_equal(w.size, i);
    }
    window_grow(&w);
    assert_int_equal(w.size, 4);
    window_set(&w, 8);
    assert_int_equal(w.size, 8); /* it was not in trouble */
    window_shrink(&w);
    window_set(&w, 16);
    assert_int_equal(w.size, 7); /* it was */
    window_set(&w, 2);
    assert_int_equal(w.size, 2);
    window_restart(&w);
    assert_int_equal(w.size, 1);
}

/* ---- breaker ---- */

static void fail_times(struct breaker *b, int times, int64_t now)
{
    for (int i = 0; i < times; i++)
        (void)breaker_failure(b, 0, &strict, 0, 0, now);
}

static void failures_in_a_row_open_the_breaker(void **state)
{
    struct breaker b = {0};

    (void)state;
    fail_times(&b, BREAKER_FAILURES - 1, S);
    assert_int_equal(breaker_ready_us(&b), 0);
    assert_false(breaker_success(&b)); /* no row any more */
    fail_times(&b, BREAKER_FAILURES - 1, S);
    assert_int_equal(b.state, BREAKER_CLOSED);
    assert_true(breaker_failure(&b, 0, &strict, 0, 0, S));
    assert_int_equal(b.state, BREAKER_OPEN);
    assert_false(breaker_failure(&b, 0, &strict, 0, 0, S)); /* once */
}

static void one_probe_at_a_time(void **state)
{
    struct breaker b = {0};
    uint64_t probe;

    (void)state;
    fail_times(&b, BREAKER_FAILURES, S);
    assert_true(breaker_ready_us(&b) > S);
    probe = breaker_began(&b);
    assert_int_not_equal(probe, 0);
    assert_int_equal(breaker_ready_us(&b), INT64_MAX);
    fail_times(&b, 3, 2 * S); /* begun before it opened: these change nothing */
    assert_int_equal(breaker_ready_us(&b), INT64_MAX);
    assert_false(breaker_failure(&b, probe, &strict, 0, 0, 2 * S));
    assert_true(breaker_ready_us(&b) > 2 * S);
    assert_true(breaker_ready_us(&b) < INT64_MAX);
}

/* A probe of before a success is not the probe of now. */
static void the_end_of_an_old_probe_allows_no_second_probe(void **state)
{
    struct breaker b = {0};
    uint64_t old;

    (void)state;
    fail_times(&b, BREAKER_FAILURES, S);
    old = breaker_began(&b);
    assert_true(breaker_success(&b));
    fail_times(&b, BREAKER_FAILURES, 2 * S);
    assert_int_not_equal(breaker_began(&b), old);
    (void)breaker_failure(&b, old, &strict, 0, 0, 3 * S);
    breaker_unknown(&b, old, 3 * S);
    assert_int_equal(b.state, BREAKER_PROBING);
}

static void any_success_closes_the_breaker(void **state)
{
    struct breaker b = {0};

    (void)state;
    fail_times(&b, BREAKER_FAILURES, S);
    assert_true(breaker_success(&b));
    assert_int_equal(b.state, BREAKER_CLOSED);
    fail_times(&b, BREAKER_FAILURES, S);
    (void)breaker_began(&b);
    assert_true(breaker_success(&b));
    assert_int_equal(breaker_ready_us(&b), 0);
}

/* The k-th gap is from half to one and a half of a twentieth of the k-th wait,
 * and so is its mean; never more than half a minute and a half. */
static void waits_between_probes_grow_and_have_jitter(void **state)
{
    enum { RUNS = 2000, PROBES = 12 };
    double sum[PROBES] = {0};

    (void)state;
    srandom(1);
    for (int run = 0; run < RUNS; run++) {
        struct breaker b = {0};
        int64_t now = S, gap, wait_us = 1000 * MS;
        uint64_t probe = 0;

        for (int k = 0; k < PROBES; k++) {
            uint64_t random_bits = (uint64_t)random() << 31 ^
                                   (uint64_t)random();

            if (k == 0)
                for (int i = 0; i < BREAKER_FAILURES; i++)
                    (void)breaker_failure(&b, 0, &strict, 0, random_bits, now);
            else
                (void)breaker_failure(&b, probe, &strict, 0, random_bits, now);
            gap = breaker_ready_us(&b) - now;
            assert_in_range(gap, wait_us / 40, wait_us * 3 / 40);
            sum[k] += (double)gap / (double)wait_us;
            now += gap;
            probe = breaker_began(&b);
            wait_us = 2 * wait_us > 60 * S ? 60 * S : 2 * wait_us;
        }
    }
    for (int k = 0; k < PROBES; k++)
        assert_in_range((int)(1000 * sum[k] / RUNS), 48, 52);
}

static void a_lone_delivery_keeps_its_schedule(void **state)
{
    struct breaker b = {0};

    (void)state;
    fail_times(&b, BREAKER_FAILURES, S);
    breaker_due(&b, S + 3 * MS);
    assert_int_equal(breaker_ready_us(&b), S + 3 * MS);
    breaker_due(&b, 100 * S);
    assert_int_equal(breaker_ready_us(&b), S + 3 * MS);
}

static void retry_after_delays_the_probe(void **state)
{
    struct breaker b = {0};

    (void)state;
    fail_times(&b, BREAKER_FAILURES - 1, S);
    assert_true(breaker_failure(&b, 0, &strict, 20000, 0, S));
    assert_int_equal(breaker_ready_us(&b), S + 20 * S);
    (void)breaker_began(&b);
    (void)breaker_failure(&b, b.probe, &strict, DAY_MS, 0, 30 * S);
    assert_int_equal(breaker_ready_us(&b), 30 * S + BREAKER_ASKED_MAX_MS * MS);
}

static void an_inconclusive_probe_is_followed_by_another(void **state)
{
    struct breaker b = {0};

    (void)state;
    fail_times(&b, BREAKER_FAILURES, S);
    breaker_unknown(&b, breaker_began(&b), 2 * S);
    assert_int_equal(b.state, BREAKER_OPEN);
    assert_int_equal(breaker_ready_us(&b), 3 * S);
}

static void a_probe_that_was_not_sent_costs_no_time(void **state)
{
    struct breaker b = {0};

    (void)state;
    fail_times(&b, BREAKER_FAILURES, S);
    breaker_unsent(&b, breaker_began(&b), 2 * S);
    assert_int_equal(b.state, BREAKER_OPEN);
    assert_int_equal(breaker_ready_us(&b), 2 * S);
}

/* ---- ramp ---- */

/* When `count` have gone after so long an outage, and the most in a second. */
static int64_t release(int count, int64_t lost_ms, int *max)
{
    static int64_t went[100000];
    struct ramp r;
    struct bucket b = {0};
    int64_t now = 0;
    int first = 0;

    *max = 0;
    ramp_begin(&r, lost_ms, 0);
    for (int i = 0; i < count; now += MS)
        for (; i < count && bucket_has(&b, 10 * MS, now); i++) {
            bucket_take(&b, ramp_interval_us(&r, now), now);
            went[i] = now;
            while (went[i] - went[first] >= S)
                first++;
            if (i - first + 1 > *max)
                *max = i - first + 1;
        }
    return now / MS;
}

static void the_ramp_sends_five_thousand_within_half_a_minute(void **state)
{
    int max;
    int64_t ms = release(5000, 30000, &max);

    (void)state;
    assert_in_range(ms, 15000, 26000);
    assert_in_range(max, 100, 420);
}

static void the_ramp_after_a_short_outage_ends_at_once(void **state)
{
    int max;

    (void)state;
    assert_in_range(release(5000, 100, &max), 100, 1000);
    assert_in_range(release(100000, 86400000, &max), 30000, 90000);
    assert_true(max <= RAMP_LAST + 100);
}

static void a_ramp_ends(void **state)
{
    struct ramp r;

    (void)state;
    ramp_begin(&r, 2500, 5 * S);
    assert_int_equal(ramp_interval_us(&r, 5 * S), 10000);
    assert_int_equal(ramp_interval_us(&r, 6 * S), 5000);
    assert_int_equal(ramp_interval_us(&r, 13 * S - 1) * RAMP_LAST / S, 0);
    assert_true(r.on);
    assert_int_equal(ramp_interval_us(&r, 13 * S), 0);
    assert_false(r.on);
}

/* ---- the throttle ---- */

static struct endpoint_config config(void)
{
    return (struct endpoint_config){
        .settings = {.max_in_flight = 8, .breaker = true}, .policy = strict};
}

static enum throttle_change end(struct throttle *g,
                                const struct endpoint_config *c,
                                enum health health, uint64_t probe, int64_t now)
{
    return throttle_ended(g, c,
                          &(struct throttle_end){
                              .health = health, .probe = probe, .now_us = now});
}

static void trouble_and_recovery(void **state)
{
    struct endpoint_config c = config();
    struct throttle g = {0};
    uint64_t probe;

    (void)state;
    throttle_configure(&g, &c);
    for (int i = 1; i < BREAKER_FAILURES; i++)
        assert_int_equal(end(&g, &c, HEALTH_BAD, 0, S), THROTTLE_UNCHANGED);
    assert_int_equal(end(&g, &c, HEALTH_UNKNOWN, 0, S), THROTTLE_UNCHANGED);
    assert_int_equal(end(&g, &c, HEALTH_BAD, 0, S), THROTTLE_OPENED);
    assert_int_equal(g.window.size, 8 - BREAKER_FAILURES);
    assert_true(throttle_ready_us(&g, &c, false) > S);
    probe = throttle_began(&g, &c, false, 31 * S);
    assert_int_equal(throttle_ready_us(&g, &c, false), INT64_MAX);
    assert_int_equal(throttle_ready_us(&g, &c, true), INT64_MAX);
    assert_int_equal(end(&g, &c, HEALTH_GOOD, probe, 31 * S),
                     THROTTLE_RECOVERED);
    assert_int_equal(g.window.size, 1);
    assert_true(g.ramp.on);
    (void)throttle_began(&g, &c, false, 32 * S); /* all of it is on the ramp */
    (void)throttle_began(&g, &c, false, 32 * S);
    assert_true(throttle_ready_us(&g, &c, false) > 32 * S);
    assert_true(throttle_ready_us(&g, &c, true) > 32 * S);
}

static void open_it(struct throttle *g, const struct endpoint_config *c)
{
    throttle_configure(g, c);
    for (int i = 0; i < BREAKER_FAILURES; i++)
        (void)end(g, c, HEALTH_BAD, 0, S);
    assert_int_equal(g->breaker.state, BREAKER_OPEN);
}

static void a_status_about_the_event_closes_the_breaker(void **state)
{
    struct endpoint_config c = config();
    struct throttle g = {0};
    uint64_t probe;

    (void)state;
    open_it(&g, &c);
    assert_int_equal(end(&g, &c, HEALTH_EVENT, 0, 2 * S), THROTTLE_UNCHANGED);
    assert_int_equal(g.breaker.state, BREAKER_OPEN); /* begun before */
    probe = throttle_began(&g, &c, false, 31 * S);
    assert_int_equal(end(&g, &c, HEALTH_EVENT, probe, 31 * S),
                     THROTTLE_RECOVERED);
    assert_int_equal(g.breaker.state, BREAKER_CLOSED);
    assert_true(g.ramp.on);
    /* And failures around it are not consecutive. */
    for (int i = 0; i < 3 * BREAKER_FAILURES; i++)
        assert_int_equal(
            end(&g, &c, i % 3 ? HEALTH_BAD : HEALTH_EVENT, 0, 40 * S),
            THROTTLE_UNCHANGED);
}

/* 404 and the like: the gaps are those of failures, not a second each. */
static void another_final_status_keeps_the_breaker_open(void **state)
{
    struct endpoint_config c = config();
    struct throttle g = {0};
    int64_t now = S;
    int probes = 0;

    (void)state;
    c.policy.first_wait_ms = 60 * 1000;
    open_it(&g, &c);
    for (; now < 601 * S; probes++) {
        uint64_t probe;

        now = throttle_ready_us(&g, &c, false);
        probe = throttle_began(&g, &c, false, now);
        assert_int_equal(end(&g, &c, HEALTH_REFUSED, probe, now),
                         THROTTLE_UNCHANGED);
        assert_int_equal(g.breaker.state, BREAKER_OPEN);
    }
    assert_in_range(probes, 100, 400); /* 3 s each, 1.5 at the least */
}

static void after_an_outage_of_grapnel_only_retries_wait(void **state)
{
    struct endpoint_config c = config();
    struct throttle g = {0};

    (void)state;
    throttle_configure(&g, &c);
    throttle_late(&g, 999, S);
    assert_false(g.ramp.on);
    throttle_late(&g, 60000, S);
    (void)throttle_began(&g, &c, true, S);
    assert_true(throttle_ready_us(&g, &c, true) > S);
    assert_true(throttle_ready_us(&g, &c, false) <= S);
    throttle_late(&g, 90000, 2 * S); /* one ramp is enough … */
    assert_int_equal(g.ramp.began_us, S);
    throttle_late(&g, 90000, 200 * S); /* … while it lasts */
    assert_int_equal(g.ramp.began_us, 200 * S);
}

/* Scheduled before our start: the first success of any is a recovery, once, with a
 * ramp for what is pulled forward only. */
static void the_first_success_after_a_start_may_be_a_recovery(void **state)
{
    struct endpoint_config c = config();
    struct throttle g = {0};

    (void)state;
    throttle_configure(&g, &c);
    throttle_doubt(&g);
    assert_true(throttle_ready_us(&g, &c, false) <= S);
    assert_int_equal(end(&g, &c, HEALTH_BAD, 0, S), THROTTLE_UNCHANGED);
    assert_int_equal(end(&g, &c, HEALTH_GOOD, 0, S), THROTTLE_CONFIRMED);
    (void)throttle_began(&g, &c, true, S);
    (void)throttle_began(&g, &c, true, S);
    assert_true(throttle_ready_us(&g, &c, true) > S);
    assert_true(throttle_ready_us(&g, &c, false) <= S);
    assert_int_equal(end(&g, &c, HEALTH_GOOD, 0, S), THROTTLE_UNCHANGED);
    throttle_doubt(&g);
    c.settings.breaker = false;
    assert_int_equal(end(&g, &c, HEALTH_GOOD, 0, S), THROTTLE_UNCHANGED);
}

static void without_a_breaker_no_retry_waits(void **state)
{
    struct endpoint_config c = config();
    struct throttle g = {0};

    (void)state;
    c.settings.breaker = false;
    throttle_configure(&g, &c);
    for (int i = 0; i < 100; i++)
        assert_int_equal(end(&g, &c, HEALTH_BAD, 0, S), THROTTLE_UNCHANGED);
    assert_true(throttle_ready_us(&g, &c, true) <= S);
    assert_int_equal(end(&g, &c, HEALTH_GOOD, 0, S), THROTTLE_UNCHANGED);
    assert_false(g.ramp.on);
    assert_int_equal(g.window.size, 8);
}

/* ---- the guard ---- */

struct deployment {
    struct throttle g;
    struct endpoint_config c;
    int64_t now; /* us */
    int waiting, dead, kept, delivered, probes;
};

static void deploy(struct deployment *d, int waiting)
{
    *d = (struct deployment){.c = config(), .now = S, .waiting = waiting};
    d->c.settings.guard = true;
    throttle_configure(&d->g, &d->c);
    throttle_restore(&d->g, &d->c, true, 0, 0, 0, d->now);
}

/* One attempt ends with this status; what a delivery becomes of it. */
static void respond(struct deployment *d, uint64_t probe, int64_t status)
{
    bool about = status == 422 || status == 400;
    struct throttle_end e = {.health = status == 200 ? HEALTH_GOOD
                                       : about       ? HEALTH_EVENT
                                                     : HEALTH_REFUSED,
                             .refused = status != 200,
                             .status = status,
                             .probe = probe,
                             .now_us = d->now,
                             .wall_ms = d->now / MS};

    (void)throttle_ended(&d->g, &d->c, &e);
    if (status == 200)
        d->delivered++;
    else if (throttle_keeps(&d->g, &d->c, &e))
        d->kept++;
    else
        d->dead++;
}

/* As many in flight as may be, each answered after 10 ms, until `end`. Kept ones
 * wait with the others. */
static void run_until(struct deployment *d, int64_t end, int64_t status)
{
    while (d->now < end && d->dead + d->delivered < d->waiting) {
        uint64_t probes[64];
        int n = 0;

        while (n < d->g.window.size &&
               n < d->waiting - d->dead - d->delivered &&
               throttle_ready_us(&d->g, &d->c, false) <= d->now) {
            probes[n] = throttle_began(&d->g, &d->c, false, d->now);
            d->probes += probes[n++] != 0;
        }
        d->now += 10 * MS;
        for (int i = 0; i < n; i++)
            respond(d, probes[i], status);
    }
}

/* Ten minutes of 404 with 6,000 waiting cost at most 20 dead letters. */
static void a_bad_deployment_costs_few_dead_letters(void **state)
{
    static const int64_t statuses[] = {404, 401, 302, 422, 0};
    struct deployment d;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(statuses); i++) {
        deploy(&d, 6000);
        run_until(&d, 600 * S, statuses[i]);
        assert_in_range(d.dead, 1, 20);
        assert_true(d.g.hold.on);
        assert_in_range(d.probes, 100, 2000); /* it is asked all the time */
        assert_in_range(hold_total_ms(&d.g.hold, 600 * 1000), 590 * 1000,
                        600 * 1000);
        run_until(&d, 1200 * S, 200);
        assert_false(d.g.hold.on);
        assert_int_equal(d.dead + d.delivered, 6000);
        assert_in_range(d.dead, 1, 20);
        assert_true(d.now < 800 * S);
    }
}

static void without_the_guard_each_refusal_is_a_dead_letter(void **state)
{
    struct deployment d;

    (void)state;
    deploy(&d, 1000);
    d.c.settings.guard = false;
    run_until(&d, 600 * S, 404);
    assert_int_equal(d.dead, 1000);
    deploy(&d, 1000); /* and one that never worked is not guarded */
    d.g.hold.healthy = false;
    run_until(&d, 600 * S, 404);
    assert_int_equal(d.dead, 1000);
}

static void only_the_same_status_in_a_row_holds_an_endpoint(void **state)
{
    struct deployment d;

    (void)state;
    deploy(&d, 1000);
    for (int i = 0; i < 100; i++)
        respond(&d, 0, i % 2 ? 404 : 400);
    for (int i = 0; i < 100; i++)
        respond(&d, 0, i % HOLD_REFUSALS ? 404 : 200);
    assert_false(d.g.hold.on);
    assert_int_equal(d.kept, 0);
    for (int i = 0; i < HOLD_REFUSALS; i++)
        respond(&d, 0, 403);
    assert_true(d.g.hold.on);
    assert_int_equal(d.kept, 1); /* those before it are dead */
}

static void a_status_about_the_event_ends_a_hold(void **state)
{
    struct deployment d;
    uint64_t probe;

    (void)state;
    deploy(&d, 1000);
    run_until(&d, 10 * S, 404);
    assert_true(d.g.hold.on);
    d.now = 100 * S;
    /* Another status about all events: still held. */
    probe = throttle_began(&d.g, &d.c, false, d.now);
    respond(&d, probe, 403);
    assert_true(d.g.hold.on);
    /* One about this event alone ends it, and that event is dead. */
    d.now = 200 * S;
    d.dead = 0;
    respond(&d, 0, 422); /* not the probe: it was begun before */
    assert_true(d.g.hold.on);
    probe = throttle_began(&d.g, &d.c, false, d.now);
    respond(&d, probe, 422);
    assert_false(d.g.hold.on);
    assert_int_equal(d.dead, 2);
    assert_int_equal(d.g.breaker.state, BREAKER_CLOSED);
}

/* A new process, or another deliverer: held, and it asks at once. */
static void a_hold_is_restored(void **state)
{
    struct endpoint_config c = config();
    struct throttle g = {0};

    (void)state;
    c.settings.guard = true;
    throttle_configure(&g, &c);
    throttle_restore(&g, &c, true, 404, 5000, 700, 100 * S);
    assert_true(g.hold.on);
    assert_int_equal(throttle_ready_us(&g, &c, false), 100 * S);
    assert_int_equal(hold_total_ms(&g.hold, 9000), 4700);
    (void)end(&g, &c, HEALTH_GOOD, throttle_began(&g, &c, false, 100 * S),
              100 * S);
    assert_false(g.hold.on);
    throttle_restore(&g, &c, true, 404, 5000, 700, 101 * S); /* old news */
    assert_false(g.hold.on);
    c.settings.guard = false;
    g = (struct throttle){0};
    throttle_restore(&g, &c, true, 404, 5000, 700, 100 * S);
    assert_false(g.hold.on);
}

/* `breaker: false`: a hold still asks one at a time, also through failures. */
static void a_hold_without_a_breaker(void **state)
{
    struct deployment d;

    (void)state;
    deploy(&d, 1000);
    d.c.settings.breaker = false;
    run_until(&d, 10 * S, 404);
    assert_true(d.g.hold.on);
    d.now = 100 * S;
    (void)end(&d.g, &d.c, HEALTH_BAD, throttle_began(&d.g, &d.c, false, d.now),
              d.now);
    assert_int_equal(d.g.breaker.state, BREAKER_OPEN);
    d.now = 200 * S;
    respond(&d, throttle_began(&d.g, &d.c, false, d.now), 200);
    assert_false(d.g.hold.on);
    assert_int_equal(d.g.window.size, 8);
}

/* While a turn is committed attempts may begin, but not those that it took. */
static void tokens_of_a_turn_wait_for_its_commit(void **state)
{
    static struct task before, now;
    struct endpoint_config c = config();
    struct granted_endpoint e = {.config = &c};
    struct busy_lanes lanes = {0};

    (void)state;
    endpoint_init(&e);
    throttle_configure(&e.throttle, &c);
    before.turn = 3;
    now.turn = 4;
    endpoint_push(&e, &before, false);
    endpoint_push(&e, &now, false);
    assert_ptr_equal(endpoint_next(&e, &lanes, 4, S), &before);
    assert_null(endpoint_next(&e, &lanes, 4, S));
    assert_false(e.blocked);
    assert_ptr_equal(endpoint_next(&e, &lanes, 5, S), &now);
}

/* P5: a request in flight delays the tasks of its ordering key, and no others. */
static void lanes_of_ordering_keys_are_busy_alone(void **state)
{
    static struct task tasks[3];
    struct endpoint_config c = config();
    struct granted_endpoint e = {.config = &c};
    struct busy_lanes lanes = {0};

    (void)state;
    endpoint_init(&e);
    throttle_configure(&e.throttle, &c);
    for (size_t i = 0; i < COUNT_OF(tasks); i++) {
        tasks[i].w.workspace = (struct bytes){"acme", 4};
        tasks[i].w.ordering_key = (struct bytes){"ab", i}; /* "", "a", "ab" */
        endpoint_push(&e, &tasks[i], false);
    }
    c.settings.ordered = LANES_WORKSPACE;
    busy_lanes_add(&lanes, endpoint_lane(&e, &tasks[1]));
    assert_true(endpoint_may_begin(&e, &tasks[0], &lanes, S));
    assert_false(endpoint_may_begin(&e, &tasks[1], &lanes, S));
    assert_true(endpoint_may_begin(&e, &tasks[2], &lanes, S));
    busy_lanes_add(&lanes, endpoint_lane(&e, &tasks[0]));
    assert_ptr_equal(endpoint_next(&e, &lanes, 1, S), &tasks[2]);
    c.settings.ordered = LANES_ALL;
    assert_true(endpoint_lane(&e, &tasks[0]) == endpoint_lane(&e, &tasks[2]));
    busy_lanes_fini(&lanes);
}

/* In the order in which they came among themselves, and after one that begins first for another reason
 * (endpoint_put_first()). */
static void tasks_of_high_priority_are_before_others(void **state)
{
    static struct task tasks[6];
    static const int order[] = {2, 1, 3, 5, 0, 4};
    struct endpoint_config c = config();
    struct granted_endpoint e = {.config = &c};
    struct busy_lanes lanes = {0};

    (void)state;
    endpoint_init(&e);
    throttle_configure(&e.throttle, &c);
    for (size_t i = 0; i < COUNT_OF(tasks); i++) {
        tasks[i].w.high = i == 1 || i == 3 || i == 5;
        endpoint_push(&e, &tasks[i], true);
        if (i == 2)
            endpoint_put_first(&e, &tasks[i]);
    }
    for (size_t i = 0; i < COUNT_OF(tasks); i++)
        assert_ptr_equal(endpoint_next(&e, &lanes, 1, S), &tasks[order[i]]);
    /* The last high one has left the queue: the next one is the first again. */
    endpoint_push(&e, &tasks[0], false);
    endpoint_push(&e, &tasks[1], false);
    endpoint_push(&e, &tasks[3], false);
    endpoint_remove(&e, &tasks[3]);
    endpoint_push(&e, &tasks[5], false);
    assert_ptr_equal(endpoint_next(&e, &lanes, 1, S), &tasks[1]);
    assert_ptr_equal(endpoint_next(&e, &lanes, 1, S), &tasks[5]);
    assert_ptr_equal(endpoint_next(&e, &lanes, 1, S), &tasks[0]);
    assert_null(endpoint_next(&e, &lanes, 1, S));
}

static void a_rate_limit_applies_to_all_attempts(void **state)
{
    struct endpoint_config c = config();
    struct throttle g = {0};

    (void)state;
    c.settings.rate_limit = (struct rate){10, SECOND_MS};
    throttle_configure(&g, &c);
    (void)throttle_began(&g, &c, false, S);
    (void)throttle_began(&g, &c, true, S);
    assert_int_equal(throttle_ready_us(&g, &c, false), S + 100 * MS);
    assert_int_equal(throttle_ready_us(&g, &c, true), S + 100 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_window_follows_successes_and_failures),
        cmocka_unit_test(failures_in_a_row_open_the_breaker),
        cmocka_unit_test(one_probe_at_a_time),
        cmocka_unit_test(the_end_of_an_old_probe_allows_no_second_probe),
        cmocka_unit_test(any_success_closes_the_breaker),
        cmocka_unit_test(waits_between_probes_grow_and_have_jitter),
        cmocka_unit_test(a_lone_delivery_keeps_its_schedule),
        cmocka_unit_test(retry_after_delays_the_probe),
        cmocka_unit_test(an_inconclusive_probe_is_followed_by_another),
        cmocka_unit_test(a_probe_that_was_not_sent_costs_no_time),
        cmocka_unit_test(a_status_about_the_event_closes_the_breaker),
        cmocka_unit_test(another_final_status_keeps_the_breaker_open),
        cmocka_unit_test(the_ramp_sends_five_thousand_within_half_a_minute),
        cmocka_unit_test(the_ramp_after_a_short_outage_ends_at_once),
        cmocka_unit_test(a_ramp_ends),
        cmocka_unit_test(trouble_and_recovery),
        cmocka_unit_test(after_an_outage_of_grapnel_only_retries_wait),
        cmocka_unit_test(the_first_success_after_a_start_may_be_a_recovery),
        cmocka_unit_test(without_a_breaker_no_retry_waits),
        cmocka_unit_test(a_bad_deployment_costs_few_dead_letters),
        cmocka_unit_test(without_the_guard_each_refusal_is_a_dead_letter),
        cmocka_unit_test(only_the_same_status_in_a_row_holds_an_endpoint),
        cmocka_unit_test(a_status_about_the_event_ends_a_hold),
        cmocka_unit_test(a_hold_is_restored),
        cmocka_unit_test(a_hold_without_a_breaker),
        cmocka_unit_test(tokens_of_a_turn_wait_for_its_commit),
        cmocka_unit_test(lanes_of_ordering_keys_are_busy_alone),
        cmocka_unit_test(tasks_of_high_priority_are_before_others),
        cmocka_unit_test(a_rate_limit_applies_to_all_attempts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
