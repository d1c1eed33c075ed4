/* main: the tables of the console: metrics, control commands and callbacks. */
#include "commands.h"
#include "console.h"

static const struct metric metrics[] = {
    [M_FRAMES] = {"grapnel_console_frames_total", METRIC_COUNTER, "frames",
                  "metrics frames that were received and forwarded"},
    [M_FRAMES_INVALID] = {"grapnel_console_frames_invalid_total",
                          METRIC_COUNTER, "frames",
                          "received frames that were not valid metrics frames"},
    [M_SUBSCRIBERS] = {"grapnel_console_subscribers", METRIC_GAUGE, "monitors",
                       "monitors that are connected to metrics.publish"},
    [M_MONITORS_REFUSED] = {"grapnel_console_monitors_refused_total",
                            METRIC_COUNTER, "connections",
                            "connections to metrics.publish that were closed "
                            "because they broke the protocol or its limits"},
    [M_FRAMES_DROPPED] =
        {"grapnel_console_frames_dropped_total", METRIC_COUNTER, "frames",
         "frames that monitors lost because they read too slowly"},
    [M_NOTIFICATIONS_SENT] = {"grapnel_notifications_sent_total",
                              METRIC_COUNTER, "notifications",
                              "notifications that were sent successfully"},
    [M_NOTIFICATIONS_FAILED] = {"grapnel_notifications_failed_total",
                                METRIC_COUNTER, "tries",
                                "failed attempts to send a notification"},
    [M_NOTIFICATIONS_GIVEN_UP] =
        {"grapnel_notifications_given_up_total", METRIC_COUNTER,
         "notifications",
         "notifications that could not be sent for a day and were dropped"},
    [M_NOTIFICATIONS_WAITING] = {"grapnel_notifications_waiting", METRIC_GAUGE,
                                 "notifications",
                                 "notifications that are not sent yet"},
    [M_SPANS_SENT] = {"grapnel_telemetry_spans_sent_total", METRIC_COUNTER,
                      "spans",
                      "spans that the receiver of telemetry.url accepted"},
    [M_SPANS_DROPPED] =
        {"grapnel_telemetry_spans_dropped_total", METRIC_COUNTER, "spans",
         "spans that were refused, or did not fit into the queue, and events "
         "and attempts that came faster than they are read"},
    [M_SPANS_WAITING] = {"grapnel_telemetry_spans_waiting", METRIC_GAUGE,
                         "spans", "spans that are not sent yet"},
    [M_POINTS_SENT] = {"grapnel_telemetry_points_sent_total", METRIC_COUNTER,
                       "points",
                       "values of metrics that the receiver of telemetry.url "
                       "accepted"},
    [M_TELEMETRY_FAILED] = {"grapnel_telemetry_requests_failed_total",
                            METRIC_COUNTER, "requests",
                            "failed requests to telemetry.url"},
    [M_COUNT] = {0},
};

