/* db: opens a database file and brings its schema up to date; statements and transactions,
 * the write-ahead log, the space on disk, and backups. db_origin.c decides whether the file
 * is a copy. */
#include "db.h"
#include "alloc.h"
#include "backup.h"
#include "checker.h"
#include "clock.h"
#include "copier.h"
#include "db_check.h"
#include "db_file.h"
#include "db_origin.h"
#include "db_sums.h"
#include "db_version.h"
#include "held_reader.h"
#include "log.h"
#include "verifier.h"
#include "wal.h"
#include "wal_buffer.h"
#include "wal_damage.h"
#include "worker.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    DB_STATEMENTS_MAX = 512,
    DB_BUSY_MS = 5000,
    COPY_AGAIN_MS = 1000,
};

struct db {
    sqlite3 *h;
    char *path;
    void (*goes_on)(void *self); /* NULL: nobody watches */
    void *goes_on_self;
    int wal_piece_bytes;
    int page_bytes;
    stmt *stmts[DB_STATEMENTS_MAX]; /* all prepared statements */
    int stmt_count;
    stmt *begin, *begin_read, *commit, *rollback, *free_pages, *all_pages;
    struct db_origin *origin;
    bool in_txn, full;
    bool begun;          /* SQLite's transaction has begun: begin_once() */
    bool schema_changed; /* by the transaction; SQLite counts no row for that */
    int changes_at_begin;
    int commit_rc; /* of the last COMMIT */
    /* The WAL that the thread syncs; NULL: it commits, too. */
    sqlite3_file *syncs;
    struct worker *committer; /* NULL until a commit has run in a thread */
    int wal_pages;
    int wal_held; /* pages, when a reader prevented the restart; else 0 */
    struct copier *copier;
    struct verifier *verifier; /* borrowed; NULL: no verification is running */
    struct checker *checker;   /* NULL: the file was small */
    struct {
        struct db_replication with;
        struct held_reader *reader; /* NULL: the file is not replicated */
        stmt *put;
        bool opening; /* the first turn is not in yet: copy nothing */
        bool is_turn; /* the transaction that is being committed */
        bool wrote;   /* its COMMIT wrote frames */
        int64_t
            copy_again_ms; /* mono; a reader prevented a copy that is wanted: not before */
    } replicated;
    enum {
        SCRUB_NOT,
        SCRUB_FILL,     /* unused pages are being overwritten */
        SCRUB_TRUNCATE, /* the WAL is to be emptied between two turns */
        SCRUB_DONE,
    } scrub;
    struct backup *backup; /* NULL: none is running */
};

enum {
    PROGRESS_OPCODES = 100000, /* SQLite's, between two calls of goes_on() */
    CACHE_KIB = 8 * 1024,
    SPILL_KIB = 16 * 1024, /* what a turn changes, before it spills */
    /* A file up to this size is checked in full before it is used. The check of a larger
     * one would make a restart slow, so it is checked while the process works (checker.h). */
    CHECK_BYTES = 64 * 1024 * 1024,
    URI_MAX = 16 * 1024,
};

/* ---- errors ---- */

static int64_t disk_free_bytes(const struct db *db)
{
    struct statvfs v;

    if (statvfs(db->path, &v) != 0)
        return 0;
    return (int64_t)v.f_bavail * (int64_t)v.f_frsize;
}

enum { DISK_IS_FULL_BYTES = 64 * 1024 };

static int last_errno(sqlite3_file *f)
{
    int why = 0;

    if (f && f->pMethods)
        f->pMethods->xFileControl(f, SQLITE_FCNTL_LAST_ERRNO, &why);
    return why;
}

/* SQLite reports only ENOSPC as a full disk; here a database that has used its share counts
 * as one, too. */
