/* sealed: what was sealed opens with its key, for its endpoint and field, unchanged; and
 * nothing else does. The keys are read from grapnel.yaml. */
#include "config.h"
#include "sealed.h"
#include "sha256.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define KEY_A "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
#define KEY_B "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="

static struct key_ring *ring(const char *first, const char *second)
{
    struct string_list keys = {0};
    struct key_ring *r;

    if (first)
        string_list_add(&keys, first);
    if (second)
        string_list_add(&keys, second);
    r = key_ring_new(&keys);
    string_list_fini(&keys);
    return r;
}

static struct bytes view(const struct buf *b)
{
    return (struct bytes){b->data, b->len};
}

static struct bytes text(const char *s)
{
    return (struct bytes){s, strlen(s)};
}

static void seal(const struct key_ring *r, const char *plain, struct buf *out)
{
    buf_init(out, 4096);
    assert_true(sealed_seal(r, "ep_1", "secrets", text(plain), out));
}

/* Nothing may be in `plain` unless it opened. */
static enum sealed_result opened(const struct key_ring *r, const char *endpoint,
                                 const char *field, struct bytes in,
                                 const char *want, char id[SEALED_KEY_ID_SIZE])
{
    struct buf plain;
    enum sealed_result result;

    buf_init(&plain, 4096);
    result = sealed_open(r, endpoint, field, in, &plain, id);
    if (result == SEALED_OK) {
        assert_true(plain.len == strlen(want));
        assert_true(!plain.len || memcmp(plain.data, want, plain.len) == 0);
    } else {
        assert_true(plain.len == 0);
    }
    buf_fini(&plain);
    return result;
}

static void a_sealed_secret_opens(void **state)
{
    static const char *const all[] = {"", "x", "{\"signing_secrets\":[\"a\"]}"};
    struct key_ring *r = ring(KEY_A, NULL);
    char id[SEALED_KEY_ID_SIZE];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        struct buf sealed;

        seal(r, all[i], &sealed);
        assert_true(sealed.len == strlen(all[i]) + SEALED_OVERHEAD_BYTES);
        assert_true(opened(r, "ep_1", "secrets", view(&sealed), all[i], id) ==
                    SEALED_OK);
        assert_string_equal(id, key_ring_current(r));
        buf_fini(&sealed);
    }
    key_ring_free(r);
    key_ring_free(NULL);
}

/* Sealed by another implementation (Python's cryptography): the form stays. */
static void the_form_is_fixed(void **state)
{
    static const char hex[] = "01fea0b07ca624f42c000102030405060708090a0bda86e6"
                              "43438c630de86ce078c7743ac51c37b5ed407598f0";
    struct key_ring *r = ring(KEY_B, NULL);
    uint8_t in[sizeof hex / 2];
    char id[SEALED_KEY_ID_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)(hex_digit(hex[2 * i]) << 4 |
                          hex_digit(hex[2 * i + 1]));
    assert_true(opened(r, "ep_1", "secrets", (struct bytes){in, sizeof in},
                       "a secret", id) == SEALED_OK);
    assert_string_equal(id, "fea0b07ca624f42c");
    key_ring_free(r);
}

static void a_secret_is_bound_to_its_endpoint_and_field(void **state)
{
    struct key_ring *r = ring(KEY_A, NULL);
    char id[SEALED_KEY_ID_SIZE];
    struct buf s;

    (void)state;
    seal(r, "x", &s);
    assert_true(opened(r, "ep_2", "secrets", view(&s), "", id) ==
                SEALED_DAMAGED);
    assert_true(opened(r, "ep_1", "secret", view(&s), "", id) ==
                SEALED_DAMAGED);
    assert_true(opened(r, "ep_1s", "ecrets", view(&s), "", id) ==
                SEALED_DAMAGED);
    buf_fini(&s);
    key_ring_free(r);
}

static void any_change_is_found(void **state)
{
    struct key_ring *r = ring(KEY_A, NULL);
    char id[SEALED_KEY_ID_SIZE];
    struct buf s;

    (void)state;
    seal(r, "a secret", &s);
    for (size_t bit = 0; bit < 8 * s.len; bit++) {
        enum sealed_result result,
            want = bit >= 8 && bit < 72 ? SEALED_UNKNOWN_KEY : SEALED_DAMAGED;

        s.data[bit / 8] ^= (char)(1 << bit % 8);
        result = opened(r, "ep_1", "secrets", view(&s), "", id);
        assert_true(result == want);
        s.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t n = 0; n < s.len; n++)
        assert_true(opened(r, "ep_1", "secrets", (struct bytes){s.data, n}, "",
                           id) == SEALED_DAMAGED);
    buf_puts(&s, "x");
    assert_true(opened(r, "ep_1", "secrets", view(&s), "", id) ==
                SEALED_DAMAGED);
    buf_fini(&s);
    key_ring_free(r);
}

