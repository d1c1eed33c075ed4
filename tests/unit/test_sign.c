/* Tests of sign with the vectors of the Standard Webhooks libraries. */
#include "sign.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct bytes text(const char *s)
{
    return (struct bytes){s, strlen(s)};
}

static void check(const char *secrets, const char *id, int64_t timestamp_s,
                  const char *body, const char *want)
{
    struct signer s;
    struct buf out;

    buf_init(&out, 1024);
    assert_int_equal(signer_init(&s, text(secrets)), GR_OK);
    signer_sign(&s, id, timestamp_s, text(body), &out);
    assert_string_equal(out.data, want);
    buf_reset(&out); /* the key survives its use */
    signer_sign(&s, id, timestamp_s, text(body), &out);
    assert_string_equal(out.data, want);
    signer_fini(&s);
    buf_fini(&out);
}

/* standard-webhooks libraries/python/tests/test_webhooks.py, test_sign_function
 */
static void the_vector_of_the_python_library(void **state)
{
    (void)state;
    check("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
          "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, "{\"test\": 2432232314}",
          "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

/* libraries/rust/src/lib.rs, test_sign */
static void the_vector_of_the_rust_library(void **state)
{
    (void)state;
    check("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
          "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", 1649367553,
          "{\"email\":\"test@example.com\",\"username\":\"test_user\"}",
          "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=");
}

/* svix-server/src/worker.rs, test_asymmetric_key_signing */
static const char own_key[] =
    "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJ"
    "p4AJ6p9lMicMFs6Kvg==";
static const char own_seed[] =
    "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbc=";
static const char own_signature[] =
    "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXw"
    "VLPo3mNl8EM+m7TBAg==";

static void the_vector_of_an_asymmetric_key(void **state)
{
    (void)state;
    check(own_key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
          "{\"test\": 2432232314}", own_signature);
    check(own_seed, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
          "{\"test\": 2432232314}", own_signature);
}

static void both_kinds_sign_side_by_side(void **state)
{
    char *secrets = gr_printf("%s whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                              own_key);
    char *want = gr_printf("%s v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
                           own_signature);

    (void)state;
    check(secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
          "{\"test\": 2432232314}", want);
    free(secrets);
    free(want);
}

/* shared vectors: CRLF stays as it is. */
static void the_body_is_signed_byte_for_byte(void **state)
{
    (void)state;
    check("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
          "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
          "{\r\n  \"a\": 1\r\n}\r\n",
          "v1,alSa+ilnTPGUDxHRfSEPh8Di5Mv7YoDbRBCrXEVrTwE=");
}

static void several_secrets_sign_side_by_side(void **state)
{
    (void)state;
    check("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw "
          "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
          "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, "{\"test\": 2432232314}",
          "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= "
          "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

static void an_invalid_secret_is_refused(void **state)
{
    static const char *const bad[] = {
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_!!!!", "whsec_abc",
        "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsk_",
        /* the seed of one key, the public half of another */
        ("whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dR"
         "qSKJp4AJ6p9lMicMFs6Kvw=="),
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw plain"};
    struct signer s;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(signer_init(&s, text(bad[i])), GR_REFUSE);
        signer_fini(&s);
    }
}

static void no_secret_signs_nothing(void **state)
{
    struct signer s;

    (void)state;
    assert_int_equal(signer_init(&s, text("")), GR_OK);
    assert_int_equal(s.count, 0);
    signer_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vector_of_the_python_library),
        cmocka_unit_test(the_vector_of_the_rust_library),
        cmocka_unit_test(the_vector_of_an_asymmetric_key),
        cmocka_unit_test(both_kinds_sign_side_by_side),
        cmocka_unit_test(the_body_is_signed_byte_for_byte),
        cmocka_unit_test(several_secrets_sign_side_by_side),
        cmocka_unit_test(an_invalid_secret_is_refused),
        cmocka_unit_test(no_secret_signs_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
