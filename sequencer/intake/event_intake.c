/* event_intake: makes an event of an accepted request: parses it, finds duplicates, and
 * numbers and routes it. All in the turn's transaction. */
#include "clock.h"
#include "headers.h"
#include "intake_context.h"
#include "keys.h"
#include "log.h"
#include "profile.h"
#include "search_filters.h"
#include "split.h"
#include "store_order.h"
#include "transitions.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RESERVED_COUNT = 1024,
    VALID_MAX_BYTES = 2 * LABEL_MAX_BYTES, /* of the states that are listed */
};

int64_t intake_number(struct sequencer *q)
{
    if (q->next_event > q->reserved_event) {
        q->reserved_event = q->next_event + RESERVED_COUNT - 1;
        store_meta_set(q->store, "reserved_event", q->reserved_event);
    }
    return q->next_event++;
}

/* ---- a duplicate? ---- */

/* Event `n` came to this source. */
static bool came_to(struct sequencer *q, int64_t n, const char *source)
{
    struct event_row earlier = {0};
    bool same = n && store_event(q->store, n, &earlier) &&
                strcmp(earlier.source, source) == 0;

    event_fini(&earlier);
    return same;
}

/* The event that had this key before; 0: there is none. */
static int64_t find_key(struct sequencer *q, const struct parsed_key *k,
                        const struct event_row *ev)
{
    int64_t n = keys_find(q->keys, k->key, ev->received_ms, k->ttl_ms, ev->n);

    if (n || !k->was_shared)
        return n;
    n = keys_find(q->keys, k->shared, ev->received_ms, k->ttl_ms, ev->n);
    return came_to(q, n, ev->source) ? n : 0;
}

/* The first event that has one of its keys; 0: there is none. `known` says which keys
 * were seen. */
static int64_t find_keys(struct sequencer *q, const struct parsed_event *f,
                         const struct event_row *ev, bool known[KEYS_MAX])
{
    int64_t earlier = 0;

    for (size_t i = 0; i < f->key_count; i++) {
        int64_t n = find_key(q, &f->keys[i], ev);

        known[i] = n != 0;
        if (n && !earlier)
            earlier = n;
    }
    return earlier;
}

/* New keys of a duplicate lead to the first event. */
static void add_keys(struct sequencer *q, const struct parsed_event *f,
                     const struct event_row *ev, const bool known[KEYS_MAX],
                     int64_t earlier)
{
    for (size_t i = 0; i < f->key_count; i++)
        if (!known[i])
            keys_add(q->keys, f->keys[i].key, earlier ? earlier : ev->n,
                     ev->received_ms, f->keys[i].ttl_ms, q->d.loop.now_ms);
}

static bool has_key_of_type(const struct dedupe *d)
{
    for (size_t i = 0; i < d->count; i++)
        for (size_t k = 0; k < d->keys[i].count; k++)
            if (d->keys[i].parts[k].kind == EXPR_TYPE)
                return true;
    return false;
}

/* The same body under another type, while keys are kept that tell them apart by it:
 * Shopify sends one change under several topics. Never in another workspace. */
static bool is_other_type(struct sequencer *q, const struct intake_context *t,
                          int64_t first)
{
    const struct dedupe *d = &t->source->dedupe;
    struct event_row earlier = {0};
    bool other = has_key_of_type(d) &&
                 keys_signed_since(q->keys, t->f.signed_part,
                                   t->ev->received_ms - d->ttl_ms);

    /* history.keep may be shorter than the ttl: then its row is gone. */
    if (other && store_event(q->store, first, &earlier))
        other = strcmp(earlier.workspace, t->ev->workspace) == 0 &&
                strcmp(earlier.type, t->ev->type) != 0 &&
                t->ev->received_ms - earlier.received_ms <= d->ttl_ms;
    event_fini(&earlier);
    return other;
}

/* Store the digest of its signed part. Returns the earlier event with the same digest if this
 * one is a replay of it, else 0. `earlier`: the event that its idempotency keys lead to. */
