/* main: the deliverer's commands, metrics and callbacks. */
#include "commands.h"
#include "deliverer.h"
#include "delivery_trace.h"
#include "result_log.h"
#include "task_messages.h"

static const struct control_command commands[] = {
    {&command_attempts, delivery_trace_event},
    {&command_recent_attempts, delivery_trace_recent},
    {&command_test, endpoint_test_ask},
    {&command_throttle, deliverer_throttle},
    {&command_pull_take, pull_take},
    {&command_pull_ack, pull_ack},
    {&command_pull_retry, pull_retry},
    {&command_pull_dead, pull_dead},
    {0},
};

static const struct metric metrics[] = {
    [METRIC_ATTEMPTS] = {"grapnel_attempts_total", METRIC_COUNTER, "attempts",
                         "attempts that have ended"},
    [METRIC_DELIVERED] = {"grapnel_attempts_delivered_total", METRIC_COUNTER,
                          "attempts", "attempts with a 2xx response"},
    [METRIC_RETRYING] = {"grapnel_attempts_retrying_total", METRIC_COUNTER,
                         "attempts",
                         "failed attempts after which a retry was scheduled"},
    [METRIC_DEAD] = {"grapnel_attempts_dead_total", METRIC_COUNTER, "attempts",
                     "attempts that failed for good"},
    [METRIC_RELEASED] =
        {"grapnel_attempts_released_total", METRIC_COUNTER, "attempts",
         "attempts that were aborted, or whose delivery ended elsewhere"},
    [METRIC_IN_FLIGHT] = {"grapnel_in_flight", METRIC_GAUGE, "attempts",
                          "attempts in progress"},
    [METRIC_QUEUED] = {"grapnel_queued", METRIC_GAUGE, "tasks",
                       "tasks in memory that are ready to be attempted"},
    [METRIC_SCHEDULED_RETRIES] =
        {"grapnel_scheduled_retries", METRIC_GAUGE, "tasks",
         "tasks on disk that wait for their next attempt"},
    [METRIC_CONNECTIONS] = {"grapnel_connections_total", METRIC_COUNTER,
                            "connections", "connections that were opened"},
    [METRIC_REUSED] = {"grapnel_connections_reused_total", METRIC_COUNTER,
                       "attempts", "attempts that used an open connection"},
    [METRIC_REUSE] =
        {"grapnel_connections_reused_percent", METRIC_GAUGE, "percent",
         "share of all attempts since the start that used an open connection"},
    [METRIC_RESENT] = {"grapnel_attempts_resent_total", METRIC_COUNTER,
                       "attempts",
                       "attempts whose request was sent a second time, because "
                       "an open connection was dead"},
    [METRIC_OPENED] = {"grapnel_breaker_opened_total", METRIC_COUNTER,
                       "endpoints",
                       "how often the circuit breaker of an endpoint opened"},
    [METRIC_OPEN] = {"grapnel_breakers_open", METRIC_GAUGE, "endpoints",
                     "endpoints with an open circuit breaker, which get one "
                     "attempt at a time"},
    [METRIC_PROBES] =
        {"grapnel_probes_total", METRIC_COUNTER, "attempts",
         "attempts that probed an endpoint with an open circuit breaker"},
    [METRIC_PULLED] = {"grapnel_pulled_forward_total", METRIC_COUNTER, "tasks",
                       "scheduled retries that were made early, because their "
                       "endpoint works again"},
    [METRIC_GRANTS] = {"grapnel_grants", METRIC_GAUGE, "grants",
                       "grants that the deliverer holds or is releasing"},
    [METRIC_CONFIRMED] = {"grapnel_grants_confirmed", METRIC_GAUGE, "grants",
                          "grants under which attempts may begin"},
    [METRIC_LEASE] =
        {"grapnel_lease", METRIC_GAUGE, "",
         "1: the sequencer acknowledged a heartbeat within the lease"},
    [METRIC_TAKEN] = {"grapnel_taken", METRIC_GAUGE, "deliveries",
                      "deliveries of pull endpoints that consumers have taken "
                      "and not ended"},
    [METRIC_TAKES_WAITING] = {"grapnel_takes_waiting", METRIC_GAUGE, "requests",
                              "requests to take deliveries that wait because "
                              "there is none"},
    [METRIC_COUNT] = {0},
};

