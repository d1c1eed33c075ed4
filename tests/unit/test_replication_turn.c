/* The form of a turn and its chain: golden bytes, which no later version may change, and forms that turn_read() refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "seeded.h"
#include "sha256.h"
#include "turn.h"
#include <stdlib.h>
#include <string.h>

enum { HEAD = 36, PAGE = 512, FORM = HEAD + 2 * (4 + PAGE) };
/* Offsets in a form. */
enum { N_AT = 16, SIZE_AT = 24, PAGE_BYTES_AT = 28, COUNT_AT = 32 };

static void put(struct buf *form, const struct turn_head *head,
                const uint32_t *pages)
{
    uint8_t image[PAGE];

    turn_put_head(form, head);
    for (uint32_t i = 0; i < head->page_count; i++) {
        memset(image, 'a' + (int)i, sizeof image);
        turn_put_page(form, pages[i], image, PAGE);
    }
}

/* Pages 1 and 3 of 3. */
static struct buf golden_form(void)
{
    struct turn_head head = {.n = 0x0102030405060708,
                             .size_pages = 3,
                             .page_bytes = PAGE,
                             .page_count = 2};
    struct buf form;

    for (uint8_t i = 0; i < HISTORY_BYTES; i++)
        head.history[i] = i;
    buf_init(&form, FORM);
    put(&form, &head, (uint32_t[]){1, 3});
    assert_false(form.failed);
    assert_int_equal(form.len, FORM);
    return form;
}

static void hex_is(const void *p, size_t n, const char *expected)
{
    struct buf hex;

    buf_init(&hex, 1000);
    hex_put(p, n, &hex);
    assert_string_equal(hex.data, expected);
    buf_fini(&hex);
}

static void the_form_is_the_golden_one(void **state)
{
    struct buf form = golden_form();
    const char *second = form.data + HEAD + 4 + PAGE;

    (void)state;
    hex_is(form.data, HEAD + 8,
           "000102030405060708090a0b0c0d0e0f" /* history */
           "0807060504030201"                 /* n */
           "03000000"                         /* size in pages */
           "00020000"                         /* bytes of a page */
           "02000000"                         /* pages in the turn */
           "0100000061616161");
    hex_is(second - 4, 12, "616161610300000062626262");
    buf_fini(&form);
}

static void the_chain_is_the_golden_one(void **state)
{
    struct buf form = golden_form();
    struct position at = {.n = 0x0102030405060707};

    (void)state;
    for (uint8_t i = 0; i < CHAIN_BYTES; i++)
        at.chain[i] = 32 + i;
    position_next(&at, (struct bytes){form.data, form.len});
    assert_int_equal(at.n, 0x0102030405060708);
    hex_is(at.chain, CHAIN_BYTES,
           "4a4b649d670573961f43a36e6e10ed1a33f3d4d20d9359f42c82152c8245df09");
    buf_fini(&form);
}

static void each_byte_of_a_turn_is_in_its_chain(void **state)
{
    struct buf form = golden_form();
    struct position was = {.n = 7}, next = was, other;

    (void)state;
    position_next(&next, (struct bytes){form.data, form.len});
    assert_true(position_equal(&next, &next));
    for (size_t i = 0; i < form.len; i++) {
        form.data[i] ^= 1;
        other = was;
        position_next(&other, (struct bytes){form.data, form.len});
        form.data[i] ^= 1;
        assert_false(position_equal(&next, &other));
    }
    other = was;
    other.chain[31] ^= 1;
    position_next(&other, (struct bytes){form.data, form.len});
    assert_false(position_equal(&next, &other));
    other = next;
    other.history[0] ^= 1;
    assert_false(position_equal(&next, &other));
    other = next;
    other.n++;
    assert_false(position_equal(&next, &other));
    buf_fini(&form);
}

