#include "endpoint.h"
#include "alloc.h"
#include "grant.h"
#include "headers.h"
#include "task.h"
#include "wire.h"
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

/* ---- configuration ---- */

/* http or https, with a host and without a user: what libcurl would take. */
static bool url_usable(const char *url)
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
    curl_url_cleanup(u);
    return good;
}

static int64_t get_i64(const uint8_t *in)
{
    uint64_t v = 0;

    for (int i = 7; i >= 0; i--)
        v = v << 8 | in[i];
    return (int64_t)v;
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
        p->schedule_ms[i] = get_i64(waits + 8 * i);
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
    c->max_in_flight = (int)(w.max_in_flight > 4096 ? 4096 : w.max_in_flight);
    c->tls = (struct tls){.ca = pem(w.tls_ca),
                          .certificate = pem(w.tls_certificate),
                          .key = pem(w.tls_key)};
    read_policy(&c->policy, &w);
    if (!url_usable(c->url))
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
    free(c->url);
    free(c);
}

/* ---- queues ---- */

void endpoint_push(struct endpoint *e, struct task *t, bool due)
{
    struct queue *q = due ? &e->due : &e->fresh;

    t->state = TASK_WAITING;
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

bool endpoint_can_begin(const struct endpoint *e)
{
    return e->config && e->in_flight - e->ended < e->config->max_in_flight &&
           endpoint_waiting(e) > 0;
}

struct task *endpoint_next(struct endpoint *e)
{
    struct task *t;

    if (!endpoint_can_begin(e))
        return NULL;
    t = e->due_next ? e->due.first : e->fresh.first;
    if (!t)
        t = e->due_next ? e->fresh.first : e->due.first;
    e->due_next = !e->due_next;
    endpoint_remove(e, t);
    return t;
}

int endpoint_waiting(const struct endpoint *e)
{
    return e->fresh.count + e->due.count;
}

bool endpoint_wants_rows(const struct endpoint *e)
{
    return e->config && e->in_flight - e->ended < e->config->max_in_flight &&
           e->due.count == 0 && e->rows > e->rows_here;
}

void endpoint_row_due(struct endpoint *e, int64_t ms)
{
    if (ms < e->due_ms)
        e->due_ms = ms;
}

/* ---- whose turn it is ---- */

static void runnable_add(struct endpoint *e, struct runnable *r)
{
    e->runnable_prev = r->last;
    e->runnable_next = NULL;
    if (r->last)
        r->last->runnable_next = e;
    else
        r->first = e;
    r->last = e;
    e->runnable = true;
}

static void runnable_drop(struct endpoint *e, struct runnable *r)
{
    if (e->runnable_prev)
        e->runnable_prev->runnable_next = e->runnable_next;
    else
        r->first = e->runnable_next;
    if (e->runnable_next)
        e->runnable_next->runnable_prev = e->runnable_prev;
    else
        r->last = e->runnable_prev;
    e->runnable = false;
}

void endpoint_schedule(struct endpoint *e, struct runnable *runnable,
                       struct heap *alarms)
{
    bool can = endpoint_can_begin(e);

    if (can && !e->runnable)
        runnable_add(e, runnable);
    else if (!can && e->runnable)
        runnable_drop(e, runnable);
    if (!endpoint_wants_rows(e))
        heap_drop(alarms, &e->alarm);
    else if (!e->alarm.at || e->alarm.key != e->due_ms)
        heap_put(alarms, &e->alarm, e->due_ms);
}

void endpoint_rotate(struct endpoint *e, struct runnable *runnable)
{
    if (!e->runnable)
        return;
    runnable_drop(e, runnable);
    runnable_add(e, runnable);
}
