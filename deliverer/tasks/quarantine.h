/* quarantine: tasks that were in flight at a crash are tried one at a time, before any
 * other task, the last one begun first. A task that was alone in flight at
 * QUARANTINE_CRASHES crashes is dead (`crashed_deliverer`), so that it does not crash
 * one deliverer after the other.
 *
 * Most crashes have another cause than a task, and endpoints may be slow. So a
 * quarantined task delays the others only briefly: QUARANTINE_EACH_MS at most, all
 * together QUARANTINE_ALL_MS. A task that was alone at a crash is not tried before the
 * process has run for QUARANTINE_QUIET_MS without it. Both times double with each crash
 * in a row (the second one up to eight times its value), so that a crash with another
 * cause rarely meets the same task twice.
 *
 * attempts.h asks it before each attempt. The list is read from the mapped file of inflight.h
 * at a start, and a further crash leaves it there. */
#ifndef DELIVERER_QUARANTINE_H
#define DELIVERER_QUARANTINE_H

#include "inflight.h"

struct deliverer;
struct task;

enum {
    QUARANTINE_CRASHES = 2,
    QUARANTINE_ALL_MS = 20 * 1000,
    QUARANTINE_EACH_MS = 100,
    QUARANTINE_WAIT_MS = 300, /* wait so long for tasks that are sent again */
    QUARANTINE_QUIET_MS = 1000,
    /* After this all leave the list, also those that were not tried. */
    QUARANTINE_FORGET_MS = 10 * 60 * 1000,
    /* Let requests in flight end before a late task begins. */
    QUARANTINE_EMPTY_MS = 2000,
};

struct quarantined {
    int slot;    /* of inflight.h */
    bool looked; /* its row was looked for */
    bool dead;   /* its outcome was recorded in turn `turn` */
    uint64_t turn;
};

struct quarantine {
    struct inflight inflight;
    struct quarantined *tasks; /* not begun since the crash; the next first */
    int count;
    int64_t each_ms;     /* for one task before the next may begin beside it */
    int64_t lease_ms;    /* mono: since when attempts may begin; 0 */
    int64_t patience_ms; /* mono: when the next may begin beside others; 0 */
    int alone;           /* slot of the only task in flight; INFLIGHT_NONE */
};

/* Pure: how long the process runs before it tries a task again that was alone at a
 * crash, after so many crashes in a row. */
int64_t quarantine_quiet_ms(uint32_t crashes);

void quarantine_open(struct deliverer *d, const char *path);
void quarantine_close(struct deliverer *d);
/* Inside the transaction: load the rows of quarantined tasks; end those that are dead. */
void quarantine_work(struct deliverer *d);
/* The transaction was not committed. */
void quarantine_undo(struct deliverer *d);
/* A waiting task is in memory now: set its `quarantined` if only quarantine_next() may
 * begin it. */
void quarantine_mark(struct deliverer *d, struct task *t);
/* A task was received and has no row. true: it is dead, and its outcome is recorded. */
bool quarantine_ends(struct deliverer *d, const struct task *t);

/* The task that begins now, before all others. NULL and *wait: no task may begin. NULL
 * without *wait: any task may begin. */
struct task *quarantine_next(struct deliverer *d, bool *wait);
/* A task begins: note it. `chosen`: quarantine_next() returned it. */
void quarantine_began(struct deliverer *d, struct task *t, bool chosen);
/* A task has ended, and its outcome is committed. */
void quarantine_ended(struct deliverer *d, struct task *t);
/* How long until quarantine_next() may return something else; -1: only after an event. */
int quarantine_wait_ms(const struct deliverer *d);

#endif
