#include "console.h"

/* console: reads what all others say of themselves. Delivery never needs it.
 *
 * Promises  nothing that an event depends on; what it told or has still to tell
 *           of alerts survives its restarts
 * Reads     the PUB sockets of all processes in run_dir; dlqd's deaths, over its
 *           control socket
 * Writes    console.db; metrics.publish; HTTP on console.listen; notifiers
 * Refuses   notifiers at private addresses, unless allowed (P8); alerts over
 *           HTTP without a token
 * kill -9   costs the rates of the last windows; a notification may be told a
 *           second time, with the same id
 * Exits     64 usage, 69 locked or an address taken, 74 storage, 78
 *           configuration */
int main(int argc, char **argv)
{
    static struct console c;
    struct daemon_plan plan = console_plan;

    plan.self = &c;
    plan.metric_values = c.metrics;
    daemon_start(&c.daemon, &plan, argc, argv);
    return daemon_run(&c.daemon);
}
