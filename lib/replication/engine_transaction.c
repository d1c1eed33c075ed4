/* engine_transaction: one transaction with a PostgreSQL engine, in one round trip, which proves something or has an unknown outcome. */
#include "engine_transaction.h"
#include "clock.h"
#include "engine_check.h"
#include "pg_replies.h"
#include "reason.h"
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* A call that carries more bytes may take longer: its time limit grows as if the network carried this many bytes in a ms. */
    BYTES_PER_MS = 4096,
};

/* ---- values of the protocol: binary, numbers with the highest byte first ---- */

static void put_be(uint8_t *out, uint64_t v, size_t bytes)
{
    for (size_t i = bytes; i--; v >>= 8)
        out[i] = (uint8_t)v;
}

static void param(struct params *p, Oid type, const void *value, size_t n)
{
    p->types[p->n] = type;
    p->values[p->n] = value;
    p->lengths[p->n] = (int)n;
    p->formats[p->n++] = 1;
}

void param_text(struct params *p, const char *text)
{
    param(p, OID_TEXT, text, strlen(text));
}

void param_bytes(struct params *p, const void *value, size_t n)
{
    param(p, OID_BYTEA, value, n);
}

static void param_number(struct params *p, Oid type, int64_t v, size_t bytes)
{
    uint8_t *at = p->numbers[p->n];

    put_be(at, (uint64_t)v, bytes);
    param(p, type, at, bytes);
}

void param_int8(struct params *p, int64_t v)
{
    param_number(p, OID_INT8, v, 8);
}

void param_int4(struct params *p, int v)
{
    param_number(p, OID_INT4, v, 4);
}

void param_bool(struct params *p, bool v)
{
    param_number(p, OID_BOOL, v, 1);
}

static void put_array(struct buf *out, const struct sealed_parts *parts)
{
    uint8_t head[20], length[4];

    put_be(head, 1, 4);     /* dimensions */
    put_be(head + 4, 0, 4); /* no NULL in it */
    put_be(head + 8, OID_BYTEA, 4);
    put_be(head + 12, parts->count, 4);
    put_be(head + 16, 1, 4); /* the first index */
    buf_put(out, head, sizeof head);
    for (size_t i = 0; i < parts->count; i++) {
        put_be(length, parts->parts[i].len, 4);
        buf_put(out, length, sizeof length);
        buf_put(out, parts->parts[i].data, parts->parts[i].len);
    }
}

void param_parts(struct params *p, struct buf *array,
                 const struct sealed_parts *parts)
{
    size_t n = 64;

    for (size_t i = 0; i < parts->count; i++)
        n += parts->parts[i].len + 4;
    buf_init(array, n);
    put_array(array, parts);
    param(p, OID_BYTEA_ARRAY, array->data, array->len);
}

int64_t get_number(const PGresult *r, int row, int column)
{
    const uint8_t *p = (const uint8_t *)PQgetvalue(r, row, column);
    int n = PQgetlength(r, row, column);
    uint64_t v = n && p[0] & 0x80 ? UINT64_MAX : 0;

    for (int i = 0; i < n; i++)
        v = v << 8 | p[i];
    return (int64_t)v;
}

struct bytes get_bytes(const PGresult *r, int row, int column)
{
    return (struct bytes){PQgetvalue(r, row, column),
                          (size_t)PQgetlength(r, row, column)};
}

/* false: the value has another length. */
bool get_fixed(const PGresult *r, int row, int column, uint8_t *out, size_t n)
{
    struct bytes b = get_bytes(r, row, column);

    if (b.n == n)
        memcpy(out, b.p, n);
    return b.n == n;
}

/* ---- the connection ---- */

void engine_connection_init(struct engine_connection *c,
                            const struct engine_settings *s)
{
    *c = (struct engine_connection){.database = gr_strdup(s->database),
                                    .process = gr_strdup(s->process),
                                    .hold_ms = s->hold_ms,
                                    .accept_weak = s->accept_weak};
}

static void disconnect(struct engine_connection *c)
{
    PQfinish(c->conn);
    c->conn = NULL;
}

void engine_connection_fini(struct engine_connection *c)
{
    disconnect(c);
    free(c->database);
    free(c->process);
}

/* ---- one transaction ---- */

struct params *transaction_add(struct transaction *t, const char *sql)
{
    t->statements[t->count].sql = sql;
    return &t->statements[t->count++].params;
}

void transaction_fini(struct transaction *t)
{
    for (int i = 0; i < t->count; i++)
        PQclear(t->statements[i].result);
}

enum engine_result engine_unknown(char why[ENGINE_WHY_BYTES], const char *what,
                                  const char *message)
{
    (void)reason_put(why, ENGINE_WHY_BYTES, what, message);
    return ENGINE_UNKNOWN;
}

