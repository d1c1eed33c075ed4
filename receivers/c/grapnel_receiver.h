/* grapnel_receiver.h: receives Grapnel's deliveries: verifies the signatures, processes each
 * event once, and tells whether events are missing or old. Usable from C and C++.
 *
 * Times are seconds since 1970, lengths are bytes. Strings end with a 0 byte unless a length
 * is beside them. What a `…_new` function returns belongs to the caller, who frees it with
 * the `…_free` function of the same name; these accept NULL. `error` may be NULL; otherwise it
 * has a message for a log when a function does not return GRAPNEL_DONE.
 *
 * Threads: all functions may be called from any number of threads with the same receiver and
 * the same store, except for grapnel_receiver_set_… (before the first use) and …_free (after
 * the last one). An event belongs to one thread at a time. The library changes nothing of the
 * process (signal handlers, locale, environment), and starts no threads.
 *
 * This header has all parts. Each store with a driver, and the middleware, is a library of its
 * own (pkg-config: grapnel-receiver, grapnel-receiver-sqlite, -postgres, -redis, -microhttpd). */
#ifndef GRAPNEL_RECEIVER_H
#define GRAPNEL_RECEIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GRAPNEL_API __attribute__((visibility("default")))
#else
#define GRAPNEL_API
#endif

enum {
    GRAPNEL_ID_MAX_BYTES = 255,        /* of webhook-id */
    GRAPNEL_SIGNED_MAX_COUNT = 64,     /* headers grapnel-… of one request */
    GRAPNEL_SIGNED_MAX_BYTES = 65536,  /* their names and values together */
    GRAPNEL_SIGNATURES_MAX_COUNT = 32, /* of one header */
    GRAPNEL_SIGNATURES_MAX_BYTES = 8192, /* of one header */
    GRAPNEL_SECRETS_MAX_COUNT = 16,
    GRAPNEL_SECRET_MAX_BYTES = 1024, /* of one, with its prefix */
    GRAPNEL_KEEP_S = 40 *
                     86400, /* longer than Grapnel may send an event again */
    GRAPNEL_LEASE_S = 60,   /* how long the claim of a dead process lasts */
};

enum grapnel_status {
    GRAPNEL_DONE = 0,
    GRAPNEL_REFUSED, /* not from your Grapnel, or not as it was sent: respond 401 */
    GRAPNEL_BUSY, /* another attempt of this event runs: respond 503 with Retry-After */
    GRAPNEL_FAILED, /* the handler, the store or the memory failed: respond 503 */
    GRAPNEL_INVALID, /* a mistake in your program or its configuration */
};

struct grapnel_error {
    char text[256];
};

/* ---- Events ---- */

/* One header of a request, as the HTTP server has it. Neither part needs to end with a 0
 * byte. Give all headers, in any order and letter case, also those that are there twice. */
struct grapnel_header {
    const char *name;
    size_t name_bytes;
    const char *value;
    size_t value_bytes;
};

/* A verified delivery. A string is "" if its header is absent. docs/RECEIVING.md explains
 * each header. */
struct grapnel_event {
    const char *id;      /* deduplicate by it */
    int64_t timestamp_s; /* when this attempt was signed */
    const void *
        body; /* yours, not copied: keep it until the event is freed. Never NULL */
    size_t body_bytes;
    /* The headers that grapnel-signature covers: sorted, names in lower case, each once,
     * both parts with a 0 byte at their end. */
    const struct grapnel_header *headers;
    size_t header_count;

    const char *source, *type, *workspace, *time;
    int64_t attempt; /* from 1 */
    bool
        numbered; /* tests of an endpoint and requests for missing events are not */
    const char *series;
    int64_t sequence, previous;
    const char *source_sequence, *gap;
    bool late, replay;
};

/* The value of a header that grapnel-signature covers, by its name in lower case; NULL: it is
 * absent. It lives as long as the event. */
GRAPNEL_API const char *grapnel_event_header(const struct grapnel_event *event,
                                             const char *name);