static int64_t find_replay(struct sequencer *q, const struct intake_context *t,
                           int64_t earlier)
{
    const struct parsed_event *f = &t->f;
    int64_t first;

    if (!f->has_signed)
        return 0;
    first = keys_find_signed(q->keys, f->signed_part, t->ev->n);
    if (!first)
        keys_add_signed(q->keys, f->signed_part, earlier ? earlier : t->ev->n,
                        t->ev->received_ms, t->source->dedupe.replays_ms,
                        q->d.loop.now_ms);
    if (!first || earlier || is_other_type(q, t, first))
        return 0;
    return first;
}

/* The event that it repeats; 0: it is the first itself. An event that is
 * only replayed leaves no keys: their unsigned parts may be forged. */
static int64_t find_duplicate(struct sequencer *q, struct intake_context *t)
{
    bool known[KEYS_MAX] = {false};
    int64_t earlier = find_keys(q, &t->f, t->ev, known);
    int64_t replay = find_replay(q, t, earlier);

    t->replayed = replay != 0;
    if (!replay)
        add_keys(q, &t->f, t->ev, known, earlier);
    return replay ? replay : earlier;
}

/* ---- a valid transition? ---- */

/* With the states that are valid, so that a reader need not look them up. */
static void note_invalid(struct intake_context *t, const struct state_rules *r,
                         const char *from)
{
    const char *object = t->f.object.data, *to = t->f.state.data;
    struct buf valid;

    buf_init(&valid, VALID_MAX_BYTES);
    transitions_valid_from(r, from, &valid);
    if (from)
        snprintf(t->reason, sizeof t->reason,
                 "invalid_transition: object %s is %s, which cannot become %s; "
                 "valid: %s",
                 object, from, to, valid.failed ? "…" : valid.data);
    else
        snprintf(t->reason, sizeof t->reason,
                 "invalid_transition: object %s is new and cannot start as %s; "
                 "valid: %s",
                 object, to, valid.failed ? "…" : valid.data);
    buf_fini(&valid);
}

static bool transition(struct sequencer *q, struct intake_context *t)
{
    const struct state_rules *r = t->source ? &t->source->states : NULL;
    const struct event_row *ev = t->ev;
    const char *to = t->f.state.data;
    char *from;
    bool valid;

    if (!r || r->object.kind == EXPR_NONE)
        return true;
    from = store_object(q->order, ev->source, ev->workspace, t->f.object.data);
    valid = t->forced || transition_is_valid(r, from, to);
    if (valid) {
        store_object_set(q->order, ev->source, ev->workspace, t->f.object.data,
                         to, q->d.loop.now_ms, state_is_last(r, to));
        store_transition_add(q->store, ev->n, t->f.object.data, from, to);
    } else {
        note_invalid(t, r, from);
    }
    free(from);
    return valid;
}

/* ---- one event ---- */

/* It is released: its transition is judged now, and it gets its number. */
void intake_route(struct sequencer *q, struct intake_context *t)
{
    if (transition(q, t)) {
        routing_route(q, t);
    } else {
        event_move(t->ev, EVENT_IGNORED, t->reason);
    }
}

/* Also of one that was seen before: what is kept in its row then stays. */
static bool is_duplicate(struct sequencer *q, struct intake_context *t)
{
    struct event_row earlier = {0};
    int64_t n = t->released ? 0 : find_duplicate(q, t);

    if (!n)
        return false;
    if (store_event(q->store, n, &earlier)) /* the key may outlive the row */
        wire_copy(t->earlier_id, sizeof t->earlier_id, wire_text(earlier.id));
    event_fini(&earlier);
    t->ev->duplicate_of = t->earlier_id;
    event_move(t->ev, EVENT_DUPLICATE, t->replayed ? "replayed" : NULL);
    return true;
}

