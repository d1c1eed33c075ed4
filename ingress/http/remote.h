/* remote: who is at the other end, also behind proxies that we trust. Pure. */
#ifndef INGRESS_REMOTE_H
#define INGRESS_REMOTE_H

#include "settings.h"
#include <arpa/inet.h>

/* `address` is the peer's, as text. When it is one of the trusted, it becomes
 * the last address of X-Forwarded-For that is not trusted (each proxy adds the
 * one that it saw, so a stranger wrote those before it). */
void remote_find(const struct cidr *trusted, size_t count, struct bytes headers,
                 char address[INET6_ADDRSTRLEN]);

#endif
