/* Tests of expr and of profiles: where a request has a field, and what the event is. */
#include "bounds.h"
#include "expr.h"
#include "headers.h"
#include "profile.h"
#include "settings_types.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char body[] =
    "{\"type\":\"paid\",\"n\":42,\"f\":1.5,\"yes\":true,\"null\":null,"
    "\"empty\":\"\",\"a/b\":\"slash\",\"m~n\":\"tilde\",\"\":\"no name\","
    "\"list\":[\"zero\",{\"id\":\"one\"}],\"o\":{\"id\":7},"
    "\"nul\":\"a\\u0000b\",\"e\":\"caf\\u00e9\"}";

struct request {
    struct buf headers;
    struct subject s;
};

static struct bytes text(const char *s)
{
    return (struct bytes){s, strlen(s)};
}

static void request_init(struct request *r, const char *event, const char *json)
{
    buf_init(&r->headers, HEADERS_MAX_BYTES);
    headers_put(&r->headers, "Host", text("x"));
    if (event)
        headers_put(&r->headers, "x-plane-event", text(event));
    headers_put(&r->headers, "X-Twice", text("1"));
    headers_put(&r->headers, "X-Twice", text("2"));
    headers_put(&r->headers, "X-Empty", text(""));
    r->s = (struct subject){
        .source = "ledger",
        .provider = "custom",
        .headers = {r->headers.data, r->headers.len},
        .body = text(json),
    };
}

static void request_fini(struct request *r)
{
    subject_fini(&r->s);
    buf_fini(&r->headers);
}

/* The value of `expression`, or "!" and why there is none. */
static const char *value(struct request *r, const char *expression)
{
    static char out[512];
    struct expr e;
    struct buf b;
    const char *why = NULL;

    assert_int_equal(expr_parse(&e, expression, &why), GR_OK);
    buf_init(&b, sizeof out - 1);
    if (expr_value(&e, &r->s, &b, &why) == GR_OK)
        snprintf(out, sizeof out, "%.*s", (int)b.len, b.data);
    else
        snprintf(out, sizeof out, "!%s", why);
    buf_fini(&b);
    expr_fini(&e);
    return out;
}

static void a_printed_expression_reads_the_same(void **state)
{
    static const char *const all[] = {
        "header:X-Id", "json:/a/0", "json:",     "const:a b",
        "source",      "form:a b",  "query:x",   "provider",
        "id",          "type",      "workspace", "body_sha256",
    };
    struct expr e;
    struct buf b;
    const char *why;

    (void)state;
    buf_init(&b, 100);
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        assert_int_equal(expr_parse(&e, all[i], &why), GR_OK);
        buf_reset(&b);
        expr_print(&e, &b);
        assert_string_equal(b.data, all[i]);
        expr_fini(&e);
    }
    buf_fini(&b);
}

static void an_invalid_expression_is_refused(void **state)
{
    static const char *const all[] = {
        "",         "Source", "header:", "header:a b", "json:a", "json:~",
        "json:/~2", "const:", "form:",   "query:",     "body",   "json",
    };
    struct expr e;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        const char *why = NULL;

        assert_int_equal(expr_parse(&e, all[i], &why), GR_REFUSE);
        assert_non_null(why);
        expr_fini(&e);
    }
}

static void json_pointers_are_those_of_rfc_6901(void **state)
{
    struct request r;

    (void)state;
    request_init(&r, NULL, body);
    assert_string_equal(value(&r, "json:/type"), "paid");
    assert_string_equal(value(&r, "json:/n"), "42");
    assert_string_equal(value(&r, "json:/f"), "1.5");
    assert_string_equal(value(&r, "json:/yes"), "true");
    assert_string_equal(value(&r, "json:/a~1b"), "slash");
    assert_string_equal(value(&r, "json:/m~0n"), "tilde");
    assert_string_equal(value(&r, "json:/"), "no name");
    assert_string_equal(value(&r, "json:/list/0"), "zero");
    assert_string_equal(value(&r, "json:/list/1/id"), "one");
    assert_string_equal(value(&r, "json:/o/id"), "7");
    assert_string_equal(value(&r, "json:/e"), "caf\xc3\xa9");
    request_fini(&r);
}

static void absent_null_and_empty_fields_are_absent(void **state)
{
    static const char *const all[] = {
        "json:/none",   "json:/null",     "json:/empty",  "json:/list/2",
        "json:/list/-", "json:/list/00",  "json:/type/x", "json:/o/id/x",
        "header:X-No",  "header:X-Empty", "id",           "type",
    };
    struct request r;

    (void)state;
    request_init(&r, NULL, body);
    for (size_t i = 0; i < COUNT_OF(all); i++)
        assert_string_equal(value(&r, all[i]), "!not there");
    request_fini(&r);
}

