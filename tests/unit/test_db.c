/* Tests of db: upgrades, damage, a full disk, failing commits, and copies of a database
 * in use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "alloc.h"
#include "clock.h"
#include "db.h"
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const steps[] = {
    "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, pad BLOB)",
    "CREATE INDEX t_v ON t(v)",
    "ALTER TABLE t ADD COLUMN more INTEGER",
    "CREATE TABLE u(id INTEGER PRIMARY KEY)",
};
static const struct db_schema schema = {.steps = steps, .count = 4};

static char dir[64], file[100];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/db-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/x.db", dir);
    log_open("test", LEVEL_ERROR, false);
    return 0;
}

static int teardown(void **state)
{
    char rm[100];

    (void)state;
    snprintf(rm, sizeof rm, "rm -rf %s", dir);
    return system(rm) == 0 ? 0 : -1;
}

GR_PRINTF(1, 2) static void sh(const char *fmt, ...)
{
    char command[1000];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    assert_int_equal(system(command), 0);
}

static int64_t number(struct db *db, const char *sql)
{
    sqlite3_stmt *s = NULL;
    int64_t v = -1;

    assert_int_equal(sqlite3_prepare_v2(db_handle(db), sql, -1, &s, NULL),
                     SQLITE_OK);
    if (sqlite3_step(s) == SQLITE_ROW)
        v = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return v;
}

static void insert(struct db *db, stmt *s, int rows, size_t pad)
{
    static const char zeros[65536];

    for (int i = 0; i < rows; i++) {
        bind_i64(s, 1, random());
        bind_blob(s, 2, (struct bytes){zeros, pad});
        db_run(db, s);
    }
}

static stmt *inserter(struct db *db)
{
    return db_prepare(db, "INSERT INTO t(v, pad) VALUES(?, ?)");
}

/* Exit code of `f` in a process of its own, and what it said. */
static int ends_with(void (*f)(void), char said[4096])
{
    int ends[2], status;
    size_t n = 0;
    ssize_t got;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        f();
        _exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], said + n, 4095 - n)) > 0)
        n += (size_t)got;
    said[n] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void just_open(void)
{
    db_close(db_open(file, &schema));
}

/* ---- open and migrate ---- */

static void a_database_is_opened_with_the_required_settings(void **state)
{
    struct db *db = db_open(file, &schema);

    (void)state;
    assert_string_equal(db_path(db), file);
    assert_int_equal(number(db, "PRAGMA user_version"), 4);
    assert_int_equal(number(db, "PRAGMA synchronous"), 2);
    assert_int_equal(number(db, "SELECT journal_mode = 'wal' FROM "
                                "pragma_journal_mode"),
                     1);
    assert_int_equal(number(db, "PRAGMA wal_autocheckpoint"), 0);
    assert_true(db_free_bytes(db) > 0);
    assert_true(db_size_bytes(db) > 0);
    db_close(db);
}

static void a_database_knows_its_share_of_the_disk(void **state)
{
    struct db *db = db_open(file, &schema);

    (void)state;
    assert_true(db_used_bytes(db) > 0);
    assert_false(db_over_share(db, 1));
    assert_true(db_over_share(db, INT_MAX));
    db_close(db);
}

static void an_older_file_is_upgraded_and_keeps_its_rows(void **state)
{
    struct db_schema older = {.steps = steps, .count = 1};
    struct db *db = db_open(file, &older);

    (void)state;
    assert_int_equal(number(db, "PRAGMA user_version"), 1);
    db_exec(db, "INSERT INTO t(v) VALUES('kept')");
    db_close(db);
    db = db_open(file, &schema);
    assert_int_equal(number(db, "PRAGMA user_version"), 4);
    assert_int_equal(number(db, "SELECT count(*) FROM t WHERE v = 'kept' AND "
                                "more IS NULL"),
                     1);
    db_close(db);
}

static void
a_new_file_is_made_by_create_and_an_older_one_by_the_steps(void **state)
{
    struct db_schema today = schema, older = {.steps = steps, .count = 1};
    struct db *db;

    (void)state;
    today.create = "CREATE TABLE made(by_create INTEGER)";
    db = db_open(file, &today);
    assert_int_equal(number(db, "PRAGMA user_version"), 4);
    assert_int_equal(number(db, "SELECT count(*) FROM sqlite_schema "
                                "WHERE name IN ('made', 't', 'u')"),
                     1);
    db_close(db);
    db_close(db_open(file, &today)); /* it is not made again */
    sh("rm %s*", file);
    db_close(db_open(file, &older));
    db = db_open(file, &today);
    assert_int_equal(number(db, "PRAGMA user_version"), 4);
    assert_int_equal(number(db, "SELECT count(*) FROM sqlite_schema "
                                "WHERE name IN ('made', 't', 'u')"),
                     2);
    db_close(db);
}

static void open_with_a_bad_create(void)
{
    struct db_schema bad = schema;

    bad.create = "CREATE TABLE a(x); CREATE TABLE a(x)";
    db_close(db_open(file, &bad));
}

