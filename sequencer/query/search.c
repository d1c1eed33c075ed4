/* search: lists events and deliveries, newest first. A search skips blocks that cannot have a
 * match (search_filters.h), uses an index for rare statuses, and ends a search for open
 * deliveries at the oldest one. */
#include "search.h"
#include "clock.h"
#include "glob.h"
#include "json_text.h"
#include "provider_ids.h"
#include "search_filters.h"
#include "store_search.h"
#include "tenants.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LIMIT_USUAL = 100,
    LOOK_MAX = 5000,      /* rows read for one request */
    SKIP_MAX = 1500,      /* blocks skipped for one request */
    STEPS_MIN = 100,      /* rows and blocks that each request gets through */
    WORK_US = 3000,       /* for more steps; writing what is found takes 6 ms */
    STEPS_PER_LOOK = 64,  /* at the clock, which is a system call */
    COUNTED_MAX = 100000, /* by store_open_figures() */
    ANY = -1,
    KNOWN_ENDPOINTS = 64,
    SAME_ID_PIECE = 32, /* events with a provider's id, found at once */
};

struct query {
    const char *workspace, *source, *type, *endpoint, *status;
    const char *tenant; /* only what belongs to it; NULL: all */
    /* Whose the last endpoints are, as a tenant's search looks at each delivery of others, too. */
    struct {
        int64_t endpoint; /* 0: the place is free */
        bool own;
    } known[KNOWN_ENDPOINTS];
    int64_t only; /* the endpoint's id */
    int64_t since_ms, until_ms, limit;
    bool any_event; /* deliveries: no filter compares their events */
    struct filter_query filters;
    /* Continue below (event, endpoint_id). */
    int64_t event, endpoint_id;
    int64_t min; /* the first event to search */
    int looked, skipped;
    int next_look;    /* at the clock: after so many rows and blocks */
    int64_t began_us; /* thread_us() */
    bool late;        /* its time is over */
    bool more;        /* there is more below */
};

/* ---- the request ---- */

static json_t *cursor(const struct query *w)
{
    char text[80];

    snprintf(text, sizeof text, "%" PRId64 ".%" PRId64 ".%" PRId64, w->event,
             w->endpoint_id, w->min);
    return w->more ? json_string(text) : json_null();
}

static bool is_pattern(const char *text)
{
    return strchr(text, '*') != NULL;
}

static void add_to_query(struct query *w, enum filter_kind what,
                         const char *name)
{
    if (name && !is_pattern(name))
        filter_query_add(&w->filters, what, name);
}

static const char *text_arg(json_t *args, const char *key)
{
    return json_string_value(json_object_get(args, key));
}

static int64_t number_arg(json_t *args, const char *key, int64_t otherwise)
{
    json_t *v = json_object_get(args, key);

    return json_is_integer(v) && json_integer_value(v) > 0
               ? json_integer_value(v)
               : otherwise;
}

static bool read_query(struct query *w, json_t *args, char why[200])
{
    const char *before = text_arg(args, "before");
    int end = 0;

    *w = (struct query){
        .workspace = text_arg(args, "workspace"),
        .source = text_arg(args, "source"),
        .type = text_arg(args, "type"),
        .endpoint = text_arg(args, "endpoint"),
        .status = text_arg(args, "status"),
        .tenant = tenant_of(args),
        .since_ms = number_arg(args, "since_ms", 0),
        .until_ms = number_arg(args, "until_ms", INT64_MAX),
        .limit = number_arg(args, "limit", LIMIT_USUAL),
        .event = INT64_MAX,
        .endpoint_id = INT64_MAX,
        .next_look = STEPS_MIN,
        .began_us = thread_us(),
        .more = true,
    };
    w->any_event = !w->workspace && !w->source && !w->type && !w->tenant &&
                   w->since_ms == 0 && w->until_ms == INT64_MAX;
    w->filters.since_ms = w->since_ms;
    w->filters.until_ms = w->until_ms;
    add_to_query(w, FILTER_SOURCE, w->source);
    add_to_query(w, FILTER_TYPE, w->type);
    add_to_query(w, FILTER_WORKSPACE, w->workspace);
    if (w->tenant)
        filter_query_add(&w->filters, FILTER_WORKSPACE, w->tenant);
    if (!before || (sscanf(before, "%" SCNd64 ".%" SCNd64 ".%" SCNd64 "%n",
                           &w->event, &w->endpoint_id, &w->min, &end) == 3 &&
                    end > 0 && !before[end]))
        return true;
    control_fail(why, CONTROL_INVALID,
                 "\"before\" must be the \"next\" of a reply");
    return false;
}

