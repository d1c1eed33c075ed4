/* Sealed parts: a golden one, which later versions must open, and everything that must not open: changed, cut, exchanged, missing and repeated parts,
 * another key, another turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "le64.h"
#include "seal.h"
#include "seeded.h"
#include "sha256.h"
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { MIB = 1024 * 1024, PLAIN_MAX = 8 * MIB, SOME = 32 };
/* Offsets in a part. */
enum { ID_AT = 1, SALT_AT = 9, COUNTER_AT = 41, TEXT_AT = 49, TAG = 16 };

static uint8_t key[SEAL_KEY_BYTES];

static struct seal_about about_golden(void)
{
    struct seal_about a = {
        .kind = SEAL_TURN, .process = "ingress", .epoch = 5, .n = 7};

    for (uint8_t i = 0; i < HISTORY_BYTES; i++)
        a.history[i] = i;
    return a;
}

static int setup(void **state)
{
    (void)state;
    for (uint8_t i = 0; i < SEAL_KEY_BYTES; i++)
        key[i] = i;
    return 0;
}

/* Text that zstd cannot make shorter, or can. */
static char *some_text(size_t n, bool random)
{
    char *p = malloc(n ? n : 1);

    for (size_t i = 0; i < n; i++)
        p[i] = random ? (char)rig_random() : "a page of text "[i % 15];
    return p;
}

static size_t parts_of(const struct sealed_parts *p, struct bytes out[SOME])
{
    assert_true(p->count >= 1 && p->count <= SOME);
    for (size_t i = 0; i < p->count; i++)
        out[i] = (struct bytes){p->parts[i].data, p->parts[i].len};
    return p->count;
}

static void opens(const struct seal_about *a, const struct bytes *parts,
                  size_t count, struct bytes expected)
{
    struct sealer *s = sealer_open(key);
    char why[200] = "";
    struct buf plain;

    buf_init(&plain, PLAIN_MAX);
    buf_puts(&plain, "before");
    if (sealer_open_parts(s, a, parts, count, &plain, why) != GR_OK)
        fail_msg("%s", why);
    assert_int_equal(plain.len, 6 + expected.n);
    assert_memory_equal(plain.data, "before", 6);
    if (expected.n)
        assert_memory_equal(plain.data + 6, expected.p, expected.n);
    buf_fini(&plain);
    sealer_close(s);
}

static void is_refused(struct sealer *s, const struct seal_about *a,
                       const struct bytes *parts, size_t count, size_t max,
                       const char *expected)
{
    char why[200] = "";
    struct buf plain;

    buf_init(&plain, max);
    buf_puts(&plain, "before");
    assert_int_equal(sealer_open_parts(s, a, parts, count, &plain, why),
                     GR_REFUSE);
    if (!strstr(why, expected))
        fail_msg("\"%s\" does not say \"%s\"", why, expected);
    assert_int_equal(plain.len, 6);
    assert_string_equal(plain.data, "before");
    buf_fini(&plain);
}

/* ---- the format, made by other code ---- */

/* Made with Python (cryptography, the zstd command) from the description in seal.c. */
static void the_golden_part_opens(void **state)
{
    static const char hex[] =
        "01"
        "0f549f30024a8e00"
        "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f"
        "0900000000000000"
        "6d49d8187cd6107451006b38a9e62f59fa8044484c48714a0c02da44d678302fa8b9"
        "0d60"
        "7e4ab184ceb9cc283cfcb0c573feb3d6";
    static const char plain[] =
        "turn turn turn turn turn turn turn turn of golden bytes\n";
    struct seal_about a = about_golden();
    uint8_t raw[sizeof hex / 2];
    struct bytes part = {raw, sizeof raw};

    (void)state;
    for (size_t i = 0; i < sizeof raw; i++)
        raw[i] = (uint8_t)(hex_digit(hex[2 * i]) << 4 |
                           hex_digit(hex[2 * i + 1]));
    opens(&a, &part, 1, (struct bytes){plain, sizeof plain - 1});
}

/* HKDF-SHA256 (RFC 5869) for one block. */
static void hkdf(const uint8_t *salt, struct bytes info, uint8_t out[32])
{
    uint8_t prk[32], text[100];
    unsigned n = 32;

    HMAC(EVP_sha256(), salt, 32, key, sizeof key, prk, &n);
    memcpy(text, info.p, info.n);
    text[info.n] = 1;
    HMAC(EVP_sha256(), prk, 32, text, info.n + 1, out, &n);
}

