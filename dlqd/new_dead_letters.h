/* new_dead_letters: each dead letter as it arrives, for programs that ask for it (the
 * console's alerts): a control command that goes on where the asker stopped. */
#ifndef DLQD_NEW_DEAD_LETTERS_H
#define DLQD_NEW_DEAD_LETTERS_H

#include <jansson.h>

/* {"after": n, "limit": m}: {"after": n, "dead letters": [{"id","event_id","endpoint",
 * "reason","http_status","error","dead_at"}], "next": n, "more": bool}. Without
 * `after`, or with -1: none, and `next` is where the next one will be. */
json_t *new_dead_letters_ask(void *self, json_t *args, char why[200]);

#endif
