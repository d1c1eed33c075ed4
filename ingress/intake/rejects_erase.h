/* rejects_erase: what ingress does when a workspace is erased: after the rows of its archive it
 * deletes those of refused requests. */
#ifndef INGRESS_REJECTS_ERASE_H
#define INGRESS_REJECTS_ERASE_H

#include "daemon_erase.h"

/* daemon_plan's. self: struct ingress. */
erase_fn ingress_erase;

#endif
