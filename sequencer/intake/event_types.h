/* event_types: the catalogue of event types: what each type means, an example, and the JSON
 * Schema that ingress checks for producers that ask for it.
 *
 * The sequencer stores it, because there is one sequencer and several ingress processes. Each
 * of these asks for the catalogue with the digest of its copy (`event_catalogue`), and stores
 * what has changed; a digest of the contents also differs after either side was restored.
 * Control commands run inside the turn's transaction. */
#ifndef SEQUENCER_EVENT_TYPES_H
#define SEQUENCER_EVENT_TYPES_H

#include "db.h"
#include <jansson.h>

struct event_types;

struct event_types *event_types_open(struct db *db);
void event_types_close(struct event_types *t);
/* The turn was rolled back. */
void event_types_undo(struct event_types *t);

json_t *event_types_list(void *self, json_t *args, char why[200]);
json_t *event_types_read(void *self, json_t *args, char why[200]);
json_t *event_types_create(void *self, json_t *args, char why[200]);
json_t *event_types_change(void *self, json_t *args, char why[200]);
json_t *event_types_delete(void *self, json_t *args, char why[200]);
json_t *event_types_catalogue(void *self, json_t *args, char why[200]);

#endif
