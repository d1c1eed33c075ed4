/* trace: the control command that tells what the archive knows of an event. */
#ifndef INGRESS_TRACE_H
#define INGRESS_TRACE_H

#include "control.h"
#include "settings.h"

/* self: struct ingress. Ends with a NULL name. */
extern const struct control_command ingress_commands[];

/* Packed headers as [[name, value], …], without the values that would open the
 * door to whoever reads them. `source` may be NULL. */
json_t *trace_headers(const struct source *source, struct bytes packed);

#endif
