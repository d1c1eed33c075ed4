/* engine_postgres: the log and the owner row in PostgreSQL: the statements of docs/decisions/0126. */
#include "engine_transaction.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char replication_engine_postgres_sql[];

struct engine {
    struct engine_connection connection;
    char *host;
    /* What the last call has read. */
    PGresult *log;
    struct log_row *rows;
    struct bytes *parts;
    struct engine_node *nodes;
    struct engine_store *stores;
};

static struct engine *pg_open(const struct engine_settings *s)
{
    struct engine *e = gr_alloc(sizeof *e);

    engine_connection_init(&e->connection, s);
    e->host = gr_strdup(s->host);
    return e;
}

static void forget_rows(struct engine *e)
{
    PQclear(e->log);
    e->log = NULL;
    free(e->rows);
    e->rows = NULL;
    free(e->parts);
    e->parts = NULL;
    free(e->nodes);
    e->nodes = NULL;
    free(e->stores);
    e->stores = NULL;
}

static void pg_close(struct engine *e)
{
    forget_rows(e);
    engine_connection_fini(&e->connection);
    free(e->host);
    free(e);
}

/* ---- the statements of the active ---- */

#define OWNED "process = $1 AND epoch = $2 AND holder = $3"
#define AT    " AND history = $4 AND last = $5 AND chain = $6"

static void param_tenure(struct params *p, const struct engine *e,
                         const struct tenure *mine)
{
    param_text(p, e->connection.process);
    param_int8(p, mine->epoch);
    param_bytes(p, mine->holder, sizeof mine->holder);
}

static void param_position(struct params *p, const struct position *at)
{
    param_bytes(p, at->history, sizeof at->history);
    param_int8(p, at->n);
    param_bytes(p, at->chain, sizeof at->chain);
}

static enum engine_result pg_append(struct engine *e, const struct tenure *mine,
                                    const struct position *before,
                                    const struct position *after,
                                    const struct sealed_parts *parts,
                                    int64_t *beat, char why[ENGINE_WHY_BYTES])
{
    static const char sql[] =
        "WITH u AS (UPDATE grapnel.owner SET last = last + 1, chain = $7, "
        "schema = $9, beat = beat + 1 WHERE " OWNED AT
        " RETURNING last, epoch, chain, beat) "
        "INSERT INTO grapnel.log (process, n, part, epoch, chain, bytes) "
        "SELECT $1, u.last, p.part, u.epoch, u.chain, p.bytes "
        "FROM u, unnest($8) WITH ORDINALITY AS p (bytes, part) "
        "RETURNING (SELECT beat FROM u)";
    struct transaction t = {0};
    struct params *p = transaction_add(&t, sql);
    enum engine_result result;
    struct buf array;

    forget_rows(e);
    for (size_t i = 0; i < parts->count; i++)
        t.bytes += parts->parts[i].len;
    if (!parts->count || after->n != before->n + 1)
        die(EXIT_SOFTWARE, "turn %" PRId64 " after %" PRId64 " has %zu parts",
            after->n, before->n, parts->count);
    param_tenure(p, e, mine);
    param_position(p, before);
    param_bytes(p, after->chain, sizeof after->chain);
    param_parts(p, &array, parts);
    param_int4(p, mine->schema);
    result = transact_rows(&e->connection, &t, parts->count, why);
    if (result == ENGINE_DONE)
        *beat = get_number(t.statements[0].result, 0, 0);
    buf_fini(&array);
    transaction_fini(&t);
    return result;
}

static enum engine_result pg_beat(struct engine *e, const struct tenure *mine,
                                  const struct position *at, int64_t *beat,
                                  char why[ENGINE_WHY_BYTES])
{
    struct transaction t = {0};
    struct params *p = transaction_add(
        &t, "UPDATE grapnel.owner SET beat = beat + 1 WHERE " OWNED AT
            " RETURNING beat");
    enum engine_result result;

    forget_rows(e);
    param_tenure(p, e, mine);
    param_position(p, at);
    result = transact_rows(&e->connection, &t, 1, why);
    if (result == ENGINE_DONE)
        *beat = get_number(t.statements[0].result, 0, 0);
    transaction_fini(&t);
    return result;
}