/* How many events of this type the workspace has had (grapnel-clock); -1: not said. */
GRAPNEL_API int64_t grapnel_event_clock(const struct grapnel_event *event,
                                        const char *type);
GRAPNEL_API void grapnel_event_free(struct grapnel_event *event);

/* ---- What is known about an event ---- */

enum grapnel_result {
    GRAPNEL_OK,        /* new, and no event is missing before it */
    GRAPNEL_DUPLICATE, /* processed before: skip it */
    GRAPNEL_OLD_EVENT, /* new, but a later event of its workspace was processed before */
    GRAPNEL_GAP_DETECTED, /* new, and the event `missing` has not arrived */
    GRAPNEL_NEW_SERIES, /* new, and the first one after Grapnel began to number anew */
};

/* "ok", "duplicate", "old_event", "gap_detected" or "new_series". */
GRAPNEL_API const char *grapnel_result_name(enum grapnel_result result);

struct grapnel_check {
    enum grapnel_result result;
    /* The number of the previous event, if that has not arrived; also with other results.
     * 0: it has, or nothing is known. */
    int64_t missing;
    /* The last number before `missing` that has arrived: events between the two may be
     * missing, too. */
    int64_t after;
    bool
        unsure; /* `missing` has arrived in an earlier series, so it may be that event */
    bool filled; /* this event was missing until now */
    char conflict[GRAPNEL_ID_MAX_BYTES +
                  1]; /* the id of another event with this number */
};

/* A number that an event names as its previous one and that has not arrived. */
struct grapnel_missing {
    char *series, *workspace;
    int64_t number;
    int64_t since_s; /* when it was first named */
    bool unsure;     /* as in grapnel_check */
};

/* Begins as {0}. */
struct grapnel_missing_list {
    struct grapnel_missing *items;
    size_t count, capacity;
};

GRAPNEL_API void grapnel_missing_free(struct grapnel_missing_list *list);

/* ---- The receiver ---- */

struct grapnel_store;
struct grapnel_receiver;
struct pg_conn; /* PGconn of libpq */
struct sqlite3; /* of libsqlite3 */

/* The transaction that stores an event as processed; all NULL where a store has none. */
struct grapnel_transaction {
    struct pg_conn *postgres;
    struct sqlite3 *sqlite;
    void *custom; /* of a store that you have written */
};

/* Does your work, once for each event. Write with the connection of `transaction`; do not
 * commit, roll back, or keep it. Returns 0; any other value means that it failed: nothing is
 * stored, and Grapnel sends the event again. It must return (no longjmp, no C++ exception),
 * and must not call a function of the same store. It may be called from several threads at
 * once. */
typedef int (*grapnel_handler)(void *arg, const struct grapnel_event *event,
                               const struct grapnel_check *check,
                               const struct grapnel_transaction *transaction);

/* `secrets`: those of the endpoint, "whsec_…" or "whpk_…", with spaces between them: two or
 * more while you change one. They are copied. `store` may be NULL for a receiver that only
 * verifies; it stays yours, and lives longer than the receiver. Returns NULL if a secret is
 * wrong. */
GRAPNEL_API struct grapnel_receiver *
grapnel_receiver_new(struct grapnel_store *store, const char *secrets,
                     struct grapnel_error *error);
/* Overwrites the secrets. */
GRAPNEL_API void grapnel_receiver_free(struct grapnel_receiver *receiver);
/* How far webhook-timestamp may be from this machine's clock: 300. */
GRAPNEL_API void
grapnel_receiver_set_tolerance(struct grapnel_receiver *receiver,
                               int64_t tolerance_s);
/* false: only deduplicate. Then events of one workspace do not wait for each other. */
GRAPNEL_API void grapnel_receiver_set_order(struct grapnel_receiver *receiver,
                                            bool order);
/* Another clock than time(), for tests. */
GRAPNEL_API void grapnel_receiver_set_clock(struct grapnel_receiver *receiver,
                                            int64_t (*now_s)(void *arg),
                                            void *arg);

