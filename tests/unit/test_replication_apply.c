/* A standby's file: turns of a real writer that is killed at any point, the cut at the next start, files that do not belong together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "file_io.h"
#include "replicated_host.h"
#include <sys/stat.h>

static char dir[64];
static struct host host;

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/replicated-XXXXXX");
    assert_non_null(mkdtemp(dir));
    sh("mkdir %s/a %s/b", dir, dir);
    host = (struct host){.engine = me_open(NULL),
                         .sealer = sealer_open(writer_key)};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sealer_close(host.sealer);
    me_free(host.engine);
    sh("rm -rf %s", dir);
    return 0;
}

static char *path_on(char name)
{
    static char paths[2][100];
    char *path = paths[name - 'a'];

    snprintf(path, 100, "%s/%c/x.db", dir, name);
    return path;
}

static void sql(const char *path, const char *text)
{
    sqlite3 *h;

    assert_int_equal(sqlite3_open(path, &h), SQLITE_OK);
    assert_int_equal(sqlite3_exec(h, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(h);
}

/* All bytes are those of a file that has only had the turns of the log. */
static void assert_same_bytes(const char *path)
{
    char whole[100];
    struct applied *a;

    snprintf(whole, sizeof whole, "%s/whole.db", dir);
    sh("rm -f %s*", whole);
    a = applied_create(whole, &host.engine->owner.at);
    host_follow(&host, a, host.engine->last);
    applied_close(a);
    sh("cmp %s %s", path, whole);
}

/* A writer makes up to this many turns in this file, which is at the end of the log. */
static bool write_turns(const char *path, struct writer w)
{
    struct applied *a = host_start(&host, path);

    host_follow(&host, a, host.engine->last);
    assert_true(host_content_is(&host, path, host.engine->last));
    host_take_over(&host, a, &w);
    w.path = path;
    w.seed = rig_random();
    return writer_run(&w);
}

/* Two hosts: at each kill one of them continues. The other one has a standby's file, or one of an active that was killed some time ago. */
static void a_file_has_each_turn_of_the_log_and_nothing_else(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        char *path = path_on(chance_pm(500) ? 'a' : 'b');
        bool dies = chance_pm(800);

        write_turns(path, (struct writer){.turns = 30,
                                          .kill_pm = dies ? 4 : 0,
                                          .held_pm = dies ? 30 : 0});
        if (chance_pm(200)) {
            struct applied *a = host_start(&host, path);

            host_follow(&host, a, host.engine->last);
            applied_close(a);
            assert_same_bytes(path);
        }
    }
    print_message("%lld turns; last turn kept %d, cut %d, no log %d\n",
                  (long long)host.engine->last, host.kept, host.cut,
                  host.clean);
    assert_true(host.kept > 5 && host.cut > 5 && host.clean > 5);
}

/* ---- what does not belong together ---- */

static void assert_refused(const char *path, const char *words)
{
    struct content c;
    char why[200] = "";

    assert_int_equal(content_read(path, &c, why), GR_REFUSE);
    if (!strstr(why, words))
        fail_msg("%s", why);
}

static void copy_all(const char *from, const char *to)
{
    sh("rm -f %s*; for s in '' -wal -position; do if [ -e %s$s ]; then cp "
       "%s$s %s$s; fi; done",
       to, from, from, to);
}

/* A standby's file of turn `n` on host b, and then of the end of the log. */
static void a_backup_or_an_older_file_is_refused(void **state)
{
    char *path = path_on('a'), *other = path_on('b'), old[100];
    struct writer w = {.turns = 20};
    struct applied *a;
    struct content c;

    (void)state;
    snprintf(old, sizeof old, "%s/old.db", dir);
    assert_true(write_turns(path, w));
    a = host_start(&host, other);
    host_follow(&host, a, 7);
    copy_all(other, old);
    host_follow(&host, a, 15);
    applied_close(a);

    /* The whole of last night: it is a beginning of the log. */
    copy_all(old, path_on('a'));
    a = host_start(&host, path);
    host_follow(&host, a, host.engine->last);
    applied_close(a);
    assert_same_bytes(path);

    /* Only the database, beside the newer position. */
    sh("cp %s %s", old, other);
    assert_refused(other, "an older file was put here");
    set_aside(other, "test");
    assert_int_equal(content_read(other, &c, (char[200]){0}), GR_OK);
    assert_false(c.exists);
    assert_true(host_has(other, ".diverged") &&
                host_has(other, ".diverged-position"));

    /* A backup that SQLite has made. */
    sh("cp %s %s && cp %s-position %s-position", path, other, path, other);
    sql(other, "PRAGMA journal_mode = DELETE");
    assert_refused(other, "a backup");
    set_aside(other, "test");
    assert_true(host_has(other, ".diverged-2"));
}

