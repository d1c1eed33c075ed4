/* replay: applies an operator's decision to send an event again. */
#include "replay.h"
#include "actions.h"
#include "choice.h"
#include "dead_letters.h"
#include "event_intake.h"
#include "headers.h"
#include "json_text.h"
#include "lanes.h"
#include "log.h"
#include "managed_endpoints.h"
#include "operational.h"
#include "outcomes.h"
#include "publication.h"
#include "route.h"
#include "show_endpoints.h"
#include "split.h"
#include "store.h"
#include "tenants.h"
#include "workspace_erase.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_MS = 100, /* between looks at deliveries that wait for a copy */
    LOOK_MAX = 64,
};

/* A stored event that is sent again. */
struct reopening {
    struct sequencer *q;
    uint64_t action_id;
    struct event_row ev;
    struct bytes headers, body; /* as they were received */
    int opened, tried_now;
    /* As which publication the event is routed now; NULL: it is not routed again. */
    const struct publication *routed;
};

/* ---- one delivery ---- */

/* How hard to try, as the event is routed now; the caller's. */
static char *choice_for(const struct reopening *a, const struct endpoint *e)
{
    const struct sequencer *q = a->q;

    if (!a->routed)
        return NULL;
    return choice_text(a->routed,
                       q->subscriptions
                           ? subscriptions_chosen_by(q->subscriptions,
                                                     (size_t)(e - q->endpoints))
                           : NULL,
                       a->ev.received_ms, true);
}

/* The copy that a deliverer may have keeps its policy. */
static void choose_again(struct reopening *a, const struct endpoint *e,
                         struct delivery *d)
{
    if (!a->routed)
        return;
    free(d->retry_choice);
    d->retry_choice = choice_for(a, e);
    delivery_save(a->q->deliveries, d);
}

/* `ordered` may have changed since the event was routed. */
static struct lane lane_now(struct sequencer *q, struct endpoint *e,
                            const struct event_row *ev,
                            const struct delivery *d)
{
    return lanes_of_reopened(e, lanes_workspace(q, ev->workspace),
                             ev->ordering_key,
                             choice_priority(d->retry_choice));
}

static void open_one(struct reopening *a, struct endpoint *e)
{
    struct sequencer *q = a->q;
    struct delivery d;

    if (!delivery_load(q->deliveries, a->ev.n, e->id, &d)) {
        d = (struct delivery){.event = a->ev.n,
                              .route_order = q->next_route_order++,
                              .action_id = a->action_id,
                              .reopened_ms = q->d.loop.now_ms,
                              .retry_choice = choice_for(a, e)};
        delivery_add(q, e, lane_now(q, e, &a->ev, &d), &d, NULL, NULL);
        a->opened++;
    } else if (d.status < DELIVERY_DELIVERED) {
        actions_try_now(q, e, &d);
        a->tried_now++;
    } else if (d.action_id != a->action_id && d.grant_id) {
        /* Its deliverer has a copy: replay_work() reopens it. */
        choose_again(a, e, &d);
        store_reopening_add(q->store, a->ev.n, e->id, a->action_id);
        q->reopenings = true;
        a->opened++;
    } else if (d.action_id != a->action_id) {
        choose_again(a, e, &d);
        delivery_reopen(q, e, &d, lane_now(q, e, &a->ev, &d), a->action_id);
        a->opened++;
    }
    delivery_fini(&d);
}

/* ---- to which endpoints ---- */

/* Endpoints by id, in no order; one may occur twice. */
struct ids {
    int64_t *ids;
    size_t count;
};

static void add_id(struct ids *all, int64_t id)
{
    all->ids = gr_realloc(all->ids, (all->count + 1) * sizeof *all->ids);
    all->ids[all->count++] = id;
}

static void on_delivery(void *arg, const struct delivery *d,
                        const char *endpoint)
{
    (void)endpoint;
    add_id(arg, d->endpoint);
}

/* The endpoints that are subscribed to the event by the current configuration. */
static void add_subscribed(struct reopening *a, const struct publication *u,
                           struct ids *all)
{
    struct sequencer *q = a->q;
    struct subject s = {.source = a->ev.source,
                        .type = a->ev.type,
                        .workspace = a->ev.workspace,
                        .headers = a->headers,
                        .body = a->body};
    const size_t *subscribed = NULL;
    size_t count = 0;

