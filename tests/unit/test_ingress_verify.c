/* Tests of verify: which requests are accepted. P7. */
#include "alloc.h"
#include "headers.h"
#include "signature.h"
#include "verify.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOW_MS 1700000000000LL
#define TIME   "1700000000"

static char *secrets[] = {"one", "two"};
static char *names[] = {"X-Signature"};
static struct signature_key *keys[2];

static int make_keys(void **state)
{
    const struct verify raw = {0};
    const char *why;

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(signature_key_new(&raw, secrets[i], &keys[i], &why),
                         GR_OK);
    return 0;
}

static int free_keys(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        signature_key_free(keys[i]);
    return 0;
}

/* `{ts}.{body}`, hex behind sha256=, as the example configuration has it. */
static struct source ledger(void)
{
    return (struct source){
        .name = "ledger",
        .verify = {.headers = {.items = names, .count = 1},
                   .prefix = "sha256=",
                   .signed_content = "{ts}.{body}",
                   .time = {.kind = EXPR_HEADER, .text = "X-Time"}},
        .secrets = {.items = secrets, .count = 2},
        .keys = keys,
        .clock_skew_ms = 300000,
    };
}

static struct bytes text(const char *s)
{
    return (struct bytes){s, strlen(s)};
}

/* The value of the signature's header for this key, time and body. */
static char *sign(const struct source *s, const char *key, const char *ts,
                  struct bytes body)
{
    struct signing signing = {.ts = text(ts), .body = body};
    struct signature_key *k;
    struct candidate mac;
    struct content content;
    const char *why;
    struct buf out;

    assert_int_equal(signature_key_new(&s->verify, key, &k, &why), GR_OK);
    assert_int_equal(content_make(&content, s->verify.signed_content, &signing),
                     GR_OK);
    assert_int_equal(signature_sign(&s->verify, k, NULL, &content, &mac),
                     GR_OK);
    buf_init(&out, 1000);
    signature_print(&s->verify, &mac, text(ts), &out);
    content_fini(&content);
    signature_key_free(k);
    return buf_take(&out);
}

struct sent {
    struct buf headers;
    struct bytes body;
};

static struct sent request(const char *signature, const char *ts,
                           struct bytes body)
{
    struct sent r = {.body = body};

    buf_init(&r.headers, 1 << 20);
    headers_put(&r.headers, "Host", text("x"));
    if (signature)
        headers_put(&r.headers, "X-Signature", text(signature));
    if (ts)
        headers_put(&r.headers, "X-Time", text(ts));
    return r;
}

static int fitted;

static enum verification judge_at(const struct source *s, struct sent *r,
                                  int64_t now_ms)
{
    enum verification v;

    fitted = -1;
    v = verify(s, (struct bytes){r->headers.data, r->headers.len}, r->body,
               now_ms, &fitted);
    buf_fini(&r->headers);
    return v;
}

static enum verification judge(const char *signature, const char *ts,
                               struct bytes body)
{
    struct source s = ledger();
    struct sent r = request(signature, ts, body);

    return judge_at(&s, &r, NOW_MS);
}

static enum verification judge_signed(const char *ts, struct bytes body,
                                      int64_t now_ms)
{
    struct source s = ledger();
    char *signature = sign(&s, "one", ts, body);
    struct sent r = request(signature, ts, body);

    free(signature);
    return judge_at(&s, &r, now_ms);
}

static void a_signature_of_any_secret_is_accepted(void **state)
{
    struct source s = ledger();

    (void)state;
    for (int i = 0; i < 2; i++) {
        char *signature = sign(&s, secrets[i], TIME, text("{}"));
        struct sent r = request(signature, TIME, text("{}"));

        assert_int_equal(judge_at(&s, &r, NOW_MS), VERDICT_HOLDS);
        assert_int_equal(fitted, i);
        free(signature);
    }
}

