/* What the sequencer sends a deliverer of an endpoint: each row of ENDPOINT_SETTINGS arrives
 * as it was configured, and what is beyond a row's bounds is refused. */
#include "config.h"
#include "endpoint_config.h"
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* No value is its row's default. */
static const char text[] =
    "retry_policies:\n"
    "  - {name: p, backoff: schedule, schedule: [1m, 2h], repeat_last: true,"
    " jitter: 15%, max_attempts: 7, max_duration: 3h,"
    " retry_on: [302, 409, 5xx], respect_retry_after: false,"
    " timeout: 9s}\n"
    "  - {name: q, backoff: exponential, first_wait: 7s, max_wait: 9h,"
    " factor: 2.5, jitter: none, max_attempts: 9}\n"
    "endpoints:\n"
    "  - name: e\n"
    "    url: http://10.1.2.3:8443/hooks\n"
    "    method: PUT\n"
    "    headers: {X-One: a, X-Two: b}\n"
    "    trace_context: traceparent\n"
    "    signing_secrets: [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]\n"
    "    allow_private: [10.0.0.0/8, \"fd00::/8\"]\n"
    "    timeout: 11s\n"
    "    connect_timeout: 3s\n"
    "    max_in_flight: 17\n"
    "    ordered: all\n"
    "    rate_limit: 50/m\n"
    "    breaker: false\n"
    "    guard: off\n"
    "    retry_policy: p\n"
    "    allowed_ports: [80, 8443]\n"
    "  - {name: f, url: \"http://f\", retry_policy: q}\n"
    "  - {name: g, transport: pull, retry_policy: q}\n";

static struct settings *settings;

static int load(void **state)
{
    char path[] = "/tmp/grapnel-test-endpoint-XXXXXX";
    int fd = mkstemp(path);
    struct buf errors;

    (void)state;
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    buf_init(&errors, 65536);
    settings = settings_load(path, &errors);
    if (!settings)
        fail_msg("%s", errors.data);
    buf_fini(&errors);
    return unlink(path);
}

static int unload(void **state)
{
    (void)state;
    settings_free(settings);
    return 0;
}

struct sent {
    struct buf bytes;
    struct wire_endpoint_config w;
};

static void carry(struct sent *s, size_t endpoint)
{
    buf_init(&s->bytes, ENDPOINT_CONFIG_MAX_BYTES);
    endpoint_config_encode(&settings->endpoints[endpoint], 0, &s->bytes);
    assert_int_equal(wire_get_endpoint_config(
                         &s->w, (struct bytes){s->bytes.data, s->bytes.len}),
                     GR_OK);
}

#define SAME(m)          assert_true(to->m == from->m);
#define SAME_string(m)   assert_string_equal(to->m, from->m);
#define SAME_url(m)      assert_string_equal(to->m, from->m);
#define SAME_boolean(m)  SAME(m)
#define SAME_switch(m)   SAME(m)
#define SAME_choice(m)   SAME(m)
#define SAME_int(m)      SAME(m)
#define SAME_duration(m) SAME(m)
#define SAME_number(m)   SAME(m)
#define SAME_bytes(m)    assert_memory_equal(&to->m, &from->m, sizeof to->m);
#define SAME_ports(m)    SAME_bytes(m)
#define SAME_rate(m)     SAME_bytes(m)
#define SAME_retry_on(m) SAME_bytes(m)
#define SAME_jitter(m)   SAME(m.full) SAME(m.part)
#define SAME_durations(m) \
    SAME(m.count)         \
    assert_memory_equal(to->m.ms, from->m.ms, from->m.count * 8);
/* They are used as they travel. */
#define SAME_strings_sent(m, s) \
    assert_true(w->m.n == strlen(s) && !memcmp(w->m.p, s, w->m.n));
#define SAME_strings(m) SAME_strings_sent(m, from->m.items[0])
#define SAME_allow_private(m) \
    SAME_strings_sent(allow_cidrs, "10.0.0.0/8 fd00::/8")
#define SAME_headers(m) assert_int_equal(w->m.n, 2 * (8 + strlen("X-Onea")));
#define SAME_tls(m)     assert_null(to->m.ca);
#define SAME_policy(m)  assert_non_null(to->policy);

#define SAME_POLICY(F, KIND, NAME, ...) SAME_##KIND(NAME)

static void same_policy(const struct retry_policy *to,
                        const struct retry_policy *from)
{
    RETRY_POLICY_SETTINGS(SAME_POLICY, )
}

