/* proxied: one process on another host: its sockets in run_dir, the connection to it, and the requests that wait for
 * its replies. Used in the thread of proxy.c only. */
#ifndef CONSOLE_PROXIED_H
#define CONSOLE_PROXIED_H

#include "bounds.h"
#include "cluster.h"
#include <sys/queue.h>
#include <zmq.h>

enum {
    ATTEMPTS_MAX = 4
}; /* two keys, and an old connection of each that ends */

struct proxied {
    TAILQ_ENTRY(proxied) link;
    char name[NAME_MAX_BYTES + 1];
    char *route; /* cluster_route() */
    bool wanted; /* proxy.c's */

    /* proxied.c's */
    char *run_dir;
    zsock_t *control, *metrics; /* in run_dir */
    zsock_t *far;               /* DEALER, connected */
    zsock_t *events;            /* of the connection */
    struct attempt {
        int32_t fd;
        bool may_be_it;       /* its handshake may be the one that succeeded */
    } attempts[ATTEMPTS_MAX]; /* open connections */
    int attempt_count;
    int connections; /* how many sockets there were */
    int key_number;  /* cluster_key_number() at the last one */
    bool connected;
    int64_t since_ms; /* mono: of `connected` */
    int64_t asked_ms; /* mono: when its metrics were asked for */
    uint64_t last;    /* number of a request */
    int waiting_count;
    TAILQ_HEAD(, proxied_request) waiting; /* oldest first */
};

/* NULL: the sockets cannot be bound, and the log says why. Takes `route` over. */
struct proxied *proxied_open(const char *run_dir, const char *name,
                             struct cluster *cluster, char *route);
/* Its address or key is another one, or that of this process. Takes `route` over. */
void proxied_reroute(struct proxied *p, struct cluster *cluster, char *route);
/* `removed`: the configuration no longer has it, so NAME.host is removed, too. */
void proxied_close(struct proxied *p, bool removed);

enum { PROXIED_SOCKETS = 3 };
/* What to wait for. */
void proxied_items(const struct proxied *p,
                   zmq_pollitem_t items[PROXIED_SOCKETS]);
/* Takes what has come, and does what is due. */
void proxied_work(struct proxied *p);

#endif
