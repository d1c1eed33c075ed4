/* postgres: takes rows of a PostgreSQL table by libpq, a batch in one round trip (pipeline mode). */
#include "alloc.h"
#include "clock.h"
#include "driver.h"
#include "log.h"
#include "settings.h"
#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PASSWORD_MAX_BYTES = 1024,
    SQL_MAX_BYTES = 64 * 1024,
};

enum column {
#define C(MEMBER, key, usual) COLUMN_##MEMBER,
    RELAY_COLUMNS(C)
#undef C
        COLUMN_COUNT
};

static const struct {
    const char *key, *usual;
} columns[COLUMN_COUNT] = {
#define C(MEMBER, key, usual) [COLUMN_##MEMBER] = {key, usual},
    RELAY_COLUMNS(C)
#undef C
};

/* What take() returns of each row, in this order. */
enum taken {
    TAKEN_ORDER,
    TAKEN_ID,
    TAKEN_BYTES,
    TAKEN_PAYLOAD,
    TAKEN_URL,
    TAKEN_TYPE,
    TAKEN_WORKSPACE,
    TAKEN_ENDPOINT,
    TAKEN_ATTEMPTED,
};

struct driver {
    char *relay, *process, *database, *password_file, *table, *where;
    char *names[COLUMN_COUNT]; /* as configured, or NULL */
    char *fresh, *retrying, *delivered, *failed;
    int64_t max_payload_bytes;
    PGconn *conn;
    PGresult *taken;
    size_t *order; /* rows of `taken` in the order in which they are sent */
    size_t count;
    bool in_transaction;
    char *take_sql, *fail_sql, *write_sql, *new_sql;
};

static char *copy(const char *text)
{
    return text ? gr_strdup(text) : NULL;
}

