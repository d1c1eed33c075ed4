#include "store.h"
#include "ulid.h"
#include <string.h>

/* Our own ids are made from the time of acceptance, so no row is read for it. An
 * id that was made from something else tells no time that is near. */
static bool accepted_at(const char *event_id, int64_t *ms)
{
    struct ulid u;

    if (strncmp(event_id, "evt_", 4) != 0 ||
        ulid_resume(&u, event_id + 4) != GR_OK)
        return false;
    *ms = (int64_t)u.ms;
    return true;
}

void measure_delivered(struct sequencer *q, const char *event_id,
                       const char *endpoint, int64_t at_ms)
{
    int64_t accepted_ms;

    if (!accepted_at(event_id, &accepted_ms) ||
        at_ms - accepted_ms > q->d.settings->history_keep_ms)
        return;
    series_observe(METRIC_SERIES(q->d.metrics, FAMILY_END_TO_END, endpoint),
                   at_ms > accepted_ms ? at_ms - accepted_ms : 0);
}

static void measure_endpoints(struct sequencer *q)
{
    for (size_t i = 0; i < q->endpoint_count; i++) {
        const struct endpoint *e = &q->endpoints[i];

        if (!e->settings)
            continue;
        series_set(METRIC_SERIES(q->d.metrics, FAMILY_DISABLED, e->name),
                   e->state == ENDPOINT_DISABLED);
        series_set(METRIC_SERIES(q->d.metrics, FAMILY_HELD, e->name),
                   e->held_ms != 0);
        series_set(METRIC_SERIES(q->d.metrics, FAMILY_FAILING, e->name),
                   e->failing_ms ? e->failing_for_ms : 0);
    }
}

void measure(void *self)
{
    struct sequencer *q = self;
    int64_t counts[DELIVERY_DELIVERED] = {0}, oldest;
    struct event_row ev;

    measure_endpoints(q);
    oldest = store_open_counts(q->store, counts, DELIVERY_DELIVERED);
    for (int i = 0; i < DELIVERY_DELIVERED; i++)
        series_set(
            METRIC_SERIES(q->d.metrics, FAMILY_OPEN, delivery_status_name(i)),
            counts[i]);
    if (!oldest) {
        series_set(METRIC_SERIES(q->d.metrics, FAMILY_OLDEST, NULL), 0);
        return;
    }
    if (store_event(q->store, oldest, &ev))
        series_set(METRIC_SERIES(q->d.metrics, FAMILY_OLDEST, NULL),
                   q->d.loop.now_ms - ev.received_ms);
    store_done(q->store);
}