static void a_field_with_several_values_is_an_error(void **state)
{
    struct request r;

    (void)state;
    request_init(&r, NULL, body);
    assert_non_null(strstr(value(&r, "json:/list"), "not a single value"));
    assert_non_null(strstr(value(&r, "json:"), "not a single value"));
    assert_non_null(strstr(value(&r, "header:x-twice"), "more than once"));
    request_fini(&r);
    request_init(&r, NULL, "{\"a\":");
    assert_non_null(strstr(value(&r, "json:/a"), "the body is not JSON"));
    assert_non_null(strstr(value(&r, "json:/a"), "the body is not JSON"));
    request_fini(&r);
    request_init(&r, NULL, "");
    assert_non_null(strstr(value(&r, "json:/a"), "the body is not JSON"));
    request_fini(&r);
    /* A reason, and so the same for all: dead letters are counted by it. */
    request_init(&r, NULL, "{\"a\": mine}");
    assert_string_equal(value(&r, "json:/a"),
                        "!the body is not JSON: invalid token");
    request_fini(&r);
}

static void a_number_too_large_spoils_only_itself(void **state)
{
    struct request r;

    (void)state;
    request_init(&r, NULL,
                 "{\"big\":123456789012345678901234567890,\"id\":\"a\","
                 "\"n\":42,\"max\":9223372036854775807}");
    assert_string_equal(value(&r, "json:/id"), "a");
    assert_string_equal(value(&r, "json:/n"), "42");
    assert_int_equal(*value(&r, "json:/big"), '!');
    assert_int_equal(*value(&r, "json:/max"), '!');
    request_fini(&r);
    request_init(&r, NULL, "{\"max\":9223372036854775807}");
    assert_string_equal(value(&r, "json:/max"), "9223372036854775807");
    request_fini(&r);
}

