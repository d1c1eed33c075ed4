/* instance: the connection to one place of a process on another host, where it runs or may run. Used in the thread of
 * proxy.c only. */
#ifndef CONSOLE_INSTANCE_H
#define CONSOLE_INSTANCE_H

#include "active.h"
#include "bounds.h"
#include "cluster.h"
#include <czmq.h>

enum {
    ATTEMPTS_MAX = 4
}; /* two keys, and an old connection of each that ends */

struct instance {
    char host[NAME_MAX_BYTES + 1]; /* ""; the name has one place */
    char *route;                   /* cluster_place() */
    struct candidate state;        /* proxied.c's, but for `open` */

    /* instance.c's */
    zsock_t *far;    /* DEALER, connected */
    zsock_t *events; /* of the connection */
    struct attempt {
        int32_t fd;
        bool may_be_it;       /* its handshake may be the one that succeeded */
    } attempts[ATTEMPTS_MAX]; /* open connections */
    int attempt_count;
    uint64_t ping;  /* the number of a ping without a reply; 0: there is none */
    int64_t pinged; /* its round */
};

/* Takes `route` over, and connects along it. `name` is that of the process. */
void instance_open(struct instance *i, const char *name, const char *host,
                   char *route, struct cluster *cluster);
void instance_close(struct instance *i);

/* For people: "tcp://ADDRESS", or "HOST at tcp://ADDRESS". The caller frees it. */
char *instance_where(const struct instance *i);
/* For NAME.host: "ADDRESS", or "HOST (ADDRESS)". */
void instance_put_place(const struct instance *i, struct buf *out);
/* false: it cannot be sent now. */
bool instance_send(struct instance *i, uint64_t number, const void *text,
                   size_t n);
bool instance_wants_metrics(struct instance *i);
/* A ping of this round, unless one is open. */
void instance_ping(struct instance *i, uint64_t number, int64_t round);
/* Whether it is the reply to the ping. */
bool instance_ponged(struct instance *i, uint64_t number, struct bytes text);
/* Whether a reply to a ping shows that the process is active; one that waits for the log of its store gives an error. */
bool instance_is_active(struct bytes text);

enum instance_change { INSTANCE_SAME, INSTANCE_CONNECTED, INSTANCE_ENDED };
/* What one event of the connection changed in `state.open`. */
enum instance_change instance_take_event(struct instance *i, zframe_t *frame);

#endif
