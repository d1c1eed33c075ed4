/* Tests of admission: client addresses behind proxies, rate limits, and the lines of a
 * batch. */
#include "admission.h"
#include "clock.h"
#include "headers.h"
#include "lines.h"
#include "remote.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct cidr ten = {{[10] = 0xff, 0xff, 10}, 104};
static const struct cidr fd = {{0xfd}, 8};

static void expect_remote(const char *peer, const char *first,
                          const char *second, const char *want)
{
    const struct cidr trusted[] = {ten, fd};
    char address[INET6_ADDRSTRLEN];
    struct buf headers;

    buf_init(&headers, 1000);
    headers_put(&headers, "Host", (struct bytes){"10.9.9.9", 8});
    if (first)
        headers_put(&headers, "X-Forwarded-For",
                    (struct bytes){first, strlen(first)});
    if (second)
        headers_put(&headers, "x-forwarded-for",
                    (struct bytes){second, strlen(second)});
    snprintf(address, sizeof address, "%s", peer);
    remote_find(trusted, COUNT_OF(trusted),
                (struct bytes){headers.data, headers.len}, address);
    assert_string_equal(address, want);
    buf_fini(&headers);
}

static void x_forwarded_for_counts_only_from_trusted_proxies(void **state)
{
    (void)state;
    expect_remote("192.0.2.1", "1.2.3.4", NULL, "192.0.2.1");
    expect_remote("10.0.0.1", NULL, NULL, "10.0.0.1");
    expect_remote("10.0.0.1", "1.2.3.4", NULL, "1.2.3.4");
    expect_remote("fd00::1", "1.2.3.4", NULL, "1.2.3.4");
    expect_remote("::ffff:10.0.0.1", "1.2.3.4", NULL, "1.2.3.4");
    /* The first stranger wrote the addresses before its own. */
    expect_remote("10.0.0.1", "9.9.9.9, 1.2.3.4 ,10.7.7.7", NULL, "1.2.3.4");
    expect_remote("10.0.0.1", "9.9.9.9", "1.2.3.4, 10.7.7.7", "1.2.3.4");
    expect_remote("10.0.0.1", "10.1.1.1, 10.2.2.2", NULL, "10.1.1.1");
    expect_remote("10.0.0.1", "1.2.3.4, nonsense, 10.2.2.2", NULL, "10.2.2.2");
    expect_remote("10.0.0.1", "", NULL, "10.0.0.1");
    expect_remote("10.0.0.1", ",,,", NULL, "10.0.0.1");
    expect_remote("10.0.0.1", "1.2.3.4:5678", NULL, "1.2.3.4");
    expect_remote("10.0.0.1", "[2001:db8::1]:443", NULL, "2001:db8::1");
}

static bool goes(struct bucket *b, const struct rate *rate, int64_t count,
                 int64_t us)
{
    if (admission_wait_us(b, rate, count, us))
        return false;
    admission_count(b, rate, count, us);
    return true;
}

static void a_batch_counts_as_its_events(void **state)
{
    const struct rate rate = {10, 1000};
    struct bucket b = {0};
    int64_t us = 1000000000;

    (void)state;
    assert_true(goes(&b, &rate, 6, us));
    assert_int_equal(admission_wait_us(&b, &rate, 6, us), 200000);
    assert_true(goes(&b, &rate, 4, us));
    assert_int_equal(admission_wait_us(&b, &rate, 1, us), 100000);
    assert_true(goes(&b, &rate, 6, us + 600000));
}

/* It would never fit: it goes when nothing is used up, and is paid for after. */
static void a_request_above_the_rate_needs_a_full_bucket(void **state)
{
    const struct rate rate = {10, 1000};
    struct bucket b = {0};
    int64_t us = 1000000000;

    (void)state;
    assert_true(goes(&b, &rate, 1, us));
    assert_int_equal(admission_wait_us(&b, &rate, 50, us), 100000);
    assert_true(goes(&b, &rate, 50, us + 100000));
    assert_int_equal(admission_wait_us(&b, &rate, 1, us + 100000), 4100000);
    assert_int_equal(admission_wait_us(&b, &rate, 50, us + 100000), 5000000);
}

static void a_burst_has_as_many_as_the_rate_names(void **state)
{
    const struct rate rate = {5, 1000};
    struct bucket b = {0};
    int64_t us = 1000000000;

    (void)state;
    for (int i = 0; i < 5; i++)
        assert_true(goes(&b, &rate, 1, us));
    assert_false(goes(&b, &rate, 1, us));
    assert_false(goes(&b, &rate, 1, us + 199999));
    assert_true(goes(&b, &rate, 1, us + 200000));
    assert_false(goes(&b, &rate, 1, us + 200001));
    for (int i = 0; i < 5; i++)
        assert_true(goes(&b, &rate, 1, us + 10 * 1000000));
    assert_false(goes(&b, &rate, 1, us + 10 * 1000000));
}

static enum lines_step read_all(struct lines *l, const struct settings *s,
                                const struct producer *p, struct bytes body)
{
    int64_t count = INT64_MAX, bytes = INT64_MAX;

    return lines_read(l, s, NULL, p, body, &count, &bytes);
}

static void prints(const struct lines *l, const char *wanted)
{
    struct buf out;

    buf_init(&out, 10000);
    lines_print(l, &out);
    assert_string_equal(out.data, wanted);
    buf_fini(&out);
}

