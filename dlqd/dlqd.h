/* dlqd: the state of this process, for this folder only. */
#ifndef DLQD_DLQD_H
#define DLQD_DLQD_H

#include "daemon.h"
#include "dead_letter.h"
#include "store.h"

enum dlqd_metric {
    M_DEAD_LETTERS, /* a gauge for each dead_letter_state, in its order */
    M_DEAD_LETTERS_END = M_DEAD_LETTERS + DEAD_LETTER_STATES - 1,
    M_MOVED, /* a counter of entries into each dead_letter_state */
    M_MOVED_END = M_MOVED + DEAD_LETTER_STATES - 1,
    M_DUPLICATES,
    M_UNKNOWN,
    M_PURGED,
    M_EXPIRING,
    M_COUNT,
};

struct dlqd {
    struct daemon daemon;
    struct store store;
    int64_t metrics[M_COUNT];
    /* As of the last commit; a rollback restores them. */
    int64_t committed[M_COUNT];
    int64_t purge_due_ms; /* mono */
    /* Wall clock: dead letters of before are sent again and not counted (counted in store.sql);
     * 0: count all. */
    int64_t counted_since_ms;
};

/* In the link's log: ref is a row of `requeues`, `decisions` or `redirects`. */
enum { ROW_REQUEUE = 1, ROW_DECISION = 2, ROW_REDIRECT = 3 };

/* turn.c: the callbacks of this process (daemon.h) */
void dlqd_open(void *self);
void dlqd_restored(void *self);
void dlqd_reload(void *self, struct settings *fresh);
int dlqd_work(void *self);
void dlqd_after_commit(void *self);
void dlqd_undo(void *self);
void dlqd_measure(void *self);

#endif
