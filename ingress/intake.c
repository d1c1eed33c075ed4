#include "intake.h"
#include "clock.h"
#include "ingress.h"
#include "lines.h"
#include "log.h"
#include "profile.h"
#include <string.h>

enum {
    STORE_MOST_MS = 5000, /* later than this the provider has given us up */
    LINES_PER_SECOND = 50,
    GROUP_COUNT = 16,
};

void intake_take(struct intake *t, struct request *r)
{
    TAILQ_INSERT_TAIL(&t->pending, r, link);
    t->pending_count++;
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
             LI("http_status", answer_facts(a)->status),
             LO("source", r->source), LS("client", r->remote),
             LI("body_bytes", r->body.len));
}

/* What the request says of itself, for the log: read only when the line is
 * written, and out of a small body only. */
static void log_event(struct ingress *g, const struct request *r)
{
    const struct source *source = settings_source(g->daemon.settings,
                                                  r->source);
    struct subject subject = {
        .source = r->source,
        .headers = {r->headers.data ? r->headers.data : "", r->headers.len},
        .body = {r->body.data ? r->body.data : "", r->body.len}};
    const char *why;
    struct buf id;

    buf_init(&id, TEXT_MAX_BYTES);
    subject_for_log(&subject);
    if (source && !source->batch &&
        profile_event_id(source, &subject, &id, &why) != GR_OK)
        buf_reset(&id);
    log_info(r->event_id, "accepted",
             LS("provider_id", id.len ? id.data : NULL),
             LS("source", r->source), LS("client", r->remote),
             LI("body_bytes", r->body.len),
             LI("duration_ms", mono_ms() - r->taken_ms),
             LS("mode", profile_mode(source, &subject)));
    subject_fini(&subject);
    buf_fini(&id);
}

static void log_accepted(struct ingress *g, const struct request *r)
{
    if (!r->lines && log_has_room(LOG_INFO))
        log_event(g, r);
    for (size_t i = 0; r->lines && i < r->lines->count; i++)
        if (!r->lines->items[i].refusal && log_has_room(LOG_INFO))
            log_info(r->lines->items[i].event_id, "accepted",
                     LS("source", r->source), LS("client", r->remote),
                     LI("body_bytes", r->lines->items[i].text.n),
                     LI("duration_ms", mono_ms() - r->taken_ms));
}

static void answered(void *self, const struct request *r, enum answer a)
{
    struct ingress *g = self;
    unsigned status = answer_facts(a)->status;

    g->counts[COUNT_REQUESTS]++;
    g->counts[COUNT_ANSWERS + a - 1]++;
    if (a == ANSWER_ACCEPTED) {
        g->counts[COUNT_ACCEPTED] += r->event_count;
        series_add(METRIC_SERIES(g->daemon.metrics, FAMILY_ACCEPTED, r->source),
                   r->event_count);
        g->counts[COUNT_ACCEPTED_BYTES] += (int64_t)r->body.len;
        log_accepted(g, r);
    }
    if (a == ANSWER_HANDSHAKE)
        log_info(NULL, "a handshake was answered", LS("source", r->source));
    if (status == 200)
        return;
    rejects_note(&g->rejects, g, r, a);
    g->counts[status < 500 ? COUNT_REFUSED_4XX : COUNT_REFUSED_5XX]++;
    log_refusal(g, r, a);
}

const struct http_ops intake_http_ops = {door_admit, door_take, answered};

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
    t->ahead_count -= t->ahead_count > 0;
    return r;
}

/* Row `n` has this idempotency key already, maybe since this very turn. */
static enum answer judge_repeat(struct ingress *g, int64_t n, struct bytes body)
{
    struct archive_row stored;
    bool differs = store_request(&g->store, n, &stored) &&
                   line_differs(stored.body, body);

    store_request_done(&g->store);
    if (differs)
        return ANSWER_KEY_REUSED;
    g->counts[COUNT_REPEATED]++;
    return ANSWER_NONE;
}

static struct bytes head_of(const struct request *r)
{
    return (struct bytes){r->headers.data ? r->headers.data : "",
                          r->headers.len};
}

/* One row; `head`: its request's headers are stored apart. Without an id it gets one. One that it brings, made of its idempotency
 * key, may be there already: then it is the same event, and there is nothing to
 * do, or another, which is refused. */
static enum answer store_row(struct ingress *g, const struct request *r,
                             struct bytes body, char id[EVENT_ID_BYTES + 1],
                             int64_t head)
{
    struct archive_row row = {
        .event_id = id,
        .source = r->source,
        .received_ms = r->received_ms,
        .remote = r->remote,
        .secret = r->secret,
        .headers = head ? (struct bytes){"", 0} : head_of(r),
        .body = body,
        .head = head,
    };
    int64_t earlier = id[0] ? store_number(&g->store, id) : 0;
    uint64_t n;

    if (earlier)
        return judge_repeat(g, earlier, body);
    if (!id[0]) {
        memcpy(id, "evt_", 4);
        ulid_next(&g->ids, r->received_ms, id + 4);
    }
    n = hop_next(g->daemon.hop, SEQUENCER);
    row.n = (int64_t)n;
    store_insert(&g->store, &row);
    hop_put(g->daemon.hop, SEQUENCER, KIND_ARCHIVED, (int64_t)n);
    room_took(&g->room, (int64_t)n, (int64_t)(body.n + row.headers.n));
    return ANSWER_NONE;
}

