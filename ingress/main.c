/* grapnel-ingress: the process that receives webhooks over HTTP, verifies and stores them, and
 * sends them to the sequencer. Its metrics, control commands and callbacks.
 *
 * Promises  a 200 means that the raw request (all headers, raw body, time, source) is on disk,
 *           fsync done (P1); a stored request is sent until the sequencer has it; a forged or
 *           stale request gets one and the same 401, its reason is in log and counters (P7)
 * Reads     POST /in/SOURCE, /v1/events and /v1/events/batch; GET and HEAD /healthz (200: HTTP
 *           works; says when the disk stalls) and /readyz (200: events are accepted); `acked`
 *           from the sequencer
 * Writes    NAME.db: the archive, refused requests; `accepted` to the sequencer
 * Refuses   with 503 and Retry-After: while little disk space is free, while unprocessed
 *           requests fill archive.max_size, while stopping, while a write to the disk has not
 *           ended for 5 s (also requests that wait for it, though it may store them), when a
 *           request waited too long to be stored, when bodies fill their memory. With 4xx
 *           requests that would fail again if they were repeated.
 * Limits    body, head, number of connections, and time of each request
 * SIGTERM   stops listening, completes the requests it has read, sends what the sequencer
 *           accepts now, exits 0
 * kill -9   loses no request that had its response; an interrupted request may be on disk
 *           already, and the sequencer recognises the provider's repetition of it */
#include "commands.h"
#include "ingress.h"
#include "reject_explain.h"
#include "rejects.h"
#include "rejects_erase.h"
#include "replay_job.h"
#include "request_trace.h"
#include "resend.h"
#include "show_request.h"

static const struct metric metrics[COUNT_COUNT + 1] = {
#define C(NAME, name, kind, unit, help) \
    {"grapnel_ingress_" name, kind, unit, help},
    COUNTS(C)
#undef C
#define A(NAME, status, code, reason, message, retry_after_s, close)           \
    {"grapnel_ingress_responses_" reason "_total", METRIC_COUNTER, "requests", \
     "responses with status " #status " and reason " reason},
        RESPONSES(A)
#undef A
            {0},
};

static const struct metric_family families[FAMILY_COUNT + 1] = {
    [FAMILY_REJECTED] = {.name = "grapnel_ingress_rejected_total",
                         .kind = METRIC_COUNTER,
                         .unit = "requests",
                         .help = "refused requests, by source (empty for an "
                                 "unknown one) and reason",
                         .labels = {"source", "reason"}},
    [FAMILY_ACCEPTED] = {.name = "grapnel_ingress_source_accepted_total",
                         .kind = METRIC_COUNTER,
                         .unit = "events",
                         .help = "accepted events, by source",
                         .labels = {"source"}},
    [FAMILY_LAST] = {.name = "grapnel_ingress_source_last_event_seconds",
                     .kind = METRIC_GAUGE,
                     .unit = "seconds",
                     .help = "time of the last accepted event, in seconds "
                             "since 1970, by source. After a start, sources "
                             "are missing whose last event is not among the "
                             "2000 newest",
                     .labels = {"source"},
                     .per = 1000},
    [FAMILY_OLDEST] = {.name = "grapnel_ingress_backlog_oldest_seconds",
                       .kind = METRIC_GAUGE,
                       .unit = "seconds",
                       .help = "age of the oldest event that the sequencer has "
                               "not processed; 0: there is none",
                       .per = 1000},
    [FAMILY_COUNT] = {0},
};

static const struct control_command commands[] = {
    {&command_find, trace_find},
    {&command_request_trace, trace_event},
    {&command_request, show_request},
    {&command_reject, show_reject},
    {&command_rejects, rejects_show},
    {&command_reject_explain, reject_explain},
    {&command_archive, replay_archive},
    {&command_resend, replay_resend},
    {&command_replay, replay_job_make},
    {0},
};

static const struct links_ops links_ops = {.load = ingress_load};

static const struct daemon_plan plan = {
    .process = "ingress",
    .default_name = "ingress",
    .summary = "receives webhooks over HTTP and stores them",
    .replicated = true,
    .schema = &ingress_schema,
    .links = &links_ops,
    .commands = commands,
    .jobs = replay_jobs,
    .metrics = metrics,
    .families = families,
    .open = ingress_open,
    .frame = ingress_frame,
    .work = ingress_work,
    .after_commit = ingress_after_commit,
    .meanwhile = ingress_meanwhile,
    .stands_in = true,
    .undo = ingress_undo,
    .reload = ingress_reload,
    .stopped = ingress_stopped,
    .close = ingress_close,
    .measure = ingress_measure,
    .state = ingress_state,
    .erase = ingress_erase,
};

int main(int argc, char **argv)
{
    static struct ingress ingress;
    struct daemon_plan mine = plan;

    ingress.archive.daemon = &ingress.daemon;
    mine.self = &ingress;
    mine.metric_values = ingress.counts;
    daemon_start(&ingress.daemon, &mine, argc, argv);
    return daemon_run(&ingress.daemon);
}