static void a_new_file_is_complete_or_empty(void **state)
{
    char said[4096];
    struct db *db;

    (void)state;
    assert_int_equal(ends_with(open_with_a_bad_create, said), EXIT_STORAGE);
    db = db_open(file, &(struct db_schema){.count = 0});
    assert_int_equal(number(db, "PRAGMA user_version"), 0);
    assert_int_equal(
        number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'a'"), 0);
    db_close(db);
}

static void open_with_a_bad_step(void)
{
    static const char *const bad[] = {
        "CREATE TABLE a(x)",
        "CREATE TABLE b(x)",
        "CREATE TABLE c(x); CREATE TABLE a(x)",
    };

    db_close(db_open(file, &(struct db_schema){.steps = bad, .count = 3}));
}

static void an_upgrade_makes_all_steps_or_none(void **state)
{
    static const char *const good[] = {"CREATE TABLE a(x)"};
    char said[4096];
    struct db *db;

    (void)state;
    db_close(db_open(file, &(struct db_schema){.steps = good, .count = 1}));
    assert_int_equal(ends_with(open_with_a_bad_step, said), EXIT_STORAGE);
    db = db_open(file, &(struct db_schema){.steps = good, .count = 1});
    assert_int_equal(number(db, "PRAGMA user_version"), 1);
    assert_int_equal(number(db, "SELECT count(*) FROM sqlite_schema "
                                "WHERE name IN ('a', 'b', 'c')"),
                     1);
    db_close(db);
}

static void open_as_another_kind(void)
{
    struct db_schema other = schema;

    other.table = "dead_letters";
    db_close(db_open(file, &other));
}

/* As after a backup of one process was put instead of another's. */
static void a_file_of_another_kind_is_refused_and_not_changed(void **state)
{
    struct db_schema older = {.steps = steps, .count = 1, .table = "t"};
    char said[4096];
    struct db *db = db_open(file, &older);

    (void)state;
    db_close(db);
    assert_int_equal(ends_with(open_as_another_kind, said), EXIT_STORAGE);
    assert_non_null(strstr(said, "another kind of process"));
    assert_non_null(strstr(said, "dead_letters"));
    db = db_open(file, &older);
    assert_int_equal(number(db, "PRAGMA user_version"), 1);
    db_close(db);
}

static void a_newer_file_is_refused(void **state)
{
    char said[4096];
    struct db *db = db_open(file, &schema);

    (void)state;
    db_exec(db, "PRAGMA user_version = 9");
    db_close(db);
    assert_int_equal(ends_with(just_open, said), EXIT_STORAGE);
    assert_non_null(strstr(said, "has schema version 9, this program"));
    assert_non_null(strstr(said, "knows versions up to 4; install"));
    assert_non_null(strstr(said, file));
}

/* ---- damage ---- */

static void a_version_below_0_is_damage(void **state)
{
    char said[4096];
    struct db *db = db_open(file, &schema);

    (void)state;
    db_exec(db, "PRAGMA user_version = -3");
    db_close(db);
    assert_int_equal(ends_with(just_open, said), EXIT_STORAGE);
    assert_non_null(strstr(said, "its schema version is below 0"));
}

static void make_file(int rows)
{
    struct db *db = db_open(file, &schema);
    stmt *s = inserter(db);

    db_begin(db);
    insert(db, s, rows, 500);
    assert_int_equal(db_commit(db), GR_OK);
    db_close(db);
}

static void a_file_that_is_not_a_database_is_refused(void **state)
{
    char said[4096];

    (void)state;
    sh("head -c 20000 /dev/urandom > %s", file);
    assert_int_equal(ends_with(just_open, said), EXIT_STORAGE);
    assert_non_null(strstr(said, "is damaged"));
    assert_non_null(strstr(said, "grapnel backup"));
}

static void a_torn_file_is_refused(void **state)
{
    char said[4096];

    (void)state;
    make_file(2000);
    sh("truncate -s %d %s", 4096 * 20 + 100, file);
    assert_int_equal(ends_with(just_open, said), EXIT_STORAGE);
    assert_non_null(strstr(said, "is damaged"));
}

static void changed_bytes_inside_are_found(void **state)
{
    char said[4096];

    (void)state;
    make_file(2000);
    sh("dd if=/dev/urandom of=%s bs=4096 seek=10 count=3 conv=notrunc "
       "2>/dev/null",
       file);
    assert_int_equal(ends_with(just_open, said), EXIT_STORAGE);
    assert_non_null(strstr(said, "is damaged"));
}

static void open_and_wait(void)
{
    db_open(file, &schema);
    for (;;)
        poll(NULL, 0, 1000);
}

static void a_large_file_is_checked_while_it_is_used(void **state)
{
    char said[4096];

    (void)state;
    make_file(150000);
    sh("dd if=/dev/urandom of=%s bs=4096 seek=12000 count=3 conv=notrunc "
       "2>/dev/null",
       file);
    assert_int_equal(ends_with(open_and_wait, said), EXIT_STORAGE);
    assert_non_null(strstr(said, "is damaged"));
}

static void open_and_count(void)
{
    struct db *db = db_open(file, &schema);
    int64_t t = number(db, "SELECT count(*) FROM t NOT INDEXED"),
            v = number(db, "SELECT count(*) FROM t INDEXED BY t_v WHERE v > ''"
                           " OR v <= ''");

    db_close(db);
    _exit(t == v ? 0 : 1);
}

/* `cp` of a file that is written: found damaged, or it works. */
static void a_raw_copy_of_a_live_file_is_refused_or_works(void **state)
{
    struct db *db = db_open(file, &schema);
    stmt *s = inserter(db);
    char said[4096];
    int refused = 0;

    (void)state;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 20; i++) {
            db_begin(db);
            insert(db, s, 20, 700);
            assert_int_equal(db_commit(db), GR_OK);
            db_tidy(db);
        }
        /* the file now, its log after some more, as cp would */
        sh("rm -rf %s/copy && mkdir %s/copy && cp %s %s/copy/", dir, dir, file,
           dir);
        for (int i = 0; i < 60; i++) {
            db_begin(db);
            insert(db, s, 20, 700);
            assert_int_equal(db_commit(db), GR_OK);
            db_tidy(db);
        }
        sh("cp %s-wal %s/copy/", file, dir);
        snprintf(file, sizeof file, "%s/copy/x.db", dir);
        switch (ends_with(open_and_count, said)) {
        case 0:
            break;
        case EXIT_STORAGE:
            refused++;
            assert_non_null(strstr(said, "is damaged"));
            break;
        default:
            fail_msg("neither damaged nor whole: %s", said);
        }
        snprintf(file, sizeof file, "%s/x.db", dir);
    }
    db_close(db);
    print_message("%d of 20 raw copies were refused\n", refused);
}

