/* operational_events: Grapnel's own events, such as grapnel.endpoint.disabled, for endpoints that
 * are subscribed to the source OPERATIONAL_SOURCE.
 *
 * The code that causes one calls a function below in the transaction of its cause; the events
 * of a turn become rows at its end, in the same transaction, so that a crash leaves cause and
 * event, or neither. The id is made of type, subject and generation, so that a cause that is
 * reported again makes no second event. While nobody is subscribed, nothing is written.
 *
 * At most one event is written for each subject, type and minute. The newest one that was left
 * out is stored (`operational_limits`) and written when the minute is over; `left_out` says how
 * many others there were.
 *
 * Operational events cause no others: their own deliveries are never reported, nor are
 * endpoints that are subscribed to nothing else. */
#ifndef SEQUENCER_OPERATIONAL_EVENTS_H
#define SEQUENCER_OPERATIONAL_EVENTS_H

#include "alloc.h"
#include "db.h"
#include "operational.h"
#include <jansson.h>

struct sequencer;
struct endpoint;
struct delivery;
struct gap_row;
struct operational_events;

struct operational_events *operational_events_open(struct db *db);
void operational_events_close(struct operational_events *o);
/* At the end of a turn, before workspaces are stored: writes the events of this turn, and those
 * whose minute is over. Returns in how many ms there may be more; -1: nothing waits. */
int operational_events_work(struct sequencer *q);
/* The turn was rolled back, and with it the causes. */
void operational_events_undo(struct operational_events *o);

/* A request with these headers is being applied; empty: it is applied. Its hops (hops.h) are
 * those of the events that it causes. */
void operational_cause(struct sequencer *q, struct bytes headers);

/* ---- causes ---- */

/* `reason`: a word; `why`: a sentence. */
void operational_endpoint_disabled(struct sequencer *q,
                                   const struct endpoint *e, const char *reason,
                                   const char *why);
/* It has failed for `percent` of the time after which it is disabled. */
void operational_endpoint_failing(struct sequencer *q, const struct endpoint *e,
                                  int percent, int64_t disable_after_ms);
void operational_endpoint_held(struct sequencer *q, const struct endpoint *e);
/* The delivery is dead; its event's body is still stored. */
void operational_delivery_dead(struct sequencer *q, const struct endpoint *e,
                               const struct delivery *d);
/* `kind`: OPERATIONAL_GAP_OPENED or _SKIPPED; `reason` may be NULL. */
void operational_gap(struct sequencer *q, enum operational_kind kind,
                     const struct gap_row *g, const char *reason);

/* Control command `alert_event`: the console reports that an alert fires or has ended. */
json_t *operational_alert(void *self, json_t *args, char why[200]);

#endif