static void the_first_key_seals_and_all_open(void **state)
{
    struct key_ring *old = ring(KEY_A, NULL), *both = ring(KEY_B, KEY_A),
                    *fresh = ring(KEY_B, NULL), *none = ring(NULL, NULL);
    char id[SEALED_KEY_ID_SIZE];
    struct buf by_old, by_both;

    (void)state;
    seal(old, "x", &by_old);
    seal(both, "y", &by_both);
    assert_string_equal(key_ring_current(both), key_ring_current(fresh));
    assert_string_not_equal(key_ring_current(both), key_ring_current(old));
    assert_true(opened(both, "ep_1", "secrets", view(&by_old), "x", id) ==
                SEALED_OK);
    assert_true(opened(fresh, "ep_1", "secrets", view(&by_both), "y", id) ==
                SEALED_OK);
    assert_true(opened(fresh, "ep_1", "secrets", view(&by_old), "", id) ==
                SEALED_UNKNOWN_KEY);
    assert_string_equal(id, key_ring_current(old));
    assert_null(key_ring_current(none));
    assert_true(opened(none, "ep_1", "secrets", view(&by_old), "", id) ==
                SEALED_UNKNOWN_KEY);
    assert_false(sealed_seal(none, "ep_1", "secrets", text("x"), &by_old));
    buf_fini(&by_old);
    buf_fini(&by_both);
    key_ring_free(old);
    key_ring_free(both);
    key_ring_free(fresh);
    key_ring_free(none);
}

static void two_seals_of_one_secret_differ(void **state)
{
    struct key_ring *r = ring(KEY_A, NULL);
    struct buf a, b;

    (void)state;
    seal(r, "x", &a);
    seal(r, "x", &b);
    assert_true(memcmp(a.data + 9, b.data + 9, 12) != 0);
    assert_true(memcmp(a.data + 21, b.data + 21, a.len - 21) != 0);
    buf_fini(&a);
    buf_fini(&b);
    key_ring_free(r);
}

static void a_full_buffer_is_left_as_it_was(void **state)
{
    struct key_ring *r = ring(KEY_A, NULL);
    char id[SEALED_KEY_ID_SIZE];
    struct buf small, s, plain;

    (void)state;
    buf_init(&small, SEALED_OVERHEAD_BYTES);
    assert_false(sealed_seal(r, "e", "f", text("x"), &small));
    assert_true(small.len == 0 && !small.failed);
    buf_init(&s, 4096);
    assert_true(sealed_seal(r, "e", "f", text("four"), &s));
    buf_init(&plain, 3);
    assert_true(sealed_open(r, "e", "f", view(&s), &plain, id) ==
                SEALED_DAMAGED);
    assert_true(plain.len == 0 && !plain.failed);
    buf_fini(&small);
    buf_fini(&s);
    buf_fini(&plain);
    key_ring_free(r);
}

/* ---- the setting ---- */

static char folder[] = "/tmp/grapnel-test-sealed-XXXXXX";

static int enter(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    unlink("g.yaml");
    unlink("a.key");
    return chdir("/") || rmdir(folder);
}

static void write_file(const char *name, const char *contents)
{
    FILE *f = fopen(name, "w");

    assert_non_null(f);
    fputs(contents, f);
    assert_int_equal(fclose(f), 0);
    chmod(name, 0600);
}

static struct settings *load(const char *yaml, struct buf *errors)
{
    buf_init(errors, 1 << 20);
    write_file("g.yaml", yaml);
    return settings_load("g.yaml", errors);
}

/* As openssl and as Windows write it. */
static void keys_come_from_files(void **state)
{
    static const char *const files[] = {KEY_B, KEY_B "\n", KEY_B "\r\n"};
    struct key_ring *want = ring(KEY_B, NULL);

    (void)state;
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        struct key_ring *r;
        struct settings *s;
        struct buf out;

        write_file("a.key", files[i]);
        s = load("secrets_key: [\"file:a.key\", \"" KEY_A "\"]\n", &out);
        assert_non_null(s);
        assert_true(s->secrets_keys.count == 2);
        r = key_ring_new(&s->secrets_keys);
        assert_string_equal(key_ring_current(r), key_ring_current(want));
        settings_print(s, &out);
        assert_null(strstr(out.data, KEY_A));
        assert_null(strstr(out.data, KEY_B));
        key_ring_free(r);
        settings_free(s);
        buf_fini(&out);
    }
    key_ring_free(want);
}

static void one_key_is_a_list_of_one(void **state)
{
    struct buf errors;
    struct settings *s = load("secrets_key: \"" KEY_A "\"\n", &errors);

    (void)state;
    assert_non_null(s);
    assert_true(s->secrets_keys.count == 1);
    settings_free(s);
    buf_fini(&errors);
}

static void a_wrong_key_is_refused(void **state)
{
    static const char *const all[] = {
        "password",  "AAAA",    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        KEY_A KEY_A, " " KEY_A, KEY_A " "};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        char yaml[200];
        struct buf errors;

        snprintf(yaml, sizeof yaml, "secrets_key: [\"%s\"]\n", all[i]);
        assert_null(load(yaml, &errors));
        assert_non_null(strstr(errors.data, "secrets_key[0]: "));
        assert_non_null(strstr(errors.data, "openssl rand -base64 32"));
        buf_fini(&errors);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sealed_secret_opens),
        cmocka_unit_test(the_form_is_fixed),
        cmocka_unit_test(a_secret_is_bound_to_its_endpoint_and_field),
        cmocka_unit_test(any_change_is_found),
        cmocka_unit_test(the_first_key_seals_and_all_open),
        cmocka_unit_test(two_seals_of_one_secret_differ),
        cmocka_unit_test(a_full_buffer_is_left_as_it_was),
        cmocka_unit_test(keys_come_from_files),
        cmocka_unit_test(one_key_is_a_list_of_one),
        cmocka_unit_test(a_wrong_key_is_refused),
    };

    return cmocka_run_group_tests(tests, enter, leave);
}
