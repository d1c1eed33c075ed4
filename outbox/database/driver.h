/* driver: what each kind of database does for a relay: it takes new rows of a table in batches, in
 * a transaction that stays open until the caller has stored them, and then commits it.
 *
 * All functions may block up to the time limits below. So only the thread of a relay (relay.c) calls
 * them, one at a time. They own nothing of the caller's. After a crash, or a lost connection, the
 * database rolls back what was not committed: the same rows are taken again. */
#ifndef OUTBOX_DRIVER_H
#define OUTBOX_DRIVER_H

#include "bounds.h"
#include "rc.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DRIVER_CONNECT_S = 10,
    DRIVER_REPLY_MS =
        30 * 1000, /* a reply that takes longer: the connection is lost */
    DRIVER_IDLE_MS =
        10 *
        1000, /* the server ends a transaction of ours that waits for so long */
    DRIVER_BATCH_BYTES = 4 * 1024 *
                         1024, /* of payloads, unless one row has more */
    DRIVER_WHY_BYTES = 500,
};

/* A row that was taken. Texts are valid until the next call; "" where the table has no such
 * column, or the value is NULL. */
struct driver_row {
    const char *id, *url, *type, *workspace, *endpoint;
    struct bytes payload;
    int64_t
        payload_bytes; /* the whole; it is not read when it is above the limit */
    bool has_payload;  /* false: it is NULL */
    bool
        attempted; /* it shows that an attempt was made before, so it was reset */
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

/* What is to be written to a row, unless it is new again. */
struct driver_write {
    char event_id[EVENT_ID_BYTES + 1];
    int64_t n, action_id; /* the caller's */
    char *row_id, *error; /* "": NULL in the table */
    enum driver_status status;
    int64_t retries, last_ms, next_ms; /* 0: NULL */
    bool applied;                      /* set by step(): the row has it; … */
    bool
        is_new; /* … or it is new, so it was not written. Else there is no such row */
};

/* What the caller did with the rows that were taken last. */
enum driver_end {
    DRIVER_NOTHING, /* none were taken */
    DRIVER_COMMIT,  /* they are stored */
    DRIVER_ROLLBACK,
};

struct driver;
struct relay;

struct driver_work {
    enum driver_end end;
    const struct driver_refusal *refusals;
    size_t refusal_count;
    struct driver_write *writes;
    size_t write_count;
    int max; /* how many new rows to take; 0: none */
};

struct driver_ops {
    /* Copies what it needs of the settings. Connects later. */
    struct driver *(*open)(const struct relay *relay, const char *process,
                           int64_t max_payload_bytes);
    void (*close)(struct driver *d);
    /* Ends the open transaction, marking `refusals` as failed if it is committed; writes `writes`;
     * and then takes up to `max` new rows in another transaction: all in one round trip. Connects
     * first if necessary. GR_REFUSE: the connection is lost, or the table cannot be used: `why`;
     * nothing is taken, and what was done before may be committed or not. */
    gr_rc (*step)(struct driver *d, struct driver_work *work,
                  char why[DRIVER_WHY_BYTES]);
    /* The rows that step() took, in order. */
    size_t (*count)(const struct driver *d);
    void (*row)(const struct driver *d, size_t i, struct driver_row *row);
    /* Waits until the database says that there are new rows, `wake_fd` is readable, or `ms` have
     * passed. Only without an open transaction. true: there are new rows. */
    bool (*wait)(struct driver *d, int wake_fd, int64_t ms);
};

extern const struct driver_ops postgres_driver;

#endif
