/* postgres: a connection to a PostgreSQL database and its table, for postgres.c, its statements
 * (postgres_sql.c) and the check of both (postgres_check.c), which no other file needs. */
#ifndef OUTBOX_POSTGRES_H
#define OUTBOX_POSTGRES_H

#include "alloc.h"
#include "relay_table.h"
#include <libpq-fe.h>

/* What `take_sql` returns of each row, in this order. */
enum taken {
    TAKEN_ORDER,
    TAKEN_ID,
    TAKEN_BYTES,
    TAKEN_PAYLOAD,
    TAKEN_URL,
    TAKEN_TYPE,
    TAKEN_WORKSPACE,
    TAKEN_ENDPOINT,
    TAKEN_ORDERING_KEY,
    TAKEN_ATTEMPTED,
    TAKEN_AGE,
};

/* A column that the table has. */
struct pg_column {
    /* NULL: it has no such column. Borrowed. */
    const char *name;
    /* As the server writes it: "timestamp with time zone". */
    char type[100];
    /* The most characters that it takes; 0: no limit. */
    int width;
    bool not_null;
};

struct driver {
    struct relay_table table;
    PGconn *conn;
    PGresult *taken;
    /* Rows of `taken` in the order in which they are sent. */
    size_t *order;
    size_t count;
    bool in_transaction;
    char *take_sql, *fail_sql, *write_sql, *new_sql, *first_sql, *look_sql;
    /* NULL: the table has no column for the age of rows. */
    char *purge_sql;
    /* A value was refused: the columns may have other types now, and are read again. */
    bool stale;
    /* There were notifications of new rows since the last wait. */
    bool notified;
};

/* Connects; the URI, the password file and TLS are as the relay says. GR_REFUSE: `why`. */
gr_rc pg_connect(struct driver *d, char why[DRIVER_WHY_BYTES]);
/* One statement by itself. The result is the caller's. */
gr_rc pg_ask(struct driver *d, const char *sql, int n,
             const char *const *values, PGresult **result,
             char why[DRIVER_WHY_BYTES]);
/* Which columns the table has. A usual name that it does not have is not used. GR_REFUSE: the table
 * cannot be read. */
gr_rc pg_find_columns(struct driver *d, struct pg_column found[COLUMN_COUNT],
                      char why[DRIVER_WHY_BYTES]);
/* Whether the column of the status takes the four statuses, and gives them back. GR_REFUSE: `why`. */
gr_rc pg_try_statuses(struct driver *d,
                      const struct pg_column found[COLUMN_COUNT],
                      char why[DRIVER_WHY_BYTES]);
/* Whether the relay cannot work without this column, which the table does not have. */
bool pg_lacks(const struct driver *d,
              const struct pg_column found[COLUMN_COUNT], enum column c);
/* The table as SQL; also the text of a regclass. */
void pg_put_table(struct driver *d, struct buf *sql);
void pg_put_name(struct driver *d, struct buf *sql, const char *name);
/* Makes the statements of a driver that is connected. */
void pg_make_statements(struct driver *d,
                        const struct pg_column found[COLUMN_COUNT]);

struct driver *pg_open(const struct relay *r, const char *process,
                       int64_t max_payload_bytes);
void pg_close(struct driver *d);
/* postgres_check.c */
void pg_check(const struct relay *relay, driver_finding *found, void *self);

#endif
