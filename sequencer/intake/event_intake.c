/* event_intake: takes events in: parses, judges, routes and stores each one. */
#include "event_intake.h"
#include "clock.h"
#include "db_sums.h"
#include "dead_letters.h"
#include "duplicates.h"
#include "event_trace.h"
#include "gaps.h"
#include "headers.h"
#include "hops.h"
#include "json_text.h"
#include "lanes.h"
#include "log.h"
#include "operational_archive.h"
#include "operational_events.h"
#include "outcomes.h"
#include "parsed_event.h"
#include "profile.h"
#include "provider_ids.h"
#include "publication.h"
#include "published.h"
#include "routing.h"
#include "search_filters.h"
#include "sequencer.h"
#include "split.h"
#include "store.h"
#include "store_search.h"
#include "streams.h"
#include "trace_context.h"
#include "transitions.h"
#include "workspace_erase.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESERVED_COUNT = 1024 };

/* One event at work, from its request or its row to its status. */
struct event_intake {
    struct event_row *ev;
    struct subject *subject;
    const struct source *source; /* NULL: it is not configured any more */
    struct parsed_event f;
    struct publication published;        /* of a producer's event */
    const struct event_content *content; /* NULL: it is stored already */
    /* The generation of its dead letter in which it was refused or ignored; 0: it is new. */
    int64_t generation;
    /* It is element `index` of a request that carries several; NULL: its request carries
     * only this event. */
    const struct parsed_signed *whole;
    size_t index;
    bool not_duplicate; /* an operator decided that it is not a duplicate … */
    bool forced; /* … or that its transition is applied, though it is invalid */
    bool replayed; /* a duplicate that only its signed part shows to be one */
    /* an operator sends it again (replay.h); 0: it is received */
    uint64_t action_id;
    bool damaged; /* its stored request is damaged, and is not parsed */
    /* refuse it for this, whatever its request says; NULL: judge it */
    const char *refused;
    /* for this endpoint; NULL: for all that are subscribed … */
    const char *only;
    bool always; /* … also if that is not subscribed */
    char earlier_id[EVENT_ID_BYTES + 1];
    char reason[EVENT_REASON_BYTES];
    char traceparent[TRACEPARENT_CHARS + 1];
    struct position_strings strings;
    struct buf clock;
    int endpoints;
};

int64_t intake_number(struct sequencer *q)
{
    if (q->next_event > q->reserved_event) {
        q->reserved_event = q->next_event + RESERVED_COUNT - 1;
        store_meta_set(q->store, "reserved_event", q->reserved_event);
    }
    return q->next_event++;
}

/* ---- what the event is ---- */

/* The delivery by which the provider sent it. Events of one request have none: the row of
 * their request has it. */
static void find_delivery_id(struct sequencer *q, const struct event_intake *t,
                             struct buf *out)
{
    if (t->source && !(t->source->batch && store_part_of(q->store, t->ev->n)))
        profile_delivery_id(t->source, t->subject, out);
}

/* A producer's event has all fields in its body. It needs no keys: its id is made from its
 * idempotency key. */
static void parse_published(struct event_intake *t)
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

/* Parse its request by the current configuration. `why_unparsable`: why that is impossible. Call
 * end_intake() in any case. */
static void parse(struct sequencer *q, struct event_intake *t,
                  const char *why_unparsable)
{
    buf_init(&t->clock, 2 * CLOCK_MAX_BYTES);
    if (why_unparsable) {
        parsed_event_refuse(&t->f, why_unparsable);
    } else if (t->source) {
        t->subject->provider = t->source->provider;
        parsed_event_make(&t->f, t->source, t->subject, t->whole, t->index);
    } else if (settings_producer(q->d.settings, t->ev->source)) {
        parse_published(t);
    } else {
        parsed_event_refuse(&t->f,
                            "its source is no longer in the configuration");
    }
    find_delivery_id(q, t, &t->f.delivery_id);
}

static void route(struct sequencer *q, struct event_intake *t)
{
    const struct routing_options o = {.published = &t->published,
                                      .content = t->content,
                                      .only = t->only,
                                      .always = t->always,
                                      .generation = t->generation,
                                      .action_id = t->action_id};

    t->endpoints = routing_route(q, t->ev, t->subject, &o, &t->clock,
                                 t->reason);
}

/* The event is released: its transition is judged now, and it gets its number. */
static void route_if_valid(struct sequencer *q, struct event_intake *t)
{
    if (transition_apply(q, t->source, t->ev, &t->f, t->forced, t->reason))
        route(q, t);
    else
        event_move(t->ev, EVENT_IGNORED, t->reason);
}

