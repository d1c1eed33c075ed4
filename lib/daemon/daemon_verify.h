/* daemon_verify: a process verifies its own database, on request (`grapnel verify`) and
 * once a day. */
#ifndef DAEMON_DAEMON_VERIFY_H
#define DAEMON_DAEMON_VERIFY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct verifier;

struct daemon_verify {
    struct verifier *running; /* NULL: none is */
    bool asked;               /* a control request waits for its end */
    int64_t due_ms;           /* mono */
    int64_t ended_ms;         /* wall, of the last complete one; 0: none */
};

void daemon_verify_open(struct daemon *d);
/* Of the control command `verify`. */
json_t *daemon_verify_ask(void *self, json_t *args, char why[200]);
/* Between two turns. Returns in how many ms it must be called again. */
int daemon_verify_step(struct daemon *d);
void daemon_verify_close(struct daemon *d);

#endif