static void another_secret_or_body_or_time_is_a_mismatch(void **state)
{
    struct source s = ledger();
    char *good = sign(&s, "one", TIME, text("{}"));
    char *other = sign(&s, "three", TIME, text("{}"));

    (void)state;
    assert_int_equal(judge(good, TIME, text("{}")), VERDICT_HOLDS);
    assert_int_equal(judge(other, TIME, text("{}")),
                     VERDICT_SIGNATURE_MISMATCH);
    assert_int_equal(judge(good, TIME, text("{} ")),
                     VERDICT_SIGNATURE_MISMATCH);
    assert_int_equal(judge(good, TIME, text("")), VERDICT_SIGNATURE_MISMATCH);
    assert_int_equal(judge(good, "1700000001", text("{}")),
                     VERDICT_SIGNATURE_MISMATCH);
    free(good);
    free(other);
}

static void any_bytes_can_be_a_body(void **state)
{
    static const char bytes[] = "\0\r\n\xff\xc3\x28\xe2\x99\xa5";

    (void)state;
    assert_int_equal(judge_signed(TIME, text(""), NOW_MS), VERDICT_HOLDS);
    assert_int_equal(
        judge_signed(TIME, (struct bytes){bytes, sizeof bytes}, NOW_MS),
        VERDICT_HOLDS);
}

static void a_time_is_stale_past_the_skew_on_either_side(void **state)
{
    (void)state;
    assert_int_equal(judge_signed(TIME, text("b"), NOW_MS + 300000),
                     VERDICT_HOLDS);
    assert_int_equal(judge_signed(TIME, text("b"), NOW_MS + 300001),
                     VERDICT_TIMESTAMP_STALE);
    assert_int_equal(judge_signed(TIME, text("b"), NOW_MS - 300000),
                     VERDICT_HOLDS);
    assert_int_equal(judge_signed(TIME, text("b"), NOW_MS - 300001),
                     VERDICT_TIMESTAMP_STALE);
    assert_int_equal(judge_signed("1", text("b"), NOW_MS),
                     VERDICT_TIMESTAMP_STALE);
    assert_int_equal(judge_signed("999999999999999", text("b"), NOW_MS),
                     VERDICT_TIMESTAMP_STALE);
}

