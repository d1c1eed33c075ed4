/* sqlite.c: the store in SQLite: an event, its number and your work in one transaction. */
#include "internal.h"
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

enum { COLUMNS_MAX = 8 };

struct store {
    struct grapnel_store base;
    sqlite3 *db;
    pthread_mutex_t mutex; /* held during a transaction */
};

static enum grapnel_status failed(sqlite3 *db, struct grapnel_error *error)
{
    int code = sqlite3_errcode(db);

    return grapnel_say(
        error, GRAPNEL_FAILED, "SQLite: %s%s", sqlite3_errmsg(db),
        code == SQLITE_BUSY
            ? " (another process has written for longer than busy_ms)"
            : "");
}

static int bind(sqlite3_stmt *statement, int at, const struct sql_value *value)
{
    if (value->null)
        return sqlite3_bind_null(statement, at);
    if (value->text)
        return sqlite3_bind_text(statement, at, value->text, -1, SQLITE_STATIC);
    return sqlite3_bind_int64(statement, at, value->number);
}

/* false: no memory. */
static bool give_row(sqlite3_stmt *statement, sql_row row, void *arg)
{
    const char *cells[COLUMNS_MAX] = {NULL};
    int count = sqlite3_column_count(statement);

    for (int i = 0; i < count && i < COLUMNS_MAX; i++) {
        cells[i] = (const char *)sqlite3_column_text(statement, i);
        if (!cells[i] && sqlite3_column_type(statement, i) != SQLITE_NULL)
            return false;
    }
    return row(arg, cells);
}

static enum grapnel_status run(void *connection, const char *text,
                               const struct sql_value *values, size_t count,
                               int64_t *changed, sql_row row, void *arg,
                               struct grapnel_error *error)
{
    sqlite3 *db = connection;
    sqlite3_stmt *statement;
    enum grapnel_status status = GRAPNEL_DONE;
    int code = sqlite3_prepare_v2(db, text, -1, &statement, NULL);

    for (size_t i = 0; code == SQLITE_OK && i < count; i++) {
        char name[24];

        snprintf(name, sizeof name, "$%zu", i + 1);
        code = bind(statement, sqlite3_bind_parameter_index(statement, name),
                    &values[i]);
    }
    if (code == SQLITE_OK) {
        while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
            if (row && !give_row(statement, row, arg)) {
                status = grapnel_say_memory(error);
                break;
            }
        }
        if (code == SQLITE_DONE && changed)
            *changed = sqlite3_changes(db);
    }
    if (!status && code != SQLITE_DONE)
        status = failed(db, error); /* before the statement's end changes it */
    sqlite3_finalize(statement);
    return status;
}

static struct sql statements(sqlite3 *db)
{
    return (struct sql){db, "", run}; /* there is one writer anyway */
}

static enum grapnel_status execute(sqlite3 *db, const char *text,
                                   struct grapnel_error *error)
{
    if (sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK)
        return GRAPNEL_DONE;
    return failed(db, error);
}

static enum grapnel_status begin(struct store *s, struct grapnel_error *error)
{
    enum grapnel_status status;

    pthread_mutex_lock(&s->mutex);
    status = execute(s->db, "BEGIN IMMEDIATE", error);
    if (status)
        pthread_mutex_unlock(&s->mutex);
    return status;
}

