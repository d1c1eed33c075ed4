/* What is signed, the keys, and how a signature is written and read. What whole
 * requests of each provider come to: test_profiles.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "encoding.h"
#include "signature.h"
#include <dlfcn.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/* libcrypto's, with a count of the bytes that our code hashes by it. */
static size_t hashed_bytes;

int EVP_DigestUpdate(EVP_MD_CTX *ctx, const void *p, size_t n)
{
    int (*real)(EVP_MD_CTX *, const void *, size_t);
    void *found = dlsym(RTLD_NEXT, "EVP_DigestUpdate");

    memcpy(&real, &found, sizeof real);
    hashed_bytes += n;
    return real(ctx, p, n);
}

static struct bytes text(const char *s)
{
    return (struct bytes){s, strlen(s)};
}

/* The signature's header, by this secret, over this body. */
static const char *signed_by(const struct verify *v, const char *secret,
                             const char *body)
{
    struct signing s = {.body = text(body), .ts = text("17")};
    static struct buf out;
    struct signature_key *key;
    struct candidate mac;
    struct content content;
    const char *why;

    buf_fini(&out);
    buf_init(&out, 1000);
    assert_int_equal(signature_key_new(v, secret, &key, &why), GR_OK);
    assert_int_equal(content_make(&content, v->signed_content, &s), GR_OK);
    assert_int_equal(signature_sign(v, key, NULL, &content, &mac), GR_OK);
    assert_true(signature_fits(key, &content, &mac, 1));
    mac.bytes[mac.n - 1] ^= 1;
    assert_false(signature_fits(key, &content, &mac, 1));
    mac.bytes[mac.n - 1] ^= 1;
    signature_print(v, &mac, s.ts, &out);
    content_fini(&content);
    signature_key_free(key);
    return out.data;
}

