/* mailbox: a daemon's inbox (PULL, bound) and its peers' (PUSH, connected).
 *
 * Nothing here is a promise: frames die with either end. Sends never block. */
#ifndef PROTO_MAILBOX_H
#define PROTO_MAILBOX_H

#include "rc.h"
#include <zmq.h>

struct mailbox;

/* Bind run_dir/NAME.inbox. Exits 78 when the path is too long for a socket, 69
 * when it can't be bound. `zmq` is borrowed. */
struct mailbox *mailbox_open(void *zmq, const char *run_dir, const char *name);
void mailbox_close(struct mailbox *m);

const char *mailbox_name(const struct mailbox *m);
const char *mailbox_address(const struct mailbox *m); /* of our inbox */
void *mailbox_socket(struct mailbox *m);              /* for the loop */

/* The inbox of a peer known by name only, in the same run_dir. `out` holds
 * INBOX_MAX_BYTES + 1. */
void mailbox_address_of(const struct mailbox *m, const char *peer, char *out);

/* An address that we would connect to: ipc:// inside run_dir. */
bool mailbox_reaches(const struct mailbox *m, struct bytes address);
/* A send would find room now (cheaper than to make a frame and see). */
bool mailbox_room(struct mailbox *m, const char *address);
/* GR_AGAIN: no room now. GR_REFUSE: not an address we connect to (only ipc://
 * inside run_dir). */
GR_MUST_CHECK gr_rc mailbox_send(struct mailbox *m, const char *address,
                                 struct bytes frame);
/* GR_OK: `msg` holds a frame, close it with zmq_msg_close(). GR_AGAIN: none. */
GR_MUST_CHECK gr_rc mailbox_take(struct mailbox *m, zmq_msg_t *msg);

#endif
