/* sample: a request as a source's provider would send it, signed. Pure but for
 * what it is given: time and uuid come from the caller. */
#ifndef CTL_SAMPLE_H
#define CTL_SAMPLE_H

#include "settings.h"
#include <openssl/types.h>

enum { SAMPLE_BODY_BYTES = 64 * 1024 * 1024 };

/* What was asked for; NULL: the default of the provider. */
struct sample_options {
    const char *type, *workspace;
    /* Makes the event unlike any other. NULL: nothing is made up, and only the
     * type is put into a header. */
    const char *uuid;
    int64_t n, now_ms;
    bool has_body; /* the body is given, and not touched */
    struct bytes given;
};

struct event_sample {
    struct buf headers; /* packed (headers.h) */
    struct buf body;
    struct buf query; /* after ingress's path; mostly empty */
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
