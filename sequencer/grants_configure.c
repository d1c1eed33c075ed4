/* What the settings of today mean for grants: what each carries, and how long a
 * deliverer may be silent. */
#include "endpoint_config.h"
#include "grants_inside.h"
#include "le64.h"
#include "sha256.h"
#include "store.h"
#include <stdlib.h>

enum { LONGEST_LEAST_MS = 1000 };

/* All that an attempt needs, encoded into e->carried. */
static void carry(struct endpoint *e)
{
    buf_reset(&e->carried);
    endpoint_config_encode(e->settings, &e->carried);
}

int64_t grants_digest(const struct endpoint *e)
{
    uint8_t raw[SHA256_BYTES];

    sha256((struct bytes){e->carried.data, e->carried.len}, raw);
    return (int64_t)(get_le64(raw) & INT64_MAX);
}

/* What is in flight may have been begun under a longer timeout than today's, of
 * this start or of the one before. */
static void keep_longest(struct sequencer *q, int64_t longest_ms)
{
    int64_t before_ms = store_meta(q->store, "longest_attempt_ms");

    q->longest_ms = longest_ms;
    if (before_ms > longest_ms)
        longest_ms = before_ms;
    else if (before_ms < longest_ms)
        store_meta_set(q->store, "longest_attempt_ms", longest_ms);
    q->silence_ms = grant_silence_ms(longest_ms);
    q->shorten_ms = mono_ms() + q->silence_ms;
}

/* When nothing of then can be in flight any more, today's is enough. */
void grants_forget_longest(struct sequencer *q)
{
    if (q->d.loop.mono_ms < q->shorten_ms ||
        q->silence_ms == grant_silence_ms(q->longest_ms))
        return;
    store_meta_set(q->store, "longest_attempt_ms", q->longest_ms);
    q->silence_ms = grant_silence_ms(q->longest_ms);
}

void grants_forget_settings(struct sequencer *q)
{
    for (size_t i = 0; i < q->endpoint_count; i++)
        q->endpoints[i].settings = NULL;
    subscriptions_free(q->subscriptions);
    q->subscriptions = NULL;
    q->configure = true;
}

/* Each endpoint gets its settings, and stands with those that want what it wants.
 * Returns the longest timeout of all. */
static int64_t match(struct sequencer *q, const struct settings *s)
{
    int64_t longest_ms = LONGEST_LEAST_MS;
    size_t all = s->endpoint_count + s->backfill_count;
    size_t *places = gr_alloc(all * sizeof *places);

    for (size_t i = 0; i < all; i++) {
        const struct endpoint_settings *es =
            i < s->endpoint_count ? &s->endpoints[i]
                                  : &s->backfills[i - s->endpoint_count];
        struct endpoint *e = grants_endpoint(q, es->name);

        e->settings = es;
        e->changed |= e->gone_after != 0;
        e->gone_after = 0;
        places[i] = (size_t)(e - q->endpoints);
        carry(e);
        if (es->timeout_ms > longest_ms)
            longest_ms = es->timeout_ms;
    }
    q->subscriptions = subscriptions_new(s, places, q->endpoint_count);
    free(places);
    return longest_ms;
}

/* After a start or a reload: whose configuration changed is recalled and gets
 * a new grant that carries the new one. Rows only; the rest is the turn's. */
void grants_configure(struct sequencer *q, const struct settings *s)
{
    grants_forget_gone(q);
    grants_forget_settings(q);
    keep_longest(q, match(q, s));
    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];

        e->waiting = true;
        if (e->was_off && e->settings && e->settings->enabled)
            endpoint_resumed(q, e);
        e->was_off = e->settings && !e->settings->enabled;
        if (!e->settings && !e->gone_after)
            grants_note_gone(q, e);
        lanes_configure(q, e);
        if (e->held_ms && !(e->settings && e->settings->guard))
            endpoint_end_hold(q, e);
        if (e->grant && (!endpoint_is_on(e) || grants_digest(e) != e->config))
            e->recall = true;
    }
    q->place = true;
    q->configure = false;
}
