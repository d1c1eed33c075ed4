/* admission: decides by path, source and state of the process whether a request is accepted,
 * before and after its body. */
#include "admission.h"
#include "clock.h"
#include "handshake.h"
#include "headers.h"
#include "hops.h"
#include "http_head.h"
#include "ingress.h"
#include "log.h"
#include "mask.h"
#include "publish.h"
#include "remote.h"
#include "verify.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { US_PER_MS = 1000, US_PER_S = 1000000 };

static enum response stalled(const struct ingress *g)
{
    return g->stalled_by_engine ? RESPONSE_REPLICATION_STALLED
                                : RESPONSE_DISK_STALLED;
}

/* /healthz and, if `ready`, /readyz. */
static enum response admit_probe(struct ingress *g, struct request *r,
                                 bool ready)
{
    if (strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0)
        return RESPONSE_ONLY_GET;
    /* /healthz responds 200 also during a stall, as a restart of ingress would not end it. */
    if (!ready && g->stalled_ms)
        buf_printf(&r->own_body, "{\"status\":\"%s\",\"stalled_ms\":%lld}",
                   g->stalled_by_engine ? "replication_stalled"
                                        : "disk_stalled",
                   (long long)(mono_ms() - g->stalled_ms));
    if (!ready)
        return RESPONSE_HEALTHY; /* this response shows that HTTP works */
    if (g->daemon.loop.stopping)
        return RESPONSE_STOPPING;
    if (g->stalled_ms)
        return stalled(g);
    return g->archive.space.refusal
               ? response_to_space(g->archive.space.refusal)
               : RESPONSE_HEALTHY;
}

/* What is required of every request with an event. */
static enum response admit_body(struct ingress *g, const struct request *r,
                                const struct head_facts *facts)
{
    if (hops_of(request_head(r)) > HOPS_MAX)
        return RESPONSE_TOO_MANY_HOPS;
    if (facts->compressed)
        return RESPONSE_COMPRESSED;
    if (g->daemon.loop.stopping)
        return RESPONSE_STOPPING;
    if (g->stalled_ms)
        return stalled(g);
    return response_to_space(g->archive.space.refusal);
}

static enum response admit_hook(struct ingress *g, struct request *r,
                                const char *source,
                                const struct head_facts *facts)
{
    const struct source *s = settings_source(g->daemon.settings, source);

    if (!s)
        return RESPONSE_SOURCE_UNKNOWN;
    memcpy(r->source, source, strlen(source) + 1); /* a name of a source fits */
    if (strcmp(r->method, "HEAD") == 0 && s->verify.handshake == HANDSHAKE_HEAD)
        return RESPONSE_HANDSHAKE;
    if (strcmp(r->method, "POST") != 0)
        return RESPONSE_ONLY_POST;
    r->kind = REQUEST_HOOK;
    return admit_body(g, r, facts);
}

static enum response admit_event(struct ingress *g, struct request *r,
                                 enum request_kind kind,
                                 const struct head_facts *facts)
{
    enum response a;

    if (strcmp(r->method, "POST") != 0)
        return RESPONSE_ONLY_POST;
    a = publish_admit(g, r);
    r->kind = kind;
    return a ? a : admit_body(g, r, facts);
}

enum response admission_check(void *self, struct request *r,
                              const struct head_facts *facts)
{
    struct ingress *g = self;
    const struct settings *s = g->daemon.settings;
    struct bytes headers = request_head(r);

    remote_find(s->ingress.trusted_proxies, s->ingress.trusted_proxy_count,
                headers, r->remote);
    if (strncmp(r->path, "/in/", 4) == 0)
        return admit_hook(g, r, r->path + 4, facts);
    if (strcmp(r->path, "/v1/events") == 0)
        return admit_event(g, r, REQUEST_EVENT, facts);
    if (strcmp(r->path, "/v1/events/batch") == 0)
        return admit_event(g, r, REQUEST_BATCH, facts);
    if (strcmp(r->path, "/healthz") == 0)
        return admit_probe(g, r, false);
    if (strcmp(r->path, "/readyz") == 0)
        return admit_probe(g, r, true);
    return RESPONSE_PATH_UNKNOWN;
}

/* ---- with the body ---- */

int64_t admission_wait_us(const struct bucket *b, const struct rate *rate,
                          int64_t count, int64_t now_us)
{
    int64_t slack_us = rate->per_ms * US_PER_MS -
                       count * rate_interval_us(rate);
    int64_t ready_us = bucket_ready_us(b, slack_us > 0 ? slack_us : 0);

    return ready_us > now_us ? ready_us - now_us : 0;
}

void admission_count(struct bucket *b, const struct rate *rate, int64_t count,
                     int64_t now_us)
{
    bucket_take(b, count * rate_interval_us(rate), now_us);
}

