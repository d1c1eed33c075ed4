/* endpoint_config: the settings that an attempt needs, as a grant carries them (and `grapnel
 * endpoints test` uses them): the rows of ENDPOINT_SETTINGS that go to the deliverer. It holds
 * secrets. The sequencer encodes, the deliverer decodes; both use wire.h. */
#ifndef PROTO_ENDPOINT_CONFIG_H
#define PROTO_ENDPOINT_CONFIG_H

#include "settings.h"
#include "wire.h"

enum { ENDPOINT_CONFIG_MAX_BYTES = 512 * 1024 };

/* Append it, encoded (wire_endpoint_config), to `out`, whose limit is at least
 * ENDPOINT_CONFIG_MAX_BYTES. Only for settings that were loaded completely. */
void endpoint_config_encode(const struct endpoint_settings *s, struct buf *out);

/* Read a decoded record into two structs of zeroes, e->policy included. Lists that are used in
 * their encoded form are left out: headers, signing secrets, networks. GR_REFUSE: a value is
 * beyond the bounds of its row; `why` is a static sentence. Call endpoint_config_free() in both
 * cases. */
GR_MUST_CHECK gr_rc endpoint_config_read(const struct wire_endpoint_config *w,
                                         struct endpoint_settings *e,
                                         struct retry_policy *p,
                                         const char **why);
/* Frees what endpoint_config_read() allocated, and wipes secrets. */
void endpoint_config_free(struct endpoint_settings *e, struct retry_policy *p);

#endif
