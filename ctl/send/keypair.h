/* keypair: the private key with which `grapnel send` signs for providers that sign with one. */
#ifndef CTL_KEYPAIR_H
#define CTL_KEYPAIR_H

#include "alloc.h"
#include "settings.h"
#include <openssl/types.h>

/* Reads the private key in `path`; if there is no such file, makes a pair and stores its private
 * half there (mode 0600). `path` NULL: makes a pair and does not store it. *fresh: a pair was
 * made. The caller's. NULL: the reason is in `why`. */
EVP_PKEY *keypair_open(const struct source *source, const char *path,
                       bool *fresh, char why[200]);
/* The public half in the form of the source's `secrets`. */
gr_rc keypair_public(const struct source *source, EVP_PKEY *key,
                     struct buf *out);

#endif