#define SAME_ROW(F, TO, SCOPE, KIND, NAME, ...) SAME_##TO(KIND, NAME)
#define SAME_DELIVERER(KIND, NAME)              SAME_##KIND(NAME)
#define SAME_SEQUENCER(KIND, NAME)

static void each_setting_arrives_as_it_was_configured(void **state)
{
    const struct endpoint_settings *from = &settings->endpoints[0];
    struct endpoint_settings read = {0}, *to = &read;
    struct retry_policy policy = {0};
    struct sent sent;
    const struct wire_endpoint_config *w = &sent.w;
    const char *why;

    (void)state;
    carry(&sent, 0);
    assert_int_equal(endpoint_config_read(w, to, &policy, &why), GR_OK);
    ENDPOINT_SETTINGS(SAME_ROW, )
    same_policy(&policy, from->policy);
    endpoint_config_free(to, &policy);
    buf_fini(&sent.bytes);
}

static void a_policy_arrives_as_it_was_configured(void **state)
{
    struct endpoint_settings e = {0};
    struct retry_policy policy = {0};
    struct sent sent;
    const char *why;

    (void)state;
    carry(&sent, 1);
    assert_int_equal(endpoint_config_read(&sent.w, &e, &policy, &why), GR_OK);
    same_policy(&policy, settings->endpoints[1].policy);
    endpoint_config_free(&e, &policy);
    buf_fini(&sent.bytes);
}

static void refused(const struct wire_endpoint_config *w, const char *key)
{
    struct endpoint_settings e = {0};
    struct retry_policy policy = {0};
    const char *why = NULL;

    assert_int_equal(endpoint_config_read(w, &e, &policy, &why), GR_REFUSE);
    assert_non_null(strstr(why, key));
    endpoint_config_free(&e, &policy);
}

/* One field at a time is wrong: larger than any bound, or of no known word. */
#define WRONG(m, key)     \
    {                     \
        w = sent.w;       \
        w.m = INT64_MAX;  \
        refused(&w, key); \
    }
#define WRONG_choice(m, key)   WRONG(m, key)
#define WRONG_int(m, key)      WRONG(m, key)
#define WRONG_duration(m, key) WRONG(m, key)
#define WRONG_number(m, key)   WRONG(m##_milli, key)
#define WRONG_rate(m, key)     WRONG(m##_count, key) WRONG(m##_per_ms, key)
#define WRONG_length(m, key) \
    {                        \
        w = sent.w;          \
        w.m.n = 3;           \
        refused(&w, key);    \
    }
#define WRONG_ports(m, key)     WRONG_length(m, key)
#define WRONG_durations(m, key) WRONG_length(m, key)
#define WRONG_policy(m, key)    RETRY_POLICY_SETTINGS(WRONG_POLICY, )
#define WRONG_string(m, key)
#define WRONG_url(m, key)
#define WRONG_strings(m, key)
#define WRONG_boolean(m, key)
#define WRONG_switch(m, key)
#define WRONG_headers(m, key)
#define WRONG_allow_private(m, key)
#define WRONG_tls(m, key)
#define WRONG_jitter(m, key)
#define WRONG_retry_on(m, key)

#define WRONG_POLICY(F, KIND, NAME, KEY, ...) WRONG_##KIND(NAME, KEY)
#define WRONG_ROW(F, TO, SCOPE, KIND, NAME, KEY, ...) \
    WRONG_TO_##TO(KIND, NAME, KEY)
#define WRONG_TO_DELIVERER(KIND, NAME, KEY) WRONG_##KIND(NAME, KEY)
#define WRONG_TO_SEQUENCER(KIND, NAME, KEY)

static void a_value_beyond_its_bounds_is_refused(void **state)
{
    struct wire_endpoint_config w;
    struct sent sent;

    (void)state;
    carry(&sent, 0);
    ENDPOINT_SETTINGS(WRONG_ROW, )
    w = sent.w;
    w.max_in_flight = 0; /* below its least */
    refused(&w, "max_in_flight");
    w = sent.w;
    w.max_in_flight = 10001; /* above its most */
    refused(&w, "max_in_flight");
    w = sent.w;
    w.ordered = LANES_ALL + 1; /* behind its last word */
    refused(&w, "ordered");
    w = sent.w;
    w.max_attempts = 0;
    w.max_duration_ms = 0;
    refused(&w, "no limit");
    buf_fini(&sent.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_setting_arrives_as_it_was_configured),
        cmocka_unit_test(a_policy_arrives_as_it_was_configured),
        cmocka_unit_test(a_value_beyond_its_bounds_is_refused),
    };

    return cmocka_run_group_tests(tests, load, unload);
}
