/* otlp_encode: writes spans and metrics in the JSON encoding of OTLP. Pure; for otlp.c only.
 *
 * Names are those of the public .proto files in lowerCamelCase, ids are hexadecimal, enums are
 * numbers, and integers of 64 bits are strings. */
#ifndef CONSOLE_OTLP_ENCODE_H
#define CONSOLE_OTLP_ENCODE_H

#include "collector.h"
#include "settings.h"
#include <jansson.h>

enum { EVENT_SPANS = 2, ATTEMPT_SPANS_MAX = 2 };

/* Whether the trace of an event is exported: the flag of a received traceparent decides, else the
 * ratio by the trace id. `facts` are those of the event (recent_events, `of`). */
bool otlp_sampled(const json_t *facts, double ratio);

/* Append the spans of an event: of being received, and of being sequenced. */
void otlp_event_spans(json_t *spans, const json_t *event, const json_t *facts);
/* Append the span of an attempt; and that of its delivery, if this attempt ended it. */
void otlp_attempt_spans(json_t *spans, const json_t *attempt,
                        const json_t *facts);

/* A request with the first `count` spans; the caller frees it. */
char *otlp_trace_request(const json_t *spans, size_t count,
                         const char *service);
/* A request with all fresh metrics; NULL: there are none. Counters are cumulative since `since_ms`,
 * when the collector was made. The caller frees it. */
char *otlp_metrics_request(struct collector *g, const char *service,
                           int64_t since_ms, int64_t now_ms, int64_t mono_ms,
                           int64_t *points);

#endif
