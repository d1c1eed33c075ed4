/* recent_clients: how many connections had a request lately. Pure.
 *
 * Time is cut into spans of a second. A connection counts in each span in which it had a request, so a client that
 * keeps an idle connection does not. */
#ifndef INGRESS_RECENT_CLIENTS_H
#define INGRESS_RECENT_CLIENTS_H

#include <stdint.h>

enum { RECENT_CLIENTS_SPAN_MS = 1000 };

/* Zeroed at first. */
struct recent_clients {
    int64_t span; /* the number of the current one */
    int64_t count,
        before; /* connections with a request in it, and in the one before */
};

/* A connection had a request; `*seen` is the connection's own, zeroed at first. */
void recent_clients_note(struct recent_clients *r, int64_t *seen,
                         int64_t mono_ms);
/* Those of the current or the last span, whichever are more: 1 to 2 seconds. */
int64_t recent_clients_count(const struct recent_clients *r, int64_t mono_ms);

#endif
