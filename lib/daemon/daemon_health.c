/* daemon_health: one line about the state of a process. */
#include "daemon_health.h"
#include "clock.h"
#include "daemon.h"
#include "manager.h"
#include <stdio.h>
#include <unistd.h>

enum {
    /* While the disk is full, the process tries to write every 250 ms, so a turn that was
     * rolled back longer ago says nothing about now. */
    FULL_MS = 5 * 1000,
    LINE_MAX = 200,
};

struct health {
    bool ready;
    const char *state; /* static */
    int64_t waiting;   /* messages that other processes do not have yet */
};

static int64_t waiting(struct daemon *d)
{
    struct link_state l;
    int64_t n = 0;
    int at = 0;

    while (links_each(d->links, &at, &l))
        if (l.out)
            n += (int64_t)(l.next - 1 - l.done);
    return n;
}

static struct health health(struct daemon *d)
{
    struct health h = {.ready = true, .state = "running"};

    h.waiting = waiting(d);
    if (d->plan->state)
        h.state = d->plan->state(d->plan->self, &h.ready);
    if (d->loop.stopping)
        h = (struct health){.state = "stopping", .waiting = h.waiting};
    else if (h.ready && d->full_ms && mono_ms() - d->full_ms < FULL_MS)
        h = (struct health){.state = "the disk is full; nothing can be stored",
                            .waiting = h.waiting};
    return h;
}

json_t *daemon_health_ask(void *daemon, json_t *args, char why[200])
{
    struct daemon *d = daemon;
    struct health h = health(d);

    (void)args;
    (void)why;
    return json_pack("{s:s,s:s,s:i,s:b,s:s,s:I}", "process", d->name, "version",
                     GRAPNEL_VERSION, "pid", (int)getpid(), "ready",
                     (int)h.ready, "state", h.state, "waiting",
                     (json_int_t)h.waiting);
}

void daemon_health_full(struct daemon *d)
{
    d->full_ms = mono_ms();
}

int daemon_health_turn(struct daemon *d)
{
    char line[LINE_MAX];
    struct health h;

    if (d->loop.stopping)
        manager_stopping(d->settings->shutdown_grace_ms);
    if (manager_status_is_due(d->loop.mono_ms)) {
        h = health(d);
        snprintf(line, sizeof line, "%s; %lld waiting", h.state,
                 (long long)h.waiting);
        manager_status(line, d->loop.mono_ms);
    }
    return manager_turn(d->loop.mono_ms);
}