static enum engine_result pg_release(struct engine *e,
                                     const struct tenure *mine,
                                     const struct position *at, int64_t beat,
                                     const char *heir,
                                     char why[ENGINE_WHY_BYTES])
{
    struct transaction t = {0};
    struct params *p = transaction_add(
        &t, "UPDATE grapnel.owner SET holder = '', heir = $8, beat = beat + 1 "
            "WHERE " OWNED AT " AND beat = $7 RETURNING 1");
    enum engine_result result;

    forget_rows(e);
    param_tenure(p, e, mine);
    param_position(p, at);
    param_int8(p, beat);
    param_text(p, heir);
    result = transact_rows(&e->connection, &t, 1, why);
    transaction_fini(&t);
    return result;
}

/* ---- the statements of a standby ---- */

static enum engine_result pg_take_over(struct engine *e,
                                       const struct owner *seen,
                                       const uint8_t me[HOLDER_BYTES],
                                       struct tenure *mine,
                                       char why[ENGINE_WHY_BYTES])
{
    struct transaction t = {0};
    struct params *p = transaction_add(
        &t, "UPDATE grapnel.owner SET epoch = epoch + 1, holder = $3, "
            "host = $9, heir = '' WHERE process = $1 AND epoch = $2" AT
            " AND beat = $7 AND schema = $8 RETURNING epoch");
    enum engine_result result;

    forget_rows(e);
    param_text(p, e->connection.process);
    param_int8(p, seen->epoch);
    param_bytes(p, me, HOLDER_BYTES);
    param_position(p, &seen->at);
    param_int8(p, seen->beat);
    param_int4(p, seen->schema);
    param_text(p, e->host);
    result = transact_rows(&e->connection, &t, 1, why);
    if (result == ENGINE_DONE) {
        mine->epoch = get_number(t.statements[0].result, 0, 0);
        memcpy(mine->holder, me, HOLDER_BYTES);
        mine->schema = seen->schema;
    }
    transaction_fini(&t);
    return result;
}

static enum engine_result pg_claim(struct engine *e, const struct owner *seen,
                                   char why[ENGINE_WHY_BYTES])
{
    struct transaction t = {0};
    struct params *p = transaction_add(
        &t, "UPDATE grapnel.owner SET claim = beat WHERE process = $1 AND "
            "epoch = $2 AND beat = $3 AND history = $4 RETURNING 1");
    enum engine_result result;

    forget_rows(e);
    param_text(p, e->connection.process);
    param_int8(p, seen->epoch);
    param_int8(p, seen->beat);
    param_bytes(p, seen->at.history, HISTORY_BYTES);
    result = transact_rows(&e->connection, &t, 1, why);
    transaction_fini(&t);
    return result;
}

/* A text that is too long is cut. */
static void get_text(const PGresult *r, int row, int column, char *out,
                     size_t n)
{
    snprintf(out, n, "%s", PQgetvalue(r, row, column));
}

#define OWNER_COLUMNS                                                  \
    "history, epoch, holder, last, chain, beat, claim, schema, host, " \
    "heir"

enum {
    OWNER_HISTORY,
    OWNER_EPOCH,
    OWNER_HOLDER,
    OWNER_LAST,
    OWNER_CHAIN,
    OWNER_BEAT,
    OWNER_CLAIM,
    OWNER_SCHEMA,
    OWNER_HOST,
    OWNER_HEIR,
    OWNER_END,
};

/* false: a value has another length. */
static bool read_owner(const struct engine *e, const PGresult *r, int row,
                       struct owner *owner)
{
    const char *heir = PQgetvalue(r, row, OWNER_HEIR);

