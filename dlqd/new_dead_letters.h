/* new_dead_letters: a control command that returns each dead letter as it arrives, for programs
 * that poll (the alerts of the console), and continues where the last reply ended. */
#ifndef DLQD_NEW_DEAD_LETTERS_H
#define DLQD_NEW_DEAD_LETTERS_H

#include <jansson.h>

/* {"after": n, "limit": m} → {"after": n, "dead_letters": [{"id","event_id","endpoint",
 * "reason","http_status","error","dead_at"}], "next": n, "more": bool}. Without `after`, or
 * with -1: an empty list, and `next` is the position of the next one. */
json_t *new_dead_letters_ask(void *self, json_t *args, char why[200]);

#endif
