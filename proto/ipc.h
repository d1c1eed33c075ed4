/* ipc: addresses of the ZeroMQ sockets that processes bind in run_dir, NAME.KIND: NAME.inbox,
 * NAME.priority, NAME.control, NAME.metrics.
 *
 * Sockets are CZMQ's (docs/decisions/0001). A process calls zsys_handler_set(NULL) before it
 * makes its first one: otherwise CZMQ takes SIGINT and SIGTERM. */
#ifndef PROTO_IPC_H
#define PROTO_IPC_H

typedef struct _zsock_t zsock_t; /* of <czmq.h>, which takes long to compile */

/* "ipc://RUN_DIR/NAME.KIND"; the caller frees it. Exits 78 when the path is too long for a
 * socket. */
char *ipc_address(const char *run_dir, const char *name, const char *kind);
/* Bind the socket to that address; its options are already set. Exits 78 as above, 69 when it
 * cannot be bound. */
void ipc_bind(zsock_t *socket, const char *run_dir, const char *name,
              const char *kind);

#endif