/* Checks both signatures. `body`: the bytes, before any parser has changed them. Sets *event,
 * which the caller frees with grapnel_event_free(); NULL unless GRAPNEL_DONE is returned.
 * Returns GRAPNEL_REFUSED, or GRAPNEL_FAILED (memory). */
GRAPNEL_API enum grapnel_status
grapnel_verify(const struct grapnel_receiver *receiver,
               const struct grapnel_header *headers, size_t header_count,
               const void *body, size_t body_bytes,
               struct grapnel_event **event, struct grapnel_error *error);
/* The same for requests without grapnel-signature, such as alerts: the event has id,
 * timestamp and body only. */
GRAPNEL_API enum grapnel_status
grapnel_verify_standard(const struct grapnel_receiver *receiver,
                        const struct grapnel_header *headers,
                        size_t header_count, const void *body,
                        size_t body_bytes, struct grapnel_event **event,
                        struct grapnel_error *error);

/* Calls `handle` unless the event is a duplicate, and stores the event as processed: in one
 * transaction where the store has them. `check` may be NULL. Returns GRAPNEL_BUSY or
 * GRAPNEL_FAILED; Grapnel sends such an event again if you respond 503. */
GRAPNEL_API enum grapnel_status
grapnel_process(const struct grapnel_receiver *receiver,
                const struct grapnel_event *event, grapnel_handler handle,
                void *arg, struct grapnel_check *check,
                struct grapnel_error *error);
/* grapnel_verify() and grapnel_process(). */
GRAPNEL_API enum grapnel_status
grapnel_receive(const struct grapnel_receiver *receiver,
                const struct grapnel_header *headers, size_t header_count,
                const void *body, size_t body_bytes, grapnel_handler handle,
                void *arg, struct grapnel_check *check,
                struct grapnel_error *error);
/* Stores the event in the transaction that you have begun, and leaves it open: commit after
 * your work, roll back after an error. Skip the work of a duplicate. GRAPNEL_INVALID: no
 * transaction has begun, or the store has none. */
GRAPNEL_API enum grapnel_status
grapnel_check(const struct grapnel_receiver *receiver,
              const struct grapnel_event *event,
              const struct grapnel_transaction *transaction,
              struct grapnel_check *check, struct grapnel_error *error);
/* Adds to *list the events that were named `older_s` ago or before, and have not arrived; the
 * oldest first. Free it also after an error. */
GRAPNEL_API enum grapnel_status
grapnel_missing(const struct grapnel_receiver *receiver, int64_t older_s,
                struct grapnel_missing_list *list, struct grapnel_error *error);
/* Deletes what is older than GRAPNEL_KEEP_S. Call it once a day. */
GRAPNEL_API enum grapnel_status
grapnel_forget(const struct grapnel_receiver *receiver,
               struct grapnel_error *error);

/* ---- Stores ---- */

/* In memory, for tests, and for one process whose work may be repeated after a restart.
 * `keep_s`: 0 is GRAPNEL_KEEP_S. `events_max`: how many events it remembers, 0 is a million;
 * it forgets the oldest first. NULL: no memory. */
GRAPNEL_API struct grapnel_store *grapnel_memory_store_new(int64_t keep_s,
                                                           size_t events_max);

/* SQLite, in libgrapnel-receiver-sqlite. One connection, so one transaction at a time. It
 * waits for other processes for `busy_ms` (0: 5000), then fails. A file that is missing is
 * created; the journal mode of the file stays as it is. */
GRAPNEL_API struct grapnel_store *
grapnel_sqlite_store_new(const char *path, int busy_ms,
                         struct grapnel_error *error);

/* PostgreSQL, in libgrapnel-receiver-postgres. At most `connections_max` (1 to 1000)
 * transactions at once; further ones wait. Connections are opened when they are needed, and
 * again after they were lost, so this does not fail while the server is down. `conninfo` is
 * that of PQconnectdb(): set connect_timeout, tcp_user_timeout and statement_timeout in it if
 * a server that hangs must not hold up your threads. Isolation is READ COMMITTED, the default;
 * with a stricter one some transactions fail, and Grapnel sends their events again. */
