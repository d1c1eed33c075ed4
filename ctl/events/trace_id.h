/* trace_id: which event an id on the command line means. */
#ifndef CTL_TRACE_ID_H
#define CTL_TRACE_ID_H

#include "ctl.h"

/* The id of a dead letter holds its event's: dlq_X-crm is of evt_X. Others stay.
 * The caller's. */
char *trace_event_id(const char *id);
/* Several events have this id of the provider's. Prints them; the exit code. */
int trace_print_matches(struct ctl *c, json_t *reply);

#endif