void intake_decide(struct sequencer *q, struct intake_context *t)
{
    struct event_row *ev = t->ev;

    ev->provider_id = t->f.id.data;
    ev->delivery_id = t->f.delivery_id.data;
    ev->type = t->f.type.len ? t->f.type.data : "unknown";
    ev->workspace = t->f.workspace.len ? t->f.workspace.data : "default";
    if (t->f.refused) {
        event_move(ev, EVENT_REFUSED, t->f.refused);
    } else if (t->action_id) {
        routing_route(q, t);
    } else if (!is_duplicate(q, t) &&
               /* A forced one had its position already. */
               (t->forced || streams_admit(q->streams, t->source, &t->f, ev,
                                           t->generation, &t->strings))) {
        intake_route(q, t);
    }
}

/* The only line about an event that ends as it is taken. */
static void log_end(const struct intake_context *t, enum log_level level,
                    const char *what)
{
    const struct event_row *ev = t->ev;

    if (log_has_capacity(level))
        log_write(level, ev->id, what,
                  LOG_FIELDS(LO("provider_id", ev->provider_id),
                             LS("source", ev->source),
                             LS("workspace", ev->workspace),
                             LS("type", ev->type), LO("reason", ev->reason),
                             LO("duplicate_of", ev->duplicate_of),
                             LI("duration_ms", event_duration_ms(ev, 0)),
                             LS("mode", profile_mode(t->source, t->subject))));
}

static void say(struct sequencer *q, const struct intake_context *t)
{
    const struct event_row *ev = t->ev;

    switch (ev->status) {
    case EVENT_DUPLICATE:
        q->metrics[METRIC_DUPLICATES]++;
        q->metrics[METRIC_REPLAYS] += t->replayed;
        log_end(t, t->replayed ? LEVEL_WARN : LEVEL_INFO, "duplicate");
        break;
    case EVENT_REFUSED:
        q->metrics[METRIC_REFUSED]++;
        log_end(t, LEVEL_WARN, "refused");
        break;
    case EVENT_IGNORED:
        q->metrics[METRIC_IGNORED]++;
        log_end(t, LEVEL_INFO, "ignored");
        break;
    case EVENT_BUFFERED:
        log_debug(ev->id, "held", LS("workspace", ev->workspace),
                  LI("source_sequence", ev->source_sequence));
        break;
    default:
        log_debug(ev->id, "routed", LS("workspace", ev->workspace),
                  LI("sequence", ev->sequence), LS("type", ev->type),
                  LI("endpoints", t->endpoints));
    }
}

/* Tell dlqd that the event became a dead letter, or is no longer one. A buffered event
 * reports later: its generation is stored with its position. */
static void send_to_dlqd(struct sequencer *q, const struct intake_context *t)
{
    bool dead = t->ev->status == EVENT_REFUSED ||
                (t->ev->status == EVENT_IGNORED &&
                 t->source->states.invalid_is_dead);

    if (dead)
        dead_letters_refused(q, t->ev, t->generation + 1);
    else if (t->generation && t->ev->status != EVENT_BUFFERED)
        dead_letters_recovered(q, t->ev->n, 0, t->generation);
    if (t->ev->status == EVENT_ROUTED && !t->endpoints)
        event_maybe_ended(q, t->ev->n);
}

static void said(struct sequencer *q, struct intake_context *t)
{
    send_to_dlqd(q, t);
    say(q, t);
    publication_fini(&t->published);
    buf_fini(&t->clock);
    parsed_event_fini(&t->f);
}

/* Its row exists: its type or workspace may have changed. */
static void set_event(struct sequencer *q, struct event_row *ev)
{
    if (ev->status == EVENT_ROUTED || ev->status == EVENT_IGNORED)
        ev->released_ms = q->d.loop.now_ms;
    store_event_set(q->store, ev);
    search_filters_note(q->search_filters, ev->n, FILTER_TYPE, ev->type);
    search_filters_note(q->search_filters, ev->n, FILTER_WORKSPACE,
                        ev->workspace);
}

