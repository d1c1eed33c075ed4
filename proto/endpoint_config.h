/* endpoint_config: what an attempt needs to know of an endpoint, as a grant carries it (and
 * `grapnel endpoints test` asks with it): the rows of ENDPOINT_SETTINGS that go to the
 * deliverer. Holds secrets. */
#ifndef PROTO_ENDPOINT_CONFIG_H
#define PROTO_ENDPOINT_CONFIG_H

#include "settings.h"
#include "wire.h"

enum { ENDPOINT_CONFIG_MAX_BYTES = 512 * 1024 };

/* Append it, encoded (wire_endpoint_config), to `out`, which takes at least
 * ENDPOINT_CONFIG_MAX_BYTES. Only of settings that were loaded whole. */
void endpoint_config_encode(const struct endpoint_settings *s, struct buf *out);

/* What a decoded record says, into two structs of zeroes, e->policy included. Left out are
 * lists that are used as they travel: headers, signing secrets, networks. Values beyond the
 * bounds of their rows are refused; `why` is a static sentence. endpoint_config_free() in
 * either case. */
GR_MUST_CHECK gr_rc endpoint_config_read(const struct wire_endpoint_config *w,
                                         struct endpoint_settings *e,
                                         struct retry_policy *p,
                                         const char **why);
/* Frees what endpoint_config_read() made; secrets are wiped. */
void endpoint_config_free(struct endpoint_settings *e, struct retry_policy *p);

#endif
