#include "replay.h"
#include "acts.h"
#include "blocks.h"
#include "event_json.h"
#include "headers.h"
#include "json_text.h"
#include "lane.h"
#include "log.h"
#include "publication.h"
#include "route.h"
#include "split.h"
#include "store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_MS = 100, /* at those that wait for a copy */
    LOOK_MOST = 64,
    FACTS_MOST = 500,
};

/* An event that is here, and what is to be done. Texts are copies. */
struct again {
    struct sequencer *q;
    uint64_t act;
    int64_t n;
    char *id, *source, *type, *workspace;
    int status;
    uint64_t sequence;
    struct bytes headers, body; /* as they came in */
    int opened, tried_now;
};

static bool find(struct again *a, struct bytes id)
{
    struct event_row ev;
    bool there = store_event_by_id(a->q->store, id, &ev);

    if (there) {
        a->n = ev.n;
        a->id = gr_strdup(ev.id);
        a->source = gr_strdup(ev.source);
        a->type = gr_strdup(ev.type);
        a->workspace = gr_strdup(ev.workspace);
        a->status = ev.status;
        a->sequence = ev.sequence;
    }
    store_done(a->q->store);
    return there;
}

static void fini(struct again *a)
{
    free(a->id);
    free(a->source);
    free(a->type);
    free(a->workspace);
}

/* ---- one delivery ---- */

/* Which one delivered stands in the delivery's own row, that is about to tell
 * of the next. Its own id is not known any more; a life has one such. */
static void keep_success(struct sequencer *q, const struct delivery_row *d)
{
    struct wire_result r = {.attempt_id = (uint64_t)-d->life,
                            .attempts = (uint64_t)d->attempts,
                            .at_ms = d->at_ms,
                            .duration_ms = d->duration_ms,
                            .http_status = (uint64_t)d->http_status,
                            .error = {"", 0}};

    store_attempt_add(q->store, d->event, d->endpoint, &r, d->deliverer);
}

/* Its place is before all that wait in its lane. The lane may be of another
 * kind than it was. What it died of stays in the row until it is tried: the
 * letter that says so may not have left yet. */
void replay_wake(struct sequencer *q, struct delivery_row *d,
                 struct endpoint *e, const char *workspace, uint64_t act)
{
    int64_t lane = lanes_of(e, lanes_workspace(q, workspace));

    trace_keep_end(q, d, e->name);
    if (d->status == DELIVERY_DELIVERED)
        keep_success(q, d);
    else
        d->died = d->life;
    d->lane = lane;
    /* A halted lane lets by what stands no later than the letter that halts it. */
    d->behind = lane_is_ordered(lane);
    d->status = DELIVERY_WAITING;
    d->life++;
    d->act = act;
    d->earlier = d->attempts;
    d->grant = d->out_n = 0;
    d->first_ms = d->next_ms = d->paused_ms = 0;
    d->reopened_ms = q->d.loop.now_ms;
    if (!act)
        d->error = d->reason = "";
    d->deliverer = "";
    store_delivery_set(q->store, d);
    if (d->behind)
        lanes_freed(q, e, lane);
    else
        e->waiting = true;
}

/* It never had one here. */
static void give(struct again *a, struct endpoint *e)
{
    struct sequencer *q = a->q;
    struct workspace *ws = lanes_workspace(q, a->workspace);
    struct delivery_row d = {.event = a->n,
                             .endpoint = e->id,
                             .status = DELIVERY_WAITING,
                             .lane = lanes_of(e, ws),
                             .place = q->next_place++,
                             .act = a->act,
                             .reopened_ms = q->d.loop.now_ms};

    d.behind = lanes_busy(q, e, d.lane);
    e->waiting = e->waiting || !d.behind;
    store_delivery_add(q->store, &d);
    blocks_note_endpoint(q->blocks, d.event, d.endpoint);
    a->opened++;
}

static void again_later(struct again *a, struct endpoint *e)
{
    store_again_add(a->q->store, a->n, e->id, a->act);
    a->q->agains = true;
    a->opened++;
}

/* A copy of the row's texts: waking writes the row that they are read from. */
static void wake(struct again *a, struct delivery_row *d, struct endpoint *e)
{
    char *texts[] = {gr_strdup(d->error), gr_strdup(d->reason),
                     gr_strdup(d->deliverer)};

    d->error = texts[0];
    d->reason = texts[1];
    d->deliverer = texts[2];
    store_delivery_done(a->q->store);
    replay_wake(a->q, d, e, a->workspace, a->act);
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        free(texts[i]);
    a->opened++;
}