void intake_finish(struct sequencer *q, struct intake_context *t)
{
    set_event(q, t->ev);
    said(q, t);
}

static void take_it(struct sequencer *q, struct intake_context *t);

/* One event of a request of several. Its id is made from the request's, so it
 * is known when the request comes again after a restore. */
static void take_part(struct sequencer *q, const struct event_row *request,
                      const struct subject *whole, struct bytes body,
                      const struct parsed_signed *signed_part, size_t index)
{
    struct event_row ev = {.status = EVENT_NEW,
                           .source = request->source,
                           .received_ms = request->received_ms,
                           .taken_ms = q->d.loop.now_ms,
                           .reopened_ms = request->reopened_ms};
    struct subject subject = {
        .source = whole->source, .headers = whole->headers, .body = body};
    char id[EVENT_ID_BYTES + 1];

    split_id(id, request->id, index);
    if (store_event_n(q->store, wire_text(id)))
        return;
    ev.id = id;
    ev.n = intake_number(q);
    store_part_add(q->store, ev.n, request->n);
    take_it(q, &(struct intake_context){.ev = &ev,
                                        .subject = &subject,
                                        .whole = signed_part,
                                        .index = index});
    streams_follow(q->streams);
    subject_fini(&subject);
}

/* A request of several events: its own row says that it came, and by which delivery;
 * its events go their ways. */
static void take_parts(struct sequencer *q, struct event_row *ev,
                       struct subject *subject, const struct source *source,
                       const struct split *parts, const struct buf *delivery,
                       int64_t generation)
{
    struct parsed_signed signed_part;
    char reason[40];

    snprintf(reason, sizeof reason, "%zu events", parts->count);
    ev->type = "batch";
    ev->workspace = "default";
    event_move(ev, EVENT_SPLIT, reason);
    ev->delivery_id = delivery->data;
    if (generation)
        set_event(q, ev);
    else
        store_event_add(q->store, ev);
    subject->provider = source->provider;
    parsed_event_signed(&signed_part, source, subject);
    for (size_t i = 0; i < parts->count; i++)
        take_part(q, ev, subject, parts->parts[i], &signed_part, i);
    if (generation)
        dead_letters_recovered(q, ev->n, 0, generation);
    log_info(ev->id, "split", LS("source", ev->source),
             LI("events", parts->count));
}

/* true: it carries several events. `why`: it should, but can't be read. */
static bool carries_several(struct sequencer *q, const struct event_row *ev,
                            const struct source *source,
                            const struct subject *subject, struct split *parts,
                            const char **why)
{
    *parts = (struct split){0};
    *why = NULL;
    if (!source || !source->batch || store_part_of(q->store, ev->n))
        return false;
    return split_body(subject->body, parts, why) == GR_OK && parts->count;
}

/* Store a refused event as it was received, so that a requeue can parse it again; store any
 * other as it will be delivered. */
static void keep_body(struct sequencer *q, const struct event_row *ev,
                      const struct subject *subject,
                      const struct publication *u, bool fresh)
{
    bool ours = u->is && ev->status != EVENT_REFUSED;

    if (ours && !fresh)
        store_body_drop(q->store, ev->n);
    if (ours)
        store_body_add(q->store, ev->n,
                       (struct bytes){u->headers.data, u->headers.len},
                       (struct bytes){u->body.data, u->body.len});
    else if (fresh)
        store_body_add(q->store, ev->n, subject->headers, subject->body);
}

/* By which delivery of the provider's it came. That of a request of several is the
 * request's. */
static void find_delivery_id(struct sequencer *q,
                             const struct intake_context *t, struct buf *out)
{
    if (t->source && !(t->source->batch && store_part_of(q->store, t->ev->n)))
        profile_delivery_id(t->source, t->subject, out);
}

/* A producer's event says all of itself. It needs no keys: its id is made from
 * its idempotency key. */