/* Encrypts `text` as the only part. */
static struct buf seal_by_hand(const struct seal_about *a, struct bytes text)
{
    static const uint8_t salt[32] = {1, 2, 3};
    uint8_t derived[32], id[SHA256_BYTES], tag[TAG];
    char nonce[12] = {0};
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    struct buf info, bound, part;
    int n, last;

    buf_init(&info, 100);
    buf_puts(&info, "grapnel replicate 1");
    buf_put(&info, a->history, HISTORY_BYTES);
    put_le64(&info, (uint64_t)a->epoch);
    hkdf(salt, (struct bytes){info.data, info.len}, derived);
    buf_init(&bound, 200);
    buf_put(&bound, (char[]){1, (char)a->kind}, 2);
    buf_put(&bound, a->history, HISTORY_BYTES);
    put_le64(&bound, (uint64_t)a->epoch);
    put_le64(&bound, (uint64_t)a->n);
    put_le64(&bound, 0);
    put_le64(&bound, 1);
    buf_puts(&bound, a->process);
    sha256_of_parts(
        (const struct bytes[]){{"grapnel replicate key", 21}, {key, 32}}, 2,
        id);
    buf_init(&part, SEAL_PART_BYTES);
    buf_put(&part, "\1", 1);
    buf_put(&part, id, 8);
    buf_put(&part, salt, 32);
    buf_put(&part, nonce, 8);
    buf_put(&part, text.p, text.n);
    assert_int_equal(EVP_EncryptInit_ex(c, EVP_aes_256_gcm(), NULL, derived,
                                        (uint8_t *)nonce),
                     1);
    EVP_EncryptUpdate(c, NULL, &n, (uint8_t *)bound.data, (int)bound.len);
    EVP_EncryptUpdate(c, (uint8_t *)part.data + TEXT_AT, &n, text.p,
                      (int)text.n);
    EVP_EncryptFinal_ex(c, (uint8_t *)part.data + TEXT_AT + n, &last);
    EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG, tag);
    buf_put(&part, tag, TAG);
    EVP_CIPHER_CTX_free(c);
    buf_fini(&info);
    buf_fini(&bound);
    return part;
}

static void refused_by_hand(struct bytes text, size_t max, const char *expected)
{
    struct seal_about a = about_golden();
    struct sealer *s = sealer_open(key);
    struct buf part = seal_by_hand(&a, text);

    is_refused(s, &a, &(struct bytes){part.data, part.len}, 1, max, expected);
    buf_fini(&part);
    sealer_close(s);
}

/* Who has the key can seal what zstd refuses. */
static void sealed_bytes_that_are_not_a_zstd_frame_are_refused(void **state)
{
    uint8_t frame[1000];
    size_t n = ZSTD_compress(frame, sizeof frame, "a turn", 6, 1);
    struct seal_about a = about_golden();
    struct buf part = seal_by_hand(&a, (struct bytes){frame, n});

    (void)state;
    opens(&a, &(struct bytes){part.data, part.len}, 1,
          (struct bytes){"a turn", 6});
    buf_fini(&part);
    refused_by_hand((struct bytes){"no frame", 8}, PLAIN_MAX, "zstd frame");
    refused_by_hand((struct bytes){frame, n - 1}, PLAIN_MAX, "decompress");
    frame[n] = 'x';
    refused_by_hand((struct bytes){frame, n + 1}, PLAIN_MAX, "decompress");
    refused_by_hand((struct bytes){frame, n}, 6 + 5, "allowed");
    /* A frame that says that it is 2^56 bytes long. */
    memcpy(frame, "\x28\xb5\x2f\xfd\xe0\0\0\0\0\0\0\0\1\1\0\0", 16);
    refused_by_hand((struct bytes){frame, 16}, PLAIN_MAX, "allowed");
}

/* ---- what this code seals ---- */

