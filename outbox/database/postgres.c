/* postgres: takes rows of a PostgreSQL table by libpq, a batch in one round trip (pipeline mode). */
#include "postgres.h"
#include "alloc.h"
#include "clock.h"
#include "pg_replies.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct driver *pg_open(const struct relay *r, const char *process,
                       int64_t max_payload_bytes)
{
    struct driver *d = gr_alloc(sizeof *d);

    relay_table_init(&d->table, r, process, max_payload_bytes);
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

static void forget_statements(struct driver *d)
{
    free(d->take_sql);
    free(d->fail_sql);
    free(d->write_sql);
    free(d->new_sql);
    free(d->first_sql);
    free(d->look_sql);
    free(d->purge_sql);
    d->take_sql = d->fail_sql = d->write_sql = d->new_sql = NULL;
    d->first_sql = d->look_sql = d->purge_sql = NULL;
}

static void disconnect(struct driver *d)
{
    forget_rows(d);
    PQfinish(d->conn);
    d->conn = NULL;
    d->in_transaction = d->stale = d->notified = false;
    forget_statements(d);
}

void pg_close(struct driver *d)
{
    disconnect(d);
    relay_table_fini(&d->table);
    free(d);
}

/* ---- statements ---- */

_Static_assert((int)DRIVER_WHY_BYTES >= (int)PG_WHY_BYTES,
               "reasons of libpq fit");

static const struct pg_limit reply_limit = {.silence_ms = DRIVER_REPLY_MS,
                                            .end_ms = INT64_MAX};

static gr_rc lost(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    return relay_table_refuse(why, "connection lost", PQerrorMessage(d->conn));
}

static bool send_query(struct driver *d, const char *sql, int n,
                       const char *const *values)
{
    return PQsendQueryParams(d->conn, sql, n, NULL, values, NULL, NULL, 0) == 1;
}

gr_rc pg_ask(struct driver *d, const char *sql, int n,
             const char *const *values, PGresult **result,
             char why[DRIVER_WHY_BYTES])
{
    struct pg_refused refused;

    *result = NULL;
    if (!send_query(d, sql, n, values) || !PQpipelineSync(d->conn))
        return lost(d, why);
    return pg_replies_read(d->conn, 1, (PGresult * *const[]){result},
                           reply_limit, &refused, why);
}

/* The same without a result. */
static gr_rc tell(struct driver *d, const char *sql, char why[DRIVER_WHY_BYTES])
{
    PGresult *r;
    gr_rc rc = pg_ask(d, sql, 0, NULL, &r, why);

    PQclear(r);
    return rc;
}

/* ---- the connection ---- */

/* What holds for the session, whatever the options of the URI, of a service file or of the role say: of
 * the options themselves, the last place that has some replaces all others. */
static const char session[] =
    "SELECT pg_catalog.set_config('statement_timeout', '20s', false), "
    "pg_catalog.set_config('lock_timeout', '500ms', false), "
    "pg_catalog.set_config('idle_in_transaction_session_timeout', '10s', "
    "false)";

/* In this encoding the server keeps bytes without knowing what they are, so it cannot make UTF-8 of
 * them, and one row with other bytes would stop all others. */
static gr_rc judge_encoding(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    const char *name = PQparameterStatus(d->conn, "server_encoding");

    if (!name || strcmp(name, "SQL_ASCII") != 0)
        return GR_OK;
    return relay_table_refuse(
        why, "the encoding of the database is SQL_ASCII",
        "a relay needs one that can be converted to UTF-8, such as UTF8 or "
        "LATIN1");
}

/* Waits for locks are shorter than the usual deadlock_timeout (1 s): in a deadlock we give up, and
 * not a transaction of the application. */
gr_rc pg_connect(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    char password[TABLE_PASSWORD_BYTES + 1];
    struct pg_connection_settings s = {.database = d->table.database,
                                       .unacknowledged_ms = DRIVER_REPLY_MS};
    char *name;
    gr_rc rc;

    if (d->table.password_file) {
        if (relay_table_password(&d->table, password, why) != GR_OK)
            return GR_REFUSE;
        s.password = password;
    }
    name = gr_printf("grapnel-%s %s", d->table.process, d->table.relay);
    s.name = name;
    rc = pg_connection_open(&s, NULL, &d->conn, why);
    explicit_bzero(password, sizeof password);
    free(name);
    if (rc == GR_OK)
        rc = judge_encoding(d, why);
    return rc == GR_OK ? tell(d, session, why) : rc;
}

static gr_rc need_columns(struct driver *d,
                          struct pg_column found[COLUMN_COUNT],
                          char why[DRIVER_WHY_BYTES])
{
    if (pg_find_columns(d, found, why) != GR_OK)
        return GR_REFUSE;
    for (int c = 0; c < COLUMN_COUNT; c++)
        if (pg_lacks(d, found, (enum column)c)) {
            snprintf(why, DRIVER_WHY_BYTES,
                     "table %s has no column %s: set columns.%s of relay %s",
                     d->table.name,
                     d->table.columns[c] ? d->table.columns[c]
                                         : usual_columns[c].usual,
                     usual_columns[c].key, d->table.relay);
            return GR_REFUSE;
        }
    return pg_try_statuses(d, found, why);
}

static gr_rc make_ready(struct driver *d, char why[DRIVER_WHY_BYTES])
{
    struct pg_column found[COLUMN_COUNT];
    bool connected = d->conn && PQstatus(d->conn) == CONNECTION_OK &&
                     d->take_sql;

    if (connected && !d->stale)
        return GR_OK;
    if (!connected) {
        disconnect(d);
        if (pg_connect(d, why) != GR_OK ||
            /* the channel on which a trigger says that there are new rows */
            tell(d, "LISTEN grapnel_outbox", why) != GR_OK)
            return GR_REFUSE;
    }
    if (need_columns(d, found, why) != GR_OK)
        return GR_REFUSE;
    forget_statements(d);
    pg_make_statements(d, found);
    d->stale = false;
    return GR_OK;
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
                      (const char *const[]){ids.data, reasons.data,
                                            d->table.statuses[DRIVER_FAILED]});
    buf_fini(&ids);
    buf_fini(&reasons);
    return sent;
}

