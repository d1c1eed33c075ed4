/* listen: opens a listening TCP socket. */
#ifndef BASE_LISTEN_H
#define BASE_LISTEN_H

#include <stdbool.h>

/* Whether the process that uses the port is a peer of this one. */
typedef bool listen_peers(void *arg);

/* Returns the socket, or exits 69 with the reason. `key` is the setting that names the
 * address: "ingress.listen". `peers` NULL: no other process may use the port. */
int listen_on(const char *key, const char *host, int port, listen_peers *peers,
              void *arg);

#endif
