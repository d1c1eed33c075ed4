/* outbox_init: `grapnel outbox init`: the SQL that prepares a database for a relay. */
#include "ctl.h"
#include "relay_uri.h"
#include "relays.h"
#include <stdio.h>
#include <string.h>

enum { SQL_MAX_BYTES = 64 * 1024 };

/* Types of columns. */
static const struct {
    const char *id, *payload, *created_at, *time;
} types[] = {
    [RELAY_POSTGRES] = {"VARCHAR(36) PRIMARY KEY", "TEXT",
                        "TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()",
                        "TIMESTAMPTZ"},
    [RELAY_SQLITE] = {"VARCHAR(36) NOT NULL PRIMARY KEY", "TEXT",
                      "TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d "
                      "%H:%M:%f', 'now'))",
                      "TEXT"},
    [RELAY_MARIADB] = {"VARCHAR(36) PRIMARY KEY", "LONGTEXT",
                       "DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)",
                       "DATETIME(3)"},
};

static void put_quoted(struct buf *out, const char *text, size_t n, char quote)
{
    buf_put(out, &quote, 1);
    for (size_t i = 0; i < n; i++) {
        if (text[i] == quote)
            buf_put(out, &quote, 1);
        buf_put(out, text + i, 1);
    }
    buf_put(out, &quote, 1);
}

static char quote_of(const struct relay *r)
{
    return relay_kind(r) == RELAY_MARIADB ? '`' : '"';
}

static void put_name(struct buf *out, const struct relay *r, const char *name)
{
    put_quoted(out, name, strlen(name), quote_of(r));
}

static void put_value(struct buf *out, const char *text)
{
    put_quoted(out, text, strlen(text), '\'');
}

static const char *table_alone(const struct relay *r)
{
    const char *dot = strchr(r->table, '.');

    return dot ? dot + 1 : r->table;
}

/* With its schema. `suffix`: of the name of something that belongs to it. */
static void put_table(struct buf *out, const struct relay *r,
                      const char *suffix)
{
    char *name = gr_printf("%.48s%s", table_alone(r), suffix);
    const char *alone = *suffix ? name : table_alone(r);

    if (alone != r->table && strchr(r->table, '.')) {
        put_quoted(out, r->table, strcspn(r->table, "."), quote_of(r));
        buf_puts(out, ".");
    }
    put_name(out, r, alone);
    free(name);
}

static void put_column(struct buf *out, const struct relay *r, const char *name,
                       const char *usual, const char *type)
{
    buf_puts(out, "  ");
    put_name(out, r, name ? name : usual);
    buf_printf(out, " %s,\n", type);
}

static void put_status(struct buf *out, const struct relay *r)
{
    buf_puts(out, "  ");
    put_name(out, r, r->columns.status ? r->columns.status : "status");
    buf_puts(out, " VARCHAR(50) NOT NULL DEFAULT ");
    put_value(out, r->statuses.fresh);
    buf_puts(out, ",\n");
}

static void put_create(struct buf *out, const struct relay *r)
{
    buf_puts(out, "-- The table, if the application has none yet.\n"
                  "CREATE TABLE IF NOT EXISTS ");
    put_table(out, r, "");
    buf_puts(out, " (\n");
    put_column(out, r, r->columns.id, "id", types[relay_kind(r)].id);
    put_column(out, r, r->columns.url, "target_url", "VARCHAR(255)");
    put_column(out, r, r->columns.payload, "payload",
               types[relay_kind(r)].payload);
    if (r->columns.type)
        put_column(out, r, r->columns.type, "", "VARCHAR(255)");
    if (r->columns.workspace)
        put_column(out, r, r->columns.workspace, "", "VARCHAR(255)");
    if (r->columns.endpoint)
        put_column(out, r, r->columns.endpoint, "", "VARCHAR(63)");
    if (r->columns.ordering_key)
        put_column(out, r, r->columns.ordering_key, "", "VARCHAR(255)");
    put_status(out, r);
    put_column(out, r, r->columns.created_at, "created_at",
               types[relay_kind(r)].created_at);
    put_column(out, r, r->columns.last_attempt, "last_attempt_at",
               types[relay_kind(r)].time);
    put_column(out, r, r->columns.next_attempt, "next_attempt_at",
               types[relay_kind(r)].time);
    put_column(out, r, r->columns.retry_count, "retry_count",
               "INT NOT NULL DEFAULT 0");
    if (r->columns.event_id)
        put_column(out, r, r->columns.event_id, "", "VARCHAR(40)");
    buf_puts(out, "  ");
    put_name(out, r, r->columns.error ? r->columns.error : "error_message");
    buf_puts(out, relay_kind(r) == RELAY_MARIADB
                      ? " TEXT\n) ENGINE = InnoDB, DEFAULT CHARSET = utf8mb4;"
                        "\n\n"
                      : " TEXT\n);\n\n");
}

static void put_index_name(struct buf *out, const struct relay *r,
                           const char *suffix)
{
    char *name = gr_printf("%.40s%s", table_alone(r), suffix);

    put_name(out, r, name);
    free(name);
}

/* An index of the rows with this status: a partial one, where the database has such. The name of the index
 * and its columns follow. */
