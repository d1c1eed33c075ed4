/* Tests of the checkpoint thread: it never begins a checkpoint of a write-ahead log that is in the
 * file as a whole, as SQLite before 3.51.3 may then lose pages (copier.h).
 * grapnel-labels: threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "copier.h"
#include "db.h"
#include "log.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    /* In the -shm file (https://sqlite.org/walformat.html#the_wal_index_file_format). */
    SHM_MX_FRAME = 16,
    SHM_BACKFILL = 96,
};

static int shm =
    -1; /* closed last: closing it releases SQLite's locks in the file */
static atomic_int begun, begun_without_pages, failing;

static uint32_t shm_number(off_t at)
{
    uint32_t v = 0;

    if (pread(shm, &v, sizeof v, at) != sizeof v)
        abort();
    return v;
}

/* In place of SQLite's, for all code of this program. */
int sqlite3_wal_checkpoint_v2(sqlite3 *h, const char *name, int mode,
                              int *pages, int *copied)
{
    int (*real)(sqlite3 *, const char *, int, int *, int *);

    *(void **)&real = dlsym(RTLD_NEXT, "sqlite3_wal_checkpoint_v2");
    if (mode == SQLITE_CHECKPOINT_PASSIVE) {
        begun++;
        if (shm_number(SHM_BACKFILL) >= shm_number(SHM_MX_FRAME))
            begun_without_pages++;
        if (failing) {
            *copied = -1;
            return SQLITE_BUSY;
        }
    }
    return real(h, name, mode, pages, copied);
}

static char dir[64], file[100];
static int wal_pages;

static int on_wal(void *arg, sqlite3 *h, const char *name, int pages)
{
    (void)arg, (void)h, (void)name;
    wal_pages = pages;
    return SQLITE_OK;
}

static void open_shm(void)
{
    char path[120];

    snprintf(path, sizeof path, "%s-shm", file);
    shm = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(shm >= 0);
    begun = begun_without_pages = failing = 0;
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/copier-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/x.db", dir);
    log_open("test", LEVEL_ERROR, false);
    return 0;
}

static int remove_folder(void **state)
{
    char rm[100];

    (void)state;
    close(shm);
    snprintf(rm, sizeof rm, "rm -rf %s", dir);
    return system(rm);
}

static sqlite3 *writer_open(void)
{
    sqlite3 *h;

    assert_int_equal(sqlite3_open(file, &h), SQLITE_OK);
    sqlite3_busy_timeout(h, 10000);
    assert_int_equal(sqlite3_exec(h,
                                  "PRAGMA journal_mode = WAL;"
                                  "CREATE TABLE t(pad)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_wal_hook(h, on_wal, NULL); /* also ends automatic checkpoints */
    return h;
}

static void write_pages(sqlite3 *h, int pages)
{
    char sql[80];

    snprintf(sql, sizeof sql, "INSERT INTO t VALUES(zeroblob(%d))",
             pages * 4096);
    assert_int_equal(sqlite3_exec(h, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void copy_all(struct copier *c)
{
    int before = begun;

    copier_begin(c);
    while (begun == before)
        sched_yield(); /* until the thread has begun */
    copier_pause(c);
}

/* The writer was stopped between a large commit and its question. */
static void
a_copy_that_reaches_beyond_the_last_question_leaves_no_rest(void **state)
{
    sqlite3 *h = writer_open();
    struct copier *c = copier_open(file);

    (void)state;
    open_shm();
    write_pages(h, 10);
    assert_int_equal(copier_rest(c, wal_pages), wal_pages);
    write_pages(h, 2000);
    copy_all(c);
    assert_int_equal(copier_rest(c, wal_pages), 0);
    write_pages(h, 1500); /* restarts it */
    assert_in_range(wal_pages, 1500, 1999);
    assert_int_equal(copier_rest(c, wal_pages), wal_pages);
    copier_close(c);
    sqlite3_close(h);
}

static void a_copy_that_fails_does_not_forget_the_one_before(void **state)
{
    sqlite3 *h = writer_open();
    struct copier *c = copier_open(file);

    (void)state;
    open_shm();
    write_pages(h, 1000);
    assert_true(copier_rest(c, wal_pages) > 0);
    copy_all(c);
    assert_int_equal(copier_rest(c, wal_pages), 0);
    assert_int_equal(begun_without_pages, 0);
    failing = 1;
    copy_all(c);
    assert_int_equal(copier_rest(c, wal_pages), 0);
    copier_close(c);
    sqlite3_close(h);
}

/* Commits of all sizes, also larger than the pieces that are copied at once, and turns without rows. */
static void no_copy_begins_when_all_is_in_the_file(void **state)
{
    static const char *const steps[] = {"CREATE TABLE t(pad BLOB)"};
    static const struct db_schema schema = {.steps = steps, .count = 1};
    struct db *db = db_open(file, &schema);
    stmt *s = db_prepare(db, "INSERT INTO t VALUES(zeroblob(?))");
    unsigned seed = 7;

    (void)state;
    open_shm();
    db_copy_in_pieces(db, 64 * 1024);
    for (int turn = 0; turn < 4000; turn++) {
        db_begin(db);
        if (rand_r(&seed) % 3 == 0) {
            bind_i64(s, 1, 1 << (rand_r(&seed) % 20));
            db_run(db, s);
        }
        assert_int_equal(db_commit(db), GR_OK);
        db_tidy(db);
        if (rand_r(&seed) % 8 == 0)
            usleep(rand_r(&seed) % 4000);
    }
    assert_true(begun > 20);
    assert_int_equal(begun_without_pages, 0);
    db_close(db);
}

int main(void)
{
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(a_copy_that_reaches_beyond_the_last_question_leaves_no_rest),
        TEST(a_copy_that_fails_does_not_forget_the_one_before),
        TEST(no_copy_begins_when_all_is_in_the_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