/* A search for open deliveries begins at the event of the oldest one. */
static void from_oldest_open(struct sequencer *q, struct query *w)
{
    struct open_figures open;
    int64_t all = 0;

    if (w->min)
        return;
    open = store_open_figures(q->store, NULL, 0);
    for (int i = 0; i < DELIVERY_DELIVERED; i++)
        all += open.counts[i];
    w->min = !open.oldest ? INT64_MAX
             : all < COUNTED_MAX
                 ? open.oldest
                 : 1; /* there may be older ones that were not counted */
}

/* ---- the walk ---- */

/* Whether the request has done its part: the caller goes on from "next". */
static bool is_spent(struct query *w)
{
    int steps = w->looked + w->skipped;

    if (steps >= w->next_look) {
        w->next_look = steps + STEPS_PER_LOOK;
        w->late = w->late || thread_us() - w->began_us >= WORK_US;
    }
    return w->late || w->looked >= LOOK_MAX || w->skipped >= SKIP_MAX;
}

/* The next events to look at: from *min, below the position, which moves past skipped blocks.
 * false: there are no more (w->more is false), or the request is spent. */
static bool next_span(struct sequencer *q, struct query *w, int64_t *min)
{
    for (; !is_spent(w); w->skipped++) {
        /* There may be other deliveries of the event itself. */
        bool within = w->endpoint_id > 0 && w->event < INT64_MAX;
        int64_t n = store_event_below(q->search, w->event + within);

        if (n < 1 || n < w->min) {
            w->more = false;
            return false;
        }
        *min = n / FILTER_EVENTS * FILTER_EVENTS;
        if (search_filters_may_match(q->search_filters, n, &w->filters))
            return true;
        w->event = *min;
        w->endpoint_id = 0;
    }
    return false;
}

static bool enough(struct query *w, const json_t *list)
{
    return (int64_t)json_array_size(list) >= w->limit || is_spent(w);
}

/* Continues below the span. false: the response is complete. */
static bool leave_span(struct query *w, int64_t min, const json_t *list)
{
    if (enough(w, list))
        return false;
    w->event = min;
    w->endpoint_id = 0;
    return true;
}

static bool takes(const char *glob, const char *text)
{
    return !glob || glob_match(glob, text);
}

static bool takes_event(const struct query *w, const struct event_row *e)
{
    return takes(w->source, e->source) && takes(w->type, e->type) &&
           takes(w->workspace, e->workspace) && e->received_ms >= w->since_ms &&
           e->received_ms < w->until_ms;
}

/* ---- events ---- */

/* How to find events of this status: among ANY, or by the index of rare ones. */
static int status_of(const char *name)
{
    static const struct {
        const char *name;
        int status;
    } rare[] = {{"duplicate", EVENT_DUPLICATE},
                {"refused", EVENT_REFUSED},
                {"buffered", EVENT_BUFFERED},
                {"ignored", EVENT_IGNORED}};

    for (size_t i = 0; name && i < COUNT_OF(rare); i++)
        if (strcmp(name, rare[i].name) == 0)
            return rare[i].status;
    return ANY;
}

static bool takes_endpoint(struct sequencer *q, const struct query *w,
                           int64_t id)
{
    const struct endpoint *e;

    if (!w->endpoint)
        return true;
    if (w->only)
        return id == w->only;
    e = endpoint_by_id(q, id);
    return e && glob_match(w->endpoint, e->name);
}

static bool is_of_tenant(struct sequencer *q, struct query *w, int64_t endpoint)
{
    size_t i = (size_t)endpoint % KNOWN_ENDPOINTS;

    if (!w->tenant)
        return true;
    if (w->known[i].endpoint != endpoint) {
        w->known[i].endpoint = endpoint;
        w->known[i].own = tenant_has_endpoint(q, w->tenant, endpoint);
    }
    return w->known[i].own;
}

struct receivers {
    struct sequencer *q;
    struct query *w;
    bool found;
};

static void on_receiver(void *arg, int64_t endpoint)
{
    struct receivers *r = arg;

    r->w->looked++;
    r->found = r->found || (takes_endpoint(r->q, r->w, endpoint) &&
                            is_of_tenant(r->q, r->w, endpoint));
}

/* Whether the event has a delivery to the endpoint, or to one that matches the pattern. */
static bool reaches_endpoint(struct sequencer *q, struct query *w,
                             int64_t event)
{
    struct receivers r = {q, w, false};

    if (!w->endpoint)
        return true;
    if (w->only)
        return delivery_exists(q->deliveries, event, w->only);
    store_filter_endpoints(q->search, event, event + 1, on_receiver, &r);
    return r.found;
}