/* ---- full ---- */

static bool may_write(sqlite3 *other)
{
    int rc = sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL);

    if (rc == SQLITE_OK)
        sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL);
    return rc == SQLITE_OK;
}

/* A process that only waits does not touch the file in its turns. */
static void a_turn_without_a_statement_takes_no_lock(void **state)
{
    struct db *db = db_open(file, &schema);
    stmt *read = db_prepare(db, "SELECT count(*) FROM t");
    sqlite3 *other = NULL;

    (void)state;
    assert_int_equal(sqlite3_open(file, &other), SQLITE_OK);
    db_begin(db);
    assert_true(may_write(other));
    assert_int_equal(db_commit(db), GR_OK);

    db_begin(db);
    assert_int_equal(db_number(db, read, -1), 0);
    assert_false(may_write(other));
    assert_int_equal(db_commit(db), GR_OK);
    assert_true(may_write(other));

    db_begin(db);
    assert_int_equal(db_commit_write(db), GR_OK);
    assert_int_equal(db_commit_end(db), GR_OK);
    db_begin(db);
    db_commit_begin(db);
    assert_int_equal(db_commit_end(db), GR_OK);
    sqlite3_close(other);
    db_close(db);
}

static void a_full_disk_rolls_the_turn_back(void **state)
{
    struct db *db = db_open(file, &schema);
    stmt *s = inserter(db);

    (void)state;
    db_begin(db);
    insert(db, s, 10, 100);
    assert_true(db_dirty(db));
    assert_int_equal(db_commit(db), GR_OK);
    db_exec(db, "PRAGMA max_page_count = 20");
    db_begin(db);
    assert_false(db_dirty(db));
    insert(db, s, 200, 1000);
    assert_true(db_full(db));
    insert(db, s, 1, 1); /* does nothing */
    assert_int_equal(db_changes(db), 0);
    assert_int_equal(db_commit(db), GR_AGAIN);
    assert_int_equal(number(db, "SELECT count(*) FROM t"), 10);
    db_begin(db); /* and the next turn is a turn again */
    assert_false(db_full(db));
    insert(db, s, 1, 10);
    assert_int_equal(db_commit(db), GR_OK);
    db_exec(db, "PRAGMA max_page_count = 100000");
    db_begin(db);
    insert(db, s, 200, 1000);
    assert_int_equal(db_commit(db), GR_OK);
    assert_int_equal(number(db, "SELECT count(*) FROM t"), 211);
    db_close(db);
}

/* System calls that fail as we say: in a process of its own. */
static int fail_errno;
static char failing_path[100];

static bool is_failing(int fd)
{
    char link[64], at[200];
    ssize_t n;

    if (!fail_errno)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, at, sizeof at - 1);
    at[n > 0 ? n : 0] = 0;
    return strstr(at, failing_path) != NULL;
}

static ssize_t bad_pwrite64(int fd, const void *p, size_t n, off_t at)
{
    if (is_failing(fd)) {
        errno = fail_errno;
        return -1;
    }
    return pwrite(fd, p, n, at);
}

/* Syncs of the WAL, and of the file itself; SQLite's calls come to us. */
static int wal_syncs;
static bool wal_sync_fails, file_sync_fails;

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

static int sync_or_fail(int fd, long number)
{
    char link[64], at[200];
    bool fails;
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, at, sizeof at - 1);
    at[n > 0 ? n : 0] = 0;
    wal_syncs += ends_in(at, "/x.db-wal");
    fails = (file_sync_fails && ends_in(at, "/x.db")) ||
            (wal_sync_fails && ends_in(at, "/x.db-wal"));
    if (!fails)
        return (int)syscall(number, fd);
    errno = EIO;
    return -1;
}

int fdatasync(int fd)
{
    return sync_or_fail(fd, SYS_fdatasync);
}

int fsync(int fd)
{
    return sync_or_fail(fd, SYS_fsync);
}

/* How a turn may commit. */
enum commit { HERE, APART, READING };

static gr_rc commit_as(struct db *db, enum commit how)
{
    if (how == HERE)
        return db_commit(db);
    if (how == APART)
        db_commit_begin(db);
    else if (db_commit_write(db) != GR_OK)
        return GR_AGAIN;
    return db_commit_end(db);
}

static void replace_pwrite(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

    assert_int_equal(
        vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)bad_pwrite64),
        SQLITE_OK);
    vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)bad_pwrite64);
}

/* 0: it was refused while full and taken again after. */
static void fill_and_empty(void)
{
    struct db *db = db_open(file, &schema);
    stmt *s = inserter(db);

    snprintf(failing_path, sizeof failing_path, "x.db");
    replace_pwrite();
    for (int i = 0; i < 20; i++) {
        fail_errno = i % 2 == 0 ? 0 : i % 4 == 1 ? ENOSPC : EDQUOT;
        db_begin(db);
        insert(db, s, 100 * (i + 1), 900);
        if ((db_commit(db) == GR_AGAIN) != (fail_errno != 0))
            _exit(1);
        db_tidy(db);
    }
    /* Larger than the cache, so that pages are written before the commit. */
    for (int i = 0; i < 2; i++) {
        fail_errno = i ? 0 : ENOSPC;
        db_begin(db);
        insert(db, s, 30000, 900);
        if ((db_commit(db) == GR_AGAIN) != (fail_errno != 0))
            _exit(1);
        db_tidy(db);
    }
    if (number(db, "SELECT count(*) FROM t") != 40000)
        _exit(2);
    db_close(db);
    _exit(0);
}

