/* postgres.c: the store in PostgreSQL: an event, its number and your work in one transaction. */
#include "internal.h"
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 8, COLUMNS_MAX = 8 };

struct store {
    struct grapnel_store base;
    struct grapnel_pool pool;
    char *conninfo;
};

static enum grapnel_status failed(const char *message,
                                  struct grapnel_error *error)
{
    return grapnel_say(error, GRAPNEL_FAILED, "PostgreSQL: %.*s",
                       (int)strcspn(message, "\n"), message);
}

/* false: no memory. */
static bool give_rows(const PGresult *result, sql_row row, void *arg)
{
    int columns = PQnfields(result);

    for (int i = 0; i < PQntuples(result); i++) {
        const char *cells[COLUMNS_MAX] = {NULL};

        for (int k = 0; k < columns && k < COLUMNS_MAX; k++) {
            if (!PQgetisnull(result, i, k))
                cells[k] = PQgetvalue(result, i, k);
        }
        if (!row(arg, cells))
            return false;
    }
    return true;
}

static enum grapnel_status run(void *connection, const char *text,
                               const struct sql_value *values, size_t count,
                               int64_t *changed, sql_row row, void *arg,
                               struct grapnel_error *error)
{
    const char *texts[VALUES_MAX];
    char numbers[VALUES_MAX][24];
    enum grapnel_status status = GRAPNEL_DONE;
    ExecStatusType said;
    PGresult *result;

    for (size_t i = 0; i < count; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%lld",
                 (long long)values[i].number);
        texts[i] = values[i].null   ? NULL
                   : values[i].text ? values[i].text
                                    : numbers[i];
    }
    result = PQexecParams(connection, text, (int)count, NULL, texts, NULL, NULL,
                          0);
    said = PQresultStatus(result);
    if (said != PGRES_COMMAND_OK && said != PGRES_TUPLES_OK)
        status = failed(PQerrorMessage(connection), error);
    else if (row && !give_rows(result, row, arg))
        status = grapnel_say_memory(error);
    else if (changed)
        grapnel_number(PQcmdTuples(result), strlen(PQcmdTuples(result)),
                       changed);
    PQclear(result);
    return status;
}

static struct sql statements(PGconn *connection)
{
    return (struct sql){connection, " FOR UPDATE", run};
}

/* Statements without values. `tag`: what the server must say that it did; NULL: it does not matter. */
static enum grapnel_status execute(PGconn *connection, const char *text,
                                   const char *tag, struct grapnel_error *error)
{
    PGresult *result = PQexec(connection, text);
    enum grapnel_status status = GRAPNEL_DONE;

    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        status = failed(PQerrorMessage(connection), error);
    else if (tag && strcmp(PQcmdStatus(result), tag) != 0)
        status = grapnel_say(error, GRAPNEL_FAILED,
                             "PostgreSQL: %s ended as %s: a statement of the "
                             "transaction had failed",
                             text, PQcmdStatus(result));
    PQclear(result);
    return status;
}

/* What a server says beside results (a table is there already) is not an error. */
static void ignore_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

static PGconn *opened(struct store *s, struct grapnel_error *error)
{
    PGconn *connection = PQconnectdb(s->conninfo);

    if (PQstatus(connection) == CONNECTION_OK) {
        PQsetNoticeReceiver(connection, ignore_notice, NULL);
        return connection;
    }
    failed(connection ? PQerrorMessage(connection) : "no memory", error);
    PQfinish(connection);
    return NULL;
}

/* Takes a connection and begins a transaction. One that the server has closed meanwhile is replaced
 * once. NULL: it failed. */
static PGconn *begin(struct store *s, struct grapnel_error *error)
{
    PGconn *connection = grapnel_pool_take(&s->pool);

    if (connection) {
        if (execute(connection, "BEGIN", NULL, NULL) == GRAPNEL_DONE)
            return connection;
        PQfinish(connection);
    }
    connection = opened(s, error);
    if (connection && execute(connection, "BEGIN", NULL, error)) {
        PQfinish(connection);
        connection = NULL;
    }
    if (!connection)
        grapnel_pool_give(&s->pool, NULL);
    return connection;
}

/* Commits, or rolls back if `status` is not GRAPNEL_DONE. Returns the first failure. */
static enum grapnel_status end(struct store *s, PGconn *connection,
                               enum grapnel_status status,
                               struct grapnel_error *error)
{
    if (!status)
        status = execute(connection, "COMMIT", "COMMIT", error);
    if (PQtransactionStatus(connection) != PQTRANS_IDLE)
        execute(connection, "ROLLBACK", NULL, NULL);
    if (PQtransactionStatus(connection) != PQTRANS_IDLE) {
        PQfinish(connection);
        connection = NULL;
    }
    grapnel_pool_give(&s->pool, connection);
    return status;
}

