/* task_messages: applies the messages of the sequencer's link: tasks, revocations, drops, retries, checks. */
#ifndef DELIVERER_TASK_MESSAGES_H
#define DELIVERER_TASK_MESSAGES_H

#include "rc.h"

/* The durable link's apply (links.h). */
gr_rc task_messages_apply(void *self, const char *from, uint64_t n,
                          struct bytes msg);
/* The durable link's set_back. */
void task_messages_set_back(void *self, const char *peer, bool we_are_older);

#endif
