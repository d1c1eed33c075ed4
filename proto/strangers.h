/* strangers: bounds how many connections are open at once that have not proved a listed key.
 *
 * libzmq accepts every connection and closes it when its handshake fails or lasts too long, and has no bound for how
 * many there are meanwhile. A thread hears of each accepted connection; when there are too many without a proof, it
 * ends the oldest one. So a new one always gets its chance. Connections from addresses of peers are ended last.
 *
 * The proof is what the kernel has carried: a stranger never gets more than the greeting and one command of the handshake,
 * and everything after that is sent only to a key that the handler of ZAP has admitted. */
#ifndef PROTO_STRANGERS_H
#define PROTO_STRANGERS_H

#include <czmq.h>

struct strangers;

/* `handshake_ms`: libzmq ends a handshake that lasts longer. */
struct strangers *strangers_open(int handshake_ms);
/* After strangers_unwatch() for each socket: libzmq would wait for us. */
void strangers_close(struct strangers *s);

/* Before this socket is bound for the first time. */
void strangers_watch(struct strangers *s, zsock_t *socket);
/* Before such a socket is closed. */
void strangers_unwatch(zsock_t *socket);
/* From now on so many may be open at once, and no address is known as a peer's. */
void strangers_limit(struct strangers *s, int limit);
/* A peer has this numeric address; it replaces that of the same number. */
void strangers_know(struct strangers *s, int number, const char *address);

#endif
