/* deaths: each dead letter as it comes, for whoever wants to be told (the
 * console's alerts): a control command that goes on where the asker stopped. */
#ifndef DLQD_DEATHS_H
#define DLQD_DEATHS_H

#include <jansson.h>

/* {"after": n, "limit": m}: {"after": n, "deaths": [{"id","event_id","endpoint",
 * "reason","http_status","error","dead_at"}], "next": n, "more": bool}. Without
 * `after`, or with -1: none, and `next` is where the next one will be. */
json_t *deaths_ask(void *self, json_t *args, char why[200]);

#endif