static void put_except(struct buf *out, const struct driver_work *work)
{
    buf_init(out, DRIVER_BATCH_BYTES);
    buf_puts(out, "{");
    for (size_t i = 0; i < work->except_count; i++)
        put_array_item(out, work->except[i], i == 0);
    buf_puts(out, "}");
}

static bool send_take(struct driver *d, const struct driver_work *work)
{
    char rows[16], payload[24], all[24];
    char *lock = gr_printf("grapnel %s %s %s", d->table.process, d->table.relay,
                           d->table.name);
    struct buf except;
    bool sent;

    snprintf(rows, sizeof rows, "%d", work->max);
    snprintf(payload, sizeof payload, "%lld",
             (long long)d->table.max_payload_bytes);
    snprintf(all, sizeof all, "%d", DRIVER_BATCH_BYTES);
    put_except(&except, work);
    sent = !except.failed &&
           send_query(d, d->take_sql, 7,
                      (const char *const[]){rows,
                                            d->table.statuses[RELAY_STATUS_NEW],
                                            d->table.statuses[DRIVER_RETRYING],
                                            payload, all, except.data, lock});
    buf_fini(&except);
    free(lock);
    return sent;
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
    const char *const words[] = {
        [DRIVER_RETRYING] = d->table.statuses[DRIVER_RETRYING],
        [DRIVER_DELIVERED] = d->table.statuses[DRIVER_DELIVERED],
        [DRIVER_FAILED] = d->table.statuses[DRIVER_FAILED]};

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
    values[COUNT_OF(order)] = d->table.statuses[RELAY_STATUS_NEW];
    sent = sent && send_query(d, d->write_sql, COUNT_OF(values), values) &&
           send_query(d, d->new_sql, 2,
                      (const char *const[]){
                          lists[0].data, d->table.statuses[RELAY_STATUS_NEW]});
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

            if (found)
                (*found)->written = k ? DRIVER_IS_NEW : DRIVER_APPLIED;
        }
    }
    free(sorted);
}

enum { STATEMENTS_MAX = 10 };

/* The statements of a step that are sent as one pipeline: one round trip. */
struct pipeline {
    PGresult **keep[STATEMENTS_MAX];
    enum driver_refused part[STATEMENTS_MAX];
    int count;
    bool sent;
};

static void add(struct pipeline *p, enum driver_refused part, bool sent,
                PGresult **keep)
{
    p->sent = p->sent && sent;
    p->part[p->count] = part;
    p->keep[p->count++] = keep;
}

static bool is_class(const struct pg_refused *r, const char *class)
{
    return strncmp(r->state, class, strlen(class)) == 0;
}

