/* Tests of the built-in retry policies, from the first attempt to the last on a
 * simulated clock. */
#include "backoff.h"
#include "clock.h"
#include "config.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct settings *built_in;

static int load(void **state)
{
    char path[] = "/tmp/grapnel-test-policies-XXXXXX";
    int fd = mkstemp(path);
    struct buf errors;

    (void)state;
    buf_init(&errors, 4096);
    assert_true(fd >= 0 && dprintf(fd, "run_dir: /tmp/r\n") > 0);
    built_in = settings_load(path, &errors);
    close(fd);
    unlink(path);
    if (!built_in)
        fail_msg("%s", errors.data);
    buf_fini(&errors);
    return 0;
}

static int unload(void **state)
{
    (void)state;
    settings_free(built_in);
    return 0;
}

static const struct retry_policy *named(const char *name)
{
    for (size_t i = 0; i < built_in->policy_count; i++)
        if (strcmp(built_in->policies[i].name, name) == 0)
            return &built_in->policies[i];
    fail_msg("no policy %s", name);
    return NULL;
}

enum { NONE, MIN, MAX }; /* of the jitter */

static uint64_t chance(int which)
{
    return which == MIN ? 0 : which == MAX ? UINT64_MAX : 1ULL << 63;
}

/* An endpoint that always fails at once: the waits in s into `waits`, how many
 * into *n. */
static enum backoff_end live(const struct retry_policy *p, int which,
                             int64_t *waits, size_t *n)
{
    int64_t now = DAY_MS, next = 0;

    for (uint64_t attempts = 1;; attempts++) {
        enum backoff_end end = backoff_next(
            &(struct backoff){.policy = p,
                              .attempts = attempts,
                              .first_ms = DAY_MS,
                              .now_ms = now,
                              .random = chance(which)},
            &next);

        if (end != BACKOFF_WAIT)
            return end;
        assert_true(*n < 64);
        waits[(*n)++] = (next - now) / SECOND_MS;
        now = next;
    }
}

static void check(const char *name, int which, enum backoff_end want_end,
                  const int64_t *want, size_t count)
{
    int64_t waits[64];
    size_t n = 0;
    enum backoff_end end = live(named(name), which, waits, &n);

    assert_int_equal(end, want_end);
    assert_int_equal(n, count);
    for (size_t i = 0; i < n; i++)
        if (waits[i] != want[i])
            fail_msg("%s: wait %zu is %lld s, not %lld", name, i + 1,
                     (long long)waits[i], (long long)want[i]);
}

#define M(n) ((n)*60)
#define H(n) ((n)*3600)

/* At once, 1 m, 5 m … 48 h, then every 48 h until 7 days. */
static void omise_is_what_omise_publishes(void **state)
{
    static const int64_t want[] = {M(1), M(5),  M(15), H(1),  H(3),
                                   H(6), H(12), H(24), H(48), H(48)};

    (void)state;
    check("omise", NONE, BACKOFF_TIME_USED, want, COUNT_OF(want));
    check("omise", MAX, BACKOFF_TIME_USED, want, COUNT_OF(want));
}

/* Omise ends an attempt after 10 s; the other policies leave that to the endpoint. */
static void omise_has_its_own_timeout(void **state)
{
    const struct endpoint_settings e = {.timeout_ms = 15000};

    (void)state;
    assert_int_equal(settings_timeout_ms(&e, named("omise")), 10000);
    assert_int_equal(settings_timeout_ms(&e, named("default")), 15000);
}

/* 10 m, 20 m … each ±15 %. */
static void plane_is_what_plane_does(void **state)
{
    static const int64_t min[] = {510, 1020, 2040, 4080, 8160, 16320, 32640};

    (void)state;
    check("plane", MIN, BACKOFF_ATTEMPTS_USED, min, COUNT_OF(min));
    for (size_t i = 0; i < COUNT_OF(min); i++)
        assert_int_equal(backoff_wait_ms(named("plane"), i + 1),
                         M(10) * SECOND_MS << i);
    check("plane-recommended", MIN, BACKOFF_ATTEMPTS_USED,
          (const int64_t[]){255, 510, 1020, 2040, 4080}, 5);
}

static void default_and_strict_grow_to_their_most(void **state)
{
    static const int64_t by_default[] = {5,    15,    45,    135,   405,  1215,
                                         3645, 10935, 21600, 21600, 21600};
    static const int64_t strict[] = {1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60};

    (void)state;
    for (size_t i = 0; i < 11; i++) {
        assert_int_equal(backoff_wait_ms(named("default"), i + 1),
                         by_default[i] * SECOND_MS);
        assert_int_equal(backoff_wait_ms(named("strict"), i + 1),
                         strict[i] * SECOND_MS);
    }
    check("strict", MIN, BACKOFF_ATTEMPTS_USED, (const int64_t[11]){0}, 11);
    /* At the most that chance can make of them, both budgets hold. */
    check("default", MAX, BACKOFF_ATTEMPTS_USED, by_default, 11);
}

static void built_in_policies_retry_the_documented_statuses(void **state)
{
    static const struct {
        const char *name;
        int yes[8], no[8];
    } cases[] = {
        {"default", {408, 425, 429, 500, 599}, {400, 404, 409}},
        {"strict", {408, 429, 502, 503, 504}, {425, 500, 501, 505}},
        {"plane", {408, 425, 429, 500, 599}, {400, 404}},
        {"omise", {400, 404, 410, 499, 500, 599}, {0}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct retry_on *on = &named(cases[i].name)->retry_on;

        assert_true(on->network);
        for (int k = 0; k < 8 && cases[i].yes[k]; k++)
            assert_true(
                on->status[cases[i].yes[k] / 8] >> (cases[i].yes[k] % 8) & 1);
        for (int k = 0; k < 8 && cases[i].no[k]; k++)
            assert_false(
                on->status[cases[i].no[k] / 8] >> (cases[i].no[k] % 8) & 1);
        assert_true(named(cases[i].name)->respect_retry_after);
    }
}

/* Whichever ends first; a wait that would end after it is not begun. */
static void an_event_may_expire_before_its_budget(void **state)
{
    struct backoff b = {.policy = named("omise"),
                        .attempts = 1,
                        .first_ms = 1,
                        .now_ms = 1,
                        .expires_ms = 1 + MINUTE_MS};
    int64_t next;

    (void)state;
    assert_int_equal(backoff_next(&b, &next), BACKOFF_EXPIRED);
    b.expires_ms++;
    assert_int_equal(backoff_next(&b, &next), BACKOFF_WAIT);
    b.retry_after_ms = 2 * MINUTE_MS; /* it asks for too long */
    assert_int_equal(backoff_next(&b, &next), BACKOFF_EXPIRED);
    b.expires_ms = 0;
    assert_int_equal(backoff_next(&b, &next), BACKOFF_WAIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(omise_is_what_omise_publishes),
        cmocka_unit_test(omise_has_its_own_timeout),
        cmocka_unit_test(plane_is_what_plane_does),
        cmocka_unit_test(default_and_strict_grow_to_their_most),
        cmocka_unit_test(built_in_policies_retry_the_documented_statuses),
        cmocka_unit_test(an_event_may_expire_before_its_budget),
    };

    return cmocka_run_group_tests(tests, load, unload);
}
