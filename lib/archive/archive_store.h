/* archive_store: every SQL statement of the archive, with archive_ids.h, archive_replays.h and
 * archive_usage.h. Writes need an open transaction. A full disk is sticky (db.h): writes then do nothing until
 * the turn ends. */
#ifndef ARCHIVE_STORE_H
#define ARCHIVE_STORE_H

#include "ages.h"
#include "archive_ids.h"
#include "archive_replays.h"
#include "archive_usage.h"
#include "bounds.h"
#include "row.h"
#include "wire.h"

struct archive_store {
    struct db *db;
    stmt *insert, *load, *find, *ends, *oldest, *ages, *next, *purge;
    stmt *head, *head_purge, *head_drop, *drop;
    stmt *erase, *erase_body, *head_of, *head_erase;
    struct archive_ids ids;
    struct archive_replays replays;
    struct archive_usage usage;
    int64_t purged; /* rows that the last archive_purge() deleted */
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

void archive_store_open(struct archive_store *s, struct db *db);
void archive_store_close(struct archive_store *s);
/* After a rollback: read again what memory holds about the rows. */
void archive_store_undo(struct archive_store *s);

/* An id made from time must be above all before it, which makes it unique without an index. An
 * id made from a key must not be in the archive. */
void archive_insert(struct archive_store *s, const struct archive_row *row);
/* The shared headers of rows n to last_n, which came in one request. */
void archive_head(struct archive_store *s, const char *source, int64_t n,
                  int64_t last_n, struct bytes headers);
/* When the first row after this one was received; 0: there is no such row. */
int64_t archive_received_after(struct archive_store *s, int64_t n);
/* The number of this event's row; 0: it is not in the archive. */
int64_t archive_number(struct archive_store *s, const char *event_id);
/* Row n, without `secret`, borrowed until archive_request_done(). false: it is not in the
 * archive. */
bool archive_request(struct archive_store *s, int64_t n,
                     struct archive_row *row);
void archive_request_done(struct archive_store *s);
/* Empties row n, which keeps its number: headers, body and the address of the client. `rest`: only the
 * body is replaced by this. */
void archive_empty(struct archive_store *s, int64_t n, const struct buf *rest);
/* A request as a message to the sequencer, with all its headers. */
void archive_put_message(const struct archive_row *row, struct buf *out);
/* The message for the link that number n stands for: an event, or the replay of one. false: it
 * is deleted. */
bool archive_load(struct archive_store *s, int64_t n, struct buf *out);

/* Lowest and highest number in the archive; 0, 0 if it is empty. `last_id` is the highest id
 * made from time, or "". */
void archive_ends(struct archive_store *s, int64_t *first, int64_t *last,
                  char last_id[EVENT_ID_BYTES + 1]);

/* Delete rows from the front: none above `max_n`, none that a replay above `handed_n` (the last
 * acknowledged number) needs, at most `count` rows and about `bytes` of content. Returns the
 * highest number deleted, or 0. */
int64_t archive_purge(struct archive_store *s, int64_t max_n, int64_t handed_n,
                      int count, int64_t bytes);

/* Read up to `count` rows, or about `bytes` of content, from `*at` up to `max_n`, and delete
 * those of this source that no replay above `handed_n` needs. Moves `*at` on. Returns how many
 * were deleted. */
int64_t archive_purge_source(struct archive_store *s, const char *source,
                             int64_t *at, int64_t max_n, int64_t handed_n,
                             int count, int64_t bytes);

/* Read `max` more rows to find those of before `before_ms`. */
void archive_ages(struct archive_store *s, int64_t before_ms, int64_t now_ms,
                  int max, struct ages *ages);

/* A row without its body, borrowed until archive_found_done(). */
struct archived {
    int64_t n, received_ms, secret;
    const char *source, *remote;
    struct bytes headers;
    int64_t body_bytes;
};
bool archive_find(struct archive_store *s, const char *event_id,
                  struct archived *row);
void archive_found_done(struct archive_store *s);

#endif
