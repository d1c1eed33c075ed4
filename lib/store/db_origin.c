/* db_origin: decides whether a database file is the one that its process wrote last, or a
 * copy of it.
 *
 * Each file has a row about itself: which file it is (inode and time of birth), when it was
 * written last, and, in a copy, when the copy was made. A copy that `grapnel backup` or
 * `grapnel restore` made has a stamp. Any other copy of the file, of its folder or of the
 * machine's disk has another inode or birth.
 *
 * `cp` can put old bytes into the same file. So there is an empty file beside it,
 * FILE-start. The first writing transaction of each start replaces it, and the row
 * file_start says which one belongs to these bytes. The row names the new FILE-start and
 * the one before it, and is committed before the new one replaces the old one, so a crash
 * between the two is not mistaken for a copy. Without that file, or without space for it,
 * the process draws no conclusion. (A start that has written nothing has nothing to lose.
 * So opening the file commits nothing, and a stalled disk does not delay it.)
 *
 * Only a rolled-back snapshot of a whole volume or virtual machine cannot be recognised,
 * because FILE-start is rolled back with it. */
#include "db_origin.h"
#include "alloc.h"
#include "clock.h"
#include "db.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ORIGIN_TABLE                                                    \
    "CREATE TABLE IF NOT EXISTS file_origin ("                          \
    "one INTEGER PRIMARY KEY CHECK (one = 1), inode INTEGER NOT NULL, " \
    "born_ms INTEGER NOT NULL, written_ms INTEGER NOT NULL, "           \
    "copied_ms INTEGER NOT NULL) STRICT;"
#define START_TABLE                                                     \
    "CREATE TABLE IF NOT EXISTS file_start ("                           \
    "one INTEGER PRIMARY KEY CHECK (one = 1), inode INTEGER NOT NULL, " \
    "born_ms INTEGER NOT NULL, old_inode INTEGER NOT NULL, "            \
    "old_born_ms INTEGER NOT NULL) STRICT;"

/* Who restored the copy, from which folder; in a restored copy until it is adopted. */
#define RESTORED_TABLE                                               \
    "CREATE TABLE IF NOT EXISTS file_restored ("                     \
    "one INTEGER PRIMARY KEY CHECK (one = 1), actor TEXT NOT NULL, " \
    "folder TEXT NOT NULL) STRICT;"

enum { WRITTEN_EVERY_MS = 10000 };

struct origin {
    int64_t inode, born_ms;
};

struct db_origin {
    struct db *db;
    stmt *adopt, *adopt_restored, *note_start, *written;
    char *restored_by, *restored_from; /* "": not known */
    int64_t copied_ms, written_ms;
    bool stamped;
    bool start_due;   /* FILE-start has to be replaced … */
    bool start_noted; /* … and the open transaction has the row about it */
};

/* A birth time of 0: the file system does not have it. */
static struct origin origin_of(const char *path)
{
    struct statx st;

    if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME, &st) != 0)
        return (struct origin){0};
    return (struct origin){.inode = (int64_t)st.stx_ino,
                           .born_ms = st.stx_mask & STATX_BTIME
                                          ? st.stx_btime.tv_sec * 1000 +
                                                st.stx_btime.tv_nsec / 1000000
                                          : 0};
}

static bool is_same(const struct origin *a, const struct origin *b)
{
    return a->inode == b->inode &&
           (!a->born_ms || !b->born_ms || a->born_ms == b->born_ms);
}

/* ---- the file beside it ---- */

/* Whether these bytes were written after the present FILE-start was made. */
static bool is_of_this_start(struct db *db)
{
    char *path = gr_printf("%s-start", db_path(db));
    struct origin here = origin_of(path), now, old;
    stmt *read = db_prepare(db, "SELECT inode, born_ms, old_inode, old_born_ms "
                                "FROM file_start WHERE one = 1");
    bool is = !here.inode || !db_step(db, read);

    if (!is) {
        now = (struct origin){col_i64(read, 0), col_i64(read, 1)};
        old = (struct origin){col_i64(read, 2), col_i64(read, 3)};
        is = is_same(&here, &now) || is_same(&here, &old);
    }
    db_done(read);
    free(path);
    return is;
}

