#include "door.h"
#include "clock.h"
#include "handshake.h"
#include "head.h"
#include "headers.h"
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

/* A restart would not help, so it is no error: the status stays 200. */
static void say_stalled(struct ingress *g, struct request *r)
{
    buf_printf(&r->reply, "{\"status\":\"disk_stalled\",\"stalled_ms\":%lld}",
               (long long)(mono_ms() - g->stalled_ms));
}

/* Answered here and now. */
static enum answer admit_probe(struct ingress *g, struct request *r, bool ready)
{
    if (strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0)
        return ANSWER_ONLY_GET;
    if (!ready && g->stalled_ms)
        say_stalled(g, r);
    if (!ready)
        return ANSWER_HEALTHY; /* that we answer is the answer */
    if (g->daemon.loop.stopping)
        return ANSWER_STOPPING;
    if (g->stalled_ms)
        return ANSWER_DISK_STALLED;
    return g->room.refusal ? g->room.refusal : ANSWER_HEALTHY;
}

/* What holds for all that bring something. */
static enum answer admit_body(struct ingress *g, const struct head_facts *facts)
{
    if (facts->compressed)
        return ANSWER_COMPRESSED;
    if (g->daemon.loop.stopping)
        return ANSWER_STOPPING;
    if (g->stalled_ms)
        return ANSWER_DISK_STALLED;
    return g->room.refusal;
}

static enum answer admit_hook(struct ingress *g, struct request *r,
                              const char *source,
                              const struct head_facts *facts)
{
    const struct source *s = settings_source(g->daemon.settings, source);

    if (!s)
        return ANSWER_SOURCE_UNKNOWN;
    memcpy(r->source, source, strlen(source) + 1); /* it is a name: it fits */
    if (strcmp(r->method, "HEAD") == 0 && s->verify.handshake == HANDSHAKE_HEAD)
        return ANSWER_HANDSHAKE;
    if (strcmp(r->method, "POST") != 0)
        return ANSWER_ONLY_POST;
    r->door = DOOR_HOOK;
    return admit_body(g, facts);
}

static enum answer admit_event(struct ingress *g, struct request *r,
                               enum request_door door,
                               const struct head_facts *facts)
{
    enum answer a;

    if (strcmp(r->method, "POST") != 0)
        return ANSWER_ONLY_POST;
    a = publish_admit(g, r);
    r->door = door;
    return a ? a : admit_body(g, facts);
}

enum answer door_admit(void *self, struct request *r,
                       const struct head_facts *facts)
{
    struct ingress *g = self;
    const struct settings *s = g->daemon.settings;
    struct bytes headers = {r->headers.data ? r->headers.data : "",
                            r->headers.len};

    remote_find(s->ingress.trusted_proxies, s->ingress.trusted_proxy_count,
                headers, r->remote);
    if (strncmp(r->path, "/in/", 4) == 0)
        return admit_hook(g, r, r->path + 4, facts);
    if (strcmp(r->path, "/v1/events") == 0)
        return admit_event(g, r, DOOR_EVENT, facts);
    if (strcmp(r->path, "/v1/events/batch") == 0)
        return admit_event(g, r, DOOR_BATCH, facts);
    if (strcmp(r->path, "/healthz") == 0)
        return admit_probe(g, r, false);
    if (strcmp(r->path, "/readyz") == 0)
        return admit_probe(g, r, true);
    return ANSWER_PATH_UNKNOWN;
}

/* ---- the body is here ---- */

int64_t door_wait_us(const struct bucket *b, const struct rate *rate,
                     int64_t count, int64_t now_us)
{
    int64_t slack_us = rate->per_ms * US_PER_MS -
                       count * rate_interval_us(rate);
    int64_t ready_us = bucket_ready_us(b, slack_us > 0 ? slack_us : 0);

    return ready_us > now_us ? ready_us - now_us : 0;
}

void door_count(struct bucket *b, const struct rate *rate, int64_t count,
                int64_t now_us)
{
    bucket_take(b, count * rate_interval_us(rate), now_us);
}

static struct doorway *doorway(struct door *d, const char *name)
{
    for (size_t i = 0; i < d->count; i++)
        if (strcmp(d->ways[i].name, name) == 0)
            return &d->ways[i];
    d->ways = gr_realloc(d->ways, (d->count + 1) * sizeof *d->ways);
    d->ways[d->count] = (struct doorway){0};
    snprintf(d->ways[d->count].name, sizeof d->ways->name, "%s", name);
    return &d->ways[d->count++];
}