static void a_disk_that_refuses_writes_is_a_full_one(void **state)
{
    char said[4096];

    (void)state;
    assert_int_equal(ends_with(fill_and_empty, said), 0);
}

static int wal_writes;

static ssize_t count_pwrite64(int fd, const void *p, size_t n, off_t at)
{
    fail_errno = EIO; /* only for is_failing() */
    wal_writes += is_failing(fd);
    return pwrite(fd, p, n, at);
}

static void count_writes(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    struct db *db = db_open(file, &schema), *other;
    stmt *s = inserter(db);

    snprintf(failing_path, sizeof failing_path, "x.db-wal");
    vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)count_pwrite64);
    vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)count_pwrite64);
    db_begin(db);
    insert(db, s, 1000, 900); /* more than 250 pages */
    if (wal_writes || db_commit(db) != GR_OK)
        _exit(1);
    if (wal_writes < 1 || wal_writes > 10)
        _exit(2);
    other = db_open(file, &schema);
    if (number(other, "SELECT count(*) FROM t") != 1000)
        _exit(3);
    db_close(other);
    db_close(db);
    _exit(0);
}

static void a_commit_writes_the_log_in_large_pieces(void **state)
{
    char said[4096];

    (void)state;
    assert_int_equal(ends_with(count_writes, said), 0);
}

/* Its pages are written to the log and read from it before the commit. */
static void a_transaction_larger_than_the_cache_is_whole(void **state)
{
    struct db *db = db_open(file, &schema);
    stmt *s = inserter(db);

    (void)state;
    db_begin(db);
    insert(db, s, 40000, 1000);
    db_exec(db, "UPDATE t SET v = 'x' WHERE id % 100 = 0");
    assert_int_equal(number(db, "SELECT count(*) FROM t WHERE v = 'x'"), 400);
    assert_int_equal(db_commit(db), GR_OK);
    db_close(db);
    db = db_open(file, &schema);
    assert_int_equal(number(db, "SELECT count(*) FROM t WHERE v = 'x'"), 400);
    assert_int_equal(number(db, "SELECT sum(length(pad)) FROM t"), 40000000);
    assert_int_equal(number(db, "SELECT integrity_check = 'ok' FROM "
                                "pragma_integrity_check"),
                     1);
    db_close(db);
}

static void write_error(void)
{
    struct db *db = db_open(file, &schema);
    stmt *s = inserter(db);

    snprintf(failing_path, sizeof failing_path, "x.db-wal");
    replace_pwrite();
    fail_errno = EIO;
    db_begin(db);
    insert(db, s, 10, 900);
    (void)!db_commit(db);
    _exit(0);
}

static void any_other_error_ends_the_process(void **state)
{
    char said[4096];

    (void)state;
    assert_int_equal(ends_with(write_error, said), EXIT_STORAGE);
    assert_non_null(strstr(said, "a commit failed"));
}

static void fail_at_fsync(enum commit how)
{
    struct db *db = db_open(file, &schema);
    stmt *s = inserter(db);

    db_begin(db);
    insert(db, s, 1, 10);
    if (db_commit(db) != GR_OK)
        _exit(1);
    wal_sync_fails = true;
    db_begin(db);
    insert(db, s, 1, 10);
    if (commit_as(db, how) == GR_OK)
        _exit(2);
    _exit(3); /* it must not have come back */
}

static void failing_fsync(void)
{
    fail_at_fsync(HERE);
}

static void failing_fsync_apart(void)
{
    fail_at_fsync(APART);
}

static void failing_fsync_reading(void)
{
    fail_at_fsync(READING);
}

/* In each way to commit. */
static void each_commit_with_rows_is_synced_once(void **state)
{
    struct db *db = db_open(file, &schema);
    stmt *s = inserter(db);

    (void)state;
    db_begin(db);
    insert(db, s, 1, 10);
    assert_int_equal(db_commit(db), GR_OK);
    wal_syncs = 0;
    for (int i = 1; i < 30; i++) {
        db_begin(db);
        assert_int_equal(commit_as(db, i % 2), GR_OK); /* without rows */
        db_begin(db);
        insert(db, s, 1, 10);
        assert_int_equal(commit_as(db, i % 3), GR_OK);
        assert_int_equal(wal_syncs, i);
    }
    db_close(db);
}

/* Pages of the old log, behind the new header, must not look like new ones. */
static void the_header_of_a_new_log_is_synced_before_its_pages(void **state)
{
    struct db *db = db_open(file, &schema);
    stmt *s = inserter(db);

    (void)state;
    db_begin(db);
    insert(db, s, 100, 1000);
    assert_int_equal(db_commit(db), GR_OK);
    db_exec(db, "PRAGMA wal_checkpoint(RESTART)");
    db_begin(db);
    insert(db, s, 1, 10);
    wal_syncs = 0;
    assert_int_equal(db_commit_write(db), GR_OK);
    assert_int_equal(db_commit_end(db), GR_OK);
    assert_int_equal(wal_syncs, 2);
    db_close(db);
}

