/* guard: decides whether an address may be connected to (P8). Pure.
 *
 * It is asked for the address of every socket that libcurl opens, and for the peer of every
 * connection that libcurl would use again. A host name proves nothing: it may resolve to
 * any address, to a different one each time, and 127.0.0.1 has a dozen spellings. Only the
 * address of the connection counts. Sources of the lists: IANA's special-purpose address
 * registries; 168.63.129.16 is a cloud provider's host service on a public address. */
#ifndef WEBHOOK_GUARD_H
#define WEBHOOK_GUARD_H

#include "settings.h"
#include <netinet/in.h>
#include <sys/socket.h>

struct guard {
    struct allow_private allow; /* owned */
    struct ports ports;         /* only these ports; empty: all */
};

/* `cidrs`: "10.0.0.0/8 fd00::/8 …", as wire_endpoint_config has it. GR_REFUSE: one of them
 * is not a network; call guard_fini() in that case, too. */
GR_MUST_CHECK gr_rc guard_init(struct guard *g, bool allow_private,
                               struct bytes cidrs);
void guard_fini(struct guard *g);

bool guard_allows(const struct guard *g, const struct sockaddr *to);
/* The same for an address as text. Text that is not an address is not allowed. */
bool guard_allows_text(const struct guard *g, const char *address, int port);
bool guard_allows_port(const struct guard *g, int port);
/* Writes the address as text ("" if it is neither IPv4 nor IPv6); returns its port. */
int guard_describe(const struct sockaddr *to, char text[INET6_ADDRSTRLEN]);

#endif