static void what_was_sealed_opens(void **state)
{
    struct seal_about a = about_golden();
    struct sealer *s = sealer_open(key);

    (void)state;
    for (size_t n = 0; n < 3 * MIB; n = 3 * n + 1)
        for (int random = 0; random < 2; random++) {
            char *text = some_text(n, random);
            struct bytes parts[SOME];
            struct sealed_parts p;
            size_t count;

            sealer_seal(s, &a, (struct bytes){text, n}, &p);
            count = parts_of(&p, parts);
            for (size_t i = 0; i < count; i++)
                assert_true(parts[i].n > 0 && parts[i].n <= SEAL_PART_BYTES);
            assert_true((count > 1) == (random && n > MIB / 4));
            opens(&a, parts, count, (struct bytes){text, n});
            sealed_parts_fini(&p);
            free(text);
        }
    sealer_close(s);
    sealer_close(NULL);
}

static void small_text_is_one_part(void **state)
{
    struct seal_about a = about_golden();
    struct sealer *s = sealer_open(key);
    char *text = some_text(SEAL_ONE_PART_BYTES, true);
    struct sealed_parts p;

    (void)state;
    sealer_seal(s, &a, (struct bytes){text, SEAL_ONE_PART_BYTES}, &p);
    assert_int_equal(p.count, 1);
    sealed_parts_fini(&p);
    free(text);
    sealer_close(s);
}

/* No two parts have the same key and nonce: one start counts, and two starts have two salts. */
static void no_nonce_is_used_twice(void **state)
{
    enum { STARTS = 4, SEALS = 50 };
    static uint8_t seen[STARTS * SEALS * 2][TEXT_AT - SALT_AT];
    size_t count = 0;
    char *text = some_text(MIB / 3, true);

    (void)state;
    for (int start = 0; start < STARTS; start++) {
        struct sealer *s = sealer_open(key);

        for (int i = 0; i < SEALS; i++) {
            struct seal_about a = about_golden();
            struct sealed_parts p;

            /* Another epoch has another key. The counter goes on all the same. */
            a.epoch += i / 20;
            sealer_seal(s, &a, (struct bytes){text, MIB / 3}, &p);
            assert_int_equal(p.count, 2);
            for (size_t k = 0; k < p.count; k++)
                memcpy(seen[count++], p.parts[k].data + SALT_AT,
                       sizeof seen[0]);
            sealed_parts_fini(&p);
        }
        sealer_close(s);
    }
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(seen[i], seen[k], sizeof seen[0]);
    free(text);
}

/* Neither the text nor the key is in a part. */
static void a_part_does_not_show_the_text(void **state)
{
    struct seal_about a = about_golden();
    struct sealer *s = sealer_open(key);
    char *text = some_text(1000, true);
    struct sealed_parts p;

    (void)state;
    sealer_seal(s, &a, (struct bytes){text, 1000}, &p);
    assert_null(memmem(p.parts[0].data, p.parts[0].len, text + 500, 8));
    assert_null(memmem(p.parts[0].data, p.parts[0].len, key, 8));
    sealed_parts_fini(&p);
    free(text);
    sealer_close(s);
}

/* ---- what does not open ---- */

struct sealed {
    struct sealer *sealer;
    struct seal_about about;
    char *text;
    size_t text_bytes;
    struct sealed_parts owned;
    struct bytes parts[SOME];
    size_t count;
};

static struct sealed sealed_new(size_t n)
{
    struct sealed x = {.sealer = sealer_open(key),
                       .about = about_golden(),
                       .text = some_text(n, true),
                       .text_bytes = n};

    sealer_seal(x.sealer, &x.about, (struct bytes){x.text, n}, &x.owned);
    x.count = parts_of(&x.owned, x.parts);
    opens(&x.about, x.parts, x.count, (struct bytes){x.text, n});
    return x;
}

static void sealed_free(struct sealed *x)
{
    sealed_parts_fini(&x->owned);
    sealer_close(x->sealer);
    free(x->text);
}