/* It is still being delivered: its next attempt is now. */
static void try_now(struct again *a, struct delivery_row *d, struct endpoint *e)
{
    store_delivery_done(a->q->store);
    acts_try_now(a->q, e, d);
    a->tried_now++;
}

static void open_one(struct again *a, struct endpoint *e)
{
    struct delivery_row d;
    bool there = store_delivery(a->q->store, a->n, e->id, &d);

    if (!there)
        give(a, e);
    else if (d.status < DELIVERY_DELIVERED)
        try_now(a, &d, e);
    else if (d.act != a->act && d.grant)
        again_later(a, e);
    else if (d.act != a->act)
        wake(a, &d, e);
    store_delivery_done(a->q->store);
}

/* ---- which ---- */

static bool has_delivery(struct again *a, const struct endpoint *e)
{
    struct delivery_row d;
    bool has = store_delivery(a->q->store, a->n, e->id, &d);

    store_delivery_done(a->q->store);
    return has;
}

struct marking {
    struct sequencer *q;
    bool *marked; /* by place in q->endpoints */
};

static void mark(void *arg, const struct delivery_row *d, const char *endpoint)
{
    struct marking *m = arg;
    const struct endpoint *e = endpoint_by_id(m->q, d->endpoint);

    (void)endpoint;
    if (e)
        m->marked[e - m->q->endpoints] = true;
}

/* Those that want it today. */
static void mark_wanting(struct again *a, const struct publication *u,
                         bool *marked)
{
    struct sequencer *q = a->q;
    struct subject s = {.source = a->source,
                        .type = a->type,
                        .workspace = a->workspace,
                        .headers = a->headers,
                        .body = a->body};
    const size_t *wanting = NULL;
    size_t count = 0;

    if (q->subscriptions)
        wanting = subscriptions_ask(q->subscriptions, &s, &count);
    for (size_t i = 0; i < count; i++)
        marked[wanting[i]] =
            !u->is || published_for(&u->p, q->endpoints[wanting[i]].name);
    subject_fini(&s);
}

/* All that had it, and those that want it today; only `e`, unless that is
 * NULL. */
static void open_all(struct again *a, const struct publication *u,
                     const struct endpoint *only)
{
    struct sequencer *q = a->q;
    struct marking m = {q, gr_alloc(q->endpoint_count * sizeof(bool))};

    mark_wanting(a, u, m.marked);
    if (!only)
        store_event_deliveries(q->store, a->n, mark, &m);
    else if (has_delivery(a, only))
        m.marked[only - q->endpoints] = true;
    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];

        if (m.marked[i] && e->settings && !e->settings->internal &&
            (!only || e == only))
            open_one(a, e);
    }
    free(m.marked);
}

static void say(const struct again *a, struct bytes endpoint)
{
    char *to = wire_dup(endpoint);

    log_info(a->id, "sent again by an operator", LO("endpoint", to),
             LI("opened", a->opened), LI("tried_now", a->tried_now));
    free(to);
}

/* What the archive has takes the place of what was damaged here. */
static void drop_damaged_body(struct again *a)
{
    struct bytes headers, body;
    bool damaged = store_body(a->q->store, a->n, &headers, &body) &&
                   store_body_damaged(a->q->store);

    store_body_done(a->q->store);
    if (damaged)
        store_body_drop(a->q->store, a->n);
}

/* What endpoints get of a producer's event is not what came in. */
static void keep_body(struct again *a, const struct publication *u)
{
    drop_damaged_body(a);
    if (u->is)
        store_body_add(a->q->store, a->n,
                       (struct bytes){u->headers.data, u->headers.len},
                       (struct bytes){u->body.data, u->body.len});
    else
        store_body_add(a->q->store, a->n, a->headers, a->body);
}

static void send_again(struct again *a, const struct wire_replayed *m)
{
    struct sequencer *q = a->q;
    struct publication u = {0};
    char *only = wire_dup(m->endpoint);
    struct endpoint *e = *only ? endpoint_find(q, only) : NULL;

    if (settings_producer(q->d.settings, a->source) &&
        !settings_source(q->d.settings, a->source) &&
        publication_read(&u, a->headers, a->body, a->id, m->received_ms) !=
            GR_OK)
        log_warn(a->id, "a producer's event can't be read any more",
                 LS("error", u.why));
    keep_body(a, &u);
    if (e && m->always)
        open_one(a, e);
    else if (e || !*only)
        open_all(a, &u, e);
    body_maybe_drop(q, a->n);
    q->metrics[METRIC_REPLAYED] += a->opened;
    publication_fini(&u);
    free(only);
    say(a, m->endpoint);
}

