/* worker: runs one function in its own thread, one run at a time, started by the loop. While
 * it runs, the data it uses belongs to it, and otherwise to the loop; starting and ending a
 * run orders their memory accesses. */
#ifndef BASE_WORKER_H
#define BASE_WORKER_H

struct worker;

/* Open it after loop_prepare(), which blocks the signals that the loop takes. */
struct worker *worker_open(void (*run)(void *arg), void *arg);
/* The same for what can be refused. NULL: there are too many threads or files (errno). */
struct worker *worker_try_open(void (*run)(void *arg), void *arg);
void worker_close(
    struct worker *w); /* call it while no run is under way; NULL is allowed */

void worker_begin(struct worker *w);
int worker_fd(const struct worker *w); /* readable when the run has ended */
void worker_end(struct worker *w);     /* waits until the run has ended */

#endif
