/* task: one delivery that this deliverer has in memory, and the table that finds it.
 *
 * In memory are those in flight, and those that wait for their turn and came or became due
 * just now. All others are rows only (store.h).
 *
 *            task_messages_apply()         begin_one()          finished
 *   (link) ───────────▶ WAITING ───────────────▶ IN_FLIGHT ──────────▶ ENDED
 *                       ▲   │                                         │ commit
 *            due, read  │   │ old, and many wait                      ▼
 *                      (row) ◀──────────── retry ──────────────── (gone)
 *
 * `number` is the task's number in the sequencer's log; until it is stored, the task comes
 * again after a crash. `row` is its row, once it has one. */
#ifndef DELIVERER_TASK_H
#define DELIVERER_TASK_H

#include "granted_endpoint.h"
#include "lookup.h"
#include "rc.h"
#include "wire.h"
#include <sys/queue.h>

struct grant;
struct transfer;

enum task_state { TASK_WAITING, TASK_IN_FLIGHT, TASK_ENDED };

struct task {
    LIST_ENTRY(task) link;           /* of all */
    struct task *next, *prev;        /* its endpoint's queue, while WAITING */
    TAILQ_ENTRY(task) unstored_link; /* while `in_unstored` */
    bool in_unstored;
    struct grant *grant;
    enum task_state state;
    bool due_queue;   /* which of the endpoint's two queues it is in */
    bool test;        /* of no delivery: `grapnel endpoints test` (probe.h) */
    bool pulled;      /* forward: before its time, as its endpoint is back */
    uint64_t probe;   /* INFLIGHT: the breaker's number for it; 0 */
    bool quarantined; /* only quarantine_next() may begin it */
    bool lost;        /* an earlier attempt was in flight at a crash */
    bool dropped;     /* final elsewhere: whatever comes, it gets no retry */
    uint64_t number;
    uint64_t lane; /* INFLIGHT, ENDED: its key (busy_lanes.h); 0: none */
    int slot;      /* of inflight.h */
    bool stored;   /* number is on disk, or there never was one */
    uint64_t turn; /* in which it came here; begun after its commit */
    uint64_t stored_turn, row_turn; /* in which it was stored, got its row */
    int64_t row;                    /* 0: none */
    bool retrying;                  /* its row is a retry's */
    int64_t taken_ms;               /* mono */
    uint64_t attempts;
    int64_t first_ms, next_ms;
    int64_t held_ms; /* hold_total_ms() when first_ms was true; -1: not known */
    char event_id[EVENT_ID_BYTES + 1];
    struct wire_task w; /* borrows from bytes */
    size_t bytes_count;
    char bytes[];
};

struct tasks {
    struct lookup ids;
    LIST_HEAD(, task) all;
    size_t bytes;
    TAILQ_HEAD(, task) unstored; /* not stored, in order of taking */
};

/* Decode and copy. NULL: it does not decode, or names an event that can't be
 * one. In no table yet. */
struct task *task_new(struct bytes message);
void task_free(struct task *t);

void tasks_init(struct tasks *s);
void tasks_fini(struct tasks *s);
/* As many as memory is for: a new one goes to disk at once. */
bool tasks_full(const struct tasks *s);
void tasks_add(struct tasks *s, struct task *t);
void tasks_drop(struct tasks *s, struct task *t); /* and free it */
struct task *tasks_find(const struct tasks *s, const struct grant *grant,
                        const char *event_id);
void tasks_add_unstored(struct tasks *s, struct task *t); /* not stored */
void tasks_remove_unstored(struct tasks *s, struct task *t);
/* Calls `each` for every task; it may drop the one it is given. */
typedef void task_fn(void *self, struct task *t);
void tasks_each(struct tasks *s, task_fn *each, void *self);

#endif