/* In memory of exactly this size, so that AddressSanitizer sees a read beyond it. */
static gr_rc read_exactly(const void *p, size_t n, struct turn_head *head)
{
    char *copy = malloc(n ? n : 1);
    gr_rc rc;

    memcpy(copy, p, n);
    rc = turn_read((struct bytes){copy, n}, head);
    for (uint32_t i = 0; rc == GR_OK && i < head->page_count; i++) {
        uint32_t page;
        const uint8_t *image = turn_page((struct bytes){copy, n}, head, i,
                                         &page);
        static uint8_t sink[65536];

        memcpy(sink, image, head->page_bytes);
        assert_true(page >= 1 && page <= head->size_pages);
    }
    free(copy);
    return rc;
}

static void a_form_is_read_as_it_was_written(void **state)
{
    struct buf form = golden_form();
    struct turn_head head;
    uint32_t page;
    const uint8_t *image;

    (void)state;
    assert_int_equal(read_exactly(form.data, form.len, &head), GR_OK);
    hex_is(head.history, HISTORY_BYTES, "000102030405060708090a0b0c0d0e0f");
    assert_int_equal(head.n, 0x0102030405060708);
    assert_int_equal(head.size_pages, 3);
    assert_int_equal(head.page_bytes, PAGE);
    assert_int_equal(head.page_count, 2);
    image = turn_page((struct bytes){form.data, form.len}, &head, 1, &page);
    assert_int_equal(page, 3);
    assert_true(image[0] == 'b' && image[PAGE - 1] == 'b');
    buf_fini(&form);
}

static void a_form_of_another_length_is_refused(void **state)
{
    struct buf form = golden_form();
    char longer[FORM + PAGE + 5] = {0};
    struct turn_head head;

    (void)state;
    memcpy(longer, form.data, FORM);
    for (size_t n = 0; n <= sizeof longer; n++)
        assert_int_equal(read_exactly(longer, n, &head),
                         n == FORM ? GR_OK : GR_REFUSE);
    buf_fini(&form);
}

static gr_rc with_number(size_t at, uint32_t v)
{
    struct buf form = golden_form();
    struct turn_head head;
    gr_rc rc;

    for (int i = 0; i < 4; i++)
        form.data[at + (size_t)i] = (char)(v >> (8 * i));
    rc = read_exactly(form.data, form.len, &head);
    buf_fini(&form);
    return rc;
}

static void wrong_sizes_and_numbers_are_refused(void **state)
{
    enum { FIRST_AT = HEAD, SECOND_AT = HEAD + 4 + PAGE };

    (void)state;
    assert_int_equal(with_number(FIRST_AT, 2), GR_OK);
    assert_int_equal(with_number(FIRST_AT, 0), GR_REFUSE);
    assert_int_equal(with_number(FIRST_AT, 3), GR_REFUSE);
    assert_int_equal(with_number(FIRST_AT, 4), GR_REFUSE);
    assert_int_equal(with_number(SECOND_AT, 2), GR_OK);
    assert_int_equal(with_number(SECOND_AT, 1), GR_REFUSE);
    assert_int_equal(with_number(SECOND_AT, 4), GR_REFUSE);
    assert_int_equal(with_number(SECOND_AT, UINT32_MAX), GR_REFUSE);
    assert_int_equal(with_number(SIZE_AT, UINT32_MAX), GR_OK);
    assert_int_equal(with_number(SIZE_AT, 2), GR_REFUSE);
    assert_int_equal(with_number(SIZE_AT, 0), GR_REFUSE);
    assert_int_equal(with_number(N_AT + 4, 0x80000000), GR_REFUSE);
    assert_int_equal(with_number(COUNT_AT, 0), GR_REFUSE);
    assert_int_equal(with_number(COUNT_AT, 1), GR_REFUSE);
    assert_int_equal(with_number(COUNT_AT, 3), GR_REFUSE);
    assert_int_equal(with_number(COUNT_AT, UINT32_MAX), GR_REFUSE);
    for (uint32_t bit = 0; bit < 32; bit++)
        if (1U << bit != PAGE)
            assert_int_equal(with_number(PAGE_BYTES_AT, 1U << bit), GR_REFUSE);
    assert_int_equal(with_number(PAGE_BYTES_AT, 0), GR_REFUSE);
    assert_int_equal(with_number(PAGE_BYTES_AT, UINT32_MAX), GR_REFUSE);
}