void db_origin_commits(struct db_origin *o)
{
    struct db *db = o->db;
    struct origin made, old;
    char *path, *fresh;
    int fd;

    if (!o->start_due || db_full(db) || !db_dirty(db))
        return;
    path = gr_printf("%s-start", db_path(db));
    fresh = gr_printf("%s.new", path);
    (void)unlink(fresh); /* left by a start that crashed */
    fd = open(fresh, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    old = origin_of(path);
    made = fd >= 0 ? origin_of(fresh) : old;
    if (fd >= 0)
        close(fd);
    bind_i64(o->note_start, 1, made.inode);
    bind_i64(o->note_start, 2, made.born_ms);
    bind_i64(o->note_start, 3, old.inode);
    bind_i64(o->note_start, 4, old.born_ms);
    db_run(db, o->note_start);
    o->start_noted = true;
    free(path);
    free(fresh);
}

void db_origin_committed(struct db_origin *o)
{
    char *path, *fresh;

    if (!o->start_noted)
        return;
    o->start_noted = o->start_due = false;
    path = gr_printf("%s-start", db_path(o->db));
    fresh = gr_printf("%s.new", path);
    (void)rename(fresh, path); /* it is missing if there was no space for it */
    free(path);
    free(fresh);
}

void db_origin_rolled_back(struct db_origin *o)
{
    o->start_noted = false;
}

void db_origin_is_replicated(struct db_origin *o)
{
    o->copied_ms = 0;
    o->stamped = false;
}

/* ---- the row about itself ---- */

struct db_origin *db_origin_open(struct db *db)
{
    struct db_origin *o = gr_alloc(sizeof *o);
    struct origin here = origin_of(db_path(db)), noted;
    stmt *read, *add, *restored;

    db_exec(db, ORIGIN_TABLE START_TABLE RESTORED_TABLE);
    read = db_prepare(db, "SELECT inode, born_ms, written_ms, copied_ms "
                          "FROM file_origin WHERE one = 1");
    add = db_prepare(db, "INSERT INTO file_origin(one, inode, born_ms, "
                         "written_ms, copied_ms) VALUES (1, ?, ?, 0, 0)");
    o->adopt = db_prepare(db, "UPDATE file_origin SET inode = ?, born_ms = ?, "
                              "written_ms = ?, copied_ms = 0 WHERE one = 1");
    o->adopt_restored = db_prepare(db,
                                   "DELETE FROM file_restored WHERE one = 1");
    restored = db_prepare(
        db, "SELECT actor, folder FROM file_restored WHERE one = 1");
    if (db_step(db, restored)) {
        o->restored_by = gr_strdup(col_text(restored, 0));
        o->restored_from = gr_strdup(col_text(restored, 1));
    }
    db_done(restored);
    o->written = db_prepare(
        db, "UPDATE file_origin SET written_ms = ? WHERE one = 1");
    o->note_start = db_prepare(
        db, "INSERT OR REPLACE INTO file_start(one, inode, born_ms, old_inode, "
            "old_born_ms) VALUES (1, ?, ?, ?, ?)");
    o->db = db;
    o->start_due = true;
    if (!db_step(db, read)) {
        db_done(read);
        bind_i64(add, 1, here.inode);
        bind_i64(add, 2, here.born_ms);
        db_run(db, add);
        return o;
    }
    noted = (struct origin){col_i64(read, 0), col_i64(read, 1)};
    o->stamped = col_i64(read, 3) != 0;
    if (o->stamped)
        o->copied_ms = col_i64(read, 3);
    else if (!is_same(&here, &noted) || !is_of_this_start(db))
        o->copied_ms = col_i64(read, 2) ? col_i64(read, 2) : 1;
    db_done(read);
    if (o->copied_ms) /* it stays a copy until db_adopt() */
        o->start_due = false;
    return o;
}

void db_origin_close(struct db_origin *o)
{
    if (o) {
        free(o->restored_by);
        free(o->restored_from);
    }
    free(o);
}

int64_t db_origin_copied_ms(const struct db_origin *o)
{
    return o->copied_ms;
}

bool db_origin_stamped(const struct db_origin *o)
{
    return o->stamped;
}

const char *db_origin_restored_by(const struct db_origin *o)
{
    return o->restored_by ? o->restored_by : "";
}

const char *db_origin_restored_from(const struct db_origin *o)
{
    return o->restored_from ? o->restored_from : "";
}

void db_origin_adopt(struct db_origin *o)
{
    struct origin here = origin_of(db_path(o->db));

    bind_i64(o->adopt, 1, here.inode);
    bind_i64(o->adopt, 2, here.born_ms);
    bind_i64(o->adopt, 3, now_ms());
    db_run(o->db, o->adopt);
    db_run(o->db, o->adopt_restored);
    o->start_due = true;
}

void db_origin_note_written(struct db_origin *o, int64_t now, bool last)
{
    if (!last && (!db_dirty(o->db) || now - o->written_ms < WRITTEN_EVERY_MS))
        return;
    bind_i64(o->written, 1, now);
    db_run(o->db, o->written);
    o->written_ms = now;
}

/* ---- copies ---- */

static int run(sqlite3 *h, const char *sql)
{
    return sqlite3_exec(h, sql, NULL, NULL, NULL);
}

/* A stamp that is there stays, because it has the time when the copy was made. */
static int stamp(sqlite3 *h, int64_t copied_ms)
{
    char *sql = gr_printf(
        "BEGIN IMMEDIATE; " ORIGIN_TABLE
        "INSERT OR IGNORE INTO file_origin(one, inode, born_ms, written_ms, "
        "copied_ms) VALUES (1, 0, 0, 0, 0);"
        "UPDATE file_origin SET copied_ms = coalesce(nullif(copied_ms, 0), "
        "%lld); COMMIT",
        (long long)copied_ms);
    int rc = run(h, sql);

    free(sql);
    return rc;
}

gr_rc db_copy_finish(sqlite3 *h, int64_t copied_ms, char why[200])
{
    int rc = stamp(h, copied_ms);

    /* The file must not need a -wal, which could be left behind when it is moved. */
    if (rc == SQLITE_OK)
        rc = run(h, "PRAGMA journal_mode = DELETE");
    if (rc == SQLITE_OK)
        return GR_OK;
    sqlite3_snprintf(200, why, "the copy cannot be stamped: %s",
                     sqlite3_errmsg(h));
    return GR_REFUSE;
}

static int64_t number(sqlite3 *h, const char *sql)
{
    sqlite3_stmt *s = NULL;
    int64_t v = 0;

    if (sqlite3_prepare_v2(h, sql, -1, &s, NULL) == SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW)
        v = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return v;
}

static gr_rc is_sound(sqlite3 *h, char why[200])
{
    sqlite3_stmt *s = NULL;
    const char *verdict = NULL;
    bool sound;

    if (sqlite3_prepare_v2(h, "PRAGMA integrity_check(1)", -1, &s, NULL) ==
            SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW)
        verdict = (const char *)sqlite3_column_text(s, 0);
    sound = verdict && strcmp(verdict, "ok") == 0;
    if (!sound)
        sqlite3_snprintf(200, why, "it is damaged: %s",
                         verdict ? verdict : sqlite3_errmsg(h));
    sqlite3_finalize(s);
    return sound ? GR_OK : GR_REFUSE;
}

/* Before the stamp: a copy with a stamp and without this row has an unknown restorer. */
static gr_rc note_restored(sqlite3 *h, const char *actor, const char *folder,
                           char why[200])
{
    char *sql = sqlite3_mprintf(RESTORED_TABLE
                                "INSERT OR REPLACE INTO file_restored(one, "
                                "actor, folder) VALUES (1, %Q, %Q)",
                                actor, folder);
    int rc = sql ? run(h, sql) : SQLITE_NOMEM;

    sqlite3_free(sql);
    if (rc == SQLITE_OK)
        return GR_OK;
    sqlite3_snprintf(200, why, "it cannot be written: %s", sqlite3_errmsg(h));
    return GR_REFUSE;
}

gr_rc db_copy_prepare(const char *path, const char *table, const char *actor,
                      const char *folder, int64_t *copied_ms, char why[200])
{
    char sql[200];
    struct stat st;
    int64_t changed = stat(path, &st) == 0 ? st.st_mtim.tv_sec * 1000 : 1;
    sqlite3 *h = NULL;
    gr_rc rc = GR_REFUSE;

    sqlite3_snprintf(sizeof sql, sql,
                     "SELECT count(*) FROM sqlite_schema WHERE type = 'table' "
                     "AND name IN ('%q', 'hop_out', 'link_out')",
                     table);
    if (sqlite3_open_v2(path, &h, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        sqlite3_snprintf(200, why, "it cannot be opened: %s",
                         h ? sqlite3_errmsg(h) : "out of memory");
    else if (is_sound(h, why) == GR_OK) {
        if (number(h, sql) != 2)
            sqlite3_snprintf(200, why,
                             "it is not a database of this process: it has no "
                             "table %s",
                             table);
        else
            rc = note_restored(h, actor, folder, why);
    }
    if (rc == GR_OK) {
        *copied_ms = number(h, "SELECT max(copied_ms, written_ms * (copied_ms "
                               "= 0)) FROM file_origin");
        if (!*copied_ms)
            *copied_ms = changed;
        rc = db_copy_finish(h, *copied_ms, why);
    }
    sqlite3_close(h);
    return rc;
}
