/* metrics: what a daemon counts, declared once as a table, published as
 * msgpack on a PUB socket (run_dir/NAME.metrics) at an interval.
 *
 * A frame is one part: {"v":1,"process":NAME,"run":…,"time_ms":…,"metrics":{
 * name: number, …}}. docs/METRICS.md is made from the tables. */
#ifndef PROTO_METRICS_H
#define PROTO_METRICS_H

#include "alloc.h"
#include "rc.h"
#include <jansson.h>

struct metric {
    const char *name; /* grapnel_…_total for counters */
    enum { METRIC_COUNTER, METRIC_GAUGE } kind;
    const char *unit; /* "events", "ms", "bytes" … */
    const char *help;
};

struct metrics;

/* `table` ends with a NULL name; values[i] belongs to table[i] and to the
 * process, which writes it whenever it likes. */
struct metrics *metrics_open(void *zmq, const char *run_dir, const char *name,
                             uint64_t run, int64_t interval_ms,
                             const struct metric *table, const int64_t *values);
void metrics_close(struct metrics *m);
/* Outside the transaction: publish when it is time. Returns ms until next. */
int metrics_tell(struct metrics *m, int64_t mono_now_ms);
/* For `status`: {name: value}. */
json_t *metrics_json(const struct metrics *m);
void metrics_document(const char *process, const struct metric *table,
                      struct buf *out);

#endif