    if (q->subscriptions)
        subscribed = subscriptions_ask(q->subscriptions, &s, &count);
    for (size_t i = 0; i < count; i++)
        if (!u->is || published_for(&u->p, q->endpoints[subscribed[i]].name))
            add_id(all, q->endpoints[subscribed[i]].id);
    if (managed_count(q))
        subscribed = managed_subscribed(q, &s, &count);
    else
        count = 0;
    for (size_t i = 0; i < count; i++)
        if (!u->is || published_for(&u->p, q->endpoints[subscribed[i]].name))
            add_id(all, q->endpoints[subscribed[i]].id);
    a->routed = u;
    subject_fini(&s);
}

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* As in routing.c: an endpoint of one workspace hears only of endpoints of that workspace, also if an
 * operator sends the event there. Of other events, those of another workspace need an operator
 * who names the endpoint: it may have served that workspace when it had the event. */
static bool may_hear(const struct reopening *a, const struct endpoint *e,
                     bool named)
{
    bool operational = strcmp(a->ev.source, OPERATIONAL_SOURCE) == 0;
    char *workspace = operational || !named ? managed_workspace(a->q, e->id)
                                            : NULL;
    bool may = !workspace ||
               (operational ? tenant_has_event(a->q, workspace, &a->ev)
                            : strcmp(workspace, a->ev.workspace) == 0);

    if (!may)
        log_warn(a->ev.id,
                 "not sent again to an endpoint of one workspace, which this "
                 "event does not concern",
                 LS("endpoint", e->name));
    free(workspace);
    return may;
}

/* Open the deliveries to endpoints that had the event or are subscribed to it today. `only`: to
 * no other endpoint than this; NULL: to all. */
static void open_all(struct reopening *a, const struct publication *u,
                     const struct endpoint *only, bool always)
{
    struct sequencer *q = a->q;
    struct ids all = {0};

    add_subscribed(a, u, &all);
    if (always) /* to this one, whether it is subscribed or not */
        all.count = 0;
    if (always || (only && delivery_exists(q->deliveries, a->ev.n, only->id)))
        add_id(&all, only->id);
    else if (!only)
        deliveries_of_event(q->deliveries, a->ev.n, on_delivery, &all);
    if (all.count)
        qsort(all.ids, all.count, sizeof *all.ids, compare_ids);
    for (size_t i = 0; i < all.count; i++) {
        struct endpoint *e = endpoint_by_id(q, all.ids[i]);

        if (e && (i == 0 || all.ids[i - 1] != e->id) &&
            (always || (endpoint_is_configured(e) &&
                        !(e->settings && e->settings->internal))) &&
            (!only || e == only) && may_hear(a, e, only)) {
            endpoint_wake(q, e);
            open_one(a, e);
        }
    }
    free(all.ids);
}

static void say(const struct reopening *a, struct bytes endpoint)
{
    char *to = wire_dup(endpoint);

    log_info(a->ev.id, "sent again by an operator", LO("endpoint", to),
             LI("opened", a->opened), LI("tried_now", a->tried_now));
    free(to);
}

/* Store the body as it is delivered: of a producer's request that is only a part. */
static void keep_body(struct reopening *a, const struct publication *u)
{
    struct bytes headers, body;
    bool damaged = store_body(a->q->store, a->ev.n, &headers, &body) &&
                   store_body_damaged(a->q->store);

    store_body_done(a->q->store);
    if (damaged) /* the copy in ingress's archive replaces it */
        store_body_drop(a->q->store, a->ev.n);
    if (u->is)
        store_body_add(a->q->store, a->ev.n,
                       (struct bytes){u->headers.data, u->headers.len},
                       (struct bytes){u->body.data, u->body.len});
    else
        store_body_add(a->q->store, a->ev.n, a->headers, a->body);
}

/* Reads what a producer or a relay published, also one that is no longer configured: its endpoints
 * must not get the object as it was published. What came from any other source is sent as it
 * is, even if it looks like such an object. GR_REFUSE: it cannot be read. */
