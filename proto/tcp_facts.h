/* tcp_facts: what the kernel knows of a tcp connection. */
#ifndef PROTO_TCP_FACTS_H
#define PROTO_TCP_FACTS_H

#include <stdint.h>

/* A number that no other connection has until the next boot; 0: this is not a socket. */
uint64_t tcp_cookie(int fd);
/* How much of what we sent the other end has acknowledged. UINT64_MAX: not a tcp connection. */
uint64_t tcp_acknowledged_bytes(int fd);

#endif