static void another_identity_is_refused(void **state)
{
    struct sealed x = sealed_new(1000);
    static const char say[] = "not what it should be";
    struct seal_about a = x.about;

    (void)state;
    a.n++;
    is_refused(x.sealer, &a, x.parts, 1, PLAIN_MAX, say);
    a = x.about;
    a.epoch--;
    is_refused(x.sealer, &a, x.parts, 1, PLAIN_MAX, say);
    a = x.about;
    a.history[15] ^= 1;
    is_refused(x.sealer, &a, x.parts, 1, PLAIN_MAX, say);
    a = x.about;
    a.process = "ingres";
    is_refused(x.sealer, &a, x.parts, 1, PLAIN_MAX, say);
    a.process = "dlqd";
    is_refused(x.sealer, &a, x.parts, 1, PLAIN_MAX, say);
    for (int kind = SEAL_TURN + 1; kind <= SEAL_SETTINGS; kind++) {
        a = x.about;
        a.kind = kind;
        is_refused(x.sealer, &a, x.parts, 1, PLAIN_MAX, say);
    }
    sealed_free(&x);
}

static void another_key_is_named_as_the_reason(void **state)
{
    struct sealed x = sealed_new(1000);
    struct sealer *other;

    (void)state;
    key[31] ^= 1;
    other = sealer_open(key);
    key[31] ^= 1;
    is_refused(other, &x.about, x.parts, 1, PLAIN_MAX, "another key");
    sealer_close(other);
    sealed_free(&x);
}

static void another_version_is_named_as_the_reason(void **state)
{
    struct sealed x = sealed_new(1000);

    (void)state;
    x.owned.parts[0].data[0]++;
    is_refused(x.sealer, &x.about, x.parts, 1, PLAIN_MAX, "format 2");
    sealed_free(&x);
}

static void each_flipped_bit_is_refused(void **state)
{
    struct sealed x = sealed_new(500);
    char *data = x.owned.parts[0].data;

    (void)state;
    for (size_t bit = 0; bit < 8 * x.owned.parts[0].len; bit++) {
        data[bit / 8] ^= (char)(1 << bit % 8);
        is_refused(x.sealer, &x.about, x.parts, 1, PLAIN_MAX, "part 0");
        data[bit / 8] ^= (char)(1 << bit % 8);
    }
    opens(&x.about, x.parts, 1, (struct bytes){x.text, x.text_bytes});
    sealed_free(&x);
}

static void a_part_of_another_length_is_refused(void **state)
{
    struct sealed x = sealed_new(200);
    char longer[SEAL_PART_BYTES + 1] = {0};
    struct bytes part = {longer, 0};

    (void)state;
    memcpy(longer, x.parts[0].p, x.parts[0].n);
    for (; part.n <= sizeof longer; part.n += part.n < 1000 ? 1 : 9973)
        if (part.n != x.parts[0].n)
            is_refused(x.sealer, &x.about, &part, 1, PLAIN_MAX, "part 0");
    part.n = sizeof longer;
    is_refused(x.sealer, &x.about, &part, 1, PLAIN_MAX, "bytes");
    sealed_free(&x);
}

static void parts_in_another_order_or_number_are_refused(void **state)
{
    struct sealed x = sealed_new(MIB);
    struct bytes p[SOME];

    (void)state;
    assert_int_equal(x.count, 5);
    is_refused(x.sealer, &x.about, x.parts, 0, PLAIN_MAX, "0 parts");
    for (size_t n = 1; n < x.count; n++) { /* the last ones are missing */
        is_refused(x.sealer, &x.about, x.parts, n, PLAIN_MAX, "part 0");
        is_refused(x.sealer, &x.about, x.parts + n, x.count - n, PLAIN_MAX,
                   "part 0");
    }
    for (size_t i = 0; i < x.count; i++) {
        /* missing in the middle */
        memcpy(p, x.parts, sizeof p);
        memmove(p + i, p + i + 1, (x.count - i - 1) * sizeof p[0]);
        is_refused(x.sealer, &x.about, p, x.count - 1, PLAIN_MAX, "part");
        /* repeated */
        memcpy(p, x.parts, sizeof p);
        memmove(p + i + 1, p + i, (x.count - i) * sizeof p[0]);
        is_refused(x.sealer, &x.about, p, x.count + 1, PLAIN_MAX, "part");
        for (size_t k = 0; k < x.count; k++) {
            if (k == i)
                continue;
            memcpy(p, x.parts, sizeof p);
            p[i] = x.parts[k]; /* instead of another */
            is_refused(x.sealer, &x.about, p, x.count, PLAIN_MAX, "part");
            p[k] = x.parts[i]; /* exchanged */
            is_refused(x.sealer, &x.about, p, x.count, PLAIN_MAX, "part");
        }
    }
    sealed_free(&x);
}