static gr_rc read_published(const struct reopening *a, int64_t received_ms,
                            struct publication *u)
{
    const struct settings *s = a->q->d.settings;
    struct bytes kind;

    if (settings_source(s, a->ev.source) ||
        (!settings_producer(s, a->ev.source) &&
         !headers_get(a->headers, PUBLISHED_PAYLOAD, &kind, NULL)) ||
        publication_read(u, a->headers, a->body, a->ev.id, received_ms) ==
            GR_OK)
        return GR_OK;
    log_warn(a->ev.id,
             "not sent again: what its producer or relay published can no "
             "longer be read",
             LS("error", u->why));
    return GR_REFUSE;
}

static void send_again(struct reopening *a, const struct wire_replayed *m)
{
    struct sequencer *q = a->q;
    struct publication u = {0};
    char *only;
    struct endpoint *e;

    if (read_published(a, m->received_ms, &u) != GR_OK) {
        publication_fini(&u);
        return;
    }
    only = wire_dup(m->endpoint);
    e = *only ? endpoint_find(q, only) : NULL;
    keep_body(a, &u);
    if (e || !*only)
        open_all(a, &u, e, e && m->always);
    event_maybe_drop_body(q, a->ev.n);
    q->metrics[METRIC_REPLAYED] += a->opened;
    publication_fini(&u);
    free(only);
    say(a, m->endpoint);
}

/* ---- from the archive ---- */

/* Find the body of one event in a request that carries several. */
static bool part_body(const struct wire_replayed *m, struct bytes *body)
{
    char request[EVENT_ID_BYTES + 1], id[EVENT_ID_BYTES + 1];
    struct split parts = {0};
    const char *why;
    bool found = false;

    wire_copy(request, sizeof request, m->request_id);
    if (split_body(m->body, &parts, &why) != GR_OK)
        parts.count = 0;
    for (size_t i = 0; i < parts.count && !found; i++) {
        split_id(id, request, i);
        found = wire_is(m->event_id, id);
        if (found)
            *body = parts.parts[i];
    }
    split_fini(&parts);
    return found;
}

/* The event is unknown here, or gets a new id. */
static gr_rc take_as_new(struct sequencer *q, const char *from,
                         const struct wire_replayed *m, struct bytes body)
{
    struct wire_accepted accepted = {
        .event_id = m->new_id.n ? m->new_id : m->event_id,
        .source = m->source,
        .received_ms = m->new_id.n ? m->at_ms : m->received_ms,
        .remote = m->remote,
        .headers = m->headers,
        .body = body};
    gr_rc rc = intake_replayed(q, from, &accepted, m);
    int64_t n = m->new_id.n ? 0 : store_event_n(q->store, m->event_id);

    if (rc == GR_OK && n)
        outcomes_sent_again(q, from, n, m->action_id);
    return rc;
}

gr_rc replay_taken(struct sequencer *q, const char *from,
                   const struct wire_replayed *m)
{
    struct reopening a = {
        .q = q, .action_id = m->action_id, .headers = m->headers};
    struct bytes body = m->body;

    if (m->event_id.n != EVENT_ID_BYTES || m->request_id.n != EVENT_ID_BYTES ||
        (m->new_id.n && m->new_id.n != EVENT_ID_BYTES) || !m->action_id ||
        m->endpoint.n > NAME_MAX_BYTES || !headers_valid(m->headers))
        return GR_REFUSE;
    if (q->disk_low)
        return GR_AGAIN;
    if (memcmp(m->event_id.p, m->request_id.p, EVENT_ID_BYTES) != 0 &&
        !part_body(m, &body))
        return GR_REFUSE;
    if (m->new_id.n || !store_event_by_id(q->store, m->event_id, &a.ev))
        return take_as_new(q, from, m, body);
    a.body = body;
    if (workspace_is_erased_label(a.ev.workspace))
        log_warn(a.ev.id, "not sent again: its workspace was erased");
    else if (a.ev.status == EVENT_ROUTED)
        send_again(&a, m);
    else
        log_warn(a.ev.id, "not sent again: it was never released",
                 LS("status", event_status_plain(a.ev.status)));
    outcomes_sent_again(q, from, a.ev.n, m->action_id);
    event_fini(&a.ev);
    return GR_OK;
}