/* Commits, or rolls back if `status` is not GRAPNEL_DONE. Returns the first failure. */
static enum grapnel_status end(struct store *s, enum grapnel_status status,
                               struct grapnel_error *error)
{
    if (!status)
        status = execute(s->db, "COMMIT", error);
    /* SQLite has rolled back by itself after some errors. */
    if (status && !sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    pthread_mutex_unlock(&s->mutex);
    return status;
}

static enum grapnel_status
work(struct store *s, const struct grapnel_arrival *a, grapnel_handler handle,
     void *arg, struct grapnel_check *check, struct grapnel_error *error)
{
    const struct grapnel_transaction transaction = {.sqlite = s->db};
    const struct sql sql = statements(s->db);
    enum grapnel_status status = grapnel_sql_check(&sql, a, check, error);
    int code;

    if (status || check->result == GRAPNEL_DUPLICATE)
        return status;
    code = handle(arg, a->event, check, &transaction);
    if (code)
        return grapnel_say_handler(error, code);
    if (sqlite3_get_autocommit(s->db))
        return grapnel_say(error, GRAPNEL_FAILED,
                           "the transaction ended in the handler: a statement "
                           "failed there, or it committed, which only the "
                           "library does");
    return GRAPNEL_DONE;
}

static enum grapnel_status process(struct grapnel_store *store,
                                   const struct grapnel_arrival *a,
                                   grapnel_handler handle, void *arg,
                                   struct grapnel_check *check,
                                   struct grapnel_error *error)
{
    struct store *s = (struct store *)store;
    enum grapnel_status status = begin(s, error);

    if (status)
        return status;
    return end(s, work(s, a, handle, arg, check, error), error);
}

static enum grapnel_status join(struct grapnel_store *store,
                                const struct grapnel_arrival *a,
                                const struct grapnel_transaction *transaction,
                                struct grapnel_check *check,
                                struct grapnel_error *error)
{
    struct sql sql;

    (void)store;
    if (!transaction || !transaction->sqlite ||
        sqlite3_get_autocommit(transaction->sqlite))
        return grapnel_say(error, GRAPNEL_INVALID,
                           "no transaction has begun: give the connection as "
                           "transaction->sqlite, after BEGIN IMMEDIATE");
    sql = statements(transaction->sqlite);
    return grapnel_sql_check(&sql, a, check, error);
}

static enum grapnel_status missing(struct grapnel_store *store,
                                   int64_t before_s,
                                   struct grapnel_missing_list *list,
                                   struct grapnel_error *error)
{
    struct store *s = (struct store *)store;
    const struct sql sql = statements(s->db);
    enum grapnel_status status;

    pthread_mutex_lock(&s->mutex);
    status = grapnel_sql_missing(&sql, before_s, list, error);
    pthread_mutex_unlock(&s->mutex);
    return status;
}

static enum grapnel_status forget(struct grapnel_store *store, int64_t before_s,
                                  struct grapnel_error *error)
{
    struct store *s = (struct store *)store;
    const struct sql sql = statements(s->db);
    enum grapnel_status status = begin(s, error);

    if (status)
        return status;
    return end(s, grapnel_sql_forget(&sql, before_s, error), error);
}

static enum grapnel_status create_tables(struct grapnel_store *store,
                                         struct grapnel_error *error)
{
    struct store *s = (struct store *)store;
    enum grapnel_status status = begin(s, error);

    if (status)
        return status;
    return end(s, execute(s->db, grapnel_schema(), error), error);
}

static void free_store(struct grapnel_store *store)
{
    struct store *s = (struct store *)store;

    sqlite3_close_v2(s->db);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

static const struct grapnel_store_methods methods = {
    process, join, missing, forget, create_tables, free_store};

struct grapnel_store *grapnel_sqlite_store_new(const char *path, int busy_ms,
                                               struct grapnel_error *error)
{
    struct store *s = calloc(1, sizeof *s);

    if (!s || pthread_mutex_init(&s->mutex, NULL) != 0) {
        free(s);
        grapnel_say_memory(error);
        return NULL;
    }
    s->base.methods = &methods;
    if (sqlite3_open_v2(path, &s->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                            SQLITE_OPEN_FULLMUTEX,
                        NULL) != SQLITE_OK) {
        grapnel_say(error, GRAPNEL_FAILED, "SQLite: %s: %s", path,
                    s->db ? sqlite3_errmsg(s->db) : "no memory");
        free_store(&s->base);
        return NULL;
    }
    sqlite3_busy_timeout(s->db, busy_ms > 0 ? busy_ms : 5000);
    return &s->base;
}
