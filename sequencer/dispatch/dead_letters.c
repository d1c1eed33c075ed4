/* dead_letters: messages about dead letters: those to dlqd, and what dlqd sends back. */
#include "dead_letters.h"
#include "choice.h"
#include "db_sums.h"
#include "event_intake.h"
#include "lanes.h"
#include "log.h"
#include "outcomes.h"
#include "profile.h"
#include "publication.h"
#include "store.h"
#include "trace_context.h"
#include "workspace_erase.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DROP_PER_TURN = 64,
    LOOK_MS = 1000,
    KEEP_MS = 24 * 3600 * 1000, /* of messages that dlqd has acknowledged */
};

void dead_letter_id(char out[DEAD_LETTER_ID_BYTES], const char *event_id,
                    const char *endpoint)
{
    snprintf(out, DEAD_LETTER_ID_BYTES, "dlq_%.*s%s%s", EVENT_ID_BYTES,
             strncmp(event_id, "evt_", 4) == 0 ? event_id + 4 : event_id,
             *endpoint ? "-" : "", endpoint);
}

static void put(struct sequencer *q, int kind, const struct dead_letter_row *l)
{
    uint64_t n = links_next(q->d.links, "dlqd");

    links_put(q->d.links, "dlqd", kind, store_dead_letter_add(q->store, n, l));
}

/* The message may be sent when the delivery is in a later generation, so its row has all that
 * it says. */
void dead_letters_dead(struct sequencer *q, const struct delivery *d,
                       struct bytes response)
{
    put(q, WIRE_KIND_DEAD,
        &(struct dead_letter_row){.event = d->event,
                                  .endpoint = d->endpoint,
                                  .generation = d->generation,
                                  .at_ms = q->d.loop.now_ms,
                                  .attempts = d->attempts,
                                  .first_ms = d->first_ms,
                                  .http_status = d->http_status,
                                  .error = d->error,
                                  .reason = d->reason,
                                  .response = response});
}

void dead_letters_refused(struct sequencer *q, const struct event_row *ev,
                          int64_t generation)
{
    char *reason = ev->status == EVENT_IGNORED
                       ? gr_strdup("invalid_transition")
                       : gr_printf("refused:%s", ev->reason);

    put(q, WIRE_KIND_DEAD,
        &(struct dead_letter_row){.event = ev->n,
                                  .generation = generation,
                                  .at_ms = q->d.loop.now_ms,
                                  .error = "",
                                  .reason = reason,
                                  .response = {"", 0}});
    free(reason);
}

void dead_letters_recovered(struct sequencer *q, int64_t event,
                            int64_t endpoint, int64_t generation)
{
    put(q, WIRE_KIND_RECOVERED,
        &(struct dead_letter_row){.event = event,
                                  .endpoint = endpoint,
                                  .generation = generation,
                                  .at_ms = q->d.loop.now_ms,
                                  .error = "",
                                  .reason = "",
                                  .response = {"", 0}});
}

/* ---- encoded as they leave ---- */

