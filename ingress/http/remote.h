/* remote: finds the address of the client, also behind trusted proxies. Pure. */
#ifndef INGRESS_REMOTE_H
#define INGRESS_REMOTE_H

#include "settings.h"
#include <arpa/inet.h>

/* `address` is the peer's, as text. If it is trusted, it is replaced by the last address of
 * X-Forwarded-For that is not trusted: each proxy appends the address that it saw, so the
 * client may have invented those before it. */
void remote_find(const struct cidr *trusted, size_t count, struct bytes headers,
                 char address[INET6_ADDRSTRLEN]);

#endif