/* GitHub's documentation; RFC 4231 case 2; RFC 2202 case 2. */
static void the_published_vectors_come_out(void **state)
{
    struct verify v = {.prefix = "sha256=", .signed_content = "{body}"};
    static const char what[] = "what do ya want for nothing?";

    (void)state;
    assert_string_equal(
        signed_by(&v, "It's a Secret to Everybody", "Hello, World!"),
        "sha256=757107ea0eb2509fc211221cce984b8a"
        "37570b6d7586c22c46f4379c8b043e17");
    v = (struct verify){.encoding = ENCODING_BASE64,
                        .signed_content = "{body}"};
    assert_string_equal(signed_by(&v, "Jefe", what),
                        "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=");
    v = (struct verify){.scheme = SCHEME_HMAC_SHA1, .signed_content = "{body}"};
    assert_string_equal(signed_by(&v, "Jefe", what),
                        "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
    v.scheme = SCHEME_HMAC_SHA512;
    assert_string_equal(
        signed_by(&v, "Jefe", what),
        "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
        "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737");
}

static void each_form_is_printed_as_it_is_read(void **state)
{
    struct verify v = {.form = {.kind = FORM_KV,
                                .separator = ',',
                                .ts_key = "t",
                                .sig_key = "v1"},
                       .scheme = SCHEME_HMAC_SHA1,
                       .signed_content = "{body}"};

    (void)state;
    assert_string_equal(signed_by(&v, "k", ""),
                        "t=17,v1=3a84a218ee6665209bb70e84525dd837645a1965");
}

/* All pieces of the content, joined. */
static const char *content_of(const char *template, const struct signing *s)
{
    static struct buf out;
    struct content c;

    buf_fini(&out);
    buf_init(&out, 1000);
    buf_put(&out, "", 0);
    assert_int_equal(content_make(&c, template, s), GR_OK);
    for (size_t i = 0; i < c.count; i++)
        buf_put(&out, c.parts[i].p, c.parts[i].n);
    content_fini(&c);
    return out.data;
}

static void only_placeholders_are_replaced(void **state)
{
    struct signing s = {.ts = text("17"),
                        .id = text("i"),
                        .url = text("u"),
                        .method = text("m"),
                        .webhook_id = text("w"),
                        .token = text("t"),
                        .body = text("b=2&a=1&a=%21&b=2&c")};

    (void)state;
    assert_string_equal(content_of("v0:{ts}.{id}|{url}{method}{token}", &s),
                        "v0:17.i|umt");
    assert_string_equal(content_of("{webhook_id}{body}{", &s),
                        "wb=2&a=1&a=%21&b=2&c{");
    assert_string_equal(content_of("{sorted_form}", &s), "a!a1b2c");
    s.no_form = true;
    assert_string_equal(content_of("{url}{sorted_form}", &s), "u");
    s.body = text("123456789");
    assert_string_equal(content_of("{crc32}", &s), "3421780262");
    s.body = text("The quick brown fox jumps over the lazy dog");
    assert_string_equal(content_of("{crc32}", &s), "1095738169");
    s.body = text("");
    assert_string_equal(content_of("{crc32}", &s), "0");
    /* Braces in the body are never a part of the template. */
    s.body = text("{ts}");
    assert_string_equal(content_of("{body}", &s), "{ts}");
}

static void a_template_must_sign_the_body(void **state)
{
    static const char *const good[] = {"{body}", "{ts}.{body}", "{ts}{token}",
                                       "{url}{sorted_form}", "{id}|{crc32}"};
    static const char *const bad[] = {
        "",      "{ts}",
        "{url}", "{Body}",
        "{body", "{body}{other}",
        "{}",    "{body}1{ts}2{ts}3{ts}4{ts}5{ts}6{ts}7{ts}8{ts}9"};
    const char *why = NULL;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_int_equal(signature_template(good[i], &why), GR_OK);
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(signature_template(bad[i], &why), GR_REFUSE);
}

static void malformed_signatures_are_refused(void **state)
{
    struct verify hex = {0};
    struct verify b64 = {.encoding = ENCODING_BASE64};
    static const char *const bad_hex[] = {
        "", "00",
        "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e1",
        "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e1g",
        "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e1700"};
    static const char *const bad_b64[] = {
        "", "====", "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM",
        "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEMA",
        "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOE==",
        "W9zBRr9g U5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=",
        "W9zB=r9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=",
        /* the last digit's two spare bits are not 0 */
        "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEN="};
    struct candidate c;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad_hex); i++)
        assert_int_equal(signature_decode(&hex, text(bad_hex[i]), &c),
                         GR_REFUSE);
    for (size_t i = 0; i < COUNT_OF(bad_b64); i++)
        assert_int_equal(signature_decode(&b64, text(bad_b64[i]), &c),
                         GR_REFUSE);
}

/* A signature as long as a header can be finds no space, not somebody's stack. */
static void no_signature_exceeds_its_buffer(void **state)
{
    struct verify v = {.scheme = SCHEME_RSA_SHA256};
    struct candidate c;
    char *long_one = malloc(20000);

    (void)state;
    memset(long_one, 'A', 20000);
    for (size_t n = 1020; n < 1032; n++)
        assert_int_equal(signature_decode(&v, (struct bytes){long_one, n}, &c),
                         n % 2 || n > 2 * SIGNATURE_MAX_BYTES ? GR_REFUSE
                                                              : GR_OK);
    v.encoding = ENCODING_BASE64;
    for (size_t n = 676; n < 700; n++)
        assert_int_equal(signature_decode(&v, (struct bytes){long_one, n}, &c),
                         n % 4 || n / 4 * 3 > SIGNATURE_MAX_BYTES ? GR_REFUSE
                                                                  : GR_OK);
    assert_int_equal(signature_decode(&v, (struct bytes){long_one, 20000}, &c),
                     GR_REFUSE);
    free(long_one);
}