    *owner = (struct owner){.exists = true};
    owner->epoch = get_number(r, row, OWNER_EPOCH);
    owner->at.n = get_number(r, row, OWNER_LAST);
    owner->beat = get_number(r, row, OWNER_BEAT);
    owner->claim = get_number(r, row, OWNER_CLAIM);
    owner->schema = (int)get_number(r, row, OWNER_SCHEMA);
    get_text(r, row, OWNER_HOST, owner->host, sizeof owner->host);
    get_text(r, row, OWNER_HEIR, owner->heir, sizeof owner->heir);
    owner->for_another = *heir && strcmp(heir, e->host) != 0;
    return get_fixed(r, row, OWNER_HISTORY, owner->at.history, HISTORY_BYTES) &&
           (!PQgetlength(r, row, OWNER_HOLDER) ||
            get_fixed(r, row, OWNER_HOLDER, owner->holder, HOLDER_BYTES)) &&
           get_fixed(r, row, OWNER_CHAIN, owner->at.chain, CHAIN_BYTES);
}

static bool read_owner_if_any(const struct engine *e, const PGresult *r,
                              struct owner *owner)
{
    *owner = (struct owner){0};
    return !PQntuples(r) || read_owner(e, r, 0, owner);
}

static const char bad_owner[] = "the owner row has a value of another length";

/* Columns of the log as follow() reads them. */
enum { LOG_N, LOG_PART, LOG_EPOCH, LOG_CHAIN, LOG_BYTES };

/* Makes turns of the rows, which the engine keeps. false: the parts do not fit together. */
static bool read_log(struct engine *e, PGresult *r, size_t *count)
{
    struct log_row *turn = NULL;
    int n = PQntuples(r);

    *count = 0;
    e->log = r;
    e->rows = gr_alloc(((size_t)n + 1) * sizeof *e->rows);
    e->parts = gr_alloc(((size_t)n + 1) * sizeof *e->parts);
    for (int i = 0; i < n; i++) {
        int64_t number = get_number(r, i, LOG_N);

        if (!turn || turn->n != number) {
            turn = &e->rows[(*count)++];
            *turn = (struct log_row){.n = number,
                                     .epoch = get_number(r, i, LOG_EPOCH),
                                     .parts = &e->parts[i]};
            if (!get_fixed(r, i, LOG_CHAIN, turn->chain, CHAIN_BYTES))
                return false;
        }
        e->parts[i] = get_bytes(r, i, LOG_BYTES);
        if (get_number(r, i, LOG_PART) != (int64_t)++turn->count)
            return false;
    }
    return true;
}

static const char node_sql[] =
    "INSERT INTO grapnel.node "
    "(process, host, n, chain, ready, why, peers, seen) "
    "VALUES ($1, $2, $3, $4, $5, $6, $7, pg_catalog.clock_timestamp()) "
    "ON CONFLICT (process, host) DO UPDATE SET n = excluded.n, "
    "chain = excluded.chain, ready = excluded.ready, why = excluded.why, "
    "peers = excluded.peers, seen = excluded.seen";
static const char owner_sql[] = "SELECT " OWNER_COLUMNS
                                " FROM grapnel.owner WHERE process = $1";
/* A turn's sum includes all of its parts, because rows with the same n are peers in the order of the window. */
static const char log_sql[] =
    "WITH first AS (SELECT min(n) AS n FROM grapnel.log "
    "WHERE process = $1 AND n > $2) "
    "SELECT n, part, epoch, chain, bytes FROM ("
    "SELECT l.n, l.part, l.epoch, l.chain, l.bytes, f.n AS first, "
    "sum(pg_catalog.octet_length(l.bytes)) OVER (ORDER BY l.n) AS total "
    "FROM first f JOIN grapnel.log l ON l.process = $1 "
    "AND l.n BETWEEN f.n AND f.n + 4095) AS t "
    "WHERE total <= $3 OR n = first ORDER BY n, part";

static void add_node(struct transaction *t, const struct engine *e,
                     const struct node *me)
{
    struct params *p = transaction_add(t, node_sql);

    param_text(p, e->connection.process);
    param_text(p, e->host);
    param_int8(p, me->at.n);
    param_bytes(p, me->at.chain, CHAIN_BYTES);
    param_bool(p, me->ready);
    param_text(p, me->why);
    param_int4(p, me->peers);
}

