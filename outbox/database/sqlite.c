/* sqlite: takes rows of a table in a SQLite file, which an application on the same machine writes.
 *
 * A SQLite file has one writer at a time, so while we write, the application waits. New rows are therefore
 * read without any lock, and what is read is stored first; then one short transaction marks these
 * rows, if they are still new, together with the outcomes of others. No lock is held from one
 * call to the next. The file is never checkpointed here, except when the last connection closes it. */
#include "alloc.h"
#include "clock.h"
#include "driver.h"
#include "log.h"
#include "relay_table.h"
#include "settings.h"
#include <errno.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    BUSY_MS = 2000, /* how long another writer is waited for */
    /* The same without WAL: a writer that waits for readers keeps new readers out. */
    BUSY_WITHOUT_WAL_MS = 1000,
    /* How long a statement may run: so long the application waits at most. */
    WRITE_MS = 2000,
    /* How long writes are begun one by one. */
    ALONE_MS = WRITE_MS / 2,
    READ_MS = 20 * 1000,
    PROGRESS_STEPS = 10000, /* of SQLite's machine, until the time is read */
    TICK_FIRST_MS = 5, /* how often data_version is read; the wait doubles */
    TICK_MOST_MS = 50,
    ID_MAX_BYTES = 128, /* of a blob; more digits are too long for an event */
};

/* What TAKE returns of each row, in this order. */
enum taken {
    TAKEN_ID,
    TAKEN_PAYLOAD,
    TAKEN_URL,
    TAKEN_TYPE,
    TAKEN_WORKSPACE,
    TAKEN_ENDPOINT,
    TAKEN_ORDERING_KEY,
    TAKEN_ATTEMPTED,
    TAKEN_AGE,
    TAKEN_TEXTS = TAKEN_ORDERING_KEY - TAKEN_URL + 1,
};

struct row {
    sqlite3_value *key; /* the id as it is in the table */
    char *id;
    char *texts[TAKEN_TEXTS];
    char *payload;
    size_t payload_n;
    int64_t payload_bytes, age_ms;
    bool has_payload, attempted;
};

enum statement {
    TAKE,  /* ?1: how many */
    MARK,  /* ?1: id */
    FAIL,  /* ?1: id; ?2: why */
    WRITE, /* ?1, ?2, ?3: id as text, number, blob; ?4: status; ?5: retries; ?6, ?7: times, in
             * ms; ?8: error; ?9: event */
    IS_NEW, /* ?1, ?2, ?3: id */
    VERSION,
    PURGE, /* ?1: age, in s; ?2: how many */
    COUNT_NEW,
    OLDEST,
    STATEMENT_COUNT
};

/* How a column stores times. */
enum time_kind { TIME_TEXT, TIME_MS, TIME_UNKNOWN };

struct driver {
    struct relay_table table;
    const char *path; /* within table.database */
    bool deletes;
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENT_COUNT];
    bool wal;
    int64_t version; /* data_version before rows were read last */
    int64_t end_ms;  /* mono: when the statement is interrupted */
    int64_t limit_ms;
    struct row *rows;
    size_t count;
};

static struct driver *lite_open(const struct relay *r, const char *process,
                                int64_t max_payload_bytes)
{
    struct driver *d = gr_alloc(sizeof *d);

    relay_table_init(&d->table, r, process, max_payload_bytes);
    d->path = d->table.database + strlen("sqlite://");
    d->deletes = r->delete_after_ms > 0;
    return d;
}

static void row_fini(struct row *row)
{
    sqlite3_value_free(row->key);
    free(row->id);
    for (size_t k = 0; k < TAKEN_TEXTS; k++)
        free(row->texts[k]);
    free(row->payload);
}

static void forget_rows(struct driver *d)
{
    for (size_t i = 0; i < d->count; i++)
        row_fini(&d->rows[i]);
    free(d->rows);
    d->rows = NULL;
    d->count = 0;
}

static void disconnect(struct driver *d)
{
    forget_rows(d);
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        sqlite3_finalize(d->statements[i]);
        d->statements[i] = NULL;
    }
    sqlite3_close(d->db);
    d->db = NULL;
}

static void lite_close(struct driver *d)
{
    disconnect(d);
    relay_table_fini(&d->table);
    free(d);
}

/* ---- statements, within a time limit ---- */

static int is_late(void *arg)
{
    struct driver *d = arg;

    return mono_ms() > d->end_ms;
}

static void limit(struct driver *d, int64_t ms)
{
    d->end_ms = mono_ms() + ms;
    d->limit_ms = ms;
}

/* What SQLite says about the last statement. */
static gr_rc refuse(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    int rc = sqlite3_extended_errcode(d->db);
    char *what;

    switch (rc & 0xff) {
    case SQLITE_BUSY:
        what = gr_printf("%s is locked: another connection has held its lock "
                         "for %d s",
                         d->path,
                         (d->wal ? BUSY_MS : BUSY_WITHOUT_WAL_MS) / 1000);
        break;
    case SQLITE_INTERRUPT:
        what = d->limit_ms == WRITE_MS
                   ? gr_printf("a change was stopped after %d s: table %s has "
                               "slow triggers, or needs the index that "
                               "`grapnel outbox init` prints",
                               WRITE_MS / 1000, d->table.name)
                   : gr_printf("a statement took too long: table %s needs the "
                               "index that `grapnel outbox init` prints",
                               d->table.name);
        break;
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        what = gr_printf("cannot write %s: this process needs write permission "
                         "for the file and for its folder: %s",
                         d->path, sqlite3_errmsg(d->db));
        break;
    default:
        what = gr_printf("%s: %s", d->path, sqlite3_errmsg(d->db));
    }
    (void)relay_table_refuse(why, what, "");
    free(what);
    return GR_REFUSE;
}

/* Whether fewer rows, or others, may be changed: a constraint or a trigger refuses one of them, also by an
 * error of a function that it calls, or the triggers of so many take too long. Such an error is about
 * the table, if the statement cannot even be prepared. */