static void a_full_disk_is_known_before_the_sync(void **state)
{
    struct db *db = db_open(file, &schema);
    stmt *s = inserter(db);

    (void)state;
    db_begin(db);
    insert(db, s, 1, 10);
    assert_int_equal(db_commit(db), GR_OK);
    db_exec(db, "PRAGMA max_page_count = 1");
    db_begin(db);
    insert(db, s, 1000, 900);
    assert_true(db_full(db));
    assert_int_equal(db_commit_write(db), GR_AGAIN);
    db_exec(db, "PRAGMA max_page_count = 100000");
    db_begin(db);
    insert(db, s, 1, 10);
    assert_int_equal(db_commit_write(db), GR_OK);
    assert_int_equal(db_commit_end(db), GR_OK);
    assert_int_equal(number(db, "SELECT count(*) FROM t"), 2);
    db_close(db);
}

static void a_commit_whose_fsync_fails_ends_the_process(void **state)
{
    char said[4096];
    struct db *db;

    (void)state;
    assert_int_equal(ends_with(failing_fsync, said), EXIT_STORAGE);
    assert_non_null(strstr(said, "No accepted event is lost"));
    assert_int_equal(ends_with(failing_fsync_apart, said), EXIT_STORAGE);
    assert_non_null(strstr(said, "a commit failed"));
    assert_int_equal(ends_with(failing_fsync_reading, said), EXIT_STORAGE);
    assert_non_null(strstr(said, "a commit failed"));
    db = db_open(file, &schema); /* neither done nor undone */
    assert_in_range(number(db, "SELECT count(*) FROM t"), 3, 6);
    db_close(db);
}

static volatile sig_atomic_t was_refused;

static ssize_t refuse_pwrite64(int fd, const void *p, size_t n, off_t at)
{
    was_refused = 1;
    return bad_pwrite64(fd, p, n, at);
}

static void bad_block(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    struct db *db = db_open(file, &schema);
    stmt *s = inserter(db);

    log_open("test", LEVEL_WARN, false);
    db_begin(db);
    insert(db, s, 8000, 1000);
    if (db_commit(db) != GR_OK)
        _exit(1);
    snprintf(failing_path, sizeof failing_path, "x.db");
    fail_errno = EIO;
    vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)refuse_pwrite64);
    vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)refuse_pwrite64);
    db_tidy(db);
    while (!was_refused)
        usleep(1000);
    db_close(db);
    _exit(0);
}

/* The WAL has it all, but who looks after the machine must hear of it. */
static void a_failing_checkpoint_is_logged(void **state)
{
    char said[4096];
    struct db *db;

    (void)state;
    assert_int_equal(ends_with(bad_block, said), 0);
    assert_non_null(
        strstr(said, "the write-ahead log cannot be copied into its"));
    db = db_open(file, &schema);
    assert_int_equal(number(db, "SELECT count(*) FROM t"), 8000);
    db_close(db);
}

/* 8 MB in the WAL are for the copier; twice the WAL's limit is for the loop. */
static void checkpoint_of(int rows)
{
    struct db *db = db_open(file, &schema);
    stmt *s = inserter(db);

    db_begin(db);
    insert(db, s, rows, 1000);
    if (db_commit(db) != GR_OK)
        _exit(1);
    file_sync_fails = true;
    alarm(60);
    db_tidy(db);
    for (;;)
        pause();
}

static void failing_copy(void)
{
    checkpoint_of(8000);
}

static void failing_rest(void)
{
    checkpoint_of(72000);
}

/* A second fsync may succeed without what the first has lost. */
static void a_checkpoint_whose_fsync_fails_ends_the_process(void **state)
{
    char said[4096];
    struct db *db;

    (void)state;
    assert_int_equal(ends_with(failing_copy, said), EXIT_STORAGE);
    assert_non_null(strstr(said, "fsync failed"));
    assert_int_equal(ends_with(failing_rest, said), EXIT_STORAGE);
    assert_non_null(strstr(said, "fsync failed"));
    db = db_open(file, &schema);
    assert_int_equal(number(db, "SELECT count(*) FROM t"), 80000);
    db_close(db);
}

/* Files as a process leaves them that commits, and dies of an fsync or a kill. */
static void commit_and_die(void)
{
    struct db *db = db_open(file, &schema);

    db_begin(db);
    insert(db, inserter(db), 100, 1000);
    _exit(db_commit(db) == GR_OK ? 0 : 1);
}

/* The fsync of the WAL may have failed: then it may show us what is not on the disk,
 * a second fsync does not bring it there, and what is appended behind it is lost
 * with it. So nothing is. */
static void
a_wal_that_is_found_is_copied_before_anything_is_written(void **state)
{
    char said[4096];
    struct db *db;

    (void)state;
    assert_int_equal(ends_with(commit_and_die, said), 0);
    db = db_open(file, &schema);
    sh("cp %s %s/alone.db", file, dir);
    db_close(db);
    snprintf(said, sizeof said, "%s/alone.db", dir);
    db = db_open(said, &schema);
    assert_int_equal(number(db, "SELECT count(*) FROM t"), 100);
    db_close(db);
}

/* ---- erasing ---- */

