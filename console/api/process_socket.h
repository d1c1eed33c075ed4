/* process_socket: one connection to the control socket of a process, at the ZMTP protocol over a
 * Unix socket that never blocks.
 *
 * ZeroMQ itself would not tell that a process has ended while a request is open, and would keep
 * requests for a process that does not run; this connection shows both at once. For
 * process_client.c only. */
#ifndef CONSOLE_PROCESS_SOCKET_H
#define CONSOLE_PROCESS_SOCKET_H

#include "alloc.h"
#include <sys/queue.h>

enum {
    /* A dead letter with a body of BODY_MAX_BYTES, as base64. */
    REPLY_MAX_BYTES = 96 * 1024 * 1024,
};

enum socket_event {
    SOCKET_NOTHING, /* it waits */
    SOCKET_REPLY,   /* `reply` is there, until the next call */
    SOCKET_ENDED,   /* the process closed it, or broke the protocol */
};

struct process_socket {
    TAILQ_ENTRY(process_socket) link; /* process_client.c's, as are: */
    struct process_peer *process;
    struct process_question *question; /* NULL: it is idle */

    int fd;
    uint64_t file; /* ipc_file() */
    int stage;
    bool delimiter;   /* the empty frame before a reply has come */
    bool watches_out; /* in the epoll */
    struct buf in, out;
    size_t taken, sent;   /* of `in` and `out` */
    size_t question_from; /* in `out`: the first byte of the request */
    struct bytes reply;   /* in `in` */
};

/* Connects to run_dir/NAME.control, and adds the socket to the epoll. NULL: no process listens
 * there; *busy: one does, but accepts no connection. */
struct process_socket *process_socket_open(const char *run_dir,
                                           const char *name, int epoll,
                                           bool *busy);
void process_socket_close(struct process_socket *s);
/* Sends a request; the one before has its reply. false: the connection has ended, and the
 * process got nothing of it. */
bool process_socket_ask(struct process_socket *s, int epoll, const char *text);
/* Reads and writes what is possible. */
enum socket_event process_socket_run(struct process_socket *s, int epoll);
/* The reply was read: forget it. */
void process_socket_done(struct process_socket *s);
/* Whether the process may have read the request, or a part of it. */
bool process_socket_was_heard(const struct process_socket *s);

#endif
