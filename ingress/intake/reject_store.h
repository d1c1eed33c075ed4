/* reject_store: every SQL statement of refused requests. rejects.c is its only user. Writes need
 * an open transaction. A full disk is sticky (db.h): writes then do nothing until the turn
 * ends. */
#ifndef INGRESS_REJECT_STORE_H
#define INGRESS_REJECT_STORE_H

#include "bounds.h"
#include "db.h"
#include "row.h"

enum {
    REJECTS_KEPT = 1000,  /* per source */
    REJECT_ID_BYTES = 30, /* rej_ and a ULID */
};

struct reject_store {
    struct db *db;
    stmt *reject, *reject_last, *reject_at, *reject_find, *reject_erase;
    stmt *rejects, *rejects_of, *rejects_by;
    stmt *body_put, *body_get, *body_drop, *body_first_of, *body_first, *bodies;
};

void reject_store_open(struct reject_store *s, struct db *db);

/* A row of `rejects`. */
#define REJECT_COLUMNS(F, X) \
    F(text, source)          \
    X(i64, n)                \
    X(i64, at_ms)            \
    X(i64, status)           \
    X(text, reason)          \
    X(text, remote)          \
    X(text, method)          \
    X(text, path)            \
    X(i64, body_bytes)       \
    X(blob, headers)         \
    X(text, id)              \
    X(text_or_null, delivery_id)
struct reject_row {
    ROW_FIELDS(REJECT_COLUMNS)
    bool has_body; /* read only: its body is kept */
};

/* Overwrites the row in its slot. */
void store_reject(struct reject_store *s, const struct reject_row *row);
/* Deletes a row and its body, for which `fn` is called (below). */
typedef void reject_body_fn(void *arg, const char *source, int64_t bytes);
void store_reject_erase(struct reject_store *s, const char *id,
                        reject_body_fn *fn, void *arg);
/* The highest number of this source; 0: there is none. */
int64_t store_reject_last(struct reject_store *s, const char *source);
/* Newest first, of one source or, if NULL, of all, until `fn` returns false. */
typedef bool reject_fn(void *arg, const struct reject_row *row);
void store_rejects(struct reject_store *s, const char *source, reject_fn *fn,
                   void *arg);
/* The same for one delivery id of the provider. */
void store_rejects_by(struct reject_store *s, const char *delivery_id,
                      reject_fn *fn, void *arg);

/* Borrowed until store_reject_done(). */
bool store_reject_find(struct reject_store *s, const char *id,
                       struct reject_row *row);
void store_reject_done(struct reject_store *s);

/* ---- their bodies ---- */

void store_reject_body_add(struct reject_store *s, const char *id,
                           const char *source, int64_t at_ms, struct bytes body,
                           struct bytes head);
/* Either of them may be empty. Borrowed until store_reject_body_done(). */
bool store_reject_body(struct reject_store *s, const char *id,
                       struct bytes *body, struct bytes *head);
void store_reject_body_done(struct reject_store *s);
/* A reject_body_fn is called for each body, with its source and size. */
/* For each kept body. */
void store_reject_bodies(struct reject_store *s, reject_body_fn *fn, void *arg);
/* These delete bodies and call `fn` for each: that of the row whose slot number n of the source
 * overwrites; … */
void store_reject_body_replaced(struct reject_store *s, const char *source,
                                int64_t n, reject_body_fn *fn, void *arg);
/* … the oldest of a source; the oldest of all, if its time is outside of this range. false:
 * there is none. */
bool store_reject_body_drop_first(struct reject_store *s, const char *source,
                                  reject_body_fn *fn, void *arg);
bool store_reject_body_drop_old(struct reject_store *s, int64_t before_ms,
                                int64_t after_ms, reject_body_fn *fn,
                                void *arg);

#endif
