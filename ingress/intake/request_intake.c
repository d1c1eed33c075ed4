/* request_intake: the queue of requests to be stored, their rows, and their responses after the
 * commit. */
#include "request_intake.h"
#include "archive_erase.h"
#include "clock.h"
#include "ingress.h"
#include "lines.h"
#include "log.h"
#include "profile.h"
#include <string.h>

enum {
    LINES_PER_SECOND = 50,
    GROUP_COUNT = 16,
};

void intake_take(struct ingress *g, struct request *r)
{
    struct intake *t = &g->intake;

    r->arrival = ++t->arrivals;
    if (r->lines) {
        batches_take(g, r);
        return;
    }
    TAILQ_INSERT_TAIL(&t->pending, r, link);
    t->pending_count++;
}

void intake_watermark_requested(struct intake *t)
{
    t->ahead_arrival = t->arrivals;
    t->ahead_count = t->pending_count + t->batches.count;
}

void intake_leaves(struct intake *t, const struct request *r)
{
    if (t->ahead_count && r->arrival <= t->ahead_arrival)
        t->ahead_count--;
}

static void log_refusal(struct ingress *g, const struct request *r,
                        enum response a)
{
    struct intake *t = &g->intake;
    int64_t mono = g->daemon.loop.mono_ms;

    if (mono - t->lines_since_ms >= SECOND_MS) {
        if (t->lines > LINES_PER_SECOND)
            log_warn(
                NULL,
                "refused requests are not logged: more than 50 in a second",
                LI("count", t->lines - LINES_PER_SECOND));
        t->lines_since_ms = mono;
        t->lines = 0;
    }
    if (++t->lines > LINES_PER_SECOND)
        return;
    log_warn(NULL, "request refused", LS("reason", response_facts(a)->reason),
             LI("http_status", response_facts(a)->status),
             LO("source", r->source), LS("client", r->remote),
             LI("body_bytes", r->body.len));
}

/* Log an accepted event with what its request says about itself, which is read from small
 * bodies only. */