static enum engine_result pg_follow(struct engine *e, const struct node *me,
                                    size_t max_bytes, struct owner *owner,
                                    const struct log_row **rows, size_t *count,
                                    char why[ENGINE_WHY_BYTES])
{
    struct transaction t = {.bytes = max_bytes};
    enum engine_result result;
    struct params *p;

    forget_rows(e);
    *rows = NULL;
    *count = 0;
    add_node(&t, e, me);
    if (max_bytes) {
        p = transaction_add(&t, log_sql);
        param_text(p, e->connection.process);
        param_int8(p, me->at.n);
        param_int8(p, (int64_t)max_bytes);
    }
    p = transaction_add(&t, owner_sql);
    param_text(p, e->connection.process);
    result = transact(&e->connection, &t, why);
    if (result == ENGINE_DONE &&
        !read_owner_if_any(e, t.statements[t.count - 1].result, owner))
        result = engine_unknown(why, bad_owner, "");
    if (result == ENGINE_DONE && max_bytes) {
        PGresult *log = t.statements[1].result;

        t.statements[1].result = NULL;
        if (read_log(e, log, count)) {
            *rows = e->rows;
        } else {
            *count = 0;
            result = engine_unknown(why, "a turn of the log lacks a part", "");
        }
    }
    transaction_fini(&t);
    return result;
}

/* ---- snapshots, and the end of old turns ---- */

/* A takeover waits until such a transaction ends. */
#define OWNER_LOCKED                                           \
    "WITH o AS MATERIALIZED (SELECT epoch FROM grapnel.owner " \
    "WHERE " OWNED

static enum engine_result pg_put_snapshot(struct engine *e,
                                          const struct tenure *mine,
                                          const struct position *at,
                                          int64_t part, struct bytes sealed,
                                          char why[ENGINE_WHY_BYTES])
{
    struct transaction t = {.bytes = sealed.n};
    struct params *p = transaction_add(
        &t, OWNER_LOCKED
        " AND history = $4 FOR NO KEY UPDATE) INSERT INTO grapnel.snapshot "
        "(process, n, epoch, part, bytes) SELECT $1, $5, epoch, $6, $7 FROM o "
        "ON CONFLICT (process, n, epoch, part) DO UPDATE "
        "SET bytes = excluded.bytes RETURNING 1");
    enum engine_result result;

    forget_rows(e);
    param_tenure(p, e, mine);
    param_bytes(p, at->history, HISTORY_BYTES);
    param_int8(p, at->n);
    param_int8(p, part);
    param_bytes(p, sealed.p, sealed.n);
    result = transact_rows(&e->connection, &t, 1, why);
    transaction_fini(&t);
    return result;
}

/* What is read must survive: so it also writes, into the row of this node. */
static const char touch_sql[] =
    "INSERT INTO grapnel.node "
    "(process, host, n, chain, ready, why, peers, seen) "
    "VALUES ($1, $2, 0, '', false, 'it reads a snapshot', 0, "
    "pg_catalog.clock_timestamp()) "
    "ON CONFLICT (process, host) DO UPDATE SET seen = excluded.seen";
static const char snapshot_sql[] =
    "SELECT n, epoch, bytes FROM grapnel.snapshot WHERE process = $1 "
    "AND part = $2 AND (n, epoch) = (SELECT n, epoch FROM grapnel.snapshot "
    "WHERE process = $1 AND part = -1 ORDER BY n DESC, epoch DESC LIMIT 1)";

static enum engine_result pg_get_snapshot(struct engine *e, int64_t part,
                                          int64_t *n, int64_t *epoch,
                                          struct buf *sealed,
                                          char why[ENGINE_WHY_BYTES])
{
    struct transaction t = {.bytes = SEAL_PART_BYTES};
    struct params *p = transaction_add(&t, touch_sql);
    enum engine_result result;
    struct bytes bytes;

    forget_rows(e);
    buf_reset(sealed);
    param_text(p, e->connection.process);
    param_text(p, e->host);
    p = transaction_add(&t, snapshot_sql);
    param_text(p, e->connection.process);
    param_int8(p, part);
    result = transact(&e->connection, &t, why);
    if (result == ENGINE_DONE && !PQntuples(t.statements[1].result))
        result = ENGINE_NO_ROW;
    if (result == ENGINE_DONE) {
        *n = get_number(t.statements[1].result, 0, 0);
        *epoch = get_number(t.statements[1].result, 0, 1);
        bytes = get_bytes(t.statements[1].result, 0, 2);
        buf_put(sealed, bytes.p, bytes.n);
        if (sealed->failed)
            result = engine_unknown(why, "a part of the snapshot is too long",
                                    "");
    }
    transaction_fini(&t);
    return result;
}

