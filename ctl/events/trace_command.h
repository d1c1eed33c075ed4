/* trace_command: finds the event that an id on the command line means. For `trace` and `show`. */
#ifndef CTL_TRACE_COMMAND_H
#define CTL_TRACE_COMMAND_H

#include "ctl.h"

/* The id of the event of a dead letter (dlq_X-crm belongs to evt_X); a copy of any other id. The
 * caller's. */
char *trace_event_id(const char *id);
/* Prints the events that share a provider id, from the sequencer's reply. Returns the exit
 * code. */
int trace_print_matches(struct ctl *c, json_t *reply);

#endif
