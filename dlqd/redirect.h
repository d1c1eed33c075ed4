/* redirect: sends a dead letter to another endpoint. The dead letter is resolved, with a note
 * that names the other endpoint, in one transaction with the message to the sequencer, which
 * carries the event. If that delivery fails as well, it becomes another dead letter. After a
 * restore the message is sent again; the sequencer applies each action id once. */
#ifndef DLQD_REDIRECT_H
#define DLQD_REDIRECT_H

#include "dlqd.h"

/* Inside the turn's transaction. false: `why` says why not; nothing changed. `action_id`: not 0. */
bool redirect_dead_letter(struct dlqd *d, const char *id, const char *to,
                          uint64_t action_id, const char *who, char why[200]);
/* Each turn: give rows to the link that it does not have yet, and note which are acknowledged.
 * Returns how long the loop may sleep, in ms; negative: for as long as it likes. */
int redirect_work(struct dlqd *d);
/* The message of a row of `redirects` (links.h). */
bool redirect_load(struct dlqd *d, int64_t ref, struct buf *out);

#endif
