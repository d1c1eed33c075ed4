/* postgres_sql: writes the statements of a relay for the columns that its PostgreSQL table has. */
#include "named_url.h"
#include "postgres.h"
#include "published.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Characters that are read of a URL, a type and the like. A text that is longer than a row may have
 * stays too long, so the row is refused. */
enum { TAKEN_TEXT_MAX = 4097 };
static_assert((int)TAKEN_TEXT_MAX > (int)NAMED_URL_MAX_BYTES &&
                  (int)TAKEN_TEXT_MAX > (int)PUBLISHED_TEXT_MAX_BYTES,
              "a longer text must stay too long");

static void put_part(struct driver *d, struct buf *sql, const char *name,
                     size_t n)
{
    char *quoted = PQescapeIdentifier(d->conn, name, n);

    buf_puts(sql, quoted ? quoted : "");
    PQfreemem(quoted);
}

void pg_put_name(struct driver *d, struct buf *sql, const char *name)
{
    put_part(d, sql, name, strlen(name));
}

void pg_put_table(struct driver *d, struct buf *sql)
{
    const char *dot = strchr(d->table.name, '.');

    if (dot) {
        put_part(d, sql, d->table.name, (size_t)(dot - d->table.name));
        buf_puts(sql, ".");
    }
    pg_put_name(d, sql, dot ? dot + 1 : d->table.name);
}

gr_rc pg_find_columns(struct driver *d, struct pg_column found[COLUMN_COUNT],
                      char why[DRIVER_WHY_BYTES])
{
    PGresult *r;
    struct buf table;
    const char *value;
    gr_rc rc;

    memset(found, 0, COLUMN_COUNT * sizeof *found);
    buf_init(&table, TABLE_SQL_BYTES);
    pg_put_table(d, &table);
    value = table.data;
    rc = pg_ask(
        d,
        "SELECT attname, format_type(atttypid, -1), CASE WHEN "
        "atttypid IN ('varchar'::regtype, 'bpchar'::regtype) AND "
        "atttypmod > 4 THEN atttypmod - 4 ELSE 0 END, attnotnull FROM "
        "pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT "
        "attisdropped",
        1, &value, &r, why);
    buf_fini(&table);
    for (int c = 0; rc == GR_OK && c < COLUMN_COUNT; c++) {
        const char *name = d->table.columns[c] ? d->table.columns[c]
                                               : usual_columns[c].usual;

        for (int i = 0; i < PQntuples(r); i++)
            if (strcmp(PQgetvalue(r, i, 0), name) == 0) {
                found[c].name = name;
                snprintf(found[c].type, sizeof found[c].type, "%s",
                         PQgetvalue(r, i, 1));
                found[c].width = (int)strtol(PQgetvalue(r, i, 2), NULL, 10);
                found[c].not_null = *PQgetvalue(r, i, 3) == 't';
            }
    }
    PQclear(r);
    return rc;
}

gr_rc pg_try_statuses(struct driver *d,
                      const struct pg_column found[COLUMN_COUNT],
                      char why[DRIVER_WHY_BYTES])
{
    const struct pg_column *column = &found[COLUMN_status];
    const char *const *words = (const char *const *)d->table.statuses;
    char message[DRIVER_WHY_BYTES];
    char *sql = gr_printf("SELECT s, s::%s::text FROM unnest(ARRAY[$1, $2, $3, "
                          "$4]::text[]) s WHERE s::%s::text <> s",
                          column->type, column->type);
    PGresult *r;
    gr_rc rc = pg_ask(d, sql, RELAY_STATUS_COUNT, words, &r, message);

    if (rc == GR_OK && PQntuples(r)) {
        snprintf(message, sizeof message, "%.60s would become %.60s",
                 PQgetvalue(r, 0, 0), PQgetvalue(r, 0, 1));
        rc = GR_REFUSE;
    }
    if (rc != GR_OK)
        snprintf(why, DRIVER_WHY_BYTES,
                 "column %.63s of type %.90s does not take the statuses of "
                 "relay %.63s: %.200s",
                 column->name, column->type, d->table.relay, message);
    PQclear(r);
    free(sql);
    return rc;
}

/* A configured column, and those that are always needed, must be there. */
bool pg_lacks(const struct driver *d,
              const struct pg_column found[COLUMN_COUNT], enum column c)
{
    return !found[c].name && (d->table.columns[c] || c <= COLUMN_status);
}

