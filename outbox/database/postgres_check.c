/* postgres_check: compares a PostgreSQL database with what a relay needs of it, for `grapnel outbox
 * check`. It changes nothing: statements of the relay are only explained. */
#include "postgres.h"
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ERROR_WIDTH = 200, /* of error_message: longer texts are cut (outcomes.h) */
    EVENT_ID_WIDTH = EVENT_ID_BYTES,
};

struct check {
    const struct relay *relay;
    struct driver *d;
    struct pg_column found[COLUMN_COUNT];
    /* The table as SQL. */
    char *table;
    bool is_table; /* and not a view */
    driver_finding *report;
    void *self;
};

static void finding(const struct check *k, bool needed, const char *fix,
                    const char *fmt, ...) GR_PRINTF(4, 5);

static void finding(const struct check *k, bool needed, const char *fix,
                    const char *fmt, ...)
{
    char what[2 * DRIVER_WHY_BYTES];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    k->report(k->self, needed, what, fix);
}

/* Asks for one text about the table, which is $1. The caller's; NULL: there is none, or the database
 * refused it. */
static char *ask_text(const struct check *k, const char *sql,
                      const char *second)
{
    const char *const values[] = {k->table, second};
    char why[DRIVER_WHY_BYTES], *text = NULL;
    PGresult *r;

    if (pg_ask(k->d, sql, second ? 2 : 1, values, &r, why) == GR_OK &&
        PQntuples(r) && !PQgetisnull(r, 0, 0))
        text = gr_strdup(PQgetvalue(r, 0, 0));
    PQclear(r);
    return text;
}

static bool is_so(const struct check *k, const char *sql, const char *second)
{
    char *text = ask_text(k, sql, second);
    bool so = text && strcmp(text, "t") == 0;

    free(text);
    return so;
}

/* ---- the connection ---- */

static bool connects(struct check *k)
{
    char why[DRIVER_WHY_BYTES];
    const char *fix = "start the server, or correct `database` of the relay";

    if (pg_connect(k->d, why) == GR_OK)
        return true;
    if (strncmp(why, "password_file", strlen("password_file")) == 0)
        fix = "write the password to this file, and let grapnel-outbox read it";
    else if (k->d->conn && PQconnectionNeedsPassword(k->d->conn))
        fix = "the server wants a password: write it to a file, and set "
              "`password_file` of the relay";
    else if (strstr(why, "password authentication failed"))
        fix = "correct the password in `password_file`, or that of the user: "
              "ALTER ROLE … PASSWORD";
    else if (strstr(why, "read-only") || strstr(why, "hot standby"))
        fix = "the server is a standby, or default_transaction_read_only is "
              "on: name the primary, or all hosts of the cluster";
    else if (strstr(why, "too many clients") || strstr(why, "remaining conn"))
        fix = "raise max_connections of the server, or close connections";
    else if (strstr(why, "certificate") || strstr(why, "SSL"))
        fix = "the server's certificate must be valid for its name: set "
              "sslrootcert (and, without a certificate, sslmode) in `database`";
    else if (strstr(why, "SQL_ASCII"))
        fix = "make a database with ENCODING 'UTF8' of a dump of this one";
    else if (strstr(why, "does not exist"))
        fix = "create it, or correct `database` of the relay";
    else if (strstr(why, "pg_hba.conf"))
        fix = "permit this user, database and address in pg_hba.conf";
    finding(k, true, fix, "%s", why);
    return false;
}

/* ---- the table and its columns ---- */

static bool finds_table(struct check *k)
{
    char *kind = ask_text(k,
                          "SELECT relkind FROM pg_class WHERE oid = "
                          "to_regclass($1)",
                          NULL),
         why[DRIVER_WHY_BYTES];
    bool found = kind && strchr("rpv", *kind);

    k->is_table = found && *kind != 'v';
    if (!kind)
        finding(k, true,
                "run the output of `grapnel outbox init` in this database, set "
                "`table` of the relay, or grant USAGE on its schema",
                "there is no table %s, or the relay's user may not see it",
                k->d->table.name);
    else if (!found)
        finding(k, true, "set `table` of the relay", "%s is not a table",
                k->d->table.name);
    free(kind);
    if (found && pg_find_columns(k->d, k->found, why) != GR_OK) {
        finding(k, true, "see the message", "%s", why);
        return false;
    }
    return found;
}

