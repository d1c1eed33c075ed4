/* task: one delivery that we have in memory, and the table that finds it.
 *
 * Few are: those in flight, and those that wait for their turn and came just
 * now or are due just now. All others are rows (store.h) and nothing else.
 *
 *            apply()                begin()              finished
 *   (hop) ───────────▶ WAITING ───────────────▶ FLYING ───────────▶ ENDED
 *                       ▲   │                                         │ commit
 *            due, read  │   │ old, and many wait                      ▼
 *                      (row) ◀──────────── parked ──────────────── (gone)
 *
 * `number` is the task's in the hop's link; until it is settled, a crash makes
 * it come again. `row` is its row, once it has one. */
#ifndef DELIVERER_TASK_H
#define DELIVERER_TASK_H

#include "endpoint.h"
#include "rc.h"
#include "wire.h"

struct grant;
struct flight;

enum task_state { TASK_WAITING, TASK_FLYING, TASK_ENDED };

struct task {
    struct task *hash_next;
    struct task *next, *prev; /* its endpoint's queue, while WAITING */
    struct task *open_next, *open_prev; /* while `number` is not settled */
    struct grant *grant;
    enum task_state state;
    bool due_queue; /* which of the endpoint's two queues it is in */
    bool test;      /* of no delivery: `grapnel endpoints test` (probe.h) */
    bool pulled;    /* forward: before its time, as its endpoint is back */
    uint64_t probe; /* FLYING: the breaker's number for it; 0 */
    bool held;      /* only care_next() may begin it */
    bool lost;      /* an earlier attempt was in flight at a crash */
    bool dropped;   /* final elsewhere: whatever comes, it is not parked */
    uint64_t number;
    uint64_t lane; /* FLYING, ENDED: its key (lanes.h); 0: none */
    int slot;      /* of flying.h */
    bool settled;  /* number is on disk, or there never was one */
    uint64_t turn; /* in which it came here; begun after its commit */
    uint64_t closed_turn, row_turn; /* in which it was settled, got its row */
    int64_t row;                    /* 0: none */
    bool parked;                    /* its row is a retry's */
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
    struct task **table;
    size_t count, room, bytes;
    struct task *open_first, *open_last; /* not settled, in order of taking */
};

/* Decode and copy. NULL: it does not decode, or names an event that can't be
 * one. In no table yet. */
struct task *task_new(struct bytes message);
void task_free(struct task *t);

void tasks_fini(struct tasks *s);
/* As many as memory is for: a new one goes to disk at once. */
bool tasks_full(const struct tasks *s);
void tasks_add(struct tasks *s, struct task *t);
void tasks_drop(struct tasks *s, struct task *t); /* and free it */
struct task *tasks_find(const struct tasks *s, const struct grant *grant,
                        const char *event_id);
void tasks_open(struct tasks *s, struct task *t); /* not settled */
void tasks_close(struct tasks *s, struct task *t);
/* Calls `each` for every task; it may drop the one it is given. */
typedef void task_fn(void *self, struct task *t);
void tasks_each(struct tasks *s, task_fn *each, void *self);

#endif
