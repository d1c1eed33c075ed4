/* network: IP addresses and networks of them, both kinds as 16 bytes. Pure. */
#ifndef BASE_NETWORK_H
#define BASE_NETWORK_H

#include "alloc.h"
#include <netinet/in.h>

struct cidr {
    uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d */
    int prefix_bits;     /* the length of the prefix, of 128 */
};

/* "10.0.0.1" or "fd00::1"; false: it is not an address. */
bool address_parse(uint8_t out[16], const char *text);
void address_text(char out[INET6_ADDRSTRLEN], const uint8_t address[16]);
bool address_is_v4(const uint8_t address[16]);

/* Reads "10.0.0.0/8" or "fd00::/8"; an address alone is the network of that one. Returns
 * the reason why the text is wrong (static), or NULL. */
const char *network_parse(struct cidr *out, const char *text);
/* Writes it as network_parse() reads it. */
void network_put(const struct cidr *network, struct buf *out);
bool network_has(const struct cidr *network, const uint8_t address[16]);

/* Whether a connection to this host of a database, which has n bytes, does not leave the machine. "", and a name that
 * begins with / or @: a socket. */
bool host_is_local(const char *host, size_t n);

#endif