/* At most 2.5 hold, so that a beat after it comes before a standby has waited for 3 hold. */
static int64_t limit_ms(const struct engine_connection *c, size_t bytes)
{
    int64_t more_ms = (int64_t)(bytes / BYTES_PER_MS);

    return c->hold_ms / 2 +
           (more_ms < 2 * c->hold_ms ? more_ms : 2 * c->hold_ms);
}

/* An idle connection that the server has closed is noticed before anything is sent: its last message, and then the end. */
static bool is_connected(struct engine_connection *c)
{
    enum { MESSAGES_MAX = 10 };

    if (!c->conn)
        return false;
    for (int i = 0; i < MESSAGES_MAX; i++) {
        struct pollfd fd = {.fd = PQsocket(c->conn), .events = POLLIN};

        if (poll(&fd, 1, 0) <= 0)
            return PQstatus(c->conn) == CONNECTION_OK;
        if (!PQconsumeInput(c->conn))
            return false;
    }
    return false;
}

static gr_rc connect_again(struct engine_connection *c, int64_t limit_ms,
                           char why[PG_WHY_BYTES])
{
    char *name;
    gr_rc rc;

    if (is_connected(c))
        return GR_OK;
    disconnect(c);
    name = gr_printf("grapnel%s%s replication", *c->process ? "-" : "",
                     c->process);
    rc = pg_connection_open(
        &(struct pg_connection_settings){
            .database = c->database,
            .name = name,
            .limit_ms = limit_ms,
            .unacknowledged_ms = (int)(c->hold_ms / 2)},
        &c->warning, &c->conn, why);
    free(name);
    return rc;
}

static bool send_sql(PGconn *conn, const char *sql, const struct params *p)
{
    return PQsendQueryParams(conn, sql, p->n, p->types, p->values, p->lengths,
                             p->formats, 1) == 1;
}

/* All of them hold for this transaction only: a pooler may give each transaction another session. client_min_messages: a warning that is not sent
 * could not be noticed. */
static const char limits_sql[] =
    "SELECT pg_catalog.set_config('lock_timeout', $1, true), "
    "pg_catalog.set_config('statement_timeout', $2, true), "
    "pg_catalog.set_config('idle_in_transaction_session_timeout', $1, true), "
    "pg_catalog.set_config('synchronous_commit', 'on', true), "
    "pg_catalog.set_config('client_min_messages', 'warning', true), "
    "pg_catalog.pg_conf_load_time()";
static const char settings_sql[] =
    "SELECT pg_catalog.current_setting('fsync', true), "
    "pg_catalog.current_setting('full_page_writes', true), "
    "pg_catalog.current_setting('synchronous_standby_names', true), "
    "pg_catalog.pg_conf_load_time()";

enum { LIMITS_LOAD_TIME = 5, SETTINGS_LOAD_TIME = 3 };

static bool send_all(struct engine_connection *c, struct transaction *t,
                     int64_t all_ms)
{
    struct params none = {0}, limits = {0};
    char half[24], all[24];
    bool sent;

    snprintf(half, sizeof half, "%" PRId64, c->hold_ms / 2);
    snprintf(all, sizeof all, "%" PRId64, all_ms);
    param_text(&limits, half);
    param_text(&limits, all);
    sent = send_sql(c->conn, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
                    &none) &&
           send_sql(c->conn, limits_sql, &limits);
    for (int i = 0; i < t->count; i++)
        sent = sent && send_sql(c->conn, t->statements[i].sql,
                                &t->statements[i].params);
    return sent && send_sql(c->conn, "COMMIT", &none) &&
           send_sql(c->conn, settings_sql, &none) && PQpipelineSync(c->conn);
}

static const char *get_text(const PGresult *r, int column)
{
    return PQgetisnull(r, 0, column) ? NULL : PQgetvalue(r, 0, column);
}

/* A server that reads its settings again while a COMMIT waits for a standby may let it go without one. */
static bool was_reloaded(const PGresult *before, const PGresult *after)
{
    struct bytes a = get_bytes(before, 0, LIMITS_LOAD_TIME);
    struct bytes b = get_bytes(after, 0, SETTINGS_LOAD_TIME);

    return a.n != b.n || memcmp(a.p, b.p, a.n) != 0;
}

