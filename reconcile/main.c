/* grapnel-reconcile: the process that compares what has arrived with the lists of the providers, and takes in
 * what never arrived. Its metrics, control commands and callbacks.
 *
 * Promises  an event that the provider lists, that is older than `grace` and that the sequencer has never had
 *           becomes one event, whatever is killed; an event that has arrived becomes none
 * Reads     the lists of sources with `reconcile`, over HTTPS, page by page; `acked` from the sequencer, and
 *           which of the listed events it has had
 * Writes    NAME.db: the archive, and how far each list was read; `accepted` to the sequencer
 * Refuses   to read: while little disk space is free, while unprocessed events fill
 *           ingress.archive.max_size, while 50,000 events wait for the sequencer
 * Limits    bytes, events and time of a page, pages of a run and of a walk; one request at a time for each source
 * SIGTERM   ends the requests, exits 0
 * kill -9   a page that was not committed is read again, and its events are recognised */
#include "commands.h"
#include "reconcile.h"
#include "replay_job.h"
#include "request_trace.h"
#include "resend.h"
#include "show_request.h"
#include <curl/curl.h>

static const struct metric metrics[COUNT_COUNT + 1] = {
#define C(NAME, name, kind, unit, help) \
    {"grapnel_reconcile_" name, kind, unit, help},
    COUNTS(C)
#undef C
        {0},
};

static const struct metric_family families[FAMILY_COUNT + 1] = {
    [FAMILY_LISTED] = {.name = "grapnel_reconcile_listed_total",
                       .kind = METRIC_COUNTER,
                       .unit = "events",
                       .help = "events that providers listed and that were "
                               "compared, by source",
                       .labels = {"source"}},
    [FAMILY_FOUND] = {.name = "grapnel_reconcile_found_total",
                      .kind = METRIC_COUNTER,
                      .unit = "events",
                      .help = "events that never arrived and were taken from "
                              "the list, by source",
                      .labels = {"source"}},
    [FAMILY_SKIPPED] = {.name = "grapnel_reconcile_skipped_total",
                        .kind = METRIC_COUNTER,
                        .unit = "events",
                        .help = "events that never arrived and could not be "
                                "taken in, by source",
                        .labels = {"source"}},
    [FAMILY_REQUESTS] = {.name = "grapnel_reconcile_requests_total",
                         .kind = METRIC_COUNTER,
                         .unit = "requests",
                         .help = "requests to providers, by source",
                         .labels = {"source"}},
    [FAMILY_ERRORS] = {.name = "grapnel_reconcile_errors_total",
                       .kind = METRIC_COUNTER,
                       .unit = "runs",
                       .help = "runs that failed, by source",
                       .labels = {"source"}},
    [FAMILY_COVERED] = {.name = "grapnel_reconcile_behind_seconds",
                        .kind = METRIC_GAUGE,
                        .unit = "seconds",
                        .help = "age of the time up to which the list was "
                                "compared, by source",
                        .labels = {"source"},
                        .per = 1000},
    [FAMILY_OLDEST] = {.name = "grapnel_reconcile_backlog_oldest_seconds",
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
    {&command_archive, replay_archive},
    {&command_resend, replay_resend},
    {&command_replay, replay_job_make},
    {&command_reconciled, walks_status},
    {&command_reconcile, walks_begin},
    {0},
};

/* It gets no messages. */
static gr_rc apply(void *self, const char *from, uint64_t n, struct bytes msg)
{
    (void)self, (void)from, (void)n, (void)msg;
    return GR_REFUSE;
}

static const struct links_ops links_ops = {.apply = apply,
                                           .load = reconcile_load};

static const struct daemon_plan plan = {
    .process = "reconcile",
    .default_name = "reconcile",
    .summary = "takes in events that never arrived, from the provider's list",
    .schema = &reconcile_schema,
    .links = &links_ops,
    .commands = commands,
    .jobs = replay_jobs,
    .metrics = metrics,
    .families = families,
    .open = reconcile_open,
    .frame = reconcile_frame,
    .work = reconcile_work,
    .after_commit = reconcile_after_commit,
    .undo = reconcile_undo,
    .stopped = reconcile_stopped,
    .close = reconcile_close,
    .measure = reconcile_measure,
    .state = reconcile_state,
    .erase = reconcile_erase,
};

int main(int argc, char **argv)
{
    static struct reconciler reconciler;
    struct daemon_plan mine = plan;

    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        die(EXIT_UNAVAILABLE, "libcurl cannot start");
    reconciler.archive.daemon = &reconciler.daemon;
    mine.self = &reconciler;
    mine.metric_values = reconciler.counts;
    daemon_start(&reconciler.daemon, &mine, argc, argv);
    return daemon_run(&reconciler.daemon);
}
