/* keypair: the private key by which `grapnel send` signs for providers that
 * sign by one. */
#ifndef CTL_KEYPAIR_H
#define CTL_KEYPAIR_H

#include "alloc.h"
#include "settings.h"
#include <openssl/types.h>

/* The source's requests are signed by a private key. */
bool keypair_needed(const struct source *source);
/* Read the private key in `path`; where there is no such file, make a pair and
 * keep its private half there (mode 0600). NULL `path`: a fresh pair, kept
 * nowhere. `*fresh` says which. NULL: `why` says what is wrong. The caller's. */
EVP_PKEY *keypair_open(const struct source *source, const char *path,
                       bool *fresh, char why[200]);
/* Its public half, as `secrets` of the source takes it. */
gr_rc keypair_public(const struct source *source, EVP_PKEY *key,
                     struct buf *out);

#endif
