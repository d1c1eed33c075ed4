/* Tests of the guard of checkpoints: a checkpoint that begins when the whole write-ahead log is in the file, while
 * another connection restarts it, marks no page as copied that is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "wal_buffer.h"
#include <fcntl.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    /* In the -shm file (https://sqlite.org/walformat.html#the_wal_index_file_format). */
    SHM_MX_FRAME = 16,
    SHM_BACKFILL = 96,
};

static char dir[64], file[100];
static sqlite3 *writer, *other, *checkpointer;
static bool restart_is_due;
static int shm =
    -1; /* closed last: closing it releases SQLite's locks in the file */

static void run(sqlite3 *h, const char *sql)
{
    assert_int_equal(sqlite3_exec(h, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void write_pages(sqlite3 *h, int pages)
{
    char sql[80];

    snprintf(sql, sizeof sql, "INSERT INTO t VALUES(zeroblob(%d))",
             pages * 4096);
    run(h, sql);
}

/* ---- a layer below, which commits at the worst moment ---- */

static sqlite3_vfs below;
static sqlite3_io_methods methods_below;
static const sqlite3_io_methods *real_methods;
static sqlite3_vfs *real_vfs;

/* A checkpoint calls this between its look at the WAL's header and its look at what is copied, when the
 * header is new to its connection. */
static int on_unfetch(sqlite3_file *f, sqlite3_int64 at, void *p)
{
    if (restart_is_due) {
        restart_is_due = false;
        write_pages(writer, 3);
        if (!sqlite3_get_autocommit(writer))
            run(writer, "COMMIT");
    }
    return real_methods->xUnfetch(f, at, p);
}

static int on_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *f,
                   int flags, int *flags_out)
{
    int rc = real_vfs->xOpen(real_vfs, path, f, flags, flags_out);

    (void)vfs;
    if (rc == SQLITE_OK && (flags & SQLITE_OPEN_MAIN_DB)) {
        real_methods = f->pMethods;
        methods_below = *real_methods;
        methods_below.xUnfetch = on_unfetch;
        f->pMethods = &methods_below;
    }
    return rc;
}

static void put_layer_below(void)
{
    if (real_vfs)
        return;
    real_vfs = sqlite3_vfs_find(NULL);
    below = *real_vfs;
    below.zName = "below";
    below.xOpen = on_open;
    assert_int_equal(sqlite3_vfs_register(&below, 1), SQLITE_OK);
}

/* ---- a database ---- */

static uint32_t shm_number(off_t at)
{
    char path[120];
    uint32_t v;

    snprintf(path, sizeof path, "%s-shm", file);
    if (shm < 0)
        shm = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(shm >= 0);
    assert_int_equal(pread(shm, &v, sizeof v, at), sizeof v);
    return v;
}

static sqlite3 *open_with(const char *layer)
{
    sqlite3 *h = NULL;

    assert_int_equal(sqlite3_open_v2(file, &h,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                                     layer),
                     SQLITE_OK);
    sqlite3_wal_autocheckpoint(h, 0);
    run(h, "PRAGMA journal_mode = WAL");
    return h;
}

static int64_t sum(sqlite3 *h)
{
    sqlite3_stmt *s = NULL;
    int64_t v;

    assert_int_equal(
        sqlite3_prepare_v2(h, "SELECT sum(length(pad)) FROM t", -1, &s, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    v = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return v;
}

/* `other`, as a program that is not ours, copies the whole WAL. */
static int make(void **state)
{
    (void)state;
    put_layer_below();
    strcpy(dir, "/tmp/guard-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/x.db", dir);
    writer = open_with("unix");
    run(writer, "CREATE TABLE t(pad)");
    other = open_with("unix");
    checkpointer = open_with(wal_buffer_vfs());
    assert_int_equal(sum(checkpointer), 0);
    write_pages(writer, 50);
    assert_int_equal(sqlite3_wal_checkpoint_v2(
                         other, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(shm_number(SHM_BACKFILL), shm_number(SHM_MX_FRAME));
    return 0;
}

static int end(void **state)
{
    char rm[100];

    (void)state;
    sqlite3_close(checkpointer);
    sqlite3_close(other);
    sqlite3_close(writer);
    close(shm);
    shm = -1;
    snprintf(rm, sizeof rm, "rm -rf %s", dir);
    return system(rm);
}

static void checkpoint(int mode)
{
    (void)sqlite3_wal_checkpoint_v2(checkpointer, NULL, mode, NULL, NULL);
}

static void a_restart_in_its_beginning_marks_nothing_as_copied(void **state)
{
    (void)state;
    restart_is_due = true;
    checkpoint(SQLITE_CHECKPOINT_PASSIVE);
    assert_false(restart_is_due);
    assert_in_range(shm_number(SHM_MX_FRAME), 1, 49);
    assert_int_equal(shm_number(SHM_BACKFILL), 0);

    /* The next one copies. */
    write_pages(writer, 4);
    checkpoint(SQLITE_CHECKPOINT_PASSIVE);
    assert_int_equal(shm_number(SHM_BACKFILL), shm_number(SHM_MX_FRAME));
    write_pages(writer, 1);
    assert_int_equal(sum(other), 58 * 4096);
}

/* A program that has the write lock turns a RESTART into a PASSIVE checkpoint. */
static void a_restart_is_no_exception(void **state)
{
    (void)state;
    run(writer, "BEGIN IMMEDIATE");
    restart_is_due = true;
    checkpoint(SQLITE_CHECKPOINT_RESTART);
    assert_false(restart_is_due);
    assert_int_equal(shm_number(SHM_BACKFILL), 0);
    assert_int_equal(sum(other), 53 * 4096);
}

static void a_whole_copied_log_can_be_emptied(void **state)
{
    (void)state;
    assert_int_equal(sqlite3_wal_checkpoint_v2(checkpointer, NULL,
                                               SQLITE_CHECKPOINT_TRUNCATE, NULL,
                                               NULL),
                     SQLITE_OK);
    assert_int_equal(shm_number(SHM_MX_FRAME), 0);
    assert_int_equal(sum(other), 50 * 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_restart_in_its_beginning_marks_nothing_as_copied, make, end),
        cmocka_unit_test_setup_teardown(a_restart_is_no_exception, make, end),
        cmocka_unit_test_setup_teardown(a_whole_copied_log_can_be_emptied, make,
                                        end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