static void find_published(struct intake_context *t)
{
    struct publication *u = &t->published;

    if (publication_read(u, t->subject->headers, t->subject->body, t->ev->id,
                         t->ev->received_ms) != GR_OK) {
        parsed_event_refuse(&t->f, u->why);
        return;
    }
    parsed_event_refuse(&t->f, NULL);
    buf_put(&t->f.id, u->key.p, u->key.n);
    buf_puts(&t->f.type, u->p.type);
    buf_puts(&t->f.workspace, u->p.workspace);
}

void intake_parse(struct sequencer *q, struct intake_context *t,
                  const char *unread)
{
    buf_init(&t->clock, 2 * CLOCK_MAX_BYTES);
    if (unread) {
        parsed_event_refuse(&t->f, unread);
    } else if (t->source) {
        t->subject->provider = t->source->provider;
        parsed_event_make(&t->f, t->source, t->subject, t->whole, t->index);
    } else if (settings_producer(q->d.settings, t->ev->source)) {
        find_published(t);
    } else {
        parsed_event_refuse(&t->f,
                            "its source is no longer in the configuration");
    }
    find_delivery_id(q, t, &t->f.delivery_id);
}

static bool has_key(struct bytes id)
{
    return id.n == EVENT_ID_BYTES &&
           memcmp(id.p, KEYED_IDS_FROM, strlen(KEYED_IDS_FROM)) >= 0;
}

static void note_digest(struct sequencer *q, const struct intake_context *t)
{
    uint8_t digest[PUBLISHED_DIGEST_BYTES];

    if (!has_key(wire_text(t->ev->id)))
        return;
    published_digest(&t->published.p, t->subject->body, digest);
    store_digest_add(q->store, t->ev->n, (struct bytes){digest, sizeof digest});
}

static void take_it(struct sequencer *q, struct intake_context *t)
{
    struct split parts;
    struct buf delivery;
    const char *unread;

    t->source = settings_source(q->d.settings, t->ev->source);
    if (t->damaged) {
        unread = REASON_DAMAGED;
    } else if (carries_several(q, t->ev, t->source, t->subject, &parts,
                               &unread)) {
        buf_init(&delivery, TEXT_MAX_BYTES);
        find_delivery_id(q, t, &delivery);
        take_parts(q, t->ev, t->subject, t->source, &parts, &delivery,
                   t->generation);
        buf_fini(&delivery);
        split_fini(&parts);
        return;
    }
    intake_parse(q, t, unread);
    if (!t->whole && t->source && t->source->batch &&
        store_part_of(q->store, t->ev->n))
        t->f.has_signed = false; /* what was signed is its request's */
    if (t->refused)
        t->f.refused = t->refused;
    intake_decide(q, t);
    keep_body(q, t->ev, t->subject, &t->published, !t->generation);
    if (t->generation)
        set_event(q, t->ev);
    else
        store_event_add(q->store, t->ev);
    if (t->published.is && !t->generation && !t->refused)
        note_digest(q, t);
    said(q, t);
}

/* `generation` 0: the event is new. Else its row is there, it was refused in that
 * generation, and its dead letter was requeued. */
void intake_take_event(struct sequencer *q, struct event_row *ev,
                       struct subject *subject, int64_t generation)
{
    take_it(q, &(struct intake_context){
                   .ev = ev, .subject = subject, .generation = generation});
}

static const char key_reused[] =
    "idempotency_key_reused: another event already has this key";

/* Event `known` has this id already, because both came with one idempotency key. An
 * ingress refuses another body under a key that it knows; it does not know the keys
 * of the other ingress processes, nor those that have left its archive. Then this
 * one is refused here, under an id made of both, so that it is refused once when
 * the link repeats it. false: it is the same event, or was refused before. */