/* Whether the COMMIT proves something. */
static enum engine_result judge(struct engine_connection *c,
                                const PGresult *limits, const PGresult *commit,
                                const PGresult *settings,
                                char why[ENGINE_WHY_BYTES])
{
    struct engine_durability d;
    const char *weakness;

    if (!limits || !commit || !settings || PQntuples(limits) != 1 ||
        PQntuples(settings) != 1)
        return engine_unknown(
            why, "the database did not reply to each statement", "");
    if (strcmp(PQcmdStatus((PGresult *)commit), "COMMIT") != 0)
        return engine_unknown(why, "the database replied to COMMIT",
                              PQcmdStatus((PGresult *)commit));
    if (*c->warning.text)
        return engine_unknown(why, c->warning.text, "");
    if (c->accept_weak)
        return ENGINE_DONE;
    d = (struct engine_durability){
        .fsync = get_text(settings, 0),
        .full_page_writes = get_text(settings, 1),
        .synchronous_standby_names = get_text(settings, 2),
        .synchronous_commit = get_text(limits, 3)};
    weakness = engine_weakness(&d);
    if (weakness)
        return engine_unknown(why, weakness, "");
    if (was_reloaded(limits, settings))
        return engine_unknown(
            why, "the database read its settings again during COMMIT", "");
    return ENGINE_DONE;
}

static enum engine_result exchange(struct engine_connection *c,
                                   struct transaction *t,
                                   char why[ENGINE_WHY_BYTES])
{
    PGresult *limits = NULL, *commit = NULL, *settings = NULL;
    PGresult **keep[STATEMENTS_MAX + 4] = {NULL, &limits};
    int64_t all_ms = t->limit_ms ? t->limit_ms : limit_ms(c, t->bytes);
    int64_t connect_ms = t->limit_ms ? t->limit_ms : c->hold_ms / 2;
    struct pg_limit limit = {all_ms, mono_ms() + all_ms};
    struct pg_refused refused;
    char long_why[PG_WHY_BYTES];
    enum engine_result result;
    int n = 2;

    if (connect_again(c, connect_ms, long_why) != GR_OK)
        return engine_unknown(why, long_why, "");
    limit.end_ms = mono_ms() + all_ms;
    for (int i = 0; i < t->count; i++)
        keep[n++] = &t->statements[i].result;
    keep[n++] = &commit;
    keep[n++] = &settings;
    *c->warning.text = 0;
    if (!send_all(c, t, all_ms)) {
        result = engine_unknown(why, "connection lost",
                                PQerrorMessage(c->conn));
    } else if (pg_replies_read(c->conn, n, keep, limit, &refused, long_why) !=
               GR_OK) {
        result = engine_unknown(why, long_why, "");
        if (refused.at >= 0)
            snprintf(why + strlen(why), ENGINE_WHY_BYTES - strlen(why),
                     " (SQLSTATE %s)", refused.state);
    } else {
        result = judge(c, limits, commit, settings, why);
    }
    PQclear(limits);
    PQclear(commit);
    PQclear(settings);
    return result;
}

/* ENGINE_DONE: it is acknowledged, and each statement has its result. After ENGINE_UNKNOWN the connection is closed: it may be in a transaction, or in the middle
 * of a reply. */
enum engine_result transact(struct engine_connection *c, struct transaction *t,
                            char why[ENGINE_WHY_BYTES])
{
    enum engine_result result = exchange(c, t, why);

    for (int i = 0; i < t->count && result == ENGINE_DONE; i++)
        if (!t->statements[i].result)
            result = engine_unknown(
                why, "the database did not reply to each statement", "");
    if (result == ENGINE_UNKNOWN)
        disconnect(c);
    return result;
}

/* Of a transaction of one statement, which returns `rows` rows or none. */
enum engine_result transact_rows(struct engine_connection *c,
                                 struct transaction *t, size_t rows,
                                 char why[ENGINE_WHY_BYTES])
{
    enum engine_result result = transact(c, t, why);
    size_t n;

    if (result != ENGINE_DONE)
        return result;
    n = (size_t)PQntuples(t->statements[0].result);
    if (n == rows)
        return ENGINE_DONE;
    if (!n)
        return ENGINE_NO_ROW;
    disconnect(c);
    snprintf(why, ENGINE_WHY_BYTES,
             "the database changed %zu rows, and not %zu", n, rows);
    return ENGINE_UNKNOWN;
}

PGresult *engine_ask(struct engine_connection *c, const char *sql,
                     char why[ENGINE_WHY_BYTES])
{
    struct pg_limit limit = {c->hold_ms / 2, INT64_MAX};
    struct params none = {0};
    struct pg_refused refused;
    char long_why[PG_WHY_BYTES];
    PGresult *r = NULL;

    if (connect_again(c, c->hold_ms / 2, long_why) != GR_OK) {
        (void)engine_unknown(why, long_why, "");
    } else if (!send_sql(c->conn, sql, &none) || !PQpipelineSync(c->conn)) {
        (void)engine_unknown(why, "connection lost", PQerrorMessage(c->conn));
    } else if (pg_replies_read(c->conn, 1, (PGresult * *const[]){&r}, limit,
                               &refused, long_why) != GR_OK) {
        (void)engine_unknown(why, long_why, "");
        disconnect(c);
    }
    return r;
}
