/* archive_replays: statements of replays: events that an operator sends again; a part of archive_store.h. */
#ifndef ARCHIVE_REPLAYS_H
#define ARCHIVE_REPLAYS_H

#include "bounds.h"
#include "row.h"
#include "sums.h"
#include "wire.h"

/* The headers of a row, its own or shared ones (heads in archive.sql). */
#define ARCHIVE_HEADERS                                                   \
    "CASE WHEN head = 0 THEN headers ELSE (SELECT h.headers FROM heads h" \
    " WHERE h.n = archive.head) END"
/* 1: the row and its shared headers are what was written. */
#define ARCHIVE_INTACT                                                 \
    "(" DB_INTACT(SUM_ARCHIVE) " AND (head = 0 OR (SELECT " DB_INTACT( \
        SUM_HEADS) " FROM heads WHERE n = archive.head)))"

struct archive_replays {
    struct db *db;
    stmt *add, *load, *of_event, *by_new, *pins, *cut, *last_new;
    stmt *from, *page, *newest;
};

/* A row of `replays`. */
#define REPLAY_COLUMNS(F, X) \
    F(i64, n)                \
    X(i64, archived)         \
    X(u64, action_id)        \
    X(i64, at_ms)            \
    X(text, event_id)        \
    X(text, new_id)          \
    X(text, endpoint)        \
    X(flag, always)          \
    X(text, who)
struct replay_row {
    ROW_FIELDS(REPLAY_COLUMNS)
};

void archive_replays_open(struct archive_replays *s, struct db *db);

void archive_replay_add(struct archive_replays *s, const struct replay_row *r);
/* The message for the link that row n stands for. false: it or its request is deleted. */
bool archive_replay_load(struct archive_replays *s, int64_t n, struct buf *out);
/* Each replay of an event, oldest first; then those that made it as a new event. Texts are
 * valid until the next step. */
typedef void replay_fn(void *arg, const struct replay_row *r);
void archive_replays_of(struct archive_replays *s, const char *event_id,
                        replay_fn *fn, void *arg);
/* The archive's row from which this new event was made; 0: there is none. */
int64_t archive_replay_made_of(struct archive_replays *s, const char *new_id);
/* The highest id of an event made by a replay; "" if there is none. */
void archive_replays_last_id(struct archive_replays *s,
                             char id[EVENT_ID_BYTES + 1]);

/* Whether a replay above `handed_n` needs the archive's row n. */
bool archive_replay_pins(struct archive_replays *s, int64_t n,
                         int64_t handed_n);
/* Delete rows up to `n`, as the archive does. */
void archive_replays_cut(struct archive_replays *s, int64_t n);

/* The first row from `n` on. false: there is none. */
bool archive_from(struct archive_replays *s, int64_t n, int64_t *found_n,
                  int64_t *received_ms);
/* Rows above `n`, in order, until `fn` returns false. */
struct archive_entry {
    int64_t n, received_ms;
    const char *event_id, *source;
};
typedef bool entry_fn(void *arg, const struct archive_entry *e);
void archive_page(struct archive_replays *s, int64_t n, entry_fn *fn,
                  void *arg);
/* The newest rows first, with headers and body, until `fn` returns false. */
typedef bool whole_fn(void *arg, const struct archive_entry *e,
                      struct bytes headers, struct bytes body);
void archive_newest(struct archive_replays *s, whole_fn *fn, void *arg);

#endif
