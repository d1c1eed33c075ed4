/* unknown_version: logs once that a peer runs another version of Grapnel, whose frames
 * this process cannot decode. */
#ifndef PROTO_UNKNOWN_VERSION_H
#define PROTO_UNKNOWN_VERSION_H

#include "wire.h"

/* A warning in the log, once for each peer, kind and version in the life of this
 * process; at most UNKNOWN_VERSIONS_MAX of them. */
enum { UNKNOWN_VERSIONS_MAX = 64 };
void unknown_version_warn(struct bytes peer, const struct wire_head *head);

#endif