static bool has_columns(struct check *k)
{
    bool all = true;

    for (int c = 0; c < COLUMN_COUNT; c++) {
        char fix[100];

        if (!pg_lacks(k->d, k->found, (enum column)c))
            continue;
        snprintf(fix, sizeof fix, "add it, or set `columns.%s` of the relay",
                 usual_columns[c].key);
        finding(k, true, fix, "table %s has no column %s", k->d->table.name,
                k->d->table.columns[c] ? k->d->table.columns[c]
                                       : usual_columns[c].usual);
        all = false;
    }
    return all;
}

static void check_width(struct check *k, enum column c, size_t bytes,
                        const char *what)
{
    const struct pg_column *column = &k->found[c];
    char fix[200];

    if (!column->name || !column->width || (size_t)column->width >= bytes)
        return;
    snprintf(fix, sizeof fix,
             "ALTER TABLE %.60s ALTER COLUMN %.60s TYPE varchar(%zu)", k->table,
             column->name, bytes);
    finding(k, true, fix, "column %s has room for %d characters; %s needs %zu",
            column->name, column->width, what, bytes);
}

static void check_widths(struct check *k)
{
    const char *words[] = {k->d->table.statuses[RELAY_STATUS_NEW],
                           k->d->table.statuses[DRIVER_RETRYING],
                           k->d->table.statuses[DRIVER_DELIVERED],
                           k->d->table.statuses[DRIVER_FAILED]};
    const char *longest = "";

    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strlen(words[i]) > strlen(longest))
            longest = words[i];
    check_width(k, COLUMN_status, strlen(longest), longest);
    check_width(k, COLUMN_error, ERROR_WIDTH, "a reason");
    check_width(k, COLUMN_event_id, EVENT_ID_WIDTH, "the id of an event");
}

/* ---- privileges ---- */

/* A privilege on a column is enough, and one on the table includes it. */
static void check_privilege(struct check *k, const char *privilege,
                            enum column from, enum column to)
{
    struct buf columns, fix;

    buf_init(&columns, 4096);
    buf_init(&fix, 4096);
    for (int c = from; c <= (int)to; c++) {
        char sql[120];

        snprintf(sql, sizeof sql,
                 "SELECT has_column_privilege($1::text, $2::text, '%s')",
                 privilege);
        if (k->found[c].name && !is_so(k, sql, k->found[c].name))
            buf_printf(&columns, "%s%s", columns.len ? ", " : "",
                       k->found[c].name);
    }
    if (columns.len) {
        buf_printf(&fix, "GRANT %s ON %s TO %s", privilege, k->table,
                   PQuser(k->d->conn));
        finding(k, true, fix.data, "user %s has no privilege %s on %s",
                PQuser(k->d->conn), privilege, columns.data);
    }
    buf_fini(&columns);
    buf_fini(&fix);
}

static void check_privileges(struct check *k)
{
    char fix[300];

    check_privilege(k, "SELECT", 0, COLUMN_COUNT - 1);
    check_privilege(k, "UPDATE", COLUMN_status, COLUMN_status);
    check_privilege(k, "UPDATE", COLUMN_last_attempt, COLUMN_event_id);
    if (!k->relay->delete_after_ms ||
        is_so(k, "SELECT has_table_privilege($1::text, 'DELETE')", NULL))
        return;
    snprintf(fix, sizeof fix,
             "GRANT DELETE ON %.130s TO %.63s, or set after_success: keep",
             k->table, PQuser(k->d->conn));
    finding(k, true, fix, "user %s may not delete delivered rows of %s",
            PQuser(k->d->conn), k->d->table.name);
}

/* ---- indexes and the trigger ---- */

/* What the plan of a statement does, in the worst of its steps. */
struct plan {
    bool reads_all, sorts, by_condition;
    char index[64];
};

static void read_plan(const json_t *node, struct plan *p)
{
    const char *type = json_string_value(json_object_get(node, "Node Type"));
    const char *index = json_string_value(json_object_get(node, "Index Name"));
    const json_t *child;
    size_t i;

    if (type) {
        p->reads_all |= strcmp(type, "Seq Scan") == 0;
        p->sorts |= strcmp(type, "Sort") == 0;
    }
    if (index) {
        snprintf(p->index, sizeof p->index, "%s", index);
        p->by_condition |= json_object_get(node, "Index Cond") != NULL;
    }
    json_array_foreach(json_object_get(node, "Plans"), i, child)
        read_plan(child, p);
}

/* How the server would run it if it avoided reading the whole table. false: it refuses the
 * statement. */
