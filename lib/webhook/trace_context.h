/* trace_context: the headers `traceparent` and `tracestate` of W3C Trace Context, level 1: reads
 * those of a request, and makes the one of each attempt.
 *
 * An event without a valid `traceparent` gets a trace id that is made of its own id, and the span
 * of an attempt is made of event, endpoint and number: so nothing of it needs to be stored, every
 * process makes the same, and an attempt that is repeated after a crash has the same span. Pure; any
 * thread; docs/decisions/0122. */
#ifndef WEBHOOK_TRACE_CONTEXT_H
#define WEBHOOK_TRACE_CONTEXT_H

#include "alloc.h"

#define TRACEPARENT_HEADER "traceparent"
#define TRACESTATE_HEADER  "tracestate"

enum {
    TRACE_ID_CHARS = 32,
    SPAN_ID_CHARS = 16,
    TRACEPARENT_CHARS = 2 + 1 + TRACE_ID_CHARS + 1 + SPAN_ID_CHARS + 1 + 2,
    TRACESTATE_MAX_BYTES = 512,
    TRACESTATE_MAX_COUNT = 32,
};

/* The traceparent of packed headers (headers.h), as one of version 00 with the flag `sampled`
 * only. false, and "": there is none, there are several, or it is invalid. */
bool traceparent_read(struct bytes headers, char out[TRACEPARENT_CHARS + 1]);

/* Adds the tracestate of packed headers to others as one header, without the blanks between its
 * members. If it is longer than TRACESTATE_MAX_BYTES, members above 128 bytes are left out
 * first, then the last ones. Adds nothing if it is invalid. */
void tracestate_put(struct bytes headers, struct buf *out);

/* The trace id: that of `traceparent`, as traceparent_read() wrote it ("": there is none), or one
 * made of the event's id. */
void trace_id_of(char out[TRACE_ID_CHARS + 1], struct bytes traceparent,
                 struct bytes event_id);

/* The span of attempt number `attempt` (from 1) at an endpoint. */
void trace_attempt_span(char out[SPAN_ID_CHARS + 1], struct bytes event_id,
                        struct bytes endpoint, uint64_t attempt);

/* The traceparent that this attempt sends. `traceparent` as above; its flag `sampled` is sent on,
 * and a made one has it. */
void traceparent_of_attempt(char out[TRACEPARENT_CHARS + 1],
                            struct bytes traceparent, struct bytes event_id,
                            struct bytes endpoint, uint64_t attempt);

#endif
