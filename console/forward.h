/* forward: the PUB sockets of all processes of run_dir in, one address out
 * (metrics.publish, monitors.h). Every frame is sent on as it is; a process that
 * starts later is found by its socket's file. */
#ifndef CONSOLE_FORWARD_H
#define CONSOLE_FORWARD_H

#include "bounds.h"
#include "rc.h"
#include <zmq.h>

struct forward;
struct monitors;

/* Exits 69 with the reason when `publish` can't be bound. `zmq` is
 * borrowed. */
struct forward *forward_open(void *zmq, const char *run_dir,
                             const char *publish);
void forward_close(struct forward *f);
void *forward_in(struct forward *f); /* for the loop */
struct monitors *forward_out(struct forward *f);

/* Connect to processes that are new. Calls `gone` for each that was there and
 * has taken its socket away: it ended in order. */
void forward_look(struct forward *f,
                  void (*gone)(void *self, const char *process), void *self);
/* The next frame: sent on, and `msg` holds it; close it with zmq_msg_close().
 * false: none is here. */
bool forward_take(struct forward *f, zmq_msg_t *msg);

#endif
