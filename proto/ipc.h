/* ipc: addresses of the ZeroMQ sockets that processes bind in run_dir, NAME.KIND: NAME.inbox,
 * NAME.priority, NAME.control, NAME.metrics.
 *
 * Sockets are CZMQ's (docs/decisions/0001). A process calls zsys_handler_set(NULL) before it
 * makes its first one: otherwise CZMQ takes SIGINT and SIGTERM. */
#ifndef PROTO_IPC_H
#define PROTO_IPC_H

#include <stdbool.h>
#include <stdint.h>

typedef struct _zsock_t zsock_t; /* of <czmq.h>, which takes long to compile */

/* "ipc://RUN_DIR/NAME.KIND"; the caller frees it. Exits 78 when the path is too long for a
 * socket. */
char *ipc_address(const char *run_dir, const char *name, const char *kind);
/* Bind the socket to that address; its options are already set. It replaces a file that is there, also the
 * socket of a process that listens.
 * Exits 78 as above, 69 when it cannot be bound. */
void ipc_bind(zsock_t *socket, const char *run_dir, const char *name,
              const char *kind);
/* Binds it again at its address if the file was deleted: what is connected stays connected, and others can connect again. 1: bound; 0:
 * the file is there, or another process holds the lock of run_dir (try later); -1: it cannot be bound. Does not wait. */
int ipc_bind_again(zsock_t *socket, const char *run_dir, const char *name,
                   const char *kind);
/* A console may bind NAME.control for a process that is on another host now. So no process decides about a socket's file by
 * what it saw earlier: ipc_bind() holds this lock of run_dir, and so does what looks at a file first and then binds or removes
 * it. The lock ends with the process. ipc_lock() does not wait; -1: another process holds it, so try later. */
int ipc_lock(const char *run_dir);
void ipc_unlock(int lock);

/* Which file is there, to recognise it: another socket has another number, as long as the first one is open. 0: there is no file. */
uint64_t ipc_file(const char *run_dir, const char *name, const char *kind);
/* Whether a process listens there; one that was killed leaves its file. Never blocks: a process that hangs listens. */
bool ipc_listens(const char *run_dir, const char *name, const char *kind);
/* Removes the file, if it is this one. */
void ipc_remove(const char *run_dir, const char *name, const char *kind,
                uint64_t file);

/* For a socket that stays connected to that address: connects it again when another file is there than *file, because the
 * process runs on another host now, and the one with the former file may hang. *file is updated, and 0 at first. */
void ipc_follow(zsock_t *socket, const char *run_dir, const char *name,
                const char *kind, uint64_t *file);

#endif