static bool is_time(const struct pg_column *c)
{
    return c->name && strncmp(c->type, "timestamp", strlen("timestamp")) == 0;
}

static void put_column(struct driver *d, struct buf *sql, const char *before,
                       const struct pg_column *c, const char *after)
{
    buf_puts(sql, before);
    if (c->name)
        pg_put_name(d, sql, c->name);
    else
        buf_puts(sql, "NULL");
    buf_puts(sql, after);
}

/* Sets a time of an outcome, which is in ms, or 0. */
static void put_time(struct driver *d, struct buf *sql,
                     const struct pg_column *c, const char *ms)
{
    if (!c->name)
        return;
    put_column(d, sql, ", ", c, " = CASE WHEN ");
    buf_printf(sql, "%s > 0 THEN to_timestamp(%s / 1000.0)", ms, ms);
    if (c->not_null)
        put_column(d, sql, " ELSE o.", c, "");
    buf_puts(sql, " END");
}

/* The rows that the relay is about; $`status`: with this status. Rows without an id are left
 * out, because no statement could name them. */
static void put_rows(struct driver *d,
                     const struct pg_column found[COLUMN_COUNT],
                     struct buf *sql, int status)
{
    buf_puts(sql, " FROM ");
    pg_put_table(d, sql);
    put_column(d, sql, " WHERE ", &found[COLUMN_status], "");
    buf_printf(sql, " = $%d", status);
    put_column(d, sql, " AND ", &found[COLUMN_id], " IS NOT NULL");
    if (d->table.where)
        buf_printf(sql, " AND (%s)", d->table.where);
}

static void put_order(struct driver *d,
                      const struct pg_column found[COLUMN_COUNT],
                      struct buf *sql)
{
    buf_puts(sql, " ORDER BY ");
    if (found[COLUMN_created_at].name)
        put_column(d, sql, "", &found[COLUMN_created_at], ", ");
    put_column(d, sql, "", &found[COLUMN_id], "");
}

/* $1: how many; $2: `new`; $3: `retrying`; $4: bytes of a payload that is read; $5: bytes of all;
 * $6: ids that are not taken; $7: the name of the lock.
 *
 * Nothing is taken while an earlier transaction of this relay still has rows locked in the server,
 * because its process or its connection died: the rows behind those would overtake them.
 *
 * Rows are locked in their order; those that another relay has locked are skipped. Of these, as
 * many are taken as have payloads of so many bytes together; the others are unlocked by the commit. */
static void make_take(struct driver *d,
                      const struct pg_column found[COLUMN_COUNT])
{
    bool is_bytes = strcmp(found[COLUMN_payload].type, "bytea") == 0;
    struct buf q;

    buf_init(&q, TABLE_SQL_BYTES);
    put_column(d, &q, "WITH locked AS (SELECT ", &found[COLUMN_id], " AS id, ");
    put_column(d, &q, "octet_length(t.", &found[COLUMN_payload],
               is_bytes ? ")" : "::text)");
    buf_puts(&q, " AS bytes, row_number() OVER () AS at FROM (SELECT ");
    put_column(d, &q, "", &found[COLUMN_id], ", ");
    put_column(d, &q, "", &found[COLUMN_payload], "");
    put_rows(d, found, &q, 2);
    put_column(d, &q, " AND ", &found[COLUMN_id], " <> ALL ($6::");
    buf_printf(&q,
               "%s[]) AND (SELECT "
               "pg_try_advisory_xact_lock(hashtextextended($7, 0)))",
               found[COLUMN_id].type);
    put_order(d, found, &q);
    buf_puts(&q, " LIMIT $1::int FOR UPDATE SKIP LOCKED) t), chosen AS (SELECT "
                 "id, at, bytes FROM (SELECT id, at, bytes, sum(bytes) OVER "
                 "(ORDER BY at) - bytes AS before FROM locked) s WHERE "
                 "coalesce(before, 0) < $5::bigint) UPDATE ");
    pg_put_table(d, &q);
    put_column(d, &q, " AS o SET ", &found[COLUMN_status], " = $3");
    if (found[COLUMN_next_attempt].name && !found[COLUMN_next_attempt].not_null)
        put_column(d, &q, ", ", &found[COLUMN_next_attempt], " = NULL");
    put_column(d, &q, " FROM chosen WHERE o.", &found[COLUMN_id],
               " = chosen.id RETURNING chosen.at, ");
    put_column(d, &q, "o.", &found[COLUMN_id], "::text, chosen.bytes, ");
    buf_puts(&q, "CASE WHEN chosen.bytes <= $4::bigint THEN ");
    put_column(d, &q, is_bytes ? "convert_from(o." : "o.",
               &found[COLUMN_payload],
               is_bytes ? ", 'UTF8') END" : "::text END");
    for (int c = COLUMN_url; c <= COLUMN_ordering_key; c++) {
        put_column(d, &q, found[c].name ? ", left(o." : ", left(", &found[c],
                   "::text, ");
        buf_printf(&q, "%d)", TAKEN_TEXT_MAX);
    }
    buf_puts(&q, ", (false");
    if (found[COLUMN_last_attempt].name && !found[COLUMN_last_attempt].not_null)
        put_column(d, &q, " OR o.", &found[COLUMN_last_attempt],
                   " IS NOT NULL");
    if (found[COLUMN_error].name)
        put_column(d, &q, " OR coalesce(o.", &found[COLUMN_error],
                   "::text, '') <> ''");
    buf_puts(&q, "), ");
    if (is_time(&found[COLUMN_created_at]))
        put_column(d, &q, "(extract(epoch FROM clock_timestamp() - o.",
                   &found[COLUMN_created_at], ") * 1000)::bigint");
    else
        buf_puts(&q, "NULL");
    d->take_sql = buf_take(&q);
}

