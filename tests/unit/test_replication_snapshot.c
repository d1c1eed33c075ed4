/* Snapshots of a real file while turns go on, and what is restored of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "replicated_host.h"

static char dir[64], source[100], target[100];
static struct host host;
static struct writer w;

static void write_turns(int count)
{
    for (int i = 0; i < count; i++)
        w_turn(&w);
}

static int setup(void **state)
{
    struct applied *a;

    (void)state;
    strcpy(dir, "/tmp/replicated-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(source, sizeof source, "%s/source.db", dir);
    snprintf(target, sizeof target, "%s/target.db", dir);
    host = (struct host){.engine = me_open(NULL),
                         .sealer = sealer_open(writer_key)};
    a = host_start(&host, source);
    w = (struct writer){.path = source, .sealer = sealer_open(writer_key)};
    host_take_over(&host, a, &w);
    w_open(&w);
    write_turns(60);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    w_close(&w);
    sealer_close(host.sealer);
    me_free(host.engine);
    sh("rm -rf %s", dir);
    return 0;
}

/* Turns go on between the parts, and some outcomes are unknown. */
static void make_snapshot(void)
{
    w_begin_snapshot(&w);
    assert_non_null(w.snapshot);
    while (w.snapshot) {
        write_turns(1);
        host.engine->unknown = chance_pm(300);
        host.engine->executed = chance_pm(500);
        if (w.snapshot)
            w_step_snapshot(&w);
        host.engine->unknown = 0;
    }
}

static void assert_is_source(const char *path)
{
    char whole[100];
    struct applied *a;

    assert_true(host_content_is(&host, path, host.engine->last));
    if (host.engine->first > 1)
        return;
    snprintf(whole, sizeof whole, "%s/whole.db", dir);
    a = applied_create(whole, &host.engine->owner.at);
    host_follow(&host, a, host.engine->last);
    applied_close(a);
    sh("cmp %s %s && rm %s*", path, whole, whole);
}

static void a_restored_file_is_the_source_at_the_end_of_the_log(void **state)
{
    struct applied *a;
    int64_t n;

    (void)state;
    make_snapshot();
    write_turns(20);
    a = host_start(&host, target);
    n = applied_position(a)->n;
    assert_int_equal(host.restored, 1);
    assert_true(n > 20 && n < host.engine->last);
    assert_false(applied_is_whole(a)); /* turns went on while it was made */
    host_follow(&host, a, host.engine->last);
    assert_true(applied_is_whole(a));
    applied_close(a);
    assert_is_source(target);
}

static void two_snapshots_and_the_log_after_the_older_one_are_kept(void **state)
{
    int64_t at[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct snapshot_place place = w_place(&w);
        char why[ENGINE_WHY_BYTES];
        int64_t bytes, stored = 0;

        make_snapshot();
        assert_int_equal(
            snapshot_newest(&place, w.at.history, &at[i], &bytes, why),
            SNAPSHOT_DONE);
        for (size_t k = 0; k < host.engine->part_count; k++)
            if (host.engine->parts[k].n == at[i] &&
                host.engine->parts[k].part >= 0)
                stored += (int64_t)host.engine->parts[k].bytes.n;
        assert_int_equal(bytes, stored);
        assert_int_equal(host.engine->first, i ? at[i - 1] + 1 : 1);
        write_turns(5);
    }
    for (size_t i = 0; i < host.engine->part_count; i++)
        assert_true(host.engine->parts[i].n == at[3] ||
                    host.engine->parts[i].n == at[2]);
    applied_close(host_start(&host, target));
}

static void the_same_content_is_not_written_twice(void **state)
{
    size_t parts;

    (void)state;
    write_turns(1);
    w_begin_snapshot(&w);
    while (!w_step_snapshot(&w))
        ;
    parts = host.engine->part_count;
    w_begin_snapshot(&w);
    assert_true(w_step_snapshot(&w));
    assert_int_equal(host.engine->part_count, parts);
}

static enum snapshot_step restore(char why[ENGINE_WHY_BYTES], int steps)
{
    struct snapshot_place place = w_place(&w);
    struct snapshot_restore *r = snapshot_restore_begin(
        &place, host.engine->owner.at.history, target);
    enum snapshot_step s;

    do
        s = snapshot_restore_step(r, why);
    while (s == SNAPSHOT_MORE && --steps);
    snapshot_restore_end(r);
    return s;
}

