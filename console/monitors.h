/* monitors: publishes frames to the monitors that are connected to metrics.publish.
 *
 * Monitors are ZeroMQ SUB sockets. This is the publisher's side of ZMTP 3.0 (RFC 23 of
 * rfc.zeromq.org: NULL mechanism, messages of one part) over plain sockets. libzmq's PUB and
 * XPUB cannot be limited: they store each byte of each subscription in a node of a tree, and
 * read as long as data comes (docs/decisions/0054).
 *
 * Limits: see the enum. A monitor that reads too slowly loses frames. A monitor is closed if
 * it breaks the protocol or exceeds a limit, or if for 30 s it has no subscription or reads
 * nothing. When nearly all connections are in use, the one that has waited longest is closed
 * (waiters.h). */
#ifndef CONSOLE_MONITORS_H
#define CONSOLE_MONITORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MONITORS_MAX = 256,      /* connections */
    MONITOR_TOPICS_MAX = 16, /* subscriptions of one of them */
    MONITOR_TOPIC_MAX_BYTES = 64,
    MONITOR_QUEUE_MAX_BYTES = 4 * 1024 * 1024,   /* queued for one monitor */
    MONITORS_QUEUE_MAX_BYTES = 64 * 1024 * 1024, /* queued for all monitors */
};

struct monitors;

/* `address`: "tcp://HOST:PORT" (HOST may be "*") or "ipc://PATH". Exits 69 with the reason
 * if it cannot listen there. */
struct monitors *monitors_open(const char *address);
void monitors_close(struct monitors *m);
int monitors_fd(const struct monitors *m); /* for the loop */

/* Accept, read, write. Returns how long the loop may sleep, in ms; -1: until a socket is
 * ready. */
int monitors_run(struct monitors *m, int64_t mono_ms);
/* Send a copy of the frame to each monitor that has subscribed to a prefix of it. */
void monitors_send(struct monitors *m, const void *p, size_t n);

/* Monitors with a subscription. */
int64_t monitors_subscribed(const struct monitors *m);
/* Monitors closed for breaking the protocol or a limit, since the start. */
int64_t monitors_refused(const struct monitors *m);
/* Frames dropped because the queue of a monitor was full, since the start. */
int64_t monitors_dropped(const struct monitors *m);

#endif
