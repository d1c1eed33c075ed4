/* dlqd: the process that stores dead letters with their reason, and sends them again on request.
 * Its metrics, control commands and callbacks.
 *
 * Promises  no dead letter is lost silently: it is stored with its event, its reason and the
 *           endpoint's last response until it is delivered after all, or dlq.keep has passed
 *           (which the log says)
 * Reads     dead, recovered (from the sequencer, over the link)
 * Writes    dlqd.db; requeued, decided, redirected (to the sequencer, over the link)
 * Control   the table below, and the commands of every daemon
 * States    of a dead letter: dead, requeued, recovered, resolved, discarded (dead_letter.h)
 * Refuses   a retry of a dead letter that is not dead; a message that it cannot store, which the
 *           link sets aside with its bytes
 * kill -9   loses nothing: uncommitted messages are sent again, and counted once by dead letter,
 *           generation and time of failure
 * Exits     64 usage, 69 locked or a socket taken, 74 storage, 78 configuration
 */
#include "bulk.h"
#include "bulk_job.h"
#include "commands.h"
#include "dead_letter_list.h"
#include "dead_letters.h"
#include "dlqd.h"
#include "new_dead_letters.h"
#include "requeue.h"

static const struct metric metrics[] = {
    [M_DEAD_LETTERS +
     DEAD_LETTER_DEAD] = {"grapnel_dlqd_dead_letters_dead", METRIC_GAUGE,
                          "dead_letters",
                          "dead letters that wait for a decision"},
    [M_DEAD_LETTERS + DEAD_LETTER_REQUEUED] =
        {"grapnel_dlqd_dead_letters_requeued", METRIC_GAUGE, "dead_letters",
         "dead letters whose delivery was requeued and has not ended"},
    [M_DEAD_LETTERS + DEAD_LETTER_RECOVERED] =
        {"grapnel_dlqd_dead_letters_recovered", METRIC_GAUGE, "dead_letters",
         "dead letters that were delivered later and are still stored"},
    [M_DEAD_LETTERS + DEAD_LETTER_RESOLVED] =
        {"grapnel_dlqd_dead_letters_resolved", METRIC_GAUGE, "dead_letters",
         "dead letters that an operator resolved and that are still stored"},
    [M_DEAD_LETTERS + DEAD_LETTER_DISCARDED] =
        {"grapnel_dlqd_dead_letters_discarded", METRIC_GAUGE, "dead_letters",
         "dead letters that an operator discarded and that are still stored"},
    [M_MOVED +
        DEAD_LETTER_RESOLVED] = {"grapnel_dlqd_resolved_total", METRIC_COUNTER,
                                 "dead_letters",
                                 "dead letters that an operator resolved"},
    [M_MOVED +
        DEAD_LETTER_DISCARDED] = {"grapnel_dlqd_discarded_total",
                                  METRIC_COUNTER, "dead_letters",
                                  "dead letters that an operator discarded"},
    [M_MOVED + DEAD_LETTER_DEAD] =
        {"grapnel_dlqd_received_total", METRIC_COUNTER, "dead_letters",
         "received dead letters, one for each generation; without those that "
         "are received again after a restore or the loss of the database"},
    [M_MOVED +
        DEAD_LETTER_REQUEUED] = {"grapnel_dlqd_requeued_total", METRIC_COUNTER,
                                 "dead_letters",
                                 "dead letters that an operator requeued"},
    [M_MOVED + DEAD_LETTER_RECOVERED] =
        {"grapnel_dlqd_recovered_total", METRIC_COUNTER, "dead_letters",
         "dead letters that were delivered later; without those that are "
         "reported again after a restore or the loss of the database"},
    [M_DUPLICATES] = {"grapnel_dlqd_duplicates_total", METRIC_COUNTER,
                      "messages",
                      "messages that were received twice and applied once"},
    [M_UNKNOWN] =
        {"grapnel_dlqd_unknown_total", METRIC_COUNTER, "messages",
         "messages about recovered dead letters that are no longer stored"},
    [M_PURGED] =
        {"grapnel_dlqd_purged_total", METRIC_COUNTER, "dead_letters",
         "dead letters that were removed because dlq.keep had expired"},
    [M_EXPIRING] = {"grapnel_dlqd_dead_letters_expiring", METRIC_GAUGE,
                    "dead_letters",
                    "dead letters that dlq.keep will remove within a day, or "
                    "within a tenth of its time; counted up to 100000"},
    [M_COUNT] = {0},
};

static const struct control_command commands[] = {
    {&command_dlq, list_ask},
    {&command_dlq_show, list_ask_show},
    {&command_dlq_retry, list_ask_retry},
    {&command_dlq_retry_all, bulk_retry},
    {&command_dlq_resolve_all, bulk_resolve},
    {&command_dlq_discard_all, bulk_discard},
    {&command_dlq_bulk, bulk_job_make},
    {&command_dlq_count, bulk_count},
    {&command_dlq_stats, bulk_stats},
    {&command_dlq_resolve, list_ask_resolve},
    {&command_dlq_discard, list_ask_discard},
    {&command_dlq_new_dead_letters, new_dead_letters_ask},
    {&command_dead_letter_trace, list_ask_trace},
    {0},
};

int main(int argc, char **argv)
{
    static struct dlqd d;
    static const struct links_ops links = {.apply = dead_letters_apply,
                                           .load = requeue_load,
                                           .rewound = requeue_rewound};
    static const struct daemon_plan plan = {
        .process = "dlqd",
        .default_name = "dlqd",
        .summary = "keeps dead letters and sends them again on request",
        .replicated = true,
        .schema = &dlqd_schema,
        .links = &links,
        .commands = commands,
        .jobs = bulk_jobs,
        .metrics = metrics,
        .metric_values = d.metrics,
        .self = &d,
        .open = dlqd_open,
        .restored = dlqd_restored,
        .work = dlqd_work,
        .after_commit = dlqd_after_commit,
        .undo = dlqd_undo,
        .measure = dlqd_measure,
        .reload = dlqd_reload,
        .erase = dlqd_erase,
        .owns = dlqd_owns,
    };

    daemon_start(&d.daemon, &plan, argc, argv);
    return daemon_run(&d.daemon);
}
