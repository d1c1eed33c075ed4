/* other_version: says once that a peer runs another version, whose frames are not
 * understood here. */
#ifndef PROTO_OTHER_VERSION_H
#define PROTO_OTHER_VERSION_H

#include "wire.h"

/* A warning in the log, once for each peer, kind and version in the life of this
 * process; at most OTHER_VERSIONS_MOST of them. */
enum { OTHER_VERSIONS_MOST = 64 };
void other_version_warn(struct bytes peer, const struct wire_head *head);

#endif