/* Rows of each table that one call deletes: at most 25 MiB. */
#define FORGET_ROWS "100"

static enum engine_result pg_forget(struct engine *e, const struct tenure *mine,
                                    int64_t n, bool *more,
                                    char why[ENGINE_WHY_BYTES])
{
    static const char sql[] = OWNER_LOCKED
        " FOR NO KEY UPDATE), l AS (DELETE FROM grapnel.log WHERE (process, n, "
        "part) IN (SELECT process, n, part FROM grapnel.log, o "
        "WHERE process = $1 AND n <= $4 ORDER BY n, part LIMIT " FORGET_ROWS
        ") RETURNING 1), s AS (DELETE FROM grapnel.snapshot WHERE (process, n, "
        "snapshot.epoch, part) IN (SELECT process, n, s.epoch, part "
        "FROM grapnel.snapshot s, o WHERE process = $1 AND n < $4 "
        "ORDER BY n, s.epoch, part LIMIT " FORGET_ROWS ") RETURNING 1) "
        "SELECT (SELECT count(*) FROM l) = " FORGET_ROWS
        " OR (SELECT count(*) FROM s) = " FORGET_ROWS " FROM o";
    struct transaction t = {.bytes = 2 * 100 * SEAL_PART_BYTES};
    struct params *p = transaction_add(&t, sql);
    enum engine_result result;

    forget_rows(e);
    param_tenure(p, e, mine);
    param_int8(p, n);
    result = transact_rows(&e->connection, &t, 1, why);
    if (result == ENGINE_DONE)
        *more = get_number(t.statements[0].result, 0, 0);
    transaction_fini(&t);
    return result;
}

static enum engine_result
pg_forget_unfinished(struct engine *e, const struct tenure *mine, int64_t after,
                     int64_t before, bool *more, char why[ENGINE_WHY_BYTES])
{
    static const char sql[] = OWNER_LOCKED
        " FOR NO KEY UPDATE), s AS (DELETE FROM grapnel.snapshot "
        "WHERE (process, n, snapshot.epoch, part) IN ("
        "SELECT process, n, s.epoch, part FROM grapnel.snapshot s, o "
        "WHERE process = $1 AND n > $4 AND n < $5 AND part >= 0 "
        "ORDER BY n, s.epoch, part LIMIT " FORGET_ROWS ") RETURNING 1) "
        "SELECT (SELECT count(*) FROM s) = " FORGET_ROWS " FROM o";
    struct transaction t = {.bytes = 100 * SEAL_PART_BYTES};
    struct params *p = transaction_add(&t, sql);
    enum engine_result result;

    forget_rows(e);
    param_tenure(p, e, mine);
    param_int8(p, after);
    param_int8(p, before);
    result = transact_rows(&e->connection, &t, 1, why);
    if (result == ENGINE_DONE)
        *more = get_number(t.statements[0].result, 0, 0);
    transaction_fini(&t);
    return result;
}

/* ---- slices of large turns: in the table of snapshots, with part numbers below that of a manifest ---- */

static int64_t part_of_slice(int64_t slice)
{
    return -2 - slice;
}

static enum engine_result pg_put_slice(struct engine *e,
                                       const struct tenure *mine,
                                       const struct position *at, int64_t slice,
                                       struct bytes sealed,
                                       char why[ENGINE_WHY_BYTES])
{
    return pg_put_snapshot(e, mine, at, part_of_slice(slice), sealed, why);
}

