/* event_catalogue: the event types that producers may be checked against, with their schemas
 * made ready. The sequencer stores the catalogue (its event_types.h), each ingress has a copy
 * (its event_types.h). In memory only; pure. */
#ifndef WEBHOOK_EVENT_CATALOGUE_H
#define WEBHOOK_EVENT_CATALOGUE_H

#include "json_schema.h"

enum {
    EVENT_TYPES_MAX = 1000,
    EVENT_TYPE_MAX_BYTES = 255,
    EVENT_DESCRIPTION_MAX_BYTES = 1024,
    EVENT_EXAMPLE_MAX_BYTES = 16 * 1024,
    EVENT_SCHEMAS_MAX_BYTES = 1024 * 1024, /* of all types together */
};

struct event_catalogue;

struct event_catalogue *event_catalogue_new(void);
void event_catalogue_free(struct event_catalogue *c); /* may be NULL */
/* Adds a type; names come in ascending order (strcmp). `schema`: its text; "": the type has no
 * schema. GR_REFUSE: it is not a schema, and the type fits any data. */
GR_MUST_CHECK gr_rc event_catalogue_add(struct event_catalogue *c,
                                        const char *name, const char *schema);
/* Whether the catalogue has the type. If so, *schema is its schema, or NULL. */
bool event_catalogue_find(const struct event_catalogue *c, const char *name,
                          const struct json_schema **schema);

#endif
