/* monitors: the connections at metrics.publish, and the frames sent to them.
 *
 * Monitors are ZeroMQ SUB sockets; this is the publisher's side of ZMTP 3.0
 * (RFC 23 of rfc.zeromq.org: NULL mechanism, messages of one part) over our own
 * sockets. libzmq's PUB and XPUB can't be bounded: they keep each byte of each
 * subscription in a node of a tree, and read while anything comes
 * (docs/decisions/0054).
 *
 * Bounds: see the enum. A monitor that reads too slowly loses frames; one that
 * breaks the protocol or a bound is closed, and so is one that has not subscribed
 * to anything, or does not read at all, for 30 s. When nearly all connections are
 * taken the one that has kept us waiting longest is closed (waiters.h). */
#ifndef CONSOLE_MONITORS_H
#define CONSOLE_MONITORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MONITORS_MAX = 256,      /* connections */
    MONITOR_TOPICS_MAX = 16, /* subscriptions of one of them */
    MONITOR_TOPIC_MAX_BYTES = 64,
    MONITOR_QUEUE_MAX_BYTES = 4 * 1024 * 1024,   /* not yet sent to one */
    MONITORS_QUEUE_MAX_BYTES = 64 * 1024 * 1024, /* to all of them */
};

struct monitors;

/* `address`: "tcp://HOST:PORT" (HOST may be "*") or "ipc://PATH". Exits 69 with
 * the reason when it can't listen there. */
struct monitors *monitors_open(const char *address);
void monitors_close(struct monitors *m);
int monitors_fd(const struct monitors *m); /* for the loop */

/* Accept, read, write. Returns how long the loop may sleep, in ms; -1: until
 * something comes. */
int monitors_run(struct monitors *m, int64_t mono_ms);
/* Send a frame, which is copied, to each that has subscribed to a prefix of it. */
void monitors_send(struct monitors *m, const void *p, size_t n);

/* Those that are subscribed to anything. */
int64_t monitors_subscribed(const struct monitors *m);
/* Closed for a broken protocol or bound, so far. */
int64_t monitors_refused(const struct monitors *m);
/* Frames that were not sent to a monitor whose queue was full, so far. */
int64_t monitors_dropped(const struct monitors *m);

#endif
