/* engine_transaction: one transaction with a PostgreSQL engine, in one round trip, which proves something or has an unknown outcome.
 *
 * Its pipeline is BEGIN, limits of its time, the statements, COMMIT, and the settings that decide whether that COMMIT survives the loss of a
 * machine. Values are in the binary form of the protocol. One thread at a time. */
#ifndef REPLICATION_ENGINE_TRANSACTION_H
#define REPLICATION_ENGINE_TRANSACTION_H

#include "engine.h"
#include "pg_connection.h"

enum {
    OID_BOOL = 16,
    OID_BYTEA = 17,
    OID_INT8 = 20,
    OID_INT4 = 23,
    OID_TEXT = 25,
    OID_BYTEA_ARRAY = 1001,
    PARAMS_MAX = 10,
    STATEMENTS_MAX = 3,
};

/* ---- values ---- */

/* Of a statement. Values belong to the caller, except numbers. */
struct params {
    int n;
    Oid types[PARAMS_MAX];
    const char *values[PARAMS_MAX];
    int lengths[PARAMS_MAX], formats[PARAMS_MAX];
    uint8_t numbers[PARAMS_MAX][8];
};

void param_text(struct params *p, const char *text);
void param_bytes(struct params *p, const void *value, size_t n);
void param_int8(struct params *p, int64_t v);
void param_int4(struct params *p, int v);
void param_bool(struct params *p, bool v);
/* A bytea[]; `array` holds its bytes until the statement is sent. */
void param_parts(struct params *p, struct buf *array,
                 const struct sealed_parts *parts);

int64_t get_number(const PGresult *r, int row, int column);
struct bytes get_bytes(const PGresult *r, int row, int column);
/* false: the value has another length. */
bool get_fixed(const PGresult *r, int row, int column, uint8_t *out, size_t n);

/* ---- transactions ---- */

struct engine_connection {
    char *database, *process;
    int64_t hold_ms;
    bool accept_weak;
    PGconn *conn; /* NULL: not connected */
    struct pg_warning warning;
};

void engine_connection_init(struct engine_connection *c,
                            const struct engine_settings *s);
void engine_connection_fini(struct engine_connection *c);

struct statement {
    const char *sql;
    struct params params;
    PGresult *result; /* set by transact(), if that is ENGINE_DONE */
};

struct transaction {
    struct statement statements[STATEMENTS_MAX];
    int count;
    size_t
        bytes; /* that it carries, beside a few: more of them may take longer */
    int64_t limit_ms; /* of it, and of connecting; 0: by hold and bytes */
};

/* Adds a statement; the caller adds its values. `sql` is static. */
struct params *transaction_add(struct transaction *t, const char *sql);
/* ENGINE_DONE: the COMMIT is acknowledged, without a warning, under settings that cannot lose it, and each statement has its result. It proves
 * something only if a statement has written. Never ENGINE_NO_ROW. After ENGINE_UNKNOWN the connection is closed. */
enum engine_result transact(struct engine_connection *c, struct transaction *t,
                            char why[ENGINE_WHY_BYTES]);
/* Of one statement, which returns `rows` rows, or none: ENGINE_NO_ROW. */
enum engine_result transact_rows(struct engine_connection *c,
                                 struct transaction *t, size_t rows,
                                 char why[ENGINE_WHY_BYTES]);
void transaction_fini(struct transaction *t);

enum engine_result engine_unknown(char why[ENGINE_WHY_BYTES], const char *what,
                                  const char *message);

/* For the check of the engine: connects like a transaction, and runs one statement as the server's settings are. NULL: `why`. The result is the
 * caller's. */
PGresult *engine_ask(struct engine_connection *c, const char *sql,
                     char why[ENGINE_WHY_BYTES]);

#endif
