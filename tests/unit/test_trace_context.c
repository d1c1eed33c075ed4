/* Tests of trace_context: what is a valid traceparent or tracestate, and which ids are made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "headers.h"
#include "trace_context.h"
#include "wire.h"
#include <stdio.h>
#include <string.h>

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN  "00f067aa0ba902b7"

static void pack(struct buf *b, const char *name, const char *one,
                 const char *two)
{
    buf_init(b, 65536);
    headers_put(b, "content-type", wire_text("text/plain"));
    if (one)
        headers_put(b, name, wire_text(one));
    if (two)
        headers_put(b, name, wire_text(two));
}

/* "": it is refused. */
static const char *parent(const char *name, const char *one, const char *two)
{
    static char out[TRACEPARENT_CHARS + 1];
    struct buf b;
    bool found;

    pack(&b, name, one, two);
    found = traceparent_read((struct bytes){b.data, b.len}, out);
    assert_int_equal(found, *out != 0);
    buf_fini(&b);
    return out;
}

static void a_valid_traceparent_is_read(void **state)
{
    (void)state;
    assert_string_equal(parent("TraceParent", "00-" TRACE "-" SPAN "-01", NULL),
                        "00-" TRACE "-" SPAN "-01");
    assert_string_equal(parent("traceparent", "00-" TRACE "-" SPAN "-00", NULL),
                        "00-" TRACE "-" SPAN "-00");
    /* Only `sampled` is known. */
    assert_string_equal(parent("traceparent", "00-" TRACE "-" SPAN "-ff", NULL),
                        "00-" TRACE "-" SPAN "-01");
    assert_string_equal(parent("traceparent", "00-" TRACE "-" SPAN "-fe", NULL),
                        "00-" TRACE "-" SPAN "-00");
    /* A later version, with more fields or without. */
    assert_string_equal(parent("traceparent", "cc-" TRACE "-" SPAN "-09", NULL),
                        "00-" TRACE "-" SPAN "-01");
    assert_string_equal(
        parent("traceparent", "01-" TRACE "-" SPAN "-01-more", NULL),
        "00-" TRACE "-" SPAN "-01");
}