/* All of it in the turn's commit, or none. What is refused of it is said in its
 * line of the response. */
static void store_lines(struct ingress *g, struct request *r)
{
    struct lines *l = r->lines;
    int64_t head = (int64_t)hop_next(g->daemon.hop, SEQUENCER), last_n;

    for (size_t i = 0; i < l->count; i++) {
        struct line *line = &l->items[i];
        enum answer a = line->refusal
                            ? ANSWER_NONE
                            : store_row(g, r, line->text, line->event_id, head);

        if (a)
            lines_refuse(l, line, a);
        line_print(l, line, &r->reply);
    }
    last_n = (int64_t)hop_next(g->daemon.hop, SEQUENCER) - 1;
    if (last_n >= head) /* not all are repeats */
        store_head(&g->store, r->source, head, last_n, head_of(r));
    r->event_count = (int64_t)l->good;
    r->reply_type = "application/x-ndjson";
    if (l->good)
        r->reply_status = l->good < l->count ? 207 : 200;
    else
        r->refusal = ANSWER_BATCH_REFUSED;
}

static void store_one(struct ingress *g, struct request *r)
{
    struct bytes body = {r->body.data ? r->body.data : "", r->body.len};

    r->refusal = store_row(g, r, body, r->event_id, 0);
    if (r->refusal)
        line_reused(r->event_id, 0, &r->reply);
    else
        r->event_count = 1;
}

/* Returns about how many bytes it has written. */
static size_t store(struct ingress *g, struct request *r)
{
    if (r->lines)
        store_lines(g, r);
    else
        store_one(g, r);
    TAILQ_INSERT_TAIL(&g->intake.stored, r, link);
    g->intake.stored_count += r->event_count;
    return r->body.len + r->headers.len;
}

/* Half of those who stand at the door, the ones just answered among them, as they
 * are back at once: while some are committed, the others are answered and read.
 * With all in one commit nothing is left to do beside it. */
static int64_t share(const struct intake *t)
{
    int64_t half = (t->pending_count + t->told_count + 1) / 2;

    return half < GROUP_COUNT ? GROUP_COUNT : half;
}

bool intake_work(struct ingress *g)
{
    struct intake *t = &g->intake;
    size_t count = 0, bytes = 0;

    for (int64_t most = g->pace.on ? t->pending_count : share(t);
         most && !TAILQ_EMPTY(&t->pending) && count < TURN_MAX_COUNT &&
         bytes < TURN_MAX_BYTES && !db_full(g->daemon.db);
         most--) {
        struct request *r = next_pending(t);

        if (g->daemon.loop.mono_ms - r->taken_ms > STORE_MOST_MS) {
            http_answer(g->http, r, ANSWER_STORE_SLOW);
        } else if (g->room.refusal) { /* since it was admitted */
            http_answer(g->http, r, g->room.refusal);
        } else {
            bytes += store(g, r);
            count += (size_t)r->event_count;
        }
    }
    return !TAILQ_EMPTY(&t->pending);
}

/* A line that was refused is on record like a request. */
static void note_lines(struct ingress *g, struct request *r)
{
    for (size_t i = 0; i < r->lines->count; i++)
        if (r->lines->items[i].refusal == ANSWER_KEY_REUSED)
            rejects_note(&g->rejects, g, r, ANSWER_KEY_REUSED);
}

/* `a`: what the commit came to. A response that was made before it holds only if
 * the commit did: the event that a reused key names may be of this very turn. */
static void answer_one(struct ingress *g, struct request *r, enum answer a)
{
    if (a != ANSWER_ACCEPTED) {
        buf_reset(&r->reply);
        r->reply_type = NULL;
        r->reply_status = 0;
        http_answer(g->http, r, a);
        return;
    }
    if (r->lines)
        note_lines(g, r);
    http_answer(g->http, r, r->refusal ? r->refusal : a);
}

static void answer_stored(struct ingress *g, enum answer a)
{
    struct request *r;

    g->intake.stored_count = g->intake.told_count = 0;
    while ((r = TAILQ_FIRST(&g->intake.stored))) {
        TAILQ_REMOVE(&g->intake.stored, r, link);
        g->intake.told_count++;
        answer_one(g, r, a);
    }
}

void intake_tell(struct ingress *g)
{
    if (TAILQ_EMPTY(&g->intake.stored))
        return;
    g->counts[COUNT_COMMITS]++;
    answer_stored(g, ANSWER_ACCEPTED);
}

void intake_give_up(struct ingress *g, bool all)
{
    struct intake *t = &g->intake;
    int64_t oldest_ms = mono_ms() - STORE_MOST_MS;
    struct request *r;

    while ((r = TAILQ_FIRST(&t->stored)) && (all || r->taken_ms <= oldest_ms)) {
        TAILQ_REMOVE(&t->stored, r, link);
        answer_one(g, r, ANSWER_STORE_SLOW);
    }
    while ((r = TAILQ_FIRST(&t->pending)) && (all || r->taken_ms <= oldest_ms))
        http_answer(g->http, next_pending(t), ANSWER_STORE_SLOW);
}

void intake_undo(struct ingress *g)
{
    answer_stored(g, ANSWER_DISK_FULL);
}

bool intake_has_group(const struct intake *t)
{
    return t->pending_count >= GROUP_COUNT;
}

bool intake_stored_group(const struct intake *t)
{
    return t->stored_count >= GROUP_COUNT;
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
