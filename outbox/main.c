/* grapnel-outbox: the process that takes rows of applications' outbox tables, stores them as events
 * and sends them to the sequencer. Its metrics, control commands and callbacks.
 *
 * Promises  a row that an application committed becomes one event, whatever is killed; a row that is
 *           not a valid event is marked as failed, with the reason, and the others go on
 * Reads     new rows of the tables in `outbox`, in batches that several processes share; `acked`
 *           and `outcome` from the sequencer
 * Writes    NAME.db: the archive; the status of the rows, and what became of their events; `accepted` to the sequencer
 * Refuses   to take rows: while little disk space is free, while unprocessed events fill
 *           ingress.archive.max_size, while 50,000 events wait for the sequencer. The rows stay new
 * Limits    rows and bytes of a transaction, time of each statement, one connection for each relay
 * SIGTERM   commits the open transactions, exits 0
 * kill -9   the database rolls back the open transactions; their rows are taken again and recognised */
#include "commands.h"
#include "outbox.h"
#include "replay_job.h"
#include "request_trace.h"
#include "resend.h"
#include "show_request.h"

static const struct metric metrics[COUNT_COUNT + 1] = {
#define C(NAME, name, kind, unit, help) \
    {"grapnel_outbox_" name, kind, unit, help},
    COUNTS(C)
#undef C
        {0},
};

static const struct metric_family families[FAMILY_COUNT + 1] = {
    [FAMILY_TAKEN] = {.name = "grapnel_outbox_taken_total",
                      .kind = METRIC_COUNTER,
                      .unit = "rows",
                      .help = "rows that became events, by relay",
                      .labels = {"relay"}},
    [FAMILY_REFUSED] = {.name = "grapnel_outbox_refused_total",
                        .kind = METRIC_COUNTER,
                        .unit = "rows",
                        .help = "rows that are not valid events, by relay",
                        .labels = {"relay"}},
    [FAMILY_WRITTEN] = {.name = "grapnel_outbox_written_total",
                        .kind = METRIC_COUNTER,
                        .unit = "rows",
                        .help = "outcomes that were written to rows, by relay",
                        .labels = {"relay"}},
    [FAMILY_SET_ASIDE] =
        {.name = "grapnel_outbox_set_aside_total",
         .kind = METRIC_COUNTER,
         .unit = "rows",
         .help = "times that the database refused to change a row, so that it "
                 "was set aside and is tried again later, by relay",
         .labels = {"relay"}},
    [FAMILY_DELETED] = {.name = "grapnel_outbox_deleted_total",
                        .kind = METRIC_COUNTER,
                        .unit = "rows",
                        .help = "delivered rows that were deleted "
                                "(after_success), by relay",
                        .labels = {"relay"}},
    [FAMILY_LAG] = {.name = "grapnel_outbox_lag_seconds",
                    .kind = METRIC_HISTOGRAM,
                    .unit = "seconds",
                    .help = "time from `created_at` of a row until it was "
                            "taken, by the clock of the database, by relay",
                    .labels = {"relay"},
                    .per = 1000,
                    .bounds = metric_latency_bounds_ms},
    [FAMILY_WAITING] = {.name = "grapnel_outbox_rows_waiting",
                        .kind = METRIC_GAUGE,
                        .unit = "rows",
                        .help = "new rows that were not taken yet, counted up "
                                "to 10000 every 5 s, by relay",
                        .labels = {"relay"}},
    [FAMILY_OLDEST_ROW] =
        {.name = "grapnel_outbox_row_oldest_seconds",
         .kind = METRIC_GAUGE,
         .unit = "seconds",
         .help = "age of the oldest new row, by the clock of the database; 0: "
                 "there is none, by relay",
         .labels = {"relay"},
         .per = 1000},
    [FAMILY_OUTCOMES] = {.name = "grapnel_outbox_outcomes_waiting",
                         .kind = METRIC_GAUGE,
                         .unit = "outcomes",
                         .help = "outcomes that their rows do not have yet, "
                                 "counted up to 10000, by relay",
                         .labels = {"relay"}},
    [FAMILY_ERRORS] = {.name = "grapnel_outbox_errors_total",
                       .kind = METRIC_COUNTER,
                       .unit = "exchanges",
                       .help = "exchanges with a database that failed, by "
                               "relay",
                       .labels = {"relay"}},
    [FAMILY_OLDEST] = {.name = "grapnel_outbox_backlog_oldest_seconds",
                       .kind = METRIC_GAUGE,
                       .unit = "seconds",
                       .help = "age of the oldest event that the sequencer has "
                               "not processed; 0: there is none",
                       .per = 1000},
    [FAMILY_COUNT] = {0},
};

static const struct control_command commands[] = {
    {&command_find, trace_find},      {&command_request_trace, trace_event},
    {&command_request, show_request}, {&command_archive, replay_archive},
    {&command_resend, replay_resend}, {&command_replay, replay_job_make},
    {&command_relays, relays_status}, {0},
};

static const struct links_ops links_ops = {.apply = outcomes_apply,
                                           .load = outbox_load};

static const struct daemon_plan plan = {
    .process = "outbox",
    .default_name = "outbox",
    .summary = "takes rows of outbox tables and stores them",
    .schema = &outbox_schema,
    .links = &links_ops,
    .commands = commands,
    .jobs = replay_jobs,
    .metrics = metrics,
    .families = families,
    .open = outbox_open,
    .frame = outbox_frame,
    .work = outbox_work,
    .after_commit = outbox_after_commit,
    .undo = outbox_undo,
    .stopped = outbox_stopped,
    .close = outbox_close,
    .measure = outbox_measure,
    .state = outbox_state,
    .erase = outbox_erase,
};

int main(int argc, char **argv)
{
    static struct outbox outbox;
    struct daemon_plan mine = plan;

    outbox.archive.daemon = &outbox.daemon;
    mine.self = &outbox;
    mine.metric_values = outbox.counts;
    daemon_start(&outbox.daemon, &mine, argc, argv);
    return daemon_run(&outbox.daemon);
}