/* Forms whose length is right. */
static void pages_that_sqlite_does_not_have_are_refused(void **state)
{
    static const uint32_t sizes[] = {0, 1, 256, 511, 513, 1000, 131072};
    struct turn_head head = {.n = 1, .size_pages = 1};
    char *image = calloc(1, 131072);
    struct buf form;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (head.page_count = 0; head.page_count < 2; head.page_count++) {
            struct turn_head read;

            head.page_bytes = sizes[i];
            buf_init(&form, 200000);
            turn_put_head(&form, &head);
            if (head.page_count)
                turn_put_page(&form, 1, image, sizes[i]);
            assert_int_equal(form.len, turn_bytes(&head));
            assert_int_equal(read_exactly(form.data, form.len, &read),
                             GR_REFUSE);
            buf_fini(&form);
        }
    free(image);
}

static void turn_0_is_refused(void **state)
{
    struct turn_head head = {
        .n = 1, .size_pages = 1, .page_bytes = PAGE, .page_count = 1};
    struct buf form;

    (void)state;
    buf_init(&form, FORM);
    put(&form, &head, (uint32_t[]){1});
    assert_int_equal(read_exactly(form.data, form.len, &head), GR_OK);
    form.data[N_AT] = 0;
    assert_int_equal(read_exactly(form.data, form.len, &head), GR_REFUSE);
    buf_fini(&form);
}

static void the_page_that_sqlite_locks_is_refused(void **state)
{
    uint32_t locked = 0x40000000 / PAGE + 1;
    struct turn_head head = {
        .n = 1, .size_pages = locked + 1, .page_bytes = PAGE, .page_count = 1};
    struct buf form;

    (void)state;
    assert_int_equal(turn_locked_page(PAGE), locked);
    for (uint32_t page = locked - 1; page <= locked + 1; page++) {
        buf_init(&form, FORM);
        put(&form, &head, &page);
        assert_int_equal(read_exactly(form.data, form.len, &head),
                         page == locked ? GR_REFUSE : GR_OK);
        buf_fini(&form);
    }
}

/* Some bytes are changed, or the form is cut. What is accepted has no page outside of it. */
static void changed_forms_are_read_safely(void **state)
{
    struct buf form = golden_form();
    struct turn_head head;
    int accepted = 0, refused = 0;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        char copy[FORM];
        size_t n = FORM;

        memcpy(copy, form.data, FORM);
        for (uint64_t k = rig_random() % 4; k; k--) {
            size_t at = rig_random() % (chance_pm(800) ? HEAD + 4 : FORM);

            copy[at] = chance_pm(500)
                           ? (char)rig_random()
                           : (char)(copy[at] ^ (1 << rig_random() % 8));
        }
        if (chance_pm(200))
            n = rig_random() % FORM;
        if (read_exactly(copy, n, &head) == GR_OK)
            accepted++;
        else
            refused++;
    }
    assert_true(accepted > 10000 && refused > 10000);
    buf_fini(&form);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_form_is_the_golden_one),
        cmocka_unit_test(the_chain_is_the_golden_one),
        cmocka_unit_test(each_byte_of_a_turn_is_in_its_chain),
        cmocka_unit_test(a_form_is_read_as_it_was_written),
        cmocka_unit_test(a_form_of_another_length_is_refused),
        cmocka_unit_test(wrong_sizes_and_numbers_are_refused),
        cmocka_unit_test(pages_that_sqlite_does_not_have_are_refused),
        cmocka_unit_test(turn_0_is_refused),
        cmocka_unit_test(the_page_that_sqlite_locks_is_refused),
        cmocka_unit_test(changed_forms_are_read_safely),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
