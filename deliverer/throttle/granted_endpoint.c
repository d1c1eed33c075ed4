/* granted_endpoint: reads an endpoint's configuration, chooses its next task, and keeps the
 * list of endpoints that can begin an attempt. */
#include "granted_endpoint.h"
#include "alloc.h"
#include "clock.h"
#include "endpoint_config.h"
#include "grant.h"
#include "headers.h"
#include "task.h"
#include "wire.h"
#include <stdlib.h>
#include <string.h>

enum { LANES_LOOKED_AT = 16 }; /* tasks of one queue */

#define CHOSEN_WAIT_MAX_MS (3660 * DAY_MS)

/* ---- configuration ---- */

/* The URL, if it is http or https, with a host and without a user; else NULL. */
static CURLU *parse_url(const char *url)
{
    CURLU *u = curl_url();
    char *scheme = NULL, *host = NULL, *user = NULL;
    bool good;

    if (!u)
        die(EXIT_UNAVAILABLE, "out of memory");
    good = curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
           curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
           curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
           curl_url_get(u, CURLUPART_USER, &user, 0) != CURLUE_OK &&
           (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    curl_free(scheme);
    curl_free(host);
    curl_free(user);
    if (good)
        return u;
    curl_url_cleanup(u);
    return NULL;
}

/* Make from the settings what attempts need. Returns why that is impossible, or NULL. */
static const char *derive(struct endpoint_config *c,
                          const struct wire_endpoint_config *w)
{
    struct endpoint_settings *s = &c->settings;
    const char *why = NULL;

    c->chosen_wait_ms = w->chosen_wait_ms;
    if (w->chosen_wait_ms < 0 || w->chosen_wait_ms > CHOSEN_WAIT_MAX_MS)
        why = "the longest wait of its deliveries is out of bounds";
    c->put = wire_is(w->method, "PUT");
    if (!c->put && !wire_is(w->method, "POST"))
        why = "its method is not POST or PUT";
    if (w->headers.n && !headers_valid(w->headers))
        why = "its headers are not valid";
    c->headers_bytes = w->headers.n;
    c->headers = gr_alloc(w->headers.n + 1);
    memcpy(c->headers, w->headers.p, w->headers.n);
    if (s->transport == TRANSPORT_HTTP) {
        c->parsed = parse_url(s->url);
        if (!c->parsed)
            why = "its URL is not valid: it must be http or https, without a "
                  "user";
    }
    if (signer_init(&c->signer, w->signing_secrets) != GR_OK)
        why = "one of its signing secrets is not valid";
    if (guard_init(&c->address_guard, w->allow_private, w->allow_cidrs) !=
        GR_OK)
        why = "one of its allowed networks is not valid";
    c->address_guard.ports = s->allowed_ports;
    return why;
}

gr_rc endpoint_config_new(struct endpoint_config **out, struct bytes wire,
                          const char **why)
{
    static uint64_t last_id;
    struct endpoint_config *c;
    struct wire_endpoint_config w;

    if (wire_get_endpoint_config(&w, wire) != GR_OK) {
        *why = "its configuration cannot be decoded";
        return GR_REFUSE;
    }
    c = gr_alloc(sizeof *c);
    c->users = 1;
    c->id = ++last_id;
    if (endpoint_config_read(&w, &c->settings, &c->policy, why) == GR_OK)
        *why = derive(c, &w);
    if (*why) {
        endpoint_config_drop(c);
        return GR_REFUSE;
    }
    *out = c;
    return GR_OK;
}

struct endpoint_config *endpoint_config_use(struct endpoint_config *c)
{
    c->users++;
    return c;
}

void endpoint_config_drop(struct endpoint_config *c)
{
    if (!c || --c->users > 0)
        return;
    signer_fini(&c->signer);
    guard_fini(&c->address_guard);
    if (c->headers)
        explicit_bzero(c->headers, c->headers_bytes); /* may hold a token */
    free(c->headers);
    curl_url_cleanup(c->parsed);
    endpoint_config_free(&c->settings, &c->policy);
    free(c);
}

/* ---- queues ---- */

void endpoint_init(struct granted_endpoint *e)
{
    TAILQ_INIT(&e->fresh.tasks);
    TAILQ_INIT(&e->due.tasks);
    e->due_ms = INT64_MAX;
}

void endpoint_push(struct granted_endpoint *e, struct task *t, bool due)
{
    struct task_queue *q = due ? &e->due : &e->fresh;

    t->state = TASK_WAITING;
    t->due_queue = due;
    e->blocked = false;
    if (!t->w.high)
        TAILQ_INSERT_TAIL(&q->tasks, t, queue_link);
    else if (q->last_high)
        TAILQ_INSERT_AFTER(&q->tasks, q->last_high, t, queue_link);
    else
        TAILQ_INSERT_HEAD(&q->tasks, t, queue_link);
    if (t->w.high)
        q->last_high = t;
    q->count++;
}

void endpoint_remove(struct granted_endpoint *e, struct task *t)
{
    struct task_queue *q = t->due_queue ? &e->due : &e->fresh;
    struct task *before = TAILQ_PREV(t, task_list, queue_link);

    if (q->last_high == t)
        q->last_high = before && before->w.high ? before : NULL;
    TAILQ_REMOVE(&q->tasks, t, queue_link);
    q->count--;
}

void endpoint_put_first(struct granted_endpoint *e, struct task *t)
{
    endpoint_remove(e, t);
    t->due_queue = true;
    TAILQ_INSERT_HEAD(&e->due.tasks, t, queue_link);
    if (t->w.high && !e->due.last_high)
        e->due.last_high = t;
    e->due.count++;
    e->due_next = true;
    e->blocked = false;
}

struct task *endpoint_first(const struct granted_endpoint *e)
{
    return e->fresh.count ? TAILQ_FIRST(&e->fresh.tasks)
                          : TAILQ_FIRST(&e->due.tasks);
}

bool endpoint_is_pulled(const struct granted_endpoint *e)
{
    return e->config && e->config->settings.transport == TRANSPORT_PULL;
}

static bool has_capacity(const struct granted_endpoint *e)
{
    return e->config && !endpoint_is_pulled(e) &&
           e->in_flight - e->ended < e->throttle.window.size;
}

static int64_t queue_ready_us(const struct granted_endpoint *e, bool due)
{
    const struct task_queue *q = due ? &e->due : &e->fresh;

    return q->count ? throttle_ready_us(&e->throttle, e->config, due)
                    : INT64_MAX;
}

uint64_t endpoint_lane(const struct granted_endpoint *e, const struct task *t)
{
    struct bytes all = {"", 0};

    if (e->config->settings.ordered == LANES_NONE)
        return 0;
    if (e->config->settings.ordered == LANES_ALL)
        return busy_lanes_key(t->w.grant, all, all);
    return busy_lanes_key(t->w.grant, t->w.workspace, t->w.ordering_key);
}

static bool lane_free(const struct granted_endpoint *e, const struct task *t,
                      const struct busy_lanes *lanes)
{
    return e->config->settings.ordered == LANES_NONE ||
           !busy_lanes_has(lanes, endpoint_lane(e, t));
}

bool endpoint_may_begin(const struct granted_endpoint *e, const struct task *t,
                        const struct busy_lanes *lanes, int64_t now_us)
{
    return has_capacity(e) && queue_ready_us(e, t->due_queue) <= now_us &&
           lane_free(e, t, lanes);
}

/* The first task of a queue that came before this turn and whose lane is free. Two tasks of
 * one lane are rarely in memory, so looking at a few is enough. */
static struct task *first_free(const struct task_queue *q,
                               const struct granted_endpoint *e,
                               const struct busy_lanes *lanes, uint64_t turn)
{
    struct task *t = TAILQ_FIRST(&q->tasks);

    for (int n = 0; t && n < LANES_LOOKED_AT;
         t = TAILQ_NEXT(t, queue_link), n++)
        if (!t->quarantined && t->turn < turn && lane_free(e, t, lanes))
            return t;
    return NULL;
}

static bool has_task_of(const struct task_queue *q, uint64_t turn)
{
    const struct task *last = TAILQ_LAST(&q->tasks, task_list);

    return last && last->turn >= turn;
}

struct task *endpoint_next(struct granted_endpoint *e,
                           const struct busy_lanes *lanes, uint64_t turn,
                           int64_t now_us)
{
    struct task *t = NULL;
    bool due = e->due_next, tried = false;

    for (int n = 0; has_capacity(e) && !t && n < 2; n++, due = !due)
        if (queue_ready_us(e, due) <= now_us) {
            tried = true;
            t = first_free(due ? &e->due : &e->fresh, e, lanes, turn);
        }
    e->blocked = tried && !t && !has_task_of(&e->fresh, turn) &&
                 !has_task_of(&e->due, turn);
    if (!t)
        return NULL;
    e->due_next = !t->due_queue;
    endpoint_remove(e, t);
    return t;
}

int endpoint_waiting(const struct granted_endpoint *e)
{
    return e->fresh.count + e->due.count;
}

void endpoint_row_due(struct granted_endpoint *e, int64_t ms)
{
    if (ms < e->due_ms)
        e->due_ms = ms;
}

void endpoint_retry_due(struct granted_endpoint *e, int64_t ms)
{
    endpoint_row_due(e, ms);
    breaker_due(&e->throttle.breaker, mono_us() + (ms - now_ms()) * 1000);
}

/* ---- whose turn it is ---- */

static void put_or_drop(struct due_queue *h, struct due_item *item, bool in,
                        int64_t key)
{
    if (!in)
        due_queue_drop(h, item);
    else if (!item->at || item->key != key)
        due_queue_put(h, item, key);
}

void endpoint_schedule(struct granted_endpoint *e, struct schedule *s)
{
    int64_t fresh, due, at = INT64_MAX; /* INT64_MAX: not by time alone */
    bool waits, can, needs_rows;

    if (has_capacity(e) && !e->blocked) {
        fresh = queue_ready_us(e, false);
        due = queue_ready_us(e, true);
        at = fresh < due ? fresh : due;
    }
    waits = at > 0 && at < INT64_MAX && at > mono_us();
    can = at < INT64_MAX && !waits;
    if (can && !e->runnable)
        TAILQ_INSERT_TAIL(&s->runnable, e, runnable_link);
    else if (!can && e->runnable)
        TAILQ_REMOVE(&s->runnable, e, runnable_link);
    e->runnable = can;
    put_or_drop(&s->throttles, &e->throttle_alarm, waits, at);
    needs_rows = has_capacity(e) && e->due.count == 0 && e->rows > e->rows_here;
    put_or_drop(&s->alarms, &e->alarm, needs_rows, e->due_ms);
}

void endpoint_rotate(struct granted_endpoint *e, struct schedule *s)
{
    if (!e->runnable)
        return;
    TAILQ_REMOVE(&s->runnable, e, runnable_link);
    TAILQ_INSERT_TAIL(&s->runnable, e, runnable_link);
}

void schedule_wake(struct schedule *s, int64_t now_us)
{
    struct due_item *item;

    while ((item = due_queue_first(&s->throttles)) && item->key <= now_us)
        endpoint_schedule(
            DUE_ITEM_OWNER(item, struct granted_endpoint, throttle_alarm), s);
}

int schedule_wait_ms(const struct schedule *s)
{
    struct due_item *item = due_queue_first(&s->throttles);
    int64_t left;

    if (!item)
        return -1;
    left = (item->key - mono_us() + 999) / 1000;
    return left < 0 ? 0 : left > MINUTE_MS ? (int)MINUTE_MS : (int)left;
}

void schedule_init(struct schedule *s)
{
    *s = (struct schedule){0};
    TAILQ_INIT(&s->runnable);
}

void schedule_fini(struct schedule *s)
{
    due_queue_fini(&s->alarms);
    due_queue_fini(&s->throttles);
}