/* Whether the server refused a statement because of the contents of a row, as a constraint, a
 * trigger (with any code), a value that does not fit, or a damaged page do: other rows may work.
 * Otherwise it is about the connection, the server, its resources, or the statement itself. */
static bool is_about_rows(const struct pg_refused *r)
{
    static const char *const others[] = {"08", "25", "28",   "3D", "3F", "40",
                                         "53", "57", "55P0", "58", "F0"};

    if (!*r->state)
        return false;
    /* A function may fail for some rows, and a policy of the table refuses rows by 42501. */
    if (is_class(r, "42"))
        return r->in_function || (is_class(r, "42501") && !r->no_privilege);
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (is_class(r, others[i]))
            return false;
    return true;
}

/* Whether fewer rows may work: it took too long, as with a slow trigger; of writes, which are tried
 * one by one, also if they waited for a lock, or were the victim of a deadlock. */
static bool is_about_time(const struct pg_refused *r, enum driver_refused part)
{
    return is_class(r, "57014") ||
           (part == DRIVER_WRITES_REFUSED &&
            (is_class(r, "55P03") || is_class(r, "40")));
}

/* After a statement that the server refused: says which part of the step it is, if other rows may
 * work, and ends the transaction, so that the connection can be used again. */
static void note_refused(struct driver *d, struct driver_work *work,
                         const struct pipeline *p,
                         const struct pg_refused *refused)
{
    char ignored[DRIVER_WHY_BYTES];
    enum driver_refused part;

    if (refused->at < 0 || refused->at >= p->count)
        return;
    part = p->part[refused->at];
    if (!is_about_rows(refused) && !is_about_time(refused, part))
        return;
    if (PQtransactionStatus(d->conn) != PQTRANS_IDLE &&
        tell(d, "ROLLBACK", ignored) != GR_OK)
        return;
    d->stale = d->stale || is_class(refused, "22");
    work->refused = part;
}

/* libpq keeps each notification until it is read. */
static void read_notifications(struct driver *d)
{
    PGnotify *n;

    while ((n = PQnotifies(d->conn))) {
        d->notified = true;
        PQfreemem(n);
    }
}

static gr_rc exchange(struct driver *d, struct driver_work *work,
                      char why[DRIVER_WHY_BYTES])
{
    /* An outcome is forgotten when it is written, so a crash of the server must not lose it. Whether a
     * standby must have it, the settings of the role or the server decide. */
    static const char durable[] =
        "SELECT pg_catalog.set_config('synchronous_commit', 'on', true) "
        "WHERE pg_catalog.current_setting('synchronous_commit') = 'off'";
    PGresult *taken = NULL, *applied = NULL, *fresh = NULL;
    struct pipeline p = {.sent = true};
    struct pg_refused refused;
    bool commits = work->end == DRIVER_COMMIT;
    gr_rc rc;

    if (d->in_transaction && commits && work->refusal_count)
        add(&p, DRIVER_END_REFUSED,
            send_refusals(d, work->refusals, work->refusal_count), NULL);
    if (d->in_transaction)
        add(&p, DRIVER_END_REFUSED,
            send_query(d, commits ? "COMMIT" : "ROLLBACK", 0, NULL), NULL);
    if (work->write_count) {
        add(&p, DRIVER_WRITES_REFUSED, send_query(d, "BEGIN", 0, NULL), NULL);
        add(&p, DRIVER_WRITES_REFUSED, send_query(d, durable, 0, NULL), NULL);
        add(&p, DRIVER_WRITES_REFUSED, send_writes(d, work), &applied);
        add(&p, DRIVER_WRITES_REFUSED, true,
            &fresh); /* the second of send_writes() */
        add(&p, DRIVER_WRITES_REFUSED, send_query(d, "COMMIT", 0, NULL), NULL);
    }
    if (work->max > 0) {
        add(&p, DRIVER_TAKE_REFUSED, send_query(d, "BEGIN", 0, NULL), NULL);
        add(&p, DRIVER_TAKE_REFUSED, send_take(d, work), &taken);
    }
    if (!p.count)
        return GR_OK;
    if (!p.sent || !PQpipelineSync(d->conn))
        return lost(d, why);
    rc = pg_replies_read(d->conn, p.count, p.keep, reply_limit, &refused, why);
    read_notifications(d);
    d->in_transaction = rc == GR_OK && work->max > 0;
    if (rc != GR_OK)
        note_refused(d, work, &p, &refused);
    if (work->write_count &&
        (rc == GR_OK || work->refused == DRIVER_TAKE_REFUSED))
        note_writes(work, applied, fresh);
    PQclear(applied);
    PQclear(fresh);
    if (d->in_transaction)
        keep_rows(d, taken);
    else
        PQclear(taken);
    return rc;
}

