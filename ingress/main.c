#include "ingress.h"

/* grapnel-ingress: takes webhooks in over HTTP, checks who sent them, keeps
 * them, and hands them on to the sequencer.
 *
 * Promises  a 200 means that the raw request (all headers, raw body, time,
 *           source) is on disk, fsync done (P1); what is on disk is handed on
 *           until the sequencer has it; a forged or stale request is refused
 *           with one and the same 401, its reason in log and counters (P7)
 * Reads     POST /in/SOURCE, /v1/events and /v1/events/batch; GET and HEAD
 *           /healthz (200: HTTP works; says
 *           when the disk stalls) and /readyz (200: events are accepted);
 *           `acked` from the sequencer
 * Writes    NAME.db: the archive, refused requests; `accepted` to the sequencer
 * Refuses   with 503 and Retry-After: while the disk is below its mark or full,
 *           while what could not be handed on fills archive.max_size, while
 *           stopping, while a write to the disk has not ended for 5 s (those who
 *           wait for it, too, though it may store them), when storing is too late, when the bodies being
 *           read fill their memory. With 4xx what no repetition makes better.
 * Bounds    body, head, number of connections, and time of each request
 * SIGTERM   listens no more, finishes what it has read, hands on what the
 *           sequencer takes now, exits 0
 * kill -9   costs nothing that was answered; a request cut off may be on disk
 *           already, and the provider's repetition is recognised behind us */
int main(int argc, char **argv)
{
    static struct ingress ingress;
    struct daemon_plan plan = ingress_plan;

    plan.self = &ingress;
    plan.metric_values = ingress.counts;
    daemon_start(&ingress.daemon, &plan, argc, argv);
    return daemon_run(&ingress.daemon);
}