void replay_stored(struct sequencer *q, const struct event_row *ev,
                   struct bytes headers, struct bytes body,
                   const char *endpoint, bool always)
{
    struct reopening a = {.q = q,
                          .action_id = random_id(),
                          .ev = *ev,
                          .headers = headers,
                          .body = body};

    send_again(&a, &(struct wire_replayed){.endpoint = wire_text(endpoint),
                                           .always = always,
                                           .received_ms = ev->received_ms});
}

/* ---- a dead letter, to another endpoint ---- */

/* Add the event of a dead letter that is unknown here, as this database is older. */
static bool adopt(struct reopening *a, const struct wire_redirected *m)
{
    struct wire_requeued r = {.event_id = m->event_id,
                              .endpoint = m->to,
                              .source = m->source,
                              .provider_id = m->provider_id,
                              .type = m->type,
                              .workspace = m->workspace,
                              .received_ms = m->received_ms,
                              .sequence = m->sequence,
                              .clock = m->clock,
                              .headers = m->headers,
                              .body = m->body};

    dead_letters_adopt(a->q, &r);
    return store_event_by_id(a->q->store, m->event_id, &a->ev);
}

gr_rc replay_redirected(struct sequencer *q, const struct wire_redirected *m)
{
    struct reopening a = {.q = q, .action_id = m->action_id};
    char *to;

    if (m->event_id.n != EVENT_ID_BYTES || !m->action_id || !m->to.n ||
        m->to.n > NAME_MAX_BYTES || !headers_valid(m->headers))
        return GR_REFUSE;
    if (workspace_erased(q, m->workspace))
        return GR_OK;
    if (!store_event_by_id(q->store, m->event_id, &a.ev) && !adopt(&a, m))
        return GR_REFUSE;
    to = wire_dup(m->to);
    store_body_add(q->store, a.ev.n, m->headers, m->body);
    /* An endpoint that was forgotten is added again, as a removed one: the delivery is then
     * dead-lettered with that reason. */
    open_one(&a, endpoint_adopt(q, to));
    event_maybe_drop_body(q, a.ev.n);
    outcomes_changed(q, a.ev.n);
    q->metrics[METRIC_REPLAYED] += a.opened;
    say(&a, m->to);
    free(to);
    event_fini(&a.ev);
    return GR_OK;
}

/* ---- deliveries that wait for a copy ---- */

static void look(struct sequencer *q, int64_t event, int64_t endpoint,
                 uint64_t action_id)
{
    struct endpoint *e = endpoint_by_id(q, endpoint);
    struct delivery d = {0};
    struct event_row ev = {0};
    bool there = e && store_event(q->store, event, &ev) &&
                 delivery_load(q->deliveries, event, endpoint, &d);

    if (!there || !d.grant_id || d.status < DELIVERY_DELIVERED) {
        store_reopening_drop(q->store, event, endpoint);
        /* A requeue (action_id 0) reopens only a delivery that is still dead. */
        if (there && d.status >= DELIVERY_DELIVERED &&
            (action_id || d.status == DELIVERY_DEAD))
            delivery_reopen(q, e, &d, lane_now(q, e, &ev, &d), action_id);
    }
    delivery_fini(&d);
    event_fini(&ev);
}

int replay_work(struct sequencer *q)
{
    struct reopening_row rows[LOOK_MAX];
    int n;

    if (!q->reopenings)
        return -1;
    if (q->d.loop.mono_ms - q->reopenings_ms < LOOK_MS)
        return LOOK_MS;
    q->reopenings_ms = q->d.loop.mono_ms;
    n = store_reopenings(q->store, q->reopenings_after, LOOK_MAX, rows);
    for (int i = 0; i < n; i++)
        look(q, rows[i].event, rows[i].endpoint, rows[i].action_id);
    q->reopenings = n > 0 || q->reopenings_after > 0;
    q->reopenings_after = n == LOOK_MAX ? rows[n - 1].event : 0;
    return LOOK_MS;
}

/* ---- facts about events ---- */

static void on_part(void *arg, const struct event_row *e, enum event_end end)
{
    (void)end;
    json_array_append_new(arg, json_string(e->id));
}