/* Also asked of an event that was received before: the row of a duplicate stays. */
static bool is_duplicate(struct sequencer *q, struct event_intake *t)
{
    struct event_row earlier = {0};
    int64_t n = t->not_duplicate
                    ? 0
                    : duplicates_find(q, t->source, &t->f, t->ev, &t->replayed);

    if (!n)
        return false;
    if (store_event(q->store, n, &earlier)) /* the key may outlive the row */
        wire_copy(t->earlier_id, sizeof t->earlier_id, wire_text(earlier.id));
    event_fini(&earlier);
    t->ev->duplicate_of = t->earlier_id;
    event_move(t->ev, EVENT_DUPLICATE, t->replayed ? "replayed" : NULL);
    return true;
}

/* Decide whether it is refused, a duplicate, buffered, ignored or routed. */
static void decide(struct sequencer *q, struct event_intake *t)
{
    struct event_row *ev = t->ev;

    ev->provider_id = t->f.id.data;
    ev->delivery_id = t->f.delivery_id.data;
    ev->type = t->f.type.len ? t->f.type.data : "unknown";
    ev->workspace = t->f.workspace.len ? t->f.workspace.data : "default";
    ev->ordering_key = t->published.is ? t->published.p.ordering_key : NULL;
    if (t->f.refused) {
        event_move(ev, EVENT_REFUSED, t->f.refused);
    } else if (t->action_id) {
        route(q, t);
    } else if (
        !is_duplicate(q, t) &&
        /* The stream of a forced event has passed its position already. */
        (t->forced || streams_admit(q->streams, t->source, &t->f, ev,
                                    t->generation, &t->strings))) {
        route_if_valid(q, t);
    }
}

/* The only line about an event that ends here. */
static void log_end(const struct event_intake *t, enum log_level level,
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

static void log_status(struct sequencer *q, const struct event_intake *t)
{
    const struct event_row *ev = t->ev;

    switch (ev->status) {
    case EVENT_DUPLICATE:
        q->metrics[METRIC_DUPLICATES]++;
        series_add(METRIC_SERIES(q->d.metrics, FAMILY_DUPLICATES, ev->source),
                   1);
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
        log_debug(ev->id, "buffered", LS("workspace", ev->workspace),
                  LI("source_sequence", ev->source_sequence));
        break;
    default:
        log_debug(ev->id, "routed", LS("workspace", ev->workspace),
                  LI("sequence", ev->sequence), LS("type", ev->type),
                  LI("endpoints", t->endpoints));
    }
}

/* The event's row is written: log it, tell dlqd whether it is a dead letter, and free what
 * parse() made. A buffered event is reported when it is released: its generation is stored
 * with its position. */
static void end_intake(struct sequencer *q, struct event_intake *t)
{
    const struct event_row *ev = t->ev;

    if (ev->status == EVENT_REFUSED ||
        (ev->status == EVENT_IGNORED && t->source->states.invalid_is_dead))
        dead_letters_refused(q, ev, t->generation + 1);
    else if (t->generation && ev->status != EVENT_BUFFERED)
        dead_letters_recovered(q, ev->n, 0, t->generation);
    if (ev->status == EVENT_ROUTED && !t->endpoints &&
        store_event_ended(q->store, ev->n))
        event_ended(q, ev->n);
    /* Its sender knows that a new event is open. */
    if (t->generation || !t->content || t->refused ||
        (ev->status != EVENT_BUFFERED &&
         (ev->status != EVENT_ROUTED || !t->endpoints)))
        outcomes_changed_for(q, ev->n, ev->subscriber);
    log_status(q, t);
    publication_fini(&t->published);
    buf_fini(&t->clock);
    parsed_event_fini(&t->f);
}

/* Write a row that exists already. Its type or workspace may be others than before. */
static void set_event(struct sequencer *q, struct event_row *ev)
{
    if (ev->status == EVENT_ROUTED || ev->status == EVENT_IGNORED)
        ev->released_ms = q->d.loop.now_ms;
    store_event_set(q->store, ev);
    search_filters_note(q->search_filters, ev->n, FILTER_TYPE, ev->type);
    search_filters_note(q->search_filters, ev->n, FILTER_WORKSPACE,
                        ev->workspace);
    provider_ids_note(q->provider_ids, ev);
}

/* ---- a request, of one event or of several ---- */

static void take_event(struct sequencer *q, struct event_intake *t);

/* One event of a request that carries several. Its id is made from that of the request, so
 * that it is recognised when the request comes again after a restore. */
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

    /* Ingress has put it in the place of an event whose workspace was erased. */
    if (body.n == 4 && memcmp(body.p, "null", 4) == 0 &&
        erasures_count(q->d.erasures))
        return;
    split_id(id, request->id, index);
    if (store_event_n(q->store, wire_text(id)))
        return;
    ev.id = id;
    ev.n = intake_number(q);
    store_part_add(q->store, ev.n, request->n);
    take_event(q, &(struct event_intake){.ev = &ev,
                                         .subject = &subject,
                                         .whole = signed_part,
                                         .index = index});
    streams_follow(q->streams);
    subject_fini(&subject);
}

