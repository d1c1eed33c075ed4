/* hop: the durable hop, the one protocol by which anything that matters goes
 * from one process to another: stored, sent, acknowledged.
 * docs/ARCHITECTURE.md tells it; tests/model/hop.pml is its specification.
 *
 * One `struct hop` per process holds all links, out and in. Its tables (hop.sql)
 * live in the process's own database, so that a message and the change that
 * caused it, or that it causes, are one transaction. */
#ifndef PROTO_HOP_H
#define PROTO_HOP_H

#include "alloc.h"
#include "db.h"
#include "mailbox.h"
#include "rc.h"

struct hop;

/* What the process does with the hop. `self` comes from hop_open(). */
struct hop_ops {
    /* Inside the turn's transaction: take one message of link `from`. GR_REFUSE:
     * it can't be applied; it is set aside with its bytes, and the link goes
     * on. But a message of another version of Grapnel waits at its sender. GR_AGAIN: not now (no room); nothing was changed, and it comes again
     * by itself. `n` is its number; never use it as an identity. */
    gr_rc (*apply)(void *self, const char *from, uint64_t n, struct bytes msg);

    /* Outside of a transaction: append the message behind row n (kind, ref)
     * of our log to `peer`. false: that row is gone; the number is sent as an
     * empty message, which the receiver skips. NULL: we send nothing. */
    bool (*load)(void *self, const char *peer, uint64_t n, int kind,
                 int64_t ref, struct buf *out);

    /* This link was set back: one end came back from an older copy. Loud
     * already; here the process does what its work needs. On a held link, what
     * was taken up to the link's `next` (hop_links) does not come again: write it
     * here. Numbers taken past that are void: settle none of them. `we_are_older`:
     * the peer has rows of ours that we have not. Inside the turn's transaction.
     * May be NULL. */
    void (*set_back)(void *self, const char *peer, bool we_are_older);

    /* Messages from this peer are applied before those of others: it is told to send
     * them to the priority inbox, if the process has one (mailbox.h). Acknowledgements
     * of what we sent come there from every peer. May be NULL. */
    bool (*urgent)(void *self, const char *peer);
};

/* Reads its state from `db` (the schema must contain proto_hop_sql). Begins a
 * new run, whose 64 random bits are `run`; nothing leaves before the first
 * commit. */
struct hop *hop_open(struct db *db, struct mailbox *mailbox,
                     const struct hop_ops *ops, uint64_t run, void *self);
void hop_close(struct hop *h);
/* On an orderly stop, inside the last transaction: the next start need not
 * suspect any message. */
void hop_stopped(struct hop *h);
/* Inside a transaction, after hop_open(), when the database is a copy: which message
 * was being tried at a crash is of another time. (Every start has its own epoch
 * anyway.) */
void hop_restored(struct hop *h);
/* After a rolled back turn: memory again as the disk has it. */
void hop_undo(struct hop *h);

/* Append to the log of the link to `peer` (made on first use), inside the
 * turn's transaction. Leaves after the commit. */
void hop_put(struct hop *h, const char *peer, int kind, int64_t ref);

/* For a log that is a table of the process's own (ingress's archive), where
 * number and ref are the same and rows stay after they were acknowledged: call
 * once per peer after hop_open(); hop_put()'s `ref` must then be hop_next(). */
void hop_own_log(struct hop *h, const char *peer, int kind);
uint64_t hop_next(struct hop *h, const char *peer);
/* For a log whose rows stay after they were acknowledged, until hop_floor(): a peer
 * that comes back from an older copy, or without its database, gets them again. Call
 * once per peer, after hop_open(). */
void hop_keep_log(struct hop *h, const char *peer);
/* Rows below `floor` are held no more (both kinds of log above). Inside a
 * transaction. */
void hop_floor(struct hop *h, const char *peer, uint64_t floor);
uint64_t hop_floor_of(struct hop *h, const char *peer);
/* The last number that `peer` has acknowledged. */
uint64_t hop_cursor(struct hop *h, const char *peer);
/* From sending a batch to hearing that `peer` has taken it, on average; ms, at least 1.
 * 0: not measured in this start. */
int64_t hop_round_trip_ms(const struct hop *h, const char *peer);
/* Rows not yet acknowledged by `peer`. */
uint64_t hop_backlog(struct hop *h, const char *peer);

/* Hold this link's place: what is taken is acknowledged only up to the number
 * that hop_settle() names, in the same transaction as the rows that make it
 * so. After a crash everything past it comes again. */
void hop_hold(struct hop *h, const char *from);
void hop_settle(struct hop *h, const char *from, uint64_t n);

/* Give a frame of kind batch, acked or runs to the hop, inside the turn's
 * transaction. GR_REFUSE: another kind, or not for us. GR_AGAIN: the rest of
 * this batch is applied in later turns; take no more frames in this one. */
GR_MUST_CHECK gr_rc hop_receive(struct hop *h, struct bytes frame);
/* Before taking frames: go on with a batch that was kept. GR_AGAIN: still not
 * done; take no frames in this turn. */
GR_MUST_CHECK gr_rc hop_resume(struct hop *h);
/* During apply(): which start of its sender wrote this message. Only together with
 * it does a number name a message: a sender that was restored from an older copy
 * gives the same numbers again. */
uint64_t hop_epoch(const struct hop *h);
/* Messages and bytes applied since hop_work() was last called. */
int hop_taken_count(const struct hop *h);
size_t hop_taken_bytes(const struct hop *h);

/* Last thing inside the transaction: places and cursors as rows. */
void hop_work(struct hop *h);
/* After the commit: acknowledgements, batches, questions. Returns how long the
 * loop may sleep, in ms. */
int hop_tell(struct hop *h);

/* For status and metrics. `next_link` walks: start with *at = 0. */
struct hop_link {
    const char *peer;
    const char *inbox;   /* where it is reached; "": not known */
    bool out;            /* we send */
    uint64_t window;     /* out: sent and not acknowledged */
    uint64_t next, done; /* out: next number, acknowledged; in: taken, place */
    uint64_t lost, set_back,
        unprocessable; /* counted since the file was made */
    int64_t heard_ms;  /* mono time of the last frame from the peer; 0 */
};
bool hop_links(struct hop *h, int *at, struct hop_link *link);

extern const char proto_hop_sql[];

#endif
