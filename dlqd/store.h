/* store: every SQL statement of dlqd. Writes belong in the turn's transaction. A full disk is
 * sticky (db.h): writes then do nothing until the turn ends. */
#ifndef DLQD_STORE_H
#define DLQD_STORE_H

#include "bounds.h"
#include "db.h"
#include "dead_letter.h"
#include "wire.h"

extern const struct db_schema dlqd_schema;

struct store {
    struct db *db;
    stmt *find_id, *find_n, *by_event, *insert, *dead_again, *move;
    stmt *content_add, *content_get;
    stmt *history_add, *history_get, *history_after, *history_last,
        *history_before;
    stmt *requeue_add, *requeue_get, *requeues_forget;
    stmt *requeues_again, *requeue_not_in_log, *requeue_handed;
    stmt *note, *decision_add, *decisions, *decision_get, *decision_handed,
        *decision_drop, *decisions_again;
    stmt *scan_state, *scan_all, *scan_oldest, *tallies;
    stmt *scanning; /* the one that is being walked */
    stmt *old, *ahead, *count_old, *drop_dead_letter, *drop_content,
        *drop_history;
    stmt *count, *counted, *counted_set;
    stmt *redirect_add, *redirects, *redirect_get, *redirect_at,
        *redirects_again, *redirects_forget;
    stmt *workspaces, *erase_replies;
};

void store_open(struct store *s, struct db *db);

/* The time in `counted` (store.sql); wall clock, ms. */
int64_t store_counted_since(struct store *s);
void store_counted_since_set(struct store *s, int64_t ms);

/* false: there is none. Else `l` is filled; dead_letter_fini() frees it. */
bool store_find(struct store *s, struct bytes id, struct dead_letter *l);
bool store_find_n(struct store *s, int64_t n, struct dead_letter *l);
/* Walk the dead letters of an event, oldest first: store_event() begins; store_event_next() is
 * true while there is one, and then ends the walk itself. */
void store_event(struct store *s, const char *event_id);
bool store_event_next(struct store *s, struct dead_letter *l);

/* Insert a dead letter in state dead, with its content. Returns the number of its row. */
int64_t store_insert(struct store *s, const char *from,
                     const struct wire_dead *m, int64_t now_ms);
/* Store the result of a later generation, and state dead. */
void store_dead_again(struct store *s, int64_t n, const struct wire_dead *m,
                      int64_t now_ms);
void store_move(struct store *s, int64_t n, int state, int64_t generation,
                int64_t now_ms);

/* Borrowed until store_content_done(), which must follow when true. */
bool store_content(struct store *s, int64_t dead_letter, struct bytes *headers,
                   struct bytes *body);
/* Of the row just read: it, or the row of its dead letter, is not what was written. */
bool store_content_damaged(struct store *s);
void store_content_done(struct store *s);

struct history_row {
    int64_t at_ms;
    const char *from, *to, *what; /* until the next step */
};
/* `from` NULL: the dead letter is new. */
void store_history_add(struct store *s, int64_t dead_letter, int64_t at_ms,
                       const char *from, const char *to, const char *what);
void store_history(struct store *s, int64_t dead_letter); /* oldest first */
bool store_history_next(struct store *s, struct history_row *row);
/* Changes of all dead letters, in the order in which they were made, after row `after`: true
 * while there is one. store_changes_done() ends it. */
struct change_row {
    int64_t n, dead_letter;
    const char *to; /* until the next step */
};
void store_changes(struct store *s, int64_t after);
bool store_changes_next(struct store *s, struct change_row *row);
void store_changes_done(struct store *s);
int64_t store_changes_last(struct store *s); /* 0: there are none */
/* The last one older than this; 0: there is none. */
int64_t store_changes_before(struct store *s, int64_t at_ms);

/* Returns the number of the row, to which the link's log refers. */
int64_t store_requeue_add(struct store *s, int64_t dead_letter,
                          int64_t generation);