static void a_batch_is_judged_line_by_line(void **state)
{
    static const char body[] =
        "\r\n{\"type\":\"a.b\",\"workspace\":\"w\",\"data\":1,\"id\":\"k\"}\r\n"
        "  \n{\"type\":\"x\",\"workspace\":\"w\",\"data\":1}\nnonsense";
    char *types[] = {(char[]){"a.*"}};
    struct producer p = {.name = (char[]){"p"}, .types = {types, 1}};
    struct settings s = {.producers = &p, .producer_count = 1};
    struct lines *l = lines_new();

    (void)state;
    assert_int_equal(read_all(l, &s, &p, (struct bytes){body, strlen(body)}),
                     LINES_END);
    assert_int_equal(l->count, 3);
    assert_int_equal(l->good, 1);
    assert_int_equal(l->items[0].number, 2);
    assert_int_equal(strlen(l->items[0].event_id), EVENT_ID_BYTES);
    assert_int_equal(l->items[1].refusal, RESPONSE_TYPE_FORBIDDEN);
    assert_int_equal(l->items[2].refusal, RESPONSE_EVENT_MALFORMED);
    l->items++, l->count = 1;
    prints(l, "{\"error\":{\"code\":\"forbidden\",\"message\":\"type: "
              "this producer may not use it\",\"line\":4,\"field\":"
              "\"type\"}}\n");
    l->items--;
    lines_free(l);
}

static void a_batch_is_judged_in_pieces(void **state)
{
    static const char body[] = "{}\n\n\n{}\n{}\n{}";
    struct producer p = {.name = (char[]){"p"}};
    struct settings s = {.producers = &p, .producer_count = 1};
    struct bytes all = {body, strlen(body)};
    struct lines *l = lines_new();
    int64_t count = 2, bytes = 100;

    (void)state;
    assert_int_equal(lines_read(l, &s, NULL, &p, all, &count, &bytes),
                     LINES_MORE);
    assert_int_equal(l->count, 2);
    assert_int_equal(count, 0);
    assert_int_equal(bytes, 100 - 8);
    assert_int_equal(lines_read(l, &s, NULL, &p, all, &count, &bytes),
                     LINES_MORE);
    assert_int_equal(l->count, 2);
    count = 100, bytes = 1; /* the last line may exceed it */
    assert_int_equal(lines_read(l, &s, NULL, &p, all, &count, &bytes),
                     LINES_MORE);
    assert_int_equal(l->count, 3);
    assert_int_equal(read_all(l, &s, &p, all), LINES_END);
    assert_int_equal(l->count, 4);
    assert_int_equal(l->items[3].number, 6);
    lines_free(l);
}

static void a_batch_has_a_bound(void **state)
{
    struct producer p = {.name = (char[]){"p"}};
    struct settings s = {.producers = &p, .producer_count = 1};
    struct lines *l = lines_new();
    struct buf body;

    (void)state;
    buf_init(&body, 1 << 20);
    for (int i = 0; i < LINES_MAX_COUNT; i++)
        buf_puts(&body, "{}\n\n");
    assert_int_equal(read_all(l, &s, &p, (struct bytes){body.data, body.len}),
                     LINES_END);
    assert_int_equal(l->good, 0);
    buf_puts(&body, "{}");
    assert_int_equal(read_all(l, &s, &p, (struct bytes){body.data, body.len}),
                     LINES_TOO_MANY);
    lines_free(l);
    buf_fini(&body);
}

/* What is committed stays; a key that was reused in what is not may be free again; what was
 * wrong is wrong. */
static void the_uncommitted_rest_of_a_batch_is_refused(void **state)
{
    struct line items[] = {{.number = 1, .event_id = "evt_1"},
                           {.number = 2, .event_id = "evt_2"},
                           {.number = 3, .event_id = "evt_3"},
                           {.number = 5, .event_id = "evt_5"},
                           {.number = 6, .event_id = "evt_6"}};
    struct lines *l = lines_new();

    (void)state;
    l->items = items, l->count = l->good = 5;
    lines_refuse(l, &items[1], RESPONSE_KEY_REUSED);
    lines_refuse(l, &items[3], RESPONSE_KEY_REUSED);
    l->committed = 2;
    l->inserted = 4;
    lines_give_up(l, RESPONSE_DISK_FULL);
    assert_int_equal(l->good, 1);
#define FULL(n)                                                           \
    "{\"error\":{\"code\":\"unavailable\",\"message\":\"the event could " \
    "not be stored: send the request again\",\"line\":" #n "}}\n"
    prints(l, "{\"line\":1,\"id\":\"evt_1\",\"status\":\"accepted\"}\n"
              "{\"error\":{\"code\":\"idempotency_key_reused\",\"message\":"
              "\"this idempotency key was used before for an event with other "
              "content: use a new key\","
              "\"line\":2,\"id\":\"evt_2\"}}\n" FULL(3) FULL(5) FULL(6));
    l->items = NULL;
    lines_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(x_forwarded_for_counts_only_from_trusted_proxies),
        cmocka_unit_test(a_burst_has_as_many_as_the_rate_names),
        cmocka_unit_test(a_batch_counts_as_its_events),
        cmocka_unit_test(a_request_above_the_rate_needs_a_full_bucket),
        cmocka_unit_test(a_batch_is_judged_line_by_line),
        cmocka_unit_test(a_batch_is_judged_in_pieces),
        cmocka_unit_test(a_batch_has_a_bound),
        cmocka_unit_test(the_uncommitted_rest_of_a_batch_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
