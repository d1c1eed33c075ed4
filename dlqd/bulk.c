/* bulk: walks the dead letters of a filter page by page and acts on each. */
#include "bulk.h"
#include "dead_letter_list.h"
#include "decide.h"
#include "dlqd.h"
#include <stdlib.h>
#include <string.h>

/* What one reply may cost; the caller continues from "next". */
enum {
    LOOKED_AT_MOST = 5000, /* index rows, about 5 ms */
    RETRIED_MAX = 500,
};

int bulk_walk(struct dlqd *d, const struct list_filter *f, int max, int64_t *n,
              json_t **next)
{
    struct scan_row row;
    int count = 0;

    *next = NULL;
    store_scan_oldest(&d->store, f->after_ms, f->after_n);
    for (int i = 0; !*next && store_scan_next(&d->store, &row); i++) {
        if (row.dead_ms >= f->until_ms)
            break;
        if (row.dead_ms >= f->since_ms && list_filter_takes(f, &row)) {
            if (n)
                n[count] = row.n;
            count++;
        }
        if (count == max || i >= LOOKED_AT_MOST)
            *next = list_cursor(&row);
    }
    store_scan_done(&d->store);
    if (!*next)
        *next = json_null();
    return count;
}

/* The action on each dead letter of a page; false: `why`. */
typedef bool action_fn(struct dlqd *d, const char *id,
                       const struct list_filter *f, char why[200]);

static bool retry(struct dlqd *d, const char *id, const struct list_filter *f,
                  char why[200])
{
    return list_retry(d, id, f->to, random_id(), f->who, why);
}

static bool resolve(struct dlqd *d, const char *id, const struct list_filter *f,
                    char why[200])
{
    return decide_dead_letter(d, id, DEAD_LETTER_RESOLVED, f->note, f->who,
                              why);
}

static bool discard(struct dlqd *d, const char *id, const struct list_filter *f,
                    char why[200])
{
    return decide_dead_letter(d, id, DEAD_LETTER_DISCARDED, f->note, f->who,
                              why);
}

/* One page, in the turn's transaction; the reply has the changed ids in `key`. */
static json_t *each(struct dlqd *d, const struct list_filter *f,
                    action_fn *action, const char *key)
{
    int64_t n[RETRIED_MAX];
    json_t *done = json_array(), *refused = json_array(), *next;
    int count;

    count = bulk_walk(
        d, f, f->limit < RETRIED_MAX ? (int)f->limit : RETRIED_MAX, n, &next);
    for (int i = 0; i < count; i++) {
        struct dead_letter l;
        char reason[200];

        if (!store_find_n(&d->store, n[i], &l))
            continue;
        if (action(d, l.id, f, reason))
            json_array_append_new(done, json_string(l.id));
        else
            json_array_append_new(
                refused, json_pack("{s:s,s:s}", "id", l.id, "why", reason));
        dead_letter_fini(&l);
    }
    return json_pack("{s:o, s:o, s:o}", key, done, "refused", refused, "next",
                     next);
}

json_t *bulk_retry(void *self, json_t *args, char why[200])
{
    struct list_filter f;

    return list_filter_read(&f, args, why) && list_to_good(self, f.to, why)
               ? each(self, &f, retry, "requeued")
               : NULL;
}

json_t *bulk_resolve(void *self, json_t *args, char why[200])
{
    struct list_filter f;

    return list_filter_read(&f, args, why) && list_note_good(f.note, why)
               ? each(self, &f, resolve, "resolved")
               : NULL;
}

json_t *bulk_discard(void *self, json_t *args, char why[200])
{
    struct list_filter f;

    return list_filter_read(&f, args, why) && list_note_good(f.note, why)
               ? each(self, &f, discard, "discarded")
               : NULL;
}

json_t *bulk_count(void *self, json_t *args, char why[200])
{
    struct list_filter f;
    json_t *next;
    int count;

    if (!list_filter_read(&f, args, why))
        return NULL;
    count = bulk_walk(self, &f, LOOKED_AT_MOST, NULL, &next);
    return json_pack("{s:i, s:o}", "count", count, "next", next);
}

/* ---- stats ---- */

static void count_up(json_t *counts, const char *key, int64_t n)
{
    int64_t had = json_integer_value(json_object_get(counts, key));

    json_object_set_new(counts, key, json_integer(had + n));
}

json_t *bulk_stats(void *self, json_t *args, char why[200])
{
    struct dlqd *d = self;
    json_t *out = json_object(), *by_endpoint = json_object(),
           *by_reason = json_object(), *by_fault = json_object();
    struct tally t;

    (void)args;
    (void)why;
    for (int i = 0; i < DEAD_LETTER_STATES; i++)
        json_object_set_new(out, states_name(&dead_letter_states, i),
                            json_integer(d->metrics[M_DEAD_LETTERS + i]));
    store_tallies(&d->store);
    while (store_tallies_next(&d->store, &t)) {
        if (t.state != DEAD_LETTER_DEAD)
            continue;
        count_up(by_endpoint, t.endpoint, t.count);
        count_up(by_reason, t.reason, t.count);
        count_up(by_fault, dead_letter_fault(t.reason), t.count);
    }
    json_object_set_new(out, "by_endpoint", by_endpoint);
    json_object_set_new(out, "by_reason", by_reason);
    json_object_set_new(out, "by_fault", by_fault);
    return out;
}