GRAPNEL_API struct grapnel_store *
grapnel_postgres_store_new(const char *conninfo, size_t connections_max,
                           struct grapnel_error *error);

/* Redis, in libgrapnel-receiver-redis. It cannot take part in a transaction of your database:
 * if the process dies after your work and before the event is stored as processed, Grapnel
 * sends it again after GRAPNEL_LEASE_S, and your work is done twice. */
struct redisContext; /* of hiredis */
struct grapnel_redis_options {
    /* Returns a new blocking connection, with a timeout, authenticated, with TLS if you need
     * it: redisConnectWithTimeout(). The store frees it. NULL, or one with an error: the
     * event is not processed now. It is called from any thread. */
    struct redisContext *(*connect)(void *arg);
    void *arg;
    size_t connections_max; /* 1 to 1000; further commands wait */
    const char *
        prefix; /* of all keys; NULL: "{grapnel}". A cluster needs the braces */
    int64_t keep_s;  /* 0: GRAPNEL_KEEP_S */
    int64_t lease_s; /* 0: GRAPNEL_LEASE_S; longer than your work takes */
};
/* Copies the options. Needs no server yet. */
GRAPNEL_API struct grapnel_store *
grapnel_redis_store_new(const struct grapnel_redis_options *options,
                        struct grapnel_error *error);

/* Makes the tables that are not there yet; without effect for stores that have none. */
GRAPNEL_API enum grapnel_status
grapnel_store_create_tables(struct grapnel_store *store,
                            struct grapnel_error *error);
/* The statements of grapnel_store_create_tables(), for a migration. */
GRAPNEL_API const char *grapnel_schema(void);
GRAPNEL_API void grapnel_store_free(struct grapnel_store *store);

/* ---- Middleware for libmicrohttpd, in libgrapnel-receiver-microhttpd ---- */

struct MHD_Connection;

struct grapnel_microhttpd {
    const struct grapnel_receiver *receiver;
    grapnel_handler handle;
    void *arg;
    size_t body_max_bytes; /* at least ingress.max_body of Grapnel; 0: 1 MiB */
    /* Gets a line for each request that was refused or not processed. NULL: to stderr. */
    void (*log)(void *arg, const char *line);
};

/* Call it from your MHD_AccessHandlerCallback for the path of your endpoint, with the arguments of
 * that callback, and return what it returns. *request is NULL at the first call for a request.
 * Responds 204 (processed, or a duplicate), 401 (refused), 405, 413 (the body is too large), or
 * 503 (not processed: Grapnel sends the event again). A body of unknown length that becomes too
 * large closes the connection. `handle` runs in the thread of the connection. */
GRAPNEL_API int
grapnel_microhttpd_respond(const struct grapnel_microhttpd *endpoint,
                           struct MHD_Connection *connection,
                           const char *method, const char *upload_data,
                           size_t *upload_data_size, void **request);
/* Call it from the callback of MHD_OPTION_NOTIFY_COMPLETED: it frees the request's body. *request
 * is what grapnel_microhttpd_respond() has stored, or NULL. */
GRAPNEL_API void grapnel_microhttpd_completed(void **request);

/* ---- To write another store ---- */

/* What a store knows about an event that is numbered, before it stores this one. */
struct grapnel_facts {
    bool has_floor; /* false: no event has set `floor` */
    int64_t floor;  /* numbers up to it are not checked */
    bool announced; /* an event of this series has been processed */
    bool earlier;   /* another series of this workspace is known */
    char holder[GRAPNEL_ID_MAX_BYTES +
                1];  /* the id of the event with this number */
    int64_t highest; /* of the numbers that have arrived */
    bool has_previous;
    int64_t below; /* the highest number that is lower than `previous` */
    bool named;    /* an event has named this number as its previous one */
    bool
        in_other; /* another series of this workspace has the number `previous` */
};