static void log_event(struct ingress *g, const struct request *r)
{
    const struct source *source = settings_source(g->daemon.settings,
                                                  r->source);
    struct subject subject = {.source = r->source,
                              .headers = request_head(r),
                              .body = request_body(r)};
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

static void responded(void *self, const struct request *r, enum response a)
{
    struct ingress *g = self;
    unsigned status = response_facts(a)->status;

    g->counts[COUNT_REQUESTS]++;
    g->counts[COUNT_RESPONSES + a - 1]++;
    if (a == RESPONSE_ACCEPTED) {
        g->counts[COUNT_ACCEPTED] += r->event_count;
        series_add(METRIC_SERIES(g->daemon.metrics, FAMILY_ACCEPTED, r->source),
                   r->event_count);
        last_events_note(&g->last_events, r->source, r->received_ms);
        g->counts[COUNT_ACCEPTED_BYTES] += (int64_t)r->body.len;
        if (!r->lines && log_has_capacity(LEVEL_INFO))
            log_event(g, r);
        for (size_t i = 0; r->lines && i < r->lines->count; i++)
            if (!r->lines->items[i].refusal && log_has_capacity(LEVEL_INFO))
                log_info(r->lines->items[i].event_id, "accepted",
                         LS("source", r->source), LS("client", r->remote),
                         LI("body_bytes", r->lines->items[i].text.n),
                         LI("duration_ms", mono_ms() - r->taken_ms));
    }
    if (a == RESPONSE_HANDSHAKE)
        log_info(NULL, "handshake of the provider completed",
                 LS("source", r->source));
    if (status == 200)
        return;
    rejects_note(&g->rejects, g, r, a);
    g->counts[status < 500 ? COUNT_REFUSED_4XX : COUNT_REFUSED_5XX]++;
    log_refusal(g, r, a);
}

const struct http_ops intake_http_ops = {admission_check, admission_take,
                                         responded};

/* ---- the turn ---- */

void intake_open(struct intake *t)
{
    TAILQ_INIT(&t->pending);
    TAILQ_INIT(&t->stored);
    buf_init(&t->message, LINK_KEPT_MAX_BYTES);
    buf_init(&t->rest, BODY_MAX_BYTES);
    batches_open(&t->batches);
}

static struct request *next_pending(struct intake *t)
{
    struct request *r = TAILQ_FIRST(&t->pending);

    TAILQ_REMOVE(&t->pending, r, link);
    t->pending_count--;
    intake_leaves(t, r);
    return r;
}

/* Row `n` has this idempotency key already, perhaps since this turn. */
static enum response judge_duplicate(struct ingress *g, int64_t n,
                                     struct bytes body, int64_t *bytes)
{
    struct archive_row stored;
    bool found = archive_request(&g->archive.store, n, &stored);
    bool differs = found && line_differs(stored.body, body);

    *bytes -= found ? (int64_t)stored.body.n : 0;
    archive_request_done(&g->archive.store);
    if (differs)
        return RESPONSE_KEY_REUSED;
    g->counts[COUNT_DUPLICATES]++;
    return RESPONSE_NONE;
}

static void send_on(struct ingress *g, struct archive_row row,
                    struct bytes headers)
{
    struct buf *m = &g->intake.message;

    row.headers = headers;
    buf_reset(m);
    archive_put_message(&row, m);
    links_put_message(g->daemon.links, SEQUENCER, KIND_ARCHIVED, row.n,
                      (struct bytes){m->data, m->failed ? 0 : m->len});
}

enum response intake_store_row(struct ingress *g, const struct request *r,
                               struct bytes body, char id[EVENT_ID_BYTES + 1],
                               int64_t head, int64_t *bytes)
{
    struct archive_row row = {
        .event_id = id,
        .source = r->source,
        .received_ms = r->received_ms,
        .remote = r->remote,
        .secret = r->secret,
        .headers = head ? (struct bytes){"", 0} : request_head(r),
        .body = body,
        .head = head,
    };
    int64_t earlier = id[0] ? archive_number(&g->archive.store, id) : 0;
    struct buf *rest = &g->intake.rest;

    buf_reset(rest);
    if (erase_refuses(&g->archive, r->source, request_head(r), body, rest))
        return RESPONSE_WORKSPACE_ERASED;
    if (rest->len)
        body = row.body = (struct bytes){rest->data, rest->len};
    *bytes -= (int64_t)(body.n + row.headers.n);
    if (earlier)
        return judge_duplicate(g, earlier, body, bytes);
    if (!id[0]) {
        memcpy(id, "evt_", 4);
        ulid_next(&g->archive.ids, r->received_ms, id + 4);
    }
    row.n = (int64_t)links_next(g->daemon.links, SEQUENCER);
    archive_insert(&g->archive.store, &row);
    send_on(g, row, request_head(r));
    archive_space_took(&g->archive.space, row.n,
                       (int64_t)(body.n + row.headers.n));
    return RESPONSE_NONE;
}

static void store(struct ingress *g, struct request *r, int64_t *bytes)
{
    struct bytes body = request_body(r);

    r->refusal = intake_store_row(g, r, body, r->event_id, 0, bytes);
    if (r->refusal == RESPONSE_KEY_REUSED)
        line_reused(r->event_id, 0, &r->own_body);
    else if (!r->refusal)
        r->event_count = 1;
    TAILQ_INSERT_TAIL(&g->intake.stored, r, link);
    g->intake.stored_count += r->event_count;
}

static void store_pending(struct ingress *g)
{
    struct intake *t = &g->intake;
    int64_t half = (t->pending_count + t->responded_count + 1) / 2;
    int64_t max = t->pending_count, bytes = TURN_MAX_BYTES;

    /* Store half of all requests at ingress, those just responded to included, as their clients
     * return at once. While one half is committed, the other is read. With all in one commit
     * there would be nothing to do beside it. */
    if (!t->whole)
        max = half < GROUP_COUNT ? GROUP_COUNT : half;
    if (max > TURN_MAX_COUNT)
        max = TURN_MAX_COUNT;
    for (; max && !TAILQ_EMPTY(&t->pending) && bytes > 0 &&
           !db_full(g->daemon.db);
         max--) {
        struct request *r = next_pending(t);

        if (g->daemon.loop.mono_ms - r->taken_ms > STORE_MAX_MS)
            http_respond(g->http, r, RESPONSE_STORE_SLOW);
        else if (g->archive.space
                     .refusal) /* the disk has filled since admission */
            http_respond(g->http, r,
                         response_to_space(g->archive.space.refusal));
        else
            store(g, r, &bytes);
    }
}

/* Batches have a budget of their own, so that neither delays the other. */
void intake_work(struct ingress *g)
{
    store_pending(g);
    batches_work(g);
}

/* `a`: the outcome of the commit. A response that was made before the commit holds only if the
 * commit succeeded: a reused key may belong to an event of this turn. */
static void respond_one(struct ingress *g, struct request *r, enum response a)
{
    if (r->lines) {
        batch_respond(g, r, a);
        return;
    }
    if (a != RESPONSE_ACCEPTED)
        buf_reset(&r->own_body);
    else if (r->refusal)
        a = r->refusal;
    http_respond(g->http, r, a);
}

static void respond_stored(struct ingress *g, enum response a)
{
    struct request *r;

    g->intake.stored_count = g->intake.responded_count = 0;
    while ((r = TAILQ_FIRST(&g->intake.stored))) {
        TAILQ_REMOVE(&g->intake.stored, r, link);
        g->intake.responded_count++;
        respond_one(g, r, a);
    }
}

void intake_flush(struct ingress *g)
{
    g->counts[COUNT_COMMITS] += g->intake.stored_count > 0;
    g->intake.stored_count = 0;
    batches_committed(g);
    if (!TAILQ_EMPTY(&g->intake.stored))
        respond_stored(g, RESPONSE_ACCEPTED);
}

void intake_give_up(struct ingress *g, bool all)
{
    struct intake *t = &g->intake;
    int64_t oldest_ms = mono_ms() - STORE_MAX_MS;
    struct request *r;

    if (all)
        batches_give_up(g, RESPONSE_STORE_SLOW);
    while ((r = TAILQ_FIRST(&t->stored)) &&
           (all || (!r->lines && r->taken_ms <= oldest_ms))) {
        TAILQ_REMOVE(&t->stored, r, link);
        respond_one(g, r, RESPONSE_STORE_SLOW);
    }
    while ((r = TAILQ_FIRST(&t->pending)) && (all || r->taken_ms <= oldest_ms))
        http_respond(g->http, next_pending(t), RESPONSE_STORE_SLOW);
}

void intake_undo(struct ingress *g)
{
    batches_undo(g);
    respond_stored(g, RESPONSE_DISK_FULL);
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
    return TAILQ_EMPTY(&g->intake.pending) && TAILQ_EMPTY(&g->intake.stored) &&
           !g->intake.batches.count;
}

bool intake_has_more(const struct ingress *g)
{
    return !TAILQ_EMPTY(&g->intake.pending) ||
           !TAILQ_EMPTY(&g->intake.stored) ||
           (g->intake.batches.count &&
            !intake_rate_pause_ms(&g->intake_rate, mono_us()));
}

void intake_close(struct ingress *g)
{
    batches_give_up(g, RESPONSE_STOPPING);
    while (!TAILQ_EMPTY(&g->intake.pending))
        http_respond(g->http, next_pending(&g->intake), RESPONSE_STOPPING);
    buf_fini(&g->intake.message);
    buf_fini(&g->intake.rest);
}