static bool reuses_key(struct sequencer *q, const struct wire_accepted *m,
                       int64_t known, char id[EVENT_ID_BYTES + 1])
{
    uint8_t digest[PUBLISHED_DIGEST_BYTES];
    struct published_wrong wrong;
    struct published p;
    bool differs = false;

    if (!has_key(m->event_id))
        return false;
    if (published_read(&p, m->body, &wrong) == GR_OK) {
        published_digest(&p, m->body, digest);
        differs = store_digest_differs(q->store, known,
                                       (struct bytes){digest, sizeof digest});
    }
    published_fini(&p);
    if (!differs)
        return false;
    wire_copy(id, EVENT_ID_BYTES + 1, m->event_id);
    published_event_id(id, id, (struct bytes){digest, sizeof digest});
    return !store_event_n(q->store, wire_text(id));
}

static gr_rc take_message(struct sequencer *q, const struct wire_accepted *m,
                          const struct wire_replayed *replayed,
                          const char *only)
{
    struct event_row ev = {.status = EVENT_NEW};
    struct subject subject = {.headers = m->headers, .body = m->body};
    char id[EVENT_ID_BYTES + 1], source[NAME_MAX_BYTES + 1];
    char first_id[EVENT_ID_BYTES + 1];
    int64_t known;

    if (m->event_id.n != EVENT_ID_BYTES || !m->source.n ||
        m->source.n > NAME_MAX_BYTES || !headers_valid(m->headers))
        return GR_REFUSE;
    if (q->disk_low)
        return GR_AGAIN;
    known = store_event_n(q->store, m->event_id);
    wire_copy(id, sizeof id, m->event_id);
    if (known && (replayed || !reuses_key(q, m, known, id)))
        return GR_OK; /* came again after a link was set back */
    wire_copy(source, sizeof source, m->source);
    wire_copy(first_id, sizeof first_id, m->event_id);
    ev.id = id;
    if (known)
        ev.duplicate_of = first_id;
    ev.source = subject.source = source;
    ev.received_ms = m->received_ms;
    ev.taken_ms = q->d.loop.now_ms;
    ev.reopened_ms = replayed ? q->d.loop.now_ms : 0;
    ev.n = intake_number(q);
    q->metrics[METRIC_TAKEN]++;
    take_it(q, &(struct intake_context){
                   .ev = &ev,
                   .subject = &subject,
                   .only = only,
                   .damaged = m->damaged,
                   .refused = known ? key_reused : NULL,
                   .always = replayed && replayed->always,
                   .action_id = replayed ? replayed->action_id : 0});
    streams_follow(q->streams);
    subject_fini(&subject);
    return GR_OK;
}

gr_rc intake_accepted(struct sequencer *q, const struct wire_accepted *m)
{
    return take_message(q, m, NULL, NULL);
}

gr_rc intake_replayed(struct sequencer *q, const struct wire_accepted *m,
                      const struct wire_replayed *replayed)
{
    char *only = replayed->endpoint.n ? wire_dup(replayed->endpoint) : NULL;
    gr_rc rc = take_message(q, m, replayed, only);

    free(only);
    return rc;
}

/* ---- an event of our own ---- */

void intake_own(struct sequencer *q, struct endpoint *e, const char *type,
                const char *workspace, struct bytes body, int64_t expires_ms)
{
    struct event_row ev = {.n = intake_number(q),
                           .status = EVENT_NEW,
                           .source = "grapnel",
                           .type = type,
                           .workspace = workspace,
                           .received_ms = q->d.loop.now_ms,
                           .taken_ms = q->d.loop.now_ms};
    char id[EVENT_ID_BYTES + 1] = "evt_";
    struct buf headers;

    ulid_next(&q->ids, q->d.loop.now_ms, id + 4);
    ev.id = id;
    event_move(&ev, EVENT_ROUTED, NULL);
    buf_init(&headers, 256);
    publication_put_expires(&headers, expires_ms);
    headers_put(&headers, "content-type", wire_text("application/json"));
    store_body_add(q->store, ev.n, (struct bytes){headers.data, headers.len},
                   body);
    routing_give(q, e, &ev, lanes_workspace(q, workspace),
                 q->next_route_order++, 1, 0);
    store_event_add(q->store, &ev);
    buf_fini(&headers);
}
