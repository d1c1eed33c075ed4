/* letters: dead letters on their way to dlqd, and what dlqd sends back. */
#include "blocks.h"
#include "db_sums.h"
#include "log.h"
#include "profile.h"
#include "replay.h"
#include "store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DROP_PER_TURN = 64,
    LOOK_MS = 1000,
    KEEP_MS = 24 * 3600 * 1000, /* dead letters that dlqd has acknowledged */
};

void letter_id(char out[LETTER_ID_BYTES], const char *event_id,
               const char *endpoint)
{
    snprintf(out, LETTER_ID_BYTES, "dlq_%.*s%s%s", EVENT_ID_BYTES,
             strncmp(event_id, "evt_", 4) == 0 ? event_id + 4 : event_id,
             *endpoint ? "-" : "", endpoint);
}

static void put(struct sequencer *q, int kind, const struct letter_row *l)
{
    uint64_t n = hop_next(q->d.hop, "dlqd");

    hop_put(q->d.hop, "dlqd", kind, store_letter_add(q->store, n, l));
}

/* The row may be sent again when the delivery is in a later generation, so it copies
 * what dlqd shall know of this one. */
void letters_dead(struct sequencer *q, const struct delivery_row *d,
                  struct bytes response)
{
    put(q, WIRE_KIND_DEAD,
        &(struct letter_row){.event = d->event,
                             .endpoint = d->endpoint,
                             .life = d->life,
                             .at_ms = q->d.loop.now_ms,
                             .attempts = d->attempts,
                             .first_ms = d->first_ms,
                             .http_status = d->http_status,
                             .error = d->error,
                             .reason = d->reason,
                             .response = response});
}

void letters_refused(struct sequencer *q, const struct event_row *ev,
                     int64_t life)
{
    char *reason = ev->status == EVENT_IGNORED
                       ? gr_strdup("invalid_transition")
                       : gr_printf("refused:%s", ev->reason);

    put(q, WIRE_KIND_DEAD,
        &(struct letter_row){.event = ev->n,
                             .life = life,
                             .at_ms = q->d.loop.now_ms,
                             .error = "",
                             .reason = reason,
                             .response = {"", 0}});
    free(reason);
}

void letters_recovered(struct sequencer *q, int64_t event, int64_t endpoint,
                       int64_t life)
{
    put(q, WIRE_KIND_RECOVERED,
        &(struct letter_row){.event = event,
                             .endpoint = endpoint,
                             .life = life,
                             .at_ms = q->d.loop.now_ms,
                             .error = "",
                             .reason = "",
                             .response = {"", 0}});
}

/* ---- as they leave ---- */

static void put_dead(struct sequencer *q, const struct letter_row *l,
                     const struct event_row *ev, const struct endpoint *e,
                     uint64_t previous, struct buf *out)
{
    char id[LETTER_ID_BYTES];
    struct bytes headers = {"", 0}, body = {"", 0};
    struct wire_dead m = {
        .life = (uint64_t)l->life,
        .event_id = wire_text(ev->id),
        .endpoint = wire_text(e ? e->name : ""),
        .source = wire_text(ev->source),
        .provider_id = wire_text(ev->provider_id),
        .type = wire_text(ev->type),
        .workspace = wire_text(ev->workspace),
        .received_ms = ev->received_ms,
        .sequence = ev->sequence,
        .previous = previous,
        .clock = wire_text(ev->clock),
        .reason = wire_text(l->reason),
        .attempts = (uint64_t)l->attempts,
        .first_ms = l->first_ms,
        .dead_ms = l->at_ms,
        .last_http_status = (uint64_t)l->http_status,
        .last_error = wire_text(l->error),
        .last_response = l->response,
    };

    letter_id(id, ev->id, e ? e->name : "");
    m.letter_id = wire_text(id);
    if (store_body(q->store, l->event, &headers, &body) &&
        store_body_damaged(q->store)) {
        db_damage_found(ev->id, db_path(q->d.db), "bodies");
        m.reason = wire_text(REASON_DAMAGED);
    }
    m.headers = headers;
    m.body = body;
    wire_put_dead(out, &m);
    store_body_done(q->store);
}

static void put_recovered(const struct letter_row *l,
                          const struct event_row *ev, const struct endpoint *e,
                          struct buf *out)
{
    char id[LETTER_ID_BYTES];
    struct wire_recovered m = {.life = (uint64_t)l->life, .at_ms = l->at_ms};

    letter_id(id, ev->id, e ? e->name : "");
    m.letter_id = wire_text(id);
    wire_put_recovered(out, &m);
}

