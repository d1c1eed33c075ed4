/* daemon_metrics: what every daemon measures of itself: its store, its commits,
 * its links. */
#ifndef PROTO_DAEMON_METRICS_H
#define PROTO_DAEMON_METRICS_H

#include "daemon.h"

struct metrics_tables daemon_metrics_tables(const struct daemon_plan *plan);
void daemon_metrics_open(struct daemon *d);
/* Inside the transaction: the common gauges, then the process's own. */
void daemon_measure(struct daemon *d);

#endif
