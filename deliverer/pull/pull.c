/* pull: handles the commands of consumers, and keeps the callers that wait. */
#include "pull.h"
#include "clock.h"
#include "commands.h"
#include "deliverer.h"
#include "json_text.h"
#include "wire.h"
#include <stdlib.h>
#include <string.h>

enum {
    WAITING_MAX = 256, /* callers, in all … */
    WAITING_OF_ENDPOINT = 64,
    WAITING_OF_TOKEN = 16, /* … of one endpoint */
    TAKE_USUAL = 100,
    USES_REPORTED = 4, /* at least, in the life of a temporary endpoint */
    TAKEN_MAX_BYTES = 4096,
};

struct pull_waiter {
    TAILQ_ENTRY(pull_waiter) link;
    struct control_held *held;
    char endpoint[NAME_MAX_BYTES + 1];
    int64_t max, lease_ms, until_ms; /* until_ms: mono */
    char *actor, *tenant;            /* tenant: NULL: takes of all workspaces */
    struct act_by by;                /* owner, key and digest are owned */
};

void pull_open(struct deliverer *d)
{
    TAILQ_INIT(&d->pull.waiting);
}

static void forget(struct deliverer *d, struct pull_waiter *w)
{
    TAILQ_REMOVE(&d->pull.waiting, w, link);
    d->pull.count--;
    free((char *)(uintptr_t)w->by.owner);
    free((char *)(uintptr_t)w->by.key);
    free((char *)(uintptr_t)w->by.digest);
    free(w->actor);
    free(w->tenant);
    free(w);
}

void pull_close(struct deliverer *d)
{
    struct pull_waiter *w;

    while ((w = TAILQ_FIRST(&d->pull.waiting))) {
        control_drop(w->held);
        forget(d, w);
    }
}

/* ---- temporary endpoints ---- */

/* A consumer takes from it, or waits for deliveries. */
static void note_use(struct deliverer *d, struct grant *g)
{
    struct granted_endpoint *e = &g->endpoint;
    int64_t every_ms = d->daemon.settings->temporary.ttl_ms / USES_REPORTED;

    if (every_ms > MINUTE_MS)
        every_ms = MINUTE_MS;
    if (e->temporary && (!e->reported_ms ||
                         d->daemon.loop.mono_ms - e->reported_ms >= every_ms))
        e->report_use = d->pull.report_use = true;
}

static void send_taken(struct deliverer *d, struct grant *g)
{
    char to[INBOX_MAX_BYTES + 1];
    struct buf frame;

    mailbox_address_of(d->daemon.mailbox, SEQUENCER, to);
    buf_init(&frame, TAKEN_MAX_BYTES);
    wire_put_taken(
        &frame, &(struct wire_taken){
                    .from = wire_text(d->daemon.name),
                    .inbox = wire_text(mailbox_address(d->daemon.mailbox, to)),
                    .grant = g->id});
    if (mailbox_send(d->daemon.mailbox, to,
                     (struct bytes){frame.data, frame.len}) == GR_OK) {
        g->endpoint.reported_ms = d->daemon.loop.mono_ms;
        g->endpoint.report_use = false;
    }
    buf_fini(&frame);
}

void pull_flush(struct deliverer *d)
{
    struct grant *g = NULL;

    if (!d->pull.report_use)
        return;
    d->pull.report_use = false;
    while ((g = own_grants_next(d, g))) {
        if (g->endpoint.report_use)
            send_taken(d, g);
    }
}

/* ---- take ---- */

static json_t *nothing(void)
{
    return json_pack("{s:n,s:n,s:[]}", "take", "until", "deliveries");
}

static json_t *refuse_other_deliverer(const char *name, char why[200])
{
    control_fail(why, CONTROL_NOT_OWNER,
                 "this deliverer does not have the endpoint %.60s now", name);
    return NULL;
}