static struct admission_limit *limit_of(struct admission *d, const char *name)
{
    for (size_t i = 0; i < d->count; i++)
        if (strcmp(d->limits[i].name, name) == 0)
            return &d->limits[i];
    d->limits = gr_realloc(d->limits, (d->count + 1) * sizeof *d->limits);
    d->limits[d->count] = (struct admission_limit){0};
    snprintf(d->limits[d->count].name, sizeof d->limits->name, "%s", name);
    return &d->limits[d->count++];
}

/* Only verified requests count, else a forger could use up the rate of a source. */
static bool within(struct ingress *g, struct request *r,
                   const struct rate *rate, int64_t count)
{
    int64_t wait_us = rate->count
                          ? admission_wait_us(
                                &limit_of(&g->admission, r->source)->bucket,
                                rate, count, g->daemon.loop.turn_us)
                          : 0;

    if (!wait_us)
        return true;
    r->retry_after_s = (int)((wait_us + US_PER_S - 1) / US_PER_S);
    buf_reset(&r->own_body);
    buf_printf(&r->own_body,
               "{\"error\":{\"code\":\"rate_limited\",\"message\":\"%lld more "
               "events exceed the rate_limit of this source, nothing was "
               "stored: send the request again in %d s\"}}",
               (long long)count, r->retry_after_s);
    return false;
}

static void count_events(struct ingress *g, const struct request *r,
                         const struct rate *rate, int64_t count)
{
    if (rate->count)
        admission_count(&limit_of(&g->admission, r->source)->bucket, rate,
                        count, g->daemon.loop.turn_us);
}

/* The configuration may have changed while the body came, so the source is looked up again. */
static enum response take_hook(struct ingress *g, struct request *r)
{
    const struct source *source = settings_source(g->daemon.settings,
                                                  r->source);
    const char *key;
    enum verification v;

    if (!source)
        return RESPONSE_SOURCE_UNKNOWN;
    v = verify(source, request_head(r), request_body(r), system_ms(),
               &r->secret);
    if (v != VERDICT_HOLDS)
        return response_to(v);
    if (!within(g, r, &source->rate_limit, 1))
        return RESPONSE_RATE_LIMITED;
    count_events(g, r, &source->rate_limit, 1);
    /* Respond to a provider's handshake at once; it is not an event. */
    key = source->secrets.items[r->secret];
    if (!handshake_response(source->verify.handshake,
                            (struct bytes){key, strlen(key)}, request_body(r),
                            &r->own_body, &r->own_type))
        return RESPONSE_NONE;
    r->own_status = r->own_body.len ? 200 : 204;
    return RESPONSE_HANDSHAKE;
}

enum response admission_pass(struct ingress *g, struct request *r,
                             int64_t count)
{
    const struct producer *p = settings_producer(g->daemon.settings, r->source);

    count = count > 1 ? count : 1;
    if (!p)
        return RESPONSE_TOKEN_UNKNOWN;
    if (!within(g, r, &p->rate_limit, count))
        return RESPONSE_RATE_LIMITED;
    count_events(g, r, &p->rate_limit, count);
    return RESPONSE_NONE;
}

static enum response take_event(struct ingress *g, struct request *r)
{
    const struct producer *p = settings_producer(g->daemon.settings, r->source);
    enum response a;

    if (!p)
        return RESPONSE_TOKEN_UNKNOWN;
    /* Before parsing, so that refusing costs little. */
    if (!within(g, r, &p->rate_limit, 1))
        return RESPONSE_RATE_LIMITED;
    a = publish_take(g, r, r->kind == REQUEST_BATCH);
    if (a ||
        r->kind ==
            REQUEST_EVENT) /* a batch is counted when its lines are judged */
        count_events(g, r, &p->rate_limit, 1);
    return a;
}

/* Masking makes a token of one byte longer. A head fits, packed, even if all of it are tokens. */
_Static_assert((sizeof MASKED - 1) *
                       (HEAD_MAX_BYTES +
                        (HEAD_MAX_COUNT + 1) * HEADERS_FRONT_BYTES) <=
                   HEADERS_MAX_BYTES,
               "a masked head may not fit");

/* The signature was verified over the headers as they came; what is stored and sent on has its
 * tokens masked. */
static void mask_tokens(struct ingress *g, struct request *r)
{
    const struct mask m = {
        .source = settings_source(g->daemon.settings, r->source)};
    struct bytes head = request_head(r);
    struct buf masked;

    if (!mask_has(&m, head))
        return;
    buf_init(&masked, r->headers.max);
    mask_head(&m, head, &masked);
    assert(!masked.failed);
    if (r->headers.data)
        explicit_bzero(r->headers.data, r->headers.cap);
    buf_fini(&r->headers);
    r->headers = masked;
}

enum response admission_take(void *self, struct request *r)
{
    struct ingress *g = self;
    enum response a = r->kind == REQUEST_HOOK ? take_hook(g, r)
                                              : take_event(g, r);

    if (!a && g->stalled_ms)
        a = stalled(g);
    if (!a)
        mask_tokens(g, r);
    if (!a)
        intake_take(g, r);
    return a;
}

void admission_fini(struct admission *d)
{
    free(d->limits);
    *d = (struct admission){0};
}
