#include "deliverer.h"

/* deliverer: tries each delivery until its answer is final. The only process
 * that talks to the world.
 *
 * Promises  a task that was acknowledged ends as a result for the sequencer:
 *           delivered, parked, dead with its reason, or released (P2, P3);
 *           every attempt of an event has the same webhook-id (P4); nothing
 *           that a URL names reaches a private address unless the endpoint's
 *           configuration says so (P8); retries are spread by jitter (P9)
 * Reads     tasks, recalled, dropped from the sequencer's log; pulse, granted,
 *           voided from its inbox
 * Writes    NAME.db; results and drained to the sequencer; beats; HTTP requests
 * Refuses   to begin anything without a grant that the sequencer has confirmed
 *           within its lease; to follow redirects; new tasks while its disk is
 *           nearly full
 * kill -9   costs at most one repeated attempt for each that was in flight
 * SIGTERM   begins nothing, waits up to shutdown_grace for answers, gives back
 *           all of its grants, exits 0 */
int main(int argc, char **argv)
{
    static struct deliverer d;
    struct daemon_plan plan = deliverer_plan;

    plan.self = &d;
    plan.metric_values = d.metrics;
    daemon_start(&d.daemon, &plan, argc, argv);
    return daemon_run(&d.daemon);
}