/* An earlier request had this key. true: *reply is its take, or NULL and `why`. */
static bool is_known(struct deliverer *d, const struct act_by *by,
                     json_t **reply, char why[200])
{
    const struct pull_waiter *w;

    TAILQ_FOREACH(w, &d->pull.waiting, link)
    if (*by->key && strcmp(w->by.key, by->key) == 0 &&
        strcmp(w->by.owner, by->owner) == 0) {
        *reply = NULL;
        control_fail(why, CONTROL_IN_PROGRESS,
                     "a request with this idempotency key waits for "
                     "deliveries");
        return true;
    }
    switch (takes_again(d, by, reply)) {
    case TAKE_NEW:
        return false;
    case TAKE_SAME:
        return true;
    case TAKE_OTHER:
        control_fail(why, CONTROL_KEY_REUSED,
                     "another request had this idempotency key: use a new key "
                     "for each take");
        return true;
    case TAKE_OVER:
        control_fail(why, CONTROL_REFUSED,
                     "the take of this idempotency key has ended: use a new "
                     "key for the next one");
        return true;
    case TAKE_BUSY:
        control_fail(why, CONTROL_BUSY,
                     "the sequencer has not confirmed the endpoint: try again");
        return true;
    }
    return false;
}

static bool has_space(const struct deliverer *d, const char *endpoint,
                      const char *actor, char why[200])
{
    int of_endpoint = 0, of_token = 0;
    const struct pull_waiter *w;

    TAILQ_FOREACH(w, &d->pull.waiting, link)
    if (strcmp(w->endpoint, endpoint) == 0) {
        of_endpoint++;
        of_token += strcmp(w->actor, actor) == 0;
    }
    if (of_token < WAITING_OF_TOKEN && of_endpoint < WAITING_OF_ENDPOINT &&
        d->pull.count < WAITING_MAX)
        return true;
    control_fail(why, CONTROL_BUSY,
                 "too many requests wait for deliveries: the limits are %d of "
                 "a token and %d in all for an endpoint, and %d for a "
                 "deliverer",
                 WAITING_OF_TOKEN, WAITING_OF_ENDPOINT, WAITING_MAX);
    return false;
}

static json_t *wait_for(struct deliverer *d, const struct grant *g,
                        const char *tenant, int64_t max, int64_t lease_ms,
                        int64_t wait_ms)
{
    const struct act_by *by = control_by(d->daemon.control);
    struct pull_waiter *w = gr_alloc(sizeof *w);

    *w = (struct pull_waiter){.max = max,
                              .lease_ms = lease_ms,
                              .until_ms = d->daemon.loop.mono_ms + wait_ms,
                              .actor = gr_strdup(by->actor),
                              .tenant = tenant ? gr_strdup(tenant) : NULL,
                              .by = {.owner = gr_strdup(by->owner),
                                     .key = gr_strdup(by->key),
                                     .digest = gr_strdup(by->digest)}};
    memcpy(w->endpoint, g->name, sizeof w->endpoint);
    TAILQ_INSERT_TAIL(&d->pull.waiting, w, link);
    d->pull.count++;
    return control_hold(d->daemon.control, &w->held);
}

static int64_t number(const json_t *args, const char *name, int64_t otherwise)
{
    const json_t *v = json_object_get(args, name);

    return v ? json_integer_value(v) : otherwise;
}