/* `e` has at least what store_events_next() reads. It reaches the endpoint. */
static void add_event(struct sequencer *q, const struct query *w,
                      const struct event_row *e, json_t *list)
{
    struct event_row whole = {0};
    enum event_end end;

    if (!takes_event(w, e) || !tenant_has_event(q, w->tenant, e))
        return;
    end = store_event_end(q->store, e->n);
    if (w->status && strcmp(w->status, event_status_name(e, end)) != 0)
        return;
    if (store_event(q->store, e->n, &whole))
        json_array_append_new(list, w->tenant
                                        ? event_json_of_tenant(&whole, end)
                                        : event_json(&whole, end));
    event_fini(&whole);
}

/* false: the response is complete. */
static bool look_at_events(struct sequencer *q, struct query *w, int status,
                           int64_t min, json_t *list)
{
    struct event_row e;

    store_events(q->search, status, min, w->event);
    while (!enough(w, list) && store_events_next(q->search, &e)) {
        w->looked++;
        w->event = e.n;
        w->endpoint_id = 0;
        if (takes_event(w, &e) && reaches_endpoint(q, w, e.n))
            add_event(q, w, &e, list);
    }
    store_events_done(q->search);
    return leave_span(w, min, list);
}

/* Finds events by their deliveries. All deliveries of an expired event are dead, so search the index of dead
 * ones. */
static bool look_at_receivers(struct sequencer *q, struct query *w,
                              bool expired, int64_t min, json_t *list)
{
    struct found_row r;
    const struct event_row *e;

    store_walk(q->search, expired, min, w->event, w->endpoint_id);
    while (!enough(w, list) && store_walk_next(q->search, &r)) {
        w->looked++;
        w->event = r.event;
        w->endpoint_id = r.endpoint_id;
        if (w->endpoint && !(takes_endpoint(q, w, r.endpoint_id) &&
                             is_of_tenant(q, w, r.endpoint_id)))
            continue;
        w->endpoint_id = 0; /* skips its other deliveries */
        if ((!expired || (store_walk_found(q->search, &r) &&
                          strcmp(r.reason, "expired") == 0)) &&
            (e = store_walk_event(q->search, &r)) != NULL)
            add_event(q, w, e, list);
        store_walk_done(q->search);
        store_walk(q->search, expired, min, w->event, w->endpoint_id);
    }
    store_walk_done(q->search);
    return leave_span(w, min, list);
}

/* Restrict the search to the named endpoint. false: there is no such endpoint. */
static bool ask_endpoint(struct sequencer *q, struct query *w)
{
    const struct endpoint *e;

    if (!w->endpoint || is_pattern(w->endpoint))
        return true;
    e = endpoint_find(q, w->endpoint);
    if (e && !tenant_has_endpoint(q, w->tenant, e->id))
        e = NULL;
    w->only = e ? e->id : 0;
    if (e)
        filter_query_add_endpoint(&w->filters, e->id);
    return e != NULL;
}

static void search_events(struct sequencer *q, struct query *w, int status,
                          json_t *list)
{
    bool expired = w->status && strcmp(w->status, "expired") == 0;
    int64_t min;

    if (w->status && strcmp(w->status, "routed") == 0)
        from_oldest_open(q, w);
    w->more = ask_endpoint(q, w);
    if (w->more && status != ANY)
        w->more = !look_at_events(q, w, status, w->min, list);
    else
        while (w->more && next_span(q, w, &min) &&
               (expired || (w->endpoint && !w->only)
                    ? look_at_receivers(q, w, expired, min, list)
                    : look_at_events(q, w, ANY, min, list)))
            ;
}

/* ---- events by the id that the provider gave ---- */

json_t *events_unread(const struct sequencer *q, char why[200])
{
    control_fail(why, CONTROL_BUSY,
                 q->disk_low
                     ? "after an upgrade all events must be read once, which "
                       "waits for free space on the disk; until then only evt_ "
                       "ids are known"
                     : "after an upgrade all events are read once, which takes "
                       "some seconds; ask again");
    return NULL;
}

bool events_of_provider_id(struct sequencer *q, const char *id, event_fn *fn,
                           void *arg, char why[200])
{
    int64_t found[SAME_ID_MAX];
    int n = provider_ids_find(q->provider_ids, NULL, id, INT64_MAX, SAME_ID_MAX,
                              found);

    if (n < 0)
        return events_unread(q, why);
    store_each_event(q->search, found, n, fn, arg);
    return true;
}

/* A search by such an id. */
struct by_id {
    struct sequencer *q;
    struct query *w;
    json_t *list;
};

