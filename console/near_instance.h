/* near_instance: the process of this host that has the sockets of a name in run_dir: the active instance, or a former one that
 * hangs. It is asked only while an instance on another host can be reached, too. Used in the thread of proxy.c only. */
#ifndef CONSOLE_NEAR_INSTANCE_H
#define CONSOLE_NEAR_INSTANCE_H

#include "active.h"
#include <czmq.h>

struct near_instance {
    struct candidate state;
    /* near_instance.c's */
    zsock_t *socket; /* DEALER to its control socket; NULL: it is not asked */
    uint64_t file;   /* of that control socket */
    int64_t
        pinged; /* the round of the ping without a reply; 0: there is none */
};

/* Looks whether a process listens. `ask`: it will be asked. */
void near_instance_look(struct near_instance *n, const char *run_dir,
                        const char *name, bool ask, int64_t round);
void near_instance_close(struct near_instance *n);
/* A ping of this round, unless one is open. */
void near_instance_ping(struct near_instance *n, int64_t round);
void near_instance_take(struct near_instance *n);

#endif
