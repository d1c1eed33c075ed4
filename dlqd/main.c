#include "clock.h"
#include "dlqd.h"
#include "keep.h"
#include "requeue.h"
#include "stores.h"
#include <string.h>

extern const char dlqd_store_sql[], dlqd_redirects_sql[], dlqd_again_sql[],
    dlqd_counted_sql[], dlqd_sums_sql[];

static void open_dlqd(void *self)
{
    struct dlqd *d = self;

    store_open(&d->store, d->daemon.db);
    store_count(&d->store, &d->metrics[M_LETTERS]);
    memcpy(d->committed, d->metrics, sizeof d->committed);
    d->counted_since_ms = store_counted_since(&d->store);
}

static void restored(void *self)
{
    struct dlqd *d = self;

    d->counted_since_ms = now_ms();
    store_counted_since_set(&d->store, d->counted_since_ms);
}

static void reload(void *self, struct settings *fresh)
{
    struct dlqd *d = self;

    (void)fresh;
    d->purge_due_ms = 0; /* dlq.keep may have changed */
}

/* dlqd: keeps what could not be delivered, and why; sends it back on request.
 *
 * Promises  no dead letter is dropped silently: it is here with its event, its
 *           reason and the endpoint's last answer, until it was delivered
 *           after all, or dlq.keep is over (which is said in the log)
 * Reads     dead, recovered (from the sequencer, over the hop)
 * Writes    dlqd.db; requeued, decided (to the sequencer, over the hop)
 * Control   dlq dlq_show dlq_retry dlq_resolve dlq_discard trace, and those of every daemon
 * States    of a letter: dead, requeued, recovered, resolved, discarded (letter.h)
 * Refuses   a retry of a letter that is not dead; a message that it could not
 *           keep, which the hop sets aside with its bytes
 * kill -9   costs nothing: what was not committed is sent again, and counted
 *           once by letter, life and time of death
 * Exits     64 usage, 69 locked or a socket taken, 74 storage, 78 configuration
 */
int main(int argc, char **argv)
{
    static struct dlqd d;
    static const char *const steps[] = {dlqd_store_sql,     proto_hop_sql,
                                        dlqd_redirects_sql, dlqd_again_sql,
                                        dlqd_counted_sql,   dlqd_sums_sql};
    STORE_HAS_STEPS(steps, DLQD_SCHEMA);
    static const struct db_schema schema = {.steps = steps,
                                            .count = COUNT_OF(steps),
                                            .program = "grapnel-dlqd",
                                            .table = "contents"};
    static const struct hop_ops hop = {.apply = keep_apply,
                                       .load = requeue_load,
                                       .set_back = requeue_set_back};
    static const struct daemon_plan plan = {
        .process = "dlqd",
        .default_name = "dlqd",
        .summary = "keeps dead letters, and sends them back on request",
        .schema = &schema,
        .hop = &hop,
        .commands = dlqd_commands,
        .metrics = dlqd_metrics,
        .metric_values = d.metrics,
        .self = &d,
        .open = open_dlqd,
        .restored = restored,
        .work = dlqd_work,
        .tell = dlqd_tell,
        .undo = dlqd_undo,
        .measure = dlqd_measure,
        .reload = reload,
    };

    daemon_start(&d.daemon, &plan, argc, argv);
    return daemon_run(&d.daemon);
}
