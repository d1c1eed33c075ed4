/* duplicates: finds the earlier event of which an event is a duplicate. */
#include "duplicates.h"
#include "keys.h"
#include "parsed_event.h"
#include "sequencer.h"
#include "store.h"
#include <string.h>

/* The event that had this key before; 0: there is none. */
static int64_t find_key(struct sequencer *q, const struct parsed_key *k,
                        const struct event_row *ev)
{
    int64_t n = keys_find(q->keys, k->key, ev->received_ms, k->ttl_ms, ev->n);
    struct event_row earlier = {0};

    if (n || !k->was_shared)
        return n;
    n = keys_find(q->keys, k->shared, ev->received_ms, k->ttl_ms, ev->n);
    if (!n || !store_event(q->store, n, &earlier) ||
        strcmp(earlier.source, ev->source) != 0)
        n = 0;
    event_fini(&earlier);
    return n;
}

static bool has_key_of_type(const struct dedupe *d)
{
    for (size_t i = 0; i < d->count; i++)
        for (size_t k = 0; k < d->keys[i].count; k++)
            if (d->keys[i].parts[k].kind == EXPR_TYPE)
                return true;
    return false;
}

/* Event `first` has the same body under another type, and a key that includes the type tells
 * the two apart for as long as it is kept: Shopify sends one change under several topics.
 * Never in another workspace. */
static bool is_other_type(struct sequencer *q, const struct dedupe *d,
                          const struct parsed_event *f,
                          const struct event_row *ev, int64_t first)
{
    struct event_row earlier = {0};
    bool other = has_key_of_type(d) &&
                 keys_signed_since(q->keys, f->signed_part,
                                   ev->received_ms - d->ttl_ms);

    /* history.keep may be shorter than the ttl: then the row of `first` is gone. */
    if (other && store_event(q->store, first, &earlier))
        other = strcmp(earlier.workspace, ev->workspace) == 0 &&
                strcmp(earlier.type, ev->type) != 0 &&
                ev->received_ms - earlier.received_ms <= d->ttl_ms;
    event_fini(&earlier);
    return other;
}

/* Store the digest of the event's signed part. Returns the earlier event with the same digest
 * if this one is a replay of it, else 0. `earlier`: the event with one of its keys. */
static int64_t find_replay(struct sequencer *q, const struct dedupe *d,
                           const struct parsed_event *f,
                           const struct event_row *ev, int64_t earlier)
{
    int64_t first;

    if (!f->has_signed)
        return 0;
    first = keys_find_signed(q->keys, f->signed_part, ev->n);
    if (!first)
        keys_add_signed(q->keys, f->signed_part, earlier ? earlier : ev->n,
                        ev->received_ms, d->replays_ms, q->d.loop.now_ms);
    if (!first || earlier || is_other_type(q, d, f, ev, first))
        return 0;
    return first;
}

int64_t duplicates_find(struct sequencer *q, const struct source *source,
                        const struct parsed_event *f,
                        const struct event_row *ev, bool *replayed)
{
    bool known[KEYS_MAX] = {false};
    int64_t earlier = 0, replay;

    for (size_t i = 0; i < f->key_count; i++) {
        int64_t n = find_key(q, &f->keys[i], ev);

        known[i] = n != 0;
        if (n && !earlier)
            earlier = n;
    }
    replay = find_replay(q, source ? &source->dedupe : NULL, f, ev, earlier);
    *replayed = replay != 0;
    /* Keys of a replay are not stored: its unsigned parts may be forged. */
    if (replay)
        return replay;
    for (size_t i = 0; i < f->key_count; i++)
        if (!known[i]) /* a new key of a duplicate leads to the first event */
            keys_add(q->keys, f->keys[i].key, earlier ? earlier : ev->n,
                     ev->received_ms, f->keys[i].ttl_ms, q->d.loop.now_ms);
    return earlier;
}