/* One write in a transaction of its own. GR_REFUSE: the connection cannot be used. */
static gr_rc write_alone(struct driver *d, struct driver_write *w,
                         char why[DRIVER_WHY_BYTES])
{
    struct driver_work work = {.writes = w, .write_count = 1};

    if (exchange(d, &work, why) == GR_OK)
        return GR_OK;
    if (work.refused != DRIVER_WRITES_REFUSED)
        return GR_REFUSE;
    w->written = DRIVER_WRITE_REFUSED;
    w->why = gr_strdup(why);
    return GR_OK;
}

/* They do not wait for others: a row that somebody has locked is written later. */
static gr_rc write_each(struct driver *d, struct driver_work *work,
                        char why[DRIVER_WHY_BYTES])
{
    int64_t end_ms = mono_ms() + DRIVER_ALONE_MS;

    if (tell(d, "SET lock_timeout = '50ms'", why) != GR_OK ||
        tell(d, "SET statement_timeout = '2s'", why) != GR_OK)
        return GR_REFUSE;
    for (size_t i = 0; i < work->write_count; i++) {
        struct driver_write *w = &work->writes[i];

        if (mono_ms() >= end_ms)
            w->written = DRIVER_NOT_TRIED;
        else if (write_alone(d, w, why) != GR_OK)
            return GR_REFUSE;
    }
    return tell(d, session, why);
}

/* The same as exchange(), with several round trips. */
static gr_rc exchange_alone(struct driver *d, struct driver_work *work,
                            char why[DRIVER_WHY_BYTES])
{
    struct driver_work end = *work, take = *work;
    gr_rc rc;

    end.write_count = 0;
    end.max = 0;
    take.write_count = 0;
    take.end = DRIVER_NOTHING;
    rc = exchange(d, &end, why);
    work->refused = end.refused;
    if (rc == GR_OK)
        rc = write_each(d, work, why);
    if (rc != GR_OK)
        return rc;
    rc = exchange(d, &take, why);
    work->refused = take.refused;
    return rc;
}

/* The row that the server refused to let us take. */
static char *find_first(struct driver *d, const struct driver_work *work)
{
    char why[DRIVER_WHY_BYTES], *id = NULL;
    struct buf except;
    PGresult *r;

    put_except(&except, work);
    if (pg_ask(d, d->first_sql, 2,
               (const char *const[]){d->table.statuses[RELAY_STATUS_NEW],
                                     except.data},
               &r, why) == GR_OK &&
        PQntuples(r))
        id = gr_strdup(PQgetvalue(r, 0, 0));
    PQclear(r);
    buf_fini(&except);
    return id;
}

static gr_rc pg_step(struct driver *d, struct driver_work *work,
                     char why[DRIVER_WHY_BYTES])
{
    struct driver_work commit = {.end = DRIVER_COMMIT};
    gr_rc rc;

    forget_rows(d);
    work->refused = DRIVER_NOTHING_REFUSED;
    work->row_id = NULL;
    if (work->max <= 0 && !work->write_count && !d->in_transaction)
        return GR_OK;
    rc = make_ready(d, why);
    if (rc == GR_OK)
        rc = work->alone && work->write_count ? exchange_alone(d, work, why)
                                              : exchange(d, work, why);
    /* No transaction stays open while there is nothing to do. */
    if (rc == GR_OK && work->max > 0 && !d->count)
        rc = exchange(d, &commit, why);
    if (rc != GR_OK && work->refused == DRIVER_NOTHING_REFUSED)
        disconnect(d);
    if (work->refused == DRIVER_TAKE_REFUSED && work->max == 1)
        work->row_id = find_first(d, work);
    return rc;
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
        .ordering_key = value(d, i, TAKEN_ORDERING_KEY),
        .payload = {value(d, i, TAKEN_PAYLOAD),
                    (size_t)PQgetlength(d->taken, at, TAKEN_PAYLOAD)},
        .payload_bytes = strtoll(value(d, i, TAKEN_BYTES), NULL, 10),
        .attempted = *value(d, i, TAKEN_ATTEMPTED) == 't',
        .has_payload = !PQgetisnull(d->taken, at, TAKEN_BYTES),
        .age_ms = -1,
    };
    if (!PQgetisnull(d->taken, at, TAKEN_AGE))
        row->age_ms = strtoll(value(d, i, TAKEN_AGE), NULL, 10);
    if (row->age_ms < -1) /* a time in the future */
        row->age_ms = 0;
}

