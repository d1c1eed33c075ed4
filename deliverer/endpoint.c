#include "endpoint.h"
#include "alloc.h"
#include "clock.h"
#include "grant.h"
#include "headers.h"
#include "le64.h"
#include "task.h"
#include "wire.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    IN_FLIGHT_MAX = 10000,
    RATE_COUNT_MAX = 1000000,
    LANES_LOOKED_AT = 16, /* tasks of one queue */
};

/* ---- configuration ---- */

/* http or https, with a host and without a user; else NULL. */
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

static void read_policy(struct retry_policy *p,
                        const struct wire_endpoint_config *w)
{
    const uint8_t *waits = w->schedule.p;
    size_t status_bytes = sizeof p->retry_on.status;

    p->backoff = (enum backoff_kind)w->backoff;
    p->first_wait_ms = w->first_wait_ms;
    p->max_wait_ms = w->max_wait_ms;
    p->factor = (double)w->factor_milli / 1000;
    p->schedule_count = w->schedule.n / 8;
    p->schedule_ms = gr_alloc(p->schedule_count * sizeof(int64_t) + 1);
    for (size_t i = 0; i < p->schedule_count; i++)
        p->schedule_ms[i] = (int64_t)get_le64(waits + 8 * i);
    p->repeat_last = w->repeat_last;
    p->jitter_full = w->jitter_full;
    p->jitter_part = (double)w->jitter_milli / 1000;
    p->max_attempts = w->max_attempts > INT64_MAX ? 0
                                                  : (int64_t)w->max_attempts;
    p->max_duration_ms = w->max_duration_ms;
    p->retry_on.network = w->retry_network;
    if (w->retry_status.n < status_bytes)
        status_bytes = w->retry_status.n;
    memcpy(p->retry_on.status, w->retry_status.p, status_bytes);
    p->respect_retry_after = w->respect_retry_after;
}

/* A budget that does not bind, and a policy without an end, would try for
 * ever: the settings refuse it, and so do we. */
static const char *wrong(const struct wire_endpoint_config *w)
{
    if (w->backoff > BACKOFF_SCHEDULE || w->schedule.n % 8 != 0)
        return "its backoff is none that we know";
    if (w->max_attempts == 0 && w->max_duration_ms <= 0)
        return "its retry policy has no end";
    if (!wire_is(w->method, "POST") && !wire_is(w->method, "PUT"))
        return "its method is neither POST nor PUT";
    if (w->headers.n && !headers_valid(w->headers))
        return "its headers do not parse";
    if (w->allowed_ports.n % 2 != 0 || w->allowed_ports.n > 2 * PORTS_MAX)
        return "its ports are none";
    if (w->max_in_flight == 0)
        return "its max_in_flight is 0";
    if (w->ordered > LANES_ALL)
        return "its lanes are none that we know";
    if (w->rate_count > RATE_COUNT_MAX ||
        (w->rate_count && (w->rate_per_ms < 1 || w->rate_per_ms > DAY_MS)))
        return "its rate limit is none";
    return NULL;
}

static int64_t at_most(int64_t v, int64_t most)
{
    return v < 1 || v > most ? most : v;
}

static char *pem(struct bytes text)
{
    return text.n ? wire_dup(text) : NULL;
}

static void read_ports(struct ports *p, struct bytes wire)
{
    const uint8_t *in = wire.p;

    for (p->count = 0; p->count < wire.n / 2; p->count++)
        p->items[p->count] = (uint16_t)(in[2 * p->count] | in[2 * p->count + 1]
                                                               << 8);
}