/* Rows of one to 40 pages, read into the cache and deleted: nothing of them stays in the files. */
static void a_scrub_overwrites_every_unused_page(void **state)
{
    struct db *db = db_open(file, &schema);
    stmt *put = db_prepare(db, "INSERT INTO t(v) VALUES(replace(hex(zeroblob("
                               "?1 * 300)), '0', 'mark3r'))");
    stmt *read = db_prepare(db, "SELECT sum(length(v)) FROM t");
    stmt *drop = db_prepare(db, "DELETE FROM t");

    (void)state;
    for (int pages = 1; pages <= 40; pages++) {
        bool done = false;

        db_begin(db);
        bind_i64(put, 1, pages);
        db_run(db, put);
        assert_int_equal(db_commit(db), GR_OK);
        assert_true(db_number(db, read, 0) > 0);
        db_begin(db);
        db_run(db, drop);
        assert_int_equal(db_commit(db), GR_OK);
        for (int turn = 0; !done; turn++) {
            assert_true(turn < 1000);
            db_begin(db);
            done = db_scrub(db);
            assert_int_equal(db_commit(db), GR_OK);
            db_tidy(db);
        }
        sh("! grep -q mark3r %s %s-wal", file, file);
        db_exec(db, "PRAGMA secure_delete = FAST");
    }
    db_close(db);
}

/* ---- what was committed survives kill -9 ---- */

static void a_kill_loses_no_committed_row(void **state)
{
    int ends[2];
    int64_t said = 0, n;
    struct db *db;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        stmt *s;

        db = db_open(file, &schema);
        s = inserter(db);
        for (n = 1;; n++) {
            db_begin(db);
            insert(db, s, 1, 3000);
            if (db_commit(db) != GR_OK || write(ends[1], &n, sizeof n) < 0)
                _exit(1);
            db_tidy(db);
        }
    }
    close(ends[1]);
    while (said < 500 && read(ends[0], &n, sizeof n) == sizeof n)
        said = n;
    kill(pid, SIGKILL);
    while (read(ends[0], &n, sizeof n) == sizeof n)
        said = n;
    close(ends[0]);
    waitpid(pid, NULL, 0);
    db = db_open(file, &schema);
    assert_in_range(number(db, "SELECT count(*) FROM t"), said, said + 1);
    db_close(db);
}

/* ---- statements ---- */

static void values_survive_a_round_trip(void **state)
{
    struct db *db = db_open(file, &schema);
    stmt *put = db_prepare(db, "INSERT INTO t(id, v, pad) VALUES(?, ?, ?)");
    stmt *get = db_prepare(db, "SELECT id, v, pad, more FROM t WHERE id = ?");

    (void)state;
    db_begin(db);
    bind_i64(put, 1, INT64_MIN);
    bind_str(put, 2, (struct bytes){"ab\0c", 2});
    bind_blob(put, 3, (struct bytes){"\0\1", 2});
    db_run(db, put);
    assert_int_equal(db_changes(db), 1);
    bind_i64(put, 1, 2);
    bind_text(put, 2, NULL);
    bind_blob(put, 3, (struct bytes){NULL, 0});
    db_run(db, put);
    assert_int_equal(db_commit(db), GR_OK);
    bind_i64(get, 1, INT64_MIN);
    assert_true(db_step(db, get));
    assert_true(col_i64(get, 0) == INT64_MIN);
    assert_string_equal(col_text(get, 1), "ab");
    assert_int_equal(col_blob(get, 2).n, 2);
    assert_true(col_null(get, 3));
    db_done(get);
    bind_i64(get, 1, 2);
    assert_true(db_step(db, get));
    assert_string_equal(col_text(get, 1), "");
    assert_false(col_null(get, 2)); /* empty, not NULL */
    assert_int_equal(col_blob(get, 2).n, 0);
    assert_false(db_step(db, get));
    db_done(get);
    db_close(db);
}

/* ---- backup ---- */

static void a_backup_during_writes_is_complete(void **state)
{
    struct db *db = db_open(file, &schema), *copy;
    stmt *s = inserter(db);
    char why[200] = "", to[200];
    int64_t at_start, steps_taken = 0;
    gr_rc rc;

    (void)state;
    for (int i = 0; i < 50; i++) {
        db_begin(db);
        insert(db, s, 200, 900);
        assert_int_equal(db_commit(db), GR_OK);
        db_tidy(db);
    }
    at_start = number(db, "SELECT count(*) FROM t");
    snprintf(to, sizeof to, "%s/backup.db", dir);
    assert_int_equal(db_backup_start(db, to, why), GR_OK);
    assert_true(db_backup_running(db));
    assert_int_equal(db_backup_wait_ms(db), 0);
    assert_int_equal(db_backup_start(db, "/tmp/other", why), GR_REFUSE);
    assert_non_null(strstr(why, "in progress"));
    while ((rc = db_backup_step(db, why)) == GR_AGAIN) {
        db_begin(db);
        insert(db, s, 20, 900);
        assert_int_equal(db_commit(db), GR_OK);
        db_tidy(db);
        assert_true(++steps_taken < 1000);
    }
    assert_int_equal(rc, GR_OK);
    assert_false(db_backup_running(db));
    assert_int_equal(db_backup_wait_ms(db), -1);
    assert_true(steps_taken > 3);
    sh("test ! -e %s-wal && test ! -e %s-journal", to, to);
    copy = db_open(to, &schema);
    assert_in_range(number(copy, "SELECT count(*) FROM t"), at_start,
                    number(db, "SELECT count(*) FROM t"));
    db_close(copy);
    assert_int_equal(db_backup_start(db, to, why), GR_REFUSE);
    assert_non_null(strstr(why, "already exists"));
    assert_int_equal(db_backup_start(db, "/nowhere/x", why), GR_REFUSE);
    assert_non_null(strstr(why, "/nowhere/x"));
    assert_false(db_backup_running(db));
    db_close(db);
}

