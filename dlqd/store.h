/* store: every SQL statement of dlqd. Writes belong in the turn's transaction;
 * all fail the way db.h says: not at all, or for the rest of the turn. */
#ifndef DLQD_STORE_H
#define DLQD_STORE_H

#include "bounds.h"
#include "db.h"
#include "dead_letter.h"
#include "wire.h"

extern const struct db_schema dlqd_schema;

struct store {
    struct db *db;
    stmt *find_id, *find_n, *by_event, *insert, *die_again, *move;
    stmt *content_add, *content_get;
    stmt *history_add, *history_get, *history_after, *history_last,
        *history_before;
    stmt *requeue_add, *requeue_get, *requeues_forget;
    stmt *requeues_again, *requeue_unhanded, *requeue_handed;
    stmt *note, *decision_add, *decisions, *decision_get, *decision_handed,
        *decision_drop, *decisions_again;
    stmt *scan_state, *scan_all, *scan_oldest, *tallies;
    stmt *scanning; /* the one of both that is being walked */
    stmt *old, *ahead, *count_old, *drop_dead_letter, *drop_content,
        *drop_history;
    stmt *count, *counted, *counted_set;
    stmt *redirect_add, *redirects, *redirect_get, *redirect_at,
        *redirects_again, *redirects_forget;
};

void store_open(struct store *s, struct db *db);

/* counted in store.sql; wall ms. */
int64_t store_counted_since(struct store *s);
void store_counted_since_set(struct store *s, int64_t ms);

/* false: there is none. Else `l` is filled, for dead_letter_fini(). */
bool store_find(struct store *s, struct bytes id, struct dead_letter *l);
bool store_find_n(struct store *s, int64_t n, struct dead_letter *l);
/* Walk the dead letters of an event, oldest first: store_event() begins,
 * store_event_next() is true while there is one, and ends the walk itself. */
void store_event(struct store *s, const char *event_id);
bool store_event_next(struct store *s, struct dead_letter *l);

/* A new dead letter in state dead, with its content; its row's number. */
int64_t store_insert(struct store *s, const char *from,
                     const struct wire_dead *m, int64_t now_ms);
/* The data of a later dead letter, and state dead. */
void store_die_again(struct store *s, int64_t n, const struct wire_dead *m,
                     int64_t now_ms);
void store_move(struct store *s, int64_t n, int state, int64_t generation,
                int64_t now_ms);

/* Borrowed until store_content_done(), which must follow when true. */
bool store_content(struct store *s, int64_t dead_letter, struct bytes *headers,
                   struct bytes *body);
/* Of the row that was read: it, or its dead letter's, is not what was written. */
bool store_content_damaged(struct store *s);
void store_content_done(struct store *s);

struct history_row {
    int64_t at_ms;
    const char *from, *to, *what; /* until the next step */
};
/* `from` NULL: it came. */
void store_history_add(struct store *s, int64_t dead_letter, int64_t at_ms,
                       const char *from, const char *to, const char *what);
void store_history(struct store *s, int64_t dead_letter); /* oldest first */
bool store_history_next(struct store *s, struct history_row *row);
/* Changes of all dead letters, in the order in which they were made, from behind row
 * `after`: true while there is one. store_changes_done() ends it. */
struct change_row {
    int64_t n, dead_letter;
    const char *to; /* until the next step */
};
void store_changes(struct store *s, int64_t after);
bool store_changes_next(struct store *s, struct change_row *row);
void store_changes_done(struct store *s);
int64_t store_changes_last(struct store *s); /* 0: there are none */
/* The last one that is older than this; 0: there is none. */
int64_t store_changes_before(struct store *s, int64_t at_ms);

/* The number of the row that the link's log shall point at. */
int64_t store_requeue_add(struct store *s, int64_t dead_letter,
                          int64_t generation);
bool store_requeue_get(struct store *s, int64_t n, int64_t *dead_letter,
                       int64_t *generation);
/* Its story went on: what may still be on its way is sent as nothing. */
void store_requeues_forget(struct store *s, int64_t dead_letter);
/* Every dead letter that is requeued, from this sequencer, is to be said again. */
int store_requeues_again(struct store *s, const char *sequencer);
/* The next of those that the link has not got yet: its number, and to whom.
 * `sequencer` holds NAME_MAX_BYTES + 1. Marks it as handed. */
bool store_requeue_unhanded(struct store *s, int64_t *n, char *sequencer);

/* What an operator wrote beside it. */
void store_note(struct store *s, int64_t dead_letter, const char *note);

/* To the sequencer, when the link gets it: nobody waits for this dead letter. */
void store_decision_add(struct store *s, const struct dead_letter *l,
                        const char *what);
struct decision_row {
    int64_t n;
    uint64_t link_n; /* 0: not handed yet */
    char sequencer[NAME_MAX_BYTES + 1];
};
/* The oldest, at most `max`. Returns how many. */
int store_decisions(struct store *s, int max, struct decision_row *rows);
/* Texts live until store_decision_done(), which must follow when true. */
bool store_decision(struct store *s, int64_t n, struct wire_decided *m);
void store_decision_done(struct store *s);
void store_decision_handed(struct store *s, int64_t n, uint64_t link_n);
void store_decision_drop(struct store *s, int64_t n);
/* All that were resolved or discarded, to this sequencer. */
int store_decisions_again(struct store *s, const char *sequencer);

/* ---- to another endpoint (redirect.h) ---- */

struct redirect_row {
    int64_t n, dead_letter;
    int64_t link_n; /* 0: the link hasn't got it yet; -1: acknowledged */
    uint64_t action_id;
    char sequencer[NAME_MAX_BYTES + 1], endpoint[NAME_MAX_BYTES + 1];
};
int64_t store_redirect_add(struct store *s, const struct redirect_row *r);
bool store_redirect(struct store *s, int64_t n, struct redirect_row *r);
/* The oldest that are not acknowledged, at most `max`. Returns how many. */
int store_redirects(struct store *s, int max, struct redirect_row *rows);
void store_redirect_at(struct store *s, int64_t n, int64_t link_n);
/* All since then are to be handed to the link again. Returns how many. */
int store_redirects_again(struct store *s, const char *sequencer,
                          int64_t since_ms);

/* A walk over the list, newest first, that reads only the index. `state`
 * NULL: all. Begins below (before_ms, before_n). */
struct scan_row {
    int64_t n, dead_ms;
    const char *endpoint, *workspace, *type, *reason, *source;
};
void store_scan(struct store *s, const char *state, int64_t before_ms,
                int64_t before_n);
bool store_scan_next(struct store *s, struct scan_row *row);
void store_scan_done(struct store *s);
/* The same over the dead ones, oldest first, above (after_ms, after_n). */
void store_scan_oldest(struct store *s, int64_t after_ms, int64_t after_n);

/* Numbers of dead letters that have been in `state` since before `before_ms`, or that a
 * clock that was ahead has dated behind `after_ms`, oldest
 * first, at most `max`; none that is still to leave for another endpoint. */
int store_old(struct store *s, int state, int64_t before_ms, int64_t after_ms,
              int64_t *n, int max);
/* How many of these there are, at most 100000. */
int64_t store_count_old(struct store *s, int state, int64_t before_ms);
void store_drop(struct store *s, int64_t n);

/* How many letters there are of a kind; walks all kinds. */
struct tally {
    int state;
    const char *endpoint, *reason; /* until the next step */
    int64_t count;
};
void store_tallies(struct store *s);
bool store_tallies_next(struct store *s, struct tally *t);

/* Dead letters by state. */
void store_count(struct store *s, int64_t counts[DEAD_LETTER_STATES]);

#endif
