/* guard: may we connect to this address? Pure.
 *
 * Asked for the address of every socket that libcurl opens, and again for the
 * peer of a connection it would use again. Names prove nothing: a name may
 * resolve to anything, and differently each time, and there are a dozen
 * spellings of 127.0.0.1; only the address that is connected to counts.
 * (P8; the lists: IANA's special-purpose registries, and 168.63.129.16, a cloud
 * provider's host service on a public address.) */
#ifndef PROTO_GUARD_H
#define PROTO_GUARD_H

#include "settings.h"
#include <netinet/in.h>
#include <sys/socket.h>

struct guard {
    bool allow_private; /* to everywhere private … */
    struct cidr *cidrs; /* … or to these; owned */
    size_t count;
    struct ports ports; /* to these only; none: to all */
};

/* `cidrs`: "10.0.0.0/8 fd00::/8 …", as wire_endpoint_config has it. GR_REFUSE:
 * one of them is none; `g` needs guard_fini() all the same. */
GR_MUST_CHECK gr_rc guard_init(struct guard *g, bool allow_private,
                               struct bytes cidrs);
void guard_fini(struct guard *g);

bool guard_allows(const struct guard *g, const struct sockaddr *to);
/* The same for an address as text. What is no address is not allowed. */
bool guard_allows_text(const struct guard *g, const char *address, int port);
bool guard_allows_port(const struct guard *g, int port);
/* The address as text ("" if it is neither IPv4 nor IPv6); returns its port. */
int guard_describe(const struct sockaddr *to, char text[INET6_ADDRSTRLEN]);

#endif