static bool is_over_quota(struct db *db)
{
    sqlite3_file *file = NULL, *wal = NULL;

    sqlite3_file_control(db->h, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    sqlite3_file_control(db->h, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
    return last_errno(file) == EDQUOT || last_errno(wal) == EDQUOT;
}

/* The error is of a write, not of an fsync: after a failed fsync the state of the disk is
 * unknown. */
static bool is_full(struct db *db, int rc)
{
    return (rc & 0xff) == SQLITE_FULL ||
           (rc == SQLITE_IOERR_WRITE && is_over_quota(db));
}

_Noreturn static void failed(struct db *db, int rc, const char *doing)
{
    die(EXIT_STORAGE,
        "%s: %s failed: %s (%s). %sNo accepted event is lost; the last changes "
        "are repeated at the next start",
        db->path, doing, sqlite3_errstr(rc), db->h ? sqlite3_errmsg(db->h) : "",
        /* SQLite calls it an I/O error if there is no space for its -shm file. */
        disk_free_bytes(db) < DISK_IS_FULL_BYTES
            ? "The disk is full: free some space. "
            : "");
}

/* ---- the write-ahead log: wal.h decides, the loop or the copier does it ---- */

static int on_wal(void *arg, sqlite3 *h, const char *name, int pages)
{
    struct db *db = arg;

    (void)h;
    (void)name;
    db->wal_pages = pages;
    db->replicated.wrote = true;
    return SQLITE_OK;
}

/* Between two turns, so all of them are replicated. */
static int copy_all(struct db *db, int mode)
{
    int rc;

    if (db->replicated.reader)
        held_reader_end(db->replicated.reader);
    sqlite3_busy_timeout(db->h, 0);
    rc = sqlite3_wal_checkpoint_v2(db->h, NULL, mode, NULL, NULL);
    sqlite3_busy_timeout(db->h, DB_BUSY_MS);
    copier_check(db->path, rc);
    if (db->replicated.reader)
        held_reader_renew(db->replicated.reader);
    return rc;
}

/* Copies the rest of the WAL, so that the next commit restarts it. false: a reader prevents
 * it; it does not wait for the reader. */
static bool wal_begin_anew(struct db *db)
{
    int64_t begun_us = mono_us();
    int rc = copy_all(db, SQLITE_CHECKPOINT_RESTART);

    if (rc == SQLITE_OK)
        db->wal_held = 0;
    else if (db->wal_pages)
        db->wal_held = db->wal_pages;
    if (rc == SQLITE_OK && db->copier)
        copier_note(db->copier, mono_us() - begun_us);
    return rc == SQLITE_OK;
}

/* Whether a snapshot waits for the whole WAL to be in the file. */
static bool copy_is_wanted(struct db *db)
{
    const struct db_replication *with = &db->replicated.with;

    return db->replicated.reader && with->wants_copy(with->self) &&
           mono_ms() >= db->replicated.copy_again_ms;
}

/* The WAL was to be copied between two turns. */
static void tell_copied(struct db *db, bool copied)
{
    const struct db_replication *with = &db->replicated.with;

    if (!db->replicated.reader)
        return;
    if (copied)
        with->copied(with->self);
    else
        db->replicated.copy_again_ms = mono_ms() + COPY_AGAIN_MS;
}

static int64_t bytes_of(const struct db *db, int pages)
{
    return (int64_t)pages * db->page_bytes;
}

static struct wal look(struct db *db, bool wanted)
{
    if (db->wal_pages < db->wal_held)
        db->wal_held = 0;
    return (struct wal){
        .piece_bytes = db->wal_piece_bytes,
        .bytes = bytes_of(db, db->wal_pages),
        .held_bytes = bytes_of(db, db->wal_held),
        .rest_bytes = bytes_of(db, copier_rest(db->copier, db->wal_pages)),
        .free_bytes = disk_free_bytes(db),
        .wanted = wanted};
}

void db_copy_in_pieces(struct db *db, int bytes)
{
    db->wal_piece_bytes = bytes;
}

void db_verify_with(struct db *db, struct verifier *v)
{
    db->verifier = v;
}

/* Copies the WAL into the file and empties it. A reader that prevents it is interrupted, and it is
 * tried again after the next turn. */
static void truncate_wal(struct db *db)
{
    copier_pause(db->copier);
    if (copy_all(db, SQLITE_CHECKPOINT_TRUNCATE) == SQLITE_OK) {
        db->scrub = SCRUB_DONE;
        db->wal_pages = db->wal_held = 0;
        tell_copied(db, true);
    } else {
        checker_break(db->checker);
        verifier_break(db->verifier);
    }
}

/* false: a reader prevented it. */
static bool begin_anew(struct db *db)
{
    bool begun;

    copier_pause(db->copier);
    begun = wal_begin_anew(db);
    db->wal_pages = 0;
    tell_copied(db, begun);
    return begun;
}

void db_tidy(struct db *db)
{
    struct wal wal;
    bool wanted;

    if (db->replicated.opening)
        return;
    if (db->scrub == SCRUB_TRUNCATE) {
        truncate_wal(db);
        return;
    }
    wanted = copy_is_wanted(db);
    if (db->wal_pages == 0) {
        /* There was no commit since it was begun anew, or since that was tried. */
        if (wanted)
            (void)begin_anew(db);
        return;
    }
    wal = look(db, wanted);
    switch (wal_step(&wal)) {
    case WAL_LEAVE:
        break;
    case WAL_COPY:
        copier_begin(db->copier);
        break;
    case WAL_BEGIN_ANEW:
        if (!begin_anew(db) && wal_presses(&wal)) {
            /* Their read transactions hold the log. */
            checker_break(db->checker);
            verifier_break(db->verifier);
        }
        break;
    }
}

/* ---- open ---- */

static int number_of(struct db *db, const char *pragma)
{
    stmt *s = NULL;
    int v = 0;
    int rc = sqlite3_prepare_v2(db->h, pragma, -1, &s, NULL);

    if (rc == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        v = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    if (db_says_damaged(rc))
        db_damaged(db->path, sqlite3_errstr(rc));
    if (rc != SQLITE_OK)
        failed(db, rc, "reading what it is");
    return v;
}

_Noreturn static void another_kind(const char *path, const char *table)
{
    die(EXIT_STORAGE,
        "%s is the database of another kind of process (it has no table %s): "
        "start this process with another --name, or put its own file here",
        path, table);
}

/* Checked before anything is written: tables of two kinds of process in one file would
 * destroy both. */
static void refuse_another_kind(struct db *db, const char *table)
{
    char *has_table;

    if (!table || number_of(db, "SELECT count(*) FROM sqlite_schema") == 0)
        return;
    has_table = gr_printf("SELECT count(*) FROM sqlite_schema WHERE type = "
                          "'table' AND name = '%s'",
                          table);
    if (number_of(db, has_table) == 0)
        another_kind(db->path, table);
    free(has_table);
}

/* Whether the file, as it is on disk, belongs to another kind of process. The WAL is not
 * copied into it. false: it does not, or that cannot be decided. */
static bool is_of_another_kind(const char *path, const char *table)
{
    char *sql = gr_printf(
        "SELECT 1 FROM sqlite_schema WHERE NOT EXISTS (SELECT "
        "1 FROM sqlite_schema WHERE type = 'table' AND name "
        "= '%s')",
        table);
    struct buf uri;
    sqlite3 *h = NULL;
    stmt *s = NULL;
    bool is = false;

    buf_init(&uri, URI_MAX);
    buf_puts(&uri, "file:");
    for (; *path; path++) /* no byte of the path has a meaning in a URI */
        buf_printf(&uri, "%%%02x", (unsigned char)*path);
    buf_puts(&uri, "?immutable=1");
    if (sqlite3_open_v2(uri.data, &h,
                        SQLITE_OPEN_READONLY | SQLITE_OPEN_URI |
                            SQLITE_OPEN_NOMUTEX,
                        NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(h, sql, -1, &s, NULL) == SQLITE_OK)
        is = sqlite3_step(s) == SQLITE_ROW;
    sqlite3_finalize(s);
    sqlite3_close(h);
    buf_fini(&uri);
    free(sql);
    return is;
}

/* Called before SQLite opens the file, because SQLite would copy a log into it. */
static void refuse_newer(const char *path, const struct db_schema *schema)
{
    int version = db_version_of(path);

    if (version < 0) /* the version is not in the list of steps */
        db_damaged(path, "its schema version is below 0");
    if (version <= schema->count)
        return;
    if (schema->table && is_of_another_kind(path, schema->table))
        another_kind(path, schema->table);
    die(EXIT_STORAGE,
        "%s has schema version %d, this %s %s knows versions up to %d; "
        "install the newer version or restore a backup made before the "
        "upgrade. The file was not changed",
        path, version, schema->program ? schema->program : "program",
        GRAPNEL_VERSION, schema->count);
}

static void migrate_run(struct db *db, const char *sql, int from, int to)
{
    int rc = sqlite3_exec(db->h, sql, NULL, NULL, NULL);

    if (db_says_damaged(rc))
        db_damaged(db->path, sqlite3_errmsg(db->h));
    if (rc != SQLITE_OK && is_full(db, rc))
        die(EXIT_STORAGE,
            "%s: the disk is full, so the schema cannot be upgraded from "
            "version %d to %d. The file still has version %d: free disk space "
            "and start again, or start the earlier version",
            db->path, from, to, from);
    if (rc != SQLITE_OK)
        failed(db, rc, "upgrading its schema");
}

/* The tables and the version number are one transaction: after a crash or at a full disk
 * the file is as the earlier version left it, and that version can still open it. */
static void migrate(struct db *db, const struct db_schema *schema)
{
    int from = number_of(db, "PRAGMA user_version"), to = schema->count;
    char *note = gr_printf("PRAGMA user_version = %d; COMMIT", to);
    bool create = from == 0 && schema->create;

    if (from < to) {
        migrate_run(db, "BEGIN IMMEDIATE", from, to);
        if (create)
            migrate_run(db, schema->create, from, to);
        for (int i = from; i < to && !create; i++)
            migrate_run(db, schema->steps[i], from, to);
        migrate_run(db, note, from, to);
        if (from > 0)
            log_info(NULL, "the schema of the database was upgraded",
                     LS("file", db->path), LI("from_version", from),
                     LI("to_version", to));
    }
    free(note);
}

static const char settings_sql[] =
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = FULL;"
    "PRAGMA temp_store = MEMORY;"
    "PRAGMA secure_delete = FAST;"
    "PRAGMA trusted_schema = OFF;"
    "PRAGMA cell_size_check = ON;"
    "PRAGMA mmap_size = 0;" /* an I/O error under mmap would be a SIGBUS */
    "PRAGMA journal_size_limit = 67108864;";

/* The byte of the header that says how the file is written (2: with a WAL), and the
 * header's length. */
enum { HEADER_VERSION_AT = 18, HEADER_BYTES = 20 };

static void refuse_link(const char *path)
{
    char why[DB_FILE_WHY_BYTES];

    if (!db_file_is_plain(path, why))
        die(EXIT_STORAGE, "%s %s", path, why);
}

/* A WAL does not name its file. One that is beside a restored backup would be taken for the
 * backup's own, and the file would get pages of two times. But the header of a backup says
 * that it has no WAL. (Checked before SQLite opens the file, because closing it here would
 * drop SQLite's locks.) */
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
            "%s is not the database of %s: a backup was put here, and the old "
            "-wal was left. Delete %s-wal and %s-shm, or put the old database "
            "back",
            path, wal, path, path);
    if (fd >= 0)
        close(fd);
    free(wal);
}

static sqlite3 *open_handle(const char *path)
{
    sqlite3 *h = NULL;
    int rc;

    /* The memory statistics of SQLite are not used, and they would take a lock for each
     * allocation. SQLite refuses this, harmlessly, if it has started already. */
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    rc = sqlite3_open_v2(path, &h,
                         SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                             SQLITE_OPEN_NOMUTEX,
                         wal_buffer_vfs());
    if (rc != SQLITE_OK)
        die(EXIT_STORAGE, "cannot open %s: %s", path,
            h ? sqlite3_errmsg(h) : "out of memory");
    sqlite3_extended_result_codes(h, 1);
    sqlite3_busy_timeout(h, DB_BUSY_MS);
    db_sums_register(h);
    return h;
}

static int on_progress(void *arg)
{
    struct db *db = arg;

    db->goes_on(db->goes_on_self);
    return 0;
}

void db_unwatch(struct db *db)
{
    sqlite3_progress_handler(db->h, 0, NULL, NULL);
}

struct db *db_open(const char *path, const struct db_schema *schema)
{
    return db_open_watched(path, schema, NULL, NULL);
}

struct db *db_open_watched(const char *path, const struct db_schema *schema,
                           void (*goes_on)(void *self), void *self)
{
    struct db *db = gr_alloc(sizeof *db);
    struct stat st;
    int64_t size_bytes = stat(path, &st) == 0 ? st.st_size : 0;
    char *sizes;

    db->path = gr_strdup(path);
    refuse_link(path);
    refuse_strange_wal(path);
    refuse_newer(path, schema);
    wal_damage_warn(path);
    db->h = open_handle(path);
    db->goes_on = goes_on;
    db->goes_on_self = self;
    if (goes_on)
        sqlite3_progress_handler(db->h, PROGRESS_OPCODES, on_progress, db);
    number_of(db, "PRAGMA user_version"); /* perhaps it is not a database */
    refuse_another_kind(db, schema->table);
    /* A page size of 0 changes nothing. */
    sizes = gr_printf("PRAGMA page_size = %d; PRAGMA cache_size = -%d; "
                      "PRAGMA cache_spill = -%d",
                      schema->page_bytes,
                      schema->cache_kib ? schema->cache_kib : CACHE_KIB,
                      SPILL_KIB);
    db_exec(db, sizes);
    free(sizes);
    db_exec(db, settings_sql);
    sqlite3_wal_autocheckpoint(db->h, 0);
    if (size_bytes > 0 && size_bytes <= CHECK_BYTES)
        db_check(db->h, path, "PRAGMA integrity_check(1)");
    /* After a crash: if an fsync had failed before, data that the WAL shows may be missing
     * on disk, and data appended after it might never be found. */
    (void)wal_begin_anew(db);
    db->page_bytes = number_of(db, "PRAGMA page_size");
    db->wal_piece_bytes = WAL_PIECE_BYTES;
    migrate(db, schema);
    db->origin = db_origin_open(db);
    sqlite3_wal_hook(db->h, on_wal, db);
    db->begin = db_prepare(db, "BEGIN IMMEDIATE");
    db->begin_read = db_prepare(db, "BEGIN DEFERRED");
    db->commit = db_prepare(db, "COMMIT");
    db->rollback = db_prepare(db, "ROLLBACK");
    db->free_pages = db_prepare(db, "PRAGMA freelist_count");
    db->all_pages = db_prepare(db, "PRAGMA page_count");
    db->copier = copier_open(path);
    if (size_bytes > CHECK_BYTES)
        db->checker = checker_open(path);
    return db;
}

void db_close(struct db *db)
{
    if (!db)
        return;
    backup_end(db->backup);
    worker_close(db->committer);
    held_reader_close(db->replicated.reader);
    db_origin_close(db->origin);
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

/* BEGIN takes the locks of the file, which a turn without a statement does not need. */
static void begin_once(struct db *db)
{
    if (!db->in_txn || db->begun)
        return;
    db->begun = true;
    db_run(db, db->begin);
}

void db_exec(struct db *db, const char *sql)
{
    int rc;

    begin_once(db);
    rc = sqlite3_exec(db->h, sql, NULL, NULL, NULL);
    db->schema_changed = true;
    if (db_says_damaged(rc))
        db_damaged(db->path, sqlite3_errmsg(db->h));
    if (rc != SQLITE_OK)
        failed(db, rc, "preparing it");
}

/* ---- statements ---- */

/* None of these functions returns an error: db->full remembers a full disk, and any other
 * error ends the process. */

stmt *db_prepare(struct db *db, const char *sql)
{
    stmt *s = NULL;
    int rc = sqlite3_prepare_v3(db->h, sql, -1, SQLITE_PREPARE_PERSISTENT, &s,
                                NULL);

    if (rc != SQLITE_OK)
        die(EXIT_STORAGE, "%s: statement does not fit the schema: %s: %s",
            db->path, sqlite3_errmsg(db->h), sql);
    assert(db->stmt_count < DB_STATEMENTS_MAX);
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

    begin_once(db);
    if (db->in_txn && db->full)
        return false;
    rc = sqlite3_step(s);
    if (rc == SQLITE_ROW)
        return true;
    if (rc == SQLITE_DONE)
        return false;
    if (!is_full(db, rc)) {
        if (db_says_damaged(rc))
            db_damaged(db->path, sqlite3_errmsg(db->h));
        failed(db, rc, sqlite3_sql(s));
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

/* ---- transactions ---- */

/* There is one writer, with one transaction at a time; the commit may run in a thread. A
 * crash before the commit has returned leaves all of the transaction or nothing. */

void db_begin(struct db *db)
{
    assert(!db->in_txn);
    db->full = false;
    db->in_txn = true;
    db->begun = false;
    db->schema_changed = false;
    db->changes_at_begin = sqlite3_total_changes(db->h);
}

static void exec_or_full(struct db *db, const char *sql)
{
    stmt *s = NULL;
    int rc;

    if (db->full)
        return;
    rc = sqlite3_prepare_v2(db->h, sql, -1, &s, NULL);
    if (rc != SQLITE_OK)
        failed(db, rc, sql);
    if (!sqlite3_stmt_readonly(s))
        db->schema_changed = true;
    db_run(db, s);
    sqlite3_finalize(s);
}

#define REPLICATED_TABLE                                               \
    "CREATE TABLE IF NOT EXISTS replicated ("                          \
    "one INTEGER PRIMARY KEY CHECK (one = 1), history BLOB NOT NULL, " \
    "n INTEGER NOT NULL, chain BLOB NOT NULL) STRICT"

/* Writes into the turn which one it is. */
static void number_turn(struct db *db)
{
    const struct db_replication *with = &db->replicated.with;
    struct db_turn turn;

    if (db->full)
        return;
    if (!db->replicated.put)
        db->replicated.put = db_prepare(
            db, "INSERT OR REPLACE INTO replicated (one, history, n, chain) "
                "VALUES (1, ?, ?, ?)");
    with->next(with->self, &turn);
    bind_blob(db->replicated.put, 1, turn.history);
    bind_i64(db->replicated.put, 2, turn.n);
    bind_blob(db->replicated.put, 3, turn.chain);
    db_run(db, db->replicated.put);
}

/* The last rows of a transaction, before its COMMIT. */
static void complete(struct db *db, bool may_be_turn)
{
    bool is_turn = may_be_turn && db_has_turn(db);

    if (is_turn && db->replicated.opening) {
        exec_or_full(db, REPLICATED_TABLE);
        db_origin_adopt(db->origin);
    }
    db_origin_commits(db->origin);
    if (is_turn)
        number_turn(db);
    db->replicated.is_turn = is_turn;
    db->replicated.wrote = false;
}

static void run_commit(struct db *db)
{
    db->commit_rc = SQLITE_FULL;
    if (db->full)
        return;
    if (!db->begun) {
        db->commit_rc = SQLITE_DONE;
        return;
    }
    db->commit_rc = sqlite3_step(db->commit);
    sqlite3_reset(db->commit);
}

static gr_rc judge_commit(struct db *db)
{
    if (db->commit_rc == SQLITE_DONE) {
        db->in_txn = false;
        assert(db->replicated.is_turn || !db->replicated.wrote ||
               !db->replicated.reader || db->replicated.opening);
        if (db->replicated.is_turn)
            db->replicated.opening = false;
        db_origin_committed(db->origin);
        return GR_OK;
    }
    /* After any error but a full disk it is unknown whether the commit took place (fsync):
     * the process ends, and the next start reads the file. */
    if (!is_full(db, db->commit_rc))
        failed(db, db->commit_rc, "a commit");
    db->full = true;
    /* SQLite may have rolled back by itself. */
    if (!sqlite3_get_autocommit(db->h)) {
        sqlite3_step(db->rollback);
        sqlite3_reset(db->rollback);
    }
    db->in_txn = false;
    db_origin_rolled_back(db->origin);
    return GR_AGAIN;
}

/* After COMMIT and its sync: waits until the turn cannot be lost. */
static void hand_over(struct db *db)
{
    const struct db_replication *with = &db->replicated.with;

    if (!db->replicated.is_turn || db->commit_rc != SQLITE_DONE)
        return;
    with->committed(with->self, (uint32_t)db->wal_pages);
    held_reader_renew(db->replicated.reader);
}

gr_rc db_commit(struct db *db)
{
    assert(db->in_txn);
    /* What is committed so before the first turn becomes a part of it. */
    complete(db, !db->replicated.opening);
    run_commit(db);
    hand_over(db);
    return judge_commit(db);
}

static void run_thread(void *arg)
{
    struct db *db = arg;

    if (!db->syncs)
        run_commit(db);
    else if (db->syncs->pMethods->xSync(db->syncs, SQLITE_SYNC_NORMAL) !=
             SQLITE_OK)
        db->commit_rc = SQLITE_IOERR_FSYNC;
    hand_over(db);
}

static void begin_thread(struct db *db)
{
    if (!db->committer)
        db->committer = worker_open(run_thread, db);
    worker_begin(db->committer);
}

void db_commit_begin(struct db *db)
{
    assert(db->in_txn);
    complete(db, true);
    db->syncs = NULL;
    begin_thread(db);
}

gr_rc db_commit_write(struct db *db)
{
    assert(db->in_txn);
    complete(db, true);
    sqlite3_file_control(db->h, "main", SQLITE_FCNTL_JOURNAL_POINTER,
                         &db->syncs);
    wal_buffer_defer_sync(db->syncs, true);
    run_commit(db);
    wal_buffer_defer_sync(db->syncs, false);
    if (db->commit_rc != SQLITE_DONE)
        return judge_commit(db);
    db->in_txn = false;
    begin_thread(db);
    return GR_OK;
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
    db->schema_changed = false;
    db->changes_at_begin = sqlite3_total_changes(db->h);
    db_run(db, db->begin_read);
}

void db_read_end(struct db *db)
{
    assert(!db_dirty(db));
    db_run(db, db->commit);
}

bool db_full(const struct db *db)
{
    return db->full;
}

bool db_dirty(const struct db *db)
{
    return db->schema_changed ||
           sqlite3_total_changes(db->h) != db->changes_at_begin;
}

/* A file that begins a history may be a restored copy; one with turns is what its log says. */
static bool has_turns(struct db *db)
{
    return number_of(db, "SELECT count(*) FROM sqlite_schema WHERE "
                         "name = 'replicated'") > 0;
}

void db_replicate(struct db *db, const struct db_replication *r)
{
    assert(!db->replicated.reader && !db->in_txn);
    db->replicated.with = *r;
    db->replicated.reader = held_reader_open(db->path);
    db->replicated.opening = true;
    sqlite3_db_config(db->h, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
    if (has_turns(db))
        db_origin_is_replicated(db->origin);
}

bool db_has_turn(const struct db *db)
{
    return db->replicated.reader && (db->replicated.opening || db_dirty(db));
}

/* ---- space ---- */

/* A turn that deletes rows writes to the WAL first; it must not use the very last space. */
enum { FORGET_FREE_BYTES = 8 * 1024 * 1024 };

static int64_t pages_bytes(struct db *db, stmt *count)
{
    return db_number(db, count, 0) * db->page_bytes;
}

int64_t db_free_bytes(struct db *db)
{
    return disk_free_bytes(db) + pages_bytes(db, db->free_pages);
}

int64_t db_used_bytes(struct db *db)
{
    return pages_bytes(db, db->all_pages) - pages_bytes(db, db->free_pages);
}

bool db_over_share(struct db *db, int part)
{
    int64_t used = db_used_bytes(db);

    return disk_free_bytes(db) >= FORGET_FREE_BYTES &&
           used > (used + db_free_bytes(db)) / part;
}

int64_t db_wal_bytes(const struct db *db)
{
    char *wal = gr_printf("%s-wal", db->path);
    struct stat log;
    int64_t n = stat(wal, &log) == 0 ? log.st_size : 0;

    free(wal);
    return n;
}

int64_t db_size_bytes(const struct db *db)
{
    struct stat file;

    return (stat(db->path, &file) == 0 ? file.st_size : 0) + db_wal_bytes(db);
}

int64_t db_checkpoint_us(const struct db *db)
{
    return copier_took_us(db->copier);
}

/* ---- backups ---- */

gr_rc db_backup_start(struct db *db, const char *path, char why[200])
{
    if (db->backup) {
        sqlite3_snprintf(200, why, "a backup to %s is already in progress",
                         backup_path(db->backup));
        return GR_REFUSE;
    }
    db->backup = backup_begin(db->h, path, why);
    return db->backup ? GR_OK : GR_REFUSE;
}

gr_rc db_backup_step(struct db *db, char why[200])
{
    gr_rc rc = backup_step(db->backup, why);

    if (rc != GR_AGAIN) {
        backup_end(db->backup);
        db->backup = NULL;
    }
    return rc;
}

bool db_backup_running(const struct db *db)
{
    return db->backup != NULL;
}

int db_backup_wait_ms(const struct db *db)
{
    return db->backup ? backup_wait_ms(db->backup) : -1;
}

/* ---- whether it is a copy ---- */

int64_t db_copied_ms(const struct db *db)
{
    return db_origin_copied_ms(db->origin);
}

bool db_stamped(const struct db *db)
{
    return db_origin_stamped(db->origin);
}

const char *db_restored_by(const struct db *db)
{
    return db_origin_restored_by(db->origin);
}

const char *db_restored_from(const struct db *db)
{
    return db_origin_restored_from(db->origin);
}

void db_adopt(struct db *db)
{
    db_origin_adopt(db->origin);
}

void db_note_written(struct db *db, int64_t now_ms, bool last)
{
    db_origin_note_written(db->origin, now_ms, last);
}

/* ---- erasing ---- */

void db_erasing(struct db *db)
{
    if (db->scrub != SCRUB_FILL && db->scrub != SCRUB_TRUNCATE)
        exec_or_full(db, "PRAGMA secure_delete = ON");
}

/* Pages that a value of zeros takes are zeroed as a whole if the value fills them: of its bytes, so
 * many are in the row that the rest are full pages (the SQLite file format, "B-tree pages": M, U - 4).
 * The last page would keep its old end otherwise. The values are deleted without overwriting them
 * again. Afterwards deletions overwrite until the process ends: rows of what is erased may still be
 * deleted, such as copies that a deliverer drops late. */
static void fill_unused(struct db *db)
{
    enum { PER_STEP = 8, PAGES_MAX = 32 };
    int in_row = (db->page_bytes - 12) * 32 / 255 - 23;
    char sql[80];

    db->scrub = SCRUB_FILL;
    exec_or_full(db, "PRAGMA secure_delete = FAST");
    exec_or_full(db, "CREATE TABLE IF NOT EXISTS erase_fill (b BLOB)");
    for (int i = 0; i < PER_STEP && !db->full; i++) {
        int64_t pages = db_number(db, db->free_pages, 0);

        if (pages == 0) {
            exec_or_full(db, "DROP TABLE erase_fill");
            exec_or_full(db, "PRAGMA secure_delete = ON");
            db->scrub = db->full ? SCRUB_FILL : SCRUB_TRUNCATE;
            return;
        }
        pages = pages < PAGES_MAX ? pages : PAGES_MAX;
        snprintf(sql, sizeof sql,
                 "INSERT INTO erase_fill VALUES (zeroblob(%lld))",
                 (long long)(in_row + (db->page_bytes - 4) * pages));
        exec_or_full(db, sql);
    }
}

bool db_scrub(struct db *db)
{
    bool done = db->scrub == SCRUB_DONE;

    if (done)
        db->scrub = SCRUB_NOT;
    else if (db->scrub != SCRUB_TRUNCATE)
        fill_unused(db);
    return done;
}