static void any_other_is_ignored(void **state)
{
    static const char *const wrong[] = {
        "",
        "00",
        "00-" TRACE "-" SPAN,
        "00-" TRACE "-" SPAN "-0",
        "00-" TRACE "-" SPAN "-0g",
        "00-" TRACE "-" SPAN "-0A",
        "00-" TRACE "-" SPAN "-01-",
        "00-" TRACE "-" SPAN "-01-more",
        "00-" TRACE "-" SPAN "-011",
        "01-" TRACE "-" SPAN "-01.",
        "ff-" TRACE "-" SPAN "-01",
        "0g-" TRACE "-" SPAN "-01",
        "00_" TRACE "-" SPAN "-01",
        "00-" TRACE "_" SPAN "-01",
        "00-" TRACE "-" SPAN "_01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01",
        "00-00000000000000000000000000000000-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473-" SPAN "-01-",
        " 00-" TRACE "-" SPAN "-01",
        "00-" TRACE "-" SPAN "-01 ",
        "00-" TRACE "-" SPAN "-01,00-" TRACE "-" SPAN "-01",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_string_equal(parent("traceparent", wrong[i], NULL), "");
    assert_string_equal(parent("traceparent", NULL, NULL), "");
    assert_string_equal(
        parent("traceparents", "00-" TRACE "-" SPAN "-01", NULL), "");
    assert_string_equal(parent("traceparent", "00-" TRACE "-" SPAN "-01",
                               "00-" TRACE "-" SPAN "-01"),
                        "");
}

/* "": nothing was added. */
static const char *state_of(const char *one, const char *two)
{
    static char out[8192];
    struct bytes value;
    struct buf in, to;
    int count;

    pack(&in, "TraceState", one, two);
    buf_init(&to, 65536);
    tracestate_put((struct bytes){in.data, in.len}, &to);
    *out = 0;
    if (headers_get((struct bytes){to.data ? to.data : "", to.len},
                    "tracestate", &value, &count)) {
        assert_int_equal(count, 1);
        snprintf(out, sizeof out, "%.*s", (int)value.n, (const char *)value.p);
    }
    buf_fini(&in);
    buf_fini(&to);
    return out;
}

static void a_valid_tracestate_is_passed_on(void **state)
{
    char many[1024] = "", key[32];

    (void)state;
    assert_string_equal(state_of("a=1", NULL), "a=1");
    assert_string_equal(state_of("a=1 ,\t b=x y", "1t@sys-t_e/m*=!"),
                        "a=1,b=x y,1t@sys-t_e/m*=!");
    assert_string_equal(state_of(",, a=1 ,", ""), "a=1");
    for (int i = 0; i < TRACESTATE_MAX_COUNT; i++) {
        snprintf(key, sizeof key, "%sk%d=v", i ? "," : "", i);
        strcat(many, key);
    }
    assert_string_equal(state_of(many, NULL), many);
}

static void an_invalid_tracestate_is_left_out(void **state)
{
    static const char *const wrong[] = {"",
                                        "a",
                                        "=1",
                                        "a=",
                                        "A=1",
                                        "1=1",
                                        "a=1,a=2",
                                        "a=1,B=2",
                                        "a=1=2",
                                        "a b=1",
                                        "@x=1",
                                        "a@=1",
                                        "a@1=x",
                                        "a@b@c=1",
                                        "a=\x7f",
                                        "a=\xc3\xa4",
                                        "a=\t1b",
                                        "-a=1",
                                        "a@bcdefghijklmnop=1"};
    char many[1024] = "", key[32];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_string_equal(state_of(wrong[i], NULL), "");
    for (int i = 0; i <= TRACESTATE_MAX_COUNT; i++) {
        snprintf(key, sizeof key, "%sk%d=v", i ? "," : "", i);
        strcat(many, key);
    }
    assert_string_equal(state_of(many, NULL), "");
    assert_string_equal(state_of("a=1", "a=2"), "");
    memset(many, 'a', 257);
    strcpy(many + 257, "=1");
    assert_string_equal(state_of(many, NULL), "");
}

/* "KEY=xxx…" of n bytes */
static void member(char *out, const char *key, size_t n)
{
    size_t used = (size_t)sprintf(out, "%s=", key);

    memset(out + used, 'x', n - used);
    out[n] = 0;
}

static void a_long_tracestate_is_cut(void **state)
{
    char a[300], b[300], c[300], all[1600], expect[1600];

    (void)state;
    member(a, "a", 200);
    member(b, "b", 100);
    member(c, "c", 250);
    snprintf(all, sizeof all, "%s,%s,%s", a, b, c);
    snprintf(expect, sizeof expect, "%s,%s", a, b); /* c is above 128 */
    assert_string_equal(state_of(all, NULL), expect);
    member(c, "c", 128);
    member(a, "a", 128);
    member(b, "b", 128);
    snprintf(all, sizeof all, "%s,%s,%s,d=1,e=%s", a, b, c, a + 2);
    snprintf(expect, sizeof expect, "%s,%s,%s,d=1", a, b, c);
    assert_string_equal(state_of(all, NULL), expect);
    member(a, "a", 129);
    snprintf(all, sizeof all, "%s,%s,%s,d=1,e=%s", a, b, c, b + 2);
    snprintf(expect, sizeof expect, "%s,%s,d=1,e=%s", b, c, b + 2);
    assert_string_equal(state_of(all, NULL), expect);
}

/* Stored events and other processes have ids made earlier: they never change. */
static void made_ids_never_change(void **state)
{
    struct bytes none = {"", 0},
                 event = wire_text("evt_01M7ZTFTJX2GJ88K9BVSR291WA"),
                 crm = wire_text("crm");
    char trace[TRACE_ID_CHARS + 1], span[SPAN_ID_CHARS + 1],
        other[SPAN_ID_CHARS + 1], whole[TRACEPARENT_CHARS + 1];

    (void)state;
    trace_id_of(trace, none, event);
    trace_attempt_span(span, event, crm, 1);
    assert_string_equal(trace, "a81f570b66c792c79adb1e62972ce7bb");
    assert_string_equal(span, "60d58f2a830994c3");
    traceparent_of_attempt(whole, none, event, crm, 1);
    assert_string_equal(
        whole, "00-a81f570b66c792c79adb1e62972ce7bb-60d58f2a830994c3-01");
    traceparent_of_attempt(whole, wire_text("00-" TRACE "-" SPAN "-00"), event,
                           crm, 1);
    assert_string_equal(whole, "00-" TRACE "-60d58f2a830994c3-00");

    trace_attempt_span(other, event, crm, 2);
    assert_string_not_equal(other, span);
    trace_attempt_span(other, event, wire_text("crn"), 1);
    assert_string_not_equal(other, span);
    trace_attempt_span(other, wire_text("evt_01M7ZTFTJX2GJ88K9BVSR291WB"), crm,
                       1);
    assert_string_not_equal(other, span);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_valid_traceparent_is_read),
        cmocka_unit_test(any_other_is_ignored),
        cmocka_unit_test(a_valid_tracestate_is_passed_on),
        cmocka_unit_test(an_invalid_tracestate_is_left_out),
        cmocka_unit_test(a_long_tracestate_is_cut),
        cmocka_unit_test(made_ids_never_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
