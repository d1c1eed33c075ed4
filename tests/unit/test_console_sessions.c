/* Tests of sessions and sign-in links: what ends them, how many there are, and what a cookie may look like. */
#include "sessions.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct api_actor ops = {
    .name = "token ops", .owner = "tok_1", .role = ROLE_OPERATOR};

static void drop_ended(struct sessions *s, int64_t mono_ms, int expected)
{
    struct session *of;
    int count = 0;

    while ((of = sessions_over(s, mono_ms))) {
        free(of);
        count++;
    }
    assert_int_equal(count, expected);
}

static void test_a_session_ends(void **state)
{
    struct sessions *s = sessions_open();
    char id[SESSION_ID_BYTES + 1], other[SESSION_ID_BYTES + 1];
    struct session *of;
    int64_t at = 1000;

    (void)state;
    of = sessions_begin(s, "d1", true, &ops, at, id);
    sessions_begin(s, "d1", true, &ops, at, other);
    assert_string_not_equal(id, other);
    assert_int_equal(strlen(id), SESSION_ID_BYTES);
    assert_null(strstr(of->id_digest, id)); /* the id itself is not kept */
    assert_ptr_equal(sessions_find(s, id, at), of);
    assert_null(sessions_find(s, "", at));
    /* without requests */
    assert_non_null(sessions_find(s, id, at + SESSION_IDLE_MS - 1));
    assert_null(sessions_find(s, other, at + SESSION_IDLE_MS));
    drop_ended(s, at + SESSION_IDLE_MS, 1);
    /* with requests, but not for ever */
    while ((at += SESSION_IDLE_MS / 2) < 1000 + SESSION_LIFE_MS)
        assert_non_null(sessions_find(s, id, at));
    assert_null(sessions_find(s, id, 1000 + SESSION_LIFE_MS));
    drop_ended(s, 1000 + SESSION_LIFE_MS, 1);
    /* by its user, who may do so twice */
    of = sessions_begin(s, "d1", true, &ops, at, id);
    sessions_end(s, of);
    sessions_end(s, of);
    assert_null(sessions_find(s, id, at));
    drop_ended(s, at, 1);
    sessions_close(s);
}

static void test_the_number_is_bounded(void **state)
{
    struct sessions *s = sessions_open();
    char first[SESSION_ID_BYTES + 1], id[SESSION_ID_BYTES + 1], digest[16];

    (void)state;
    sessions_begin(s, "one", true, &ops, 1, first);
    for (int i = 1; i < SESSIONS_OF_TOKEN_MAX; i++)
        sessions_begin(s, "one", true, &ops, 1, id);
    assert_non_null(sessions_find(s, first, 2)); /* now the newest */
    sessions_begin(s, "one", true, &ops, 2, id);
    assert_non_null(sessions_find(s, first, 2));
    drop_ended(s, 2, 1);
    for (int i = 0; i < 2 * SESSIONS_MAX; i++) {
        snprintf(digest, sizeof digest, "d%d", i);
        sessions_begin(s, digest, true, &ops, 3, id);
    }
    drop_ended(s, 3, SESSIONS_MAX + SESSIONS_OF_TOKEN_MAX);
    assert_null(sessions_find(s, first, 3));
    assert_non_null(sessions_find(s, id, 3));
    sessions_close(s);
}

static void test_customers_do_not_end_the_sessions_of_operators(void **state)
{
    static const struct api_actor customer = {
        .name = "token acme", .owner = "tok_2", .role = ROLE_WORKSPACE};
    struct sessions *s = sessions_open();
    char ours[SESSION_ID_BYTES + 1], id[SESSION_ID_BYTES + 1], digest[16];

    (void)state;
    sessions_begin(s, "ours", true, &ops, 1, ours);
    for (int i = 0; i < 2 * SESSIONS_MAX; i++) {
        snprintf(digest, sizeof digest, "c%d", i);
        sessions_begin(s, digest, true, &customer, 2, id);
    }
    drop_ended(s, 2, 2 * SESSIONS_MAX - SESSIONS_OF_TENANTS_MAX);
    assert_non_null(sessions_find(s, id, 2));
    /* And operators have all the space, if they need it. */
    for (int i = 1; i < SESSIONS_MAX; i++) {
        snprintf(digest, sizeof digest, "o%d", i);
        sessions_begin(s, digest, true, &ops, 3, id);
    }
    drop_ended(s, 3, SESSIONS_OF_TENANTS_MAX);
    assert_non_null(sessions_find(s, ours, 3));
    sessions_close(s);
}

static void test_a_link_works_once(void **state)
{
    struct sessions *s = sessions_open();
    char secret[SESSION_ID_BYTES + 1], old[SESSION_ID_BYTES + 1];
    struct api_actor who;

    (void)state;
    sessions_link(s, ROLE_VIEWER, "user root", 1, secret);
    assert_false(sessions_use_link(s, "x", 1, &who));
    assert_false(sessions_use_link(s, "", 1, &who));
    assert_true(sessions_use_link(s, secret, 1, &who));
    assert_int_equal(who.role, ROLE_VIEWER);
    assert_string_equal(who.name, "user root, by link");
    assert_false(sessions_use_link(s, secret, 1, &who));
    sessions_link(s, ROLE_ADMIN, "user root", 1, secret);
    assert_false(sessions_use_link(s, secret, 1 + LINK_LIFE_MS, &who));
    /* too many: the oldest ends */
    sessions_link(s, ROLE_ADMIN, "user root", 5, old);
    for (int i = 0; i < LINKS_MAX; i++)
        sessions_link(s, ROLE_ADMIN, "user root", 6 + LINK_LIFE_MS / 2, secret);
    assert_false(sessions_use_link(s, old, 7 + LINK_LIFE_MS / 2, &who));
    assert_true(sessions_use_link(s, secret, 7 + LINK_LIFE_MS / 2, &who));
    sessions_close(s);
}

static void test_cookies(void **state)
{
    static const char id[] =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    char text[400], out[SESSION_ID_BYTES + 1];

    (void)state;
    snprintf(text, sizeof text, "a=b; grapnel-1=%s", id);
    assert_true(session_cookie(text, "grapnel-1", out));
    assert_string_equal(out, id);
    assert_false(session_cookie(text, "grapnel-", out));
    assert_false(session_cookie(text, "rapnel-1", out));
    snprintf(text, sizeof text, "grapnel-1=%s0; a", id);
    assert_false(session_cookie(text, "grapnel-1", out));
    snprintf(text, sizeof text, "x=grapnel-1=%s;; grapnel-1=%.63s", id, id);
    assert_false(session_cookie(text, "grapnel-1", out));
    assert_false(session_cookie(NULL, "grapnel-1", out));
    assert_false(session_cookie(";;;", "grapnel-1", out));
    snprintf(text, sizeof text, "grapnel-1=%s; grapnel-1=%.32s%.32s", id,
             id + 1, id);
    assert_true(session_cookie(text, "grapnel-1", out)); /* the first */
    assert_string_equal(out, id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_session_ends),
        cmocka_unit_test(test_the_number_is_bounded),
        cmocka_unit_test(test_customers_do_not_end_the_sessions_of_operators),
        cmocka_unit_test(test_a_link_works_once),
        cmocka_unit_test(test_cookies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