/* ---- from the archive ---- */

/* The body of one event of a request of several. */
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

static bool same(struct bytes a, struct bytes b)
{
    return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

static gr_rc take_as_new(struct sequencer *q, const struct wire_replayed *m,
                         struct bytes body)
{
    struct wire_accepted accepted = {
        .event_id = m->new_id.n ? m->new_id : m->event_id,
        .source = m->source,
        .received_ms = m->new_id.n ? m->at_ms : m->received_ms,
        .remote = m->remote,
        .headers = m->headers,
        .body = body};

    return intake_replayed(q, &accepted, m);
}

gr_rc replay_taken(struct sequencer *q, const struct wire_replayed *m)
{
    struct again a = {.q = q, .act = m->act, .headers = m->headers};
    struct bytes body = m->body;

    if (m->event_id.n != EVENT_ID_BYTES || m->request_id.n != EVENT_ID_BYTES ||
        (m->new_id.n && m->new_id.n != EVENT_ID_BYTES) || !m->act ||
        m->endpoint.n > NAME_MAX_BYTES || !headers_valid(m->headers))
        return GR_REFUSE;
    if (q->no_room)
        return GR_AGAIN;
    if (!same(m->event_id, m->request_id) && !part_body(m, &body))
        return GR_REFUSE;
    if (m->new_id.n || !find(&a, m->event_id))
        return take_as_new(q, m, body);
    a.body = body;
    if (a.status == EVENT_ROUTED)
        send_again(&a, m);
    else
        log_warn(a.id, "not sent again: it was never let go",
                 LS("status",
                    event_status_name(&(struct event_row){.status = a.status},
                                      END_OPEN)));
    fini(&a);
    return GR_OK;
}

/* ---- a letter, to another endpoint ---- */

/* An event that we do not have: our database is older than the letter. */
static bool adopt(struct again *a, const struct wire_redirected *m)
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

    letters_adopt(a->q, &r);
    return find(a, m->event_id);
}

gr_rc replay_redirected(struct sequencer *q, const struct wire_redirected *m)
{
    struct again a = {.q = q, .act = m->act};
    char *to;

    if (m->event_id.n != EVENT_ID_BYTES || !m->act || !m->to.n ||
        m->to.n > NAME_MAX_BYTES || !headers_valid(m->headers))
        return GR_REFUSE;
    if (!find(&a, m->event_id) && !adopt(&a, m))
        return GR_REFUSE;
    to = wire_dup(m->to);
    store_body_add(q->store, a.n, m->headers, m->body);
    /* One that is gone is there again as a removed one: it dies of that. */
    open_one(&a, endpoint_adopt(q, to));
    body_maybe_drop(q, a.n);
    q->metrics[METRIC_REPLAYED] += a.opened;
    say(&a, m->to);
    free(to);
    fini(&a);
    return GR_OK;
}

/* ---- those that wait for a copy ---- */

static void look(struct sequencer *q, int64_t event, int64_t endpoint,
                 uint64_t act)
{
    struct endpoint *e = endpoint_by_id(q, endpoint);
    struct again a = {.q = q, .act = act, .n = event};
    struct delivery_row d;
    struct event_row ev;
    bool there = e && store_event(q->store, event, &ev) &&
                 store_delivery(q->store, event, endpoint, &d);

    a.workspace = there ? gr_strdup(ev.workspace) : NULL;
    store_done(q->store);
    if (!there || !d.grant || d.status < DELIVERY_DELIVERED) {
        store_again_drop(q->store, event, endpoint);
        /* A requeue (act 0) is only for what is still dead. */
        if (there && d.status >= DELIVERY_DELIVERED &&
            (act || d.status == DELIVERY_DEAD))
            wake(&a, &d, e);
    }
    store_delivery_done(q->store);
    fini(&a);
}

int replay_work(struct sequencer *q)
{
    struct again_row rows[LOOK_MOST];
    int n;

    if (!q->agains)
        return -1;
    if (q->d.loop.mono_ms - q->agains_ms < LOOK_MS)
        return LOOK_MS;
    q->agains_ms = q->d.loop.mono_ms;
    n = store_agains(q->store, q->agains_after, LOOK_MOST, rows);
    for (int i = 0; i < n; i++)
        look(q, rows[i].event, rows[i].endpoint, rows[i].act);
    q->agains = n > 0 || q->agains_after > 0;
    q->agains_after = n == LOOK_MOST ? rows[n - 1].event : 0;
    return LOOK_MS;
}

