/* listen: opens a listening TCP socket. */
#ifndef BASE_LISTEN_H
#define BASE_LISTEN_H

#include <stdbool.h>

/* Is the one who has the port another process of ours? */
typedef bool listen_peers(void *arg);

/* Exits 69 with the reason when it can't; `key` is the setting that names the
 * address: "ingress.listen". `peers` NULL: the port is for one alone. */
int listen_on(const char *key, const char *host, int port, listen_peers *peers,
              void *arg);

#endif