/* May the endpoint be subscribed to the event? Its `where` and a producer's list of endpoints
 * need headers and body, which are not stored any more. */
static bool may_be_subscribed(struct sequencer *q, const struct endpoint *to,
                              struct subject *s)
{
    const struct settings *all = q->d.settings;
    struct subscription own = route_own_subscription(to->settings);
    bool subscribed = to->managed || route_has_own(all, to->settings);

    own.where = &(const struct where){0};
    subscribed = subscribed && subscription_takes(&own, s, NULL);
    for (size_t i = 0; i < all->route_count && !subscribed; i++) {
        struct subscription r = route_subscription(&all->routes[i]);

        r.where = own.where;
        subscribed = route_names(&all->routes[i], to->name) &&
                     subscription_takes(&r, s, NULL);
    }
    return subscribed && to->settings->enabled;
}

/* Would a replay to this endpoint send it? null: only its headers and body tell, which the
 * archive has. */
static json_t *subscribed_json(struct sequencer *q, const struct event_row *e,
                               struct endpoint *to)
{
    struct subject s = {.source = e->source,
                        .type = e->type,
                        .workspace = e->workspace,
                        .gone = true};
    bool has = delivery_exists(q->deliveries, e->n, to->id), may, does;

    if (!has)
        endpoint_wake(q, to);
    if (has || !to->settings)
        return json_boolean(has);
    may = may_be_subscribed(q, to, &s);
    does = may && route_is_subscribed(q->d.settings, to->settings, &s, NULL) &&
           !settings_producer(q->d.settings, e->source);
    subject_fini(&s);
    return does ? json_true() : may ? json_null() : json_false();
}

struct reasons {
    json_t *list;
    const struct endpoint *only;
};

static void add_reason(void *arg, const struct delivery *d,
                       const char *endpoint)
{
    struct reasons *r = arg;

    (void)endpoint;
    if (d->status == DELIVERY_DEAD && (!r->only || r->only->id == d->endpoint))
        json_array_append_new(r->list, json_text_of(d->reason));
}

static json_t *facts_of(struct sequencer *q, const struct event_row *e,
                        struct endpoint *to)
{
    bool erased = e->status == EVENT_ROUTED &&
                  workspace_is_erased_label(e->workspace);
    json_t *out = json_pack("{s:s,s:s,s:o,s:o,s:o}", "id", e->id, "status",
                            erased ? "erased" : event_status_plain(e->status),
                            "workspace", json_text_of(e->workspace),
                            "duplicate_of", json_text_or_null(e->duplicate_of),
                            "events", json_array());
    struct reasons reasons = {json_array(), to};
    int64_t n = e->n, request = store_part_of(q->store, n);
    struct event_row whole = {0};

    json_object_set_new(out, "source", json_text_of(e->source));
    json_object_set_new(out, "type", json_text_of(e->type));
    json_object_set_new(out, "subscribed",
                        to ? subscribed_json(q, e, to) : json_true());
    deliveries_of_event(q->deliveries, n, add_reason, &reasons);
    json_object_set_new(out, "reasons", reasons.list);
    if (e->status == EVENT_SPLIT)
        store_parts(q->store, n, on_part, json_object_get(out, "events"));
    if (request && store_event(q->store, request, &whole))
        json_object_set_new(out, "request", json_string(whole.id));
    event_fini(&whole);
    return out;
}

json_t *replay_facts(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    json_t *ids = json_object_get(args, "ids"), *id, *out, *one;
    const char *name = json_string_value(json_object_get(args, "endpoint"));
    struct endpoint *to = name ? endpoint_find(q, name) : NULL;
    struct event_row e = {0};
    size_t i;

    if (name && (!to || !endpoint_is_configured(to))) {
        endpoint_unknown(q, name, why);
        return NULL;
    }
    out = json_array();
    json_array_foreach(ids, i, id)
    {
        one = store_event_by_id(q->store, wire_text(json_string_value(id)), &e)
                  ? facts_of(q, &e, to)
                  : json_null();
        event_fini(&e);
        json_array_append_new(out, one);
    }
    return json_pack("{s:o}", "events", out);
}
