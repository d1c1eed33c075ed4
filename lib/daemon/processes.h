/* processes: the processes that have a control socket in run_dir, or a database. For the command line and the
 * console, at any time. A process that was killed leaves the file of its socket behind, so only
 * a connection shows that it runs. */
#ifndef DAEMON_PROCESSES_H
#define DAEMON_PROCESSES_H

#include "rc.h"
#include <stdbool.h>
#include <stddef.h>

/* The address of a process on another host, which the console writes into run_dir/NAME.host when it binds
 * run_dir/NAME.control for it; the caller's. NULL: it runs here. */
char *process_host(const char *run_dir, const char *name);

/* Names of processes, ordered by process_rank(): each that has a control socket in run_dir or runs on another host,
 * and those that delivery needs, running or not: ingress, sequencer, deliverer-1 and dlqd, if
 * no process of that kind has a socket. */
struct processes {
    char **names;
    size_t count;
};

void processes_in(const char *run_dir, struct processes *p);
/* The same, and each process that has a database in state_dir: one that was stopped in order has no socket,
 * but what it stored. For questions whose answer must be complete. GR_REFUSE: `why`, and there is no list. */
GR_MUST_CHECK gr_rc processes_with_data(const char *run_dir,
                                        const char *state_dir,
                                        struct processes *p, char why[200]);
void processes_fini(struct processes *p);

/* "deliverer-7" and "deliverer" are of the kind "deliverer". `kinds`: one, or several with blanks
 * between. Pure. */
bool process_is(const char *name, const char *kinds);
/* Whether processes with these names send each other messages, over the network if they are on two hosts: all of them go by the
 * sequencer. Pure. */
bool processes_exchange(const char *a, const char *b);
/* Those that store events and send them to the sequencer. */
#define PROCESSES_WITH_ARCHIVE "ingress outbox reconcile"
/* The order in which processes are listed: ingress, sequencer, deliverer, dlqd, console,
 * others. Pure. */
int process_rank(const char *name);

#endif
