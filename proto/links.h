/* links: the durable link, the one protocol for everything that must reach another process:
 * stored, sent, acknowledged. docs/ARCHITECTURE.md describes it; tests/model/link.pml is its
 * specification.
 *
 * One `struct links` per process holds all links, out and in. Its tables (links.sql) are in the
 * process's own database, so that a message and the change that caused it, or that it causes,
 * are one transaction. */
#ifndef PROTO_LINKS_H
#define PROTO_LINKS_H

#include "alloc.h"
#include "db.h"
#include "mailbox.h"
#include "rc.h"

struct links;

/* What the process does with the link. `self` comes from links_open(). */
struct links_ops {
    /* Inside the turn's transaction: take one message of link `from`. GR_REFUSE:
     * it can't be applied; it is set aside with its bytes, and the link continues.
     * (A message of another version of Grapnel waits at its sender instead.)
     * GR_AGAIN: not now (no space); nothing was changed, and the sender sends it
     * again. `n` is its number; never use it as an identity. */
    gr_rc (*apply)(void *self, const char *from, uint64_t n, struct bytes msg);

    /* Outside of a transaction: append the message behind row n (kind, ref)
     * of our log to `peer`. false: that row is gone; the number is sent as an
     * empty message, which the receiver skips. NULL: we send nothing. */
    bool (*load)(void *self, const char *peer, uint64_t n, int kind,
                 int64_t ref, struct buf *out);

    /* This link was rewound: one end was restored from an older copy. It is logged
     * already; here the process does what its own state needs. On a held link,
     * messages up to the link's `next` (links_each()) are not sent again: store them
     * here. Numbers taken past that are void: do not settle them. `we_are_older`:
     * the peer has rows that our log lacks. Inside the turn's transaction.
     * May be NULL. */
    void (*rewound)(void *self, const char *peer, bool we_are_older);

    /* Messages from this peer are applied before those of others: our acknowledgements
     * name the priority inbox to it, if the process has one (mailbox.h). Every peer
     * sends acknowledgements there. May be NULL. */
    bool (*urgent)(void *self, const char *peer);
};

/* Reads its state from `db` (the schema must contain proto_links_sql). Begins a
 * new epoch, whose 64 random bits are `epoch`; nothing leaves before the first
 * commit. */
struct links *links_open(struct db *db, struct mailbox *mailbox,
                         const struct links_ops *ops, uint64_t epoch,
                         void *self);
void links_close(struct links *h);
/* On an orderly stop, inside the last transaction: the next start need not
 * blame any message. */
void links_stopped(struct links *h);
/* Inside a transaction, after links_open(), when the database is a copy: forgets which
 * message was being tried at a crash, as the copy may be older than that. (Every start
 * has its own epoch anyway.) */
void links_restored(struct links *h);
/* After a rollback: reads memory from disk again. */
void links_undo(struct links *h);

/* Append to the log of the link to `peer` (made on first use), inside the
 * turn's transaction. It is sent after the commit. */
void links_put(struct links *h, const char *peer, int kind, int64_t ref);

/* The same, with the message itself, which is then sent behind this turn's commit without
 * ops->load(). It is sent as it is now: a later change of what it says needs a message of
 * its own. (Sent again, or when there is no space to keep it, it is made by load().) */
enum { LINK_KEPT_MAX_BYTES = 64 * 1024 }; /* a larger one is not kept */
void links_put_message(struct links *h, const char *peer, int kind, int64_t ref,
                       struct bytes message);

/* For a log that is a table of the process's own (ingress's archive), where
 * number and ref are the same and rows stay after they were acknowledged: call
 * once per peer after links_open(); links_put()'s `ref` must then be links_next(). */
void links_own_log(struct links *h, const char *peer, int kind);
uint64_t links_next(struct links *h, const char *peer);
/* For a log whose rows stay after they were acknowledged, until links_floor(): they are
 * sent again to a peer that was restored from an older copy or has lost its database.
 * Call once per peer, after links_open(). */
void links_keep_log(struct links *h, const char *peer);
/* Deletes rows below `floor` from the log (both kinds of log above). Inside a
 * transaction. */
void links_floor(struct links *h, const char *peer, uint64_t floor);
uint64_t links_floor_of(struct links *h, const char *peer);
/* The last number that `peer` has acknowledged. */
uint64_t links_cursor(struct links *h, const char *peer);
/* The lowest `ref` of the rows that `peer` has not acknowledged; INT64_MAX: there are none; 0:
 * there are more than `max`. */
int64_t links_oldest_ref(struct links *h, const char *peer, uint64_t max);
/* From sending a batch to its acknowledgement by `peer`, on average; ms, at least 1.
 * 0: not measured in this start. */
int64_t links_round_trip_ms(const struct links *h, const char *peer);
/* Rows not yet acknowledged by `peer`. */
uint64_t links_backlog(struct links *h, const char *peer);

/* Hold this link's cursor: messages are acknowledged only up to the number that
 * links_settle() names, in the same transaction as the rows that make it so. After a
 * crash the sender sends everything past it again. */
void links_hold(struct links *h, const char *from);
void links_settle(struct links *h, const char *from, uint64_t n);

/* Give a frame of kind batch, acked or epochs to the link, inside the turn's
 * transaction. GR_REFUSE: another kind, or not for us. GR_AGAIN: the rest of
 * this batch is applied in later turns; take no more frames in this one. */
GR_MUST_CHECK gr_rc links_receive(struct links *h, struct bytes frame);
/* Before taking frames: go on with a batch that was kept. GR_AGAIN: still not
 * done; take no frames in this turn. */
GR_MUST_CHECK gr_rc links_resume(struct links *h);
/* During apply(): which start of its sender wrote this message. Only together with
 * it does a number name a message: a sender that was restored from an older copy
 * gives the same numbers again. */
uint64_t links_epoch(const struct links *h);
/* Messages and bytes applied since links_work() was last called. */
int links_taken_count(const struct links *h);
size_t links_taken_bytes(const struct links *h);

/* Last thing inside the transaction: stores the cursors of all links. */
void links_work(struct links *h);
/* After the commit: acknowledgements, batches, questions. Returns how long the
 * loop may sleep, in ms. */
int links_flush(struct links *h);

/* For status and metrics. links_each() iterates: start with *at = 0; false: no more. */
struct link_state {
    const char *peer;
    const char *inbox;   /* where it is reached; "": not known */
    bool out;            /* we send */
    uint64_t window;     /* out: sent and not acknowledged */
    uint64_t next, done; /* out: next number, acknowledged; in: taken, cursor */
    uint64_t lost, rewinds, unprocessable; /* counted since the file was made */
    int64_t heard_ms; /* mono time of the last frame from the peer; 0 */
};
bool links_each(struct links *h, int *at, struct link_state *link);

extern const char proto_links_sql[];

#endif