/* ---- what is known of them ---- */

static void on_part(void *arg, const struct event_row *e, enum event_end end)
{
    (void)end;
    json_array_append_new(arg, json_string(e->id));
}

/* Is the endpoint subscribed to it, whatever its `where`, and the list of endpoints
 * of a producer's event, would say of headers and body that are not kept here? */
static bool may_want(struct sequencer *q, const struct endpoint *to,
                     struct subject *s)
{
    const struct settings *all = q->d.settings;
    struct subscription own = route_own_subscription(to->settings);
    bool wants = route_has_own(all, to->settings);

    own.where = &(const struct where){0};
    wants = wants && subscription_takes(&own, s, NULL);
    for (size_t i = 0; i < all->route_count && !wants; i++) {
        struct subscription r = route_subscription(&all->routes[i]);

        r.where = own.where;
        wants = route_names(&all->routes[i], to->name) &&
                subscription_takes(&r, s, NULL);
    }
    return wants && to->settings->enabled;
}

/* Would a replay to this endpoint send it? null: that is known only from its headers
 * and body, which the archive has. */
static json_t *wanted_json(struct sequencer *q, const struct event_row *e,
                           struct endpoint *to)
{
    struct subject s = {.source = e->source,
                        .type = e->type,
                        .workspace = e->workspace,
                        .gone = true};
    struct delivery_row d;
    bool has = store_delivery(q->store, e->n, to->id, &d), may, does;

    store_delivery_done(q->store);
    if (has || !to->settings)
        return json_boolean(has);
    may = may_want(q, to, &s);
    does = may && route_wants(q->d.settings, to->settings, &s, NULL) &&
           !settings_producer(q->d.settings, e->source);
    subject_fini(&s);
    return does ? json_true() : may ? json_null() : json_false();
}

struct reasons {
    json_t *list;
    const struct endpoint *only;
};

static void add_reason(void *arg, const struct delivery_row *d,
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
    static const char *const names[] = {
        [EVENT_ROUTED] = "routed",   [EVENT_DUPLICATE] = "duplicate",
        [EVENT_REFUSED] = "refused", [EVENT_BUFFERED] = "buffered",
        [EVENT_IGNORED] = "ignored", [EVENT_SPLIT] = "split"};
    json_t *out = json_pack(
        "{s:s,s:s,s:o,s:o,s:o}", "id", e->id, "status", names[e->status],
        "workspace", json_text_of(e->workspace), "duplicate_of",
        json_text_or_null(e->duplicate_of), "events", json_array());
    struct reasons reasons = {json_array(), to};
    int64_t n = e->n, request = store_part_of(q->store, n);
    bool split = e->status == EVENT_SPLIT;
    struct event_row whole;

    json_object_set_new(out, "source", json_text_of(e->source));
    json_object_set_new(out, "type", json_text_of(e->type));
    json_object_set_new(out, "wanted",
                        to ? wanted_json(q, e, to) : json_true());
    store_event_deliveries(q->store, n, add_reason, &reasons);
    json_object_set_new(out, "reasons", reasons.list);
    store_done(q->store); /* `e` ends here */
    if (split)
        store_parts(q->store, n, on_part, json_object_get(out, "events"));
    if (request && store_event(q->store, request, &whole))
        json_object_set_new(out, "request", json_string(whole.id));
    store_done(q->store);
    return out;
}

json_t *replay_facts(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    json_t *ids = json_object_get(args, "ids"), *id, *out, *one;
    const char *name = json_string_value(json_object_get(args, "endpoint"));
    struct endpoint *to = name ? endpoint_find(q, name) : NULL;
    struct event_row e;
    size_t i;

    if (name && !to) {
        endpoint_unknown(q, name, why);
        return NULL;
    }

    if (json_array_size(ids) < 1 || json_array_size(ids) > FACTS_MOST) {
        snprintf(why, 200, "\"ids\" must be a list of 1 to %d", FACTS_MOST);
        return NULL;
    }
    out = json_array();
    json_array_foreach(ids, i, id)
    {
        const char *text = json_string_value(id);

        one = text && store_event_by_id(q->store, wire_text(text), &e)
                  ? facts_of(q, &e, to)
                  : json_null();
        store_done(q->store);
        json_array_append_new(out, one);
    }
    return json_pack("{s:o}", "events", out);
}
