/* Which damage to a write-ahead log is recognised: a bit of it is flipped anywhere, and
 * what SQLite then reads is compared with what was committed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "alloc.h"
#include "wal_damage.h"
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COMMITS = 12, PAGE = 512, FRAME = PAGE + 24 };

static char dir[64], file[100], wal[110];

__attribute__((format(printf, 1, 2))) static void sh(const char *format, ...)
{
    char command[400];
    va_list ap;

    va_start(ap, format);
    vsnprintf(command, sizeof command, format, ap);
    va_end(ap);
    assert_int_equal(system(command), 0);
}

static int64_t rows(void)
{
    sqlite3 *h;
    sqlite3_stmt *s;
    int64_t n = -1;

    assert_int_equal(sqlite3_open(file, &h), SQLITE_OK);
    if (sqlite3_prepare_v2(h, "SELECT count(*) FROM t", -1, &s, NULL) ==
            SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW)
        n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(h);
    return n;
}

/* As a kill leaves it: COMMITS transactions of some frames each in the WAL, behind it
 * frames of an older one. */
static int setup(void **state)
{
    sqlite3 *h;

    (void)state;
    strcpy(dir, "/tmp/wal-damage-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/x.db", dir);
    snprintf(wal, sizeof wal, "%s-wal", file);
    assert_int_equal(sqlite3_open(file, &h), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(h,
                     "PRAGMA page_size = 512; PRAGMA journal_mode = WAL; "
                     "PRAGMA wal_autocheckpoint = 0; CREATE TABLE t(v);"
                     "CREATE TABLE u(v); WITH RECURSIVE n(i) AS (SELECT 1 "
                     "UNION ALL SELECT i + 1 FROM n WHERE i < 99) INSERT INTO "
                     "u SELECT randomblob(400) FROM n;"
                     "PRAGMA wal_checkpoint(RESTART);",
                     NULL, NULL, NULL),
        SQLITE_OK);
    for (int i = 0; i < COMMITS; i++)
        assert_int_equal(sqlite3_exec(h,
                                      "INSERT INTO t VALUES (randomblob(900))",
                                      NULL, NULL, NULL),
                         SQLITE_OK);
    sh("cp %s %s.was && cp %s %s.was", file, file, wal, wal);
    sqlite3_close(h);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sh("rm -rf %s", dir);
    return 0;
}

static void put_back(void)
{
    sh("rm -f %s-shm && cp %s.was %s && cp %s.was %s", file, file, file, wal,
       wal);
}

static void flip(long at, int bit)
{
    int fd = open(wal, O_RDWR);
    uint8_t byte;

    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= (uint8_t)(1 << bit);
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void a_complete_wal_has_no_damage(void **state)
{
    struct wal_damage d;

    (void)state;
    put_back();
    assert_false(wal_damage_find(file, &d));
    assert_int_equal(rows(), COMMITS);
    assert_false(wal_damage_find("/nowhere/x.db", &d));
}

/* A crash of the process: cut off anywhere. */
static void a_crash_is_not_damage(void **state)
{
    struct wal_damage d;
    struct stat st;

    (void)state;
    put_back();
    assert_int_equal(stat(wal, &st), 0);
    for (long n = st.st_size; n >= 0; n -= 97) {
        assert_int_equal(truncate(wal, n), 0);
        assert_false(wal_damage_find(file, &d));
    }
}

/* Each flip that costs a commit is reported, but one in the last transaction. */
static void a_flipped_bit_that_costs_commits_is_reported(void **state)
{
    struct wal_damage d;
    int64_t left;
    int lost = 0, seen = 0, certain = 0;

    (void)state;
    for (long at = 3; at < 32 + 40 * FRAME; at += 61) {
        bool found;

        put_back();
        flip(at, (int)(at % 8));
        found = wal_damage_find(file, &d);
        left = rows();
        if (left == COMMITS) {
            assert_false(found && d.certain);
            continue;
        }
        lost++;
        seen += found;
        certain += found && d.certain;
        if (left >= 0 && left < COMMITS - 1 && at >= 32)
            assert_true(found && d.certain);
        if (found && d.certain && left >= 0)
            assert_true(d.commits >= COMMITS - left - 1);
        if (at >= 32 && found)
            assert_int_equal(d.frame, (at - 32) / FRAME + 1);
    }
    print_message("%d flips cost commits, %d were seen, %d for certain\n", lost,
                  seen, certain);
    assert_true(lost > 50 && seen > lost * 9 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_complete_wal_has_no_damage),
        cmocka_unit_test(a_crash_is_not_damage),
        cmocka_unit_test(a_flipped_bit_that_costs_commits_is_reported),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