static void a_crash_in_the_middle_begins_again(void **state)
{
    char why[ENGINE_WHY_BYTES];
    struct content c;
    struct applied *a;

    (void)state;
    assert_int_equal(restore(why, 0), SNAPSHOT_NO_ROW);
    make_snapshot();
    for (int steps = 1; restore(why, steps) == SNAPSHOT_MORE; steps++) {
        assert_int_equal(content_read(target, &c, why), GR_OK);
        assert_false(c.exists);
    }
    a = host_start(&host, target);
    host_follow(&host, a, host.engine->last);
    applied_close(a);
    assert_is_source(target);
}

/* A bit in each part, parts exchanged, a part missing: never restored, and the active notices before it deletes older ones. */
static void a_damaged_snapshot_is_refused(void **state)
{
    char why[ENGINE_WHY_BYTES];
    struct me_part *parts = host.engine->parts, swap;

    (void)state;
    make_snapshot();
    assert_true(host.engine->part_count >= 3);
    for (size_t i = 0; i < host.engine->part_count; i++) {
        uint8_t *byte = (uint8_t *)(uintptr_t)parts[i].bytes.p +
                        rig_random() % parts[i].bytes.n;

        *byte ^= 16;
        assert_int_equal(restore(why, 0), SNAPSHOT_DAMAGED);
        *byte ^= 16;
    }
    swap = parts[0];
    parts[0].bytes = parts[1].bytes;
    assert_int_equal(restore(why, 0), SNAPSHOT_DAMAGED);
    assert_non_null(strstr(why, "another"));
    parts[0] = swap;
    write_turns(3);
    w_begin_snapshot(&w);
    while (host.engine->parts[host.engine->part_count - 1].part != -1 ||
           host.engine->parts[host.engine->part_count - 1].n != w.at.n)
        assert_false(w_step_snapshot(&w));
    ((uint8_t *)(uintptr_t)host.engine->parts[host.engine->part_count - 2]
         .bytes.p)[100] ^= 1;
    for (;;) {
        enum snapshot_step s = snapshot_step(w.snapshot, &w.mine, &w.at, why);

        if (s == SNAPSHOT_MORE)
            continue;
        assert_int_equal(s, SNAPSHOT_DAMAGED);
        break;
    }
    assert_int_equal(host.engine->first, 1);
    snapshot_end(w.snapshot);
    w.snapshot = NULL;
    /* The next one is good, and the damaged one is the older of the two. */
    write_turns(5);
    make_snapshot();
    applied_close(host_start(&host, target));
}

/* Another start took over while the parts were written. */
static void a_former_owner_writes_no_snapshot(void **state)
{
    char why[ENGINE_WHY_BYTES];
    enum snapshot_step s;

    (void)state;
    w_begin_snapshot(&w);
    assert_false(w_step_snapshot(&w));
    assert_false(w_step_snapshot(&w));
    host.engine->owner.epoch++;
    while ((s = snapshot_step(w.snapshot, &w.mine, &w.at, why)) ==
           SNAPSHOT_MORE)
        ;
    assert_int_equal(s, SNAPSHOT_NO_ROW);
    assert_int_equal(restore(why, 0), SNAPSHOT_NO_ROW);
}

static void one_is_due_when_the_log_is_as_large_as_the_last_one(void **state)
{
    int64_t gib = 1LL << 30;

    (void)state;
    assert_true(snapshot_due(false, 0, 0, 0));
    assert_false(snapshot_due(true, 0, 0, gib));
    assert_false(snapshot_due(true, 10000, 10000, gib));
    assert_true(snapshot_due(true, 200000, 10000, gib));
    assert_false(snapshot_due(true, 1000, 10000, 4096));
    assert_true(snapshot_due(true, 10000, 10000, 4096));
    assert_false(snapshot_due(true, INT64_MAX, 0, 4096));
    assert_true(snapshot_due(true, INT64_MAX, 2, gib));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_restored_file_is_the_source_at_the_end_of_the_log, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            two_snapshots_and_the_log_after_the_older_one_are_kept, setup,
            teardown),
        cmocka_unit_test_setup_teardown(the_same_content_is_not_written_twice,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_crash_in_the_middle_begins_again,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_snapshot_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_former_owner_writes_no_snapshot,
                                        setup, teardown),
        cmocka_unit_test(one_is_due_when_the_log_is_as_large_as_the_last_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
