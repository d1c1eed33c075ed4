#include "db.h"
#include "alloc.h"
#include "checker.h"
#include "copier.h"
#include "db_check.h"
#include "log.h"
#include "worker.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The WAL is copied back by a thread of its own (copier.h), so that no commit
 * pays for it (measured: p99 of a commit 7.6 ms with the checkpoint on its path,
 * 1.4 ms without). Beside a steady writer that thread never gets to the end, so
 * past WAL_LIMIT_BYTES the loop does the rest itself, between two turns: as soon
 * as the rest is short, and past twice as much whatever it is. */
enum {
    WAL_COPY_BYTES = 4 * 1024 * 1024,
    WAL_REST_BYTES = 1024 * 1024,
    WAL_LIMIT_BYTES = 32 * 1024 * 1024,
    /* So long it may be while the file is looked through. */
    WAL_MOST_BYTES = 512 * 1024 * 1024,
    WAL_ROOM_PART = 16, /* of the room that is left, when that is less */
    CACHE_KIB = 16 * 1024,
    /* A file up to this size is checked in full before it is used; the check
     * of a larger one would make a restart slow, so it is looked through
     * while we work (checker.h). */
    CHECK_BYTES = 64 * 1024 * 1024,
    BUSY_MS = 5000,
    BACKUP_PAGES = 256,
    STMT_MAX = 256,
};

struct db {
    sqlite3 *h;
    char *path;
    stmt *stmts[STMT_MAX];
    int stmt_count;
    stmt *begin, *begin_read, *commit, *rollback, *free_pages;
    bool in_txn, full;
    int commit_rc;            /* of the last COMMIT */
    struct worker *committer; /* NULL until one is begun apart */
    int changes_at_begin;
    int wal_pages, page_bytes;
    int wal_held; /* so many when a reader was in the way of beginning anew */
    struct {
        sqlite3 *to;
        sqlite3_backup *job;
        char *path;
    } backup;
    struct copier *copier;
    struct checker *checker; /* NULL: the file was small */
};

static int last_errno(sqlite3_file *f)
{
    int why = 0;

    if (f && f->pMethods)
        f->pMethods->xFileControl(f, SQLITE_FCNTL_LAST_ERRNO, &why);
    return why;
}

/* For SQLite only ENOSPC is a full disk; for us one of which we have had our share
 * is, too. */
