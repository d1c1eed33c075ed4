/* task: one delivery that this deliverer has in memory, and the table of all of them.
 *
 * In memory are tasks whose attempt is in flight, and tasks that were received or became
 * due a moment ago and wait for their endpoint. All others are rows only (store.h).
 *
 *      task_messages_apply()      begin_one()          finished
 *   (link) ───────────▶ WAITING ───────────────▶ IN_FLIGHT ──────────▶ ENDED
 *                       ▲   │                                         │ commit
 *            due, read  │   │ old, and many wait                      ▼
 *                      (row) ◀──────────── retry ──────────────── (gone)
 *
 * The table owns its tasks. After a crash memory is empty: a task that has a row (`row`)
 * is read from it, and one whose number is not stored yet is sent again by the sequencer
 * (stored_numbers.h). */
#ifndef DELIVERER_TASK_H
#define DELIVERER_TASK_H

#include "granted_endpoint.h"
#include "lookup.h"
#include "rc.h"
#include "wire.h"
#include <sys/queue.h>

struct grant;

enum task_state { TASK_WAITING, TASK_IN_FLIGHT, TASK_ENDED };

struct task {
    LIST_ENTRY(task) link;           /* of all tasks */
    TAILQ_ENTRY(task) queue_link;    /* WAITING: of its endpoint's queue */
    TAILQ_ENTRY(task) unstored_link; /* if `in_unstored` */
    bool in_unstored;
    struct grant *grant;
    enum task_state state;
    bool due_queue; /* which of the endpoint's two queues it is in */
    bool test; /* no delivery, but `grapnel endpoints test` (endpoint_test.h) */
    /* Of a test that is a drill: how much later than now it says that it was signed; and the rate
     * at which its body is sent, 0: at once. */
    int64_t signed_offset_ms, bytes_per_s;
    bool pulled;    /* tried before its time, because its endpoint recovered */
    uint64_t probe; /* IN_FLIGHT: the breaker's number for it; 0 */
    bool quarantined; /* only quarantine_next() may begin it */
    bool lost;        /* an earlier attempt was in flight at a crash */
    bool dropped; /* final elsewhere: if its attempt fails, it is not retried */
    uint64_t number; /* in the sequencer's log */
    bool stored;     /* the number is on disk, or the task came from a row */
    uint64_t lane;   /* IN_FLIGHT, ENDED: its key (busy_lanes.h); 0: no lane */
    int slot;        /* of inflight.h */
    uint64_t turn;   /* in which it was received; it begins after the commit */
    uint64_t stored_turn, row_turn; /* when its number, its row were stored */
    int64_t row;                    /* 0: it has no row */
    bool retrying;                  /* its row is a scheduled retry */
    int64_t taken_ms;               /* mono */
    uint64_t attempts;
    int64_t first_ms, next_ms;
    int64_t held_ms; /* hold_total_ms() at first_ms; -1: not known */
    char event_id[EVENT_ID_BYTES + 1];
    struct wire_task w;         /* borrows from bytes */
    struct retry_policy *retry; /* of its own; NULL: the endpoint's applies */
    size_t bytes_count;
    char bytes[];
};

struct tasks {
    struct lookup ids;
    LIST_HEAD(, task) all;
    size_t bytes;
    TAILQ_HEAD(, task) unstored; /* number not on disk; the oldest first */
};

/* Decode and copy. NULL: the message does not decode, or an id in it is not valid. The task
 * is in no table yet. */
struct task *task_new(struct bytes message);
void task_free(struct task *t);

void tasks_init(struct tasks *s);
void tasks_fini(struct tasks *s);
/* There are so many that a new one must be a row only. */
bool tasks_full(const struct tasks *s);
void tasks_add(struct tasks *s, struct task *t);
/* Take it out of the table and free it. It must be in no endpoint's queue. */
void tasks_drop(struct tasks *s, struct task *t);
struct task *tasks_find(const struct tasks *s, const struct grant *grant,
                        const char *event_id);
/* Its number is not on disk yet, or it is now. */
void tasks_add_unstored(struct tasks *s, struct task *t);
void tasks_remove_unstored(struct tasks *s, struct task *t);

#endif
