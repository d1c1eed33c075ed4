/* forward: subscribes to the metrics of all processes in run_dir and publishes them at one
 * address (metrics.publish, monitors.h). Frames are forwarded unchanged. Processes that start
 * later are found by the file of their socket. */
#ifndef CONSOLE_FORWARD_H
#define CONSOLE_FORWARD_H

#include "bounds.h"
#include "mailbox.h"
#include "rc.h"

struct forward;
struct monitors;

/* Exits 69 with the reason if `publish` cannot be bound. */
struct forward *forward_open(const char *run_dir, const char *publish);
void forward_close(struct forward *f);
zsock_t *forward_in(struct forward *f); /* for the loop */
struct monitors *forward_out(struct forward *f);

/* Connect to new processes, and find those that have removed their socket, as an orderly stop
 * does. */
void forward_look(struct forward *f);
/* The next process that forward_look() found to be gone; false: there is no further one. */
bool forward_gone(struct forward *f, char name[NAME_MAX_BYTES + 1]);
/* Forward the next frame; the caller destroys it. NULL: no frame has come. */
zframe_t *forward_take(struct forward *f);

#endif
