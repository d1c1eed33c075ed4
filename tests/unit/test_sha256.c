/* Tests of sha256 with the examples of FIPS 180-4, and of hexadecimal digits. */
#include "sha256.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void digests_are_those_of_the_standard(void **state)
{
    static const struct {
        const char *text, *digest;
    } all[] = {
        {"",
         "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc",
         "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        uint8_t digest[SHA256_BYTES];
        struct buf hex;

        buf_init(&hex, 100);
        sha256((struct bytes){all[i].text, strlen(all[i].text)}, digest);
        hex_put(digest, sizeof digest, &hex);
        assert_string_equal(hex.data, all[i].digest);
        buf_fini(&hex);
    }
}

static void parts_have_the_digest_of_the_whole(void **state)
{
    const struct bytes parts[] = {{"a", 1}, {"", 0}, {NULL, 0}, {"bc", 2}};
    uint8_t whole[SHA256_BYTES], digest[SHA256_BYTES];

    (void)state;
    sha256((struct bytes){"abc", 3}, whole);
    sha256_of_parts(parts, COUNT_OF(parts), digest);
    assert_memory_equal(digest, whole, sizeof whole);
    sha256((struct bytes){"", 0}, whole);
    sha256_of_parts(NULL, 0, digest);
    assert_memory_equal(digest, whole, sizeof whole);
}

static void digits_that_do_not_fit_are_not_written(void **state)
{
    struct buf hex;

    (void)state;
    buf_init(&hex, 5);
    hex_put("\x00\xff", 2, &hex);
    assert_string_equal(hex.data, "00ff");
    hex_put("\x01", 1, &hex);
    assert_true(hex.failed);
    assert_string_equal(hex.data, "00ff");
    buf_fini(&hex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_are_those_of_the_standard),
        cmocka_unit_test(parts_have_the_digest_of_the_whole),
        cmocka_unit_test(digits_that_do_not_fit_are_not_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