static bool is_refused(struct driver *d, enum statement which)
{
    int rc = sqlite3_extended_errcode(d->db) & 0xff;
    sqlite3_stmt *s = NULL;
    bool prepared;

    if (rc != SQLITE_ERROR && rc != SQLITE_TOOBIG && rc != SQLITE_MISMATCH)
        return rc == SQLITE_CONSTRAINT || rc == SQLITE_INTERRUPT;
    prepared = sqlite3_prepare_v2(d->db, sqlite3_sql(d->statements[which]), -1,
                                  &s, NULL) == SQLITE_OK;
    sqlite3_finalize(s);
    return prepared;
}

/* A commit would be refused because of what this transaction did: a foreign key that is checked there,
 * DEFERRABLE INITIALLY DEFERRED. */
static bool is_unresolved(struct driver *d)
{
    int now = 0, most;

    return sqlite3_db_status(d->db, SQLITE_DBSTATUS_DEFERRED_FKS, &now, &most,
                             0) == SQLITE_OK &&
           now != 0;
}

static gr_rc refuse_unresolved(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    return relay_table_refuse(why, d->path,
                              "a deferred FOREIGN KEY constraint failed");
}

static bool is_busy(struct driver *d)
{
    return (sqlite3_extended_errcode(d->db) & 0xff) == SQLITE_BUSY;
}

static gr_rc run(struct driver *d, const char *sql, char why[DRIVER_WHY_BYTES])
{
    return sqlite3_exec(d->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? GR_OK
               : refuse(d, why);
}

/* Executes a statement that returns no row, or whose rows are not needed. */
static bool done(sqlite3_stmt *s)
{
    int rc = sqlite3_step(s);
    int reset = sqlite3_reset(s);

    return (rc == SQLITE_DONE || rc == SQLITE_ROW) && reset == SQLITE_OK;
}

/* The first column of the first row; `otherwise` if there is none, or an error. */
static int64_t number(sqlite3_stmt *s, int64_t otherwise)
{
    int64_t n = sqlite3_step(s) == SQLITE_ROW &&
                        sqlite3_column_type(s, 0) != SQLITE_NULL
                    ? sqlite3_column_int64(s, 0)
                    : otherwise;

    return sqlite3_reset(s) == SQLITE_OK ? n : otherwise;
}

/* ---- the table ---- */

struct columns {
    char **names, **types;
    size_t count;
    int at[COLUMN_COUNT];
};

static void columns_fini(struct columns *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->names[i]);
        free(c->types[i]);
    }
    free(c->names);
    free(c->types);
}

/* A column of integers has ms since 1970; a text, DATETIME or any other type that is not a number has
 * texts, in UTC. */
static enum time_kind time_kind(const struct columns *c, enum column column)
{
    const char *type = c->types[c->at[column]];

    return strcasestr(type, "INT") ? TIME_MS
           : strcasestr(type, "REAL") || strcasestr(type, "FLOA") ||
                   strcasestr(type, "DOUB")
               ? TIME_UNKNOWN
               : TIME_TEXT;
}

/* Does without a column of times that are neither texts nor integers, unless it is configured. */
static gr_rc judge_times(struct driver *d, struct columns *c,
                         char why[DRIVER_WHY_BYTES])
{
    static const enum column times[] = {COLUMN_last_attempt,
                                        COLUMN_next_attempt};

    for (size_t i = 0; i < COUNT_OF(times); i++) {
        int at = c->at[times[i]];

        if (at < 0 || time_kind(c, times[i]) != TIME_UNKNOWN)
            continue;
        if (d->table.columns[times[i]]) {
            snprintf(
                why, DRIVER_WHY_BYTES,
                "column %s of table %s is %s: times are written to columns "
                "of texts, and as ms since 1970 to columns of integers",
                c->names[at], d->table.name, c->types[at]);
            return GR_REFUSE;
        }
        c->at[times[i]] = -1;
    }
    return GR_OK;
}

static gr_rc read_columns(struct driver *d, struct columns *c,
                          char why[DRIVER_WHY_BYTES])
{
    sqlite3_stmt *s = NULL;

    /* hidden 1: of a virtual table; 2 and 3: generated */
    if (sqlite3_prepare_v2(d->db,
                           "SELECT name, type FROM pragma_table_xinfo(?1) "
                           "WHERE hidden <> 1",
                           -1, &s, NULL) != SQLITE_OK)
        return refuse(d, why);
    sqlite3_bind_text(s, 1, d->table.name, -1, SQLITE_STATIC);
    while (sqlite3_step(s) == SQLITE_ROW) {
        c->names = gr_realloc(c->names, (c->count + 1) * sizeof *c->names);
        c->types = gr_realloc(c->types, (c->count + 1) * sizeof *c->types);
        c->names[c->count] = gr_strdup((const char *)sqlite3_column_text(s, 0));
        c->types[c->count++] = gr_strdup(
            (const char *)sqlite3_column_text(s, 1));
    }
    if (sqlite3_finalize(s) != SQLITE_OK)
        return refuse(d, why);
    if (!c->count) {
        snprintf(why, DRIVER_WHY_BYTES,
                 "%s has no table %s: set `table` of relay %s, or create it "
                 "with the SQL that `grapnel outbox init` prints",
                 d->path, d->table.name, d->table.relay);
        return GR_REFUSE;
    }
    return relay_table_find(&d->table, c->names, c->count, true, c->at, why) ==
                   GR_OK
               ? judge_times(d, c, why)
               : GR_REFUSE;
}

/* Whether SQLite may give the id of a deleted row to a new row. */
static bool reuses_ids(struct driver *d, const struct columns *c)
{
    const char *type, *collation;
    int not_null, primary_key, autoincrement;

    return strcasecmp(c->types[c->at[COLUMN_id]], "INTEGER") == 0 &&
           sqlite3_table_column_metadata(d->db, "main", d->table.name,
                                         c->names[c->at[COLUMN_id]], &type,
                                         &collation, &not_null, &primary_key,
                                         &autoincrement) == SQLITE_OK &&
           primary_key && !autoincrement;
}