/* A newer file beside an older position looks like a crash while turns were applied. Applying them again is exact. */
static void a_newer_file_beside_an_older_position_becomes_exact(void **state)
{
    char *path = path_on('a'), *other = path_on('b'), old[100];
    struct applied *a;

    (void)state;
    snprintf(old, sizeof old, "%s/old.db", dir);
    assert_true(write_turns(path, (struct writer){.turns = 20}));
    a = host_start(&host, other);
    host_follow(&host, a, 5);
    copy_all(other, old);
    host_follow(&host, a, 12);
    applied_close(a);
    sh("cp %s-position %s-position", old, other);
    a = host_start(&host, other);
    assert_int_equal(applied_position(a)->n, 5);
    host_follow(&host, a, host.engine->last);
    applied_close(a);
    assert_same_bytes(other);

    /* One of another history. */
    a = host_start(&host, other);
    host_follow(&host, a, host.engine->last);
    applied_close(a);
    sh("cp %s %s", path, other);
    sql(other, "UPDATE replicated SET chain = randomblob(32), n = 6");
    sh("cp %s-position %s-position", old, other);
    assert_refused(other, "follows another content");
}

static void a_log_of_another_time_is_refused(void **state)
{
    char *path = path_on('a'), *other = path_on('b');
    struct writer w = {.turns = 400, .held_pm = 100};
    struct applied *a;
    struct stored_position stored;

    (void)state;
    write_turns(path, (struct writer){.turns = 10});
    a = host_start(&host, other);
    host_follow(&host, a, 3);
    applied_close(a);
    while (write_turns(path, w) || !host_has(path, "-wal"))
        ;
    /* The log that the active left, beside an older file. */
    sh("cp %s-wal %s-wal", path, other);
    assert_refused(other, "");
    sh("rm %s-position", other);
    assert_refused(other, "the log does not belong to it");

    /* The file of the active, with an older position of a standby. */
    assert_true(position_file_read(path, &stored));
    stored.active = false;
    stored.at.n--;
    assert_int_equal(position_file_write(path, &stored), GR_OK);
    assert_refused(path, "");
}

