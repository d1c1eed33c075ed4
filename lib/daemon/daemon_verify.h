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
    struct verifier *running; /* NULL: no verification is running */
    bool asked;               /* a control request waits for its result */
    int64_t due_ms;           /* mono: when the next one is due */
    int64_t ended_ms; /* wall: the end of the last complete one; 0: none */
};

void daemon_verify_open(struct daemon *d);
/* The control command `verify`. */
json_t *daemon_verify_ask(void *self, json_t *args, char why[200]);
/* Call it between two turns. Returns the ms until it must be called again. */
int daemon_verify_step(struct daemon *d);
void daemon_verify_close(struct daemon *d);

#endif
