/* otlp: exports traces and metrics by OTLP/HTTP with JSON, if `telemetry.url` is set. The console
 * calls it from its loop; docs/decisions/0122.
 *
 * It asks the sequencer and the deliverers for what is new, as the live stream does, and reads what
 * the collector has. No other process knows of it. Everything is in memory: a crash, or a stop of the
 * console, loses what was not sent, and what happened meanwhile is not exported. */
#ifndef CONSOLE_OTLP_H
#define CONSOLE_OTLP_H

#include "collector.h"
#include "settings.h"

struct otlp;

struct otlp_counts {
    int64_t spans_sent, spans_dropped, spans_waiting, points_sent,
        requests_failed;
};

struct otlp *otlp_open(const char *run_dir, int64_t now_ms);
void otlp_close(struct otlp *o);
int otlp_fd(const struct otlp *o); /* for the loop */

/* Asks, takes replies, sends; forgets everything if the export is off. Never waits. Returns the ms until
 * the next call; -1: until the descriptor is ready. */
int otlp_work(struct otlp *o, const struct settings *s, struct collector *g,
              int64_t now_ms, int64_t mono_ms);
const struct otlp_counts *otlp_counts(const struct otlp *o);

#endif
