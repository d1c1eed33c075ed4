#include "intake.h"
#include "clock.h"
#include "handshake.h"
#include "ingress.h"
#include "log.h"
#include "verify.h"
#include <stdio.h>
#include <string.h>

enum {
    STORE_MOST_MS = 5000, /* later than this the provider has given us up */
    LINES_PER_SECOND = 50,
};

/* ---- at the door ---- */

static enum answer admit_probe(struct ingress *g, const char *method,
                               bool ready)
{
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return ANSWER_ONLY_GET;
    if (!ready)
        return ANSWER_HEALTHY; /* that we answer is the answer */
    if (g->daemon.loop.stopping)
        return ANSWER_STOPPING;
    return g->room.refusal ? g->room.refusal : ANSWER_HEALTHY;
}

static enum answer admit_event(struct ingress *g, struct request *r,
                               const char *method, const char *source,
                               const struct head_facts *facts)
{
    if (!settings_source(g->daemon.settings, source))
        return ANSWER_SOURCE_UNKNOWN;
    if (strcmp(method, "POST") != 0)
        return ANSWER_ONLY_POST;
    if (facts->compressed)
        return ANSWER_COMPRESSED;
    if (g->daemon.loop.stopping)
        return ANSWER_STOPPING;
    snprintf(r->source, sizeof r->source, "%s", source);
    return g->room.refusal;
}

static enum answer admit(void *self, struct request *r, const char *method,
                         const char *path, const struct head_facts *facts)
{
    struct ingress *g = self;

    if (strncmp(path, "/in/", 4) == 0)
        return admit_event(g, r, method, path + 4, facts);
    if (strcmp(path, "/healthz") == 0)
        return admit_probe(g, method, false);
    if (strcmp(path, "/readyz") == 0)
        return admit_probe(g, method, true);
    return ANSWER_PATH_UNKNOWN;
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
static enum answer take(void *self, struct request *r)
{
    struct ingress *g = self;
    const struct source *source = settings_source(g->daemon.settings,
                                                  r->source);
    enum verdict v;
    enum answer a;

    if (!source)
        return ANSWER_SOURCE_UNKNOWN;
    v = verify(source, (struct bytes){r->headers.data, r->headers.len},
               (struct bytes){r->body.data, r->body.len}, r->received_ms,
               &r->secret);
    if (v != VERDICT_HOLDS)
        return answer_to(v);
    a = shake_hands(r, source);
    if (a)
        return a;
    TAILQ_INSERT_TAIL(&g->intake.pending, r, link);
    g->intake.pending_count++;
    return ANSWER_NONE;
}

static void log_refusal(struct ingress *g, const struct request *r,
                        enum answer a)
{
    struct intake *t = &g->intake;
    int64_t mono = g->daemon.loop.mono_ms;

    if (mono - t->lines_since_ms >= SECOND_MS) {
        if (t->lines > LINES_PER_SECOND)
            log_warn(NULL, "refusals that were not logged",
                     LI("count", t->lines - LINES_PER_SECOND));
        t->lines_since_ms = mono;
        t->lines = 0;
    }
    if (++t->lines > LINES_PER_SECOND)
        return;
    log_warn(NULL, "refused", LS("reason", answer_facts(a)->reason),
             LI("status", answer_facts(a)->status),
             LS("source", r ? r->source : ""), LS("remote", r ? r->remote : ""),
             LI("body_bytes", r ? r->body.len : 0));
}

static void answered(void *self, const struct request *r, enum answer a)
{
    struct ingress *g = self;
    unsigned status = answer_facts(a)->status;

    g->counts[COUNT_REQUESTS]++;
    g->counts[COUNT_ANSWERS + a - 1]++;
    if (a == ANSWER_ACCEPTED) {
        g->counts[COUNT_ACCEPTED]++;
        g->counts[COUNT_ACCEPTED_BYTES] += (int64_t)r->body.len;
        log_debug(r->event_id, "accepted", LS("source", r->source),
                  LI("body_bytes", r->body.len));
    }
    if (a == ANSWER_HANDSHAKE)
        log_info(NULL, "a handshake was answered", LS("source", r->source));
    if (status == 200)
        return;
    g->counts[status < 500 ? COUNT_REFUSED_4XX : COUNT_REFUSED_5XX]++;
    log_refusal(g, r, a);
}

const struct http_ops intake_http_ops = {admit, take, answered};

/* ---- the turn ---- */

void intake_open(struct intake *t)
{
    TAILQ_INIT(&t->pending);
    TAILQ_INIT(&t->stored);
}

static struct request *next_pending(struct intake *t)
{
    struct request *r = TAILQ_FIRST(&t->pending);

    TAILQ_REMOVE(&t->pending, r, link);
    t->pending_count--;
    return r;
}

static void store(struct ingress *g, struct request *r)
{
    uint64_t n = hop_next(g->daemon.hop, SEQUENCER);
    char id[ULID_BYTES + 1];

    ulid_next(&g->ids, r->received_ms, id);
    snprintf(r->event_id, sizeof r->event_id, "evt_%s", id);
    store_insert(&g->store, (int64_t)n, r);
    hop_put(g->daemon.hop, SEQUENCER, KIND_ARCHIVED, (int64_t)n);
    room_took(&g->room, (int64_t)n, (int64_t)(r->body.len + r->headers.len));
    TAILQ_INSERT_TAIL(&g->intake.stored, r, link);
}

bool intake_work(struct ingress *g)
{
    struct intake *t = &g->intake;
    size_t count = 0, bytes = 0;

    while (!TAILQ_EMPTY(&t->pending) && count < TURN_MAX_COUNT &&
           bytes < TURN_MAX_BYTES && !db_full(g->daemon.db)) {
        struct request *r = next_pending(t);

        if (g->daemon.loop.mono_ms - r->taken_ms > STORE_MOST_MS) {
            http_answer(g->http, r, ANSWER_STORE_SLOW);
        } else if (g->room.refusal) { /* since it was admitted */
            http_answer(g->http, r, g->room.refusal);
        } else {
            store(g, r);
            bytes += r->body.len + r->headers.len;
            count++;
        }
    }
    return !TAILQ_EMPTY(&t->pending);
}

static void answer_stored(struct ingress *g, enum answer a)
{
    struct request *r;

    while ((r = TAILQ_FIRST(&g->intake.stored))) {
        TAILQ_REMOVE(&g->intake.stored, r, link);
        http_answer(g->http, r, a);
    }
}

void intake_tell(struct ingress *g)
{
    if (TAILQ_EMPTY(&g->intake.stored))
        return;
    g->counts[COUNT_COMMITS]++;
    answer_stored(g, ANSWER_ACCEPTED);
}

void intake_undo(struct ingress *g)
{
    answer_stored(g, ANSWER_DISK_FULL);
}

bool intake_idle(const struct ingress *g)
{
    return TAILQ_EMPTY(&g->intake.pending) && TAILQ_EMPTY(&g->intake.stored);
}

void intake_close(struct ingress *g)
{
    while (!TAILQ_EMPTY(&g->intake.pending))
        http_answer(g->http, next_pending(&g->intake), ANSWER_STOPPING);
}