static void on_same_id(void *arg, const struct event_row *e)
{
    struct by_id *b = arg;

    if (takes_event(b->w, e) && reaches_endpoint(b->q, b->w, e->n))
        add_event(b->q, b->w, e, b->list);
}

static bool search_by_id(struct sequencer *q, struct query *w, const char *id,
                         json_t *list, char why[200])
{
    struct by_id b = {q, w, list};
    int64_t found[SAME_ID_PIECE];

    w->more = ask_endpoint(q, w);
    while (w->more && !enough(w, list)) {
        int i = 0, n = provider_ids_find(q->provider_ids, NULL, id, w->event,
                                         SAME_ID_PIECE, found);

        if (n < 0)
            return events_unread(q, why);
        for (; i < n && !enough(w, list); i++) {
            w->looked++;
            w->event = found[i];
            w->endpoint_id = 0;
            store_each_event(q->search, &found[i], 1, on_same_id, &b);
        }
        w->more = i < n || n == SAME_ID_PIECE;
    }
    return true;
}

json_t *events_search(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct query w;
    const char *id;
    json_t *list;
    int status;

    if (!read_query(&w, args, why))
        return NULL;
    status = status_of(w.status);
    list = json_array();
    id = text_arg(args, "id");
    if (!id) {
        search_events(q, &w, status, list);
    } else if (!search_by_id(q, &w, id, list, why)) {
        json_decref(list);
        return NULL;
    }
    return json_pack("{s:o,s:o}", "events", list, "next", cursor(&w));
}

/* ---- deliveries ---- */

static bool takes_status(const struct query *w, int status)
{
    return !w->status ||
           (strcmp(w->status, "open") == 0
                ? status < DELIVERY_DELIVERED
                : strcmp(w->status, delivery_status_name(status)) == 0);
}

static void add_delivery(struct sequencer *q, struct found_row *r, json_t *list)
{
    const struct endpoint *to = endpoint_by_id(q, r->endpoint_id);
    bool open = r->status < DELIVERY_DELIVERED;

    if (!to || !store_walk_found(q->search, r))
        return;
    json_array_append_new(
        list,
        json_pack(
            "{s:s,s:s,s:s,s:s,s:o,s:o,s:o,s:I,s:o,s:o,s:o,s:o,s:o}", "event_id",
            r->event_id, "endpoint", to->name, "status",
            delivery_status_name(r->status), "source", r->source, "type",
            json_text_of(r->type), "workspace", json_text_of(r->workspace),
            "sequence", json_number_or_null(r->sequence), "attempts",
            (json_int_t)r->attempts, "last_http_status",
            json_number_or_null(r->http_status), "last_error",
            json_text_or_null(r->error), "reason",
            json_text_or_null(delivery_has_failed(r->status) ? r->reason : ""),
            "received_at", json_time(r->received_ms), "next_attempt_at",
            json_time(open ? r->next_ms : 0)));
}

/* What costs least is compared first: most rows do not match. */
static bool is_match(struct sequencer *q, struct query *w,
                     const struct found_row *r)
{
    const struct event_row *e;

    if (!takes_status(w, r->status) || !takes_endpoint(q, w, r->endpoint_id))
        return false;
    if (w->any_event)
        return true;
    e = store_walk_event(q->search, r);
    return e && takes_event(w, e) &&
           (!w->tenant || strcmp(w->tenant, e->workspace) == 0) &&
           is_of_tenant(q, w, r->endpoint_id);
}

/* false: the response is complete. */
static bool look_at_deliveries(struct sequencer *q, struct query *w, bool dead,
                               int64_t min, json_t *list)
{
    struct found_row r;

    store_walk(q->search, dead, min, w->event, w->endpoint_id);
    while (!enough(w, list) && store_walk_next(q->search, &r)) {
        w->looked++;
        w->event = r.event;
        w->endpoint_id = r.endpoint_id;
        if (is_match(q, w, &r))
            add_delivery(q, &r, list);
    }
    store_walk_done(q->search);
    return leave_span(w, min, list);
}

json_t *deliveries_search(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct query w;
    bool dead;
    json_t *list;
    int64_t min;

    if (!read_query(&w, args, why))
        return NULL;
    dead = w.status && strcmp(w.status, "dead") == 0;
    if (w.status && !dead && strcmp(w.status, "delivered") != 0 &&
        strcmp(w.status, "abandoned") != 0)
        from_oldest_open(q, &w);
    list = json_array();
    w.more = ask_endpoint(q, &w);
    while (w.more && next_span(q, &w, &min) &&
           look_at_deliveries(q, &w, dead, min, list))
        ;
    return json_pack("{s:o,s:o}", "deliveries", list, "next", cursor(&w));
}