bool letters_load(struct sequencer *q, int kind, int64_t ref, struct buf *out)
{
    struct delivery_row d = {0};
    struct letter_row l;
    struct event_row ev;
    struct endpoint *e;
    bool there;

    if (!store_letter(q->store, ref, &l))
        return false;
    e = endpoint_by_id(q, l.endpoint);
    there = store_event(q->store, l.event, &ev) &&
            (!l.endpoint || store_delivery(q->store, l.event, l.endpoint, &d));
    if (there && kind == WIRE_KIND_DEAD)
        put_dead(q, &l, &ev, e, d.previous, out);
    else if (there)
        put_recovered(&l, &ev, e, out);
    store_delivery_done(q->store);
    store_done(q->store);
    store_letter_done(q->store);
    return there;
}

/* ---- bodies ---- */

void body_drop_unneeded(struct sequencer *q, int64_t event)
{
    if (!store_letter_pending(q->store, event) &&
        !(q->agains && store_again_pending(q->store, event)))
        store_body_drop(q->store, event);
}

void body_maybe_drop(struct sequencer *q, int64_t event)
{
    if (store_event_ended(q->store, event))
        body_drop_unneeded(q, event);
}

/* What is dated outside of these goes. */
static void kept(struct sequencer *q, int64_t *from_ms, int64_t *to_ms)
{
    struct retention *r = &q->d.retention;
    int64_t now = q->d.loop.now_ms, keep = q->d.settings->dlq_keep_ms;

    if (keep > KEEP_MS)
        keep = KEEP_MS;
    *from_ms = retention_before(r, now, keep);
    *to_ms = retention_after(r, now, keep);
    if (retention_history(r, q->d.db, q->d.settings, now) == INT64_MAX)
        *from_ms = INT64_MAX;
}

bool letters_work(struct sequencer *q)
{
    int64_t from_ms, to_ms, event;
    uint64_t n, floor = 0;
    int i = 0;

    if (q->letters_ms && q->d.loop.mono_ms - q->letters_ms < LOOK_MS)
        return false;
    kept(q, &from_ms, &to_ms);
    for (; i < DROP_PER_TURN; i++) {
        n = hop_cursor(q->d.hop, "dlqd");
        event = store_letter_drop(q->store, &n, from_ms, to_ms);
        if (!event)
            break;
        floor = n + 1;
        body_maybe_drop(q, event);
    }
    if (floor)
        hop_floor(q->d.hop, "dlqd", floor);
    q->letters_ms = i < DROP_PER_TURN ? q->d.loop.mono_ms : 0;
    return i == DROP_PER_TURN;
}

/* ---- and back ---- */

/* An event that we do not have: our database is older than the letter. */
int64_t letters_adopt(struct sequencer *q, const struct wire_requeued *m)
{
    char *texts[] = {wire_dup(m->event_id),    wire_dup(m->source),
                     wire_dup(m->provider_id), wire_dup(m->type),
                     wire_dup(m->workspace),   wire_dup(m->clock)};
    struct event_row ev = {.n = intake_number(q),
                           .id = texts[0],
                           .source = texts[1],
                           .provider_id = texts[2],
                           .type = texts[3],
                           .workspace = texts[4],
                           .clock = texts[5],
                           .received_ms = m->received_ms,
                           .taken_ms = q->d.loop.now_ms,
                           .status = m->endpoint.n ? EVENT_ROUTED
                                                   : EVENT_REFUSED,
                           .sequence = m->sequence};
    const struct source *source = settings_source(q->d.settings, texts[1]);
    struct subject subject = {.headers = m->headers, .body = m->body};
    struct buf delivery_id;

    buf_init(&delivery_id, TEXT_MAX_BYTES);
    subject.source = texts[1];
    if (source)
        profile_delivery_id(source, &subject, &delivery_id);
    ev.delivery_id = delivery_id.data;
    store_event_add(q->store, &ev);
    subject_fini(&subject);
    buf_fini(&delivery_id);
    log_warn(texts[0], "a requeued event was not known here; taken over");
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        free(texts[i]);
    return ev.n;
}

/* dlqd knows a generation's end by its time (letter_died() in dlqd/letter.h), so what
 * is still held is sent again as it was. */
static void dead_again(struct sequencer *q, const struct delivery_row *d)
{
    int64_t n = store_letter_dead(q->store, d->event, d->endpoint, d->life);
    struct delivery_row row;
    struct letter_row l;

    if (n && store_letter(q->store, n, &l)) {
        put(q, WIRE_KIND_DEAD, &l);
        store_letter_done(q->store);
    } else if (store_delivery(q->store, d->event, d->endpoint, &row)) {
        letters_dead(q, &row, (struct bytes){"", 0});
        store_delivery_done(q->store);
    }
}

/* A requeue that is not for a delivery that is dead in that life: one of us came
 * back from an older copy. dlqd must hear of an end all the same. */
