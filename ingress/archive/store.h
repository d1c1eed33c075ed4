/* store: every SQL statement of ingress, with store_ids.h, store_replays.h and store_usage.h.
 * Writes need an open transaction. A full disk is sticky (db.h): writes then do nothing until
 * the turn ends. */
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
    REJECTS_KEPT = 1000,  /* per source */
    REJECT_ID_BYTES = 30, /* rej_ and a ULID */
};

struct store {
    struct db *db;
    stmt *insert, *load, *find, *ends, *oldest, *ages, *next, *purge;
    stmt *head, *head_purge, *head_drop, *drop;
    stmt *erase, *erase_body, *head_of, *head_erase, *reject_erase;
    stmt *reject, *reject_last, *reject_at, *reject_find;
    stmt *rejects, *rejects_of, *rejects_by;
    stmt *body_put, *body_get, *body_drop, *body_first_of, *body_first, *bodies;
    struct store_ids ids;
    struct store_replays replays;
    struct store_usage usage;
    int64_t purged; /* rows that the last store_purge() deleted */
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
    ROW_FIELDS(ARCHIVE_COLUMNS) /* `head` is written, not read */
    bool damaged; /* read only: it differs from what was written */
};

void store_open(struct store *s, struct db *db);
void store_close(struct store *s);
/* After a rollback: read again what memory holds about the rows. */
void store_undo(struct store *s);

/* An id made from time must be above all before it, which makes it unique without an index. An
 * id made from a key must not be in the archive. */
void store_insert(struct store *s, const struct archive_row *row);
/* The shared headers of rows n to last_n, which came in one request. */
void store_head(struct store *s, const char *source, int64_t n, int64_t last_n,
                struct bytes headers);
/* When the first row after this one was received; 0: there is no such row. */
int64_t store_received_after(struct store *s, int64_t n);
/* The number of this event's row; 0: it is not in the archive. */
int64_t store_number(struct store *s, const char *event_id);
/* Row n, without `secret`, borrowed until store_request_done(). false: it is not in the
 * archive. */
bool store_request(struct store *s, int64_t n, struct archive_row *row);
void store_request_done(struct store *s);
/* Empties row n, which keeps its number: headers, body and the address of the client. `rest`: only the
 * body is replaced by this. */
void store_erase(struct store *s, int64_t n, const struct buf *rest);
/* A request as a message to the sequencer, with all its headers. */
void store_put_message(const struct archive_row *row, struct buf *out);
/* The message for the link that row n stands for. false: the row is deleted. */
bool store_load(struct store *s, int64_t n, struct buf *out);

/* Lowest and highest number in the archive; 0, 0 if it is empty. `last_id` is the highest id
 * made from time, or "". */
void store_ends(struct store *s, int64_t *first, int64_t *last,
                char last_id[EVENT_ID_BYTES + 1]);

/* Delete rows from the front: none above `max_n`, none that a replay above `handed_n` (the last
 * acknowledged number) needs, at most `count` rows and about `bytes` of content. Returns the
 * highest number deleted, or 0. */
int64_t store_purge(struct store *s, int64_t max_n, int64_t handed_n, int count,
                    int64_t bytes);

/* Read up to `count` rows, or about `bytes` of content, from `*at` up to `max_n`, and delete
 * those of this source that no replay above `handed_n` needs. Moves `*at` on. Returns how many
 * were deleted. */
int64_t store_purge_source(struct store *s, const char *source, int64_t *at,
                           int64_t max_n, int64_t handed_n, int count,
                           int64_t bytes);

/* Read `max` more rows to find those of before `before_ms`. */
void store_ages(struct store *s, int64_t before_ms, int64_t now_ms, int max,
                struct ages *ages);

/* A row without its body, borrowed until store_found_done(). */
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

/* Overwrites the row in its slot. */
void store_reject(struct store *s, const struct reject_row *row);
/* Deletes a row and its body, for which `fn` is called (below). */
typedef void reject_body_fn(void *arg, const char *source, int64_t bytes);
void store_reject_erase(struct store *s, const char *id, reject_body_fn *fn,
                        void *arg);
/* The highest number of this source; 0: there is none. */
int64_t store_reject_last(struct store *s, const char *source);
/* Newest first, of one source or, if NULL, of all, until `fn` returns false. */
typedef bool reject_fn(void *arg, const struct reject_row *row);
void store_rejects(struct store *s, const char *source, reject_fn *fn,
                   void *arg);
/* The same for one delivery id of the provider. */
void store_rejects_by(struct store *s, const char *delivery_id, reject_fn *fn,
                      void *arg);

/* Borrowed until store_reject_done(). */
bool store_reject_find(struct store *s, const char *id, struct reject_row *row);
void store_reject_done(struct store *s);

/* ---- their bodies ---- */

void store_reject_body_add(struct store *s, const char *id, const char *source,
                           int64_t at_ms, struct bytes body);
/* Borrowed until store_reject_body_done(). */
bool store_reject_body(struct store *s, const char *id, struct bytes *body);
void store_reject_body_done(struct store *s);
/* A reject_body_fn is called for each body, with its source and size. */
/* For each kept body. */
void store_reject_bodies(struct store *s, reject_body_fn *fn, void *arg);
/* These delete bodies and call `fn` for each: that of the row whose slot number n of the source
 * overwrites; … */
void store_reject_body_replaced(struct store *s, const char *source, int64_t n,
                                reject_body_fn *fn, void *arg);
/* … the oldest of a source; the oldest of all, if its time is outside of this range. false:
 * there is none. */
bool store_reject_body_drop_first(struct store *s, const char *source,
                                  reject_body_fn *fn, void *arg);
bool store_reject_body_drop_old(struct store *s, int64_t before_ms,
                                int64_t after_ms, reject_body_fn *fn,
                                void *arg);

#endif