static void put(struct buf *sql, const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    text = sqlite3_vmprintf(format, args);
    va_end(args);
    buf_puts(sql, text);
    sqlite3_free(text);
}

/* SQLite takes a name in double quotes for a text when there is no such column. */
static void put_name(struct buf *sql, const char *name)
{
    buf_puts(sql, "`");
    for (; *name; name++) {
        if (*name == '`')
            buf_puts(sql, "`");
        buf_put(sql, name, 1);
    }
    buf_puts(sql, "`");
}

/* The name, or NULL where the table has no such column. */
static void put_column(struct buf *sql, const struct columns *c,
                       enum column column)
{
    if (c->at[column] < 0)
        buf_puts(sql, "NULL");
    else
        put_name(sql, c->names[c->at[column]]);
}

static void put_set(struct buf *sql, const struct columns *c,
                    enum column column, const char *value)
{
    if (c->at[column] < 0)
        return;
    put(sql, ", ");
    put_column(sql, c, column);
    put(sql, " = %s", value);
}

static void put_time(struct buf *sql, const struct columns *c,
                     enum column column, const char *ms)
{
    char *value;

    if (c->at[column] < 0)
        return;
    value = time_kind(c, column) == TIME_TEXT
                ? gr_printf("CASE WHEN %s > 0 THEN strftime('%%Y-%%m-%%d "
                            "%%H:%%M:%%f', %s / 1000.0, 'unixepoch') END",
                            ms, ms)
                : gr_printf("CASE WHEN %s > 0 THEN %s END", ms, ms);
    put_set(sql, c, column, value);
    free(value);
}

/* WHERE status = 'new': the text is part of the statement, or SQLite would not use a partial index. */
static void put_is_new(struct driver *d, struct buf *sql,
                       const struct columns *c)
{
    put(sql, " FROM ");
    put_name(sql, d->table.name);
    put(sql, " WHERE ");
    put_column(sql, c, COLUMN_status);
    put(sql, " = %Q", d->table.statuses[RELAY_STATUS_NEW]);
    if (d->table.where)
        put(sql, " AND (%s)", d->table.where);
    put(sql, " AND ");
    put_column(sql, c, COLUMN_id);
    put(sql, " IS NOT NULL");
}

static void put_order(struct buf *sql, const struct columns *c)
{
    put(sql, " ORDER BY ");
    if (c->at[COLUMN_created_at] >= 0) {
        put_column(sql, c, COLUMN_created_at);
        put(sql, ", ");
    }
    put_column(sql, c, COLUMN_id);
}

/* In ms, since created_at. A number is seconds, or ms if it is large. */
static void put_age(struct buf *sql, const struct columns *c)
{
    struct buf name;

    if (c->at[COLUMN_created_at] < 0) {
        put(sql, "NULL");
        return;
    }
    buf_init(&name, TABLE_SQL_BYTES);
    put_column(&name, c, COLUMN_created_at);
    put(sql,
        "CAST(CASE WHEN typeof(%s) = 'text' THEN (julianday('now') - "
        "julianday(%s)) * 86400000 WHEN %s > 100000000000 THEN "
        "strftime('%%s', 'now') * 1000 - %s ELSE (strftime('%%s', 'now') - %s) "
        "* 1000 END AS INTEGER)",
        name.data, name.data, name.data, name.data, name.data);
    buf_fini(&name);
}

static gr_rc prepare(struct driver *d, enum statement which, struct buf *sql,
                     char why[DRIVER_WHY_BYTES])
{
    int rc;

    if (sql->failed)
        return relay_table_refuse(why, "the statement is too long", "");
    rc = sqlite3_prepare_v3(d->db, sql->data, -1, SQLITE_PREPARE_PERSISTENT,
                            &d->statements[which], NULL);
    buf_reset(sql);
    return rc == SQLITE_OK ? GR_OK : refuse(d, why);
}

static gr_rc prepare_take(struct driver *d, const struct columns *c,
                          struct buf *q, char why[DRIVER_WHY_BYTES])
{
    static const enum column order[] = {
        COLUMN_id,        COLUMN_payload,  COLUMN_url,         COLUMN_type,
        COLUMN_workspace, COLUMN_endpoint, COLUMN_ordering_key};

    for (size_t i = 0; i < COUNT_OF(order); i++) {
        bool text = order[i] != COLUMN_id && order[i] != COLUMN_payload;

        put(q, i ? ", %s" : "SELECT %s", text ? "substr(" : "");
        put_column(q, c, order[i]);
        if (text)
            put(q, ", 1, %d)", relay_table_chars(order[i]));
    }
    put(q, ", (");
    put_column(q, c, COLUMN_last_attempt);
    put(q, " IS NOT NULL OR ");
    put_column(q, c, COLUMN_error);
    put(q, " IS NOT NULL), ");
    put_age(q, c);
    put_is_new(d, q, c);
    put_order(q, c);
    put(q, " LIMIT ?1");
    return prepare(d, TAKE, q, why);
}

static void put_update(struct driver *d, struct buf *q, const struct columns *c,
                       const char *status)
{
    put(q, "UPDATE ");
    put_name(q, d->table.name);
    put(q, " SET ");
    put_column(q, c, COLUMN_status);
    put(q, " = %s", status);
}

/* The row with this id, if it is new, or if it is not. */
static void put_where_id(struct driver *d, struct buf *q,
                         const struct columns *c, const char *id,
                         const char *compare)
{
    put(q, " WHERE ");
    put_column(q, c, COLUMN_id);
    put(q, " IN (%s) AND ", id);
    put_column(q, c, COLUMN_status);
    put(q, " %s %Q", compare, d->table.statuses[RELAY_STATUS_NEW]);
}

static gr_rc prepare_marks(struct driver *d, const struct columns *c,
                           struct buf *q, char why[DRIVER_WHY_BYTES])
{
    char *status = sqlite3_mprintf("%Q", d->table.statuses[DRIVER_RETRYING]);
    gr_rc rc;