static struct driver *pg_open(const struct relay *r, const char *process,
                              int64_t max_payload_bytes)
{
    struct driver *d = gr_alloc(sizeof *d);

    *d = (struct driver){
        .relay = gr_strdup(r->name),
        .process = gr_strdup(process),
        .database = gr_strdup(r->database),
        .password_file = copy(r->password_file),
        .table = gr_strdup(r->table),
        .where = copy(r->where),
        .fresh = gr_strdup(r->statuses.fresh),
        .retrying = gr_strdup(r->statuses.retrying),
        .delivered = gr_strdup(r->statuses.delivered),
        .failed = gr_strdup(r->statuses.failed),
        .max_payload_bytes = max_payload_bytes,
    };
#define C(MEMBER, key, usual) \
    d->names[COLUMN_##MEMBER] = copy(r->columns.MEMBER);
    RELAY_COLUMNS(C)
#undef C
    return d;
}

static void forget_rows(struct driver *d)
{
    PQclear(d->taken);
    d->taken = NULL;
    free(d->order);
    d->order = NULL;
    d->count = 0;
}

static void disconnect(struct driver *d)
{
    forget_rows(d);
    PQfinish(d->conn);
    d->conn = NULL;
    d->in_transaction = false;
    free(d->take_sql);
    free(d->fail_sql);
    free(d->write_sql);
    free(d->new_sql);
    d->take_sql = d->fail_sql = d->write_sql = d->new_sql = NULL;
}

static void pg_close(struct driver *d)
{
    disconnect(d);
    for (int i = 0; i < COLUMN_COUNT; i++)
        free(d->names[i]);
    free(d->relay);
    free(d->process);
    free(d->database);
    free(d->password_file);
    free(d->table);
    free(d->where);
    free(d->fresh);
    free(d->retrying);
    free(d->delivered);
    free(d->failed);
    free(d);
}

/* ---- replies, within a time limit ---- */

/* The message of libpq or of the server, in one line. */
static gr_rc refuse(char why[DRIVER_WHY_BYTES], const char *what,
                    const char *message)
{
    size_t n;

    snprintf(why, DRIVER_WHY_BYTES, "%s%s%s", what, *message ? ": " : "",
             message);
    for (char *p = why; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
    n = strlen(why);
    while (n && why[n - 1] == ' ')
        why[--n] = 0;
    return GR_REFUSE;
}

/* Sends what is buffered, and waits until a reply is there. */
static gr_rc wait_reply(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    int64_t end_ms = mono_ms() + DRIVER_REPLY_MS;
    int unsent = 1;

    while (unsent || PQisBusy(d->conn)) {
        struct pollfd fd = {.fd = PQsocket(d->conn), .events = POLLIN};
        int64_t left_ms = end_ms - mono_ms();

        unsent = PQflush(d->conn);
        if (unsent < 0)
            return refuse(why, "connection lost", PQerrorMessage(d->conn));
        if (!unsent && !PQisBusy(d->conn))
            return GR_OK;
        if (unsent)
            fd.events |= POLLOUT;
        if (left_ms <= 0)
            return refuse(why, "the database did not reply within 30 s", "");
        if (poll(&fd, 1, (int)left_ms) < 0 && errno != EINTR)
            return refuse(why, "poll", strerror(errno));
        if (fd.revents & (POLLIN | POLLHUP | POLLERR) &&
            !PQconsumeInput(d->conn))
            return refuse(why, "connection lost", PQerrorMessage(d->conn));
    }
    return GR_OK;
}

/* The next result of the pipeline; the caller's. NULL with GR_OK: the end of a query's. */
static gr_rc next_result(struct driver *d, PGresult **result,
                         char why[DRIVER_WHY_BYTES])
{
    *result = NULL;
    if (wait_reply(d, why) != GR_OK)
        return GR_REFUSE;
    *result = PQgetResult(d->conn);
    return GR_OK;
}

static bool is_good(const PGresult *r)
{
    ExecStatusType s = PQresultStatus(r);

    return s == PGRES_COMMAND_OK || s == PGRES_TUPLES_OK;
}

/* Reads the results of `count` queries and the sync behind them; stores those for which `keep` has
 * a place, which are the caller's. After an error the rest is read, too, so that the connection can be used again. */
static gr_rc read_results(struct driver *d, int count, PGresult **const *keep,
                          char why[DRIVER_WHY_BYTES])
{
    char error[DRIVER_WHY_BYTES];
    bool failed = false, synced = false;
    int at = 0;

    while (!synced) {
        PGresult *r;

        if (next_result(d, &r, error) != GR_OK) {
            memcpy(why, error, sizeof error);
            return GR_REFUSE;
        }
        if (!r) { /* the end of one query */
            if (PQstatus(d->conn) != CONNECTION_OK)
                return refuse(why, "connection lost", PQerrorMessage(d->conn));
            continue;
        }
        if (PQresultStatus(r) == PGRES_PIPELINE_SYNC) {
            synced = true;
        } else if (PQresultStatus(r) == PGRES_PIPELINE_ABORTED) {
            at++;
        } else if (!is_good(r)) {
            if (!failed)
                (void)refuse(why, "the database refused a statement",
                             PQresultErrorMessage(r));
            failed = true;
            at++;
        } else {
            if (at < count && keep && keep[at] && !failed) {
                *keep[at] = r;
                r = NULL;
            }
            at++;
        }
        PQclear(r);
    }
    return failed ? GR_REFUSE : GR_OK;
}

static bool send_query(struct driver *d, const char *sql, int n,
                       const char *const *values)
{
    return PQsendQueryParams(d->conn, sql, n, NULL, values, NULL, NULL, 0) == 1;
}

/* One statement by itself. The result is the caller's. */
static gr_rc ask(struct driver *d, const char *sql, int n,
                 const char *const *values, PGresult **result,
                 char why[DRIVER_WHY_BYTES])
{
    *result = NULL;
    if (!send_query(d, sql, n, values) || !PQpipelineSync(d->conn))
        return refuse(why, "connection lost", PQerrorMessage(d->conn));
    return read_results(d, 1, (PGresult * *const[]){result}, why);
}

/* ---- the table ---- */

static void put_name(struct driver *d, struct buf *sql, const char *name,
                     size_t n)
{
    char *quoted = PQescapeIdentifier(d->conn, name, n);

    buf_puts(sql, quoted ? quoted : "");
    PQfreemem(quoted);
}

static void put_table(struct driver *d, struct buf *sql)
{
    const char *dot = strchr(d->table, '.');

    if (dot) {
        put_name(d, sql, d->table, (size_t)(dot - d->table));
        buf_puts(sql, ".");
    }
    put_name(d, sql, dot ? dot + 1 : d->table,
             strlen(dot ? dot + 1 : d->table));
}

/* Which columns the table has. A usual name that it does not have is not used; a configured one,
 * and those that are always needed, must be there. */
static gr_rc find_columns(struct driver *d, const char *found[COLUMN_COUNT],
                          char **id_type, char why[DRIVER_WHY_BYTES])
{
    PGresult *r;
    struct buf table;
    const char *value;
    gr_rc rc;

    buf_init(&table, SQL_MAX_BYTES);
    put_table(d, &table);
    value = table.data;
    rc = ask(d,
             "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
             "WHERE attrelid = $1::regclass "
             "AND attnum > 0 AND NOT attisdropped",
             1, &value, &r, why);
    buf_fini(&table);
    for (int c = 0; rc == GR_OK && c < COLUMN_COUNT; c++) {
        const char *name = d->names[c] ? d->names[c] : columns[c].usual;

        found[c] = NULL;
        for (int i = 0; i < PQntuples(r); i++)
            if (strcmp(PQgetvalue(r, i, 0), name) == 0) {
                found[c] = name;
                if (c == COLUMN_id && !*id_type)
                    *id_type = gr_strdup(PQgetvalue(r, i, 1));
            }
        if (!found[c] && (d->names[c] || c <= COLUMN_status)) {
            snprintf(why, DRIVER_WHY_BYTES,
                     "table %s has no column %s: set columns.%s of relay %s",
                     d->table, name, columns[c].key, d->relay);
            rc = GR_REFUSE;
        }
    }
    PQclear(r);
    return rc;
}

static void put_column(struct driver *d, struct buf *sql, const char *before,
                       const char *name, const char *after)
{
    buf_puts(sql, before);
    if (name)
        put_name(d, sql, name, strlen(name));
    else
        buf_puts(sql, "NULL");
    buf_puts(sql, after);
}

/* $1: how many; $2: `new`; $3: `retrying`; $4: bytes of a payload that is read; $5: bytes of all.
 *
 * Rows are locked in their order; those that another relay has locked are skipped. Of these, as
 * many are taken as have payloads of so many bytes together; the others are unlocked by the commit. */
static void make_take(struct driver *d, const char *found[COLUMN_COUNT])
{
    struct buf q;

    buf_init(&q, SQL_MAX_BYTES);
    put_column(d, &q, "WITH locked AS (SELECT ", found[COLUMN_id], " AS id, ");
    put_column(d, &q, "octet_length(t.", found[COLUMN_payload],
               "::text) AS bytes, row_number() OVER () AS at FROM (SELECT ");
    put_column(d, &q, "", found[COLUMN_id], ", ");
    put_column(d, &q, "", found[COLUMN_payload], " FROM ");
    put_table(d, &q);
    put_column(d, &q, " WHERE ", found[COLUMN_status], " = $2");
    if (d->where)
        buf_printf(&q, " AND (%s)", d->where);
    buf_puts(&q, " ORDER BY ");
    if (found[COLUMN_created_at])
        put_column(d, &q, "", found[COLUMN_created_at], ", ");
    put_column(d, &q, "", found[COLUMN_id],
               " LIMIT $1::int FOR UPDATE SKIP LOCKED) t), chosen AS (SELECT "
               "id, at, bytes FROM (SELECT id, at, bytes, sum(bytes) OVER "
               "(ORDER BY at) - bytes AS before FROM locked) s WHERE "
               "coalesce(before, 0) < $5::bigint) UPDATE ");
    put_table(d, &q);
    put_column(d, &q, " AS o SET ", found[COLUMN_status], " = $3");
    if (found[COLUMN_next_attempt])
        put_column(d, &q, ", ", found[COLUMN_next_attempt], " = NULL");
    put_column(d, &q, " FROM chosen WHERE o.", found[COLUMN_id],
               " = chosen.id RETURNING chosen.at, ");
    put_column(d, &q, "o.", found[COLUMN_id], "::text, chosen.bytes, ");
    put_column(d, &q, "CASE WHEN chosen.bytes <= $4::bigint THEN o.",
               found[COLUMN_payload], "::text END");
    for (int c = COLUMN_url; c <= COLUMN_endpoint; c++)
        put_column(d, &q, found[c] ? ", o." : ", ", found[c], "::text");
    buf_puts(&q, ", (false");
    if (found[COLUMN_last_attempt])
        put_column(d, &q, " OR o.", found[COLUMN_last_attempt], " IS NOT NULL");
    if (found[COLUMN_error])
        put_column(d, &q, " OR o.", found[COLUMN_error], " IS NOT NULL");
    buf_puts(&q, ")");
    d->take_sql = buf_take(&q);
}

/* $1: ids; $2: reasons; $3: `failed`. */
static void make_fail(struct driver *d, const char *found[COLUMN_COUNT],
                      const char *id_type)
{
    struct buf q;

    buf_init(&q, SQL_MAX_BYTES);
    buf_puts(&q, "UPDATE ");
    put_table(d, &q);
    put_column(d, &q, " AS o SET ", found[COLUMN_status], " = $3");
    if (found[COLUMN_error])
        put_column(d, &q, ", ", found[COLUMN_error], " = f.why");
    put_column(d, &q,
               " FROM unnest($1::text[], $2::text[]) AS f(id, why) WHERE o.",
               found[COLUMN_id], " = f.id::");
    buf_puts(&q, id_type);
    d->fail_sql = buf_take(&q);
}

/* $1: ids; $2: statuses; $3: retries; $4, $5: times, in ms; $6: errors; $7: events; $8: `new`. */
static void make_write(struct driver *d, const char *found[COLUMN_COUNT],
                       const char *id_type)
{
    struct buf q;

    buf_init(&q, SQL_MAX_BYTES);
    buf_puts(&q, "UPDATE ");
    put_table(d, &q);
    put_column(d, &q, " AS o SET ", found[COLUMN_status], " = w.status");
    if (found[COLUMN_retry_count])
        put_column(d, &q, ", ", found[COLUMN_retry_count], " = w.retries");
    if (found[COLUMN_last_attempt])
        put_column(d, &q, ", ", found[COLUMN_last_attempt],
                   " = CASE WHEN w.last_ms > 0 THEN to_timestamp(w.last_ms / "
                   "1000.0) END");
    if (found[COLUMN_next_attempt])
        put_column(d, &q, ", ", found[COLUMN_next_attempt],
                   " = CASE WHEN w.next_ms > 0 THEN to_timestamp(w.next_ms / "
                   "1000.0) END");
    if (found[COLUMN_error])
        put_column(d, &q, ", ", found[COLUMN_error], " = nullif(w.error, '')");
    if (found[COLUMN_event_id])
        put_column(d, &q, ", ", found[COLUMN_event_id], " = w.event");
    buf_puts(&q, " FROM unnest($1::text[], $2::text[], $3::int[], "
                 "$4::bigint[], $5::bigint[], $6::text[], $7::text[]) AS w(id, "
                 "status, retries, last_ms, next_ms, error, event)");
    put_column(d, &q, " WHERE o.", found[COLUMN_id], " = w.id::");
    buf_puts(&q, id_type);
    put_column(d, &q, " AND o.", found[COLUMN_status], " <> $8");
    put_column(d, &q, " RETURNING o.", found[COLUMN_id], "::text");
    d->write_sql = buf_take(&q);
    buf_init(&q, SQL_MAX_BYTES);
    put_column(d, &q, "SELECT ", found[COLUMN_id], "::text FROM ");
    put_table(d, &q);
    put_column(d, &q, " WHERE ", found[COLUMN_id], " = ANY($1::");
    buf_puts(&q, id_type);
    put_column(d, &q, "[]) AND ", found[COLUMN_status], " = $2");
    d->new_sql = buf_take(&q);
}

/* ---- the connection ---- */

static gr_rc read_password(const struct driver *d,
                           char password[PASSWORD_MAX_BYTES + 1],
                           char why[DRIVER_WHY_BYTES])
{
    int fd = open(d->password_file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, password, PASSWORD_MAX_BYTES);

    if (n < 0) {
        snprintf(why, DRIVER_WHY_BYTES, "password_file %s: %s",
                 d->password_file, strerror(errno));
        if (fd >= 0)
            close(fd);
        return GR_REFUSE;
    }
    close(fd);
    password[n] = 0;
    password[strcspn(password, "\r\n")] = 0;
    return GR_OK;
}

static bool is_local(const char *host)
{
    return !host || !*host || *host == '/' || *host == '@' ||
           strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

/* Whether the URI names only hosts of this machine, and no service that may name others. */
static bool stays_here(const char *uri)
{
    PQconninfoOption *all = PQconninfoParse(uri, NULL), *o;
    bool local = true;

    for (o = all; o && o->keyword; o++)
        if (o->val &&
            ((strcmp(o->keyword, "host") == 0 && !is_local(o->val)) ||
             (strcmp(o->keyword, "hostaddr") == 0 && !is_local(o->val)) ||
             strcmp(o->keyword, "service") == 0))
            local = false;
    PQconninfoFree(all);
    return local;
}

/* Keys before dbname are defaults, which the URI may replace; those behind it are ours. */
static gr_rc connect_to(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    static const char session[] = "-c statement_timeout=20s -c lock_timeout=5s "
                                  "-c idle_in_transaction_session_timeout=10s";
    char password[PASSWORD_MAX_BYTES + 1];
    char *name = gr_printf("grapnel-%s %s", d->process, d->relay);
    const char *keys[16], *values[16];
    int n = 0;

#define PARAM(key, value) (keys[n] = (key), values[n++] = (value))
    if (!stays_here(d->database)) {
        PARAM("sslmode", "verify-full");
        PARAM("sslrootcert", "/etc/ssl/certs/ca-certificates.crt");
    }
    PARAM("connect_timeout", "10");
    PARAM("keepalives_idle", "30");
    PARAM("tcp_user_timeout", "30000");
    PARAM("dbname", d->database);
    PARAM("application_name", name);
    PARAM("client_encoding", "UTF8");
    PARAM("options", session);
    if (d->password_file) {
        if (read_password(d, password, why) != GR_OK) {
            free(name);
            return GR_REFUSE;
        }
        PARAM("password", password);
    }
    keys[n] = values[n] = NULL;
#undef PARAM
    d->conn = PQconnectdbParams(keys, values, 1);
    explicit_bzero(password, sizeof password);
    free(name);
    if (PQstatus(d->conn) != CONNECTION_OK)
        return refuse(why, "cannot connect", PQerrorMessage(d->conn));
    if (PQsetnonblocking(d->conn, 1) != 0 || !PQenterPipelineMode(d->conn))
        return refuse(why, "cannot use the connection",
                      PQerrorMessage(d->conn));
    return GR_OK;
}

static void ignore_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

/* The channel on which a trigger says that there are new rows; init prints it. */
static gr_rc listen_to(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    PGresult *r;
    struct buf sql;
    gr_rc rc;

    buf_init(&sql, SQL_MAX_BYTES);
    buf_puts(&sql, "LISTEN ");
    put_name(d, &sql, "grapnel_outbox", strlen("grapnel_outbox"));
    rc = ask(d, sql.data, 0, NULL, &r, why);
    buf_fini(&sql);
    PQclear(r);
    return rc;
}

static gr_rc make_ready(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    const char *found[COLUMN_COUNT];
    char *id_type = NULL;
    gr_rc rc;

    if (d->conn && PQstatus(d->conn) == CONNECTION_OK && d->take_sql)
        return GR_OK;
    disconnect(d);
    if (connect_to(d, why) != GR_OK)
        return GR_REFUSE;
    PQsetNoticeReceiver(d->conn, ignore_notice, NULL);
    rc = find_columns(d, found, &id_type, why);
    if (rc == GR_OK)
        rc = listen_to(d, why);
    if (rc == GR_OK) {
        make_take(d, found);
        make_fail(d, found, id_type);
        make_write(d, found, id_type);
    }
    free(id_type);
    return rc;
}

/* ---- a step ---- */

static void put_array_item(struct buf *out, const char *text, bool first)
{
    buf_puts(out, first ? "\"" : ",\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            buf_puts(out, "\\");
        buf_put(out, text, 1);
    }
    buf_puts(out, "\"");
}

static bool send_refusals(struct driver *d, const struct driver_refusal *all,
                          size_t count)
{
    struct buf ids, reasons;
    bool sent;

    buf_init(&ids, 16 * DRIVER_BATCH_BYTES);
    buf_init(&reasons, 16 * DRIVER_BATCH_BYTES);
    buf_puts(&ids, "{");
    buf_puts(&reasons, "{");
    for (size_t i = 0; i < count; i++) {
        put_array_item(&ids, all[i].id, i == 0);
        put_array_item(&reasons, all[i].why, i == 0);
    }
    buf_puts(&ids, "}");
    buf_puts(&reasons, "}");
    sent = !ids.failed && !reasons.failed &&
           send_query(d, d->fail_sql, 3,
                      (const char *const[]){ids.data, reasons.data, d->failed});
    buf_fini(&ids);
    buf_fini(&reasons);
    return sent;
}

static bool send_take(struct driver *d, int max)
{
    char rows[16], payload[24], all[24];

    snprintf(rows, sizeof rows, "%d", max);
    snprintf(payload, sizeof payload, "%lld", (long long)d->max_payload_bytes);
    snprintf(all, sizeof all, "%d", DRIVER_BATCH_BYTES);
    return send_query(
        d, d->take_sql, 5,
        (const char *const[]){rows, d->fresh, d->retrying, payload, all});
}

static _Thread_local const PGresult *sorting;

static int compare_order(const void *a, const void *b)
{
    int64_t x = strtoll(
        PQgetvalue(sorting, (int)*(const size_t *)a, TAKEN_ORDER), NULL, 10);
    int64_t y = strtoll(
        PQgetvalue(sorting, (int)*(const size_t *)b, TAKEN_ORDER), NULL, 10);

    return x < y ? -1 : x > y;
}

static void keep_rows(struct driver *d, PGresult *taken)
{
    d->taken = taken;
    d->count = taken ? (size_t)PQntuples(taken) : 0;
    d->order = gr_alloc((d->count + 1) * sizeof *d->order);
    for (size_t i = 0; i < d->count; i++)
        d->order[i] = i;
    sorting = taken;
    qsort(d->order, d->count, sizeof *d->order, compare_order);
}

static void put_items(struct buf *out, const struct driver *d,
                      const struct driver_work *work, enum column c)
{
    const char *const words[] = {[DRIVER_RETRYING] = d->retrying,
                                 [DRIVER_DELIVERED] = d->delivered,
                                 [DRIVER_FAILED] = d->failed};

    buf_reset(out);
    buf_puts(out, "{");
    for (size_t i = 0; i < work->write_count; i++) {
        const struct driver_write *w = &work->writes[i];
        int64_t number = c == COLUMN_retry_count    ? w->retries
                         : c == COLUMN_last_attempt ? w->last_ms
                                                    : w->next_ms;

        if (c == COLUMN_id)
            put_array_item(out, w->row_id, i == 0);
        else if (c == COLUMN_status)
            put_array_item(out, words[w->status], i == 0);
        else if (c == COLUMN_error)
            put_array_item(out, w->error, i == 0);
        else if (c == COLUMN_event_id)
            put_array_item(out, w->event_id, i == 0);
        else
            buf_printf(out, "%s%lld", i ? "," : "", (long long)number);
    }
    buf_puts(out, "}");
}

/* Writes outcomes, and asks which of these rows are new. */
static bool send_writes(struct driver *d, const struct driver_work *work)
{
    static const enum column order[] = {
        COLUMN_id,           COLUMN_status,       COLUMN_retry_count,
        COLUMN_last_attempt, COLUMN_next_attempt, COLUMN_error,
        COLUMN_event_id};
    const char *values[COUNT_OF(order) + 1];
    struct buf lists[COUNT_OF(order)];
    bool sent = true;

    for (size_t i = 0; i < COUNT_OF(order); i++) {
        buf_init(&lists[i], 16 * DRIVER_BATCH_BYTES);
        put_items(&lists[i], d, work, order[i]);
        values[i] = lists[i].data;
        sent = sent && !lists[i].failed;
    }
    values[COUNT_OF(order)] = d->fresh;
    sent = sent && send_query(d, d->write_sql, COUNT_OF(values), values) &&
           send_query(d, d->new_sql, 2,
                      (const char *const[]){lists[0].data, d->fresh});
    for (size_t i = 0; i < COUNT_OF(order); i++)
        buf_fini(&lists[i]);
    return sent;
}

static int compare_writes(const void *a, const void *b)
{
    return strcmp((*(struct driver_write *const *)a)->row_id,
                  (*(struct driver_write *const *)b)->row_id);
}

/* Which of the writes are in the results. Two of them may name one row. */
static void note_writes(struct driver_work *work, const PGresult *applied,
                        const PGresult *fresh)
{
    struct driver_write **sorted = gr_alloc((work->write_count + 1) *
                                            sizeof *sorted);

    for (size_t i = 0; i < work->write_count; i++)
        sorted[i] = &work->writes[i];
    qsort(sorted, work->write_count, sizeof *sorted, compare_writes);
    for (int k = 0; k < 2; k++) {
        const PGresult *r = k ? fresh : applied;

        for (int i = 0; i < PQntuples(r); i++) {
            struct driver_write key = {.row_id = PQgetvalue(r, i, 0)};
            struct driver_write *p = &key, **found = bsearch(
                                               &p, sorted, work->write_count,
                                               sizeof *sorted, compare_writes);

            if (found && k)
                (*found)->is_new = true;
            else if (found)
                (*found)->applied = true;
        }
    }
    free(sorted);
}

enum { STATEMENTS_MAX = 10 };

/* The statements of a step that are sent as one pipeline: one round trip. */
struct pipeline {
    PGresult **keep[STATEMENTS_MAX];
    int count;
    bool sent;
};

static void add(struct pipeline *p, bool sent, PGresult **keep)
{
    p->sent = p->sent && sent;
    p->keep[p->count++] = keep;
}

static gr_rc exchange(struct driver *d, struct driver_work *work,
                      char why[DRIVER_WHY_BYTES])
{
    PGresult *taken = NULL, *applied = NULL, *fresh = NULL;
    struct pipeline p = {.sent = true};
    bool commits = work->end == DRIVER_COMMIT;
    gr_rc rc;

    if (d->in_transaction && commits && work->refusal_count)
        add(&p, send_refusals(d, work->refusals, work->refusal_count), NULL);
    if (d->in_transaction)
        add(&p, send_query(d, commits ? "COMMIT" : "ROLLBACK", 0, NULL), NULL);
    if (work->write_count) {
        add(&p, send_query(d, "BEGIN", 0, NULL), NULL);
        add(&p, send_writes(d, work), &applied);
        add(&p, true, &fresh); /* the second of send_writes() */
        add(&p, send_query(d, "COMMIT", 0, NULL), NULL);
    }
    if (work->max > 0) {
        add(&p, send_query(d, "BEGIN", 0, NULL), NULL);
        add(&p, send_take(d, work->max), &taken);
    }
    if (!p.count)
        return GR_OK;
    if (!p.sent || !PQpipelineSync(d->conn))
        return refuse(why, "connection lost", PQerrorMessage(d->conn));
    d->in_transaction = work->max > 0;
    rc = read_results(d, p.count, p.keep, why);
    if (rc == GR_OK && work->write_count)
        note_writes(work, applied, fresh);
    PQclear(applied);
    PQclear(fresh);
    if (rc == GR_OK && work->max > 0)
        keep_rows(d, taken);
    else
        PQclear(taken);
    return rc;
}

static gr_rc pg_step(struct driver *d, struct driver_work *work,
                     char why[DRIVER_WHY_BYTES])
{
    struct driver_work commit = {.end = DRIVER_COMMIT};

    forget_rows(d);
    if (work->max <= 0 && !work->write_count && !d->in_transaction)
        return GR_OK;
    if (make_ready(d, why) != GR_OK || exchange(d, work, why) != GR_OK) {
        disconnect(d);
        return GR_REFUSE;
    }
    /* No transaction stays open while there is nothing to do. */
    if (work->max > 0 && !d->count && exchange(d, &commit, why) != GR_OK) {
        disconnect(d);
        return GR_REFUSE;
    }
    return GR_OK;
}

static size_t pg_count(const struct driver *d)
{
    return d->count;
}

static const char *value(const struct driver *d, size_t i, enum taken c)
{
    return PQgetvalue(d->taken, (int)d->order[i], c); /* "" if it is NULL */
}

static void pg_row(const struct driver *d, size_t i, struct driver_row *row)
{
    int at = (int)d->order[i];

    *row = (struct driver_row){
        .id = value(d, i, TAKEN_ID),
        .url = value(d, i, TAKEN_URL),
        .type = value(d, i, TAKEN_TYPE),
        .workspace = value(d, i, TAKEN_WORKSPACE),
        .endpoint = value(d, i, TAKEN_ENDPOINT),
        .payload = {value(d, i, TAKEN_PAYLOAD),
                    (size_t)PQgetlength(d->taken, at, TAKEN_PAYLOAD)},
        .payload_bytes = strtoll(value(d, i, TAKEN_BYTES), NULL, 10),
        .attempted = *value(d, i, TAKEN_ATTEMPTED) == 't',
        .has_payload = !PQgetisnull(d->taken, at, TAKEN_BYTES),
    };
}

static bool take_notifications(struct driver *d)
{
    PGnotify *n;
    bool any = false;

    while ((n = PQnotifies(d->conn))) {
        any = true;
        PQfreemem(n);
    }
    return any;
}

static bool pg_wait(struct driver *d, int wake_fd, int64_t ms)
{
    struct pollfd fds[2] = {
        {.fd = wake_fd, .events = POLLIN},
        {.fd = d->conn ? PQsocket(d->conn) : -1, .events = POLLIN}};

    if (d->conn && take_notifications(d))
        return true;
    if (poll(fds, 2, (int)ms) <= 0 || !d->conn || !fds[1].revents)
        return false;
    if (!PQconsumeInput(d->conn)) {
        disconnect(d);
        return true; /* step() connects again */
    }
    return take_notifications(d);
}

const struct driver_ops postgres_driver = {
    .open = pg_open,
    .close = pg_close,
    .step = pg_step,
    .count = pg_count,
    .row = pg_row,
    .wait = pg_wait,
};
