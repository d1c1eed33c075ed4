/* batches: the queues of batches, by source, and the work of one turn on them. */
#include "batches.h"
#include "admission.h"
#include "ingress.h"
#include "lines.h"
#include "log.h"
#include "publish.h"
#include <stdlib.h>
#include <string.h>

/* What one turn judges and stores: 3 to 5 ms of work, and a commit of about the same time
 * (docs/decisions/0057). A line may exceed what is left of it. */
enum {
    PIECE_COUNT = 1024,
    PIECE_BYTES = 256 * 1024,
    /* A line with a reused key counts as so many: both objects are read and compared, and the
     * line is recorded as refused. */
    REUSED_COUNT = 4,
};

struct batch_queue {
    TAILQ_ENTRY(batch_queue) link;
    struct request_list requests; /* of one source; never empty */
};

struct budget {
    int64_t count, bytes;
};

void batches_open(struct batches *b)
{
    TAILQ_INIT(&b->queues);
}

static struct batch_queue *queue_of(struct batches *b, const char *source)
{
    struct batch_queue *q;

    TAILQ_FOREACH(q, &b->queues, link)
    if (strcmp(TAILQ_FIRST(&q->requests)->source, source) == 0)
        return q;
    return NULL;
}

void batches_take(struct ingress *g, struct request *r)
{
    struct batches *b = &g->intake.batches;
    struct batch_queue *q = queue_of(b, r->source);

    if (!q) {
        q = gr_alloc(sizeof *q);
        TAILQ_INIT(&q->requests);
        TAILQ_INSERT_TAIL(&b->queues, q, link);
    }
    TAILQ_INSERT_TAIL(&q->requests, r, link);
    b->count++;
}

static void leave(struct ingress *g, struct batch_queue *q, struct request *r)
{
    struct batches *b = &g->intake.batches;

    if (b->piece == r)
        b->piece = NULL;
    TAILQ_REMOVE(&q->requests, r, link);
    b->count--;
    intake_leaves(&g->intake, r);
    if (!TAILQ_EMPTY(&q->requests))
        return;
    TAILQ_REMOVE(&b->queues, q, link);
    free(q);
}

static void refuse(struct ingress *g, struct batch_queue *q, struct request *r,
                   enum response a)
{
    leave(g, q, r);
    batch_respond(g, r, a);
}

/* ---- judging ---- */

/* After all lines are judged: may the batch be stored? The configuration may have changed
 * meanwhile. */
static enum response judged(struct ingress *g, struct request *r)
{
    const struct lines *l = r->lines;
    enum response a;

    if (!l->count)
        return publish_malformed(r, "lines", "the batch has no line");
    a = admission_pass(g, r, (int64_t)l->good);
    return a ? a : l->good ? RESPONSE_NONE : RESPONSE_BATCH_REFUSED;
}

/* Judge one piece. true: all lines are judged and may be stored. */
static bool judge(struct ingress *g, struct batch_queue *q, struct request *r,
                  struct budget *left)
{
    const struct settings *s = g->daemon.settings;
    const struct producer *p = settings_producer(s, r->source);
    enum lines_step step = LINES_END;
    enum response a;

    if (p)
        step = lines_read(r->lines, s, g->event_types, p, request_body(r),
                          &left->count, &left->bytes);
    if (!p)
        a = RESPONSE_TOKEN_UNKNOWN;
    else if (step == LINES_TOO_MANY)
        a = publish_malformed(r, "lines",
                              "the batch has more than 10000 lines: split it");
    else if (!http_hold(g->http, r))
        a = RESPONSE_BODIES_FULL;
    else if (step == LINES_MORE)
        return false;
    else
        a = judged(g, r);
    if (!a)
        r->lines->judged = true;
    else
        refuse(g, q, r, a);
    return !a;
}

/* ---- storing ---- */

/* The request's headers are stored once with each piece, so that each piece is complete without
 * the others. */
static void store_piece(struct ingress *g, struct request *r,
                        struct budget *left)
{
    struct lines *l = r->lines;
    int64_t head = (int64_t)links_next(g->daemon.links, SEQUENCER), last_n;

    while (left->count > 0 && left->bytes > 0 && l->inserted < l->count) {
        struct line *line = &l->items[l->inserted++];
        enum response a;

        if (line->refusal)
            continue;
        a = intake_store_row(g, r, line->text, line->event_id, head,
                             &left->bytes);
        left->count -= a ? REUSED_COUNT : 1;
        if (a)
            lines_refuse(l, line, a);
    }
    last_n = (int64_t)links_next(g->daemon.links, SEQUENCER) - 1;
    if (last_n < head) /* all lines are duplicates */
        return;
    archive_head(&g->archive.store, r->source, head, last_n, request_head(r));
    g->intake.stored_count += last_n - head + 1;
}

