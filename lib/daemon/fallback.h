/* fallback: a thread that does one task of the loop while the loop waits for the disk for
 * long. The loop calls fallback_begin() before it waits and fallback_end() afterwards;
 * in between it does not touch the data of `run`, so only one of the two threads uses
 * it. It costs the loop two uncontended locks. */
#ifndef DAEMON_FALLBACK_H
#define DAEMON_FALLBACK_H

#include <stdint.h>

struct fallback;

/* Calls `run` about every `every_ms` once the loop has waited for `patience_ms`. Open it
 * after loop_prepare(), which blocks the signals that the loop takes. */
struct fallback *fallback_open(void (*run)(void *arg), void *arg,
                               int patience_ms, int every_ms);
void fallback_close(
    struct fallback *s); /* not between begin and end; NULL is allowed */

/* NULL is allowed for both. */
void fallback_begin(struct fallback *s);
void fallback_end(struct fallback *s); /* returns when `run` does not run */

#endif