static void tell_again(struct sequencer *q, const struct wire_requeued *m,
                       struct delivery_row *d)
{
    if (d->status == DELIVERY_DELIVERED) {
        letters_recovered(q, d->event, d->endpoint, (int64_t)m->life);
    } else if (d->status == DELIVERY_DEAD) {
        dead_again(q, d);
    } else if (d->life <= (int64_t)m->life) {
        /* Open, with a death behind it that we do not know of: it goes on as
         * the life after, and its end is that one's. */
        store_life_set(q->store, d->event, d->endpoint, (int64_t)m->life + 1,
                       q->d.loop.now_ms);
    }
}

/* false: its delivery was not dead in that life. */
static bool revive(struct sequencer *q, const struct wire_requeued *m,
                   int64_t event, struct endpoint *e)
{
    struct delivery_row d;
    char *workspace, *reason;
    bool there = store_delivery(q->store, event, e->id, &d);

    reason = gr_strdup(there ? d.reason : "");
    store_delivery_done(q->store);
    if (!there) {
        d = (struct delivery_row){.event = event,
                                  .endpoint = e->id,
                                  .status = DELIVERY_DEAD,
                                  .life = (int64_t)m->life,
                                  .previous = m->previous,
                                  .attempts = (int64_t)m->attempts,
                                  .sent = m->attempts > 0};
        store_delivery_add(q->store, &d);
        blocks_note_endpoint(q->blocks, event, e->id);
    }
    d.reason = reason;
    /* A life above ours: we came back from before its last death. */
    if (d.status == DELIVERY_DEAD && d.life < (int64_t)m->life)
        d.life = (int64_t)m->life;
    if (d.status != DELIVERY_DEAD || d.life != (int64_t)m->life) {
        tell_again(q, m, &d);
        free(reason);
        return false;
    }
    if (d.grant) { /* abandoned, and an attempt may still be under way */
        store_again_add(q->store, event, e->id, 0);
        q->agains = true;
        free(reason);
        return true;
    }
    workspace = wire_dup(m->workspace);
    replay_wake(q, &d, e, workspace, 0);
    free(workspace);
    free(reason);
    return true;
}

/* The same for an event that was refused before it had deliveries. */
static bool look_again(struct sequencer *q, const struct wire_requeued *m,
                       int64_t event)
{
    if (intake_again(q, event, (int64_t)m->life) == GR_OK)
        return true;
    letters_recovered(q, event, 0, (int64_t)m->life);
    return false;
}

gr_rc letters_requeued(struct sequencer *q, const struct wire_requeued *m)
{
    char id[EVENT_ID_BYTES + 1], endpoint[NAME_MAX_BYTES + 1];
    int64_t event = store_event_n(q->store, m->event_id);
    bool taken;

    if (m->event_id.n != EVENT_ID_BYTES || !m->life ||
        m->endpoint.n > NAME_MAX_BYTES)
        return GR_REFUSE;
    wire_copy(id, sizeof id, m->event_id);
    wire_copy(endpoint, sizeof endpoint, m->endpoint);
    if (!event)
        event = letters_adopt(q, m);
    store_body_add(q->store, event, m->headers, m->body);
    /* An endpoint that is gone is there again as a removed one: the delivery
     * dies of that, in words. */
    taken = *endpoint ? revive(q, m, event, endpoint_adopt(q, endpoint))
                      : look_again(q, m, event);
    if (taken) {
        q->metrics[METRIC_REQUEUED]++;
        log_info(id, "requeued", LS("endpoint", endpoint),
                 LI("generation", m->life + 1));
        return GR_OK;
    }
    body_maybe_drop(q, event);
    log_warn(id, "a requeue was not taken: not dead in that life",
             LS("endpoint", endpoint), LI("generation", m->life));
    return GR_OK;
}

/* Nobody waits for a letter any more: the lane that it halts goes on. Of one
 * that is not dead here we came back from an older copy; it is tried again. */
gr_rc letters_decided(struct sequencer *q, const struct wire_decided *m)
{
    int64_t event = store_event_n(q->store, m->event_id);
    struct delivery_row d;
    struct endpoint *e;
    char *endpoint;
    bool there;

    if (m->event_id.n != EVENT_ID_BYTES || m->endpoint.n > NAME_MAX_BYTES)
        return GR_REFUSE;
    endpoint = wire_dup(m->endpoint);
    e = endpoint_find(q, endpoint);
    free(endpoint);
    there = event && e && store_delivery(q->store, event, e->id, &d);
    store_delivery_done(q->store);
    if (there && d.status == DELIVERY_DEAD)
        lanes_unhalt(q, e, event, d.lane);
    return GR_OK;
}
