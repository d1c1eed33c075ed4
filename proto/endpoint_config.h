/* endpoint_config: all that an attempt needs to know of an endpoint, as a grant
 * carries it (and `grapnel endpoints test` asks with it). Holds secrets. */
#ifndef PROTO_ENDPOINT_CONFIG_H
#define PROTO_ENDPOINT_CONFIG_H

#include "settings.h"

enum { ENDPOINT_CONFIG_MAX_BYTES = 512 * 1024 };

/* Append it, encoded (wire_endpoint_config), to `out`, which takes at least
 * ENDPOINT_CONFIG_MAX_BYTES. Only of settings that were loaded whole. */
void endpoint_config_encode(const struct endpoint_settings *s, struct buf *out);

#endif
