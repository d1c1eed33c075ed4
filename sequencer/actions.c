#include "acts.h"
#include "clock.h"
#include "json_text.h"
#include "log.h"
#include "store.h"
#include "store_lanes.h"
#include "store_search.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NOTE_MAX_BYTES = 4000,
    SILENT_MS = 5000, /* a deliverer sends a heartbeat every second */
};

/* ---- try it now ---- */

/* Its deliverer has it, under the present grant. */
static bool is_out(const struct endpoint *e, const struct delivery_row *d)
{
    return d->grant && d->grant == e->grant && e->home;
}

void acts_try_now(struct sequencer *q, struct endpoint *e,
                  struct delivery_row *d)
{
    d->next_ms = d->status == DELIVERY_RETRYING ? q->d.loop.now_ms : 0;
    store_delivery_due(q->store, d->event, d->endpoint, d->next_ms);
    /* One that is being recalled comes back, and goes out again as due. */
    if (is_out(e, d) && !e->recalling)
        hop_put(q->d.hop, e->home->name, WIRE_KIND_RETRY_NOW,
                delivery_ref(d->event, e->id));
}

/* What becomes of the retry, and why, in words. */
struct prospect {
    const char *result;
    char why[300];
};

static bool is_silent(const struct sequencer *q, const struct deliverer *home)
{
    return !home->beat_ms || q->d.loop.mono_ms - home->beat_ms > SILENT_MS;
}

static void look_at_lane(struct sequencer *q, const struct endpoint *e,
                         const struct delivery_row *d, struct prospect *p)
{
    int64_t place;
    bool halted = e->halts && store_halted(q->lanes, e->id, d->lane, &place) &&
                  d->place > place;

    p->result = "behind";
    snprintf(p->why, sizeof p->why,
             halted ? "a dead letter halts its lane: `grapnel endpoints %s` "
                      "names it; retry, resolve or discard it"
                    : "%s is ordered and an earlier event of its lane comes "
                      "first: it is tried when that one has ended",
             e->name);
}

static struct prospect prospect_of(struct sequencer *q,
                                   const struct endpoint *e,
                                   const struct delivery_row *d)
{
    struct prospect p = {.result = "queued"};

    if (!e->settings) {
        p.result = "removed";
        snprintf(p.why, sizeof p.why,
                 "%s is not in the configuration any more: the delivery "
                 "becomes a dead letter",
                 e->name);
    } else if (!e->settings->enabled) {
        p.result = "off";
        snprintf(p.why, sizeof p.why,
                 "%s has `enabled: false`: it is tried when that is changed",
                 e->name);
    } else if (e->state != ENDPOINT_ACTIVE) {
        p.result = e->state == ENDPOINT_PAUSED ? "paused" : "disabled";
        snprintf(p.why, sizeof p.why,
                 "%s is %s: it is tried as soon as the endpoint is resumed "
                 "(`grapnel endpoints resume %s`)",
                 e->name, p.result, e->name);
    } else if (d->behind) {
        look_at_lane(q, e, d, &p);
    } else if (!e->home) {
        p.result = "no_deliverer";
        snprintf(p.why, sizeof p.why,
                 "no deliverer runs: it is tried as soon as one does");
    } else if (is_silent(q, e->home)) {
        p.result = "no_deliverer";
        snprintf(p.why, sizeof p.why,
                 "%s does not respond: it is tried as soon as that runs, or "
                 "when another deliverer takes over",
                 e->home->name);
    } else if (d->status == DELIVERY_IN_FLIGHT) {
        p.result = "in_flight";
        snprintf(p.why, sizeof p.why, "its attempt is under way, or next at %s",
                 e->home->name);
    } else if (is_out(e, d) && !e->recalling) {
        p.result = "now";
    } else {
        snprintf(p.why, sizeof p.why,
                 "it is due, and goes to a deliverer as soon as %s has "
                 "capacity",
                 e->name);
    }
    return p;
}

static json_t *prospect_json(const struct endpoint *e,
                             const struct delivery_row *d, bool accepted,
                             const struct prospect *p)
{
    return json_pack("{s:s,s:s,s:b,s:s,s:o,s:I,s:o}", "endpoint", e->name,
                     "status", delivery_status_name(d->status), "accepted",
                     accepted, "result", p->result, "why",
                     json_text_or_null(p->why), "attempts",
                     (json_int_t)d->attempts, "deliverer",
                     e->home ? json_string(e->home->name) : json_null());
}

/* ---- which deliveries ---- */

struct chosen {
    struct sequencer *q;
    const struct endpoint *only; /* NULL: all of the event's */
    int64_t *endpoints;          /* ids, in the order of names */
    size_t count;
};

static void choose(void *arg, const struct delivery_row *d,
                   const char *endpoint)
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
    int64_t n = id ? store_event_n(q->store, wire_text(id)) : 0;

    if (!id)
        snprintf(why, 200, "args.event: the id of an event is needed");
    else if (!n)
        snprintf(why, 200, "no event has the id %.60s", id);
    return n;
}

/* The endpoint of args.endpoint; false: it names none that there is. */
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

GR_PRINTF(3, 4)
static void note(struct sequencer *q, const char *event_id, const char *fmt,
                 ...)
{
    char *subject = gr_printf("event %s", event_id), *what = NULL;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&what, fmt, ap) >= 0)
        store_act_add(q->search, q->d.loop.now_ms, subject, what);
    va_end(ap);
    free(what);
    free(subject);
}

/* ---- retry ---- */