bool store_requeue_get(struct store *s, int64_t n, int64_t *dead_letter,
                       int64_t *generation);
/* The dead letter was delivered or failed again: requeues of it still in the log are sent as
 * empty messages. */
void store_requeues_forget(struct store *s, int64_t dead_letter);
/* Send every requeued dead letter of this sequencer again. Returns how many. */
int store_requeues_again(struct store *s, const char *sequencer);
/* The next requeue that the link does not have yet: its number, and its sequencer. `sequencer`
 * holds NAME_MAX_BYTES + 1. Marks it as given to the link. */
bool store_requeue_not_in_log(struct store *s, int64_t *n, char *sequencer);

/* The note of an operator. */
void store_note(struct store *s, int64_t dead_letter, const char *note);

/* A message to the sequencer, for the link: this dead letter is decided. */
void store_decision_add(struct store *s, const struct dead_letter *l,
                        const char *what);
struct decision_row {
    int64_t n;
    uint64_t link_n; /* 0: the link does not have it yet */
    char sequencer[NAME_MAX_BYTES + 1];
};
/* The oldest, at most `max`. Returns how many. */
int store_decisions(struct store *s, int max, struct decision_row *rows);
/* Texts are valid until store_decision_done(), which must follow when true. */
bool store_decision(struct store *s, int64_t n, struct wire_decided *m);
void store_decision_done(struct store *s);
void store_decision_handed(struct store *s, int64_t n, uint64_t link_n);
void store_decision_drop(struct store *s, int64_t n);
/* Send the decision about every resolved or discarded dead letter of this sequencer again.
 * Returns how many. */
int store_decisions_again(struct store *s, const char *sequencer);

/* ---- to another endpoint (redirect.h) ---- */

struct redirect_row {
    int64_t n, dead_letter;
    int64_t link_n; /* 0: the link does not have it yet; -1: acknowledged */
    uint64_t action_id;
    char sequencer[NAME_MAX_BYTES + 1], endpoint[NAME_MAX_BYTES + 1];
};
int64_t store_redirect_add(struct store *s, const struct redirect_row *r);
bool store_redirect(struct store *s, int64_t n, struct redirect_row *r);
/* The oldest that are not acknowledged, at most `max`. Returns how many. */
int store_redirects(struct store *s, int max, struct redirect_row *rows);
void store_redirect_at(struct store *s, int64_t n, int64_t link_n);
/* Give all since then to the link again. Returns how many. */
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
/* The same over those in state dead, oldest first, above (after_ms, after_n). */
void store_scan_oldest(struct store *s, int64_t after_ms, int64_t after_n);

/* Numbers of dead letters that have been in `state` since before `before_ms`, or since after
 * `after_ms` (dated by a clock that was ahead), oldest first, at most `max`; none that must
 * still be sent to another endpoint. */
int store_old(struct store *s, int state, int64_t before_ms, int64_t after_ms,
              int64_t *n, int max);
/* How many have been in `state` since before `before_ms`; counts up to 100000. */
int64_t store_count_old(struct store *s, int state, int64_t before_ms);
void store_drop(struct store *s, int64_t n);

/* Walk the workspaces of the dead letters behind row `after`, by row. */
void store_workspaces(struct store *s, int64_t after);
/* `workspace`: until the next step. */
bool store_workspaces_next(struct store *s, int64_t *n, const char **workspace);
void store_workspaces_done(struct store *s);
/* Delete the stored replies (acts.h) that show the content of a dead letter. */
void store_erase_replies(struct store *s, const char *id);

/* The number of dead letters of each kind: a walk over all kinds. */
struct tally {
    int state;
    const char *endpoint, *reason; /* until the next step */
    int64_t count;
};
void store_tallies(struct store *s);
bool store_tallies_next(struct store *s, struct tally *t);

/* The number of dead letters in each state. */
void store_count(struct store *s, int64_t counts[DEAD_LETTER_STATES]);

#endif