/* What a store keeps about a series. */
struct grapnel_state {
    bool has_floor;
    int64_t floor;
    bool announced;
};

/* The rule of docs/RECEIVING.md, a pure function: a number that an event names as its previous
 * one, and that has not arrived, is missing. `first`: the id is new. Sets *check, and *state
 * to what is to be stored. */
GRAPNEL_API void grapnel_decide(const struct grapnel_event *event, bool first,
                                const struct grapnel_facts *facts,
                                struct grapnel_check *check,
                                struct grapnel_state *state);

/* An event that is to be stored. */
struct grapnel_arrival {
    const struct grapnel_event *event;
    int64_t now_s;
    bool numbered; /* false: only its id matters */
};

/* A store is a struct of yours that begins with a struct grapnel_store. */
struct grapnel_store_methods {
    /* As grapnel_process(). `check` is not NULL. */
    enum grapnel_status (*process)(struct grapnel_store *store,
                                   const struct grapnel_arrival *arrival,
                                   grapnel_handler handle, void *arg,
                                   struct grapnel_check *check,
                                   struct grapnel_error *error);
    /* As grapnel_check(). NULL: the store has no transactions. */
    enum grapnel_status (*check)(struct grapnel_store *store,
                                 const struct grapnel_arrival *arrival,
                                 const struct grapnel_transaction *transaction,
                                 struct grapnel_check *check,
                                 struct grapnel_error *error);
    /* Adds the numbers that were first named at `before_s` or before, the oldest first. */
    enum grapnel_status (*missing)(struct grapnel_store *store,
                                   int64_t before_s,
                                   struct grapnel_missing_list *list,
                                   struct grapnel_error *error);
    /* Deletes what was received before. Numbers up to the highest deleted one count as
     * arrived. */
    enum grapnel_status (*forget)(struct grapnel_store *store, int64_t before_s,
                                  struct grapnel_error *error);
    /* NULL: nothing to create. */
    enum grapnel_status (*create_tables)(struct grapnel_store *store,
                                         struct grapnel_error *error);
    void (*free)(struct grapnel_store *store);
};

struct grapnel_store {
    const struct grapnel_store_methods *methods;
};

/* Three steps of a store that cannot share a transaction with the work. */
struct grapnel_claims {
    /* Claims the event under `token` for a limited time, unless it is processed already
     * (*first = false). Sets *facts if the arrival is numbered. GRAPNEL_BUSY: claimed. */
    enum grapnel_status (*claim)(struct grapnel_store *store,
                                 const struct grapnel_arrival *arrival,
                                 const char *token, bool *first,
                                 struct grapnel_facts *facts,
                                 struct grapnel_error *error);
    /* Ends the claim: the work failed. If this fails, the claim ends by its time. */
    void (*release)(struct grapnel_store *store,
                    const struct grapnel_arrival *arrival, const char *token);
    /* Stores the event as processed. `state` is NULL if the arrival is not numbered. */
    enum grapnel_status (*finish)(struct grapnel_store *store,
                                  const struct grapnel_arrival *arrival,
                                  const struct grapnel_state *state,
                                  struct grapnel_error *error);
};

/* The `process` of such a store. */
GRAPNEL_API enum grapnel_status grapnel_process_claimed(
    struct grapnel_store *store, const struct grapnel_claims *claims,
    const struct grapnel_arrival *arrival, grapnel_handler handle, void *arg,
    struct grapnel_check *check, struct grapnel_error *error);

/* Copies the strings. false: no memory. */
GRAPNEL_API bool grapnel_missing_add(struct grapnel_missing_list *list,
                                     const char *series, const char *workspace,
                                     int64_t number, int64_t since_s,
                                     bool unsure);
/* The oldest first. */
GRAPNEL_API void grapnel_missing_sort(struct grapnel_missing_list *list);

#ifdef __cplusplus
}
#endif

#endif