/* $1: `new`; $2: ids that are not taken: the row that would be taken first. */
static void make_first(struct driver *d,
                       const struct pg_column found[COLUMN_COUNT])
{
    struct buf q;

    buf_init(&q, TABLE_SQL_BYTES);
    put_column(d, &q, "SELECT ", &found[COLUMN_id], "::text");
    put_rows(d, found, &q, 1);
    put_column(d, &q, " AND ", &found[COLUMN_id], " <> ALL ($2::");
    buf_printf(&q, "%s[])", found[COLUMN_id].type);
    put_order(d, found, &q);
    buf_puts(&q, " LIMIT 1 FOR UPDATE SKIP LOCKED");
    d->first_sql = buf_take(&q);
}

/* $1: `new`. */
static void make_look(struct driver *d,
                      const struct pg_column found[COLUMN_COUNT])
{
    struct buf q;

    buf_init(&q, TABLE_SQL_BYTES);
    buf_puts(&q, "SELECT count(*), (extract(epoch FROM clock_timestamp() - "
                 "min(at)) * 1000)::bigint FROM (SELECT ");
    if (is_time(&found[COLUMN_created_at]))
        put_column(d, &q, "", &found[COLUMN_created_at], " AS at");
    else
        buf_puts(&q, "NULL::timestamptz AS at");
    put_rows(d, found, &q, 1);
    put_order(d, found, &q);
    buf_printf(&q, " LIMIT %d) t", DRIVER_COUNT_MAX);
    d->look_sql = buf_take(&q);
}

/* $1: `delivered`; $2: the age, in ms; $3: how many. */
static void make_purge(struct driver *d,
                       const struct pg_column found[COLUMN_COUNT])
{
    const struct pg_column *age = &found[COLUMN_last_attempt];
    struct buf q;

    if (!is_time(age))
        age = &found[COLUMN_created_at];
    if (!is_time(age))
        return;
    buf_init(&q, TABLE_SQL_BYTES);
    buf_puts(&q, "DELETE FROM ");
    pg_put_table(d, &q);
    put_column(d, &q, " WHERE ", &found[COLUMN_id], " = ANY (ARRAY(SELECT ");
    put_column(d, &q, "", &found[COLUMN_id], "");
    put_rows(d, found, &q, 1);
    put_column(d, &q, " AND ", age,
               " < now() - $2::bigint * interval '1 millisecond' ORDER BY ");
    put_column(d, &q, "", age, " LIMIT $3::int FOR UPDATE SKIP LOCKED))");
    d->purge_sql = buf_take(&q);
}