/* The same turn sealed twice: each part is authentic, but they do not belong together. */
static void parts_of_two_seals_are_refused(void **state)
{
    struct sealed x = sealed_new(MIB);
    struct sealed_parts again;
    struct bytes p[SOME];

    (void)state;
    sealer_seal(x.sealer, &x.about, (struct bytes){x.text, x.text_bytes},
                &again);
    for (size_t i = 0; i < x.count; i++) {
        memcpy(p, x.parts, sizeof p);
        p[i] = (struct bytes){again.parts[i].data, again.parts[i].len};
        is_refused(x.sealer, &x.about, p, x.count, PLAIN_MAX,
                   "does not belong");
    }
    /* Their counters follow each other, and their number is right. */
    memcpy(p, x.parts + 1, (x.count - 1) * sizeof p[0]);
    p[x.count - 1] = (struct bytes){again.parts[0].data, again.parts[0].len};
    is_refused(x.sealer, &x.about, p, x.count, PLAIN_MAX, "part 0 of 5");
    sealed_parts_fini(&again);
    sealed_free(&x);
}

static void each_flipped_bit_of_a_later_parts_front_is_refused(void **state)
{
    struct sealed x = sealed_new(MIB);
    char *data = x.owned.parts[3].data;

    (void)state;
    for (size_t bit = 0; bit < (size_t)8 * (TEXT_AT + 4); bit++) {
        data[bit / 8] ^= (char)(1 << bit % 8);
        is_refused(x.sealer, &x.about, x.parts, x.count, PLAIN_MAX, "part 3");
        data[bit / 8] ^= (char)(1 << bit % 8);
    }
    sealed_free(&x);
}

/* One sealer keeps the last key that it derived, for sealing and for opening. */
static void each_epoch_and_history_has_its_key(void **state)
{
    enum { ALL = 6 };
    struct sealer *s = sealer_open(key), *reader = sealer_open(key);
    struct seal_about about[ALL];
    struct sealed_parts sealed[ALL];

    (void)state;
    for (int i = 0; i < ALL; i++) {
        about[i] = about_golden();
        about[i].epoch += i % 3;
        about[i].history[0] ^= (uint8_t)(i / 3);
        sealer_seal(s, &about[i], (struct bytes){"a turn", 6}, &sealed[i]);
    }
    for (int i = 0; i < 100; i++) {
        int k = (int)(rig_random() % ALL);
        struct bytes part = {sealed[k].parts[0].data, sealed[k].parts[0].len};
        struct buf plain;
        char why[200];

        opens(&about[k], &part, 1, (struct bytes){"a turn", 6});
        buf_init(&plain, 6);
        assert_int_equal(
            sealer_open_parts(reader, &about[k], &part, 1, &plain, why), GR_OK);
        buf_fini(&plain);
    }
    for (int i = 0; i < ALL; i++)
        sealed_parts_fini(&sealed[i]);
    sealer_close(s);
    sealer_close(reader);
}

static void more_text_than_is_allowed_is_refused(void **state)
{
    struct sealed x = sealed_new(5000);

    (void)state;
    is_refused(x.sealer, &x.about, x.parts, x.count, 6 + 4999, "allowed");
    sealed_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_golden_part_opens),
        cmocka_unit_test(sealed_bytes_that_are_not_a_zstd_frame_are_refused),
        cmocka_unit_test(what_was_sealed_opens),
        cmocka_unit_test(small_text_is_one_part),
        cmocka_unit_test(no_nonce_is_used_twice),
        cmocka_unit_test(a_part_does_not_show_the_text),
        cmocka_unit_test(another_identity_is_refused),
        cmocka_unit_test(another_key_is_named_as_the_reason),
        cmocka_unit_test(another_version_is_named_as_the_reason),
        cmocka_unit_test(each_flipped_bit_is_refused),
        cmocka_unit_test(a_part_of_another_length_is_refused),
        cmocka_unit_test(parts_in_another_order_or_number_are_refused),
        cmocka_unit_test(parts_of_two_seals_are_refused),
        cmocka_unit_test(each_flipped_bit_of_a_later_parts_front_is_refused),
        cmocka_unit_test(each_epoch_and_history_has_its_key),
        cmocka_unit_test(more_text_than_is_allowed_is_refused),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
