/* erase: what ingress does when a workspace is erased: it refuses its events from then on, and empties
 * its rows in the archive and among the refused requests. */
#ifndef INGRESS_ERASE_H
#define INGRESS_ERASE_H

#include "daemon_erase.h"

struct ingress;
struct request;
struct buf;

/* Whether all events of a request belong to workspaces that were erased. If only some of several do,
 * *rest gets the body without them, in which they are null; else it stays empty. */
bool erase_refuses(struct ingress *g, const char *source, struct bytes headers,
                   struct bytes body, struct buf *rest);

/* daemon_plan's. self: struct ingress. */
erase_fn ingress_erase;

#endif