/* A request that carries several events has a row of its own, which says when and by which
 * delivery it was received. Each of its events is taken in like any other. */
static void take_parts(struct sequencer *q, struct event_intake *t,
                       const struct split *parts)
{
    struct event_row *ev = t->ev;
    struct parsed_signed signed_part;
    struct buf delivery;
    char reason[40];

    snprintf(reason, sizeof reason, "%zu events", parts->count);
    ev->type = "batch";
    ev->workspace = "default";
    event_move(ev, EVENT_SPLIT, reason);
    buf_init(&delivery, TEXT_MAX_BYTES);
    find_delivery_id(q, t, &delivery);
    ev->delivery_id = delivery.data;
    if (t->generation)
        set_event(q, ev);
    else
        store_event_add(q->store, ev);
    t->subject->provider = t->source->provider;
    parsed_event_signed(&signed_part, t->source, t->subject);
    for (size_t i = 0; i < parts->count; i++)
        take_part(q, ev, t->subject, parts->parts[i], &signed_part, i);
    if (t->generation)
        dead_letters_recovered(q, ev->n, 0, t->generation);
    outcomes_changed_for(q, ev->n, ev->subscriber);
    log_info(ev->id, "split", LS("source", ev->source),
             LI("events", parts->count));
    buf_fini(&delivery);
}

/* Store a refused event as it was received, so that a requeue can parse it again; store any
 * other as it will be delivered. */
static void store_body_of(struct sequencer *q, const struct event_intake *t)
{
    const struct publication *u = &t->published;
    bool encoded_here = u->is && t->ev->status != EVENT_REFUSED;
    bool fresh = !t->generation;

    if (encoded_here && !fresh)
        store_body_drop(q->store, t->ev->n);
    if (encoded_here)
        store_body_add(q->store, t->ev->n,
                       (struct bytes){u->headers.data, u->headers.len},
                       (struct bytes){u->body.data, u->body.len});
    else if (fresh)
        store_body_add(q->store, t->ev->n, t->subject->headers,
                       t->subject->body);
}

static bool has_keyed_id(struct bytes id)
{
    return id.n == EVENT_ID_BYTES &&
           memcmp(id.p, KEYED_IDS_FROM, strlen(KEYED_IDS_FROM)) >= 0;
}

/* An event of a workspace that was erased: only its number and time are kept. */
static void ignore_erased(struct sequencer *q, struct event_intake *t)
{
    struct event_row *ev = t->ev;
    char hash[ERASURE_HASH_BYTES + 1], label[ERASED_LABEL_BYTES + 1], why[200];

    if (erasures_hash(q->d.erasures, t->f.workspace.data, hash, why) != GR_OK)
        hash[0] = 0;
    workspace_erased_label(hash, label);
    ev->provider_id = ev->delivery_id = ev->ordering_key = "";
    ev->traceparent = "";
    ev->type = "erased";
    ev->workspace = label;
    event_move(ev, EVENT_IGNORED, "workspace_erased");
    if (t->generation)
        set_event(q, ev);
    else
        store_event_add(q->store, ev);
    outcomes_changed_for(q, ev->n, ev->subscriber);
    log_status(q, t);
    publication_fini(&t->published);
    buf_fini(&t->clock);
    parsed_event_fini(&t->f);
}

/* It was taken from the list of its provider. Only what is new leaves a record: an original may have arrived
 * in the meantime, and an operator may send it again. Of a refused event it is not known: its original may
 * have been refused, too. */
