/* Prepared statements. None returns an error: a full disk is remembered in
 * db->full, anything else ends the process. */
#include "db_check.h"
#include "db_inside.h"
#include "log.h"
#include <assert.h>

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

    if (db->in_txn && db->full)
        return false;
    rc = sqlite3_step(s);
    if (rc == SQLITE_ROW)
        return true;
    if (rc == SQLITE_DONE)
        return false;
    if (!db_is_full(db, rc)) {
        if (db_says_damaged(rc))
            db_damaged(db->path, sqlite3_errmsg(db->h));
        db_failed(db, rc, sqlite3_sql(s));
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