static enum engine_result pg_get_slice(struct engine *e, int64_t n,
                                       int64_t epoch, int64_t slice,
                                       struct buf *sealed,
                                       char why[ENGINE_WHY_BYTES])
{
    struct transaction t = {.bytes = SEAL_PART_BYTES};
    struct params *p = transaction_add(
        &t, "SELECT bytes FROM grapnel.snapshot WHERE process = $1 AND n = $2 "
            "AND epoch = $3 AND part = $4");
    enum engine_result result;
    struct bytes bytes;

    forget_rows(e);
    buf_reset(sealed);
    param_text(p, e->connection.process);
    param_int8(p, n);
    param_int8(p, epoch);
    param_int8(p, part_of_slice(slice));
    result = transact_rows(&e->connection, &t, 1, why);
    if (result == ENGINE_DONE) {
        bytes = get_bytes(t.statements[0].result, 0, 0);
        buf_put(sealed, bytes.p, bytes.n);
        if (sealed->failed)
            result = engine_unknown(why, "a slice of a turn is too long", "");
    }
    transaction_fini(&t);
    return result;
}

static enum engine_result pg_forget_slices(struct engine *e,
                                           const struct tenure *mine,
                                           bool *more,
                                           char why[ENGINE_WHY_BYTES])
{
    static const char sql[] =
        "WITH o AS MATERIALIZED (SELECT last FROM grapnel.owner WHERE " OWNED
        " FOR NO KEY UPDATE), s AS (DELETE FROM grapnel.snapshot "
        "WHERE (process, n, snapshot.epoch, part) IN ("
        "SELECT process, n, s.epoch, part FROM grapnel.snapshot s, o "
        "WHERE process = $1 AND n > o.last AND part < -1 "
        "ORDER BY n, s.epoch, part LIMIT " FORGET_ROWS ") RETURNING 1) "
        "SELECT (SELECT count(*) FROM s) = " FORGET_ROWS " FROM o";
    struct transaction t = {.bytes = 100 * SEAL_PART_BYTES};
    struct params *p = transaction_add(&t, sql);
    enum engine_result result;

    forget_rows(e);
    param_tenure(p, e, mine);
    result = transact_rows(&e->connection, &t, 1, why);
    if (result == ENGINE_DONE)
        *more = get_number(t.statements[0].result, 0, 0);
    transaction_fini(&t);
    return result;
}

/* ---- the beginning and the end of a history ---- */

static enum engine_result pg_begin_history(struct engine *e,
                                           const struct position *at,
                                           int schema,
                                           char why[ENGINE_WHY_BYTES])
{
    struct transaction t = {0};
    struct params *p = transaction_add(
        &t, "INSERT INTO grapnel.owner (process, history, epoch, holder, last, "
            "chain, beat, claim, schema, host, heir) "
            "SELECT $1, $2, 0, ''::bytea, $3, $4, 0, -1, $5, '', '' "
            "WHERE NOT EXISTS (SELECT 1 FROM grapnel.log WHERE process = $1) "
            "AND NOT EXISTS (SELECT 1 FROM grapnel.snapshot "
            "WHERE process = $1) ON CONFLICT (process) DO NOTHING RETURNING 1");
    enum engine_result result;

    forget_rows(e);
    param_text(p, e->connection.process);
    param_position(p, at);
    param_int4(p, schema);
    result = transact_rows(&e->connection, &t, 1, why);
    transaction_fini(&t);
    return result;
}

/* The row's lock orders it and each statement of an active; one that comes later finds no row. */
static enum engine_result pg_end_history(struct engine *e,
                                         const struct owner *seen,
                                         char why[ENGINE_WHY_BYTES])
{
    static const uint8_t nobody[HOLDER_BYTES];
    struct transaction t = {0};
    struct params *p = transaction_add(&t, "DELETE FROM grapnel.owner "
                                           "WHERE " OWNED AT
                                           " AND beat = $7 RETURNING 1");
    enum engine_result result;

    forget_rows(e);
    param_text(p, e->connection.process);
    param_int8(p, seen->epoch);
    param_bytes(p, seen->holder,
                memcmp(seen->holder, nobody, HOLDER_BYTES) ? HOLDER_BYTES : 0);
    param_position(p, &seen->at);
    param_int8(p, seen->beat);
    result = transact_rows(&e->connection, &t, 1, why);
    transaction_fini(&t);
    return result;
}

