/* task_messages: applies the messages of the durable link from the sequencer: a new task, the
 * end of a grant, a delivery that is final elsewhere, an operator's retry, a check.
 *
 * The link calls these inside the turn's transaction, in the order of the numbers. A task may
 * stay in memory only; until it is on disk or has ended, the link's cursor stays before its
 * number, so that the sequencer sends it again after a crash (stored_numbers.h). */
#ifndef DELIVERER_TASK_MESSAGES_H
#define DELIVERER_TASK_MESSAGES_H

#include "rc.h"

/* The link's apply (links.h). GR_AGAIN: not now; GR_REFUSE: the message is not valid. */
gr_rc task_messages_apply(void *self, const char *from, uint64_t n,
                          struct bytes msg);
/* The link's rewound(): one side was restored from an older copy. */
void task_messages_rewound(void *self, const char *peer, bool we_are_older);

#endif
