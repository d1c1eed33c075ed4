/* actions: what an operator does with a single open delivery: try it now, or abandon it. */
#include "actions.h"
#include "clock.h"
#include "dead_letters.h"
#include "json_text.h"
#include "log.h"
#include "outcomes.h"
#include "show_endpoints.h"
#include "store.h"
#include "store_lanes.h"
#include "store_search.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ABANDONED_BYTES = 16, /* of "abandoned by : " */
    SILENT_MS = 5000,     /* a deliverer sends a heartbeat every second */
};

/* ---- try it now ---- */

void actions_try_now(struct sequencer *q, struct endpoint *e,
                     struct delivery *d)
{
    d->next_ms = d->status == DELIVERY_RETRYING ? q->d.loop.now_ms : 0;
    delivery_save(q->deliveries, d);
    outcomes_changed(q, d->event);
    /* A delivery under a revoked grant comes back, and is then dispatched as due. */
    if (delivery_is_out(e, d) && !e->revoking)
        links_put(q->d.links, e->owner->name, WIRE_KIND_RETRY_NOW,
                  delivery_ref(d->event, e->id));
}

/* What the retry leads to, for the operator. */
struct prospect {
    const char *result;
    char why[300];
};

static void look_at_lane(struct sequencer *q, const struct endpoint *e,
                         const struct delivery *d, struct prospect *p)
{
    int64_t route_order;
    bool halted = e->halts &&
                  store_halted(q->lanes, e->id, delivery_lane(d),
                               &route_order) &&
                  d->route_order > route_order;

    p->result = "behind";
    snprintf(p->why, sizeof p->why,
             halted ? "a dead letter halts its lane: `grapnel endpoints %s` "
                      "shows it; retry, resolve or discard it"
                    : "%s is ordered; an earlier event of the same lane has to "
                      "end first",
             e->name);
}

static struct prospect prospect_of(struct sequencer *q,
                                   const struct endpoint *e,
                                   const struct delivery *d)
{
    struct prospect p = {.result = "queued"};

    if (!endpoint_is_configured(e)) {
        p.result = "removed";
        snprintf(p.why, sizeof p.why,
                 "%s is no longer in the configuration: the delivery becomes a "
                 "dead letter",
                 e->name);
    } else if (e->settings && !e->settings->enabled) {
        p.result = "off";
        snprintf(
            p.why, sizeof p.why,
            "%s has `enabled: false`: the attempt follows when you change that",
            e->name);
    } else if (endpoint_is_stopped(e)) {
        p.result = e->state == ENDPOINT_PAUSED ? "paused" : "disabled";
        snprintf(p.why, sizeof p.why,
                 "%s is %s: the attempt follows when you resume it (`grapnel "
                 "endpoints resume %s`)",
                 e->name, p.result, e->name);
    } else if (d->behind) {
        look_at_lane(q, e, d, &p);
    } else if (!e->owner) {
        p.result = "no_deliverer";
        snprintf(p.why, sizeof p.why,
                 "no deliverer is running: the attempt follows when one runs");
    } else if (!e->owner->heartbeat_ms ||
               q->d.loop.mono_ms - e->owner->heartbeat_ms > SILENT_MS) {
        p.result = "no_deliverer";
        snprintf(p.why, sizeof p.why,
                 "%s does not respond: the attempt follows when it runs again, "
                 "or when another deliverer takes over",
                 e->owner->name);
    } else if (d->status == DELIVERY_IN_FLIGHT) {
        p.result = "in_flight";
        snprintf(p.why, sizeof p.why,
                 "an attempt is in progress, or the next one, at %s",
                 e->owner->name);
    } else if (delivery_is_out(e, d) && !e->revoking) {
        p.result = "now";
    } else {
        snprintf(p.why, sizeof p.why,
                 "due now: a deliverer gets it as soon as %s has capacity",
                 e->name);
    }
    return p;
}

static json_t *prospect_json(const struct endpoint *e, const struct delivery *d,
                             bool accepted, const struct prospect *p)
{
    return json_pack("{s:s,s:s,s:b,s:s,s:o,s:I,s:o}", "endpoint", e->name,
                     "status", delivery_status_name(d->status), "accepted",
                     accepted, "result", p->result, "why",
                     json_text_or_null(p->why), "attempts",
                     (json_int_t)d->attempts, "deliverer",
                     e->owner ? json_string(e->owner->name) : json_null());
}

/* ---- which deliveries ---- */

struct chosen {
    struct sequencer *q;
    const struct endpoint *only; /* NULL: all of the event's */
    int64_t *endpoints;          /* ids, in the order of names */
    size_t count;
};

static void choose(void *arg, const struct delivery *d, const char *endpoint)
{
    struct chosen *c = arg;

    (void)endpoint;
    if (c->only && c->only->id != d->endpoint)
        return;
    c->endpoints = gr_realloc(c->endpoints,
                              (c->count + 1) * sizeof *c->endpoints);
    c->endpoints[c->count++] = d->endpoint;
}

/* The event of args.event; 0: `why` says what is wrong. */
static int64_t event_of(struct sequencer *q, json_t *args, char why[200])
{
    const char *id = json_string_value(json_object_get(args, "event"));
    int64_t n = store_event_n(q->store, wire_text(id));

    if (!n)
        control_fail(why, CONTROL_NOT_FOUND, "no event has the id %.60s", id);
    return n;
}

/* The endpoint of args.endpoint; NULL: it is not given. false: there is no such endpoint. */
static bool endpoint_of(struct sequencer *q, json_t *args,
                        struct endpoint **out, char why[200])
{
    const char *name = json_string_value(json_object_get(args, "endpoint"));

