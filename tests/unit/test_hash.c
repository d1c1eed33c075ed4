/* Tests of hash and siphash: stored hashes never change, and the keyed one is SipHash.
 * */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "hash.h"
#include "siphash.h"
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <stdint.h>

static void the_hash_is_fnv_1a(void **state)
{
    (void)state;
    assert_int_equal(hash_name(HASH_BEGIN, ""), 0xcbf29ce484222325ULL);
    assert_int_equal(hash_name(HASH_BEGIN, "a"), 0xaf63dc4c8601ec8cULL);
    assert_int_equal(hash_name(HASH_BEGIN, "foobar"), 0x85944171f73967e8ULL);
}

static void a_byte_is_not_signed(void **state)
{
    (void)state;
    assert_int_equal(hash_name(HASH_BEGIN, "\xff"), hash_end(HASH_BEGIN));
}

static void where_a_name_ends_counts(void **state)
{
    uint64_t ab = hash_text(HASH_BEGIN, "ab");
    uint64_t a = hash_text(HASH_BEGIN, "a");

    (void)state;
    assert_int_not_equal(hash_text(ab, "c"), hash_text(a, "bc"));
}

/* Of the bytes 0, 1, 2, …: from the authors' reference (SipHash-2-4). */
static void the_hash_is_siphash(void **state)
{
    static const struct {
        size_t n;
        uint64_t is;
    } vectors[] = {{0, 0x726fdb47dd0e0e31ULL},
                   {1, 0x74f839c593dc67fdULL},
                   {2, 0x0d6c8009d9a94f5aULL},
                   {3, 0x85676696d7fb7e2dULL},
                   {15, 0xa129ca6149be45e5ULL}};
    const struct siphash_key key = {0x0706050403020100ULL,
                                    0x0f0e0d0c0b0a0908ULL};
    uint8_t bytes[16];

    (void)state;
    for (uint8_t i = 0; i < sizeof bytes; i++)
        bytes[i] = i;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        assert_int_equal(siphash(key, 2, 4, bytes, vectors[i].n),
                         vectors[i].is);
}

static uint64_t libcrypto_siphash13(const uint8_t key[16], const uint8_t *p,
                                    size_t n)
{
    unsigned int c = 1, d = 3;
    size_t size = 8, got;
    uint8_t out[8];
    uint64_t v = 0;
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_C_ROUNDS, &c),
        OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_D_ROUNDS, &d),
        OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
        OSSL_PARAM_construct_end()};
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
    EVP_MAC_CTX *ctx = EVP_MAC_CTX_new(mac);

    assert_true(EVP_MAC_init(ctx, key, 16, params));
    assert_true(EVP_MAC_update(ctx, p, n));
    assert_true(EVP_MAC_final(ctx, out, &got, sizeof out));
    assert_int_equal(got, 8);
    for (int i = 8; i--;)
        v = v << 8 | out[i];
    EVP_MAC_CTX_free(ctx);
    EVP_MAC_free(mac);
    return v;
}

static void siphash_equals_libcrypto_s(void **state)
{
    const struct siphash_key key = {0x0706050403020100ULL,
                                    0x0f0e0d0c0b0a0908ULL};
    uint8_t raw[16], bytes[300];

    (void)state;
    for (uint8_t i = 0; i < sizeof raw; i++)
        raw[i] = i;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 37);
    for (size_t n = 0; n <= sizeof bytes; n++)
        assert_int_equal(siphash(key, 1, 3, bytes, n),
                         libcrypto_siphash13(raw, bytes, n));
}

static void siphash_with_the_process_key_is_unpredictable(void **state)
{
    uint64_t ab = hash_keyed_text(0, "ab"), a = hash_keyed_text(0, "a");

    (void)state;
    assert_int_equal(ab, hash_keyed_text(0, "ab"));
    assert_int_not_equal(ab,
                         siphash((struct siphash_key){0, 0}, 1, 3, "ab", 2));
    assert_int_not_equal(ab, hash_keyed_text(1, "ab"));
    assert_int_not_equal(hash_keyed_text(ab, "c"), hash_keyed_text(a, "bc"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hash_is_fnv_1a),
        cmocka_unit_test(a_byte_is_not_signed),
        cmocka_unit_test(where_a_name_ends_counts),
        cmocka_unit_test(the_hash_is_siphash),
        cmocka_unit_test(siphash_equals_libcrypto_s),
        cmocka_unit_test(siphash_with_the_process_key_is_unpredictable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
