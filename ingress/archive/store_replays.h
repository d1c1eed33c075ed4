/* store_replays: the statements of what is sent again; a part of store. */
#ifndef INGRESS_STORE_REPLAYS_H
#define INGRESS_STORE_REPLAYS_H

#include "bounds.h"
#include "row.h"
#include "sums.h"
#include "wire.h"

/* A row's headers, wherever they are (heads in store.sql). */
#define ARCHIVE_HEADERS                                                   \
    "CASE WHEN head = 0 THEN headers ELSE (SELECT h.headers FROM heads h" \
    " WHERE h.n = archive.head) END"
/* 1: the row, and the head that it shares, are what was written. */
#define ARCHIVE_INTACT                                                 \
    "(" DB_INTACT(SUM_ARCHIVE) " AND (head = 0 OR (SELECT " DB_INTACT( \
        SUM_HEADS) " FROM heads WHERE n = archive.head)))"

struct store_replays {
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

void store_replays_open(struct store_replays *s, struct db *db);

void store_replay_add(struct store_replays *s, const struct replay_row *r);
/* The message behind row n. false: it, or the request, is gone. */
bool store_replay_load(struct store_replays *s, int64_t n, struct buf *out);
/* Each replay of an event, oldest first; those of which it is the new one
 * too. Texts live until the next step. */
typedef void replay_fn(void *arg, const struct replay_row *r);
void store_replays_of(struct store_replays *s, const char *event_id,
                      replay_fn *fn, void *arg);
/* The archive's row that this new event was made of; 0: none. */
int64_t store_replay_made_of(struct store_replays *s, const char *new_id);
/* The highest id that was given to one taken as new; "" for none. */
void store_replays_last_id(struct store_replays *s,
                           char id[EVENT_ID_BYTES + 1]);

/* The archive's row n is needed by a replay above `handed_n`. */
bool store_replay_pins(struct store_replays *s, int64_t n, int64_t handed_n);
/* Rows up to `n` go, as the archive's do. */
void store_replays_cut(struct store_replays *s, int64_t n);

/* The first row from `n` on; false: there is none. */
bool store_archive_from(struct store_replays *s, int64_t n, int64_t *found_n,
                        int64_t *received_ms);
/* Rows above `n`, in order, until `fn` says false. */
struct archive_entry {
    int64_t n, received_ms;
    const char *event_id, *source;
};
typedef bool entry_fn(void *arg, const struct archive_entry *e);
void store_archive_page(struct store_replays *s, int64_t n, entry_fn *fn,
                        void *arg);
/* The newest rows first, with headers and body, until `fn` has enough. */
typedef bool whole_fn(void *arg, const struct archive_entry *e,
                      struct bytes headers, struct bytes body);
void store_archive_newest(struct store_replays *s, whole_fn *fn, void *arg);

#endif