/* Store one piece of this source's first batch. After its last piece the batch leaves the
 * queue. */
static void work_on(struct ingress *g, struct batch_queue *q,
                    struct budget *left)
{
    struct request *r = TAILQ_FIRST(&q->requests);

    if (!r->lines->judged && !judge(g, q, r, left))
        return;
    if (g->archive.space
            .refusal) { /* the disk has filled since admission or the last piece */
        refuse(g, q, r, response_to_space(g->archive.space.refusal));
        return;
    }
    store_piece(g, r, left);
    if (r->lines->inserted < r->lines->count) {
        g->intake.batches.piece = r;
        return;
    }
    leave(g, q, r);
    TAILQ_INSERT_TAIL(&g->intake.stored, r, link);
}

/* Refuse batches that have waited too long and of which nothing is read yet. A queue is in
 * order of arrival. */
static void drop_overdue(struct ingress *g)
{
    struct batch_queue *q, *next;
    int64_t oldest_ms = g->daemon.loop.mono_ms - STORE_MAX_MS;

    for (q = TAILQ_FIRST(&g->intake.batches.queues); q; q = next) {
        struct request *r = TAILQ_FIRST(&q->requests), *behind;

        next = TAILQ_NEXT(q, link);
        for (; r && r->taken_ms < oldest_ms; r = behind) {
            behind = TAILQ_NEXT(r, link);
            if (!r->lines->read_bytes)
                refuse(g, q, r, RESPONSE_STORE_SLOW);
        }
    }
}

void batches_work(struct ingress *g)
{
    struct batches *b = &g->intake.batches;
    struct budget left = {PIECE_COUNT, PIECE_BYTES};

    drop_overdue(g);
    if (intake_rate_pause_ms(&g->intake_rate, g->daemon.loop.turn_us))
        return;
    while (!TAILQ_EMPTY(&b->queues) && left.count > 0 && left.bytes > 0 &&
           !db_full(g->daemon.db)) {
        struct batch_queue *q = TAILQ_FIRST(&b->queues);

        TAILQ_REMOVE(&b->queues, q, link);
        TAILQ_INSERT_TAIL(&b->queues, q, link);
        work_on(g, q, &left);
    }
}

/* ---- the response ---- */

/* Record lines that were refused while the batch was stored, as refused requests are recorded. */
static void committed(struct ingress *g, struct request *r)
{
    struct lines *l = r->lines;

    for (; l->committed < l->inserted; l->committed++)
        if (l->items[l->committed].refusal == RESPONSE_KEY_REUSED)
            rejects_note(&g->rejects, g, r, RESPONSE_KEY_REUSED);
}

void batch_respond(struct ingress *g, struct request *r, enum response a)
{
    struct lines *l = r->lines;

    if (a == RESPONSE_ACCEPTED)
        committed(g, r);
    else if (l->committed)
        lines_give_up(l, a);
    if (a != RESPONSE_ACCEPTED && a != RESPONSE_BATCH_REFUSED &&
        !l->committed) {
        http_respond(g->http, r, a); /* no line is stored */
        return;
    }
    lines_print(l, &r->own_body);
    r->own_type = "application/x-ndjson";
    r->event_count = (int64_t)l->good;
    if (a != RESPONSE_ACCEPTED && l->good) {
        r->retry_after_s = response_facts(a)->retry_after_s;
        rejects_note(&g->rejects, g, r, a);
        log_warn(
            NULL,
            "a batch was stored partly; its response lists the stored lines",
            LS("reason", response_facts(a)->reason), LO("source", r->source),
            LS("client", r->remote), LI("lines", l->count),
            LI("stored", l->good));
    }
    if (l->good)
        r->own_status = l->good < l->count ? 207 : 200;
    else if (a == RESPONSE_ACCEPTED)
        a = RESPONSE_BATCH_REFUSED;
    http_respond(g->http, r, l->good ? RESPONSE_ACCEPTED : a);
}

void batches_committed(struct ingress *g)
{
    struct request *r = g->intake.batches.piece;

    if (r)
        committed(g, r);
    g->intake.batches.piece = NULL;
}

void batches_undo(struct ingress *g)
{
    struct request *r = g->intake.batches.piece;

    if (r)
        refuse(g, queue_of(&g->intake.batches, r->source), r,
               RESPONSE_DISK_FULL);
}

void batches_give_up(struct ingress *g, enum response why)
{
    struct batch_queue *q;

    while ((q = TAILQ_FIRST(&g->intake.batches.queues)))
        refuse(g, q, TAILQ_FIRST(&q->requests), why);
}