static json_t *retry_one(struct sequencer *q, const char *event_id,
                         struct endpoint *e, struct delivery_row *d,
                         const char *who)
{
    struct prospect p;

    store_delivery_done(q->store); /* its texts are not used below */
    if (d->status >= DELIVERY_DELIVERED) {
        p.result = delivery_status_name(d->status);
        snprintf(p.why, sizeof p.why,
                 d->status == DELIVERY_DEAD
                     ? "it is a dead letter: `grapnel dlq retry %s` sends it "
                       "again with a new budget"
                     : "it is delivered already: `grapnel resend %s` delivers "
                       "it again",
                 event_id);
        return prospect_json(e, d, false, &p);
    }
    p = prospect_of(q, e, d);
    acts_try_now(q, e, d);
    note(q, event_id, "retry at %s asked for by %s", e->name, who);
    log_info(event_id, "an operator has a delivery tried now",
             LS("endpoint", e->name), LS("result", p.result),
             LI("attempts", d->attempts));
    return prospect_json(e, d, true, &p);
}

json_t *acts_retry(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *id = json_string_value(json_object_get(args, "event"));
    struct endpoint *only, *e;
    struct chosen c = {.q = q};
    struct delivery_row d;
    json_t *out = json_array();
    int64_t n = event_of(q, args, why);

    if (!n || !endpoint_of(q, args, &only, why)) {
        json_decref(out);
        return NULL;
    }
    c.only = only;
    store_event_deliveries(q->store, n, choose, &c);
    for (size_t i = 0; i < c.count; i++) {
        e = endpoint_by_id(q, c.endpoints[i]);
        if (e && store_delivery(q->store, n, e->id, &d))
            json_array_append_new(out, retry_one(q, id, e, &d, who_of(args)));
        store_delivery_done(q->store);
    }
    free(c.endpoints);
    if (json_array_size(out))
        return json_pack("{s:s,s:o}", "id", id, "deliveries", out);
    snprintf(why, 200, "%.60s has no delivery%s%.60s", id, only ? " to " : "",
             only ? only->name : "");
    json_decref(out);
    return NULL;
}

/* ---- abandon ---- */

/* A copy of it is at its deliverer: that drops it, or waits for the attempt that is
 * under way, and responds; until then the grant stays in the row, and holds its lane
 * and its slot of the window. */
static void drop_copy(struct sequencer *q, struct endpoint *e,
                      const struct delivery_row *d)
{
    hop_put(q->d.hop, e->home->name, WIRE_KIND_DROPPED,
            delivery_ref(d->event, e->id));
    if (d->status == DELIVERY_RETRYING) { /* it was in no window */
        e->out++;
        e->home->out++;
    }
}

bool acts_give_up(struct sequencer *q, struct endpoint *e,
                  struct delivery_row *d, const char *reason, const char *error)
{
    char *by = gr_strdup(d->deliverer ? d->deliverer : "");
    bool out = is_out(e, d), in_flight = out && d->status == DELIVERY_IN_FLIGHT;

    store_delivery_done(q->store);
    if (out)
        drop_copy(q, e, d);
    else
        d->grant = 0;
    d->status = DELIVERY_DEAD;
    d->behind = false;
    d->next_ms = 0;
    d->error = error;
    d->reason = reason;
    d->deliverer = by;
    store_delivery_set(q->store, d);
    letters_dead(q, d, (struct bytes){"", 0});
    q->metrics[METRIC_DEAD]++;
    if (!d->grant) /* it halts no lane */
        lanes_freed(q, e, d->lane);
    d->deliverer = "";
    free(by);
    return in_flight;
}

/* Returns true when an attempt may be under way. */
static bool abandon(struct sequencer *q, const char *event_id,
                    struct endpoint *e, struct delivery_row *d,
                    const char *text, const char *who)
{
    char *error = gr_printf("abandoned by %s: %s", who, text);
    bool in_flight = acts_give_up(q, e, d, "abandoned", error);

    note(q, event_id, "abandoned at %s by %s: %s", e->name, who, text);
    log_warn(event_id, "an operator abandoned a delivery",
             LS("endpoint", e->name), LS("note", text),
             LI("attempts", d->attempts));
    free(error);
    return in_flight;
}

static bool may_abandon(const struct endpoint *e, const struct delivery_row *d,
                        const char *id, char why[200])
{
    if (d->status < DELIVERY_DELIVERED)
        return true;
    if (d->status == DELIVERY_DEAD)
        snprintf(why, 200, "%.60s is a dead letter of %.60s already (%.30s)",
                 id, e->name, d->reason);
    else
        snprintf(why, 200, "%.60s is delivered to %.60s already", id, e->name);
    return false;
}

json_t *acts_abandon(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *id = json_string_value(json_object_get(args, "event")),
               *text = json_string_value(json_object_get(args, "note"));
    char letter[LETTER_ID_BYTES];
    struct endpoint *e = NULL;
    struct delivery_row d;
    int64_t n = event_of(q, args, why);
    bool may, in_flight;

    if (!n || !endpoint_of(q, args, &e, why))
        return NULL;
    if (!e) {
        snprintf(why, 200, "args.endpoint: the name of an endpoint is needed");
        return NULL;
    }
    if (!text || !*text || strlen(text) > NOTE_MAX_BYTES) {
        snprintf(why, 200, "args.note: 1 to %d bytes are needed",
                 NOTE_MAX_BYTES);
        return NULL;
    }
    if (!store_delivery(q->store, n, e->id, &d)) {
        store_delivery_done(q->store);
        snprintf(why, 200, "%.60s has no delivery to %.60s", id, e->name);
        return NULL;
    }
    may = may_abandon(e, &d, id, why);
    in_flight = may && abandon(q, id, e, &d, text, who_of(args));
    store_delivery_done(q->store);
    letter_id(letter, id, e->name);
    return may ? json_pack("{s:s,s:s,s:s,s:b}", "id", id, "endpoint", e->name,
                           "letter_id", letter, "in_flight", in_flight)
               : NULL;
}
