/* main: the deliverer's commands, metrics and callbacks, and its manual. */
#include "deliverer.h"
#include "delivery_trace.h"
#include "result_log.h"
#include "task_messages.h"

static const struct control_command commands[] = {
    {"trace", "id", "attempts of an event here, and what waits",
     delivery_trace_event},
    {"test", "config", "send a test event by this configuration; the exchange",
     probe_ask},
    {0},
};

static const struct metric metrics[] = {
    [METRIC_ATTEMPTS] = {"grapnel_attempts_total", METRIC_COUNTER, "attempts",
                         "requests made to endpoints that have ended"},
    [METRIC_DELIVERED] = {"grapnel_attempts_delivered_total", METRIC_COUNTER,
                          "attempts", "responded 2xx"},
    [METRIC_RETRYING] = {"grapnel_attempts_retrying_total", METRIC_COUNTER,
                         "attempts", "failed; a retry waits"},
    [METRIC_DEAD] = {"grapnel_attempts_dead_total", METRIC_COUNTER, "attempts",
                     "failed for good"},
    [METRIC_RELEASED] = {"grapnel_attempts_released_total", METRIC_COUNTER,
                         "attempts", "broken off, or final elsewhere"},
    [METRIC_IN_FLIGHT] = {"grapnel_in_flight", METRIC_GAUGE, "attempts",
                          "requests that are without a response now"},
    [METRIC_QUEUED] = {"grapnel_queued", METRIC_GAUGE, "tasks",
                       "in memory, waiting for their endpoint's turn"},
    [METRIC_SCHEDULED_RETRIES] = {"grapnel_scheduled_retries", METRIC_GAUGE,
                                  "tasks",
                                  "on disk, waiting for their next try"},
    [METRIC_CONNECTIONS] = {"grapnel_connections_total", METRIC_COUNTER,
                            "connections", "opened"},
    [METRIC_REUSED] = {"grapnel_connections_reused_total", METRIC_COUNTER,
                       "attempts", "that went over a kept connection"},
    [METRIC_REUSE] = {"grapnel_connections_reused_percent", METRIC_GAUGE,
                      "percent", "of all attempts since the start"},
    [METRIC_RESENT] = {"grapnel_attempts_resent_total", METRIC_COUNTER,
                       "attempts",
                       "sent a second time, as a kept connection was dead"},
    [METRIC_OPENED] = {"grapnel_breaker_opened_total", METRIC_COUNTER,
                       "endpoints", "began to fail, and only to fail"},
    [METRIC_OPEN] = {"grapnel_breakers_open", METRIC_GAUGE, "endpoints",
                     "that are asked by one attempt at a time"},
    [METRIC_PROBES] = {"grapnel_probes_total", METRIC_COUNTER, "attempts",
                       "that asked whether such an endpoint is back"},
    [METRIC_PULLED] = {"grapnel_pulled_forward_total", METRIC_COUNTER, "tasks",
                       "scheduled retries that were made early because their "
                       "endpoint is back"},
    [METRIC_GRANTS] = {"grapnel_grants", METRIC_GAUGE, "grants",
                       "held or being given back"},
    [METRIC_CONFIRMED] = {"grapnel_grants_confirmed", METRIC_GAUGE, "grants",
                          "under which attempts may begin"},
    [METRIC_LEASE] = {"grapnel_lease", METRIC_GAUGE, "",
                      "1: the sequencer has responded in time"},
    [METRIC_COUNT] = {0},
};

static const struct links_ops links_ops = {.apply = task_messages_apply,
                                           .load = result_log_load,
                                           .set_back = task_messages_set_back};

static const struct metric_family families[] = {
    [FAMILY_ATTEMPTS] = {.name = "grapnel_endpoint_attempts_total",
                         .kind = METRIC_COUNTER,
                         .unit = "attempts",
                         .help =
                             "requests that have ended: delivered, retrying "
                             "(a retry waits), dead, released",
                         .labels = {"endpoint", "outcome"}},
    [FAMILY_RETRIES] = {.name = "grapnel_endpoint_retries_total",
                        .kind = METRIC_COUNTER,
                        .unit = "attempts",
                        .help = "of these, all but a delivery's first",
                        .labels = {"endpoint", "outcome"}},
    [FAMILY_RETRY_WAIT] = {.name = "grapnel_endpoint_retry_wait_seconds_total",
                           .kind = METRIC_COUNTER,
                           .unit = "seconds",
                           .help = "that retries were told to wait",
                           .labels = {"endpoint"},
                           .per = 1000},
    [FAMILY_ATTEMPT_SECONDS] = {.name = "grapnel_attempt_seconds",
                                .kind = METRIC_HISTOGRAM,
                                .unit = "seconds",
                                .help = "from the begin of an attempt to its "
                                        "end",
                                .labels = {"endpoint"},
                                .per = 1000,
                                .bounds = metric_latency_bounds_ms},
    [FAMILY_BREAKER] = {.name = "grapnel_endpoint_breaker_open",
                        .kind = METRIC_GAUGE,
                        .unit = "",
                        .help =
                            "1: it fails continuously, and gets one attempt "
                            "at a time; said by its owner",
                        .labels = {"endpoint"}},
    [FAMILY_WINDOW] = {.name = "grapnel_endpoint_window",
                       .kind = METRIC_GAUGE,
                       .unit = "attempts",
                       .help = "that may be in flight to it at once; said by "
                               "its owner",
                       .labels = {"endpoint"}},
    [FAMILY_COUNT] = {0},
};

static const struct daemon_plan plan = {
    .process = "deliverer",
    .default_name = "deliverer-1",
    .summary =
        "sends each delivery to its endpoint and retries it as its policy says",
    .schema = &deliverer_schema,
    .links = &links_ops,
    .commands = commands,
    .metrics = metrics,
    .families = families,
    .open = deliverer_open,
    .restored = deliverer_restored,
    .frame = deliverer_frame,
    .work = deliverer_work,
    .meanwhile = deliverer_meanwhile,
    .after_commit = deliverer_after_commit,
    .undo = deliverer_undo,
    .stopped = deliverer_stopped,
    .close = deliverer_close,
    .measure = deliverer_measure,
    .status = deliverer_status};

/* deliverer: tries each delivery until its response is final. The only process
 * that talks to the world.
 *
 * Promises  a task that was acknowledged ends as a result for the sequencer:
 *           delivered, retrying, dead with its reason, or released (P2, P3);
 *           every attempt of an event has the same webhook-id (P4); nothing
 *           that a URL names reaches a private address unless the endpoint's
 *           configuration says so (P8); retries are spread by jitter (P9)
 * Reads     tasks, revoke, dropped from the sequencer's log; heartbeat_ack, granted,
 *           revoked from its inbox
 * Writes    NAME.db; results and released to the sequencer; heartbeats; HTTP requests
 * Refuses   to begin anything without a grant that the sequencer has confirmed
 *           within its lease; to follow redirects; new tasks while its disk is
 *           nearly full
 * kill -9   costs at most one repeated attempt for each that was in flight
 * SIGTERM   begins nothing, waits up to shutdown_grace for responses, gives back
 *           all of its grants, exits 0 */
int main(int argc, char **argv)
{
    static struct deliverer d;
    struct daemon_plan mine = plan;

    mine.self = &d;
    mine.metric_values = d.metrics;
    daemon_start(&d.daemon, &mine, argc, argv);
    return daemon_run(&d.daemon);
}