static bool explain(struct check *k, const char *sql, int n,
                    const char *const *values, struct plan *p,
                    char why[DRIVER_WHY_BYTES])
{
    char *explained = gr_printf("EXPLAIN (FORMAT JSON) %s", sql);
    PGresult *r;
    bool good = pg_ask(k->d, explained, n, values, &r, why) == GR_OK;
    json_t *doc = good ? json_loads(PQgetvalue(r, 0, 0), 0, NULL) : NULL;

    *p = (struct plan){0};
    read_plan(json_object_get(json_array_get(doc, 0), "Plan"), p);
    json_decref(doc);
    PQclear(r);
    free(explained);
    return good;
}

/* Whether a plan finds its rows, and their order, by an index that has no others. */
static bool is_served(struct check *k, const struct plan *p)
{
    if (p->reads_all || p->sorts || !*p->index)
        return false;
    return p->by_condition ||
           is_so(k,
                 "SELECT bool_or(i.indpred IS NOT NULL) FROM pg_index i JOIN "
                 "pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = "
                 "$1::regclass AND c.relname = $2",
                 p->index);
}

/* The statements that the relay will send: types, `where` and privileges, as the server sees them. */
static void check_statements(struct check *k)
{
    const char *const look[] = {k->d->table.statuses[RELAY_STATUS_NEW]};
    const char *const take[] = {"1",
                                k->d->table.statuses[RELAY_STATUS_NEW],
                                k->d->table.statuses[DRIVER_RETRYING],
                                "1",
                                "1",
                                "{}",
                                ""};
    const char *const fail[] = {"{}", "{}",
                                k->d->table.statuses[DRIVER_FAILED]};
    const char *const write[] = {
        "{}", "{}", "{}", "{}",
        "{}", "{}", "{}", k->d->table.statuses[RELAY_STATUS_NEW]};
    static const char *const fix =
        "change the column as `grapnel outbox init` prints it, or do what the "
        "message says";
    char why[DRIVER_WHY_BYTES];
    struct plan plan;

    if (!explain(k, k->d->look_sql, 1, look, &plan, why)) {
        finding(k, true,
                k->relay->where
                    ? "correct `where` of the relay, if the message is about it"
                    : fix,
                "new rows cannot be read: %s", why);
        return;
    }
    if (k->is_table && !is_served(k, &plan))
        finding(k, false,
                "create it, as `grapnel outbox init` prints it; without it "
                "each look for new rows reads all old ones",
                "table %s has no index of new rows in their order",
                k->d->table.name);
    if (!explain(k, k->d->take_sql, 7, take, &plan, why))
        finding(k, true, fix, "new rows cannot be taken: %s", why);
    if (!explain(k, k->d->fail_sql, 3, fail, &plan, why))
        finding(k, true, fix, "invalid rows cannot be marked: %s", why);
    if (!explain(k, k->d->write_sql, 8, write, &plan, why))
        finding(k, true, fix, "outcomes cannot be written: %s", why);
}

static void check_purge(struct check *k)
{
    const char *const values[] = {k->d->table.statuses[DRIVER_DELIVERED],
                                  "1000", "1"};
    char why[DRIVER_WHY_BYTES];
    struct plan plan;

    if (!k->relay->delete_after_ms)
        return;
    if (!k->d->purge_sql)
        finding(k, true,
                "set `columns.last_attempt_at` or `columns.created_at`, or "
                "after_success: keep",
                "table %s has no column with a time by which delivered rows "
                "are deleted",
                k->d->table.name);
    else if (!explain(k, k->d->purge_sql, 3, values, &plan, why))
        finding(k, true, "do what the message says",
                "delivered rows cannot be deleted: %s", why);
    else if (k->is_table && plan.sorts)
        finding(k, false,
                "create it, as `grapnel outbox init` prints it; without it "
                "each deletion reads the whole table",
                "table %s has no index of delivered rows by their age",
                k->d->table.name);
}