static bool pg_wait(struct driver *d, int wake_fd, int64_t ms)
{
    struct pollfd fds[2] = {
        {.fd = wake_fd, .events = POLLIN},
        {.fd = d->conn ? PQsocket(d->conn) : -1, .events = POLLIN}};
    bool notified;

    if (d->conn)
        read_notifications(d);
    if (d->notified) {
        d->notified = false;
        return true;
    }
    if (poll(fds, 2, (int)ms) <= 0 || !d->conn || !fds[1].revents)
        return false;
    if (!PQconsumeInput(d->conn)) {
        disconnect(d);
        return true; /* step() connects again */
    }
    read_notifications(d);
    notified = d->notified;
    d->notified = false;
    return notified;
}

/* ---- beside the batches ---- */

/* After a statement outside of a step: the connection can be used, or it is closed. */
static gr_rc settle(struct driver *d, gr_rc rc)
{
    char ignored[DRIVER_WHY_BYTES];

    if (rc != GR_OK && (!d->conn || PQstatus(d->conn) != CONNECTION_OK ||
                        (PQtransactionStatus(d->conn) != PQTRANS_IDLE &&
                         tell(d, "ROLLBACK", ignored) != GR_OK)))
        disconnect(d);
    return rc;
}

static gr_rc pg_purge(struct driver *d, int64_t age_ms, int max,
                      int64_t *deleted, char why[DRIVER_WHY_BYTES])
{
    char age[24], rows[16];
    PGresult *r = NULL;
    gr_rc rc;

    *deleted = 0;
    if (make_ready(d, why) != GR_OK)
        return settle(d, GR_REFUSE);
    if (!d->purge_sql) {
        snprintf(why, DRIVER_WHY_BYTES,
                 "table %s has no column with a time by which delivered rows "
                 "are deleted: set columns.last_attempt_at or "
                 "columns.created_at of relay %s, or after_success: keep",
                 d->table.name, d->table.relay);
        return GR_REFUSE;
    }
    snprintf(age, sizeof age, "%lld", (long long)age_ms);
    snprintf(rows, sizeof rows, "%d", max);
    rc = pg_ask(
        d, d->purge_sql, 3,
        (const char *const[]){d->table.statuses[DRIVER_DELIVERED], age, rows},
        &r, why);
    if (rc == GR_OK)
        *deleted = strtoll(PQcmdTuples(r), NULL, 10);
    PQclear(r);
    return settle(d, rc);
}

static gr_rc pg_look(struct driver *d, struct driver_look *look,
                     char why[DRIVER_WHY_BYTES])
{
    char limit[80];
    PGresult *r = NULL;
    gr_rc rc;

    *look = (struct driver_look){.waiting = -1, .oldest_ms = -1};
    snprintf(limit, sizeof limit, "SET LOCAL statement_timeout = %d",
             DRIVER_LOOK_MS);
    rc = make_ready(d, why);
    if (rc == GR_OK)
        rc = tell(d, "BEGIN", why);
    if (rc == GR_OK)
        rc = tell(d, limit, why);
    if (rc == GR_OK)
        rc = pg_ask(d, d->look_sql, 1,
                    (const char *const[]){d->table.statuses[RELAY_STATUS_NEW]},
                    &r, why);
    if (rc == GR_OK) {
        look->waiting = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
        if (!look->waiting)
            look->oldest_ms = 0;
        else if (!PQgetisnull(r, 0, 1))
            look->oldest_ms = strtoll(PQgetvalue(r, 0, 1), NULL, 10);
        if (look->oldest_ms < -1) /* a time in the future */
            look->oldest_ms = 0;
        rc = tell(d, "COMMIT", why);
    }
    if (d->conn)
        read_notifications(d);
    PQclear(r);
    return settle(d, rc);
}

const struct driver_ops postgres_driver = {
    .open = pg_open,
    .close = pg_close,
    .step = pg_step,
    .count = pg_count,
    .row = pg_row,
    .wait = pg_wait,
    .purge = pg_purge,
    .look = pg_look,
    .check = pg_check,
};
