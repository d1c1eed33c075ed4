/* driver: what each kind of database does for a relay: it takes new rows of a table in batches, in
 * a transaction that stays open until the caller has stored them, and then commits it.
 *
 * SQLite has no such transaction, because the application's writers would wait for it: its rows are
 * read, and marked when the caller has stored them. "Open transaction" means such rows, too.
 *
 * All functions may block up to the time limits below. So only the thread of a relay (relay.c) calls
 * them, one at a time; `grapnel outbox check` calls check(). They own nothing of the caller's. After
 * a crash, or a lost connection, the database rolls back what was not committed: the same rows are
 * taken again. */
#ifndef OUTBOX_DRIVER_H
#define OUTBOX_DRIVER_H

#include "bounds.h"
#include "rc.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DRIVER_CONNECT_S = 10,
    /* A reply that takes longer: the connection is lost. */
    DRIVER_REPLY_MS = 30 * 1000,
    /* The server ends a transaction of ours that waits for so long. */
    DRIVER_IDLE_MS = 10 * 1000,
    /* Of payloads, unless one row has more. */
    DRIVER_BATCH_BYTES = 4 * 1024 * 1024,
    DRIVER_WHY_BYTES = 500,
    /* How much later the last attempt in the row must be, because some columns have only seconds. */
    DRIVER_NEWER_MS = 1000,
    /* How long step() begins to write rows one by one. */
    DRIVER_ALONE_MS = 2000,
    /* look() counts up to here, and takes this long at most. */
    DRIVER_COUNT_MAX = 10000,
    DRIVER_LOOK_MS = 2000,
};

/* A row that was taken. Texts are valid until the next call; "" where the table has no such
 * column, or the value is NULL. */
struct driver_row {
    const char *id, *url, *type, *workspace, *endpoint, *ordering_key;
    struct bytes payload;
    /* The whole; it is not read when it is above the limit. */
    int64_t payload_bytes;
    /* false: it is NULL. */
    bool has_payload;
    /* It shows that an attempt was made before, so it was reset. */
    bool attempted;
    /* Since `created_at`, by the clock of the database; -1: unknown. */
    int64_t age_ms;
};

/* A row that cannot become an event. */
struct driver_refusal {
    char *id, *why;
};

enum driver_status {
    DRIVER_RETRYING = 1, /* its event has not ended */
    DRIVER_DELIVERED = 2,
    DRIVER_FAILED = 3,
};

/* What step() did with a write. */
enum driver_written {
    /* There is no such row, or it has a newer one (driver_write). */
    DRIVER_NOT_WRITTEN,
    /* The row has it. */
    DRIVER_APPLIED,
    /* The row is new, so it was not written. */
    DRIVER_IS_NEW,
    /* Only one by one: the database refuses it, or somebody has locked the row. */
    DRIVER_WRITE_REFUSED,
    /* Only one by one: the time was up before its turn. */
    DRIVER_NOT_TRIED,
};

/* What is to be written to a row, unless it is new again, or has a newer outcome: a final status, and
 * the time of a later attempt. Another process wrote that, which took the row after a reset. A time in the
 * future, by the clock of the database, is not newer: a clock was set back. */
struct driver_write {
    char event_id[EVENT_ID_BYTES + 1];
    /* The caller's. */
    int64_t n, action_id, waits;
    /* `error` "": NULL in the table, if its column takes that. */
    char *row_id, *error;
    enum driver_status status;
    /* Times: 0 is NULL; in PostgreSQL a column that is NOT NULL keeps its value. */
    int64_t retries, last_ms, next_ms;
    /* Set by step(). */
    enum driver_written written;
    /* Set with DRIVER_WRITE_REFUSED: the reason. The caller's to free. */
    char *why;
};

/* What the caller did with the rows that were taken last. */
enum driver_end {
    DRIVER_NOTHING, /* none were taken */
    DRIVER_COMMIT,  /* they are stored */
    DRIVER_ROLLBACK,
};

/* What the database refused because of the contents of rows (a constraint, a trigger, a value that
 * does not fit), so that other rows, or fewer of them, may work. */
enum driver_refused {
    DRIVER_NOTHING_REFUSED, /* the database, or the table, cannot be used */
    DRIVER_END_REFUSED, /* the marks of invalid rows, or the commit of the rows taken last */
    DRIVER_WRITES_REFUSED, /* one of the writes; none of them is done */
    DRIVER_TAKE_REFUSED,   /* no row is taken */
};

struct driver;
struct relay;

struct driver_work {
    enum driver_end end;
    const struct driver_refusal *refusals;
    size_t refusal_count;
    struct driver_write *writes;
    size_t write_count;
    /* Each write is a transaction of its own, which does not wait for locks of the row. */
    bool alone;
    /* How many new rows to take; 0: none. */
    int max;
    /* Ids of rows that are not taken. */
    const char *const *except;
    size_t except_count;
    /* Set by step(), with GR_REFUSE. What comes before the refused part, in the order of
     * enum driver_refused, is committed. */
    enum driver_refused refused;
    /* Set with DRIVER_TAKE_REFUSED if `max` is 1: the row, or NULL. The caller's to free. */
    char *row_id;
};

/* What look() finds. */
struct driver_look {
    /* New rows, at most DRIVER_COUNT_MAX; -1: unknown. */
    int64_t waiting;
    /* The age of the oldest of them, by the clock of the database; 0: there is none; -1: unknown. */
    int64_t oldest_ms;
};

/* Called for each thing that is wrong or missing: one sentence, and what to do. `needed`: the relay
 * does not work without it. */
typedef void driver_finding(void *self, bool needed, const char *what,
                            const char *fix);

struct driver_ops {
    /* Copies what it needs of the settings. Connects later. */
    struct driver *(*open)(const struct relay *relay, const char *process,
                           int64_t max_payload_bytes);
    void (*close)(struct driver *d);
    /* Ends the open transaction, marking `refusals` as failed if it is committed; writes `writes`;
     * and then takes up to `max` new rows in another transaction: all in one round trip. Connects
     * first if necessary. GR_REFUSE: `why`, and `work->refused`; no transaction is open. If that is
     * DRIVER_NOTHING_REFUSED, what was done before may be committed or not. */
    gr_rc (*step)(struct driver *d, struct driver_work *work,
                  char why[DRIVER_WHY_BYTES]);
    /* The rows that step() took, in order. */
    size_t (*count)(const struct driver *d);
    void (*row)(const struct driver *d, size_t i, struct driver_row *row);
    /* Waits until the database says that there are new rows, `wake_fd` is readable, or `ms` have
     * passed. Only without an open transaction. true: there are new rows. */
    bool (*wait)(struct driver *d, int wake_fd, int64_t ms);
    /* Deletes up to `max` delivered rows whose last change is older than `age_ms` by the clock of the
     * database. Only without an open transaction. */
    gr_rc (*purge)(struct driver *d, int64_t age_ms, int max, int64_t *deleted,
                   char why[DRIVER_WHY_BYTES]);
    /* Only without an open transaction. GR_REFUSE: nothing is known, and the relay may work. */
    gr_rc (*look)(struct driver *d, struct driver_look *look,
                  char why[DRIVER_WHY_BYTES]);
    /* Connects by itself, changes nothing, and reports what the database lacks for this relay. */
    void (*check)(const struct relay *relay, driver_finding *found, void *self);
};

extern const struct driver_ops postgres_driver, sqlite_driver, mariadb_driver;
/* The driver of the database that the relay names. */
const struct driver_ops *driver_of(const struct relay *relay);

#endif
