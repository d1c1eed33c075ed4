/* run_sockets: the sockets NAME.control and NAME.metrics in run_dir that the console binds for a process on another host, and
 * NAME.host, which says where it is. Used in the thread of proxy.c only.
 *
 * The process itself may start on this host, too, and then binds the same names: its sockets replace these. A crash leaves
 * the files: nobody can connect to the sockets, and NAME.host is what `grapnel` knows then. */
#ifndef CONSOLE_RUN_SOCKETS_H
#define CONSOLE_RUN_SOCKETS_H

#include "ipc.h"
#include <czmq.h>
#include <stdbool.h>
#include <stdint.h>

struct run_sockets {
    const char *run_dir, *name; /* borrowed */
    zsock_t *control, *metrics; /* ROUTER and PUB; NULL: not bound */
    uint64_t control_file, metrics_file;
    bool failed; /* the last try, which the log has */
};

/* Binds them, unless a process listens at NAME.control. `but`: the file of one that may be replaced, or 0. false: they are not
 * bound; try later. */
bool run_sockets_take(struct run_sockets *s, uint64_t but);
/* Whether NAME.control is still ours. */
bool run_sockets_own(const struct run_sockets *s);
/* Closes them, and removes those files that are ours. Messages that were sent leave. */
void run_sockets_close(struct run_sockets *s);

/* `text`: NULL: there is no such file. */
void run_sockets_write_host(const struct run_sockets *s, const char *text);

#endif
