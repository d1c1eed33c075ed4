/* daemon_health: the state of a process in one line, for `grapnel health` and for the
 * service manager. */
#ifndef DAEMON_DAEMON_HEALTH_H
#define DAEMON_DAEMON_HEALTH_H

#include <jansson.h>
#include <stdbool.h>

struct daemon;

/* The control command `health`: ready, or the reason why not; and what an operator should know. */
json_t *daemon_health_ask(void *daemon, json_t *args, char why[200]);
/* The database, as `status` and `health` have it. The caller's. */
json_t *daemon_health_store(struct daemon *d);
/* Call it when a turn was rolled back because the disk is full. */
void daemon_health_full(struct daemon *d);
/* Reports to the service manager. Returns the ms until the next call; -1: any time. */
int daemon_health_turn(struct daemon *d);

#endif
