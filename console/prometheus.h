/* prometheus: writes metrics in Prometheus' text format 0.0.4. Pure. */
#ifndef CONSOLE_PROMETHEUS_H
#define CONSOLE_PROMETHEUS_H

#include "collector.h"

/* All collected metrics that are not stale; the process is the label `process`. */
void prometheus_text(struct collector *g, int64_t mono_now_ms, struct buf *out);

/* Further metrics: first the head of the name, then each of its values. `key` NULL: no
 * label. */
void prometheus_about(struct buf *out, const char *name, enum metric_kind kind,
                      const char *unit, const char *help);
void prometheus_number(struct buf *out, const char *name, const char *key,
                       const char *label, double v);

#endif
