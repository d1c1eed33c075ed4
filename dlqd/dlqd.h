/* dlqd.h: the process's own struct, for this folder only. */
#ifndef DLQD_DLQD_H
#define DLQD_DLQD_H

#include "daemon.h"
#include "letter.h"
#include "store.h"

enum dlqd_metric {
    M_LETTERS, /* a gauge for each letter_state, in its order */
    M_LETTERS_END = M_LETTERS + LETTER_STATES - 1,
    M_MOVED, /* a counter for each letter_state that was come into */
    M_MOVED_END = M_MOVED + LETTER_STATES - 1,
    M_REPEATED,
    M_UNKNOWN,
    M_PURGED,
    M_EXPIRING,
    M_COUNT,
};

struct dlqd {
    struct daemon daemon;
    struct store store;
    int64_t metrics[M_COUNT];
    /* As of the last commit; a turn that was taken back returns to it. */
    int64_t committed[M_COUNT];
    int64_t purge_due_ms; /* mono */
    /* Wall: deaths from before come again and are not counted (counted.sql); 0. */
    int64_t counted_since_ms;
};

/* In the hop's log: ref is a row of `requeues`, `decisions` or `redirects`. */
enum { ROW_REQUEUE = 1, ROW_DECISION = 2, ROW_REDIRECT = 3 };

extern const struct metric dlqd_metrics[];
extern const struct control_command dlqd_commands[];

/* loop.c: this process's turn */
int dlqd_work(void *self);
void dlqd_tell(void *self);
void dlqd_undo(void *self);
void dlqd_measure(void *self);

#endif
