/* trace: the control command that tells what the archive knows of an event. */
#ifndef INGRESS_TRACE_H
#define INGRESS_TRACE_H

#include "control.h"

/* self: struct ingress. Ends with a NULL name. */
extern const struct control_command ingress_commands[];

#endif