static enum grapnel_status work(PGconn *connection,
                                const struct grapnel_arrival *a,
                                grapnel_handler handle, void *arg,
                                struct grapnel_check *check,
                                struct grapnel_error *error)
{
    const struct grapnel_transaction transaction = {.postgres = connection};
    const struct sql sql = statements(connection);
    enum grapnel_status status = grapnel_sql_check(&sql, a, check, error);
    int code;

    if (status || check->result == GRAPNEL_DUPLICATE)
        return status;
    code = handle(arg, a->event, check, &transaction);
    if (code)
        return grapnel_say_handler(error, code);
    if (PQtransactionStatus(connection) == PQTRANS_IDLE)
        return grapnel_say(error, GRAPNEL_FAILED,
                           "the transaction ended in the handler: it "
                           "committed or rolled back, which only the library "
                           "does");
    return GRAPNEL_DONE;
}

static enum grapnel_status process(struct grapnel_store *store,
                                   const struct grapnel_arrival *a,
                                   grapnel_handler handle, void *arg,
                                   struct grapnel_check *check,
                                   struct grapnel_error *error)
{
    struct store *s = (struct store *)store;
    PGconn *connection = begin(s, error);

    if (!connection)
        return GRAPNEL_FAILED;
    return end(s, connection, work(connection, a, handle, arg, check, error),
               error);
}

static enum grapnel_status join(struct grapnel_store *store,
                                const struct grapnel_arrival *a,
                                const struct grapnel_transaction *transaction,
                                struct grapnel_check *check,
                                struct grapnel_error *error)
{
    struct sql sql;

    (void)store;
    if (!transaction || !transaction->postgres ||
        PQtransactionStatus(transaction->postgres) != PQTRANS_INTRANS)
        return grapnel_say(error, GRAPNEL_INVALID,
                           "no transaction has begun: give the connection as "
                           "transaction->postgres, after BEGIN");
    sql = statements(transaction->postgres);
    return grapnel_sql_check(&sql, a, check, error);
}

static enum grapnel_status missing(struct grapnel_store *store,
                                   int64_t before_s,
                                   struct grapnel_missing_list *list,
                                   struct grapnel_error *error)
{
    struct store *s = (struct store *)store;
    PGconn *connection = begin(s, error);
    struct sql sql;

    if (!connection)
        return GRAPNEL_FAILED;
    sql = statements(connection);
    return end(s, connection, grapnel_sql_missing(&sql, before_s, list, error),
               error);
}

static enum grapnel_status forget(struct grapnel_store *store, int64_t before_s,
                                  struct grapnel_error *error)
{
    struct store *s = (struct store *)store;
    PGconn *connection = begin(s, error);
    struct sql sql;

    if (!connection)
        return GRAPNEL_FAILED;
    sql = statements(connection);
    return end(s, connection, grapnel_sql_forget(&sql, before_s, error), error);
}

static enum grapnel_status create_tables(struct grapnel_store *store,
                                         struct grapnel_error *error)
{
    struct store *s = (struct store *)store;
    PGconn *connection = begin(s, error);

    if (!connection)
        return GRAPNEL_FAILED;
    return end(s, connection,
               execute(connection, grapnel_schema(), NULL, error), error);
}

static void close_connection(void *connection)
{
    PQfinish(connection);
}

static void free_store(struct grapnel_store *store)
{
    struct store *s = (struct store *)store;

    grapnel_pool_end(&s->pool, close_connection);
    free(s->conninfo);
    free(s);
}

static const struct grapnel_store_methods methods = {
    process, join, missing, forget, create_tables, free_store};

struct grapnel_store *grapnel_postgres_store_new(const char *conninfo,
                                                 size_t connections_max,
                                                 struct grapnel_error *error)
{
    struct store *s;

    if (!conninfo || connections_max < 1 || connections_max > 1000) {
        grapnel_say(error, GRAPNEL_INVALID,
                    "a PostgreSQL store has a conninfo, and 1 to 1000 "
                    "connections; this one would have %zu",
                    connections_max);
        return NULL;
    }
    s = calloc(1, sizeof *s);
    if (!s || !(s->conninfo = strdup(conninfo)) ||
        !grapnel_pool_begin(&s->pool, connections_max)) {
        if (s)
            free(s->conninfo);
        free(s);
        grapnel_say_memory(error);
        return NULL;
    }
    s->base.methods = &methods;
    return &s->base;
}