static void note_reconciled(struct sequencer *q, struct event_intake *t)
{
    struct bytes time;

    if (t->generation || t->action_id || t->ev->status == EVENT_DUPLICATE ||
        t->ev->status == EVENT_REFUSED ||
        !headers_get(t->subject->headers, RECONCILED_HEADER, &time, NULL))
        return;
    if (!t->ev->note || !*t->ev->note)
        t->ev->note = EVENT_RECONCILED
            ": its provider lists it, and it had not arrived";
    gaps_reconciled(q, t->ev);
}

/* Parse, decide, write. `generation` 0: the event is new. Else its row exists: it was refused
 * in that generation, and its dead letter was requeued. */
static void take_event(struct sequencer *q, struct event_intake *t)
{
    uint8_t digest[PUBLISHED_DIGEST_BYTES];
    struct event_content content;
    struct split parts = {0};
    const char *why_unparsable = NULL;
    bool is_part;

    traceparent_read(t->subject->headers, t->traceparent);
    t->ev->traceparent = t->traceparent;
    t->source = settings_source(q->d.settings, t->ev->source);
    is_part = t->source && t->source->batch &&
              store_part_of(q->store, t->ev->n);
    if (t->damaged) {
        why_unparsable = REASON_DAMAGED;
    } else if (t->source && t->source->batch && !is_part &&
               split_body(t->subject->body, &parts, &why_unparsable) == GR_OK &&
               parts.count) {
        take_parts(q, t, &parts);
        split_fini(&parts);
        return;
    }
    parse(q, t, why_unparsable);
    if (t->f.workspace.len &&
        workspace_erased(
            q, (struct bytes){t->f.workspace.data, t->f.workspace.len})) {
        ignore_erased(q, t);
        return;
    }
    content = t->published.is
                  ? (struct event_content){{t->published.headers.data,
                                            t->published.headers.len},
                                           {t->published.body.data,
                                            t->published.body.len}}
                  : (struct event_content){t->subject->headers,
                                           t->subject->body};
    t->content = &content;
    if (!t->whole && is_part)
        t->f.has_signed = false; /* the signature is of its whole request */
    if (t->refused)
        t->f.refused = t->refused;
    decide(q, t);
    note_reconciled(q, t);
    store_body_of(q, t);
    if (t->generation)
        set_event(q, t->ev);
    else
        store_event_add(q->store, t->ev);
    if (t->published.is && !t->generation && !t->refused &&
        has_keyed_id(wire_text(t->ev->id))) {
        published_digest(&t->published.p, t->subject->body, digest);
        store_digest_add(q->store, t->ev->n,
                         (struct bytes){digest, sizeof digest});
    }
    end_intake(q, t);
}

/* ---- from ingress ---- */

static const char key_reused[] =
    "idempotency_key_reused: another event already has this key";

/* Event `known` has this id already, because both came with one idempotency key. An
 * ingress refuses another body under a key that it knows; it does not know the keys of the
 * other ingress processes, nor those of events that have left its archive. Such an event
 * is refused here, under an id made of both, so that it is refused once when the link
 * repeats it. false: it is the same event, or was refused before. */