static const struct links_ops links_ops = {.apply = task_messages_apply,
                                           .load = result_log_load,
                                           .rewound = task_messages_rewound};

static const struct metric_family families[] = {
    [FAMILY_ATTEMPTS] = {.name = "grapnel_endpoint_attempts_total",
                         .kind = METRIC_COUNTER,
                         .unit = "attempts",
                         .help =
                             "attempts that have ended, by outcome: delivered, "
                             "retrying (a retry is scheduled), dead, released",
                         .labels = {"endpoint", "outcome"}},
    [FAMILY_RESPONSES] = {.name = "grapnel_endpoint_responses_total",
                          .kind = METRIC_COUNTER,
                          .unit = "attempts",
                          .help = "attempts that have ended, by class of the "
                                  "response's status: 2xx, 3xx, 4xx, 5xx, or "
                                  "none (there was no response)",
                          .labels = {"endpoint", "class"}},
    [FAMILY_RETRIES] = {.name = "grapnel_endpoint_retries_total",
                        .kind = METRIC_COUNTER,
                        .unit = "attempts",
                        .help = "attempts that have ended and were not the "
                                "first of their delivery, by outcome",
                        .labels = {"endpoint", "outcome"}},
    [FAMILY_RETRY_WAIT] = {.name = "grapnel_endpoint_retry_wait_seconds_total",
                           .kind = METRIC_COUNTER,
                           .unit = "seconds",
                           .help = "sum of the waits of all scheduled retries",
                           .labels = {"endpoint"},
                           .per = 1000},
    [FAMILY_ATTEMPT_SECONDS] = {.name = "grapnel_attempt_seconds",
                                .kind = METRIC_HISTOGRAM,
                                .unit = "seconds",
                                .help = "duration of an attempt",
                                .labels = {"endpoint"},
                                .per = 1000,
                                .bounds = metric_latency_bounds_ms},
    [FAMILY_BREAKER] = {.name = "grapnel_endpoint_breaker_open",
                        .kind = METRIC_GAUGE,
                        .unit = "",
                        .help =
                            "1: the circuit breaker is open; the endpoint "
                            "fails continuously and gets one attempt at a time",
                        .labels = {"endpoint"}},
    [FAMILY_WINDOW] = {.name = "grapnel_endpoint_window",
                       .kind = METRIC_GAUGE,
                       .unit = "attempts",
                       .help =
                           "attempts that may be in progress at the same time",
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
    .status = deliverer_status,
    .erase = deliverer_erase};

/* deliverer: attempts each delivery until its outcome is final. It is the only process that
 * sends events to endpoints.
 *
 * Promises  a task that was acknowledged ends as a result for the sequencer: delivered,
 *           retrying, dead with its reason, or released (P2, P3); all attempts of an event
 *           have the same webhook-id (P4); no request reaches a private address unless the
 *           endpoint's configuration permits it (P8); retries are spread by jitter (P9)
 * Reads     tasks, revoke, dropped, retry_now and check from the sequencer's log;
 *           heartbeat_ack, granted, revoked from its inbox
 * Writes    NAME.db; results, released and missing to the sequencer; heartbeats; requests
 * Refuses   to begin an attempt without a grant that the sequencer has confirmed within
 *           its lease; to follow redirects; new tasks while its disk is nearly full
 * kill -9   costs at most one repeated attempt for each that was in flight
 * SIGTERM   begins no attempts, waits up to shutdown_grace for responses, releases all of
 *           its grants, exits 0 */
int main(int argc, char **argv)
{
    static struct deliverer d;
    struct daemon_plan mine = plan;

    mine.self = &d;
    mine.metric_values = d.metrics;
    daemon_start(&d.daemon, &mine, argc, argv);
    return daemon_run(&d.daemon);
}
