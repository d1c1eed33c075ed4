/* event: the row of an event, its status, and its end. The files that take events in or end
 * deliveries call it, inside the turn's transaction.
 *
 *   from       to         when
 *   NEW        ROUTED     it gets its number, and a delivery for each endpoint that is
 *                         subscribed to it
 *   NEW        DUPLICATE  another event had its idempotency key
 *   NEW        REFUSED    a field that it needs is missing; a dead letter
 *   NEW        BUFFERED   it waits for lower numbers of its stream, or, in time order, for
 *                         `window` (streams.h)
 *   NEW        IGNORED    it is not a valid transition of its object
 *   NEW        SPLIT      it is a request of several events, which have rows of their own
 *   BUFFERED   ROUTED, IGNORED, REFUSED    it is released from the buffer
 *   DUPLICATE  as from NEW                 an operator releases it
 *   IGNORED    ROUTED, REFUSED             its dead letter is requeued: it is routed anyway
 *   REFUSED    as from NEW                 its dead letter is requeued: judged again
 *
 * An event that is ROUTED has ended when its last delivery is final. */
#ifndef SEQUENCER_EVENT_H
#define SEQUENCER_EVENT_H

#include "row.h"
#include <jansson.h>

struct sequencer;

/* These numbers are stored: never change them. */
enum event_status {
    EVENT_ROUTED = 0,
    EVENT_DUPLICATE = 1,
    EVENT_REFUSED = 2,
    EVENT_BUFFERED = 3,
    EVENT_IGNORED = 4,
    EVENT_SPLIT = 8,
    EVENT_NEW = 9, /* not judged yet; never on disk */
};

/* A row of `events`: the columns that never change, … */
#define EVENT_FIXED(F, X) \
    F(i64, n)             \
    X(text, id)           \
    X(text, source)       \
    X(i64, received_ms)   \
    X(i64, taken_ms)      \
    X(i64_or_null, subscriber)
/* … and those that are set again when the event is processed again. */
#define EVENT_STATE(F, X)         \
    F(number, status)             \
    X(u64_or_null, sequence)      \
    X(text_or_null, clock)        \
    X(text_or_null, reason)       \
    X(text_or_null, provider_id)  \
    X(text, type)                 \
    X(text, workspace)            \
    X(text_or_null, ordering_key) \
    X(text_or_null, traceparent)  \
    X(text_or_null, duplicate_of) \
    X(flag_or_null, late)         \
    X(text_or_null, gap)          \
    X(text_or_null, note)         \
    X(i64_or_null, released_ms)   \
    X(i64_or_null, reopened_ms)
#define EVENT_COLUMNS(F, X) EVENT_FIXED(F, X) EVENT_STATE(X, X)
struct event_row {
    ROW_FIELDS(EVENT_COLUMNS)
    bool numbered;           /* it has: */
    int64_t source_sequence; /* the source's own number */
    const char *delivery_id; /* the provider's; "" or NULL: unknown */
    char *strings;           /* of a row that was read: it owns its texts */
};

/* What its endpoints get of it: they pick among the headers. */
struct event_content {
    struct bytes headers, body;
};

/* A routed event: a delivery is open; all are final, or there are none; all were dead-lettered
 * because the event expired. */
enum event_end { END_OPEN, END_DONE, END_EXPIRED };

void event_fini(struct event_row *e);

/* Its note begins with this word if it was taken from the list of its provider. */
#define EVENT_RECONCILED "reconciled"
bool event_reconciled(const struct event_row *e);

/* The only writer of an event's status and its reason (the caller owns the text; NULL: there is
 * no reason). A change that the table does not permit is a bug, and ends the process before
 * it is on disk. The caller writes the row. */
void event_move(struct event_row *e, enum event_status to, const char *reason);

/* The status for people: a routed event is "routed", "done" or "expired". */
const char *event_status_name(const struct event_row *e, enum event_end end);
/* The same of an event whose deliveries do not matter. */
const char *event_status_plain(int status);
/* An event for lists, and for the beginning of its trace. */
json_t *event_json(const struct event_row *e, enum event_end end);
/* The same for the token of a workspace. */
json_t *event_json_of_tenant(const struct event_row *e, enum event_end end);

/* The last open delivery of this event has become final, or it was routed to no endpoint: log that it has
 * finished, and drop its body if nothing needs it. A crash before the turn's commit repeats the
 * log line. */
void event_ended(struct sequencer *q, int64_t event);
/* Drop the body of an event if nothing needs it any more … */
void event_maybe_drop_body(struct sequencer *q, int64_t event);
/* … and the same if it is known that no delivery of it is open. */
void event_drop_body(struct sequencer *q, int64_t event);
/* How long it took, since it was accepted, or since a person last sent it or one of its
 * deliveries (`reopened_ms`, wall; 0: never) again. */
int64_t event_duration_ms(const struct event_row *ev, int64_t reopened_ms);

#endif
