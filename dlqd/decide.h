/* decide: records an operator's decision that a dead letter needs no retry. */
#ifndef DLQD_DECIDE_H
#define DLQD_DECIDE_H

#include "dlqd.h"

/* dead → resolved or discarded, with its note, and the message to the sequencer, so that a lane
 * that the dead letter halts continues: in the open transaction, all or nothing. false: it is in
 * another state, and `why` says so. */
bool decide_dead_letter(struct dlqd *d, const char *id, int state,
                        const char *note, const char *who, char why[200]);

/* Give messages to the link, and delete those that the sequencer has acknowledged; a limited
 * number. Returns ms until it must be called again, negative: not needed. */
int decide_work(struct dlqd *d);
/* The message of a row of `decisions` (links.h). */
bool decide_load(struct dlqd *d, int64_t ref, struct buf *out);

#endif