static void words_name_the_event_s_own_fields(void **state)
{
    struct request r;

    (void)state;
    request_init(&r, NULL, "abc");
    r.s.id = "e1";
    assert_string_equal(value(&r, "source"), "ledger");
    assert_string_equal(value(&r, "provider"), "custom");
    assert_string_equal(value(&r, "id"), "e1");
    assert_string_equal(value(&r, "const:x y"), "x y");
    assert_string_equal(
        value(&r, "body_sha256"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    request_fini(&r);
}

static void a_value_that_does_not_fit_leaves_the_buffer_as_it_was(void **state)
{
    struct request r;
    struct expr e;
    struct buf b;
    const char *why;

    (void)state;
    request_init(&r, NULL, body);
    assert_int_equal(expr_parse(&e, "const:abcdef", &why), GR_OK);
    buf_init(&b, 8);
    buf_puts(&b, "123");
    assert_int_equal(expr_value(&e, &r.s, &b, &why), GR_REFUSE);
    assert_false(b.failed);
    assert_string_equal(b.data, "123");
    buf_fini(&b);
    expr_fini(&e);
    request_fini(&r);
}

/* A form, with a query and without JSON. */
static void form_init(struct request *r, const char *form, const char *type)
{
    request_init(r, NULL, form);
    headers_put(&r->headers, ":query", text("q=a+b&twice=1&twice=2&none="));
    if (type)
        headers_put(&r->headers, "Content-Type", text(type));
    r->s.headers = (struct bytes){r->headers.data, r->headers.len};
}

static void fields_of_forms_and_queries_are_found(void **state)
{
    struct request r;

    (void)state;
    form_init(&r, "id=7&name=caf%C3%A9&two=1&two=2",
              "application/x-www-form-urlencoded");
    assert_string_equal(value(&r, "form:id"), "7");
    assert_string_equal(value(&r, "form:name"), "caf\xc3\xa9");
    assert_string_equal(value(&r, "form:two"),
                        "!the request has the field more than once");
    assert_string_equal(value(&r, "form:no"), "!not there");
    assert_string_equal(value(&r, "query:q"), "a b");
    assert_string_equal(value(&r, "query:none"), "!not there");
    assert_string_equal(value(&r, "query:twice"),
                        "!the request has the field more than once");
    assert_non_null(strstr(value(&r, "json:/id"), "not JSON"));
    request_fini(&r);
    form_init(&r, "id=7", "application/json");
    assert_string_equal(value(&r, "form:id"), "!not there");
    request_fini(&r);
    form_init(&r, "id=7", NULL);
    assert_string_equal(value(&r, "form:id"), "7");
    request_fini(&r);
    request_init(&r, NULL, "{}"); /* without a query */
    assert_string_equal(value(&r, "query:q"), "!not there");
    request_fini(&r);
}

/* One cut dead letter is no reason to refuse it all. */
static void half_a_surrogate_pair_spoils_no_other_field(void **state)
{
    struct request r;

    (void)state;
    request_init(&r, NULL, "{\"name\":\"a\\ud83d\",\"id\":7}");
    assert_string_equal(value(&r, "json:/id"), "7");
    assert_string_equal(value(&r, "json:/name"), "a\xef\xbf\xbd");
    request_fini(&r);
}

static void json_in_a_form_is_read_from_its_payload(void **state)
{
    struct request r;

    (void)state;
    form_init(&r, "x=1&payload=%7B%22action%22%3A%22opened%22%7D",
              "application/x-www-form-urlencoded");
    assert_string_equal(value(&r, "json:/action"), "opened");
    assert_string_equal(value(&r, "form:x"), "1");
    request_fini(&r);
    form_init(&r, "payload=1&payload=2", NULL);
    assert_non_null(strstr(value(&r, "json:/action"), "not JSON"));
    request_fini(&r);
    form_init(&r, "{\"payload\":\"{}\"}", NULL);
    assert_string_equal(value(&r, "json:/payload"), "{}");
    request_fini(&r);
}

static void the_first_available_expression_counts(void **state)
{
    struct expr third = {.kind = EXPR_CONST, .text = (char[]){"last"}};
    struct expr second = {.kind = EXPR_JSON, .text = (char[]){"/type"}};
    struct expr first = {.kind = EXPR_HEADER, .text = (char[]){"X-No"}};
    struct expr copy;
    struct request r;
    struct buf b;
    const char *why;

    (void)state;
    first.other = &second;
    second.other = &third;
    buf_init(&b, 100);
    request_init(&r, NULL, body);
    assert_int_equal(expr_value(&first, &r.s, &b, &why), GR_OK);
    assert_string_equal(b.data, "paid");
    request_fini(&r);
    request_init(&r, NULL, "not JSON"); /* is no hindrance */
    buf_reset(&b);
    expr_copy(&copy, &first);
    assert_int_equal(expr_value(&copy, &r.s, &b, &why), GR_OK);
    assert_string_equal(b.data, "last");
    expr_fini(&copy);
    second.other = NULL;
    buf_reset(&b);
    assert_int_equal(expr_value(&first, &r.s, &b, &why), GR_REFUSE);
    assert_ptr_not_equal(why, expr_not_there); /* the last one's reason */
    request_fini(&r);
    buf_fini(&b);
}

/* ---- profiles ---- */

static void source_init(struct source *s, const char *provider)
{
    *s = (struct source){.profile = profile_find(provider)};
    profile_fill(s);
}

static void source_fini(struct source *s)
{
    struct expr *all[] = {&s->id,     &s->delivery_id, &s->type,
                          &s->action, &s->workspace,   &s->mode};

    for (size_t i = 0; i < COUNT_OF(all); i++)
        expr_fini(all[i]);
    for (size_t i = 0; i < s->dedupe.count; i++) {
        for (size_t j = 0; j < s->dedupe.keys[i].count; j++)
            expr_fini(&s->dedupe.keys[i].parts[j]);
        free(s->dedupe.keys[i].parts);
    }
    free(s->dedupe.keys);
    expr_fini(&s->dedupe.unique);
    settings_verify_forget(&s->verify);
    string_list_fini(&s->forward_headers);
}

static const char *asked(gr_rc (*what)(const struct source *, struct subject *,
                                       struct buf *, const char **),
                         const struct source *s, const char *event,
                         const char *json)
{
    static char out[512];
    struct request r;
    struct buf b;
    const char *why = NULL;

    request_init(&r, event, json);
    buf_init(&b, sizeof out - 1);
    if (what(s, &r.s, &b, &why) == GR_OK)
        snprintf(out, sizeof out, "%s", b.data ? b.data : "");
    else
        snprintf(out, sizeof out, "!%s", why);
    buf_fini(&b);
    request_fini(&r);
    return out;
}

static void plane_s_types_are_joined_and_normalised(void **state)
{
    static const struct {
        const char *event, *json, *type;
    } all[] = {
        {"issue", "{\"action\":\"created\"}", "issue.created"},
        {"issue", "{\"action\":\"create\"}", "issue.created"},
        {"issue", "{\"action\":\"update\"}", "issue.updated"},
        {"issue_comment", "{\"action\":\"delete\"}", "issue_comment.deleted"},
        {"Issue-Comment", "{\"action\":\"DELETED\"}", "issue_comment.deleted"},
        {"cycle", "{\"action\":\"archived\"}", "cycle.archived"},
        {"module", "{}", "module"},
        {NULL, "{\"action\":\"created\"}", "unknown"},
    };
    struct source s;

    (void)state;
    source_init(&s, "plane");
    for (size_t i = 0; i < COUNT_OF(all); i++)
        assert_string_equal(asked(profile_type, &s, all[i].event, all[i].json),
                            all[i].type);
    assert_non_null(strstr(asked(profile_type, &s, "issue", "no"), "not JSON"));
    source_fini(&s);
}

static void a_workspace_is_found_or_is_default_or_is_refused(void **state)
{
    struct source s;

    (void)state;
    source_init(&s, "plane");
    assert_string_equal(
        asked(profile_workspace, &s, "issue", "{\"workspace_id\":\"w1\"}"),
        "w1");
    assert_string_equal(asked(profile_workspace, &s, "issue", "{}"), "default");
    assert_int_equal(*asked(profile_workspace, &s, "issue", "<xml>"), '!');
    assert_int_equal(
        *asked(profile_workspace, &s, "issue", "{\"workspace_id\":{}}"), '!');
    /* It becomes a header's value: no line of one's own. */
    assert_non_null(strstr(asked(profile_workspace, &s, "issue",
                                 "{\"workspace_id\":\"a\\r\\nX: y\"}"),
                           "control"));
    assert_non_null(strstr(asked(profile_workspace, &s, "issue",
                                 "{\"workspace_id\":\"a\\u0000b\"}"),
                           "control"));
    assert_string_equal(asked(profile_event_id, &s, "issue", "{}"), "");
    source_fini(&s);
}

static void bytes_that_are_not_text_are_not_an_id(void **state)
{
    struct source s;
    const char *why;

    (void)state;
    source_init(&s, "custom");
    assert_true(s.dedupe.none); /* there is no id to recognise a duplicate by */
    assert_int_equal(expr_parse(&s.id, "header:X-Plane-Event", &why), GR_OK);
    assert_string_equal(asked(profile_event_id, &s, "caf\xc3\xa9", "{}"),
                        "caf\xc3\xa9");
    assert_non_null(
        strstr(asked(profile_event_id, &s, "caf\xe9", "{}"), "UTF-8"));
    source_fini(&s);
}

static void plane_recognises_duplicates_by_the_bodys_digest(void **state)
{
    struct source s;

    (void)state;
    source_init(&s, "plane");
    assert_int_equal(s.dedupe.count, 1);
    assert_int_equal(s.dedupe.keys[0].parts[0].kind, EXPR_SOURCE);
    assert_int_equal(s.dedupe.keys[0].parts[1].kind, EXPR_BODY_SHA256);
    assert_int_equal(s.dedupe.ttl_ms, 3600 * 1000);
    assert_string_equal(s.verify.headers.items[0], "X-Plane-Signature");
    assert_true(string_list_has(&s.forward_headers, "X-Plane-Event"));
    assert_false(string_list_has(&s.forward_headers, "X-Plane-Signature"));
    source_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_printed_expression_reads_the_same),
        cmocka_unit_test(an_invalid_expression_is_refused),
        cmocka_unit_test(json_pointers_are_those_of_rfc_6901),
        cmocka_unit_test(absent_null_and_empty_fields_are_absent),
        cmocka_unit_test(a_field_with_several_values_is_an_error),
        cmocka_unit_test(a_number_too_large_spoils_only_itself),
        cmocka_unit_test(words_name_the_event_s_own_fields),
        cmocka_unit_test(a_value_that_does_not_fit_leaves_the_buffer_as_it_was),
        cmocka_unit_test(fields_of_forms_and_queries_are_found),
        cmocka_unit_test(half_a_surrogate_pair_spoils_no_other_field),
        cmocka_unit_test(json_in_a_form_is_read_from_its_payload),
        cmocka_unit_test(the_first_available_expression_counts),
        cmocka_unit_test(plane_s_types_are_joined_and_normalised),
        cmocka_unit_test(a_workspace_is_found_or_is_default_or_is_refused),
        cmocka_unit_test(bytes_that_are_not_text_are_not_an_id),
        cmocka_unit_test(plane_recognises_duplicates_by_the_bodys_digest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