    put_update(d, q, c, status);
    sqlite3_free(status);
    put_set(q, c, COLUMN_next_attempt, "NULL");
    put_where_id(d, q, c, "?1", "=");
    rc = prepare(d, MARK, q, why);
    status = sqlite3_mprintf("%Q", d->table.statuses[DRIVER_FAILED]);
    put_update(d, q, c, status);
    sqlite3_free(status);
    put_set(q, c, COLUMN_error, "?2");
    put_where_id(d, q, c, "?1", "=");
    return rc == GR_OK ? prepare(d, FAIL, q, why) : rc;
}

/* The final status of the row is of a later attempt: another process has written it (driver.h). */
static void put_not_older(struct driver *d, struct buf *q,
                          const struct columns *c)
{
    struct buf last;

    if (c->at[COLUMN_last_attempt] < 0)
        return;
    buf_init(&last, TABLE_SQL_BYTES);
    put_column(&last, c, COLUMN_last_attempt);
    put(q, " AND (?6 > 0 AND ");
    put_column(q, c, COLUMN_status);
    put(q, " IN (%Q, %Q) AND ", d->table.statuses[DRIVER_DELIVERED],
        d->table.statuses[DRIVER_FAILED]);
    if (time_kind(c, COLUMN_last_attempt) == TIME_TEXT)
        put(q,
            "typeof(%s) = 'text' AND %s > strftime('%%Y-%%m-%%d %%H:%%M:%%f', "
            "(?6 + %d) / 1000.0, 'unixepoch') AND %s <= strftime('%%Y-%%m-%%d "
            "%%H:%%M:%%f', 'now')",
            last.data, last.data, DRIVER_NEWER_MS, last.data);
    else
        put(q,
            "typeof(%s) = 'integer' AND %s > ?6 + %d AND %s <= "
            "(strftime('%%s', 'now') + 1) * 1000",
            last.data, last.data, DRIVER_NEWER_MS, last.data);
    put(q, ") IS NOT TRUE");
    buf_fini(&last);
}

static gr_rc prepare_writes(struct driver *d, const struct columns *c,
                            struct buf *q, char why[DRIVER_WHY_BYTES])
{
    put_update(d, q, c, "?4");
    put_set(q, c, COLUMN_retry_count, "?5");
    put_time(q, c, COLUMN_last_attempt, "?6");
    put_time(q, c, COLUMN_next_attempt, "?7");
    put_set(q, c, COLUMN_error, "nullif(?8, '')");
    put_set(q, c, COLUMN_event_id, "?9");
    put_where_id(d, q, c, "?1, ?2, ?3", "<>");
    put_not_older(d, q, c);
    if (prepare(d, WRITE, q, why) != GR_OK)
        return GR_REFUSE;
    put(q, "SELECT 1 FROM ");
    put_name(q, d->table.name);
    put_where_id(d, q, c, "?1, ?2, ?3", "=");
    return prepare(d, IS_NEW, q, why);
}

/* Delivered rows, by the time of their last attempt: an index on it is used. Only texts are compared with
 * a text, and integers with an integer: to SQLite each number is less than each text. */
static gr_rc prepare_purge(struct driver *d, const struct columns *c,
                           struct buf *q, char why[DRIVER_WHY_BYTES])
{
    enum column when = c->at[COLUMN_last_attempt] >= 0 ? COLUMN_last_attempt
                                                       : COLUMN_created_at;
    bool text;

    if (!d->deletes || c->at[when] < 0 || time_kind(c, when) == TIME_UNKNOWN)
        return GR_OK;
    text = time_kind(c, when) == TIME_TEXT;
    put(q, "DELETE FROM ");
    put_name(q, d->table.name);
    put(q, " WHERE ");
    put_column(q, c, COLUMN_id);
    put(q, " IN (SELECT ");
    put_column(q, c, COLUMN_id);
    put(q, " FROM ");
    put_name(q, d->table.name);
    put(q, " WHERE ");
    put_column(q, c, COLUMN_status);
    put(q, " = %Q", d->table.statuses[DRIVER_DELIVERED]);
    if (d->table.where) /* the other rows belong to somebody else */
        put(q, " AND (%s)", d->table.where);
    put(q, " AND ");
    put_column(q, c, when);
    put(q, text ? " < strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '-' || ?1 || "
                  "' seconds') AND typeof("
                : " < (strftime('%%s', 'now') - ?1) * 1000 AND typeof(");
    put_column(q, c, when);
    put(q, text ? ") = 'text' LIMIT ?2)" : ") = 'integer' LIMIT ?2)");
    return prepare(d, PURGE, q, why);
}

static gr_rc prepare_look(struct driver *d, const struct columns *c,
                          struct buf *q, char why[DRIVER_WHY_BYTES])
{
    put(q, "SELECT count(*) FROM (SELECT 1");
    put_is_new(d, q, c);
    put(q, " LIMIT %d)", DRIVER_COUNT_MAX);
    if (prepare(d, COUNT_NEW, q, why) != GR_OK)
        return GR_REFUSE;
    put(q, "SELECT ");
    put_age(q, c);
    put_is_new(d, q, c);
    put_order(q, c);
    put(q, " LIMIT 1");
    return prepare(d, OLDEST, q, why);
}

/* Whether the statement reads the table with an index; else it reads all of it. */
static bool has_index(struct driver *d, enum statement which)
{
    char *sql = gr_printf("EXPLAIN QUERY PLAN %s",
                          sqlite3_sql(d->statements[which]));
    sqlite3_stmt *s = NULL;
    bool has = true;

    if (sqlite3_prepare_v2(d->db, sql, -1, &s, NULL) == SQLITE_OK)
        while (sqlite3_step(s) == SQLITE_ROW) {
            const char *detail = (const char *)sqlite3_column_text(s, 3);

            if (detail && strncmp(detail, "SCAN ", 5) == 0 &&
                !strstr(detail, " USING INDEX ") &&
                !strstr(detail, " USING COVERING INDEX "))
                has = false;
        }
    sqlite3_finalize(s);
    free(sql);
    return has;
}

