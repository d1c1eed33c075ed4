/* What crosses a process boundary: the bytes are forever, and nothing else is
 * taken for them. GRAPNEL_WRITE_DOCS=1 writes docs/WIRE.md, and the golden bytes of
 * what has none yet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "bounds.h"
#include "wire.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one sample of each, every field with a value of its own ---- */

static uint64_t counter;

static wire_u64 some_u64(const char *name)
{
    static const uint64_t steps[] = {0,          1,         127,       128,
                                     255,        256,       65535,     65536,
                                     1ULL << 32, INT64_MAX, UINT64_MAX};

    (void)name;
    return steps[counter++ % COUNT_OF(steps)];
}

static wire_i64 some_i64(const char *name)
{
    static const int64_t steps[] = {0,    -1,     -32,       -33,
                                    -129, -40000, INT64_MIN, 1795255200123,
                                    -3e9, 127,    INT64_MAX};

    (void)name;
    return steps[counter++ % COUNT_OF(steps)];
}

static wire_str some_str(const char *name)
{
    static char strings[64][400];
    char *t = strings[counter++ % 64];

    /* the golden files were made when it had this name */
    if (strcmp(name, "dead_letter_id") == 0)
        name = "letter_id";

    /* short, 8 and 16 bits of length */
    snprintf(t, 400, "%s-%llu%*s", name, (unsigned long long)counter,
             counter % 3 == 0   ? 60
             : counter % 3 == 1 ? 300
                                : 0,
             "");
    return wire_text(t);
}

static wire_bin some_bin(const char *name)
{
    static uint8_t bytes[300];

    (void)name;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7);
    counter++;
    return (struct bytes){bytes, counter % 2 ? 20 : sizeof bytes};
}

#define FILL(type, name, note) v->name = some_##type(#name);
#define M(number, NAME, name, version)               \
    static void sample_##name(struct wire_##name *v) \
    {                                                \
        counter = number;                            \
        WIRE_##NAME(FILL)                            \
    }
WIRE_FRAMES(M)
WIRE_MESSAGES(M)
WIRE_RECORDS(M)
#undef M

/* ---- equal ---- */

static bool same_u64(wire_u64 a, wire_u64 b)
{
    return a == b;
}

static bool same_i64(wire_i64 a, wire_i64 b)
{
    return a == b;
}

static bool same_str(wire_str a, wire_str b)
{
    return a.n == b.n && (!a.n || memcmp(a.p, b.p, a.n) == 0);
}

static bool same_bin(wire_bin a, wire_bin b)
{
    return same_str(a, b);
}

#define SAME(type, name, note) assert_true(same_##type(a->name, b->name));
#define M(number, NAME, name, version)                          \
    static void assert_same_##name(const struct wire_##name *a, \
                                   const struct wire_##name *b) \
    {                                                           \
        WIRE_##NAME(SAME)                                       \
    }
WIRE_FRAMES(M)
WIRE_MESSAGES(M)
WIRE_RECORDS(M)
#undef M

/* ---- each kind, one after another ---- */

struct kind {
    const char *name;
    int number, version;
    void (*encode)(struct buf *out);     /* its sample */
    gr_rc (*decode)(struct bytes in);    /* only whether it would */
    void (*round_trip)(struct bytes in); /* in: the encoded sample */
};

#define M(number, NAME, name, version)                       \
    static void encode_##name(struct buf *out)               \
    {                                                        \
        struct wire_##name v;                                \
                                                             \
        sample_##name(&v);                                   \
        wire_put_##name(out, &v);                            \
    }                                                        \
                                                             \
    static gr_rc decode_##name(struct bytes in)              \
    {                                                        \
        struct wire_##name v;                                \
                                                             \
        return wire_get_##name(&v, in);                      \
    }                                                        \
                                                             \
    static void round_trip_##name(struct bytes in)           \
    {                                                        \
        struct wire_##name v, back;                          \
                                                             \
        sample_##name(&v);                                   \
        assert_int_equal(wire_get_##name(&back, in), GR_OK); \
        assert_same_##name(&v, &back);                       \
    }
WIRE_FRAMES(M)
WIRE_MESSAGES(M)
WIRE_RECORDS(M)
#undef M

static const struct kind kinds[] = {
#define M(number, NAME, name, version) \
    {#name, number, version, encode_##name, decode_##name, round_trip_##name},
    WIRE_FRAMES(M) WIRE_MESSAGES(M) WIRE_RECORDS(M)
#undef M
};

/* `at` is copied to a block of its very size, so that a read past its end is
 * seen. */
static gr_rc decode_exact(const struct kind *k, const void *at, size_t n)
{
    char *exact = malloc(n ? n : 1);
    gr_rc rc;

    memcpy(exact, at, n);
    rc = k->decode((struct bytes){exact, n});
    (void)wire_kind((struct bytes){exact, n});
    free(exact);
    return rc;
}

static void every_kind_survives_a_round_trip(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, FRAME_MAX_BYTES);
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        buf_reset(&b);
        kinds[i].encode(&b);
        assert_false(b.failed);
        kinds[i].round_trip((struct bytes){b.data, b.len});
        assert_int_equal(wire_kind((struct bytes){b.data, b.len}),
                         kinds[i].number);
        assert_string_equal(wire_kind_name(kinds[i].number), kinds[i].name);
    }
    buf_fini(&b);
}

