/* outcomes: tells the processes that sent events what has become of them. A process whose kind has
 * subscribers (grapnel-outbox) is the subscriber of each event that it sends; events of others
 * have none, and cost nothing here.
 *
 * When the state of such an event changes, the log of the durable link to its subscriber gets a row
 * (WIRE_KIND_OUTCOME, event), in the transaction of the change: a death before the commit
 * takes back both. The message is made from the event's rows when it is sent, so it says
 * what is true then, and a later one replaces an earlier one. While a row of an event is
 * not sent, further changes of the event need no other row.
 *
 * Rows stay for a week after they were acknowledged, so that a subscriber which was restored from
 * an older copy gets them again. An event whose outcome is not acknowledged is not purged
 * for 30 days.
 *
 * For files of this process, inside the turn's transaction. */
#ifndef SEQUENCER_OUTCOMES_H
#define SEQUENCER_OUTCOMES_H

#include "alloc.h"
#include "rc.h"
#include "wire.h"
#include <jansson.h>

struct sequencer;
struct outcomes;

struct outcomes *outcomes_open(struct sequencer *q);
void outcomes_close(struct outcomes *o);
/* After a rollback: reads memory again. */
void outcomes_undo(struct sequencer *q);

/* The subscriber of events that this process sends: its row, which is added when needed; 0: its
 * kind has none. */
int64_t outcomes_subscriber(struct sequencer *q, const char *process);

/* ---- what has changed ---- */

/* A delivery of this event, or its status. Does nothing if the event has no subscriber. */
void outcomes_changed(struct sequencer *q, int64_t event);
/* The same if the subscriber is known (0: it has none); the event's row may be written later in
 * this turn. */
void outcomes_changed_for(struct sequencer *q, int64_t event,
                          int64_t subscriber);
/* This process has sent the event again: it becomes its subscriber, and is told its state.
 * `action_id`: of its replay, which has been applied; 0: it sent the same message again. */
void outcomes_sent_again(struct sequencer *q, const char *process,
                         int64_t event, uint64_t action_id);
/* A person resolved or discarded a dead letter of the event. `endpoint` 0: that of an event which
 * was refused before routing. */
void outcomes_decided(struct sequencer *q, int64_t event, int64_t endpoint,
                      int64_t generation, bool resolved);

/* ---- to the subscriber ---- */

/* The message of row n of the log to `peer`, as the event's rows are now; false: the event is
 * purged. */
bool outcomes_load(struct sequencer *q, const char *peer, uint64_t n,
                   int64_t event, struct buf *out);

/* {"NAME": the last number in the log to it} of all subscribers. The caller's. */
json_t *outcomes_last_numbers(struct sequencer *q);

/* ---- retention ---- */

/* Whether an event that has ended must stay, as its subscriber has not acknowledged its outcome. It
 * may say so of an event whose outcome is acknowledged, while others are not. */
bool outcomes_needs(struct sequencer *q, int64_t event, int64_t subscriber,
                    int64_t taken_ms);
/* Once a turn: deletes old rows of the logs, and logs which subscribers are silent. true: there is
 * more to delete. */
bool outcomes_work(struct sequencer *q);

#endif