/* The checkpoint never copies a turn that is not in the log. If it had, the file would be a mixture. */
static void a_cut_turn_that_was_copied_is_refused(void **state)
{
    char *path = path_on('a'), why[200] = "";
    struct content c;
    sqlite3 *h;

    (void)state;
    while (host.cut == 0) {
        write_turns(path, (struct writer){.turns = 30, .held_pm = 200});
        if (!host_has(path, "-wal"))
            continue;
        assert_int_equal(content_read(path, &c, why), GR_OK);
        if (c.in_file || host_match(&host, &c, why) != CONTENT_IS_BEFORE)
            continue;
        copy_all(path, path_on('b'));
        h = w_open_one(path, NULL);
        sqlite3_db_config(h, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        assert_int_equal(
            sqlite3_exec(h, "PRAGMA wal_checkpoint", NULL, NULL, NULL),
            SQLITE_OK);
        sqlite3_close(h);
        assert_int_equal(cut_to(path, &c.before, why), GR_REFUSE);
        assert_non_null(strstr(why, "its pages are in the file"));
        assert_true(host_has(path, "-wal"));
        assert_int_equal(cut_to(path_on('b'), &c.before, why), GR_OK);
        return;
    }
}

/* A log that ends anywhere: what is left is a beginning of the log, or it is refused. */
static void a_torn_log_is_cut_where_it_ends(void **state)
{
    char *path = path_on('a'), *other = path_on('b'), wal[110], why[200];
    struct stat st;
    int starts = 0;

    (void)state;
    snprintf(wal, sizeof wal, "%s-wal", other);
    do
        write_turns(path, (struct writer){.turns = 25, .held_pm = 40});
    while (!host_has(path, "-wal"));
    sh("cp %s-wal %s/wal", path, dir);
    sh("stat -c %%s %s/wal >/dev/null", dir);
    snprintf(why, sizeof why, "%s/wal", dir);
    assert_int_equal(stat(why, &st), 0);
    for (int i = 0; i < 40; i++) {
        struct content c;
        int fd;

        copy_all(path, other);
        fd = open(wal, O_RDWR);
        if (i % 2) {
            assert_int_equal(
                ftruncate(fd, (off_t)(rig_random() % (uint64_t)st.st_size)), 0);
        } else {
            off_t at = (off_t)(rig_random() % (uint64_t)st.st_size);
            uint8_t byte;

            assert_int_equal(pread(fd, &byte, 1, at), 1);
            byte ^= 4;
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        }
        close(fd);
        if (content_read(other, &c, why) == GR_OK) {
            struct applied *a = host_start(&host, other);

            host_follow(&host, a, host.engine->last);
            applied_close(a);
            assert_same_bytes(other);
            starts++;
        }
    }
    print_message("%d of 40 were a beginning of the log\n", starts);
    assert_true(starts > 5);
}

/* ---- the position file ---- */

static void a_position_is_never_a_mixture(void **state)
{
    struct stored_position first = {.at = {.n = 41, .chain = {1}},
                                    .salts = {5},
                                    .holder = {9},
                                    .whole_from = 44},
                           second = {.at = {.n = 42, .chain = {2}},
                                     .active = true},
                           got;
    char *path = path_on('a'), *name = gr_printf("%s-position", path);
    struct stat st;
    int fd, newest = 0, before = 0;

    (void)state;
    assert_false(position_file_read(path, &got));
    assert_int_equal(position_file_write(path, &first), GR_OK);
    assert_true(position_file_read(path, &got));
    assert_memory_equal(&got, &first, sizeof got);
    assert_int_equal(position_file_write(path, &second), GR_OK);
    fd = open(name, O_RDWR);
    assert_int_equal(fstat(fd, &st), 0);
    for (off_t at = 0; at < st.st_size; at++) {
        uint8_t byte, flipped;
        bool found;

        if (at % 4096 > 200)
            continue;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        flipped = byte ^ (uint8_t)(1 << at % 8);
        assert_int_equal(pwrite(fd, &flipped, 1, at), 1);
        found = position_file_read(path, &got);
        assert_true(found);
        if (position_equal(&got.at, &second.at)) {
            assert_true(got.active && got.whole_from == 0);
            newest++;
        } else {
            assert_memory_equal(&got, &first, sizeof got);
            before++;
        }
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    assert_true(newest > 100 && before > 100);
    for (off_t n = st.st_size; n >= 0; n -= 100) {
        assert_int_equal(ftruncate(fd, n), 0);
        if (position_file_read(path, &got))
            assert_true(position_equal(&got.at, &first.at) ||
                        position_equal(&got.at, &second.at));
    }
    assert_false(position_file_read(path, &got));
    close(fd);
    assert_int_equal(position_file_write(path, &second), GR_OK);
    assert_true(position_file_read(path, &got));
    free(name);
}

static void a_turn_that_does_not_follow_changes_nothing(void **state)
{
    char *path = path_on('a'), *other = path_on('b'), why[200];
    struct applied *a;
    struct buf form;

    (void)state;
    write_turns(path, (struct writer){.turns = 20});
    a = host_start(&host, other);
    turn_form(host.engine, host.sealer, 2, &form);
    assert_int_equal(applied_turn(a, (struct bytes){form.data, form.len},
                                  host.engine->turns[2].at.chain, why),
                     GR_REFUSE);
    buf_fini(&form);
    host_follow(&host, a, 5);
    sh("cp %s %s/before", other, dir);
    turn_form(host.engine, host.sealer, 6, &form);
    assert_int_equal(applied_turn(a, (struct bytes){form.data, form.len},
                                  host.engine->turns[7].at.chain, why),
                     GR_REFUSE);
    for (size_t i = 0; i < form.len; i += 997) {
        form.data[i] ^= 1;
        assert_int_equal(applied_turn(a, (struct bytes){form.data, form.len},
                                      host.engine->turns[6].at.chain, why),
                         GR_REFUSE);
        form.data[i] ^= 1;
    }
    buf_fini(&form);
    sh("cmp %s %s/before", other, dir);
    host_follow(&host, a, host.engine->last);
    applied_close(a);
    assert_same_bytes(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_file_has_each_turn_of_the_log_and_nothing_else, setup, teardown),
        cmocka_unit_test_setup_teardown(a_backup_or_an_older_file_is_refused,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_newer_file_beside_an_older_position_becomes_exact, setup,
            teardown),
        cmocka_unit_test_setup_teardown(a_log_of_another_time_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_cut_turn_that_was_copied_is_refused,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_torn_log_is_cut_where_it_ends, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_position_is_never_a_mixture, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_turn_that_does_not_follow_changes_nothing, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
