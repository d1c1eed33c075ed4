/* standin: a thread that does one thing in place of the loop while the loop waits
 * for the disk for long. The loop says when it begins to wait and when it is back;
 * between the two it touches nothing that `run` does, so only one of them ever
 * runs. It costs the loop two uncontended locks. */
#ifndef BASE_STANDIN_H
#define BASE_STANDIN_H

#include <stdint.h>

struct standin;

/* `run` is called about every `every_ms` once the loop has waited for `patience_ms`.
 * Open it after loop_prepare(), which blocks the signals that the loop takes. */
struct standin *standin_open(void (*run)(void *arg), void *arg, int patience_ms,
                             int every_ms);
void standin_close(
    struct standin *s); /* not inside of begin and end; NULL is fine */

/* NULL is fine for both. */
void standin_begin(struct standin *s);
void standin_end(struct standin *s); /* returns when `run` does not run */

#endif