/* It fails at each file and at the thread that it needs. */
static void a_backup_without_a_free_descriptor_is_refused(void **state)
{
    struct db *db = db_open(file, &schema);
    struct rlimit before, few;
    char why[200], to[200];
    bool thread = false;
    gr_rc rc = GR_REFUSE;

    (void)state;
    snprintf(to, sizeof to, "%s/backup.db", dir);
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = (rlim_t)dup(0);
    close((int)few.rlim_cur);
    for (int more = 0; rc != GR_OK; more++, few.rlim_cur++) {
        assert_true(more < 20);
        setrlimit(RLIMIT_NOFILE, &few);
        rc = db_backup_start(db, to, why);
        setrlimit(RLIMIT_NOFILE, &before);
        thread |= rc != GR_OK && strstr(why, "thread");
        if (rc != GR_OK)
            sh("test ! -e %s -a ! -e %s.part", to, to);
    }
    assert_true(thread);
    while ((rc = db_backup_step(db, why)) == GR_AGAIN)
        ;
    assert_int_equal(rc, GR_OK);
    db_close(db);
}

static void an_interrupted_backup_leaves_no_file(void **state)
{
    struct db *db = db_open(file, &schema);
    stmt *s = inserter(db);
    char why[200], to[200];

    (void)state;
    db_begin(db);
    insert(db, s, 5000, 900);
    assert_int_equal(db_commit(db), GR_OK);
    snprintf(to, sizeof to, "%s/backup.db", dir);
    assert_int_equal(db_backup_start(db, to, why), GR_OK);
    assert_int_equal(db_backup_step(db, why), GR_AGAIN);
    db_close(db);
    sh("test ! -e %s", to);
}

static void a_wal_that_was_left_beside_a_backup_is_refused(void **state)
{
    char said[4096], why[200], to[200];
    struct db *db;

    (void)state;
    assert_int_equal(ends_with(commit_and_die, said), 0);
    db = db_open(file, &schema);
    snprintf(to, sizeof to, "%s/backup.db", dir);
    assert_int_equal(db_backup_start(db, to, why), GR_OK);
    while (db_backup_step(db, why) == GR_AGAIN)
        ;
    db_close(db);
    assert_int_equal(ends_with(commit_and_die, said), 0);
    sh("cp %s %s", to, file);
    assert_int_equal(ends_with(just_open, said), EXIT_STORAGE);
    assert_non_null(strstr(said, "Delete"));
    assert_non_null(strstr(said, "x.db-wal"));
    sh("rm %s-wal %s-shm", file, file);
    db = db_open(file, &schema);
    assert_int_equal(number(db, "SELECT count(*) FROM t"), 100);
    db_close(db);
}

/* Opens it, and makes it the file of today if `adopt`. */
static int64_t copied_ms(const char *path, bool adopt, bool *stamped)
{
    struct db *db = db_open(path, &schema);
    int64_t ms = db_copied_ms(db);

    *stamped = db_stamped(db);
    if (adopt) {
        db_begin(db);
        db_adopt(db);
        assert_int_equal(db_commit(db), GR_OK);
    }
    db_close(db);
    return ms;
}

static void count(void *self)
{
    ++*(int *)self;
}

static void a_long_upgrade_is_watched_and_later_work_is_not(void **state)
{
    static const char rows[] =
        "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n "
        "WHERE i < 200000) INSERT INTO t(v) SELECT i FROM n";
    static const char *const long_steps[] = {"CREATE TABLE t(v INTEGER)", rows};
    const struct db_schema s = {.steps = long_steps, .count = 2};
    int calls = 0, before;
    struct db *db = db_open_watched(file, &s, count, &calls);

    (void)state;
    assert_true(calls > 5);
    before = calls;
    db_exec(db, "UPDATE t SET v = v + 1");
    assert_true(calls > before);
    db_unwatch(db);
    before = calls;
    db_exec(db, "UPDATE t SET v = v + 1");
    assert_int_equal(calls, before);
    db_close(db);
}

static void a_copy_is_known_until_it_is_adopted(void **state)
{
    struct db *db = db_open(file, &schema);
    char why[200], to[200], raw[200];
    int64_t before = now_ms(), ms;
    bool stamped;

    (void)state;
    assert_int_equal(db_copied_ms(db), 0);
    db_begin(db);
    db_note_written(db, 123456789, true);
    assert_int_equal(db_commit(db), GR_OK);
    snprintf(to, sizeof to, "%s/backup.db", dir);
    snprintf(raw, sizeof raw, "%s/raw.db", dir);
    assert_int_equal(db_backup_start(db, to, why), GR_OK);
    while (db_backup_step(db, why) == GR_AGAIN)
        ;
    db_close(db);
    assert_int_equal(copied_ms(file, false, &stamped), 0);
    assert_in_range(copied_ms(to, false, &stamped), before, now_ms());
    assert_true(stamped);
    ms = copied_ms(to, true, &stamped); /* a crash before: it is one still */
    assert_in_range(ms, before, now_ms());
    assert_int_equal(copied_ms(to, false, &stamped), 0);
    assert_false(stamped);
    sh("cp -a %s %s", file, raw); /* no stamp: another file */
    assert_int_equal(copied_ms(raw, true, &stamped), 123456789);
    assert_false(stamped);
    assert_int_equal(copied_ms(raw, false, &stamped), 0);
    sh("mv %s %s.aside; mv %s.aside %s", file, file, file, file);
    assert_int_equal(copied_ms(file, false, &stamped), 0);
}

/* A start that writes. */
static void start(const char *path)
{
    struct db *db = db_open(path, &schema);

    assert_int_equal(db_copied_ms(db), 0);
    db_begin(db);
    db_note_written(db, now_ms(), true);
    assert_int_equal(db_commit(db), GR_OK);
    db_close(db);
}

