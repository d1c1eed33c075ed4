/* prometheus: numbers in Prometheus' text format 0.0.4. Pure. */
#ifndef CONSOLE_PROMETHEUS_H
#define CONSOLE_PROMETHEUS_H

#include "gather.h"

/* All that was gathered and is not old; each process' as label `process`. */
void prometheus_text(struct gather *g, int64_t mono_now_ms, struct buf *out);

/* Numbers of our own: first about the name, then each of its values. `key`
 * NULL: no label. */
void prometheus_about(struct buf *out, const char *name, enum metric_kind kind,
                      const char *unit, const char *help);
void prometheus_number(struct buf *out, const char *name, const char *key,
                       const char *label, double v);

#endif
