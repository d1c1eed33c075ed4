/* cluster_key: the key files of a process that `cluster.peers` names. Such a process reads them at its start and at
 * each reload. */
#ifndef PROTO_CLUSTER_KEY_H
#define PROTO_CLUSTER_KEY_H

#include "settings.h"
#include <czmq.h>

enum {
    KEY_BYTES = 32,
    KEY_TEXT_BYTES = 40, /* in Z85 */
};

/* From 64 hexadecimal digits to CZMQ's form of a key. */
void key_from_digits(const char *digits, char out[KEY_TEXT_BYTES + 1]);
/* Whether the configuration lists this key for the peer. */
bool key_is_listed(const struct cluster_peer *peer, const zcert_t *cert);
/* The key of `own` in this folder. NULL: it cannot be used; `*why` says why, and the caller frees that. */
zcert_t *key_load(const char *folder, const struct cluster_peer *own,
                  char **why);

#endif
