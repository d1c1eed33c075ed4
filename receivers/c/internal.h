/* internal.h: what the files of this library, and its libraries for stores, say to each other.
 * Not installed. */
#ifndef GRAPNEL_RECEIVER_INTERNAL_H
#define GRAPNEL_RECEIVER_INTERNAL_H

#include "grapnel_receiver.h"
#include <pthread.h>

/* Sets the message and returns `status`. */
GRAPNEL_API enum grapnel_status grapnel_say(struct grapnel_error *error,
                                            enum grapnel_status status,
                                            const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* For a handler that returned `code`. */
GRAPNEL_API enum grapnel_status grapnel_say_handler(struct grapnel_error *error,
                                                    int code);
GRAPNEL_API enum grapnel_status grapnel_say_memory(struct grapnel_error *error);

/* Decimal digits only, at least one. false: something else, or above INT64_MAX. */
GRAPNEL_API bool grapnel_number(const char *text, size_t bytes, int64_t *n);
/* Copies what fits, always with a 0 byte at the end. */
GRAPNEL_API void grapnel_copy(char *out, size_t out_bytes, const char *text);
/* The check of an event whose number does not matter. */
GRAPNEL_API void grapnel_plain(bool first, struct grapnel_check *check);

/* ---- keys.c ---- */

enum key_kind { KEY_HMAC, KEY_ED25519 };

struct key {
    enum key_kind kind;
    unsigned char bytes[GRAPNEL_SECRET_MAX_BYTES];
    size_t count;
    struct evp_pkey_st *public_key;
};

struct keys {
    struct key *items;
    size_t count;
};

enum grapnel_status grapnel_keys_read(struct keys *keys, const char *secrets,
                                      struct grapnel_error *error);
void grapnel_keys_free(struct keys *keys);
/* Whether one of the signatures in `value`, of the header `name`, is right by one of the
 * keys. Takes the same time whichever of them is. */
enum grapnel_status grapnel_keys_verify(const struct keys *keys,
                                        const char *name, const char *value,
                                        size_t value_bytes, const void *content,
                                        size_t content_bytes,
                                        struct grapnel_error *error);

struct grapnel_receiver {
    struct grapnel_store *store;
    struct keys keys;
    int64_t tolerance_s;
    bool order;
    int64_t (*now_s)(void *arg);
    void *now_arg;
};

int64_t grapnel_now_s(const struct grapnel_receiver *receiver);

/* ---- Connections that threads share ---- */

struct grapnel_pool {
    pthread_mutex_t mutex;
    pthread_cond_t given;
    void **idle;
    size_t idle_count, used, max;
};

/* false: no memory. `max` is from 1 to 1000. */
GRAPNEL_API bool grapnel_pool_begin(struct grapnel_pool *pool, size_t max);
GRAPNEL_API void grapnel_pool_end(struct grapnel_pool *pool,
                                  void (*close)(void *connection));
/* Waits until fewer than `max` are in use. Returns the one that was used last; NULL: open
 * another one. */
GRAPNEL_API void *grapnel_pool_take(struct grapnel_pool *pool);
/* Gives one back. NULL: it was closed, or could not be opened. */
GRAPNEL_API void grapnel_pool_give(struct grapnel_pool *pool, void *connection);

/* ---- What both SQL stores do, on a connection in a transaction ---- */

/* A text, or a number if that is NULL, or NULL. Parameters of a statement are $1, $2 …, which
 * first occur in this order. */
struct sql_value {
    const char *text;
    int64_t number;
    bool null;
};

/* One row, as text; a NULL is NULL. false: no memory. */
typedef bool (*sql_row)(void *arg, const char *const *cells);

struct sql {
    void *connection;
    const char *lock; /* after a SELECT of rows that are to be locked */
    /* Runs one statement. *changed: how many rows; may be NULL, as `row`. */
    enum grapnel_status (*run)(void *connection, const char *text,
                               const struct sql_value *values, size_t count,
                               int64_t *changed, sql_row row, void *arg,
                               struct grapnel_error *error);
};

GRAPNEL_API enum grapnel_status
grapnel_sql_check(const struct sql *sql, const struct grapnel_arrival *arrival,
                  struct grapnel_check *check, struct grapnel_error *error);
GRAPNEL_API enum grapnel_status
grapnel_sql_missing(const struct sql *sql, int64_t before_s,
                    struct grapnel_missing_list *list,
                    struct grapnel_error *error);
GRAPNEL_API enum grapnel_status grapnel_sql_forget(const struct sql *sql,
                                                   int64_t before_s,
                                                   struct grapnel_error *error);

#endif
