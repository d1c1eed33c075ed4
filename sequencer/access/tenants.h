/* tenants: what belongs to a workspace, for the tokens of workspaces. Names are compared as bytes.
 *
 * An event belongs to the workspace that it names. Excepted are requests that carried several
 * events, and refused events whose workspace is unknown: they may have parts of others. One of
 * Grapnel's own events that is about an endpoint belongs to the workspace only if that endpoint
 * does. An endpoint belongs to a workspace if it was made at run time for that one alone, also after it
 * was deleted. A delivery belongs to it if both do.
 *
 * Reads the store; call it inside of the turn's transaction. */
#ifndef SEQUENCER_TENANTS_H
#define SEQUENCER_TENANTS_H

#include "event.h"
#include <jansson.h>

struct sequencer;

/* `tenant` NULL: there is no restriction. */
bool tenant_has_event(struct sequencer *q, const char *tenant,
                      const struct event_row *e);
bool tenant_has_endpoint(struct sequencer *q, const char *tenant,
                         int64_t endpoint);
/* The argument `tenant`; NULL: it is not there. */
const char *tenant_of(const json_t *args);

/* Control command. */
json_t *tenants_check(void *self, json_t *args, char why[200]);

#endif