/* `cp` writes into the file that is there. */
static void old_bytes_in_the_same_file_are_a_copy(void **state)
{
    char new_file[220];
    bool stamped;

    (void)state;
    start(file);
    sh("cp %s %s/then.db", file, dir);
    for (int i = 0; i < 3; i++)
        start(file);
    sh("cp %s/then.db %s", dir, file);
    assert_true(copied_ms(file, false, &stamped) > 0);
    assert_true(copied_ms(file, true, &stamped) > 0); /* it is one still */
    assert_int_equal(copied_ms(file, false, &stamped), 0);
    sh("cp %s/then.db %s", dir, file);
    assert_true(copied_ms(file, true, &stamped) > 0);
    /* A crash before the new file took its place, and a file that is lost. */
    sh("ln %s-start %s/start.kept", file, dir);
    start(file);
    sh("mv -f %s/start.kept %s-start", dir, file);
    assert_int_equal(copied_ms(file, false, &stamped), 0);
    sh("rm %s-start", file);
    start(file);
    assert_int_equal(copied_ms(file, false, &stamped), 0);
    snprintf(new_file, sizeof new_file, "%s-start.new", file);
    assert_int_not_equal(access(new_file, F_OK), 0);
}

/* 0: a start whose first commits found the disk full has no other file for it. */
static void start_on_a_full_disk(void)
{
    struct db *db = db_open(file, &schema);
    stmt *s = inserter(db);
    struct stat before, now;
    char path[120];

    snprintf(path, sizeof path, "%s-start", file);
    snprintf(failing_path, sizeof failing_path, "x.db");
    replace_pwrite();
    if (stat(path, &before) != 0)
        _exit(1);
    for (int i = 0; i < 3; i++) {
        fail_errno = i < 2 ? ENOSPC : 0;
        db_begin(db);
        insert(db, s, 1, 900);
        (void)!db_commit(db);
        if (stat(path, &now) != 0 || (now.st_ino == before.st_ino) != (i < 2))
            _exit(2 + i);
    }
    db_close(db);
    _exit(0);
}

static void only_a_start_that_has_written_adopts_a_copy(void **state)
{
    char said[4096];
    bool stamped;

    (void)state;
    start(file);
    assert_int_equal(ends_with(start_on_a_full_disk, said), 0);
    assert_int_equal(copied_ms(file, false, &stamped), 0);
}

static void a_copy_is_prepared_for_its_place(void **state)
{
    char said[4096], why[200], to[200];
    int64_t ms = 0;
    struct db *db;

    (void)state;
    assert_int_equal(ends_with(commit_and_die, said), 0);
    snprintf(to, sizeof to, "%s/y.db", dir);
    sh("cp %s %s; cp %s-wal %s-wal", file, to, file, to);
    assert_int_equal(db_copy_prepare(to, "t", "user x", "/y", &ms, why),
                     GR_REFUSE);
    assert_non_null(strstr(why, "no table t"));
    db = db_open(to, &schema);
    db_exec(db, "CREATE TABLE IF NOT EXISTS link_out(n)");
    db_close(db);
    assert_int_equal(db_copy_prepare(to, "t", "user x", "/y", &ms, why), GR_OK);
    assert_true(ms > 0);
    sh("test ! -e %s-wal", to);
    db = db_open(to, &schema);
    assert_int_equal(number(db, "SELECT count(*) FROM t"), 100);
    assert_int_equal(db_copied_ms(db), ms);
    assert_true(db_stamped(db));
    db_close(db);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_database_is_opened_with_the_required_settings),
        T(a_database_knows_its_share_of_the_disk),
        T(an_older_file_is_upgraded_and_keeps_its_rows),
        T(a_new_file_is_made_by_create_and_an_older_one_by_the_steps),
        T(a_new_file_is_complete_or_empty),
        T(an_upgrade_makes_all_steps_or_none),
        T(a_newer_file_is_refused),
        T(a_file_of_another_kind_is_refused_and_not_changed),
        T(a_version_below_0_is_damage),
        T(a_file_that_is_not_a_database_is_refused),
        T(a_torn_file_is_refused),
        T(changed_bytes_inside_are_found),
        T(a_large_file_is_checked_while_it_is_used),
        T(a_raw_copy_of_a_live_file_is_refused_or_works),
        T(a_turn_without_a_statement_takes_no_lock),
        T(a_full_disk_rolls_the_turn_back),
        T(a_disk_that_refuses_writes_is_a_full_one),
        T(a_commit_writes_the_log_in_large_pieces),
        T(a_transaction_larger_than_the_cache_is_whole),
        T(any_other_error_ends_the_process),
        T(a_commit_whose_fsync_fails_ends_the_process),
        T(each_commit_with_rows_is_synced_once),
        T(the_header_of_a_new_log_is_synced_before_its_pages),
        T(a_full_disk_is_known_before_the_sync),
        T(a_failing_checkpoint_is_logged),
        T(a_checkpoint_whose_fsync_fails_ends_the_process),
        T(a_wal_that_is_found_is_copied_before_anything_is_written),
        T(a_scrub_overwrites_every_unused_page),
        T(a_kill_loses_no_committed_row),
        T(values_survive_a_round_trip),
        T(a_backup_during_writes_is_complete),
        T(a_backup_without_a_free_descriptor_is_refused),
        T(an_interrupted_backup_leaves_no_file),
        T(a_wal_that_was_left_beside_a_backup_is_refused),
        T(a_long_upgrade_is_watched_and_later_work_is_not),
        T(a_copy_is_known_until_it_is_adopted),
        T(old_bytes_in_the_same_file_are_a_copy),
        T(only_a_start_that_has_written_adopts_a_copy),
        T(a_copy_is_prepared_for_its_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