/* ---- golden bytes ---- */

static FILE *open_beside(const char *folder, const char *name, const char *mode)
{
    const char *here = __FILE__, *slash = strrchr(here, '/');
    char path[1000];

    snprintf(path, sizeof path, "%.*s/../../%s/%s", (int)(slash - here), here,
             folder, name);
    return fopen(path, mode);
}

static void write_hex(FILE *f, const struct buf *b)
{
    for (size_t i = 0; i < b->len; i++)
        fprintf(f, "%02x%s", (unsigned char)b->data[i],
                i % 32 == 31 || i + 1 == b->len ? "\n" : "");
}

static void read_hex(FILE *f, struct buf *out)
{
    unsigned byte;
    char c;

    while (fscanf(f, "%2x", &byte) == 1) {
        c = (char)byte;
        buf_put(out, &c, 1);
    }
}

static void the_bytes_equal_the_golden_files(void **state)
{
    struct buf now, then;

    (void)state;
    buf_init(&now, FRAME_MAX_BYTES);
    buf_init(&then, FRAME_MAX_BYTES);
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        char name[100];
        FILE *f;

        buf_reset(&now);
        buf_reset(&then);
        kinds[i].encode(&now);
        snprintf(name, sizeof name, "%s-v%d.hex", kinds[i].name,
                 kinds[i].version);
        f = open_beside("tests/golden", name, "r");
        if (!f && getenv("GRAPNEL_WRITE_DOCS")) {
            f = open_beside("tests/golden", name, "w");
            write_hex(f, &now);
            fclose(f);
            f = open_beside("tests/golden", name, "r");
        }
        if (!f)
            fail_msg("tests/golden/%s is missing", name);
        read_hex(f, &then);
        fclose(f);
        if (now.len != then.len || memcmp(now.data, then.data, now.len) != 0)
            fail_msg("%s is not what it was: add a version, see schema.h",
                     kinds[i].name);
        kinds[i].round_trip((struct bytes){then.data, then.len});
    }
    buf_fini(&now);
    buf_fini(&then);
}

/* A deliverer's rows may have tasks of the version before. */
static void a_stored_task_of_version_1_is_read(void **state)
{
    FILE *f = open_beside("tests/golden", "task-v1.hex", "r");
    struct wire_task sample, task;
    struct bytes in;
    struct buf then;

    (void)state;
    assert_non_null(f);
    buf_init(&then, FRAME_MAX_BYTES);
    read_hex(f, &then);
    fclose(f);
    in = (struct bytes){then.data, then.len};
    assert_int_equal(wire_get_task(&task, in), GR_REFUSE);
    assert_int_equal(wire_get_stored_task(&task, in), GR_OK);
    sample_task(&sample);
    assert_int_equal(task.retry.n, 0);
    assert_int_equal(task.ordering_key.n, 0);
    sample.retry = task.retry;
    sample.ordering_key = task.ordering_key;
    assert_int_equal(task.high, 0);
    sample.high = 0;
    assert_same_task(&sample, &task);
    for (size_t n = 0; n < then.len; n++)
        assert_int_equal(
            wire_get_stored_task(&task, (struct bytes){then.data, n}),
            GR_REFUSE);
    buf_reset(&then);
    wire_put_task(&then, &sample);
    assert_int_equal(
        wire_get_stored_task(&task, (struct bytes){then.data, then.len}),
        GR_OK);
    assert_same_task(&sample, &task);
    buf_fini(&then);
}

/* ---- strict ---- */

static void shorter_and_longer_frames_are_refused(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, FRAME_MAX_BYTES);
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        buf_reset(&b);
        kinds[i].encode(&b);
        for (size_t n = 0; n < b.len; n++)
            assert_int_equal(decode_exact(&kinds[i], b.data, n), GR_REFUSE);
        assert_int_equal(decode_exact(&kinds[i], b.data, b.len), GR_OK);
        buf_put(&b, "", 1);
        assert_int_equal(decode_exact(&kinds[i], b.data, b.len), GR_REFUSE);
    }
    buf_fini(&b);
}

static void kinds_and_versions_are_never_confused(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, FRAME_MAX_BYTES);
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct wire_head other;
        size_t head;

        buf_reset(&b);
        kinds[i].encode(&b);
        assert_false(
            wire_is_unknown_version(&other, (struct bytes){b.data, b.len}));
        for (size_t k = 0; k < COUNT_OF(kinds); k++)
            if (k != i)
                assert_int_equal(decode_exact(&kinds[k], b.data, b.len),
                                 GR_REFUSE);
        head = (unsigned char)b.data[0] == 0xdc ? 3
                                                : 1; /* then kind, version */
        b.data[head + 1]++;
        assert_int_equal(decode_exact(&kinds[i], b.data, b.len), GR_REFUSE);
        assert_true(
            wire_is_unknown_version(&other, (struct bytes){b.data, b.len}));
        assert_int_equal(other.kind, kinds[i].number);
        assert_int_equal(other.version, kinds[i].version + 1);
        b.data[head + 1]--;
        b.data[head]++;
        assert_int_equal(decode_exact(&kinds[i], b.data, b.len), GR_REFUSE);
        b.data[head]--;
        b.data[0]++; /* one field more, or another form */
        assert_int_equal(decode_exact(&kinds[i], b.data, b.len), GR_REFUSE);
    }
    buf_fini(&b);
}