gr_rc endpoint_config_new(struct endpoint_config **out, struct bytes wire,
                          const char **why)
{
    static uint64_t last_id;
    struct endpoint_config *c;
    struct wire_endpoint_config w;

    if (wire_get_endpoint_config(&w, wire) != GR_OK) {
        *why = "its configuration does not decode";
        return GR_REFUSE;
    }
    *why = wrong(&w);
    if (*why)
        return GR_REFUSE;
    c = gr_alloc(sizeof *c);
    c->users = 1;
    c->id = ++last_id;
    c->url = wire_dup(w.url);
    c->put = wire_is(w.method, "PUT");
    c->headers_bytes = w.headers.n;
    c->headers = gr_alloc(w.headers.n + 1);
    memcpy(c->headers, w.headers.p, w.headers.n);
    c->timeout_ms = at_most(w.timeout_ms, LONGEST_ATTEMPT_MS);
    c->connect_timeout_ms = at_most(w.connect_timeout_ms, c->timeout_ms);
    c->max_in_flight = (int)(w.max_in_flight > IN_FLIGHT_MAX ? IN_FLIGHT_MAX
                                                             : w.max_in_flight);
    c->ordered = (int)w.ordered;
    c->rate = (struct rate){(int64_t)w.rate_count, w.rate_per_ms};
    c->breaker = w.breaker;
    c->holds = w.guard;
    c->tls = (struct tls){.ca = pem(w.tls_ca),
                          .certificate = pem(w.tls_certificate),
                          .key = pem(w.tls_key)};
    read_policy(&c->policy, &w);
    c->parsed = parse_url(c->url);
    if (!c->parsed)
        *why = "its URL can't be used (http or https, no user in it)";
    if (signer_init(&c->signer, w.signing_secrets) != GR_OK)
        *why = "one of its signing secrets is none";
    if (guard_init(&c->guard, w.allow_private, w.allow_cidrs) != GR_OK)
        *why = "one of its allowed networks is none";
    read_ports(&c->guard.ports, w.allowed_ports);
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
    guard_fini(&c->guard);
    free(c->policy.schedule_ms);
    explicit_bzero(c->headers, c->headers_bytes); /* may hold a token */
    free(c->headers);
    if (c->tls.key)
        explicit_bzero(c->tls.key, strlen(c->tls.key));
    free(c->tls.key);
    free(c->tls.certificate);
    free(c->tls.ca);
    curl_url_cleanup(c->parsed);
    free(c->url);
    free(c);
}

/* ---- queues ---- */

void endpoint_push(struct endpoint *e, struct task *t, bool due)
{
    struct queue *q = due ? &e->due : &e->fresh;

    t->state = TASK_WAITING;
    e->blocked = false;
    t->due_queue = due;
    t->prev = q->last;
    t->next = NULL;
    if (q->last)
        q->last->next = t;
    else
        q->first = t;
    q->last = t;
    q->count++;
}

void endpoint_remove(struct endpoint *e, struct task *t)
{
    struct queue *q = t->due_queue ? &e->due : &e->fresh;

    if (t->prev)
        t->prev->next = t->next;
    else
        q->first = t->next;
    if (t->next)
        t->next->prev = t->prev;
    else
        q->last = t->prev;
    t->next = t->prev = NULL;
    q->count--;
}

void endpoint_put_first(struct endpoint *e, struct task *t)
{
    endpoint_remove(e, t);
    t->due_queue = true;
    t->next = e->due.first;
    if (e->due.first)
        e->due.first->prev = t;
    else
        e->due.last = t;
    e->due.first = t;
    e->due.count++;
    e->due_next = true;
    e->blocked = false;
}

static bool has_room(const struct endpoint *e)
{
    return e->config && e->in_flight - e->ended < e->gate.window.size;
}

static int64_t queue_ready_us(const struct endpoint *e, bool due)
{
    const struct queue *q = due ? &e->due : &e->fresh;

    return q->count ? gate_ready_us(&e->gate, e->config, due) : INT64_MAX;
}

/* When it can begin something; INT64_MAX: not by time alone. */
static int64_t ready_us(const struct endpoint *e)
{
    int64_t fresh, due;

    if (!has_room(e) || e->blocked)
        return INT64_MAX;
    fresh = queue_ready_us(e, false);
    due = queue_ready_us(e, true);
    return fresh < due ? fresh : due;
}

uint64_t endpoint_lane(const struct endpoint *e, const struct task *t)
{
    struct bytes all = {"", 0};

    if (e->config->ordered == LANES_NONE)
        return 0;
    return lane_key(t->w.grant,
                    e->config->ordered == LANES_ALL ? all : t->w.workspace);
}

static bool lane_free(const struct endpoint *e, const struct task *t,
                      const struct lanes *lanes)
{
    return e->config->ordered == LANES_NONE ||
           !lanes_busy(lanes, endpoint_lane(e, t));
}

bool endpoint_may_begin(const struct endpoint *e, const struct task *t,
                        const struct lanes *lanes, int64_t now_us)
{
    return has_room(e) && queue_ready_us(e, t->due_queue) <= now_us &&
           lane_free(e, t, lanes);
}