static void put_index(struct buf *out, const struct relay *r,
                      const char *suffix, const char *status, const char *first,
                      const char *second)
{
    const char *column = r->columns.status ? r->columns.status : "status";
    bool partial = relay_kind(r) != RELAY_MARIADB;

    buf_puts(out, "CREATE INDEX IF NOT EXISTS ");
    put_index_name(out, r, suffix);
    buf_puts(out, " ON ");
    put_table(out, r, "");
    buf_puts(out, "\n  (");
    if (!partial) {
        put_name(out, r, column);
        buf_puts(out, ", ");
    }
    put_name(out, r, first);
    if (second) {
        buf_puts(out, ", ");
        put_name(out, r, second);
    }
    buf_puts(out, ")");
    if (partial) {
        buf_puts(out, " WHERE ");
        put_name(out, r, column);
        buf_puts(out, " = ");
        put_value(out, status);
    }
    buf_puts(out, ";\n\n");
}

static void put_indexes(struct buf *out, const struct relay *r)
{
    buf_puts(out, "-- New rows are found by this index, however many old ones "
                  "there are.\n");
    put_index(out, r, "_grapnel_outbox_new", r->statuses.fresh,
              r->columns.created_at ? r->columns.created_at : "created_at",
              r->columns.id ? r->columns.id : "id");
    if (!r->delete_after_ms)
        return;
    buf_puts(out, "-- Delivered rows that are to be deleted are found by this "
                  "index.\n");
    put_index(out, r, "_grapnel_outbox_old", r->statuses.delivered,
              r->columns.last_attempt ? r->columns.last_attempt
                                      : "last_attempt_at",
              NULL);
}

static void put_trigger(struct buf *out, const struct relay *r)
{
    buf_puts(out, "-- Tells relays of new rows at once; without it they look "
                  "every `poll`.\nCREATE OR REPLACE FUNCTION ");
    put_table(out, r, "_notify");
    buf_puts(out,
             "() RETURNS trigger LANGUAGE plpgsql AS\n  $$ BEGIN PERFORM "
             "pg_notify('grapnel_outbox', ''); RETURN NULL; END $$;\n"
             "CREATE OR REPLACE TRIGGER grapnel_outbox_notify AFTER INSERT "
             "ON ");
    put_table(out, r, "");
    buf_puts(out, "\n  FOR EACH STATEMENT EXECUTE FUNCTION ");
    put_table(out, r, "_notify");
    buf_puts(out, "();\n");
}

/* The user of the URI, "" if it names none. */
static struct bytes user_of(const struct relay *r)
{
    const char *at = strstr(r->database, "://") + 3;
    size_t n = strcspn(at, "/?");
    const char *end = memchr(at, '@', n);

    return (struct bytes){at, end ? (size_t)(end - at) : 0};
}

/* It may read the table and change its rows, and nothing else. */
static void put_grants(struct buf *out, const struct relay *r)
{
    struct bytes user = user_of(r);

    if (!user.n)
        return;
    buf_puts(out, "\n-- The user of the relay. Create it first: CREATE ROLE ");
    put_quoted(out, user.p, user.n, '"');
    buf_printf(out, " LOGIN PASSWORD '…'\nGRANT SELECT, UPDATE%s ON ",
               r->delete_after_ms ? ", DELETE" : "");
    put_table(out, r, "");
    buf_puts(out, " TO ");
    put_quoted(out, user.p, user.n, '"');
    buf_puts(out, ";\n");
    if (!strchr(r->table, '.'))
        return;
    buf_puts(out, "GRANT USAGE ON SCHEMA ");
    put_quoted(out, r->table, strcspn(r->table, "."), quote_of(r));
    buf_puts(out, " TO ");
    put_quoted(out, user.p, user.n, '"');
    buf_puts(out, ";\n");
}

static void put_mysql_grant(struct buf *out, const struct relay *r)
{
    struct relay_uri u;

    if (relay_uri_parse(&u, r->database) == NULL && u.user) {
        buf_puts(out,
                 "-- The user of the relay. Create it first: CREATE USER ");
        put_value(out, u.user);
        buf_printf(out, "@'%%' IDENTIFIED BY '…'\nGRANT SELECT, UPDATE%s ON ",
                   r->delete_after_ms ? ", DELETE" : "");
        if (!strchr(r->table, '.')) {
            put_name(out, r, u.database);
            buf_puts(out, ".");
        }
        put_table(out, r, "");
        buf_puts(out, " TO ");
        put_value(out, u.user);
        buf_puts(out, "@'%';\n");
    }
    relay_uri_fini(&u);
}

int run_outbox_init(struct ctl *c)
{
    static const char *const keys[] = {"outbox", NULL};
    const struct relay *r;
    struct buf sql;
    int code = 0;

    need_settings(c, keys,
                  "outbox init needs only `outbox` of the "
                  "configuration");
    r = find_relay(c, &code);
    if (!r)
        return code;
    buf_init(&sql, SQL_MAX_BYTES);
    put_create(&sql, r);
    put_indexes(&sql, r);
    if (relay_kind(r) == RELAY_POSTGRES) {
        put_trigger(&sql, r);
        put_grants(&sql, r);
    } else if (relay_kind(r) == RELAY_MARIADB) {
        put_mysql_grant(&sql, r);
    }
    fwrite(sql.data, 1, sql.len, stdout);
    buf_fini(&sql);
    return 0;
}