static void secrets_are_decoded_by_their_encoding(void **state)
{
    static const struct {
        enum key_encoding encoding;
        const char *secret, *key; /* NULL: refused */
    } all[] = {
        {KEY_RAW, "whsec_aGVsbG8=", "whsec_aGVsbG8="},
        {KEY_BASE64, "aGVsbG8=", "hello"},
        {KEY_BASE64, "aGVsbG8", NULL},
        {KEY_BASE64, "not base64!!", NULL},
        {KEY_BASE64, "whsec_aGVsbG8=", NULL},
        {KEY_WHSEC, "whsec_aGVsbG8=", "hello"},
        {KEY_WHSEC, "aGVsbG8=", "hello"},
        {KEY_WHSEC, "whsec_", NULL},
        {KEY_WHPK, "whpk_aGVsbG8=", "hello"},
        {KEY_HEX, "68656C6c6f", "hello"},
        {KEY_HEX, "68656C6c6", NULL},
        {KEY_HEX, "xx", NULL},
    };
    struct buf key;

    (void)state;
    buf_init(&key, 100);
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        struct verify v = {.secret_encoding = all[i].encoding};

        buf_reset(&key);
        assert_int_equal(signature_key(&v, all[i].secret, &key),
                         all[i].key ? GR_OK : GR_REFUSE);
        if (all[i].key)
            assert_string_equal(key.data, all[i].key);
    }
    buf_fini(&key);
}

static void a_key_of_another_kind_is_refused(void **state)
{
    /* Ed25519's and P-256's SubjectPublicKeyInfo. */
    static const char ed[] =
        "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
    static const char p256[] =
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/"
        "7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==";
    static const struct {
        enum scheme scheme;
        const char *secret;
        bool good;
    } all[] = {
        {SCHEME_ED25519, ed, true},       {SCHEME_ED25519, p256, false},
        {SCHEME_ECDSA_P256, p256, true},  {SCHEME_ECDSA_P256, ed, false},
        {SCHEME_RSA_SHA256, p256, false}, {SCHEME_RSA_SHA256, "AAAA", false},
    };
    const char *why;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        struct verify v = {.scheme = all[i].scheme,
                           .secret_encoding = KEY_SPKI};
        struct signature_key *key = NULL;

        assert_int_equal(signature_key_new(&v, all[i].secret, &key, &why),
                         all[i].good ? GR_OK : GR_REFUSE);
        signature_key_free(key);
    }
}

/* P-256, the key of each candidate the same, and none of them right. */
static void eight_signatures_cost_one_hash(void **state)
{
    static const char p256[] =
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/"
        "7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==";
    struct verify v = {.scheme = SCHEME_ECDSA_P256,
                       .secret_encoding = KEY_SPKI,
                       .signed_content = "{ts}{body}"};
    struct candidate all[CANDIDATES_MAX] = {0};
    struct signing s = {.ts = text("1234"), .body = text("a body")};
    struct signature_key *key;
    struct content content;
    const char *why;

    (void)state;
    assert_int_equal(signature_key_new(&v, p256, &key, &why), GR_OK);
    assert_int_equal(content_make(&content, v.signed_content, &s), GR_OK);
    for (size_t i = 0; i < CANDIDATES_MAX; i++) {
        /* DER: a sequence of two small numbers */
        memcpy(all[i].bytes, "\x30\x06\x02\x01\x01\x02\x01\x01", 8);
        all[i].bytes[7] = (uint8_t)(1 + i);
        all[i].n = 8;
    }
    hashed_bytes = 0;
    assert_false(signature_fits(key, &content, all, CANDIDATES_MAX));
    assert_int_equal(hashed_bytes, strlen("1234a body"));
    content_fini(&content);
    signature_key_free(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vectors_come_out),
        cmocka_unit_test(each_form_is_printed_as_it_is_read),
        cmocka_unit_test(only_placeholders_are_replaced),
        cmocka_unit_test(a_template_must_sign_the_body),
        cmocka_unit_test(malformed_signatures_are_refused),
        cmocka_unit_test(no_signature_exceeds_its_buffer),
        cmocka_unit_test(secrets_are_decoded_by_their_encoding),
        cmocka_unit_test(a_key_of_another_kind_is_refused),
        cmocka_unit_test(eight_signatures_cost_one_hash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
