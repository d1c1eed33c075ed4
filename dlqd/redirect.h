/* redirect: a dead letter is sent to another endpoint. That settles it: it is
 * resolved, with a note that says where it went, in one transaction with the
 * message to the sequencer, which carries the event. If it fails there, too,
 * that is a dead letter of its own. It is said again when one of us comes back from
 * an older copy; the sequencer does each action once. */
#ifndef DLQD_REDIRECT_H
#define DLQD_REDIRECT_H

#include "dlqd.h"

/* Inside the turn's transaction. false: `why` says why not; nothing changed. */
bool redirect_dead_letter(struct dlqd *d, const char *id, const char *to,
                          const char *who, char why[200]);
/* Each turn: hand to the link what it hasn't got yet, note what was acknowledged.
 * Returns how long the loop may sleep, in ms. */
int redirect_work(struct dlqd *d);
bool redirect_load(struct dlqd *d, int64_t ref, struct buf *out);

#endif