static gr_rc prepare_all(struct driver *d, const struct columns *c,
                         char why[DRIVER_WHY_BYTES])
{
    struct buf q;
    gr_rc rc;

    buf_init(&q, TABLE_SQL_BYTES);
    put(&q, "PRAGMA data_version");
    rc = prepare(d, VERSION, &q, why);
    if (rc == GR_OK)
        rc = prepare_take(d, c, &q, why);
    if (rc == GR_OK)
        rc = prepare_marks(d, c, &q, why);
    if (rc == GR_OK)
        rc = prepare_writes(d, c, &q, why);
    if (rc == GR_OK)
        rc = prepare_purge(d, c, &q, why);
    if (rc == GR_OK)
        rc = prepare_look(d, c, &q, why);
    buf_fini(&q);
    return rc;
}

/* ---- the connection ---- */

static gr_rc connect_to(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    struct stat st;
    sqlite3_stmt *s = NULL;

    if (stat(d->path, &st) != 0)
        return relay_table_refuse(why, d->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return relay_table_refuse(why, d->path, "is not a file");
    if (sqlite3_open_v2(d->path, &d->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        return refuse(d, why);
    sqlite3_extended_result_codes(d->db, 1);
    if (sqlite3_db_readonly(d->db, "main") == 1) {
        snprintf(why, DRIVER_WHY_BYTES,
                 "cannot write %s: this process needs write permission for the "
                 "file and for its folder",
                 d->path);
        return GR_REFUSE;
    }
    sqlite3_busy_timeout(d->db, BUSY_WITHOUT_WAL_MS);
    sqlite3_progress_handler(d->db, PROGRESS_STEPS, is_late, d);
    /* The application decides when its file is checkpointed. */
    sqlite3_wal_autocheckpoint(d->db, 0);
    limit(d, READ_MS);
    if (run(d, "PRAGMA foreign_keys = ON", why) != GR_OK)
        return GR_REFUSE;
    d->wal = false;
    if (sqlite3_prepare_v2(d->db, "PRAGMA journal_mode", -1, &s, NULL) ==
            SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW)
        d->wal = strcmp((const char *)sqlite3_column_text(s, 0), "wal") == 0;
    if (sqlite3_finalize(s) != SQLITE_OK)
        return refuse(d, why);
    if (d->wal)
        sqlite3_busy_timeout(d->db, BUSY_MS);
    return GR_OK;
}

/* Whether the path is another file now, or none: what we write would be lost. */
static bool is_moved(struct driver *d)
{
    int moved = 0;

    return d->db &&
           sqlite3_file_control(d->db, "main", SQLITE_FCNTL_HAS_MOVED,
                                &moved) == SQLITE_OK &&
           moved;
}

static gr_rc make_ready(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    struct columns c = {0};
    gr_rc rc;

    if (is_moved(d))
        disconnect(d);
    if (d->db)
        return GR_OK;
    rc = connect_to(d, why);
    if (rc == GR_OK)
        rc = read_columns(d, &c, why);
    if (rc == GR_OK && d->deletes && reuses_ids(d, &c))
        rc = relay_table_refuse(
            why, d->table.name,
            "its id is INTEGER PRIMARY KEY without AUTOINCREMENT, so SQLite "
            "gives the ids of deleted rows to new rows, which would be taken "
            "for the old ones: add AUTOINCREMENT, or set `after_success: "
            "keep`");
    if (rc == GR_OK)
        rc = prepare_all(d, &c, why);
    if (rc == GR_OK && !has_index(d, WRITE))
        rc = relay_table_refuse(
            why, d->table.name,
            "its column of ids has no index: make it the primary "
            "key");
    columns_fini(&c);
    if (rc != GR_OK)
        disconnect(d);
    return rc;
}

/* ---- rows that are read ---- */

static char *copy_bytes(const void *p, size_t n)
{
    char *text = gr_alloc(n + 1);

    if (n)
        memcpy(text, p, n);
    return text;
}

/* A blob, such as a UUID of 16 bytes, is written in hexadecimal digits. A text with NUL would be taken for
 * another one: it gets a control character, which makes the row invalid. */
static char *id_text(sqlite3_stmt *s)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p;
    char *text;
    int n;

    if (sqlite3_column_type(s, TAKEN_ID) != SQLITE_BLOB) {
        p = sqlite3_column_text(s, TAKEN_ID);
        n = sqlite3_column_bytes(s, TAKEN_ID);
        text = gr_alloc((size_t)n + 1);
        for (int i = 0; i < n; i++)
            text[i] = p[i] ? (char)p[i] : '\1';
        return text;
    }
    p = sqlite3_column_blob(s, TAKEN_ID);
    n = sqlite3_column_bytes(s, TAKEN_ID);
    text = gr_alloc(2 * (size_t)n + 1);
    for (int i = 0; i < n; i++) {
        text[2 * i] = digits[p[i] >> 4];
        text[2 * i + 1] = digits[p[i] & 15];
    }
    return text;
}

static void read_row(struct driver *d, sqlite3_stmt *s, struct row *row)
{
    *row = (struct row){
        .key = sqlite3_value_dup(sqlite3_column_value(s, TAKEN_ID)),
        .id = id_text(s),
        .has_payload = sqlite3_column_type(s, TAKEN_PAYLOAD) != SQLITE_NULL,
        .attempted = sqlite3_column_int(s, TAKEN_ATTEMPTED) != 0,
        .age_ms = sqlite3_column_type(s, TAKEN_AGE) == SQLITE_NULL
                      ? -1
                      : sqlite3_column_int64(s, TAKEN_AGE),
    };
    if (!row->key)
        die(EXIT_UNAVAILABLE, "out of memory");
    for (int k = 0; k < TAKEN_TEXTS; k++) {
        const char *text = (const char *)sqlite3_column_text(s, TAKEN_URL + k);

        row->texts[k] = gr_strdup(text ? text : "");
    }
    if (sqlite3_column_type(s, TAKEN_PAYLOAD) != SQLITE_BLOB)
        (void)sqlite3_column_text(s, TAKEN_PAYLOAD); /* as UTF-8 */
    row->payload_bytes = sqlite3_column_bytes(s, TAKEN_PAYLOAD);
    if (row->payload_bytes <= d->table.max_payload_bytes)
        row->payload_n = (size_t)row->payload_bytes;
    row->payload = copy_bytes(sqlite3_column_blob(s, TAKEN_PAYLOAD),
                              row->payload_n);
}

static bool is_except(const struct driver_work *work, const char *id)
{
    for (size_t i = 0; i < work->except_count; i++)
        if (strcmp(work->except[i], id) == 0)
            return true;
    return false;
}

/* Reads new rows; nothing stays locked. */
static gr_rc take(struct driver *d, const struct driver_work *work,
                  char why[DRIVER_WHY_BYTES])
{
    sqlite3_stmt *s = d->statements[TAKE];
    size_t max = (size_t)work->max, bytes = 0;
    gr_rc rc = GR_OK;

    limit(d, READ_MS);
    d->version = number(d->statements[VERSION], -1);
    d->rows = gr_alloc(max * sizeof *d->rows);
    sqlite3_bind_int64(s, 1, (int64_t)(max + work->except_count));
    while (d->count < max && bytes < DRIVER_BATCH_BYTES) {
        int stepped = sqlite3_step(s);

        if (stepped == SQLITE_ROW) {
            struct row *row = &d->rows[d->count];

            read_row(d, s, row);
            if (is_except(work, row->id)) {
                row_fini(row);
                continue;
            }
            bytes += row->payload_n + strlen(row->id);
            d->count++;
            continue;
        }
        if (stepped != SQLITE_DONE)
            rc = refuse(d, why);
        break;
    }
    sqlite3_reset(s);
    if (rc != GR_OK)
        forget_rows(d);
    return rc;
}

/* ---- what is written ---- */

static bool is_new(struct driver *d, const sqlite3_value *key)
{
    sqlite3_stmt *s = d->statements[IS_NEW];

    sqlite3_bind_value(s, 1, key);
    sqlite3_bind_null(s, 2);
    sqlite3_bind_null(s, 3);
    return number(s, 0) != 0;
}

static gr_rc mark_rows(struct driver *d, struct driver_work *work,
                       char why[DRIVER_WHY_BYTES])
{
    size_t next = 0; /* refusals are in the order of the rows */

    for (size_t i = 0; i < d->count; i++) {
        const struct row *row = &d->rows[i];
        bool refused = next < work->refusal_count &&
                       strcmp(work->refusals[next].id, row->id) == 0;
        sqlite3_stmt *s = d->statements[refused ? FAIL : MARK];

        sqlite3_bind_value(s, 1, row->key);
        if (refused)
            sqlite3_bind_text(s, 2, work->refusals[next++].why, -1,
                              SQLITE_STATIC);
        if (!done(s)) {
            (void)refuse(d, why);
            if (is_refused(d, refused ? FAIL : MARK))
                work->refused = DRIVER_END_REFUSED;
            return GR_REFUSE;
        }
        if (!sqlite3_changes(d->db) && is_new(d, row->key)) {
            work->refused = DRIVER_END_REFUSED; /* or it is read for ever */
            return relay_table_refuse(
                why, d->table.name,
                "a trigger keeps a row as it is (RAISE(IGNORE))");
        }
    }
    if (!is_unresolved(d))
        return GR_OK;
    work->refused = DRIVER_END_REFUSED;
    return refuse_unresolved(d, why);
}

static int nibble(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* The id of a row, as text; and, for columns that have no type, as the number or the blob that it may
 * be there (id_text()). */
static void bind_id(sqlite3_stmt *s, const char *id)
{
    unsigned char blob[ID_MAX_BYTES];
    size_t n = 0;
    char *end, *again;
    long long value;

    while (n < sizeof blob && nibble(id[2 * n]) >= 0 &&
           nibble(id[2 * n + 1]) >= 0) {
        blob[n] = (unsigned char)(nibble(id[2 * n]) << 4 |
                                  nibble(id[2 * n + 1]));
        n++;
    }
    errno = 0;
    value = strtoll(id, &end, 10);
    again = gr_printf("%lld", value);
    sqlite3_bind_text(s, 1, id, -1, SQLITE_TRANSIENT);
    sqlite3_bind_null(s, 2);
    sqlite3_bind_null(s, 3);
    if (!errno && strcmp(again, id) == 0)
        sqlite3_bind_int64(s, 2, value);
    if (n && !id[2 * n])
        sqlite3_bind_blob(s, 3, blob, (int)n, SQLITE_TRANSIENT);
    free(again);
}

/* GR_REFUSE: `refused` says whether it is about this row; what it changed may have to be undone. */
static gr_rc write_row(struct driver *d, struct driver_write *w, bool *refused,
                       char why[DRIVER_WHY_BYTES])
{
    sqlite3_stmt *s = d->statements[WRITE], *new = d->statements[IS_NEW];

    bind_id(s, w->row_id);
    sqlite3_bind_text(s, 4, d->table.statuses[w->status], -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 5, w->retries);
    sqlite3_bind_int64(s, 6, w->last_ms);
    sqlite3_bind_int64(s, 7, w->next_ms);
    sqlite3_bind_text(s, 8, w->error, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 9, w->event_id, -1, SQLITE_STATIC);
    *refused = false;
    if (!done(s)) {
        (void)refuse(d, why);
        *refused = is_refused(d, WRITE);
        return GR_REFUSE;
    }
    *refused = is_unresolved(d);
    if (*refused)
        return refuse_unresolved(d, why);
    w->written = DRIVER_APPLIED;
    if (sqlite3_changes(d->db))
        return GR_OK;
    bind_id(new, w->row_id);
    w->written = sqlite3_step(new) == SQLITE_ROW ? DRIVER_IS_NEW
                                                 : DRIVER_NOT_WRITTEN;
    /* After an error nothing is known, and the outcome must not be forgotten. */
    return sqlite3_reset(new) == SQLITE_OK ? GR_OK : refuse(d, why);
}

/* Begins again where a refusal, such as RAISE(ROLLBACK), has ended the transaction. */
static gr_rc mark_again(struct driver *d, struct driver_work *work,
                        char why[DRIVER_WHY_BYTES])
{
    limit(d, WRITE_MS);
    if (run(d, "BEGIN IMMEDIATE", why) != GR_OK)
        return GR_REFUSE;
    return work->end == DRIVER_COMMIT ? mark_rows(d, work, why) : GR_OK;
}

/* A trigger or a constraint may refuse a row. Then none is written. */
static gr_rc write_rows(struct driver *d, struct driver_work *work,
                        char why[DRIVER_WHY_BYTES])
{
    bool refused;

    for (size_t i = 0; i < work->write_count; i++) {
        if (write_row(d, &work->writes[i], &refused, why) == GR_OK)
            continue;
        if (!refused)
            return GR_REFUSE;
        work->refused = DRIVER_WRITES_REFUSED; /* and `why` says why */
        return sqlite3_get_autocommit(d->db)
                   ? mark_again(d, work, why)
                   : run(d, "ROLLBACK TO writes", why);
    }
    return GR_OK;
}

/* The same, but the others are written. If a refusal ends the transaction, those before it are written again. */
static gr_rc write_alone(struct driver *d, struct driver_work *work,
                         char why[DRIVER_WHY_BYTES])
{
    int64_t stop_ms = mono_ms() + ALONE_MS;
    size_t i = 0;

    for (size_t k = 0; k < work->write_count; k++)
        work->writes[k].written = DRIVER_NOT_TRIED;
    while (i < work->write_count && mono_ms() < stop_ms) {
        struct driver_write *w = &work->writes[i++];
        char ignored[DRIVER_WHY_BYTES];
        bool refused;

        if (w->written == DRIVER_WRITE_REFUSED)
            continue;
        if (run(d, "SAVEPOINT one", why) != GR_OK)
            return GR_REFUSE;
        if (write_row(d, w, &refused, why) == GR_OK) {
            if (run(d, "RELEASE one", why) != GR_OK)
                return GR_REFUSE;
            continue;
        }
        if (!refused)
            return GR_REFUSE;
        w->written = DRIVER_WRITE_REFUSED;
        w->why = gr_strdup(why);
        if (!sqlite3_get_autocommit(d->db)) {
            if (run(d, "ROLLBACK TO one; RELEASE one", ignored) != GR_OK)
                return GR_REFUSE;
            continue;
        }
        for (size_t k = 0; k < i; k++)
            if (work->writes[k].written != DRIVER_WRITE_REFUSED)
                work->writes[k].written = DRIVER_NOT_TRIED;
        if (run(d, "BEGIN IMMEDIATE", why) != GR_OK)
            return GR_REFUSE;
        i = 0;
    }
    return GR_OK;
}

/* Marks the rows that were read last, and writes outcomes: one transaction, in which the application's
 * writers wait.
 *
 * With WAL, a power cut may take back marks: then the rows are new again, and recognised. It must
 * not take back an outcome, because that is not written again. */
static gr_rc change(struct driver *d, struct driver_work *work,
                    char why[DRIVER_WHY_BYTES])
{
    bool marks = work->end == DRIVER_COMMIT && d->count;
    gr_rc rc;

    if (!marks && !work->write_count)
        return GR_OK;
    limit(d, READ_MS);
    rc = run(d,
             d->wal && !work->write_count ? "PRAGMA synchronous = NORMAL"
                                          : "PRAGMA synchronous = FULL",
             why);
    if (rc == GR_OK)
        rc = run(d, "BEGIN IMMEDIATE", why);
    limit(d, WRITE_MS);
    if (rc == GR_OK && marks)
        rc = mark_rows(d, work, why);
    if (rc == GR_OK && marks && work->alone) { /* no write undoes the marks */
        rc = run(d, "COMMIT; BEGIN IMMEDIATE", why);
        limit(d, WRITE_MS);
    }
    if (rc == GR_OK && work->write_count && work->alone)
        rc = write_alone(d, work, why);
    else if (rc == GR_OK && work->write_count) {
        rc = run(d, "SAVEPOINT writes", why);
        if (rc == GR_OK)
            rc = write_rows(d, work, why);
    }
    if (rc == GR_OK)
        rc = run(d, "COMMIT", why);
    return work->refused == DRIVER_WRITES_REFUSED ? GR_REFUSE : rc;
}

/* Ends what a failed step has left: no transaction stays open. */
static void give_up(struct driver *d, const struct driver_work *work)
{
    bool stays = is_busy(d) || work->refused != DRIVER_NOTHING_REFUSED;

    limit(d, READ_MS);
    if (!sqlite3_get_autocommit(d->db) &&
        sqlite3_exec(d->db, "ROLLBACK", NULL, NULL, NULL) != SQLITE_OK)
        stays = false;
    if (stays)
        forget_rows(d);
    else
        disconnect(d);
}

static gr_rc lite_step(struct driver *d, struct driver_work *work,
                       char why[DRIVER_WHY_BYTES])
{
    gr_rc rc;

    work->refused = DRIVER_NOTHING_REFUSED;
    if (work->max <= 0 && !work->write_count && !d->count)
        return GR_OK;
    if (make_ready(d, why) != GR_OK)
        return GR_REFUSE;
    rc = change(d, work, why);
    forget_rows(d);
    if (rc == GR_OK && work->max > 0)
        rc = take(d, work, why);
    if (rc != GR_OK)
        give_up(d, work);
    return rc;
}

static size_t lite_count(const struct driver *d)
{
    return d->count;
}

static void lite_row(const struct driver *d, size_t i, struct driver_row *row)
{
    const struct row *r = &d->rows[i];

    *row = (struct driver_row){
        .id = r->id,
        .url = r->texts[TAKEN_URL - TAKEN_URL],
        .type = r->texts[TAKEN_TYPE - TAKEN_URL],
        .workspace = r->texts[TAKEN_WORKSPACE - TAKEN_URL],
        .endpoint = r->texts[TAKEN_ENDPOINT - TAKEN_URL],
        .ordering_key = r->texts[TAKEN_ORDERING_KEY - TAKEN_URL],
        .payload = {r->payload, r->payload_n},
        .payload_bytes = r->payload_bytes,
        .has_payload = r->has_payload,
        .attempted = r->attempted,
        .age_ms = r->age_ms,
    };
}

/* data_version changes when another connection has committed. It is read several times a second, because
 * nothing says that it changed. */
static bool lite_wait(struct driver *d, int wake_fd, int64_t ms)
{
    int64_t end_ms = mono_ms() + ms, tick_ms = TICK_FIRST_MS;

    for (;;) {
        struct pollfd fd = {.fd = wake_fd, .events = POLLIN};
        int64_t left_ms = end_ms - mono_ms();

        if (left_ms <= 0 ||
            poll(&fd, 1, (int)(left_ms < tick_ms ? left_ms : tick_ms)) > 0)
            return false;
        if (is_moved(d))
            return true; /* step() opens the new file */
        if (d->db) {
            int64_t version = number(d->statements[VERSION], d->version);

            if (version != d->version)
                return true;
        }
        tick_ms = 2 * tick_ms < TICK_MOST_MS ? 2 * tick_ms : TICK_MOST_MS;
    }
}

static gr_rc lite_purge(struct driver *d, int64_t age_ms, int max,
                        int64_t *deleted, char why[DRIVER_WHY_BYTES])
{
    sqlite3_stmt *s;

    *deleted = 0;
    if (make_ready(d, why) != GR_OK)
        return GR_REFUSE;
    s = d->statements[PURGE];
    if (!s)
        return GR_OK;
    limit(d, WRITE_MS);
    sqlite3_bind_int64(s, 1, age_ms / 1000);
    sqlite3_bind_int64(s, 2, max);
    if (!done(s)) {
        (void)refuse(d, why);
        give_up(d, &(struct driver_work){0});
        return GR_REFUSE;
    }
    *deleted = sqlite3_changes(d->db);
    return GR_OK;
}

static gr_rc lite_look(struct driver *d, struct driver_look *look,
                       char why[DRIVER_WHY_BYTES])
{
    if (make_ready(d, why) != GR_OK)
        return GR_REFUSE;
    limit(d, DRIVER_LOOK_MS);
    look->waiting = number(d->statements[COUNT_NEW], -1);
    look->oldest_ms = look->waiting ? number(d->statements[OLDEST], -1) : 0;
    return GR_OK;
}

/* Such a row is never taken. */
static bool has_null_id(struct driver *d, const struct columns *c)
{
    sqlite3_stmt *s = NULL;
    struct buf q;
    bool has;

    buf_init(&q, TABLE_SQL_BYTES);
    put(&q, "SELECT 1 FROM ");
    put_name(&q, d->table.name);
    put(&q, " WHERE ");
    put_column(&q, c, COLUMN_id);
    put(&q, " IS NULL AND ");
    put_column(&q, c, COLUMN_status);
    put(&q, " = %Q LIMIT 1", d->table.statuses[RELAY_STATUS_NEW]);
    has = sqlite3_prepare_v2(d->db, q.data, -1, &s, NULL) == SQLITE_OK &&
          sqlite3_step(s) == SQLITE_ROW;
    sqlite3_finalize(s);
    buf_fini(&q);
    return has;
}

static void find_faults(struct driver *d, const struct columns *c,
                        driver_finding *found, void *self)
{
    if (reuses_ids(d, c))
        found(self, d->deletes,
              "the id is INTEGER PRIMARY KEY without AUTOINCREMENT: SQLite "
              "gives the ids of deleted rows to new rows, which would be taken "
              "for the old ones",
              "add AUTOINCREMENT, or never delete rows");
    limit(d, READ_MS);
    if (has_null_id(d, c))
        found(self, false, "a new row has no id: it is never taken",
              "give it an id, and make the column NOT NULL");
    if (!*c->types[c->at[COLUMN_id]])
        found(self, false,
              "the column of ids has no type: 1 and '1' would be taken for "
              "the same row",
              "give it a type, such as TEXT or INTEGER");
    if (!has_index(d, WRITE))
        found(self, true, "the column of ids has no index",
              "make it the primary key");
    if (!has_index(d, TAKE))
        found(self, false,
              "no index finds new rows: all rows are read each time",
              "create the index that `grapnel outbox init` prints");
    if (d->statements[PURGE] && !has_index(d, PURGE))
        found(self, false,
              "no index finds delivered rows that are to be deleted",
              "create the index that `grapnel outbox init` prints");
    if (!d->wal)
        found(self, false,
              "the file is not in WAL mode: readers and writers of the "
              "application wait for the relay, and the relay for them",
              "PRAGMA journal_mode = WAL");
}

static void lite_check(const struct relay *relay, driver_finding *found,
                       void *self)
{
    struct driver *d = lite_open(relay, "check", 0);
    struct columns c = {0};
    char why[DRIVER_WHY_BYTES];

    if (connect_to(d, why) != GR_OK)
        found(self, true, why,
              "correct `database`, or the permissions of the file");
    else if (read_columns(d, &c, why) != GR_OK)
        found(self, true, why,
              "create the table or the column, or correct `table` or "
              "`columns`");
    else if (prepare_all(d, &c, why) != GR_OK)
        found(self, true, why, "correct `where`");
    else
        find_faults(d, &c, found, self);
    columns_fini(&c);
    lite_close(d);
}

const struct driver_ops sqlite_driver = {
    .open = lite_open,
    .close = lite_close,
    .step = lite_step,
    .count = lite_count,
    .row = lite_row,
    .wait = lite_wait,
    .purge = lite_purge,
    .look = lite_look,
    .check = lite_check,
};
