/* store: every SQL statement of ingress. All of it needs an open transaction or
 * only reads. A full disk is sticky (db.h): writes then do nothing. */
#ifndef INGRESS_STORE_H
#define INGRESS_STORE_H

#include "ages.h"
#include "bounds.h"
#include "http.h"
#include "row.h"
#include "store_ids.h"
#include "store_replays.h"
#include "store_usage.h"
#include "wire.h"

extern const struct db_schema ingress_schema;

enum {
    REJECTS_KEPT = 1000,  /* of each source */
    REJECT_ID_BYTES = 30, /* rej_ and a ULID */
};

struct store {
    struct db *db;
    stmt *insert, *load, *find, *ends, *oldest, *ages, *next, *purge;
    stmt *head, *head_purge, *head_drop, *drop;
    stmt *reject, *reject_last, *reject_at, *reject_find;
    stmt *rejects, *rejects_of, *rejects_by;
    stmt *body_put, *body_get, *body_drop, *body_first_of, *body_first, *bodies;
    struct store_ids ids;
    struct store_replays replays;
    struct store_usage usage;
    int64_t purged; /* rows that store_purge() has deleted */
};

/* A row of `archive`. */
#define ARCHIVE_COLUMNS(F, X) \
    F(i64, n)                 \
    X(text, event_id)         \
    X(text, source)           \
    X(i64, received_ms)       \
    X(text, remote)           \
    X(number, secret)         \
    X(blob, headers)          \
    X(blob, body)             \
    X(i64, head)
struct archive_row {
    ROW_FIELDS(ARCHIVE_COLUMNS) /* `head`: written, not read */
    bool damaged;               /* read only: it is not what was written */
};

void store_open(struct store *s, struct db *db);
void store_close(struct store *s);
/* After a rolled back turn: what memory knows of the rows is read again. */
void store_undo(struct store *s);

/* Of an id that was made from time nothing is asked but that it is above all
 * before it: that makes it unique, no index does. One made from a key must not be
 * there yet. */
void store_insert(struct store *s, const struct archive_row *row);
/* The head of rows n to last_n, which came in one request. */
void store_head(struct store *s, const char *source, int64_t n, int64_t last_n,
                struct bytes headers);
/* When the first row behind this one was received; 0: there is none. */
int64_t store_received_after(struct store *s, int64_t n);
/* The number of this event's row; 0: there is none. */
int64_t store_number(struct store *s, const char *event_id);
/* Row n, without `secret`, borrowed until store_request_done(). false: it is gone. */
bool store_request(struct store *s, int64_t n, struct archive_row *row);
void store_request_done(struct store *s);
/* A request as a message to the sequencer, with all its headers. */
void store_put_message(const struct archive_row *row, struct buf *out);
/* The message behind row n. false: it is gone. */
bool store_load(struct store *s, int64_t n, struct buf *out);

/* Lowest and highest number held; 0, 0 for none. `last_id` is the highest id
 * that was made from time, "" for none. */
void store_ends(struct store *s, int64_t *first, int64_t *last,
                char last_id[EVENT_ID_BYTES + 1]);

/* Purge rows from the front: none above `max_n`, none that a replay above
 * `handed_n` (the last that was handed on) needs, at most `count` rows and
 * about `bytes` of content. Returns the highest number purged, 0 for none. */
int64_t store_purge(struct store *s, int64_t max_n, int64_t handed_n, int count,
                    int64_t bytes);

/* Of the rows behind `*at` up to `max_n`, looks at up to `count`, or about `bytes` of
 * content, and deletes those of this source, none that a replay above `handed_n` needs.
 * Moves `*at` on. Returns how many it has deleted. */
int64_t store_purge_source(struct store *s, const char *source, int64_t *at,
                           int64_t max_n, int64_t handed_n, int count,
                           int64_t bytes);

/* Looks at `max` rows more for those of before `before_ms`. */
void store_ages(struct store *s, int64_t before_ms, int64_t now_ms, int max,
                struct ages *ages);

/* For trace. The row is borrowed until store_found_done(). */
struct archived {
    int64_t n, received_ms, secret;
    const char *source, *remote;
    struct bytes headers;
    int64_t body_bytes;
};
bool store_find(struct store *s, const char *event_id, struct archived *row);
void store_found_done(struct store *s);

/* ---- refused requests ---- */

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

/* Overwrites the one whose place it takes. */
void store_reject(struct store *s, const struct reject_row *row);
/* The highest number of this source; 0: none. */
int64_t store_reject_last(struct store *s, const char *source);
/* Newest first, of one source or (NULL) of all, until `fn` says false. */
typedef bool reject_fn(void *arg, const struct reject_row *row);
void store_rejects(struct store *s, const char *source, reject_fn *fn,
                   void *arg);
/* Those of one delivery of the provider's. */
void store_rejects_by(struct store *s, const char *delivery_id, reject_fn *fn,
                      void *arg);

/* Borrowed until store_reject_done(). */
bool store_reject_find(struct store *s, const char *id, struct reject_row *row);
void store_reject_done(struct store *s);

/* ---- and their bodies ---- */

void store_reject_body_add(struct store *s, const char *id, const char *source,
                           int64_t at_ms, struct bytes body);
/* Borrowed until store_reject_body_done(). */
bool store_reject_body(struct store *s, const char *id, struct bytes *body);
void store_reject_body_done(struct store *s);
/* Called for a body: of this source, of so many bytes. */
typedef void reject_body_fn(void *arg, const char *source, int64_t bytes);
/* All that are kept. */
void store_reject_bodies(struct store *s, reject_body_fn *fn, void *arg);
/* Removes, and calls `fn` for it: the body of the one whose place number n of the
 * source takes; … */
void store_reject_body_replaced(struct store *s, const char *source, int64_t n,
                                reject_body_fn *fn, void *arg);
/* … the oldest of a source; the oldest of all, when its time is out of this
 * range. false: no such request. */
bool store_reject_body_drop_first(struct store *s, const char *source,
                                  reject_body_fn *fn, void *arg);
bool store_reject_body_drop_old(struct store *s, int64_t before_ms,
                                int64_t after_ms, reject_body_fn *fn,
                                void *arg);

#endif
