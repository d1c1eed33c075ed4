/* reach: which other processes of the pipeline this one reaches. A thread asks again and again, each quarter of takeover_after, but at least each 15 s.
 *
 * A process is reached when it, or one of its instances, accepts a connection: at its address in `cluster.peers`, or on this host at
 * its inbox in run_dir. A standby binds neither, so what accepts is active. Only processes that exchange messages with this one count.
 * Nothing is sent, so a process that hangs counts: the kernel accepts for it. Source: docs/decisions/0126. */
#ifndef DAEMON_REACH_H
#define DAEMON_REACH_H

#include "settings.h"
#include <stdint.h>

struct reach;

/* `name`: of this process. What it needs of the settings is copied. The first round begins at once. */
struct reach *reach_open(const char *name, const struct settings *s);
/* Waits for a round that is under way, at most a second. NULL is allowed. */
void reach_close(struct reach *r);
/* Another configuration is in force: its peers count from the next round on. */
void reach_reload(struct reach *r, const struct settings *s);

struct reach_state {
    int reached; /* processes in the last round that could ask; 0 before the first one */
    /* From the begin of the first round that has reached none until the end of the last one; 0: the last one has reached some, or could not
     * ask, because a descriptor or memory was missing. */
    int64_t none_ms;
};
/* From any thread. */
void reach_state(struct reach *r, struct reach_state *out);
/* How often a round begins, ms. */
int64_t reach_every_ms(int64_t takeover_after_ms);

#endif
