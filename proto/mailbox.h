/* mailbox: the inbox of a daemon (PULL, bound) and its connections to the inboxes of peers
 * (PUSH).
 *
 * A process whose inbox may be full of work binds a second one, the priority inbox. It gives
 * that address to the peers whose frames must not wait behind the work, and reads it first.
 *
 * Frames are lost when either end dies; the durable link sends them again. Sends never block. */
#ifndef PROTO_MAILBOX_H
#define PROTO_MAILBOX_H

#include "cluster.h"
#include "ipc.h"
#include "rc.h"
#include <zmq.h>

typedef struct _zframe_t zframe_t; /* of <czmq.h> */

struct mailbox;

/* Bind run_dir/NAME.inbox. Exits 78 when the path is too long for a socket, 69 when it cannot
 * be bound. */
struct mailbox *mailbox_open(const char *run_dir, const char *name);
void mailbox_close(struct mailbox *m);

/* Bind run_dir/NAME.priority too. Exits as mailbox_open() does. */
void mailbox_open_priority(struct mailbox *m);
/* After that: bind the same inboxes for the peers on other hosts, too. `cluster` is closed
 * after the mailbox. */
void mailbox_join(struct mailbox *m, struct cluster *cluster);
/* The cluster has other peers, addresses or keys: connections that lead elsewhere now are closed, and with another key
 * of our own all of them. The durable link sends again what they held. */
void mailbox_rejoin(struct mailbox *m);
/* Its sockets in run_dir, as ipc_bind_again(). */
int mailbox_bind_again(struct mailbox *m);

const char *mailbox_name(const struct mailbox *m);
/* Our inbox, as the process at address `to` reaches it. */
const char *mailbox_address(const struct mailbox *m, const char *to);
/* The priority inbox; without one: the inbox. */
const char *mailbox_priority_address(const struct mailbox *m, const char *to);

zsock_t *
mailbox_socket(struct mailbox *m); /* the inbox for peers of this host */
enum { MAILBOX_SOCKETS = 4 };
/* For the loop: all inboxes. Returns how many. */
int mailbox_sockets(const struct mailbox *m, zsock_t *out[MAILBOX_SOCKETS]);
/* Whether it is one of the priority inboxes. */
bool mailbox_is_priority(const struct mailbox *m, const zsock_t *socket);

/* The inbox of a peer known by name only, in the same run_dir or on another host. `out` holds
 * INBOX_MAX_BYTES + 1. */
void mailbox_address_of(const struct mailbox *m, const char *peer, char *out);

/* Whether we would connect to this address: ipc:// inside run_dir, or a peer on another host. */
bool mailbox_reaches(const struct mailbox *m, struct bytes address);
/* Whether a send has space now (cheaper than making a frame and trying). */
bool mailbox_has_space(struct mailbox *m, const char *address);
/* For the loop, before it waits: the sockets of peers that had no space for the last
 * frame, to be polled for ZMQ_POLLOUT; at most `max` of them. A socket that has space
 * again is returned once more, so that the loop does not sleep. Returns how many there
 * are in all. */
int mailbox_full(struct mailbox *m, zmq_pollitem_t *items, int max);
/* GR_AGAIN: no space now. GR_REFUSE: not an address we connect to (see mailbox_reaches()). */
GR_MUST_CHECK gr_rc mailbox_send(struct mailbox *m, const char *address,
                                 struct bytes frame);
/* The next frame, which the caller destroys. NULL: there is none now. A frame from another host that is not what it
 * claims to be is dropped (cluster_admits()). */
zframe_t *mailbox_take(struct mailbox *m);
zframe_t *mailbox_take_priority(struct mailbox *m);

#endif
