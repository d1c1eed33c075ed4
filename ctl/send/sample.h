/* sample: a signed request as the provider of a source sends it. Pure: time and UUID come from
 * the caller. For `send`, `check --event` and tests. */
#ifndef CTL_SAMPLE_H
#define CTL_SAMPLE_H

#include "settings.h"
#include <openssl/types.h>

enum { SAMPLE_BODY_BYTES = 64 * 1024 * 1024 };

/* The options of the user; NULL: the default of the provider. */
struct sample_options {
    const char *type, *workspace;
    /* Makes the event unique. NULL: the request gets only the header with the type. */
    const char *uuid;
    int64_t n, now_ms;
    bool has_body; /* the body is `given`, and stays unchanged */
    struct bytes given;
};

struct event_sample {
    struct buf headers; /* packed (headers.h) */
    struct buf body;
    struct buf query; /* of the URL; often empty */
};

/* GR_REFUSE: the source has no such field (`why`). sample_fini() in any case. */
GR_MUST_CHECK gr_rc sample_make(struct event_sample *s,
                                const struct source *source,
                                const struct sample_options *w, char why[200]);
/* Add the signature: by the first secret, or by `private_key` (may be NULL)
 * where the provider signs by one. */
GR_MUST_CHECK gr_rc sample_sign(struct event_sample *s,
                                const struct source *source,
                                EVP_PKEY *private_key, char why[200]);
void sample_fini(struct event_sample *s);

#endif
