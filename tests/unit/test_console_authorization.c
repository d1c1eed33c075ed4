/* Tests of authorization: tokens, origins, and addresses that sent too many wrong tokens. */
#include "authorization.h"
#include "web.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_bearer(void **state)
{
    (void)state;
    assert_string_equal(bearer_token("Bearer abc"), "abc");
    assert_string_equal(bearer_token("bearer   abc"), "abc");
    assert_null(bearer_token(NULL));
    assert_null(bearer_token(""));
    assert_null(bearer_token("abc"));
    assert_null(bearer_token("Bearer"));
    assert_null(bearer_token("Bearer "));
    assert_null(bearer_token("Basic abc"));
}

static bool token_find(const struct string_list *tokens, const char *token,
                       struct api_actor *out)
{
    char digest[TOKEN_DIGEST_BYTES + 1];
    bool listed = token_listed(tokens, token, &(size_t){0});

    token_digest(token, strlen(token), digest);
    assert_int_equal(listed, digest_find(tokens, digest, out));
    return listed;
}

static void test_tokens_of_the_file(void **state)
{
    static char *items[] = {"one", "two"};
    const struct string_list tokens = {items, 2}, none = {NULL, 0};
    struct api_actor who = {.role = ROLE_VIEWER};

    (void)state;
    assert_true(token_find(&tokens, "two", &who));
    assert_int_equal(who.role, ROLE_ADMIN);
    assert_string_equal(who.name, "token 2 of console.tokens");
    assert_false(token_find(&tokens, "on", &who));
    assert_false(token_find(&tokens, "One", &who));
    assert_false(token_find(&tokens, "", &who));
    assert_false(token_find(&none, "one", &who));
}

static void test_failures_of_one_address(void **state)
{
    struct failures *f = failures_new();

    (void)state;
    for (int i = 0; i < 19; i++)
        failures_add(f, "10.0.0.1", 1000);
    assert_int_equal(failures_refuse_s(f, "10.0.0.1", 1000), 0);
    failures_add(f, "10.0.0.1", 5000);
    assert_int_equal(failures_refuse_s(f, "10.0.0.1", 5000), 6);
    assert_int_equal(failures_refuse_s(f, "10.0.0.2", 5000), 0);
    assert_int_equal(failures_refuse_s(f, "10.0.0.1", 10999), 1);
    assert_int_equal(failures_refuse_s(f, "10.0.0.1", 11000), 0);
    failures_add(f, "10.0.0.1", 11000); /* a new window */
    assert_int_equal(failures_refuse_s(f, "10.0.0.1", 11000), 0);
    failures_free(f);
}

static void test_failures_of_ipv6(void **state)
{
    struct failures *f = failures_new();
    char address[64];

    (void)state;
    for (int i = 0; i < 20; i++) {
        snprintf(address, sizeof address, "2001:db8::%x", i);
        failures_add(f, address, 1000);
    }
    assert_true(failures_refuse_s(f, "2001:db8::ffff", 1000));
    assert_false(failures_refuse_s(f, "2001:db8:0:1::1", 1000));
    failures_free(f);
}

static void test_many_addresses(void **state)
{
    struct failures *f = failures_new();
    char address[64];

    (void)state;
    for (int i = 0; i < 5000; i++) {
        snprintf(address, sizeof address, "10.1.%d.%d", i / 250, i % 250);
        failures_add(f, address, 1000 + i / 10);
    }
    for (int i = 0; i < 20; i++)
        failures_add(f, "10.9.9.9", 1600);
    assert_true(failures_refuse_s(f, "10.9.9.9", 1600));
    failures_free(f);
}

static void test_origins(void **state)
{
    (void)state;
    assert_true(web_same_origin("http://localhost:8081", "localhost:8081"));
    assert_true(web_same_origin("https://Console.example", "console.example"));
    assert_true(web_same_origin("http://[::1]:8081", "[::1]:8081"));
    assert_false(web_same_origin("null", "localhost"));
    assert_false(web_same_origin("", "localhost"));
    assert_false(web_same_origin("http://evil.example", "localhost"));
    assert_false(web_same_origin("http://localhost:1", "localhost:2"));
    assert_false(web_same_origin("http://localhost.evil", "localhost"));
    assert_false(web_same_origin("ftp://localhost", "localhost"));
    assert_false(web_same_origin("http://localhost/", "localhost"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bearer),
        cmocka_unit_test(test_tokens_of_the_file),
        cmocka_unit_test(test_failures_of_one_address),
        cmocka_unit_test(test_failures_of_ipv6),
        cmocka_unit_test(test_many_addresses),
        cmocka_unit_test(test_origins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
