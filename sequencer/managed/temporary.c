/* temporary: counts how long temporary endpoints were not used, and deletes them. */
#include "temporary.h"
#include "acts.h"
#include "clock.h"
#include "commands.h"
#include "control.h"
#include "log.h"
#include "managed_endpoints.h"
#include "sequencer.h"
#include "store_search.h"
#include <stdlib.h>

enum {
    DELETED_PER_LOOK = 16,
    /* The time is stored so many times in the life of one. */
    STORED_TIMES = 64,
    /* Each one uses an id, of which there are only 2^20: this many may be made at once, and one
     * more in each interval. */
    MADE_AT_ONCE = 200,
    MADE_EVERY_MS = 18 * 1000,
};

static int64_t unused_ms(const struct sequencer *q, const struct endpoint *e)
{
    return e->unused_ms +
           (e->counted_ms ? q->d.loop.awake_ms - e->counted_ms : 0);
}

static void store(struct sequencer *q, struct endpoint *e, int64_t ms)
{
    e->counted_ms = q->d.loop.awake_ms;
    if (e->unused_ms == ms)
        return;
    e->unused_ms = ms;
    managed_write_unused(q, e);
}

void temporary_used(struct sequencer *q, struct endpoint *e)
{
    if (e->temporary && e->managed)
        store(q, e, 0);
}

int64_t temporary_expires_ms(const struct sequencer *q,
                             const struct endpoint *e)
{
    return e->temporary && e->managed
               ? q->d.loop.now_ms + q->d.settings->temporary.ttl_ms -
                     unused_ms(q, e)
               : 0;
}

bool temporary_may_make(struct sequencer *q, char why[200])
{
    int64_t max = q->d.settings->temporary.max, count = 0,
            now = q->d.loop.mono_ms;

    for (size_t i = 0; i < q->lists[ENDPOINTS_TEMPORARY].count; i++)
        count += endpoint_listed(q, ENDPOINTS_TEMPORARY, i)->managed;
    if (count >= max) {
        control_fail(why, CONTROL_LIMITED,
                     "there are %lld temporary endpoints, and "
                     "temporary_endpoints.max permits %lld: delete one "
                     "(`grapnel endpoints` lists them)",
                     (long long)count, (long long)max);
        return false;
    }
    if (q->temporary_made_ms - now > MADE_AT_ONCE * MADE_EVERY_MS) {
        control_fail(why, CONTROL_LIMITED,
                     "too many temporary endpoints were made: one more is "
                     "possible every %d s",
                     MADE_EVERY_MS / 1000);
        return false;
    }
    if (q->temporary_made_ms < now)
        q->temporary_made_ms = now;
    q->temporary_made_ms += MADE_EVERY_MS;
    return true;
}

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

int64_t *temporary_ids(const struct sequencer *q, size_t *count)
{
    int64_t *ids;

    *count = q->lists[ENDPOINTS_TEMPORARY].count;
    ids = gr_alloc((*count + 1) * sizeof *ids);
    for (size_t i = 0; i < *count; i++)
        ids[i] = endpoint_listed(q, ENDPOINTS_TEMPORARY, i)->id;
    qsort(ids, *count, sizeof *ids, compare_ids);
    return ids;
}

/* A row in the audit, as its deletion by a person leaves one. */
static void note_expiry(struct sequencer *q, const struct endpoint *e)
{
    json_t *args = json_pack("{s:s}", "name", e->name);

    store_action_note(q->search, q->d.loop.now_ms, "endpoint", e->name,
                      "deleted: no consumer took from it for %lld s",
                      (long long)(q->d.settings->temporary.ttl_ms / SECOND_MS));
    acts_done(q->d.acts,
              &(struct act){.spec = &command_temporary_delete,
                            .args = args,
                            .by = {.actor = q->d.name,
                                   .role = "",
                                   .request_id = "",
                                   .owner = "",
                                   .key = "",
                                   .digest = ""},
                            .now_ms = q->d.loop.now_ms},
              "done: no consumer took from it", NULL);
    log_info(NULL, "a temporary endpoint is deleted: no consumer took from it",
             LS("endpoint", e->name));
    json_decref(args);
}

void temporary_work(struct sequencer *q)
{
    int64_t ttl_ms = q->d.settings->temporary.ttl_ms;
    int deleted = 0;

    q->metrics[METRIC_TEMPORARY] = 0;
    for (size_t i = q->lists[ENDPOINTS_TEMPORARY].count; i-- > 0;) {
        struct endpoint *e = endpoint_listed(q, ENDPOINTS_TEMPORARY, i);
        int64_t ms = unused_ms(q, e);

        if (!e->managed)
            continue;
        if (!e->counted_ms) /* since the start, or a rollback */
            e->counted_ms = q->d.loop.awake_ms;
        if (ms >= ttl_ms && deleted < DELETED_PER_LOOK) {
            note_expiry(q, e);
            managed_delete(q, e);
            deleted++;
            continue;
        }
        if (ms - e->unused_ms >= ttl_ms / STORED_TIMES)
            store(q, e, ms);
        q->metrics[METRIC_TEMPORARY]++;
    }
}