/* One statement sees the tables of one moment, so it deletes no row that a history which begins meanwhile inserts. Two of them at once choose the same
 * rows: `more` counts those that were chosen. */
static enum engine_result pg_clear(struct engine *e, bool *more,
                                   char why[ENGINE_WHY_BYTES])
{
    static const char sql[] =
        "WITH free AS MATERIALIZED (SELECT $1 AS process WHERE NOT EXISTS "
        "(SELECT 1 FROM grapnel.owner WHERE process = $1)), "
        "l AS MATERIALIZED (SELECT process, n, part FROM grapnel.log "
        "JOIN free USING (process) ORDER BY n, part LIMIT " FORGET_ROWS "), "
        "s AS MATERIALIZED (SELECT process, n, epoch, part "
        "FROM grapnel.snapshot JOIN free USING (process) "
        "ORDER BY n, epoch, part LIMIT " FORGET_ROWS "), "
        "no_l AS (DELETE FROM grapnel.log WHERE (process, n, part) IN "
        "(SELECT process, n, part FROM l)), "
        "no_s AS (DELETE FROM grapnel.snapshot "
        "WHERE (process, n, epoch, part) IN "
        "(SELECT process, n, epoch, part FROM s)), "
        "no_n AS (DELETE FROM grapnel.node WHERE process IN "
        "(SELECT process FROM free)) "
        "SELECT (SELECT count(*) FROM l) = " FORGET_ROWS
        " OR (SELECT count(*) FROM s) = " FORGET_ROWS " FROM free";
    struct transaction t = {.bytes = 2 * 100 * SEAL_PART_BYTES};
    struct params *p = transaction_add(&t, sql);
    enum engine_result result;

    forget_rows(e);
    param_text(p, e->connection.process);
    result = transact_rows(&e->connection, &t, 1, why);
    if (result == ENGINE_DONE)
        *more = get_number(t.statements[0].result, 0, 0);
    transaction_fini(&t);
    return result;
}

/* ---- for people ---- */

#define NODE_COLUMNS                        \
    "process, host, n, ready, why, peers, " \
    "(1000 * extract(epoch FROM pg_catalog.clock_timestamp() - seen))::int8"

enum {
    NODE_PROCESS,
    NODE_HOST,
    NODE_N,
    NODE_READY,
    NODE_WHY,
    NODE_PEERS,
    NODE_SEEN,
};

/* Makes e->nodes of the rows. */
static void read_nodes(struct engine *e, const PGresult *r)
{
    int n = PQntuples(r);

    e->nodes = gr_alloc(((size_t)n + 1) * sizeof *e->nodes);
    for (int i = 0; i < n; i++) {
        struct engine_node *node = &e->nodes[i];

        get_text(r, i, NODE_HOST, node->host, sizeof node->host);
        node->n = get_number(r, i, NODE_N);
        node->ready = get_number(r, i, NODE_READY);
        get_text(r, i, NODE_WHY, node->why, sizeof node->why);
        node->peers = (int)get_number(r, i, NODE_PEERS);
        node->seen_ms = get_number(r, i, NODE_SEEN);
    }
}

static enum engine_result pg_nodes(struct engine *e,
                                   const struct engine_node **nodes,
                                   size_t *count, char why[ENGINE_WHY_BYTES])
{
    struct transaction t = {.limit_ms = e->connection.hold_ms / 8};
    struct params *p = transaction_add(
        &t, "SELECT " NODE_COLUMNS " FROM grapnel.node WHERE process = $1 "
            "AND host <> $2 ORDER BY host");
    enum engine_result result;

    forget_rows(e);
    *nodes = NULL;
    *count = 0;
    param_text(p, e->connection.process);
    param_text(p, e->host);
    result = transact(&e->connection, &t, why);
    if (result == ENGINE_DONE) {
        read_nodes(e, t.statements[0].result);
        *nodes = e->nodes;
        *count = (size_t)PQntuples(t.statements[0].result);
    }
    transaction_fini(&t);
    return result;
}

