/* Tests of handshake: requests that check a URL get the response that the provider
 * requires; any other request is an event. P2. */
#include "handshake.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct buf reply;
static const char *type;

static bool asked(enum handshake_kind kind, const char *body)
{
    buf_reset(&reply);
    return handshake_response(kind, (struct bytes){"key", 3},
                              (struct bytes){body, strlen(body)}, &reply,
                              &type);
}

static void slack_gets_its_challenge(void **state)
{
    (void)state;
    assert_true(asked(HANDSHAKE_ECHO,
                      "{\"token\":\"x\",\"challenge\":\"3eZb♥\","
                      "\"type\":\"url_verification\"}"));
    assert_string_equal(reply.data, "3eZb♥");
    assert_string_equal(type, "text/plain; charset=utf-8");
}

/* HMAC-SHA256 of qgg8vlvZRS6UYooatFL8Aw by the key `key`. */
static void zoom_gets_its_token_and_hmac(void **state)
{
    (void)state;
    assert_true(asked(HANDSHAKE_HMAC_TOKEN,
                      "{\"event\":\"endpoint.url_validation\",\"payload\":"
                      "{\"plainToken\":\"qgg8vlvZRS6UYooatFL8Aw\"}}"));
    assert_string_equal(
        reply.data,
        "{\"plainToken\":\"qgg8vlvZRS6UYooatFL8Aw\",\"encryptedToken\":\""
        "f2b3627702c43576251dc6a643384a2eb050e6e1d078adecf3415e1416944a43\"}");
    assert_string_equal(type, "application/json");
}

static void a_token_is_quoted_in_the_response(void **state)
{
    (void)state;
    assert_true(asked(HANDSHAKE_HMAC_TOKEN,
                      "{\"event\":\"endpoint.url_validation\",\"payload\":"
                      "{\"plainToken\":\"a\\\"b\"}}"));
    assert_non_null(strstr(reply.data, "{\"plainToken\":\"a\\\"b\","));
}

static void discord_gets_a_pong(void **state)
{
    (void)state;
    assert_true(asked(HANDSHAKE_PING_PONG, "{\"type\":1}"));
    assert_string_equal(reply.data, "{\"type\":1}");
    assert_true(asked(HANDSHAKE_PING_PONG,
                      "{\"version\":1,\"application_id\":\"1\",\"type\":0}"));
    assert_int_equal(reply.len, 0);
}

static void any_other_request_is_an_event(void **state)
{
    static const char *const events[] = {
        "",
        "not JSON",
        "[]",
        "1",
        "{}",
        "{\"type\":\"url_verification\"}",
        "{\"type\":\"event_callback\",\"challenge\":\"x\"}",
        "{\"type\":\"url_verification\",\"challenge\":1}",
        "{\"event\":\"endpoint.url_validation\",\"payload\":{}}",
        "{\"event\":\"meeting.started\",\"payload\":{\"plainToken\":\"x\"}}",
        "{\"type\":2}",
        "{\"type\":\"1\"}",
        "{\"type\":1,\"event\":{\"type\":\"ENTITLEMENT_CREATE\"}}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(events); i++)
        for (int kind = HANDSHAKE_NONE; kind <= HANDSHAKE_HEAD; kind++)
            assert_false(asked((enum handshake_kind)kind, events[i]));
    assert_false(asked(HANDSHAKE_NONE, "{\"type\":1}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slack_gets_its_challenge),
        cmocka_unit_test(zoom_gets_its_token_and_hmac),
        cmocka_unit_test(a_token_is_quoted_in_the_response),
        cmocka_unit_test(discord_gets_a_pong),
        cmocka_unit_test(any_other_request_is_an_event),
    };
    int failed;

    buf_init(&reply, 1 << 16);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    buf_fini(&reply);
    return failed;
}