static void a_time_has_one_spelling(void **state)
{
    static const char *const wrong[] = {
        "0",           "01700000000",      "+1700000000", "-1",  "1700000000.0",
        "0x65536000",  "1700000000000000", "17e8",        "1 7", "１",
        "1700000000a",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_int_equal(judge_signed(wrong[i], text("b"), NOW_MS),
                         VERDICT_TIMESTAMP_MALFORMED);
    assert_int_equal(judge_signed("", text("b"), NOW_MS),
                     VERDICT_TIMESTAMP_MISSING);
}

static void a_signature_has_its_form_or_is_malformed(void **state)
{
    struct source s = ledger();
    char *good = sign(&s, "one", TIME, text("b"));
    char bad[200];

    (void)state;
    snprintf(bad, sizeof bad, "%s00", good);
    assert_int_equal(judge(bad, TIME, text("b")), VERDICT_SIGNATURE_MALFORMED);
    snprintf(bad, sizeof bad, "%.*s", (int)strlen(good) - 1, good);
    assert_int_equal(judge(bad, TIME, text("b")), VERDICT_SIGNATURE_MALFORMED);
    snprintf(bad, sizeof bad, "%.*s", (int)strlen(good) - 2, good);
    assert_int_equal(judge(bad, TIME, text("b")), VERDICT_SIGNATURE_MALFORMED);
    snprintf(bad, sizeof bad, "%s", good);
    bad[20] = 'g';
    assert_int_equal(judge(bad, TIME, text("b")), VERDICT_SIGNATURE_MALFORMED);
    assert_int_equal(judge(good + 7, TIME, text("b")),
                     VERDICT_SIGNATURE_MALFORMED);
    assert_int_equal(judge("sha256=", TIME, text("b")),
                     VERDICT_SIGNATURE_MALFORMED);
    snprintf(bad, sizeof bad, "%s,%s", good, good);
    assert_int_equal(judge(bad, TIME, text("b")), VERDICT_SIGNATURE_MALFORMED);
    free(good);
}

static void an_absent_header_is_reported_as_missing(void **state)
{
    struct source s = ledger();
    char *good = sign(&s, "one", TIME, text("b"));

    (void)state;
    assert_int_equal(judge(NULL, TIME, text("b")), VERDICT_SIGNATURE_MISSING);
    assert_int_equal(judge("", TIME, text("b")), VERDICT_SIGNATURE_MISSING);
    assert_int_equal(judge(" \t", TIME, text("b")), VERDICT_SIGNATURE_MISSING);
    assert_int_equal(judge(good, NULL, text("b")), VERDICT_TIMESTAMP_MISSING);
    assert_int_equal(judge(good, " ", text("b")), VERDICT_TIMESTAMP_MISSING);
    free(good);
}

static void a_repeated_header_is_refused(void **state)
{
    struct source s = ledger();
    char *good = sign(&s, "one", TIME, text("b"));
    struct sent r = request(good, TIME, text("b"));

    (void)state;
    headers_put(&r.headers, "x-signature", text(good));
    assert_int_equal(judge_at(&s, &r, NOW_MS), VERDICT_SIGNATURE_MALFORMED);
    r = request(good, TIME, text("b"));
    headers_put(&r.headers, "x-time", text(TIME));
    assert_int_equal(judge_at(&s, &r, NOW_MS), VERDICT_TIMESTAMP_MALFORMED);
    free(good);
}

static void
letter_case_of_names_and_blanks_around_values_do_not_count(void **state)
{
    struct source s = ledger();
    char *good = sign(&s, "one", TIME, text("b"));
    char *blanks = gr_printf(" \t%s\t ", good);
    struct sent r = {.body = text("b")};

    (void)state;
    buf_init(&r.headers, 4096);
    headers_put(&r.headers, "x-SIGNATURE", text(blanks));
    headers_put(&r.headers, "X-TIME", text(" " TIME " "));
    assert_int_equal(judge_at(&s, &r, NOW_MS), VERDICT_HOLDS);
    free(good);
    free(blanks);
}

static void a_time_in_the_body_counts_only_with_a_valid_signature(void **state)
{
    struct source s = ledger();
    char *good;
    struct sent r;
    const char *body = "{\"at\":1700000000000}";

    (void)state;
    s.verify.signed_content = "{body}";
    s.verify.time = (struct expr){.kind = EXPR_JSON, .text = "/at"};
    s.verify.time_unit = UNIT_MS;
    good = sign(&s, "one", "", text(body));
    r = request(good, NULL, text(body));
    assert_int_equal(judge_at(&s, &r, NOW_MS), VERDICT_HOLDS);
    r = request(good, NULL, text(body));
    assert_int_equal(judge_at(&s, &r, NOW_MS + 300001),
                     VERDICT_TIMESTAMP_STALE);
    r = request(good, NULL, text("no json"));
    assert_int_equal(judge_at(&s, &r, NOW_MS), VERDICT_SIGNATURE_MISMATCH);
    free(good);
    good = sign(&s, "one", "", text("{}"));
    r = request(good, NULL, text("{}"));
    assert_int_equal(judge_at(&s, &r, NOW_MS), VERDICT_TIMESTAMP_MISSING);
    free(good);
    good = sign(&s, "one", "", text("no json"));
    r = request(good, NULL, text("no json"));
    assert_int_equal(judge_at(&s, &r, NOW_MS), VERDICT_TIMESTAMP_MALFORMED);
    free(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signature_of_any_secret_is_accepted),
        cmocka_unit_test(another_secret_or_body_or_time_is_a_mismatch),
        cmocka_unit_test(any_bytes_can_be_a_body),
        cmocka_unit_test(a_time_is_stale_past_the_skew_on_either_side),
        cmocka_unit_test(a_time_has_one_spelling),
        cmocka_unit_test(a_signature_has_its_form_or_is_malformed),
        cmocka_unit_test(an_absent_header_is_reported_as_missing),
        cmocka_unit_test(a_repeated_header_is_refused),
        cmocka_unit_test(
            letter_case_of_names_and_blanks_around_values_do_not_count),
        cmocka_unit_test(a_time_in_the_body_counts_only_with_a_valid_signature),
    };

    return cmocka_run_group_tests(tests, make_keys, free_keys);
}