static enum engine_result pg_is_free(struct engine *e, bool *yes,
                                     char why[ENGINE_WHY_BYTES])
{
    struct transaction t = {.limit_ms = e->connection.hold_ms / 8};
    struct params *p = transaction_add(
        &t, "SELECT 1 FROM grapnel.owner WHERE process = $1 AND holder = '' "
            "AND heir IN ('', $2)");
    enum engine_result result;

    forget_rows(e);
    *yes = false;
    param_text(p, e->connection.process);
    param_text(p, e->host);
    result = transact(&e->connection, &t, why);
    if (result == ENGINE_DONE)
        *yes = PQntuples(t.statements[0].result) > 0;
    transaction_fini(&t);
    return result;
}

static const char stores_sql[] =
    "SELECT " OWNER_COLUMNS ", process, coalesce(newest, -1), "
    "(SELECT coalesce(sum(pg_catalog.octet_length(bytes)), 0) "
    "FROM grapnel.log l WHERE l.process = o.process "
    "AND l.n > coalesce(newest, -1)) FROM (SELECT *, (SELECT max(n) "
    "FROM grapnel.snapshot s WHERE s.process = owner.process AND part = -1) "
    "AS newest FROM grapnel.owner) AS o ORDER BY process";

enum {
    STORE_PROCESS = OWNER_END,
    STORE_SNAPSHOT,
    STORE_LOG_BYTES,
};

/* Makes e->stores of the rows, with the nodes that e->nodes has in the order of processes. false: a value has another length. */
static bool read_stores(struct engine *e, const PGresult *r,
                        const PGresult *nodes)
{
    int n = PQntuples(r), all = PQntuples(nodes);

    e->stores = gr_alloc(((size_t)n + 1) * sizeof *e->stores);
    for (int i = 0; i < n; i++) {
        struct engine_store *store = &e->stores[i];
        const char *process = PQgetvalue(r, i, STORE_PROCESS);

        if (!read_owner(e, r, i, &store->owner))
            return false;
        get_text(r, i, STORE_PROCESS, store->process, sizeof store->process);
        store->snapshot_n = get_number(r, i, STORE_SNAPSHOT);
        store->log_bytes = get_number(r, i, STORE_LOG_BYTES);
        for (int j = 0; j < all; j++) {
            if (strcmp(PQgetvalue(nodes, j, NODE_PROCESS), process) != 0)
                continue;
            if (!store->node_count++)
                store->nodes = &e->nodes[j];
        }
    }
    return true;
}

static enum engine_result pg_overview(struct engine *e,
                                      const struct engine_store **stores,
                                      size_t *count, char why[ENGINE_WHY_BYTES])
{
    struct transaction t = {0};
    enum engine_result result;

    forget_rows(e);
    *stores = NULL;
    *count = 0;
    transaction_add(&t, stores_sql);
    transaction_add(&t, "SELECT " NODE_COLUMNS " FROM grapnel.node "
                        "ORDER BY process, host");
    result = transact(&e->connection, &t, why);
    if (result == ENGINE_DONE) {
        const PGresult *r = t.statements[0].result;

        read_nodes(e, t.statements[1].result);
        if (read_stores(e, r, t.statements[1].result)) {
            *stores = e->stores;
            *count = (size_t)PQntuples(r);
        } else {
            result = engine_unknown(why, bad_owner, "");
        }
    }
    transaction_fini(&t);
    return result;
}

const char *engine_postgres_ddl(void)
{
    return replication_engine_postgres_sql;
}

const struct engine_ops engine_postgres = {
    .open = pg_open,
    .close = pg_close,
    .append = pg_append,
    .beat = pg_beat,
    .release = pg_release,
    .take_over = pg_take_over,
    .follow = pg_follow,
    .claim = pg_claim,
    .put_snapshot = pg_put_snapshot,
    .get_snapshot = pg_get_snapshot,
    .forget = pg_forget,
    .forget_unfinished = pg_forget_unfinished,
    .put_slice = pg_put_slice,
    .get_slice = pg_get_slice,
    .forget_slices = pg_forget_slices,
    .begin_history = pg_begin_history,
    .end_history = pg_end_history,
    .clear = pg_clear,
    .nodes = pg_nodes,
    .is_free = pg_is_free,
    .overview = pg_overview,
};