json_t *pull_take(void *self, json_t *args, char why[200])
{
    struct deliverer *d = self;
    const struct act_by *by = control_by(d->daemon.control);
    const char *name = json_string_value(json_object_get(args, "endpoint"));
    const char *tenant = json_string_value(json_object_get(args, "tenant"));
    struct grant *g = own_grants_named(d, name);
    int64_t max = number(args, "max", TAKE_USUAL), lease_ms, longest_ms;
    json_t *reply;

    if (g && g->endpoint.config && !endpoint_is_pulled(&g->endpoint)) {
        control_fail(why, CONTROL_REFUSED,
                     "%.60s is not a pull endpoint: set `transport: pull`",
                     name);
        return NULL;
    }
    if (is_known(d, by, &reply, why))
        return reply;
    if (!g || !takes_may(d, g))
        return refuse_other_deliverer(name, why);
    note_use(d, g);
    longest_ms = settings_timeout_ms(&g->endpoint.config->settings,
                                     &g->endpoint.config->policy);
    lease_ms = number(args, "lease_ms", longest_ms);
    if (lease_ms > longest_ms) {
        control_fail(why, CONTROL_INVALID,
                     "lease: at most %lld ms are allowed, which is the "
                     "endpoint's `timeout`",
                     (long long)longest_ms);
        return NULL;
    }
    reply = takes_make(d, g, tenant, max, lease_ms, by);
    if (reply)
        return reply;
    if (number(args, "wait_ms", 0) == 0)
        return nothing();
    if (!has_space(d, name, by->actor, why))
        return NULL;
    return wait_for(d, g, tenant, max, lease_ms, number(args, "wait_ms", 0));
}

/* ---- the end of deliveries ---- */

static json_t *end(struct deliverer *d, json_t *args, enum taken_state state,
                   char why[200])
{
    return takes_end(
        d, json_string_value(json_object_get(args, "endpoint")),
        json_string_value(json_object_get(args, "take")),
        json_object_get(args, "deliveries"),
        &(struct take_end){
            .state = state,
            .delay_ms = number(args, "delay_ms", -1),
            .note = json_string_value(json_object_get(args, "note"))},
        why);
}

json_t *pull_ack(void *self, json_t *args, char why[200])
{
    return end(self, args, TAKEN_ACKED, why);
}

json_t *pull_retry(void *self, json_t *args, char why[200])
{
    return end(self, args, TAKEN_RETRIED, why);
}

json_t *pull_dead(void *self, json_t *args, char why[200])
{
    return end(self, args, TAKEN_DEAD, why);
}

/* ---- the turn ---- */

/* true: it has its reply. */
static bool serve(struct deliverer *d, struct pull_waiter *w)
{
    struct control *c = d->daemon.control;
    struct grant *g = own_grants_named(d, w->endpoint);
    int64_t now = d->daemon.loop.mono_ms;
    json_t *reply;

    if (!g && !d->daemon.loop.stopping) {
        control_release(c, w->held, NULL, CONTROL_NOT_OWNER,
                        "the endpoint was given to another deliverer");
        return true;
    }
    if (g)
        note_use(d, g);
    reply = g ? takes_make(d, g, w->tenant, w->max, w->lease_ms, &w->by) : NULL;
    if (!reply && now < w->until_ms && !d->daemon.loop.stopping)
        return false;
    if (!reply)
        reply = nothing();
    control_release(c, w->held, reply, CONTROL_REFUSED, NULL);
    return true;
}

void pull_work(struct deliverer *d)
{
    struct pull_waiter *w, *next;

    if (d->full)
        return;
    for (w = TAILQ_FIRST(&d->pull.waiting); w; w = next) {
        next = TAILQ_NEXT(w, link);
        if (serve(d, w))
            forget(d, w);
    }
}

int pull_wait_ms(const struct deliverer *d)
{
    int64_t now_us = mono_us(), at_us, best_us = INT64_MAX;
    const struct pull_waiter *w;

    if (d->full)
        return -1;
    TAILQ_FOREACH(w, &d->pull.waiting, link)
    {
        const struct grant *g = own_grants_named(d, w->endpoint);

        at_us = w->until_ms * 1000;
        best_us = at_us < best_us ? at_us : best_us;
        at_us = g ? takes_ready_us(d, g) : now_us;
        best_us = at_us < best_us ? at_us : best_us;
    }
    if (best_us == INT64_MAX)
        return -1;
    return best_us <= now_us ? 0 : (int)((best_us - now_us) / 1000 + 1);
}