/* More of one lane than one are hardly ever here: a few are looked at. */
static struct task *first_free(const struct endpoint *e, bool due,
                               const struct lanes *lanes, uint64_t turn)
{
    struct task *t = due ? e->due.first : e->fresh.first;

    for (int n = 0; t && n < LANES_LOOKED_AT; t = t->next, n++)
        if (!t->held && t->turn < turn && lane_free(e, t, lanes))
            return t;
    return NULL;
}

static bool came_in(const struct queue *q, uint64_t turn)
{
    return q->last && q->last->turn >= turn;
}

struct task *endpoint_next(struct endpoint *e, const struct lanes *lanes,
                           uint64_t turn, int64_t now_us)
{
    struct task *t = NULL;
    bool due = e->due_next, tried = false;

    for (int n = 0; has_room(e) && !t && n < 2; n++, due = !due)
        if (queue_ready_us(e, due) <= now_us) {
            tried = true;
            t = first_free(e, due, lanes, turn);
        }
    e->blocked = tried && !t && !came_in(&e->fresh, turn) &&
                 !came_in(&e->due, turn);
    if (!t)
        return NULL;
    e->due_next = !t->due_queue;
    endpoint_remove(e, t);
    return t;
}

int endpoint_waiting(const struct endpoint *e)
{
    return e->fresh.count + e->due.count;
}

bool endpoint_wants_rows(const struct endpoint *e)
{
    return has_room(e) && e->due.count == 0 && e->rows > e->rows_here;
}

void endpoint_row_due(struct endpoint *e, int64_t ms)
{
    if (ms < e->due_ms)
        e->due_ms = ms;
}

void endpoint_retry_due(struct endpoint *e, int64_t ms)
{
    endpoint_row_due(e, ms);
    breaker_due(&e->gate.breaker, mono_us() + (ms - now_ms()) * 1000);
}

/* ---- whose turn it is ---- */

static void line_up(struct endpoint *e, struct schedule *s)
{
    e->runnable_prev = s->last;
    e->runnable_next = NULL;
    if (s->last)
        s->last->runnable_next = e;
    else
        s->first = e;
    s->last = e;
    e->runnable = true;
}

static void step_out(struct endpoint *e, struct schedule *s)
{
    if (e->runnable_prev)
        e->runnable_prev->runnable_next = e->runnable_next;
    else
        s->first = e->runnable_next;
    if (e->runnable_next)
        e->runnable_next->runnable_prev = e->runnable_prev;
    else
        s->last = e->runnable_prev;
    e->runnable = false;
}

static void put_or_drop(struct heap *h, struct heap_item *item, bool in,
                        int64_t key)
{
    if (!in)
        heap_drop(h, item);
    else if (!item->at || item->key != key)
        heap_put(h, item, key);
}

void endpoint_schedule(struct endpoint *e, struct schedule *s)
{
    int64_t at = ready_us(e);
    bool waits = at > 0 && at < INT64_MAX && at > mono_us();
    bool can = at < INT64_MAX && !waits;

    if (can && !e->runnable)
        line_up(e, s);
    else if (!can && e->runnable)
        step_out(e, s);
    put_or_drop(&s->gates, &e->gate_alarm, waits, at);
    put_or_drop(&s->alarms, &e->alarm, endpoint_wants_rows(e), e->due_ms);
}

void endpoint_rotate(struct endpoint *e, struct schedule *s)
{
    if (!e->runnable)
        return;
    step_out(e, s);
    line_up(e, s);
}

static struct endpoint *by_gate(struct heap_item *item)
{
    return (struct endpoint *)(void *)((char *)item -
                                       offsetof(struct endpoint, gate_alarm));
}

void schedule_wake(struct schedule *s, int64_t now_us)
{
    struct heap_item *item;

    while ((item = heap_first(&s->gates)) && item->key <= now_us)
        endpoint_schedule(by_gate(item), s);
}

int schedule_wait_ms(const struct schedule *s)
{
    struct heap_item *item = heap_first(&s->gates);
    int64_t left;

    if (!item)
        return -1;
    left = (item->key - mono_us() + 999) / 1000;
    return left < 0 ? 0 : left > MINUTE_MS ? (int)MINUTE_MS : (int)left;
}

void schedule_fini(struct schedule *s)
{
    heap_fini(&s->alarms);
    heap_fini(&s->gates);
}
