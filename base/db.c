/* A file's opening: that it is a database of ours, whole, and of today's schema;
 * and its end. db_*.c do the rest. */
#include "alloc.h"
#include "checker.h"
#include "copier.h"
#include "db_check.h"
#include "db_inside.h"
#include "db_sums.h"
#include "db_version.h"
#include "log.h"
#include "wal.h"
#include "wal_damage.h"
#include "worker.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CACHE_KIB = 16 * 1024,
    /* A file up to this size is checked in full before it is used; the check
     * of a larger one would make a restart slow, so it is looked through
     * while we work (checker.h). */
    CHECK_BYTES = 64 * 1024 * 1024,
    URI_MAX = 16 * 1024,
};

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
        db_failed(db, rc, "reading what it is");
    return v;
}

_Noreturn static void another_kind(const char *path, const char *table)
{
    die(EXIT_STORAGE,
        "%s is the database of another kind of process (it has no table %s): "
        "give this process another --name, or put its own file here",
        path, table);
}

/* Before anything is written to it: our tables among those of another kind of
 * process would make one file of two. */
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

/* The same by the file alone, as it lies there: no log is copied into it. false: it is
 * of this kind, or that can't be said. */
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
    for (; *path; path++) /* no byte of it has a meaning in the URI */
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

/* Before SQLite opens it, which would copy a log into the file. */
static void refuse_newer(const char *path, const struct db_schema *schema)
{
    int version = db_version_of(path);

    if (version < 0) /* the list of steps has no entry for it */
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
    if (rc != SQLITE_OK && db_is_full(db, rc))
        die(EXIT_STORAGE,
            "%s: the disk is full, so its schema version %d can't be brought "
            "to %d. The file still has version %d: free some space and start "
            "again, or start the earlier version",
            db->path, from, to, from);
    if (rc != SQLITE_OK)
        db_failed(db, rc, "bringing it to this version's schema");
}

/* All steps and the version number are one transaction: after a crash or on a full
 * disk the file is as the earlier version left it, and that version still opens it. */
static void migrate(struct db *db, const struct db_schema *schema)
{
    int from = number_of(db, "PRAGMA user_version"), to = schema->count;
    char *note = gr_printf("PRAGMA user_version = %d; COMMIT", to);

    if (from < to) {
        migrate_run(db, "BEGIN IMMEDIATE", from, to);
        for (int i = from; i < to; i++)
            migrate_run(db, schema->steps[i], from, to);
        migrate_run(db, note, from, to);
        if (from > 0)
            log_info(NULL, "the database has this version's schema now",
                     LS("file", db->path), LI("from_version", from),
                     LI("to_version", to));
    }
    free(note);
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

static sqlite3 *open_handle(const char *path)
{
    sqlite3 *h = NULL;
    int rc;

    /* Nobody asks for SQLite's memory statistics, and each allocation would
     * take a lock for them. Refused, harmlessly, once SQLite has started. */
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    rc = sqlite3_open_v2(
        path, &h,
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc != SQLITE_OK)
        die(EXIT_STORAGE, "%s: can't be opened: %s", path,
            h ? sqlite3_errmsg(h) : "out of memory");
    sqlite3_extended_result_codes(h, 1);
    sqlite3_busy_timeout(h, DB_BUSY_MS);
    db_sums_register(h);
    return h;
}

static void set_up(struct db *db, const struct db_schema *schema)
{
    char *sizes = gr_printf("PRAGMA page_size = %d; PRAGMA cache_size = -%d",
                            schema->page_bytes, CACHE_KIB);

    db_exec(db, sizes); /* a page size of 0 changes nothing */
    free(sizes);
    db_exec(db, settings_sql);
    sqlite3_wal_autocheckpoint(db->h, 0);
}

static void prepare(struct db *db)
{
    db->begin = db_prepare(db, "BEGIN IMMEDIATE");
    db->begin_read = db_prepare(db, "BEGIN DEFERRED");
    db->commit = db_prepare(db, "COMMIT");
    db->rollback = db_prepare(db, "ROLLBACK");
    db->free_pages = db_prepare(db, "PRAGMA freelist_count");
    db->all_pages = db_prepare(db, "PRAGMA page_count");
}

struct db *db_open(const char *path, const struct db_schema *schema)
{
    struct db *db = gr_alloc(sizeof *db);
    struct stat st;
    int64_t size_bytes = stat(path, &st) == 0 ? st.st_size : 0;

    db->path = gr_strdup(path);
    refuse_strange_wal(path);
    refuse_newer(path, schema);
    wal_damage_warn(path);
    db->h = open_handle(path);
    number_of(db, "PRAGMA user_version"); /* not a database at all? */
    refuse_another_kind(db, schema->table);
    set_up(db, schema);
    if (size_bytes > 0 && size_bytes <= CHECK_BYTES)
        db_check(db->h, path, "PRAGMA integrity_check(1)");
    /* After a crash: it may have been one of fsync, and then what the WAL shows us
     * need not be on the disk, nor what we would append behind it ever be found. */
    (void)db_wal_begin_anew(db);
    db->page_bytes = number_of(db, "PRAGMA page_size");
    db->wal_piece_bytes = WAL_PIECE_BYTES;
    migrate(db, schema);
    db_origin_open(db);
    db_wal_watch(db);
    prepare(db);
    db->copier = copier_open(path);
    if (size_bytes > CHECK_BYTES)
        db->checker = checker_open(path);
    return db;
}

void db_close(struct db *db)
{
    if (!db)
        return;
    db_backup_end(db, false);
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

    if (db_says_damaged(rc))
        db_damaged(db->path, sqlite3_errmsg(db->h));
    if (rc != SQLITE_OK)
        db_failed(db, rc, "preparing it");
}
