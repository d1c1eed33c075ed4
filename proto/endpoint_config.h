/* endpoint_config: the settings that an attempt needs, as a grant carries them (and `grapnel
 * endpoints test` uses them): the rows of ENDPOINT_SETTINGS that go to the deliverer. It holds
 * secrets. The sequencer encodes, the deliverer decodes; both use wire.h. */
#ifndef PROTO_ENDPOINT_CONFIG_H
#define PROTO_ENDPOINT_CONFIG_H

#include "settings.h"
#include "wire.h"

enum {
    ENDPOINT_CONFIG_MAX_BYTES = 512 * 1024,
    RETRY_POLICY_MAX_BYTES = 256 * 1024,
};

/* Append it, encoded (wire_endpoint_config), to `out`, whose limit is at least
 * ENDPOINT_CONFIG_MAX_BYTES. Only for settings that were loaded completely.
 * `chosen_wait_ms`: the longest wait of any retry policy that its tasks may have; 0: they have
 * none. */
void endpoint_config_encode(const struct endpoint_settings *s,
                            int64_t chosen_wait_ms, struct buf *out);

/* Read a decoded record into two structs of zeroes, e->policy included. Lists that are used in
 * their encoded form are left out: headers, signing secrets, networks. GR_REFUSE: a value is
 * beyond the bounds of its row; `why` is a static sentence. Call endpoint_config_free() in both
 * cases. */
GR_MUST_CHECK gr_rc endpoint_config_read(const struct wire_endpoint_config *w,
                                         struct endpoint_settings *e,
                                         struct retry_policy *p,
                                         const char **why);
/* The retry policy of one task: append it, encoded, to `out`; and read it into a struct of
 * zeroes. GR_REFUSE: it is of another version, or a value is beyond its bounds. Call
 * retry_policy_free() in both cases. */
void retry_policy_encode(const struct retry_policy *p, struct buf *out);
GR_MUST_CHECK gr_rc retry_policy_read(struct bytes in, struct retry_policy *p);
void retry_policy_free(struct retry_policy *p);
/* Frees what endpoint_config_read() allocated, and wipes secrets. */
void endpoint_config_free(struct endpoint_settings *e, struct retry_policy *p);

#endif
