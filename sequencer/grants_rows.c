/* Every endpoint and every deliverer that we know of, as our disk has them. */
#include "endpoint_config.h"
#include "grants_inside.h"
#include "store.h"
#include "store_lanes.h"
#include "store_search.h"
#include <stdlib.h>
#include <string.h>

struct endpoint *endpoint_find(struct sequencer *q, const char *name)
{
    uint64_t key = lookup_text(name);
    size_t i, at = 0;

    while ((i = lookup_next(&q->names, key, &at)) != LOOKUP_END)
        if (strcmp(q->endpoints[i].name, name) == 0)
            return &q->endpoints[i];
    return NULL;
}

struct endpoint *endpoint_by_id(struct sequencer *q, int64_t id)
{
    size_t lo = 0, hi = q->endpoint_count;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (q->endpoints[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < q->endpoint_count && q->endpoints[lo].id == id
               ? &q->endpoints[lo]
               : NULL;
}

/* Ids ascend: rows come by id, and a row that is added has the highest. */
static struct endpoint *endpoint_new(struct sequencer *q, int64_t id,
                                     const char *name)
{
    struct endpoint *e;

    if (id >= ENDPOINTS_MAX)
        die(EXIT_CONFIG, "endpoints: there can have been at most %d in all",
            ENDPOINTS_MAX - 1);
    q->endpoints = gr_realloc(q->endpoints,
                              (q->endpoint_count + 1) * sizeof *q->endpoints);
    e = &q->endpoints[q->endpoint_count++];
    *e = (struct endpoint){.id = id,
                           .sweeping = true,
                           .waiting = true,
                           .ordered = -1,
                           .turn = INT64_MIN};
    buf_init(&e->carried, ENDPOINT_CONFIG_MAX_BYTES);
    wire_copy(e->name, sizeof e->name, wire_text(name));
    lookup_put(&q->names, lookup_text(e->name), q->endpoint_count - 1);
    return e;
}

struct endpoint *grants_endpoint(struct sequencer *q, const char *name)
{
    struct endpoint *e = endpoint_find(q, name);

    return e ? e : endpoint_new(q, store_endpoint_add(q->store, name), name);
}

void grants_note_gone(struct sequencer *q, struct endpoint *e)
{
    e->gone_after = q->next_event - 1;
    e->changed = true;
}

struct endpoint *endpoint_adopt(struct sequencer *q, const char *name)
{
    struct endpoint *e = grants_endpoint(q, name);

    if (!e->settings)
        grants_note_gone(q, e);
    return e;
}

static void forget_acts(void *arg, const char *name)
{
    struct sequencer *q = arg;
    char *subject = gr_printf("endpoint %s", name);

    store_acts_drop(q->search, subject);
    free(subject);
}

struct deliverer *grants_deliverer(struct sequencer *q, const char *name)
{
    struct deliverer *d;

    for (size_t i = 0; i < q->deliverer_count; i++)
        if (strcmp(q->deliverers[i]->name, name) == 0)
            return q->deliverers[i];
    d = gr_alloc(sizeof *d);
    wire_copy(d->name, sizeof d->name, wire_text(name));
    d->answered_ms = q->started_ms;
    q->deliverers = gr_realloc(q->deliverers, (q->deliverer_count + 1) *
                                                  sizeof(struct deliverer *));
    q->deliverers[q->deliverer_count++] = d;
    return d;
}

static void on_deliverer_row(void *arg, const char *name, uint64_t store)
{
    grants_deliverer(arg, name)->store = store;
}

static void on_endpoint_row(void *arg, const struct endpoint_row *r)
{
    struct sequencer *q = arg;
    struct endpoint *e = endpoint_new(q, r->id, r->name);

    e->grant = r->grant;
    e->config = r->config;
    e->ordered = r->ordered;
    e->state = (enum endpoint_state)r->state;
    e->since_ms = r->since_ms;
    wire_copy(e->why, sizeof e->why, wire_text(r->why));
    e->failing_ms = r->failing_ms;
    e->failing_for_ms = e->failing_saved_ms = r->failing_for_ms;
    e->healthy = r->healthy;
    e->held_ms = r->held_ms;
    e->held_status = r->held_status;
    e->resumed_ms = r->resumed_ms;
    e->warned = r->warned;
    e->paused_ms = r->paused_ms;
    e->gone_after = r->gone_after;
    if (!r->grant)
        return;
    e->home = grants_deliverer(q, r->home);
    lookup_put(&q->grants, r->grant, q->endpoint_count - 1);
}

static void read_endpoints(struct sequencer *q)
{
    store_endpoints(q->store, on_endpoint_row, q);
    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];

        e->halts = store_halt_count(q->lanes, e->id);
        if (!e->grant)
            continue;
        e->out = store_count_in_flight(q->store, e->id, e->grant);
        e->home->out += e->out;
    }
}

void grants_open(struct sequencer *q)
{
    store_deliverers(q->store, on_deliverer_row, q);
    read_endpoints(q);
    q->configure = true;
}

static void forget_endpoints(struct sequencer *q)
{
    for (size_t i = 0; i < q->endpoint_count; i++)
        buf_fini(&q->endpoints[i].carried);
    free(q->endpoints);
    lookup_fini(&q->names);
    lookup_fini(&q->grants);
    subscriptions_free(q->subscriptions);
    q->subscriptions = NULL;
    q->endpoints = NULL;
    q->endpoint_count = 0;
}

/* Its id is never given again, so that nothing that still names it means another. */
void grants_forget_gone(struct sequencer *q)
{
    int count = store_endpoints_forget(q->store, q->next_event, forget_acts, q);

    if (!count)
        return;
    log_info(NULL, "removed endpoints that nothing is kept of are forgotten",
             LI("count", count));
    grants_undo(q);
}

/* Endpoints, and which disk each deliverer has, as our disk has them (another
 * disk is to be noticed again); who was heard when is not on it and stays.
 * A recall that is forgotten here is made again when it is still wanted. */
void grants_undo(struct sequencer *q)
{
    forget_endpoints(q);
    for (size_t i = 0; i < q->deliverer_count; i++) {
        q->deliverers[i]->out = 0;
        q->deliverers[i]->store = 0;
    }
    store_deliverers(q->store, on_deliverer_row, q);
    read_endpoints(q);
    q->configure = true;
}

void grants_close(struct sequencer *q)
{
    forget_endpoints(q);
    for (size_t i = 0; i < q->deliverer_count; i++) {
        free(q->deliverers[i]->wanted);
        free(q->deliverers[i]);
    }
    free(q->deliverers);
    q->deliverers = NULL;
    q->deliverer_count = 0;
}