static void check_table(struct check *k)
{
    if (!is_so(k,
               "SELECT bool_or(indisunique AND indnkeyatts = 1 AND indpred IS "
               "NULL AND attname = $2) FROM pg_index JOIN pg_attribute ON "
               "attrelid = indrelid AND attnum = indkey[0] WHERE indrelid = "
               "$1::regclass",
               k->found[COLUMN_id].name))
        finding(k, true,
                "make it the primary key, or give it a unique index: the id "
                "identifies the row for ever",
                "column %s of table %s is not unique", k->found[COLUMN_id].name,
                k->d->table.name);
    if (!is_so(k,
               "SELECT bool_or(tgenabled IN ('O', 'A') AND tgtype & 4 = 4 AND "
               "prosrc LIKE '%grapnel_outbox%') FROM pg_trigger JOIN pg_proc "
               "ON pg_proc.oid = tgfoid WHERE tgrelid = $1::regclass AND NOT "
               "tgisinternal",
               NULL))
        finding(k, false,
                "create it, as `grapnel outbox init` prints it; without it "
                "rows wait for up to `poll`",
                "table %s has no trigger that tells of new rows on the channel "
                "grapnel_outbox",
                k->d->table.name);
}

/* A row without an id is never taken. */
static void check_ids(struct check *k)
{
    char why[DRIVER_WHY_BYTES];
    struct buf sql;
    PGresult *r;

    if (k->found[COLUMN_id].not_null)
        return;
    buf_init(&sql, 4096);
    buf_puts(&sql, "SELECT 1 FROM ");
    pg_put_table(k->d, &sql);
    buf_puts(&sql, " WHERE ");
    pg_put_name(k->d, &sql, k->found[COLUMN_id].name);
    buf_puts(&sql, " IS NULL LIMIT 1");
    if (pg_ask(k->d, sql.data, 0, NULL, &r, why) == GR_OK && PQntuples(r))
        finding(k, false,
                "give them an id, and make the column NOT NULL: they are never "
                "sent",
                "table %s has rows whose %s is NULL", k->d->table.name,
                k->found[COLUMN_id].name);
    PQclear(r);
    buf_fini(&sql);
}

/* Rows that are never taken. A search that takes too long is given up. */
static void check_statuses(struct check *k)
{
    const char *const values[] = {k->d->table.statuses[RELAY_STATUS_NEW],
                                  k->d->table.statuses[DRIVER_RETRYING],
                                  k->d->table.statuses[DRIVER_DELIVERED],
                                  k->d->table.statuses[DRIVER_FAILED]};
    char why[DRIVER_WHY_BYTES];
    struct buf sql;
    PGresult *r;

    buf_init(&sql, 4096);
    buf_puts(&sql, "SELECT coalesce(");
    pg_put_name(k->d, &sql, k->found[COLUMN_status].name);
    buf_puts(&sql, "::text, 'NULL') FROM ");
    pg_put_table(k->d, &sql);
    buf_puts(&sql, " WHERE coalesce(");
    pg_put_name(k->d, &sql, k->found[COLUMN_status].name);
    buf_puts(&sql, "::text NOT IN ($1, $2, $3, $4), true) LIMIT 1");
    if (pg_ask(k->d, sql.data, 4, values, &r, why) == GR_OK && PQntuples(r))
        finding(k, false,
                "set `statuses` of the relay, or change these rows: they are "
                "never sent",
                "table %s has rows with the unknown status %.60s",
                k->d->table.name, PQgetvalue(r, 0, 0));
    PQclear(r);
    buf_fini(&sql);
}

static void check_all(struct check *k)
{
    char why[DRIVER_WHY_BYTES];
    PGresult *r;
    struct buf table;

    if (!connects(k))
        return;
    buf_init(&table, 1024);
    pg_put_table(k->d, &table);
    k->table = buf_take(&table);
    if (!finds_table(k) || !has_columns(k))
        return;
    check_widths(k);
    check_privileges(k);
    if (pg_try_statuses(k->d, k->found, why) != GR_OK) {
        finding(k, true,
                "correct `statuses` of the relay, or the type of the column",
                "%s", why);
        return;
    }
    pg_make_statements(k->d, k->found);
    /* A small table is read as a whole even if there is an index. */
    if (pg_ask(k->d, "SET enable_seqscan = off", 0, NULL, &r, why) == GR_OK)
        check_statements(k);
    PQclear(r);
    check_purge(k);
    if (k->is_table)
        check_table(k);
    if (pg_ask(k->d, "SET statement_timeout = '5s'", 0, NULL, &r, why) == GR_OK)
        check_statuses(k);
    PQclear(r);
    check_ids(k);
}

void pg_check(const struct relay *relay, driver_finding *report, void *self)
{
    struct check k = {.relay = relay,
                      .d = pg_open(relay, "check", 0),
                      .report = report,
                      .self = self};

    check_all(&k);
    free(k.table);
    pg_close(k.d);
}
