/* What is signed, and how a signature is written and read. The two vectors
 * are those of GitHub's documentation and of RFC 4231 (case 2). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "signature.h"
#include <string.h>

static struct bytes text(const char *s)
{
    return (struct bytes){s, strlen(s)};
}

static void the_published_vector_comes_out(void **state)
{
    struct verify v = {.prefix = "sha256=", .signed_content = "{body}"};
    uint8_t mac[MAC_BYTES], back[MAC_BYTES];
    struct buf content, key, header;

    (void)state;
    buf_init(&content, 100);
    buf_init(&key, 100);
    buf_init(&header, 100);
    assert_int_equal(
        signature_content(&v, text(""), text("Hello, World!"), &content),
        GR_OK);
    assert_int_equal(signature_key(&v, "It's a Secret to Everybody", &key),
                     GR_OK);
    signature_mac(mac, (struct bytes){key.data, key.len},
                  (struct bytes){content.data, content.len});
    signature_print(&v, mac, &header);
    assert_string_equal(header.data, "sha256=757107ea0eb2509fc211221cce984b8a"
                                     "37570b6d7586c22c46f4379c8b043e17");
    assert_int_equal(signature_parse(&v, text(header.data), back), GR_OK);
    assert_true(signature_same(mac, back));
    back[31] ^= 1;
    assert_false(signature_same(mac, back));
    buf_fini(&content);
    buf_fini(&key);
    buf_fini(&header);
}

static void base64_goes_both_ways(void **state)
{
    struct verify v = {.prefix = "", .encoding = ENCODING_BASE64};
    uint8_t mac[MAC_BYTES], back[MAC_BYTES];
    struct buf header;

    (void)state;
    buf_init(&header, 100);
    signature_mac(mac, text("Jefe"), text("what do ya want for nothing?"));
    signature_print(&v, mac, &header);
    assert_string_equal(header.data,
                        "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=");
    assert_int_equal(signature_parse(&v, text(header.data), back), GR_OK);
    assert_true(signature_same(mac, back));
    buf_fini(&header);
}

static void time_and_body_are_put_in(void **state)
{
    struct verify v = {.signed_content = "v0:{ts}.{body}{"};
    struct buf out;

    (void)state;
    buf_init(&out, 100);
    assert_int_equal(
        signature_content(&v, text("1700000000"), text("{ts}"), &out), GR_OK);
    /* What is in the body is never taken for a part of the template. */
    assert_string_equal(out.data, "v0:1700000000.{ts}{");
    buf_fini(&out);
}

static void bytes_of_the_body_are_kept(void **state)
{
    struct verify v = {.signed_content = "{body}"};
    struct buf out;

    (void)state;
    buf_init(&out, 4);
    assert_int_equal(
        signature_content(&v, text(""), (struct bytes){"a\0b\n", 4}, &out),
        GR_OK);
    assert_memory_equal(out.data, "a\0b\n", 4);
    assert_int_equal(signature_content(&v, text(""), text("x"), &out),
                     GR_REFUSE);
    buf_fini(&out);
}

static void a_template_must_sign_the_body(void **state)
{
    const char *why = NULL;

    (void)state;
    assert_int_equal(signature_template("{body}", &why), GR_OK);
    assert_int_equal(signature_template("{ts}.{body}", &why), GR_OK);
    assert_int_equal(signature_template("{ts}", &why), GR_REFUSE);
    assert_int_equal(signature_template("", &why), GR_REFUSE);
    assert_int_equal(signature_template("{Body}", &why), GR_REFUSE);
    assert_int_equal(signature_template("{body}{url}", &why), GR_REFUSE);
    assert_non_null(strstr(why, "{ts}"));
}

static void malformed_signatures_are_refused(void **state)
{
    struct verify hex = {.prefix = "sha256="};
    struct verify b64 = {.encoding = ENCODING_BASE64};
    static const char *const bad_hex[] = {
        "",
        "sha256=",
        "sha1=00",
        "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e1"
        "g",
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e1"
        "70"};
    static const char *const bad_b64[] = {
        "",
        "====",
        "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM",
        "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEMA",
        "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOE==",
        "W9zBRr9g U5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=",
        "W9zB=r9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM="};
    uint8_t mac[MAC_BYTES];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad_hex); i++)
        assert_int_equal(signature_parse(&hex, text(bad_hex[i]), mac),
                         GR_REFUSE);
    for (size_t i = 0; i < COUNT_OF(bad_b64); i++)
        assert_int_equal(signature_parse(&b64, text(bad_b64[i]), mac),
                         GR_REFUSE);
}

static void a_base64_secret_is_decoded(void **state)
{
    struct verify v = {.secret_base64 = true};
    struct buf key;

    (void)state;
    buf_init(&key, 100);
    assert_int_equal(signature_key(&v, "aGVsbG8=", &key), GR_OK);
    assert_string_equal(key.data, "hello");
    assert_int_equal(signature_key(&v, "aGVsbG8", &key), GR_REFUSE);
    assert_int_equal(signature_key(&v, "not base64!!", &key), GR_REFUSE);
    assert_int_equal(signature_key(&v, "", &key), GR_REFUSE);
    buf_fini(&key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vector_comes_out),
        cmocka_unit_test(base64_goes_both_ways),
        cmocka_unit_test(time_and_body_are_put_in),
        cmocka_unit_test(bytes_of_the_body_are_kept),
        cmocka_unit_test(a_template_must_sign_the_body),
        cmocka_unit_test(malformed_signatures_are_refused),
        cmocka_unit_test(a_base64_secret_is_decoded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
