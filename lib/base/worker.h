/* worker: one function in a thread of its own, begun by the loop, one run at a
 * time. What it touches is its own from begin to end, and the loop's otherwise:
 * the hand-over orders their memory, and nothing else is shared. */
#ifndef BASE_WORKER_H
#define BASE_WORKER_H

struct worker;

/* Opened after loop_prepare(), which blocks the signals that we take. */
struct worker *worker_open(void (*run)(void *arg), void *arg);
void worker_close(struct worker *w); /* no run is under way; NULL is fine */

void worker_begin(struct worker *w);
int worker_fd(const struct worker *w); /* readable when the run has ended */
void worker_end(struct worker *w);     /* waits until it has */

#endif