    *out = name ? endpoint_find(q, name) : NULL;
    if (name && !*out)
        endpoint_unknown(q, name, why);
    return !name || *out;
}

static const char *who_of(json_t *args)
{
    const char *who = json_string_value(json_object_get(args, "who"));

    return who && *who ? who : "an operator";
}

/* ---- retry ---- */

static json_t *retry_one(struct sequencer *q, const char *event_id,
                         struct endpoint *e, struct delivery *d,
                         const char *who)
{
    struct prospect p;

    if (d->status >= DELIVERY_DELIVERED) {
        p.result = delivery_status_name(d->status);
        snprintf(p.why, sizeof p.why,
                 d->status == DELIVERY_DEAD
                     ? "it is a dead letter: `grapnel dlq retry %s` sends it "
                       "again with a new budget"
                 : d->status == DELIVERY_ABANDONED
                     ? "it was abandoned, as its endpoint is temporary: "
                       "`grapnel resend %s` delivers it again"
                     : "it is already delivered: `grapnel resend %s` delivers "
                       "it again",
                 event_id);
        return prospect_json(e, d, false, &p);
    }
    p = prospect_of(q, e, d);
    actions_try_now(q, e, d);
    store_action_note(q->search, q->d.loop.now_ms, "event", event_id,
                      "retry at %s asked for by %s", e->name, who);
    log_info(event_id, "an operator retries a delivery now",
             LS("endpoint", e->name), LS("result", p.result),
             LI("attempts", d->attempts));
    return prospect_json(e, d, true, &p);
}

json_t *actions_retry(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *id = json_string_value(json_object_get(args, "event"));
    struct endpoint *only, *e;
    struct chosen c = {.q = q};
    struct delivery d;
    json_t *out = json_array();
    int64_t n = event_of(q, args, why);

    if (!n || !endpoint_of(q, args, &only, why)) {
        json_decref(out);
        return NULL;
    }
    c.only = only;
    deliveries_of_event(q->deliveries, n, choose, &c);
    for (size_t i = 0; i < c.count; i++) {
        e = endpoint_by_id(q, c.endpoints[i]);
        if (e && delivery_load(q->deliveries, n, e->id, &d)) {
            json_array_append_new(out, retry_one(q, id, e, &d, who_of(args)));
            delivery_fini(&d);
        }
    }
    free(c.endpoints);
    if (json_array_size(out))
        return json_pack("{s:s,s:o}", "id", id, "deliveries", out);
    control_fail(why, CONTROL_NOT_FOUND, "%.60s has no delivery%s%.60s", id,
                 only ? " to " : "", only ? only->name : "");
    json_decref(out);
    return NULL;
}

/* ---- abandon ---- */

/* Returns true when an attempt may be in flight. */
static bool abandon(struct sequencer *q, const char *event_id,
                    struct endpoint *e, struct delivery *d, const char *text,
                    const char *who)
{
    char *error = gr_printf("abandoned by %s: %s", who, text);
    bool in_flight = delivery_is_out(e, d) && d->status == DELIVERY_IN_FLIGHT;

    delivery_move(
        q, e, d, DELIVERY_DEAD,
        &(struct delivery_cause){.reason = "abandoned", .error = error});
    store_action_note(q->search, q->d.loop.now_ms, "event", event_id,
                      "abandoned at %s by %s: %s", e->name, who, text);
    log_warn(event_id, "an operator abandoned a delivery",
             LS("endpoint", e->name), LS("note", text),
             LI("attempts", d->attempts));
    free(error);
    return in_flight;
}

static bool may_abandon(const struct endpoint *e, const struct delivery *d,
                        const char *id, char why[200])
{
    if (d->status < DELIVERY_DELIVERED)
        return true;
    if (d->status == DELIVERY_ABANDONED)
        snprintf(why, 200, "%.60s is abandoned at %.60s already (%.30s)", id,
                 e->name, d->reason);
    else if (d->status == DELIVERY_DEAD)
        snprintf(why, 200, "%.60s is a dead letter of %.60s already (%.30s)",
                 id, e->name, d->reason);
    else
        snprintf(why, 200, "%.60s is already delivered to %.60s", id, e->name);
    return false;
}

json_t *actions_abandon(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *id = json_string_value(json_object_get(args, "event")),
               *text = json_string_value(json_object_get(args, "note"));
    char dead_letter[DEAD_LETTER_ID_BYTES];
    struct endpoint *e = NULL;
    struct delivery d;
    int64_t n = event_of(q, args, why);
    bool may, in_flight;

    if (!n || !endpoint_of(q, args, &e, why))
        return NULL;
    if (strlen(text) + strlen(who_of(args)) + ABANDONED_BYTES >
        TEXT_MAX_BYTES) {
        control_fail(why, CONTROL_INVALID,
                     "args.note: at most %zu bytes are possible",
                     TEXT_MAX_BYTES - ABANDONED_BYTES - strlen(who_of(args)));
        return NULL;
    }
    if (!delivery_load(q->deliveries, n, e->id, &d)) {
        control_fail(why, CONTROL_NOT_FOUND, "%.60s has no delivery to %.60s",
                     id, e->name);
        return NULL;
    }
    may = may_abandon(e, &d, id, why);
    in_flight = may && abandon(q, id, e, &d, text, who_of(args));
    delivery_fini(&d);
    dead_letter_id(dead_letter, id, e->name);
    return may ? json_pack("{s:s,s:s,s:o,s:b}", "id", id, "endpoint", e->name,
                           "dead_letter_id",
                           json_text_or_null(e->temporary ? "" : dead_letter),
                           "in_flight", in_flight)
               : NULL;
}
