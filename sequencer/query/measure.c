/* measure: the metrics that are not plain counters. */
#include "measure.h"
#include "store.h"
#include "temporary.h"
#include "ulid.h"
#include <stdlib.h>
#include <string.h>

/* Most ids contain the time of acceptance, so that no row has to be read; an id that is made from
 * an idempotency key does not. */
static int64_t accepted_ms(struct sequencer *q, int64_t event, const char *id)
{
    struct event_row ev = {0};
    struct ulid u;
    int64_t ms = 0;

    if (strncmp(id, "evt_", 4) == 0 && ulid_resume(&u, id + 4) == GR_OK)
        return (int64_t)u.ms;
    if (store_event(q->store, event, &ev))
        ms = ev.received_ms;
    event_fini(&ev);
    return ms;
}

void measure_delivered(struct sequencer *q, const struct endpoint *e,
                       int64_t event, const char *event_id, int64_t at_ms)
{
    int64_t ms = accepted_ms(q, event, event_id);

    if (ms < e->resumed_ms || at_ms - ms > q->d.settings->history_keep_ms)
        return;
    series_observe(METRIC_SERIES(q->d.metrics, FAMILY_END_TO_END, e->name),
                   at_ms > ms ? at_ms - ms : 0);
}

static void measure_endpoints(struct sequencer *q)
{
    const struct settings *s = q->d.settings;

    for (size_t i = 0; i < s->endpoint_count + s->backfill_count; i++) {
        const struct endpoint_settings *is =
            i < s->endpoint_count ? &s->endpoints[i]
                                  : &s->backfills[i - s->endpoint_count];
        const struct endpoint *e = endpoint_find(q, is->name);
        int64_t waits_since_ms;

        if (!e || !e->settings)
            continue;
        series_set(METRIC_SERIES(q->d.metrics, FAMILY_DISABLED, e->name),
                   e->state == ENDPOINT_DISABLED);
        series_set(METRIC_SERIES(q->d.metrics, FAMILY_HELD, e->name),
                   e->state == ENDPOINT_HELD);
        waits_since_ms = e->settings->enabled ? endpoint_waits_since_ms(e) : 0;
        series_set(METRIC_SERIES(q->d.metrics, FAMILY_WAITING, e->name),
                   waits_since_ms && waits_since_ms < q->d.loop.now_ms
                       ? q->d.loop.now_ms - waits_since_ms
                       : 0);
        series_set(METRIC_SERIES(q->d.metrics, FAMILY_FAILING, e->name),
                   e->failing_ms && endpoint_is_on(e) ? e->failing_for_ms : 0);
    }
}

void measure(void *self)
{
    struct sequencer *q = self;
    size_t left_out;
    int64_t *temporary = temporary_ids(q, &left_out);
    struct open_figures open = store_open_figures(q->store, temporary,
                                                  left_out);
    int64_t since_ms = store_oldest_open_ms(q->store, &open);
    int64_t now = q->d.loop.now_ms;

    free(temporary);
    measure_endpoints(q);
    for (int i = 0; i < DELIVERY_DELIVERED; i++)
        series_set(
            METRIC_SERIES(q->d.metrics, FAMILY_OPEN, delivery_status_name(i)),
            open.counts[i]);
    series_set(METRIC_SERIES(q->d.metrics, FAMILY_OLDEST, NULL),
               since_ms && since_ms < now ? now - since_ms : 0);
}
