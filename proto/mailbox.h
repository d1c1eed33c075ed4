/* mailbox: a daemon's inbox (PULL, bound) and its peers' (PUSH, connected).
 *
 * A process whose inbox may be full of work binds a second one, the priority inbox.
 * It names that one as its address to the peers whose frames must not wait behind the
 * work, and takes its frames first.
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

/* Bind run_dir/NAME.priority too. Exits as mailbox_open() does. */
void mailbox_open_priority(struct mailbox *m);

const char *mailbox_name(const struct mailbox *m);
const char *mailbox_address(const struct mailbox *m); /* of our inbox */
void *mailbox_socket(struct mailbox *m);              /* for the loop */
/* Of the priority inbox. Without one: the inbox's address, and NULL. */
const char *mailbox_priority_address(const struct mailbox *m);
void *mailbox_priority_socket(struct mailbox *m);

/* The inbox of a peer known by name only, in the same run_dir. `out` holds
 * INBOX_MAX_BYTES + 1. */
void mailbox_address_of(const struct mailbox *m, const char *peer, char *out);

/* An address that we would connect to: ipc:// inside run_dir. */
bool mailbox_reaches(const struct mailbox *m, struct bytes address);
/* A send would find room now (cheaper than to make a frame and see). */
bool mailbox_room(struct mailbox *m, const char *address);
/* For the loop, before it waits: the sockets of peers that had no room for the last
 * frame, to be polled for ZMQ_POLLOUT; at most `most` of them. One that has room by now
 * is named once more, so that the loop does not sleep, and then no longer. Returns how
 * many there are in all. */
int mailbox_full(struct mailbox *m, zmq_pollitem_t *items, int most);
/* GR_AGAIN: no room now. GR_REFUSE: not an address we connect to (only ipc://
 * inside run_dir). */
GR_MUST_CHECK gr_rc mailbox_send(struct mailbox *m, const char *address,
                                 struct bytes frame);
/* GR_OK: `msg` holds a frame, close it with zmq_msg_close(). GR_AGAIN: none. */
GR_MUST_CHECK gr_rc mailbox_take(struct mailbox *m, zmq_msg_t *msg);
GR_MUST_CHECK gr_rc mailbox_take_priority(struct mailbox *m, zmq_msg_t *msg);

#endif
