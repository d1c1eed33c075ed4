/* ipc: addresses of the ZeroMQ sockets that processes bind in run_dir, NAME.KIND:
 * NAME.inbox, NAME.priority, NAME.control, NAME.metrics.
 *
 * Sockets are CZMQ's (docs/decisions/0001). Who makes the first one calls
 * zsys_handler_set(NULL) before: otherwise CZMQ takes SIGINT and SIGTERM. */
#ifndef PROTO_IPC_H
#define PROTO_IPC_H

typedef struct _zsock_t zsock_t; /* of <czmq.h>, which is long to compile */

/* "ipc://RUN_DIR/NAME.KIND", the caller's. Exits 78 when the path is too long for a
 * socket. */
char *ipc_address(const char *run_dir, const char *name, const char *kind);
/* Bind the socket to that address, after its options were set. Exits 78 as above, 69
 * when it can't be bound. */
void ipc_bind(zsock_t *socket, const char *run_dir, const char *name,
              const char *kind);

#endif