static bool is_over_quota(struct db *db)
{
    sqlite3_file *file = NULL, *wal = NULL;

    sqlite3_file_control(db->h, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    sqlite3_file_control(db->h, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
    return last_errno(file) == EDQUOT || last_errno(wal) == EDQUOT;
}

/* A write, not an fsync: after that nobody knows what is on the disk. */
static bool is_full(struct db *db, int rc)
{
    return (rc & 0xff) == SQLITE_FULL ||
           (rc == SQLITE_IOERR_WRITE && is_over_quota(db));
}

_Noreturn static void storage_failed(struct db *db, int rc, const char *doing)
{
    die(EXIT_STORAGE,
        "%s: %s failed: %s (%s). Nothing that was promised is lost; what was "
        "being done is done again at the next start",
        db->path, doing, sqlite3_errstr(rc),
        db->h ? sqlite3_errmsg(db->h) : "");
}

/* ---- the write-ahead log ---- */

static int on_wal(void *arg, sqlite3 *h, const char *name, int pages)
{
    struct db *db = arg;

    (void)h;
    (void)name;
    db->wal_pages = pages;
    return SQLITE_OK;
}

static int64_t disk_room_bytes(const struct db *db)
{
    struct statvfs v;

    if (statvfs(db->path, &v) != 0)
        return 0;
    return (int64_t)v.f_bavail * (int64_t)v.f_frsize;
}

/* The last room of a disk is for what must be kept, not for its WAL: that is
 * begun anew sooner, and after each commit when there is none left. */
static int64_t wal_limit_bytes(const struct db *db)
{
    int64_t part = disk_room_bytes(db) / WAL_ROOM_PART;

    return part < WAL_LIMIT_BYTES ? part : WAL_LIMIT_BYTES;
}

/* `rest_pages`: not copied yet, -1 while the copier is at it. */
static bool begin_anew(const struct db *db, int64_t wal_bytes, int rest_pages)
{
    int64_t limit = wal_limit_bytes(db);
    bool brief = rest_pages >= 0 &&
                 (int64_t)rest_pages * db->page_bytes <= WAL_REST_BYTES;

    if (wal_bytes < limit ||
        (int64_t)(db->wal_pages - db->wal_held) * db->page_bytes <
            WAL_REST_BYTES)
        return false;
    return brief || limit < WAL_LIMIT_BYTES || wal_bytes >= 2 * limit;
}

/* So that the next commit begins the WAL anew. false: a reader is in the way; it
 * is not waited for. */
static bool take_the_rest(struct db *db)
{
    int rc;

    sqlite3_busy_timeout(db->h, 0);
    rc = sqlite3_wal_checkpoint_v2(db->h, NULL, SQLITE_CHECKPOINT_RESTART, NULL,
                                   NULL);
    sqlite3_busy_timeout(db->h, BUSY_MS);
    copier_check(db->path, rc);
    db->wal_held = rc == SQLITE_OK ? 0 : db->wal_pages;
    return rc == SQLITE_OK;
}

void db_tidy(struct db *db)
{
    int64_t wal_bytes = (int64_t)db->wal_pages * db->page_bytes;
    int64_t piece = wal_bytes < WAL_LIMIT_BYTES ? WAL_COPY_BYTES
                                                : WAL_REST_BYTES;
    int rest_pages;

    if (wal_bytes == 0)
        return;
    if (db->wal_pages < db->wal_held)
        db->wal_held = 0;
    rest_pages = copier_rest(db->copier, db->wal_pages);
    if (!begin_anew(db, wal_bytes, rest_pages)) {
        if ((int64_t)rest_pages * db->page_bytes >= piece)
            copier_begin(db->copier);
        return;
    }
    copier_pause(db->copier);
    if (!take_the_rest(db) &&
        (wal_bytes >= WAL_MOST_BYTES || wal_limit_bytes(db) < WAL_LIMIT_BYTES))
        checker_break(db->checker);
    db->wal_pages = 0;
}

/* ---- open, migrate, close ---- */

static int number_of(struct db *db, const char *pragma)
{
    stmt *s = NULL;
    int v = 0;
    int rc = sqlite3_prepare_v2(db->h, pragma, -1, &s, NULL);

    if (rc == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        v = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    if ((rc & 0xff) == SQLITE_NOTADB || (rc & 0xff) == SQLITE_CORRUPT)
        db_damaged(db->path, sqlite3_errstr(rc));
    if (rc != SQLITE_OK)
        storage_failed(db, rc, "reading what it is");
    return v;
}

/* Each step and its version number are one transaction. */
static void migrate(struct db *db, const struct db_schema *schema)
{
    int version = number_of(db, "PRAGMA user_version");

    if (version > schema->count)
        die(EXIT_STORAGE,
            "%s was written by a newer grapnel (its version is %d, this "
            "program knows %d): use that one, or restore an older backup",
            db->path, version, schema->count);
    for (; version < schema->count; version++) {
        char *sql = gr_printf("BEGIN IMMEDIATE; %s; PRAGMA user_version = %d; "
                              "COMMIT",
                              schema->steps[version], version + 1);

        db_exec(db, sql);
        free(sql);
    }
}

static const char settings_sql[] =
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = FULL;"
    "PRAGMA temp_store = MEMORY;"
    "PRAGMA secure_delete = OFF;"
    "PRAGMA trusted_schema = OFF;"
    "PRAGMA cell_size_check = ON;"
    "PRAGMA mmap_size = 0;" /* an I/O error under mmap is a SIGBUS */
    "PRAGMA journal_size_limit = 67108864;";

/* Where the header says how it is written (2: with a WAL), and where it ends. */
enum { HEADER_VERSION_AT = 18, HEADER_BYTES = 20 };

/* A WAL names no file. One that was left beside a backup that was put here would be
 * taken for its own: pages of two times in one file. But the header of a backup says
 * that it has none. (Before SQLite opens it, as closing would drop its locks.) */
static void refuse_strange_wal(const char *path)
{
    char *wal = gr_printf("%s-wal", path);
    unsigned char header[HEADER_BYTES];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && stat(wal, &st) == 0 && st.st_size > 0 &&
        read(fd, header, sizeof header) == sizeof header &&
        header[HEADER_VERSION_AT] == 1)
        die(EXIT_STORAGE,
            "%s is not the file that %s was written for: a backup was put here "
            "and the old -wal left. Remove %s-wal and %s-shm (or put back what "
            "was here)",
            path, wal, path, path);
    if (fd >= 0)
        close(fd);
    free(wal);
}

static void check_at_open(struct db *db, int64_t size_bytes)
{
    if (size_bytes > 0 && size_bytes <= CHECK_BYTES)
        db_check(db->h, db->path, "PRAGMA integrity_check(1)");
}

struct db *db_open(const char *path, const struct db_schema *schema)
{
    struct db *db = gr_alloc(sizeof *db);
    struct stat st;
    int64_t size_bytes = stat(path, &st) == 0 ? st.st_size : 0;
    char *sizes;
    int rc;

    db->path = gr_strdup(path);
    refuse_strange_wal(path);
    /* Nobody asks for SQLite's memory statistics, and each allocation would
     * take a lock for them. Refused, harmlessly, once SQLite has started. */
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    rc = sqlite3_open_v2(
        path, &db->h,
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc != SQLITE_OK)
        die(EXIT_STORAGE, "%s: can't be opened: %s", path,
            db->h ? sqlite3_errmsg(db->h) : "out of memory");
    sqlite3_extended_result_codes(db->h, 1);
    sqlite3_busy_timeout(db->h, BUSY_MS);
    number_of(db, "PRAGMA user_version"); /* not a database at all? */
    sizes = gr_printf("PRAGMA page_size = %d; PRAGMA cache_size = -%d",
                      schema->page_bytes, CACHE_KIB);
    db_exec(db, sizes); /* a page size of 0 changes nothing */
    free(sizes);
    db_exec(db, settings_sql);
    sqlite3_wal_autocheckpoint(db->h, 0);
    check_at_open(db, size_bytes);
    /* After a crash: it may have been one of fsync, and then what the WAL shows us
     * need not be on the disk, nor what we would append behind it ever be found. */
    (void)take_the_rest(db);
    db->page_bytes = number_of(db, "PRAGMA page_size");
    migrate(db, schema);
    sqlite3_wal_hook(db->h, on_wal, db);
    db->begin = db_prepare(db, "BEGIN IMMEDIATE");
    db->begin_read = db_prepare(db, "BEGIN DEFERRED");
    db->commit = db_prepare(db, "COMMIT");
    db->rollback = db_prepare(db, "ROLLBACK");
    db->free_pages = db_prepare(db, "PRAGMA freelist_count");
    db->copier = copier_open(path);
    if (size_bytes > CHECK_BYTES)
        db->checker = checker_open(path);
    return db;
}

static void backup_end(struct db *db, bool keep)
{
    if (!db->backup.to)
        return;
    sqlite3_backup_finish(db->backup.job);
    sqlite3_close(db->backup.to);
    if (!keep)
        unlink(db->backup.path);
    free(db->backup.path);
    memset(&db->backup, 0, sizeof db->backup);
}

void db_close(struct db *db)
{
    if (!db)
        return;
    backup_end(db, false);
    worker_close(db->committer);
    checker_close(db->checker);
    copier_close(db->copier);
    for (int i = 0; i < db->stmt_count; i++)
        sqlite3_finalize(db->stmts[i]);
    sqlite3_close(db->h);
    free(db->path);
    free(db);
}

const char *db_path(const struct db *db)
{
    return db->path;
}

sqlite3 *db_handle(struct db *db)
{
    return db->h;
}

void db_exec(struct db *db, const char *sql)
{
    int rc = sqlite3_exec(db->h, sql, NULL, NULL, NULL);

    if ((rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB)
        db_damaged(db->path, sqlite3_errmsg(db->h));
    if (rc != SQLITE_OK)
        storage_failed(db, rc, "preparing it");
}

/* ---- transactions ---- */

void db_begin(struct db *db)
{
    assert(!db->in_txn);
    db->full = false;
    db->in_txn = true;
    db->changes_at_begin = sqlite3_total_changes(db->h);
    db_run(db, db->begin);
}

static void roll_back(struct db *db)
{
    /* SQLite may have rolled back by itself already. */
    if (!sqlite3_get_autocommit(db->h)) {
        sqlite3_step(db->rollback);
        sqlite3_reset(db->rollback);
    }
    db->in_txn = false;
}

static void run_commit(void *arg)
{
    struct db *db = arg;

    db->commit_rc = SQLITE_FULL;
    if (db->full)
        return;
    db->commit_rc = sqlite3_step(db->commit);
    sqlite3_reset(db->commit);
}

static gr_rc judge_commit(struct db *db)
{
    if (db->commit_rc == SQLITE_DONE) {
        db->in_txn = false;
        return GR_OK;
    }
    /* Anything but a full disk leaves the commit neither done nor undone
     * (fsync): stop, and read at the next start what is there. */
    if (!is_full(db, db->commit_rc))
        storage_failed(db, db->commit_rc, "a commit");
    db->full = true;
    roll_back(db);
    return GR_AGAIN;
}

gr_rc db_commit(struct db *db)
{
    assert(db->in_txn);
    run_commit(db);
    return judge_commit(db);
}

void db_commit_begin(struct db *db)
{
    assert(db->in_txn);
    if (!db->committer)
        db->committer = worker_open(run_commit, db);
    worker_begin(db->committer);
}

int db_commit_fd(const struct db *db)
{
    return worker_fd(db->committer);
}

gr_rc db_commit_end(struct db *db)
{
    worker_end(db->committer);
    return judge_commit(db);
}

void db_read_begin(struct db *db)
{
    assert(!db->in_txn);
    db_run(db, db->begin_read);
}

void db_read_end(struct db *db)
{
    db_run(db, db->commit);
}

bool db_full(const struct db *db)
{
    return db->full;
}

bool db_dirty(const struct db *db)
{
    return sqlite3_total_changes(db->h) != db->changes_at_begin;
}

/* ---- statements ---- */

stmt *db_prepare(struct db *db, const char *sql)
{
    stmt *s = NULL;
    int rc = sqlite3_prepare_v3(db->h, sql, -1, SQLITE_PREPARE_PERSISTENT, &s,
                                NULL);

    if (rc != SQLITE_OK)
        die(EXIT_STORAGE, "%s: statement does not fit the schema: %s: %s",
            db->path, sqlite3_errmsg(db->h), sql);
    assert(db->stmt_count < STMT_MAX);
    db->stmts[db->stmt_count++] = s;
    return s;
}

void db_prepare_all(struct db *db, void *into, const struct db_statement *list,
                    size_t count)
{
    for (size_t i = 0; i < count; i++) {
        stmt **place = (stmt **)(void *)((char *)into + list[i].at);

        *place = db_prepare(db, list[i].sql);
    }
}

void bind_i64(stmt *s, int i, int64_t v)
{
    sqlite3_bind_int64(s, i, v);
}

void bind_text(stmt *s, int i, const char *v)
{
    sqlite3_bind_text(s, i, v, -1, SQLITE_STATIC);
}

void bind_str(stmt *s, int i, struct bytes v)
{
    sqlite3_bind_text64(s, i, v.n ? v.p : "", v.n, SQLITE_STATIC, SQLITE_UTF8);
}

void bind_blob(stmt *s, int i, struct bytes v)
{
    sqlite3_bind_blob64(s, i, v.n ? v.p : "", v.n, SQLITE_STATIC);
}

bool db_step(struct db *db, stmt *s)
{
    int rc;

    if (db->in_txn && db->full)
        return false;
    rc = sqlite3_step(s);
    if (rc == SQLITE_ROW)
        return true;
    if (rc == SQLITE_DONE)
        return false;
    if (!is_full(db, rc)) {
        if ((rc & 0xff) == SQLITE_CORRUPT)
            db_damaged(db->path, sqlite3_errmsg(db->h));
        storage_failed(db, rc, sqlite3_sql(s));
    }
    db->full = true;
    return false;
}

void db_done(stmt *s)
{
    sqlite3_reset(s);
}

void db_run(struct db *db, stmt *s)
{
    while (db_step(db, s))
        ;
    db_done(s);
}

int64_t db_number(struct db *db, stmt *s, int64_t none)
{
    int64_t n = none;

    while (db_step(db, s))
        n = col_null(s, 0) ? none : col_i64(s, 0);
    db_done(s);
    return n;
}

int db_changes(struct db *db)
{
    return db->full ? 0 : sqlite3_changes(db->h);
}

int64_t col_i64(stmt *s, int i)
{
    return sqlite3_column_int64(s, i);
}

const char *col_text(stmt *s, int i)
{
    const char *t = (const char *)sqlite3_column_text(s, i);

    return t ? t : "";
}

struct bytes col_blob(stmt *s, int i)
{
    const void *p = sqlite3_column_blob(s, i);

    return (struct bytes){p ? p : "", (size_t)sqlite3_column_bytes(s, i)};
}

bool col_null(stmt *s, int i)
{
    return sqlite3_column_type(s, i) == SQLITE_NULL;
}

/* ---- room ---- */

int64_t db_room_bytes(struct db *db)
{
    int64_t own = 0;

    if (db_step(db, db->free_pages))
        own = col_i64(db->free_pages, 0) * db->page_bytes;
    db_done(db->free_pages);
    return disk_room_bytes(db) + own;
}

int64_t db_size_bytes(const struct db *db)
{
    char *wal = gr_printf("%s-wal", db->path);
    struct stat file, log;
    int64_t n = stat(db->path, &file) == 0 ? file.st_size : 0;

    if (stat(wal, &log) == 0)
        n += log.st_size;
    free(wal);
    return n;
}

/* ---- backup ---- */

gr_rc db_backup_start(struct db *db, const char *path, char why[200])
{
    int rc;

    if (db->backup.to) {
        sqlite3_snprintf(200, why, "a backup to %s is under way",
                         db->backup.path);
        return GR_REFUSE;
    }
    if (access(path, F_OK) == 0) {
        sqlite3_snprintf(200, why, "%s exists already", path);
        return GR_REFUSE;
    }
    rc = sqlite3_open(path, &db->backup.to);
    db->backup.path = gr_strdup(path);
    if (rc == SQLITE_OK)
        db->backup.job = sqlite3_backup_init(db->backup.to, "main", db->h,
                                             "main");
    if (!db->backup.job) {
        sqlite3_snprintf(200, why, "%s: %s", path,
                         sqlite3_errmsg(db->backup.to));
        backup_end(db, false);
        return GR_REFUSE;
    }
    return GR_OK;
}

gr_rc db_backup_step(struct db *db, char why[200])
{
    int rc = sqlite3_backup_step(db->backup.job, BACKUP_PAGES);

    if (rc == SQLITE_DONE) {
        /* It is a file of its own: no -wal that could be left behind. */
        sqlite3_exec(db->backup.to, "PRAGMA journal_mode = DELETE", NULL, NULL,
                     NULL);
        backup_end(db, true);
        return GR_OK;
    }
    if (rc == SQLITE_OK || rc == SQLITE_BUSY || rc == SQLITE_LOCKED)
        return GR_AGAIN;
    sqlite3_snprintf(200, why, "%s: %s", db->backup.path, sqlite3_errstr(rc));
    backup_end(db, false);
    return GR_REFUSE;
}

bool db_backup_running(const struct db *db)
{
    return db->backup.to != NULL;
}
