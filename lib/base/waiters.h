/* waiters: connections whose next step is the peer's, in the order in which their wait began.
 *
 * Two limits keep silent or very slow connections from blocking others. Each wait ends after
 * a fixed time, which single bytes do not renew. When fifteen of sixteen connections are in
 * use, the one that has waited longest is closed for each new one. */
#ifndef BASE_WAITERS_H
#define BASE_WAITERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* Part of a connection; zeroed, it does not wait. */
struct waiter {
    TAILQ_ENTRY(waiter) link;
    int64_t since_ms; /* monotonic; while `waits` */
    bool waits;
};

TAILQ_HEAD(waiters, waiter);

void waiters_init(struct waiters *all);
/* Begins a wait, again if it waits already. */
void waiters_begin(struct waiters *all, struct waiter *w, int64_t mono_ms);
/* Ends a wait; also call it before its memory is freed. */
void waiters_end(struct waiters *all, struct waiter *w);

/* The first connection that has waited for `limit_ms`. NULL: there is none, and *left_ms is
 * the time until the next one will have (-1: none waits). */
struct waiter *waiters_overdue(const struct waiters *all, int64_t mono_ms,
                               int64_t limit_ms, int *left_ms);
/* `open` of at most `max` connections are open. Returns the one to close for the next
 * connection; NULL: there is enough space, or none waits. */
struct waiter *waiters_crowded(const struct waiters *all, int64_t open,
                               int64_t max);

#endif
