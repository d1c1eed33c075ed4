/* daemon_metrics: the metrics that every daemon has: of its store, its commits and its
 * links. */
#ifndef DAEMON_DAEMON_METRICS_H
#define DAEMON_DAEMON_METRICS_H

#include "daemon.h"

struct metrics_tables daemon_metrics_tables(const struct daemon_plan *plan);
void daemon_metrics_open(struct daemon *d);
/* As ipc_bind_again(). */
int daemon_metrics_bind_again(struct daemon *d);
/* Inside the transaction: sets the common gauges, then those of the process. */
void daemon_measure(struct daemon *d);
/* After a commit: counts how long it took. */
void daemon_measure_turn(struct daemon *d);

#endif