static bool reuses_key(struct sequencer *q, const struct wire_accepted *m,
                       int64_t known, char id[EVENT_ID_BYTES + 1])
{
    uint8_t digest[PUBLISHED_DIGEST_BYTES];
    struct published_wrong wrong;
    struct published p;
    bool differs = false;

    if (!has_keyed_id(m->event_id))
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

static gr_rc take_message(struct sequencer *q, const char *from,
                          const struct wire_accepted *m,
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
    if (known && (replayed || !reuses_key(q, m, known, id))) {
        /* It came again after a link was set back, or from another process. */
        if (!replayed)
            outcomes_sent_again(q, from, known, 0);
        return GR_OK;
    }
    wire_copy(source, sizeof source, m->source);
    wire_copy(first_id, sizeof first_id, m->event_id);
    ev.id = id;
    if (known)
        ev.duplicate_of = first_id;
    ev.source = subject.source = source;
    ev.received_ms = m->received_ms;
    ev.taken_ms = q->d.loop.now_ms;
    ev.reopened_ms = replayed ? q->d.loop.now_ms : 0;
    /* An event made of another one by `replay --new-id` is not its sender's. */
    if (!replayed || !replayed->new_id.n)
        ev.subscriber = outcomes_subscriber(q, from);
    ev.n = intake_number(q);
    q->metrics[METRIC_TAKEN]++;
    operational_cause(q, m->headers);
    take_event(q, &(struct event_intake){
                      .ev = &ev,
                      .subject = &subject,
                      .only = only,
                      .damaged = m->damaged,
                      .refused = known ? key_reused : NULL,
                      .always = replayed && replayed->always,
                      .action_id = replayed ? replayed->action_id : 0});
    streams_follow(q->streams);
    operational_cause(q, (struct bytes){"", 0});
    subject_fini(&subject);
    return GR_OK;
}

gr_rc intake_accepted(struct sequencer *q, const char *from,
                      const struct wire_accepted *m)
{
    return take_message(q, from, m, NULL, NULL);
}

gr_rc intake_replayed(struct sequencer *q, const char *from,
                      const struct wire_accepted *m,
                      const struct wire_replayed *replayed)
{
    char *only = replayed->endpoint.n ? wire_dup(replayed->endpoint) : NULL;
    gr_rc rc = take_message(q, from, m, replayed, only);

    free(only);
    return rc;
}

/* ---- Grapnel's own events ---- */

void intake_operational(struct sequencer *q, const char *id, const char *type,
                        const char *workspace, int hops, json_t *data)
{
    char reason[EVENT_REASON_BYTES];
    char *text;
    struct event_row ev = {.status = EVENT_NEW,
                           .id = id,
                           .source = OPERATIONAL_SOURCE,
                           .type = type,
                           .workspace = workspace,
                           .received_ms = q->d.loop.now_ms,
                           .taken_ms = q->d.loop.now_ms};
    struct subject subject = {
        .source = ev.source, .type = type, .workspace = workspace};
    struct event_content content;
    struct buf headers, clock;
    json_t *body = json_pack("{s:s, s:s, s:o, s:o, s:O}", "id", id, "type",
                             type, "workspace", json_text_of(workspace),
                             "timestamp", json_time(ev.received_ms), "data",
                             data);

    text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    buf_init(&headers, 256);
    buf_init(&clock, 2 * CLOCK_MAX_BYTES);
    headers_put(&headers, "content-type", wire_text("application/json"));
    if (hops)
        hops_put(&headers, hops);
    content = (struct event_content){{headers.data, headers.len},
                                     wire_text(text)};
    subject.headers = content.headers;
    subject.body = content.body;
    if (routing_has_endpoints(q, &subject)) {
        ev.n = intake_number(q);
        routing_route(
            q, &ev, &subject,
            &(struct routing_options){
                .content = &content,
                .about = json_string_value(json_object_get(data, "endpoint"))},
            &clock, reason);
        store_body_add(q->store, ev.n, content.headers, content.body);
        store_event_add(q->store, &ev);
        operational_archive_add(q->operational_archive, ev.n, ev.received_ms,
                                content.headers, content.body);
    }
    subject_fini(&subject);
    buf_fini(&clock);
    buf_fini(&headers);
    free(text);
}

void intake_internal(struct sequencer *q, struct endpoint *e, const char *type,
                     const char *workspace, struct bytes body,
                     int64_t expires_ms)
{
    struct event_row ev = {.n = intake_number(q),
                           .status = EVENT_NEW,
                           .source = OPERATIONAL_SOURCE,
                           .type = type,
                           .workspace = workspace,
                           .received_ms = q->d.loop.now_ms,
                           .taken_ms = q->d.loop.now_ms};
    char id[EVENT_ID_BYTES + 1] = "evt_";
    struct event_content content = {.body = body};
    struct buf headers;

    ulid_next(&q->ids, q->d.loop.now_ms, id + 4);
    ev.id = id;
    event_move(&ev, EVENT_ROUTED, NULL);
    buf_init(&headers, 256);
    publication_put_expires(&headers, expires_ms);
    headers_put(&headers, "content-type", wire_text("application/json"));
    content.headers = (struct bytes){headers.data, headers.len};
    store_body_add(q->store, ev.n, content.headers, body);
    routing_add_delivery(q, e, &ev, lanes_workspace(q, workspace),
                         q->next_route_order++, NULL,
                         &(struct routing_options){.content = &content});
    store_event_add(q->store, &ev);
    buf_fini(&headers);
}

/* ---- stored events, once more ---- */

/* A row, and the body that is stored with it. */
struct stored_event {
    struct event_row ev;
    struct subject subject;
    bool has_body, damaged;
};

/* false: there is no such event. Call stored_event_fini() in any case; the body is borrowed
 * until then. */
static bool stored_event_init(struct sequencer *q, struct stored_event *a,
                              int64_t n)
{
    *a = (struct stored_event){0};
    if (!store_event(q->store, n, &a->ev))
        return false;
    a->subject.source = a->ev.source;
    a->ev.clock = a->ev.reason = "";
    a->has_body = store_body(q->store, n, &a->subject.headers,
                             &a->subject.body);
    a->damaged = a->has_body && store_body_damaged(q->store);
    if (a->damaged)
        db_damage_found(a->ev.id, db_path(q->d.db), "bodies");
    return true;
}

static void stored_event_fini(struct sequencer *q, struct stored_event *a)
{
    subject_fini(&a->subject);
    store_body_done(q->store);
    event_fini(&a->ev);
}

/* Process it as an operator decided. */
static void override(struct sequencer *q, struct stored_event *a,
                     struct event_intake *t)
{
    t->source = settings_source(q->d.settings, a->ev.source);
    parse(q, t, a->damaged ? REASON_DAMAGED : NULL);
    decide(q, t);
    set_event(q, t->ev);
    end_intake(q, t);
}

gr_rc intake_reprocess(struct sequencer *q, int64_t n, int64_t generation)
{
    struct stored_event a;
    bool there = stored_event_init(q, &a, n);
    bool was_ignored = there && a.ev.status == EVENT_IGNORED;
    struct event_intake t = {
        .ev = &a.ev, .subject = &a.subject, .generation = generation};

    if (!there || (a.ev.status != EVENT_REFUSED && !was_ignored)) {
        stored_event_fini(q, &a);
        return GR_REFUSE;
    }
    event_trace_keep_refusal(q, n);
    a.ev.reopened_ms = q->d.loop.now_ms;
    if (a.has_body && was_ignored) {
        t.forced = t.not_duplicate = true;
        override(q, &a, &t);
    } else if (a.has_body) {
        take_event(q, &t);
    }
    stored_event_fini(q, &a);
    return GR_OK;
}

gr_rc intake_release(struct sequencer *q, const char *id, const char *who,
                     char why[200])
{
    int64_t n = store_event_n(q->store, wire_text(id));
    struct stored_event a;
    struct event_intake t = {
        .ev = &a.ev, .subject = &a.subject, .not_duplicate = true};
    gr_rc rc = GR_REFUSE;

    if (!n || !stored_event_init(q, &a, n)) {
        control_fail(why, CONTROL_NOT_FOUND, "no event has the id %.60s", id);
        return GR_REFUSE;
    }
    if (a.ev.status != EVENT_DUPLICATE) {
        snprintf(why, 200, "%.60s is not a suppressed duplicate", id);
    } else if (!a.has_body) {
        snprintf(why, 200, "the body of %.60s is no longer stored", id);
    } else {
        a.ev.reopened_ms = q->d.loop.now_ms;
        override(q, &a, &t);
        store_action_note(q->search, q->d.loop.now_ms, "event", id,
                          "released by %s", who);
        q->metrics[METRIC_DUPLICATES_RELEASED]++;
        log_info(id, "an operator released this duplicate");
        rc = GR_OK;
    }
    stored_event_fini(q, &a);
    return rc;
}

void intake_release_buffered(struct sequencer *q, int64_t n, int64_t generation,
                             const char *gap)
{
    struct stored_event a;
    struct event_intake t = {
        .ev = &a.ev, .subject = &a.subject, .generation = generation};
    bool there = stored_event_init(q, &a, n);

    if (!there || a.ev.status != EVENT_BUFFERED || !a.has_body) {
        log_error(there ? a.ev.id : NULL,
                  "a buffered event is missing or has changed", LI("row", n));
        stored_event_fini(q, &a);
        return;
    }
    t.source = settings_source(q->d.settings, a.ev.source);
    a.ev.gap = gap;
    snprintf(t.strings.note, sizeof t.strings.note, "%sbuffered for %lld ms",
             event_reconciled(&a.ev) ? EVENT_RECONCILED ", " : "",
             (long long)(q->d.loop.now_ms - a.ev.taken_ms));
    a.ev.note = t.strings.note;
    parse(q, &t, a.damaged ? REASON_DAMAGED : NULL);
    /* Its source may have been removed: the event is routed all the same, as it was
     * accepted while there was one. */
    if (a.damaged || (t.source && t.f.refused))
        event_move(t.ev, EVENT_REFUSED, t.f.refused);
    else if (t.source)
        route_if_valid(q, &t);
    else
        route(q, &t);
    set_event(q, t.ev);
    end_intake(q, &t);
    stored_event_fini(q, &a);
}