/* $1: ids; $2: reasons; $3: `failed`. */
static void make_fail(struct driver *d,
                      const struct pg_column found[COLUMN_COUNT])
{
    struct buf q;

    buf_init(&q, TABLE_SQL_BYTES);
    buf_puts(&q, "UPDATE ");
    pg_put_table(d, &q);
    put_column(d, &q, " AS o SET ", &found[COLUMN_status], " = $3");
    if (found[COLUMN_error].name)
        put_column(d, &q, ", ", &found[COLUMN_error], " = f.why");
    put_column(d, &q,
               " FROM unnest($1::text[], $2::text[]) AS f(id, why) WHERE o.",
               &found[COLUMN_id], " = f.id::");
    buf_puts(&q, found[COLUMN_id].type);
    d->fail_sql = buf_take(&q);
}

static void put_literal(struct driver *d, struct buf *sql, const char *text)
{
    char *quoted = PQescapeLiteral(d->conn, text, strlen(text));

    buf_puts(sql, quoted ? quoted : "NULL");
    PQfreemem(quoted);
}

/* The final status of the row is of a later attempt: another process has written it (driver.h). */
static void put_not_older(struct driver *d,
                          const struct pg_column found[COLUMN_COUNT],
                          struct buf *q)
{
    const struct pg_column *last = &found[COLUMN_last_attempt];

    if (!is_time(last))
        return;
    put_column(d, q, " AND (w.last_ms > 0 AND o.", &found[COLUMN_status],
               " IN (");
    put_literal(d, q, d->table.statuses[DRIVER_DELIVERED]);
    buf_puts(q, ", ");
    put_literal(d, q, d->table.statuses[DRIVER_FAILED]);
    put_column(d, q, ") AND o.", last, " > to_timestamp((w.last_ms + ");
    buf_printf(q, "%d) / 1000.0)", DRIVER_NEWER_MS);
    put_column(d, q, " AND o.", last, " <= clock_timestamp()) IS NOT TRUE");
}

/* $1: ids; $2: statuses; $3: retries; $4, $5: times, in ms; $6: errors; $7: events; $8: `new`. */
static void make_write(struct driver *d,
                       const struct pg_column found[COLUMN_COUNT])
{
    struct buf q;

    buf_init(&q, TABLE_SQL_BYTES);
    buf_puts(&q, "UPDATE ");
    pg_put_table(d, &q);
    put_column(d, &q, " AS o SET ", &found[COLUMN_status], " = w.status::");
    buf_puts(&q, found[COLUMN_status].type);
    if (found[COLUMN_retry_count].name)
        put_column(d, &q, ", ", &found[COLUMN_retry_count], " = w.retries");
    put_time(d, &q, &found[COLUMN_last_attempt], "w.last_ms");
    put_time(d, &q, &found[COLUMN_next_attempt], "w.next_ms");
    if (found[COLUMN_error].name)
        put_column(d, &q, ", ", &found[COLUMN_error],
                   found[COLUMN_error].not_null ? " = w.error"
                                                : " = nullif(w.error, '')");
    if (found[COLUMN_event_id].name)
        put_column(d, &q, ", ", &found[COLUMN_event_id], " = w.event");
    buf_puts(&q, " FROM unnest($1::text[], $2::text[], $3::int[], "
                 "$4::bigint[], $5::bigint[], $6::text[], $7::text[]) AS w(id, "
                 "status, retries, last_ms, next_ms, error, event)");
    put_column(d, &q, " WHERE o.", &found[COLUMN_id], " = w.id::");
    buf_puts(&q, found[COLUMN_id].type);
    put_column(d, &q, " AND o.", &found[COLUMN_status], " <> $8");
    put_not_older(d, found, &q);
    put_column(d, &q, " RETURNING o.", &found[COLUMN_id], "::text");
    d->write_sql = buf_take(&q);
    buf_init(&q, TABLE_SQL_BYTES);
    put_column(d, &q, "SELECT ", &found[COLUMN_id], "::text FROM ");
    pg_put_table(d, &q);
    put_column(d, &q, " WHERE ", &found[COLUMN_id], " = ANY($1::");
    buf_puts(&q, found[COLUMN_id].type);
    put_column(d, &q, "[]) AND ", &found[COLUMN_status], " = $2");
    d->new_sql = buf_take(&q);
}

void pg_make_statements(struct driver *d,
                        const struct pg_column found[COLUMN_COUNT])
{
    make_take(d, found);
    make_first(d, found);
    make_fail(d, found);
    make_write(d, found);
    make_look(d, found);
    make_purge(d, found);
}
