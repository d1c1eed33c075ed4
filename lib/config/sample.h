/* sample: a signed request as the provider of a source sends it. Pure: time and UUID come from
 * the caller. For `send`, `check --event`, the console's test events and tests. */
#ifndef CONFIG_SAMPLE_H
#define CONFIG_SAMPLE_H

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
    const char *made_by; /* the body says so; NULL: "grapnel send" */
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

/* Whether the provider signs with a private key, which only it has. */
bool sample_needs_key(const struct source *source);
/* The URL of a path of ingress from this machine: that of 127.0.0.1 if it listens at any address.
 * The caller's. */
char *sample_url(const struct settings *s, const char *path);
/* A UUID that follows from `of`; a random one, if `of` is empty. */
enum { SAMPLE_UUID_BYTES = 36 };
void sample_uuid(char out[SAMPLE_UUID_BYTES + 1], struct bytes of);

#endif
