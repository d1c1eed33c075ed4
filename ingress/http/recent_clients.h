/* recent_clients: how many of the open connections had a request lately. Pure.
 *
 * Time is cut into spans of a second. A connection counts in each span in which it had a request, until it is closed: neither a
 * client that keeps an idle connection counts, nor the former connections of one that opens a new one for each request. */
#ifndef INGRESS_RECENT_CLIENTS_H
#define INGRESS_RECENT_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>

enum { RECENT_CLIENTS_SPAN_MS = 1000 };

/* Zeroed at first. */
struct recent_clients {
    int64_t span; /* the number of the current one */
    int64_t count,
        before; /* connections with a request in it, and in the one before */
};

/* A connection's own; zeroed at first. */
struct recent_client {
    int64_t span; /* of its last request */
    bool before;  /* it had one in the span before that, too */
};

/* The connection had a request. */
void recent_clients_note(struct recent_clients *r, struct recent_client *c,
                         int64_t mono_ms);
/* The connection is closed. */
void recent_clients_leave(struct recent_clients *r,
                          const struct recent_client *c);
/* Those of the current or the last span, whichever are more. */
int64_t recent_clients_count(const struct recent_clients *r, int64_t mono_ms);

#endif
