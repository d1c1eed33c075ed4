/* care: after a crash, what was in flight is tried one at a time before
 * anything else begins, the last that had begun first. A task that was alone in
 * flight at CARE_CRASHES crashes is dead (`crashed_deliverer`): it takes itself
 * out, not the fleet.
 *
 * Most crashes are no task's doing, and endpoints may be slow. So each has the
 * others' way for a moment only (all together CARE_ALL_MS, each at most
 * CARE_EACH_MS), and one that was alone in a crash is not tried again before we
 * have lived for CARE_QUIET_MS without it; both twice as long after each crash that
 * follows (the latter up to eight times). So whoever kills us again and again hardly
 * meets it twice. */
#ifndef DELIVERER_CARE_H
#define DELIVERER_CARE_H

#include "flying.h"

struct deliverer;
struct task;

enum {
    CARE_CRASHES = 2,
    CARE_ALL_MS = 20 * 1000,
    CARE_EACH_MS = 100,
    CARE_HOLD_MS = 300, /* wait so long for those that are sent again */
    CARE_QUIET_MS = 1000,
    CARE_FORGET_MS = 10 * 60 * 1000, /* and know their names so long */
    CARE_EMPTY_MS = 2000, /* what flies may end before one that came late */
};

struct suspect {
    int slot;
    bool looked; /* for its row */
    bool dead;   /* told, in turn `turn` */
    uint64_t turn;
};

struct care {
    struct flying flying;
    struct suspect *suspects; /* not begun since; in order */
    int count;
    int64_t each_ms;
    int64_t lease_ms;    /* mono: since we may begin; 0 */
    int64_t patience_ms; /* mono: the next may begin beside others; 0 */
    int alone;           /* slot of what is alone in flight; FLYING_NONE */
};

/* Pure: how long we live without one that was alone in a crash before it is tried
 * again, after so many crashes in a row. */
int64_t care_quiet_ms(uint32_t crashes);

void care_open(struct deliverer *d, const char *path);
void care_close(struct deliverer *d);
/* Inside the transaction: bring suspects' rows in; end those that are dead. */
void care_work(struct deliverer *d);
/* The transaction was not committed. */
void care_undo(struct deliverer *d);
/* A task is in memory now, and waits: the one that care_next() alone may begin
 * is held. */
void care_meets(struct deliverer *d, struct task *t);
/* A task came that has no row. true: it is dead; its outcome is recorded. */
bool care_ends(struct deliverer *d, const struct task *t);

/* Which task begins now, before all others; NULL with *hold: none, and nothing
 * else; NULL without: as always. */
struct task *care_next(struct deliverer *d, bool *hold);
/* It begins: note it. `alone`: care_next() chose it. */
void care_begins(struct deliverer *d, struct task *t, bool chosen);
/* It is over, and committed. */
void care_ended(struct deliverer *d, struct task *t);
/* How long until care_next() may say something else; -1: it won't. */
int care_wait_ms(const struct deliverer *d);

#endif