static const struct metric_family families[] = {
    [F_FIRING] = {.name = "grapnel_alerts_firing",
                  .kind = METRIC_GAUGE,
                  .unit = "alerts",
                  .help = "firing alerts, by severity",
                  .labels = {"severity"}},
    [F_SLO_SUCCESS] = {.name = "grapnel_slo_delivery_success_ratio",
                       .kind = METRIC_GAUGE,
                       .unit = "",
                       .help = "share of successful deliveries among those "
                               "that ended in the last hour; goal: 0.999",
                       .per = SLO_PER},
    [F_SLO_P95] = {.name = "grapnel_slo_end_to_end_p95_seconds",
                   .kind = METRIC_GAUGE,
                   .unit = "seconds",
                   .help =
                       "p95 of the time from the HTTP request to the 2xx "
                       "response of the endpoint, in the last hour; goal: 5",
                   .per = SLO_PER},
    [F_SLO_P99] = {.name = "grapnel_slo_end_to_end_p99_seconds",
                   .kind = METRIC_GAUGE,
                   .unit = "seconds",
                   .help = "p99 of the same time",
                   .per = SLO_PER},
    [F_SLO_DEDUPE] =
        {.name = "grapnel_slo_dedupe_hit_ratio",
         .kind = METRIC_GAUGE,
         .unit = "",
         .help = "share of duplicates among the events of the last hour",
         .per = SLO_PER},
    [F_MEAN_RETRIES] =
        {.name = "grapnel_endpoint_mean_retries",
         .kind = METRIC_GAUGE,
         .unit = "retries",
         .help =
             "mean number of retries of a delivery that ended in the last hour",
         .labels = {"endpoint"},
         .per = SLO_PER},
    [F_MEAN_WAIT] = {.name = "grapnel_endpoint_mean_retry_wait_seconds",
                     .kind = METRIC_GAUGE,
                     .unit = "seconds",
                     .help = "mean wait before a retry, in the last hour",
                     .labels = {"endpoint"},
                     .per = SLO_PER},
    [F_RETRY_SUCCESS] = {.name = "grapnel_endpoint_retry_success_ratio",
                         .kind = METRIC_GAUGE,
                         .unit = "",
                         .help =
                             "share of successful retries, in the last hour",
                         .labels = {"endpoint"},
                         .per = SLO_PER},
    [F_MISSING] = {.name = "grapnel_source_missing_events",
                   .kind = METRIC_GAUGE,
                   .unit = "events",
                   .help = "how many events a source would usually have sent "
                           "since its last one; above 20, the alert "
                           "unusual_silence fires",
                   .labels = {"source"},
                   .per = SLO_PER},
    [F_COUNT] = {0},
};

static const struct control_command commands[] = {
    {&command_console_trace, console_ask_trace},
    {&command_alerts, console_ask_alerts},
    {&command_alerts_test, notifications_test},
    {&command_silences, silences_list},
    {&command_alert_silence, silences_begin},
    {&command_alert_unsilence, silences_end},
    {&command_series, console_ask_series},
    {&command_sources, sources_list},
    {&command_source, sources_read},
    {&command_source_test, source_test_ask},
    {&command_endpoint_usual, learned_ask_endpoint},
    {&command_console_link, console_make_link},
    {&command_portal_link, console_portal_link},
    {0},
};

/* The console has no durable link: these tables stay empty. */
static const struct links_ops links_ops = {0};

static const struct daemon_plan plan = {
    .process = "console",
    .default_name = "console",
    .asks_hosts = true,
    .summary = "serves metrics and the management API, and sends alerts",
    .schema = &console_schema,
    .links = &links_ops,
    .commands = commands,
    .metrics = metrics,
    .families = families,
    .open = console_open,
    .work = console_work,
    .after_commit = console_after_commit,
    .undo = console_undo,
    .reload = console_reload,
    .close = console_close,
    .measure = console_measure,
};

/* console: collects the metrics of all processes, serves them to Prometheus, evaluates alert
 * rules and notifies, and serves the management API. Delivery never depends on it.
 *
 * Promises  nothing that an event depends on; alerts and unsent notifications survive
 *           a restart
 * Reads     the PUB sockets of all processes in run_dir; dlqd's dead letters, over its
 *           control socket; for the management API, all control sockets; those of
 *           processes on other hosts, for which it binds sockets in run_dir (proxy.h)
 * Writes    console.db; metrics.publish; HTTP on console.listen; notifiers
 * Refuses   notifiers at private addresses, unless allowed (P8); alerts over
 *           HTTP without a token
 * kill -9   loses the rates of the last windows; may send a notification a second
 *           time, with the same id
 * Exits     64 usage, 69 locked or an address taken, 74 storage, 78
 *           configuration */
int main(int argc, char **argv)
{
    static struct console c;
    struct daemon_plan mine = plan;

    mine.self = &c;
    mine.metric_values = c.metrics;
    daemon_start(&c.daemon, &mine, argc, argv);
    return daemon_run(&c.daemon);
}