/* Only what is genuine counts, or a forger could use a source's rate up. */
static bool within(struct ingress *g, struct request *r,
                   const struct rate *rate, int64_t count)
{
    int64_t wait_us = rate->count
                          ? door_wait_us(&doorway(&g->door, r->source)->bucket,
                                         rate, count, g->daemon.loop.turn_us)
                          : 0;

    if (!wait_us)
        return true;
    r->retry_after_s = (int)((wait_us + US_PER_S - 1) / US_PER_S);
    buf_reset(&r->reply);
    buf_printf(&r->reply,
               "{\"error\":{\"code\":\"rate_limited\",\"message\":\"%lld more "
               "now would exceed this source's rate_limit; nothing of it was "
               "taken; send it again in %d s\"}}",
               (long long)count, r->retry_after_s);
    return false;
}

static void count_events(struct ingress *g, const struct request *r,
                         const struct rate *rate, int64_t count)
{
    if (rate->count)
        door_count(&doorway(&g->door, r->source)->bucket, rate, count,
                   g->daemon.loop.turn_us);
}

/* A provider's handshake is answered here and now; it is no event. */
static enum answer shake_hands(struct request *r, const struct source *source)
{
    const char *key = source->secrets.items[r->secret];

    if (!handshake_answer(source->verify.handshake,
                          (struct bytes){key, strlen(key)},
                          (struct bytes){r->body.data, r->body.len}, &r->reply,
                          &r->reply_type))
        return ANSWER_NONE;
    r->reply_status = r->reply.len ? 200 : 204;
    return ANSWER_HANDSHAKE;
}

/* The configuration may have changed while the body came: the source is looked
 * up again. */
static enum answer take_hook(struct ingress *g, struct request *r)
{
    const struct source *source = settings_source(g->daemon.settings,
                                                  r->source);
    enum verdict v;

    if (!source)
        return ANSWER_SOURCE_UNKNOWN;
    v = verify(source, (struct bytes){r->headers.data, r->headers.len},
               (struct bytes){r->body.data, r->body.len}, system_ms(),
               &r->secret);
    if (v != VERDICT_HOLDS)
        return answer_to(v);
    if (!within(g, r, &source->rate_limit, 1))
        return ANSWER_RATE_LIMITED;
    count_events(g, r, &source->rate_limit, 1);
    return shake_hands(r, source);
}

enum answer door_pass(struct ingress *g, struct request *r, int64_t count)
{
    const struct producer *p = settings_producer(g->daemon.settings, r->source);

    count = count > 1 ? count : 1;
    if (!p)
        return ANSWER_TOKEN_UNKNOWN;
    if (!within(g, r, &p->rate_limit, count))
        return ANSWER_RATE_LIMITED;
    count_events(g, r, &p->rate_limit, count);
    return ANSWER_NONE;
}

static enum answer take_event(struct ingress *g, struct request *r)
{
    const struct producer *p = settings_producer(g->daemon.settings, r->source);
    enum answer a;

    if (!p)
        return ANSWER_TOKEN_UNKNOWN;
    /* Before it is read, so that a refused one costs little. */
    if (!within(g, r, &p->rate_limit, 1))
        return ANSWER_RATE_LIMITED;
    a = publish_take(g, r, r->door == DOOR_BATCH);
    if (a ||
        r->door == DOOR_EVENT) /* a batch counts when its lines are judged */
        count_events(g, r, &p->rate_limit, 1);
    return a;
}

/* A token of one byte becomes longer by being masked. Also where all of a head are tokens
 * it fits, packed. */
_Static_assert((sizeof MASKED - 1) *
                       (HEAD_MAX_BYTES +
                        (HEAD_MAX_COUNT + 1) * HEADERS_FRONT_BYTES) <=
                   HEADERS_MAX_BYTES,
               "a masked head may not fit");

/* Verified is what came; what is stored, and goes on from there, has no token. */
static void mask_tokens(struct ingress *g, struct request *r)
{
    const struct mask m = {
        .source = settings_source(g->daemon.settings, r->source)};
    struct bytes head = {r->headers.data ? r->headers.data : "",
                         r->headers.len};
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

enum answer door_take(void *self, struct request *r)
{
    struct ingress *g = self;
    enum answer a = r->door == DOOR_HOOK ? take_hook(g, r) : take_event(g, r);

    if (!a && g->stalled_ms)
        a = ANSWER_DISK_STALLED;
    if (!a)
        mask_tokens(g, r);
    if (!a)
        intake_take(g, r);
    return a;
}

void door_fini(struct door *d)
{
    free(d->ways);
    *d = (struct door){0};
}
