/* turn: starts dlqd and runs its turns. Messages and control requests are processed before
 * work() is called; work() purges old dead letters and, after a restore, sends requeues again. */
#include "clock.h"
#include "dead_letters.h"
#include "decide.h"
#include "dlqd.h"
#include "redirect.h"
#include "requeue.h"
#include <string.h>

void dlqd_open(void *self)
{
    struct dlqd *d = self;

    store_open(&d->store, d->daemon.db);
    store_count(&d->store, &d->metrics[M_DEAD_LETTERS]);
    memcpy(d->committed, d->metrics, sizeof d->committed);
    d->counted_since_ms = store_counted_since(&d->store);
}

void dlqd_restored(void *self)
{
    struct dlqd *d = self;

    d->counted_since_ms = now_ms();
    store_counted_since_set(&d->store, d->counted_since_ms);
}

void dlqd_reload(void *self, struct settings *fresh)
{
    struct dlqd *d = self;

    (void)fresh;
    d->purge_due_ms = 0; /* dlq.keep may have changed */
}

int dlqd_work(void *self)
{
    struct dlqd *d = self;

    return loop_sooner(loop_sooner(redirect_work(d), requeue_work(d)),
                       loop_sooner(decide_work(d), dead_letters_purge(d)));
}

void dlqd_after_commit(void *self)
{
    struct dlqd *d = self;

    memcpy(d->committed, d->metrics, sizeof d->committed);
}

void dlqd_undo(void *self)
{
    struct dlqd *d = self;

    memcpy(d->metrics, d->committed, sizeof d->metrics);
}

/* Counts dead letters that will soon be purged, for an alert. */
void dlqd_measure(void *self)
{
    struct dlqd *d = self;
    int64_t keep = d->daemon.settings->dlq_keep_ms,
            ahead = keep / 10 < DAY_MS ? keep / 10 : DAY_MS;

    d->metrics[M_EXPIRING] = store_count_old(
        &d->store, DEAD_LETTER_DEAD,
        retention_before(&d->daemon.retention, d->daemon.loop.now_ms,
                         keep - ahead));
}
