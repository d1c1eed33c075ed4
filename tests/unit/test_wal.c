/* When the WAL is copied, when it is begun anew, and when a reader that is in the
 * way of that has to go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "wal.h"

enum { MIB = 1024 * 1024 };
static const int64_t gib = (int64_t)1024 * MIB;

/* Of so many MiB in it, so many KiB are not copied; -1: it is being copied. */
static enum wal_step step(int bytes_mib, int rest_kib)
{
    return wal_step(&(struct wal){.piece_bytes = 512 * 1024,
                                  .bytes = (int64_t)bytes_mib * MIB,
                                  .rest_bytes = (int64_t)rest_kib * 1024,
                                  .free_bytes = 100 * gib});
}

static void a_short_wal_is_copied_in_pieces(void **state)
{
    (void)state;
    assert_int_equal(step(3, 511), WAL_LEAVE);
    assert_int_equal(step(3, 512), WAL_COPY);
    assert_int_equal(step(30, 511), WAL_LEAVE);
    assert_int_equal(step(30, -1), WAL_LEAVE);
}

static void past_the_limit_no_piece_is_longer_than_the_loops_rest(void **state)
{
    struct wal w = {.piece_bytes = WAL_PIECE_BYTES,
                    .bytes = 31 * MIB,
                    .rest_bytes = WAL_REST_BYTES + 1,
                    .free_bytes = 100 * gib};

    (void)state;
    assert_int_equal(wal_step(&w), WAL_LEAVE);
    w.bytes += MIB;
    assert_int_equal(wal_step(&w), WAL_COPY);
}

static void a_long_wal_restarts_when_its_rest_is_short(void **state)
{
    (void)state;
    assert_int_equal(step(31, 511), WAL_LEAVE);
    assert_int_equal(step(32, 1024), WAL_BEGIN_ANEW);
    assert_int_equal(step(32, 1025), WAL_COPY);
    assert_int_equal(step(63, -1), WAL_LEAVE);
}

/* For a snapshot, also a short one, which a reader may have prevented before. */
static void a_wal_that_is_wanted_restarts_when_its_rest_is_short(void **state)
{
    struct wal w = {.piece_bytes = WAL_PIECE_BYTES,
                    .bytes = 3 * MIB,
                    .held_bytes = 3 * MIB,
                    .rest_bytes = WAL_REST_BYTES,
                    .free_bytes = 100 * gib,
                    .wanted = true};

    (void)state;
    assert_int_equal(wal_step(&w), WAL_BEGIN_ANEW);
    w.rest_bytes++;
    assert_int_equal(wal_step(&w), WAL_COPY);
    w.rest_bytes = -1;
    assert_int_equal(wal_step(&w), WAL_LEAVE);
}

static void a_very_long_wal_always_restarts(void **state)
{
    (void)state;
    assert_int_equal(step(64, 64 * 1024), WAL_BEGIN_ANEW);
    assert_int_equal(step(64, -1), WAL_BEGIN_ANEW);
}

static void a_copy_blocked_by_a_reader_is_tried_again(void **state)
{
    struct wal w = {.piece_bytes = WAL_PIECE_BYTES,
                    .bytes = 40 * MIB,
                    .held_bytes = 40 * MIB - WAL_REST_BYTES + 1,
                    .free_bytes = 100 * gib};

    (void)state;
    assert_int_equal(wal_step(&w), WAL_LEAVE);
    w.held_bytes--;
    assert_int_equal(wal_step(&w), WAL_BEGIN_ANEW);
}

static void the_last_space_of_a_disk_is_not_for_the_wal(void **state)
{
    struct wal w = {.piece_bytes = MIB,
                    .bytes = 2 * MIB,
                    .rest_bytes = 2 * MIB,
                    .free_bytes = 33 * MIB};

    (void)state;
    assert_int_equal(wal_step(&w), WAL_COPY);
    w.free_bytes = 32 * MIB;
    assert_int_equal(wal_step(&w), WAL_BEGIN_ANEW);
    w.bytes = WAL_REST_BYTES;
    w.free_bytes = 0;
    assert_int_equal(wal_step(&w), WAL_BEGIN_ANEW);
}

static void
a_reader_goes_when_the_wal_is_huge_or_the_disk_is_small(void **state)
{
    struct wal w = {.bytes = 511 * (int64_t)MIB, .free_bytes = 100 * gib};

    (void)state;
    assert_false(wal_presses(&w));
    w.bytes += MIB;
    assert_true(wal_presses(&w));
    w = (struct wal){.bytes = 2 * MIB, .free_bytes = 511 * (int64_t)MIB};
    assert_true(wal_presses(&w));
    w.free_bytes += MIB;
    assert_false(wal_presses(&w));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_wal_is_copied_in_pieces),
        cmocka_unit_test(past_the_limit_no_piece_is_longer_than_the_loops_rest),
        cmocka_unit_test(a_long_wal_restarts_when_its_rest_is_short),
        cmocka_unit_test(a_wal_that_is_wanted_restarts_when_its_rest_is_short),
        cmocka_unit_test(a_very_long_wal_always_restarts),
        cmocka_unit_test(a_copy_blocked_by_a_reader_is_tried_again),
        cmocka_unit_test(the_last_space_of_a_disk_is_not_for_the_wal),
        cmocka_unit_test(
            a_reader_goes_when_the_wal_is_huge_or_the_disk_is_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
