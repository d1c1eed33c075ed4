/* loop: dlqd's turn. Messages and requests are taken before work() is called;
 * what is left to do by itself is retention and, after a restore, to say
 * requeues again. */
#include "clock.h"
#include "decide.h"
#include "dlqd.h"
#include "keep.h"
#include "redirect.h"
#include "requeue.h"
#include <string.h>

const struct metric dlqd_metrics[] = {
    [M_LETTERS + LETTER_DEAD] = {"grapnel_dlqd_letters_dead", METRIC_GAUGE,
                                 "letters", "dead, waiting for a decision"},
    [M_LETTERS + LETTER_REQUEUED] = {"grapnel_dlqd_letters_requeued",
                                     METRIC_GAUGE, "letters",
                                     "requeued, not yet final again"},
    [M_LETTERS + LETTER_RECOVERED] = {"grapnel_dlqd_letters_recovered",
                                      METRIC_GAUGE, "letters",
                                      "delivered after all, still kept"},
    [M_LETTERS + LETTER_RESOLVED] = {"grapnel_dlqd_letters_resolved",
                                     METRIC_GAUGE, "letters",
                                     "resolved by an operator, still kept"},
    [M_LETTERS + LETTER_DISCARDED] = {"grapnel_dlqd_letters_discarded",
                                      METRIC_GAUGE, "letters",
                                      "discarded by an operator, still kept"},
    [M_MOVED + LETTER_RESOLVED] = {"grapnel_dlqd_resolved_total",
                                   METRIC_COUNTER, "letters",
                                   "resolved by an operator"},
    [M_MOVED + LETTER_DISCARDED] = {"grapnel_dlqd_discarded_total",
                                    METRIC_COUNTER, "letters",
                                    "discarded by an operator"},
    [M_MOVED + LETTER_DEAD] = {"grapnel_dlqd_received_total", METRIC_COUNTER,
                               "letters",
                               "deaths, each generation's; not those from "
                               "before a restore or the loss of the database, "
                               "which come again"},
    [M_MOVED + LETTER_REQUEUED] = {"grapnel_dlqd_requeued_total",
                                   METRIC_COUNTER, "letters",
                                   "requeued by an operator"},
    [M_MOVED + LETTER_RECOVERED] = {"grapnel_dlqd_recovered_total",
                                    METRIC_COUNTER, "letters",
                                    "delivered after having been dead; not "
                                    "those from before a restore or the loss "
                                    "of the database, which come again"},
    [M_REPEATED] = {"grapnel_dlqd_repeated_total", METRIC_COUNTER, "messages",
                    "said twice, counted once"},
    [M_UNKNOWN] = {"grapnel_dlqd_unknown_total", METRIC_COUNTER, "messages",
                   "recovered letters that are no longer kept"},
    [M_PURGED] = {"grapnel_dlqd_purged_total", METRIC_COUNTER, "letters",
                  "dropped when dlq.keep was over"},
    [M_EXPIRING] = {"grapnel_dlqd_letters_expiring", METRIC_GAUGE, "letters",
                    "dead ones that dlq.keep removes within a day, or within "
                    "a tenth of its time; counted up to 100000"},
    [M_COUNT] = {0},
};

static int sooner(int a, int b)
{
    if (a < 0 || b < 0)
        return a < 0 ? b : a;
    return a < b ? a : b;
}

int dlqd_work(void *self)
{
    struct dlqd *d = self;

    return sooner(sooner(redirect_work(d), requeue_work(d)),
                  sooner(decide_work(d), keep_purge(d)));
}

void dlqd_tell(void *self)
{
    struct dlqd *d = self;

    memcpy(d->committed, d->metrics, sizeof d->committed);
}

void dlqd_undo(void *self)
{
    struct dlqd *d = self;

    memcpy(d->metrics, d->committed, sizeof d->metrics);
}

/* So that somebody hears of it before they are gone. */
void dlqd_measure(void *self)
{
    struct dlqd *d = self;
    int64_t keep = d->daemon.settings->dlq_keep_ms,
            ahead = keep / 10 < DAY_MS ? keep / 10 : DAY_MS;

    d->metrics[M_EXPIRING] = store_count_old(
        &d->store, LETTER_DEAD,
        retention_before(&d->daemon.retention, d->daemon.loop.now_ms,
                         keep - ahead));
}