static void claimed_lengths_are_compared_with_what_is_there(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
    } frames[] = {
        {"\xdd\xff\xff\xff\xff\x01\x01", 7},     /* fields */
        {"\x9a\x01\x01\xdb\xff\xff\xff\xff", 8}, /* a string */
        {"\x9a\x01\x01\xda\xff\xff", 6},         /* … with 16 bits */
        {"\x94\x26\x01\xc6\xff\xff\xff\xff", 8}, /* bytes */
        {"\xdf\xff\xff\xff\xff", 5},             /* a map */
        {"\xc1", 1},                             /* never used */
        {"\x93\x22\x01\xd3\x00\x00\x00\x00\x00\x00\x00\x01", 12}, /* signed */
        {"\x93\x22\x01\xca\x00\x00\x00\x00", 8},                  /* a float */
        {"", 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(frames); i++)
        for (size_t k = 0; k < COUNT_OF(kinds); k++)
            assert_int_equal(
                decode_exact(&kinds[k], frames[i].bytes, frames[i].n),
                GR_REFUSE);
    assert_int_equal(wire_kind((struct bytes){NULL, 0}), 0);
}

static void a_string_holds_no_nul(void **state)
{
    struct wire_acked v = {.from = {"a\0b", 3}}, back;
    struct buf b;

    (void)state;
    buf_init(&b, FRAME_MAX_BYTES);
    wire_put_acked(&b, &v);
    assert_int_equal(wire_get_acked(&back, (struct bytes){b.data, b.len}),
                     GR_REFUSE);
    buf_fini(&b);
}

static void changed_bytes_do_no_harm(void **state)
{
    uint64_t seed = 88172645463325252ULL;
    struct buf b;

    (void)state;
    buf_init(&b, FRAME_MAX_BYTES);
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        for (int round = 0; round < 3000; round++) {
            buf_reset(&b);
            kinds[i].encode(&b);
            for (int k = 0; k < 1 + round % 4; k++) {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                b.data[(seed >> 8) % b.len] = (char)seed;
            }
            (void)decode_exact(&kinds[i], b.data, b.len);
        }
    buf_fini(&b);
}

static void too_large_messages_are_reported(void **state)
{
    struct wire_revoke v = {.grant = UINT64_MAX};
    struct buf b;

    (void)state;
    buf_init(&b, 5);
    wire_put_revoke(&b, &v);
    assert_true(b.failed);
    buf_fini(&b);
}

/* ---- the page ---- */

static void the_document_matches_the_schema(void **state)
{
    struct buf now, page;
    char part[4096];
    size_t n;
    FILE *f;

    (void)state;
    buf_init(&now, 1024 * 1024);
    buf_init(&page, 1024 * 1024);
    wire_document(&now);
    if (getenv("GRAPNEL_WRITE_DOCS")) {
        f = open_beside("docs", "WIRE.md", "w");
        fwrite(now.data, 1, now.len, f);
        fclose(f);
    }
    f = open_beside("docs", "WIRE.md", "r");
    assert_non_null(f);
    while ((n = fread(part, 1, sizeof part, f)) > 0)
        buf_put(&page, part, n);
    fclose(f);
    assert_string_equal(now.data, page.data);
    buf_fini(&now);
    buf_fini(&page);
}

static void helpers_cut_and_copy(void **state)
{
    char out[4];
    char *dup;

    (void)state;
    wire_copy(out, sizeof out, wire_text("abcdef"));
    assert_string_equal(out, "abc");
    wire_copy(out, sizeof out, wire_text(NULL));
    assert_string_equal(out, "");
    assert_true(wire_is(wire_text("x"), "x"));
    assert_false(wire_is(wire_text("x"), "xy"));
    assert_false(wire_is(wire_text("xy"), "x"));
    dup = wire_dup((struct bytes){"hello", 3});
    assert_string_equal(dup, "hel");
    free(dup);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_survives_a_round_trip),
        cmocka_unit_test(the_bytes_equal_the_golden_files),
        cmocka_unit_test(a_stored_task_of_version_1_is_read),
        cmocka_unit_test(shorter_and_longer_frames_are_refused),
        cmocka_unit_test(kinds_and_versions_are_never_confused),
        cmocka_unit_test(claimed_lengths_are_compared_with_what_is_there),
        cmocka_unit_test(a_string_holds_no_nul),
        cmocka_unit_test(changed_bytes_do_no_harm),
        cmocka_unit_test(too_large_messages_are_reported),
        cmocka_unit_test(the_document_matches_the_schema),
        cmocka_unit_test(helpers_cut_and_copy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