static void put_dead(struct sequencer *q, const struct dead_letter_row *l,
                     const struct event_row *ev, const struct endpoint *e,
                     uint64_t previous, struct buf *out)
{
    char id[DEAD_LETTER_ID_BYTES];
    struct bytes headers = {"", 0}, body = {"", 0};
    struct wire_dead m = {
        .generation = (uint64_t)l->generation,
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

    dead_letter_id(id, ev->id, e ? e->name : "");
    m.dead_letter_id = wire_text(id);
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

static void put_recovered(const struct dead_letter_row *l,
                          const struct event_row *ev, const struct endpoint *e,
                          struct buf *out)
{
    char id[DEAD_LETTER_ID_BYTES];
    struct wire_recovered m = {.generation = (uint64_t)l->generation,
                               .at_ms = l->at_ms};

    dead_letter_id(id, ev->id, e ? e->name : "");
    m.dead_letter_id = wire_text(id);
    wire_put_recovered(out, &m);
}

bool dead_letters_load(struct sequencer *q, int kind, int64_t ref,
                       struct buf *out)
{
    struct delivery d = {0};
    struct dead_letter_row l;
    struct event_row ev = {0};
    struct endpoint *e;
    bool there;

    if (!store_dead_letter(q->store, ref, &l))
        return false;
    e = endpoint_by_id(q, l.endpoint);
    there = store_event(q->store, l.event, &ev) &&
            (!l.endpoint ||
             delivery_load(q->deliveries, l.event, l.endpoint, &d));
    if (there && kind == WIRE_KIND_DEAD)
        put_dead(q, &l, &ev, e, d.previous, out);
    else if (there)
        put_recovered(&l, &ev, e, out);
    delivery_fini(&d);
    event_fini(&ev);
    store_dead_letter_done(q->store);
    return there;
}

/* Rows whose time is outside of this range are deleted. */
static void kept_range(struct sequencer *q, int64_t *from_ms, int64_t *to_ms)
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

bool dead_letters_work(struct sequencer *q)
{
    int64_t from_ms, to_ms, event;
    uint64_t n, floor = 0;
    int i = 0;

    if (q->dead_letters_ms && q->d.loop.mono_ms - q->dead_letters_ms < LOOK_MS)
        return false;
    kept_range(q, &from_ms, &to_ms);
    for (; i < DROP_PER_TURN; i++) {
        n = links_cursor(q->d.links, "dlqd");
        event = store_dead_letter_drop(q->store, &n, from_ms, to_ms);
        if (!event)
            break;
        floor = n + 1;
        event_maybe_drop_body(q, event);
    }
    if (floor)
        links_floor(q->d.links, "dlqd", floor);
    q->dead_letters_ms = i < DROP_PER_TURN ? q->d.loop.mono_ms : 0;
    return i == DROP_PER_TURN;
}

/* ---- from dlqd ---- */

int64_t dead_letters_adopt(struct sequencer *q, const struct wire_requeued *m)
{
    char *strings[] = {wire_dup(m->event_id),
                       wire_dup(m->source),
                       wire_dup(m->provider_id),
                       wire_dup(m->type),
                       wire_dup(m->workspace),
                       wire_dup(m->clock),
                       wire_dup(publication_ordering_key(m->headers))};
    struct event_row ev = {.n = intake_number(q),
                           .id = strings[0],
                           .source = strings[1],
                           .provider_id = strings[2],
                           .type = strings[3],
                           .workspace = strings[4],
                           .clock = strings[5],
                           .ordering_key = strings[6],
                           .received_ms = m->received_ms,
                           .taken_ms = q->d.loop.now_ms,
                           .status = EVENT_NEW,
                           .sequence = m->sequence};
    const struct source *source = settings_source(q->d.settings, strings[1]);
    struct subject subject = {.headers = m->headers, .body = m->body};
    char traceparent[TRACEPARENT_CHARS + 1];
    struct buf delivery_id;

    traceparent_read(m->headers, traceparent);
    ev.traceparent = traceparent;
    event_move(&ev, m->endpoint.n ? EVENT_ROUTED : EVENT_REFUSED, NULL);
    buf_init(&delivery_id, TEXT_MAX_BYTES);
    subject.source = strings[1];
    if (source)
        profile_delivery_id(source, &subject, &delivery_id);
    ev.delivery_id = delivery_id.data;
    store_event_add(q->store, &ev);
    subject_fini(&subject);
    buf_fini(&delivery_id);
    log_warn(strings[0],
             "a requeued event was unknown here; accepted from dlqd");
    for (size_t i = 0; i < COUNT_OF(strings); i++)
        free(strings[i]);
    return ev.n;
}

/* dlqd recognises a generation's end by its time (dead_letter_died() in
 * dlqd/dead_letter.h), so repeat the message that is still stored, if there is one. */
static void repeat_dead(struct sequencer *q, const struct delivery *d)
{
    int64_t n = store_dead_letter_dead(q->store, d->event, d->endpoint,
                                       d->generation);
    struct dead_letter_row l;

    if (n && store_dead_letter(q->store, n, &l)) {
        put(q, WIRE_KIND_DEAD, &l);
        store_dead_letter_done(q->store);
    } else {
        dead_letters_dead(q, d, (struct bytes){"", 0});
    }
}

/* The delivery is not dead in the requeued generation: this process or dlqd was restored from
 * an older copy. dlqd must still be told the end of that generation. */
static void send_end(struct sequencer *q, const struct wire_requeued *m,
                     struct delivery *d)
{
    if (d->status == DELIVERY_DELIVERED || d->status == DELIVERY_ABANDONED) {
        dead_letters_recovered(q, d->event, d->endpoint,
                               (int64_t)m->generation);
    } else if (d->status == DELIVERY_DEAD) {
        repeat_dead(q, d);
    } else if (d->generation <= (int64_t)m->generation) {
        /* It is open, and a dead letter of it is unknown here: continue it as the next
         * generation, so that its end is that generation's. */
        d->died = (int64_t)m->generation;
        d->generation = d->died + 1;
        d->reopened_ms = q->d.loop.now_ms;
        delivery_save(q->deliveries, d);
    }
}

/* false: its delivery was not dead in that generation. */
static bool reopen_dead(struct sequencer *q, const struct wire_requeued *m,
                        struct endpoint *e, struct delivery *d)
{
    char *workspace, *ordering_key;
    struct lane lane;

    /* This database is from before the delivery's last dead letter. */
    if (d->status == DELIVERY_DEAD && d->generation < (int64_t)m->generation)
        d->generation = (int64_t)m->generation;
    if (d->status != DELIVERY_DEAD || d->generation != (int64_t)m->generation) {
        send_end(q, m, d);
        return false;
    }
    if (d->grant_id) { /* abandoned, and an attempt may still be in flight */
        store_reopening_add(q->store, d->event, e->id, 0);
        q->reopenings = true;
        return true;
    }
    workspace = wire_dup(m->workspace);
    ordering_key = wire_dup(publication_ordering_key(m->headers));
    lane = lanes_of_reopened(e, lanes_workspace(q, workspace), ordering_key,
                             choice_priority(d->retry_choice));
    delivery_reopen(q, e, d, lane, 0);
    free(workspace);
    free(ordering_key);
    return true;
}

static bool requeue(struct sequencer *q, const struct wire_requeued *m,
                    int64_t event, struct endpoint *e)
{
    struct delivery d;
    bool taken;

    if (!delivery_load(q->deliveries, event, e->id, &d)) {
        delivery_add_dead(
            q, &(struct delivery){.event = event,
                                  .endpoint = e->id,
                                  .status = DELIVERY_DEAD,
                                  .generation = (int64_t)m->generation,
                                  .previous = m->previous,
                                  .attempts = (int64_t)m->attempts,
                                  .sent = m->attempts > 0});
        if (!delivery_load(q->deliveries, event, e->id, &d))
            return false;
        d.attempts = (int64_t)m->attempts;
    }
    taken = reopen_dead(q, m, e, &d);
    delivery_fini(&d);
    return taken;
}

gr_rc dead_letters_requeued(struct sequencer *q, const struct wire_requeued *m)
{
    char id[EVENT_ID_BYTES + 1], endpoint[NAME_MAX_BYTES + 1];
    int64_t event = store_event_n(q->store, m->event_id);
    bool taken;

    if (m->event_id.n != EVENT_ID_BYTES || !m->generation ||
        m->endpoint.n > NAME_MAX_BYTES)
        return GR_REFUSE;
    if (workspace_erased(q, m->workspace))
        return GR_OK;
    wire_copy(id, sizeof id, m->event_id);
    wire_copy(endpoint, sizeof endpoint, m->endpoint);
    if (!event)
        event = dead_letters_adopt(q, m);
    store_body_add(q->store, event, m->headers, m->body);
    /* An endpoint that was forgotten is added again, as a removed one: the delivery is then
     * dead-lettered with that reason. */
    if (*endpoint) {
        taken = requeue(q, m, event, endpoint_adopt(q, endpoint));
    } else {
        taken = intake_reprocess(q, event, (int64_t)m->generation) == GR_OK;
        if (!taken)
            dead_letters_recovered(q, event, 0, (int64_t)m->generation);
    }
    if (taken) {
        q->metrics[METRIC_REQUEUED]++;
        log_info(id, "requeued", LS("endpoint", endpoint),
                 LI("generation", m->generation + 1));
        return GR_OK;
    }
    event_maybe_drop_body(q, event);
    log_warn(id, "a requeue was not taken: not dead in that generation",
             LS("endpoint", endpoint), LI("generation", m->generation));
    return GR_OK;
}

/* If the delivery is not dead here, this database is an older copy; the delivery is tried
 * again. */
gr_rc dead_letters_decided(struct sequencer *q, const struct wire_decided *m)
{
    int64_t event = store_event_n(q->store, m->event_id);
    struct delivery d;
    struct endpoint *e;
    char *endpoint;

    if (m->event_id.n != EVENT_ID_BYTES || m->endpoint.n > NAME_MAX_BYTES)
        return GR_REFUSE;
    endpoint = wire_dup(m->endpoint);
    e = endpoint_find(q, endpoint);
    free(endpoint);
    if (!event || (m->endpoint.n && !e))
        return GR_OK;
    outcomes_decided(q, event, e ? e->id : 0, (int64_t)m->generation,
                     wire_is(m->what, "resolved"));
    if (!e)
        return GR_OK;
    if (delivery_load(q->deliveries, event, e->id, &d) &&
        d.status == DELIVERY_DEAD)
        lanes_unhalt(q, e, event, delivery_lane(&d));
    delivery_fini(&d);
    return GR_OK;
}
