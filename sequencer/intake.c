/* intake: one accepted request becomes an event: what it is, whether it is a
 * repeat, its number, and who gets it. All in the turn's transaction. */
#include "headers.h"
#include "log.h"
#include "profile.h"
#include "publication.h"
#include "route.h"
#include "split.h"
#include "store.h"
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEYS_MAX = 16,
    UNWANTED_BYTES = 300,
    LABEL_MAX_BYTES = 255, /* of a type or a workspace */
};

/* What was found out about one request. Strings are its own. */
struct finding {
    struct buf id, type, workspace;
    uint8_t keys[KEYS_MAX][KEY_BYTES];
    size_t key_count;
    const char *refused; /* NULL: all that it needs is there */
};

static void finding_init(struct finding *f)
{
    memset(f, 0, sizeof *f);
    buf_init(&f->id, TEXT_MAX_BYTES);
    buf_init(&f->type, TEXT_MAX_BYTES);
    buf_init(&f->workspace, TEXT_MAX_BYTES);
}

static void finding_fini(struct finding *f)
{
    buf_fini(&f->id);
    buf_fini(&f->type);
    buf_fini(&f->workspace);
}

/* 16 bytes of SHA-256 over each part's expression and value, each with its
 * length, so that no two keys are told apart by where a part ends. false: a
 * part isn't there; the event has no such key. */
static bool make_key(const struct dedupe_key *key, struct subject *subject,
                     uint8_t out[KEY_BYTES])
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    struct buf text, value;
    const char *why;
    bool whole = true;

    buf_init(&text, 8 * TEXT_MAX_BYTES);
    buf_init(&value, TEXT_MAX_BYTES);
    for (size_t i = 0; i < key->count && whole; i++) {
        buf_reset(&value);
        whole = expr_value(&key->parts[i], subject, &value, &why) == GR_OK &&
                !value.failed;
        expr_print(&key->parts[i], &text);
        buf_printf(&text, " %zu:", value.len);
        buf_put(&text, value.data, value.len);
    }
    if (whole && !text.failed &&
        EVP_Digest(text.data, text.len, digest, NULL, EVP_sha256(), NULL))
        memcpy(out, digest, KEY_BYTES);
    else
        whole = false;
    buf_fini(&text);
    buf_fini(&value);
    return whole;
}

static void find_keys(const struct source *source, struct subject *subject,
                      struct finding *f)
{
    const struct dedupe *d = &source->dedupe;

    if (d->none)
        return;
    for (size_t i = 0; i < d->count && f->key_count < KEYS_MAX; i++)
        if (make_key(&d->keys[i], subject, f->keys[f->key_count]))
            f->key_count++;
}

static void find(const struct source *source, struct subject *subject,
                 struct finding *f)
{
    const char *why = NULL;

    if (profile_event_id(source, subject, &f->id, &why) != GR_OK ||
        profile_type(source, subject, &f->type, &why) != GR_OK ||
        profile_workspace(source, subject, &f->workspace, &why) != GR_OK) {
        f->refused = why;
        return;
    }
    if (f->id.failed || f->type.len > LABEL_MAX_BYTES ||
        f->workspace.len > LABEL_MAX_BYTES) {
        f->refused = "its id, type or workspace is too long";
        return;
    }
    /* Who names none has named no other one. */
    if (strcmp(f->workspace.data, "default") != 0 &&
        !route_list_takes(&source->workspaces, f->workspace.data)) {
        f->refused = "its source may not name its workspace";
        return;
    }
    subject->id = f->id.len ? f->id.data : NULL;
    subject->type = f->type.data;
    subject->workspace = f->workspace.data;
    find_keys(source, subject, f);
}

/* A producer's event says all of itself. It needs no keys: its id is made from
 * its idempotency key. */
static void find_published(const struct event_row *ev,
                           const struct subject *subject, struct publication *u,
                           struct finding *f)
{
    if (publication_read(u, subject->headers, subject->body, ev->id,
                         ev->received_ms) != GR_OK)
        f->refused = u->why;
    if (!u->is)
        return;
    buf_put(&f->id, u->key.p, u->key.n);
    buf_puts(&f->type, u->p.type);
    buf_puts(&f->workspace, u->p.workspace);
}

/* ---- a repeat? ---- */

/* The earlier event that has one of the keys; 0: none. */
static int64_t find_earlier(struct sequencer *q, const struct source *source,
                            const struct finding *f, int64_t received_ms,
                            int64_t self)
{
    for (size_t i = 0; i < f->key_count; i++) {
        int64_t n = store_key(q->store, f->keys[i], received_ms,
                              source->dedupe.ttl_ms);

        if (n && n != self)
            return n;
    }
    return 0;
}

static void keep_keys(struct sequencer *q, const struct source *source,
                      const struct finding *f, int64_t n, int64_t received_ms)
{
    for (size_t i = 0; i < f->key_count; i++)
        store_key_set(q->store, f->keys[i], n, received_ms,
                      source->dedupe.ttl_ms);
}

/* ---- to whom? ---- */

static void give(struct sequencer *q, struct endpoint *e,
                 const struct event_row *ev, struct workspace *ws,
                 int64_t place)
{
    struct delivery_row d = {.event = ev->n, .endpoint = e->id, .place = place};

    d.previous = workspace_routed(ws, e->id, ev->sequence);
    d.lane = lanes_of(e, ws);
    d.behind = lanes_busy(q, e, d.lane);
    if (!d.behind && dispatch_may(q, e)) {
        d.status = DELIVERY_IN_FLIGHT;
        d.grant = e->grant;
        d.out_n = dispatch_task(q, e, ev->n, false);
    } else {
        d.status = DELIVERY_WAITING;
        e->waiting = e->waiting || !d.behind;
    }
    store_delivery_add(q->store, &d);
}

/* Why nobody wants it, as far as fits: it is asked once, when its body is still
 * there to be looked at. */
static void say_unwanted(struct sequencer *q, struct subject *subject,
                         char out[UNWANTED_BYTES])
{
    size_t at = 0;

    *out = 0;
    for (size_t i = 0; i < q->d.settings->endpoint_count; i++) {
        const struct endpoint_settings *e = &q->d.settings->endpoints[i];
        struct buf why;

        if (at + strlen(e->name) + 8 > UNWANTED_BYTES)
            break;
        buf_init(&why, UNWANTED_BYTES);
        if (route_wants(q->d.settings, e, subject, &why)) {
            buf_reset(&why);
            buf_puts(&why, "the producer does not name it");
        }
        buf_put(&why, "", 1);
        snprintf(out + at, UNWANTED_BYTES - at, "%s%s: %s", at ? "; " : "",
                 e->name, why.failed ? "it does not want it" : why.data);
        at += strlen(out + at);
        buf_fini(&why);
    }
}

/* Number the event and give it to everyone who wants it and, if it says who may
 * have it (`only`), is named. Returns how many. */
static int route(struct sequencer *q, struct event_row *ev,
                 struct subject *subject, const struct publication *only,
                 struct buf *clock)
{
    struct workspace *ws = store_workspace(q->store, &q->workspaces,
                                           ev->workspace);
    int64_t place = q->next_place++;
    int wanted = 0;

    ev->sequence = workspace_number(&q->workspaces, ws, ev->type);
    workspace_clock(ws, ev->type, CLOCK_MAX_BYTES, clock);
    ev->clock = clock->data;
    subject->type = ev->type;
    subject->workspace = ev->workspace;
    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];

        if (!e->settings ||
            !route_wants(q->d.settings, e->settings, subject, NULL) ||
            (only->is && !published_for(&only->p, e->name)))
            continue;
        give(q, e, ev, ws, place);
        wanted++;
    }
    q->metrics[wanted ? METRIC_ROUTED : METRIC_UNWANTED]++;
    return wanted;
}

/* ---- one event ---- */

static void decide(struct sequencer *q, struct event_row *ev, struct finding *f,
                   const struct source *source,
                   char earlier_id[EVENT_ID_BYTES + 1])
{
    struct event_row earlier;
    int64_t n;

    ev->provider_id = f->id.data;
    ev->type = f->type.len ? f->type.data : "unknown";
    ev->workspace = f->workspace.len ? f->workspace.data : "default";
    if (f->refused) {
        ev->status = EVENT_REFUSED;
        ev->reason = f->refused;
        return;
    }
    n = find_earlier(q, source, f, ev->received_ms, ev->n);
    if (n) { /* its key may have outlived its row */
        ev->status = EVENT_DUPLICATE;
        if (store_event(q->store, n, &earlier))
            wire_copy(earlier_id, EVENT_ID_BYTES + 1, wire_text(earlier.id));
        ev->duplicate_of = earlier_id;
        store_done(q->store);
        return;
    }
    keep_keys(q, source, f, ev->n, ev->received_ms);
    ev->status = EVENT_ROUTED;
}

static void say(struct sequencer *q, const struct event_row *ev, int wanted)
{
    if (ev->status == EVENT_DUPLICATE) {
        q->metrics[METRIC_DUPLICATES]++;
        log_info(ev->id, "duplicate", LS("of", ev->duplicate_of),
                 LS("source", ev->source));
    } else if (ev->status == EVENT_REFUSED) {
        q->metrics[METRIC_REFUSED]++;
        log_warn(ev->id, "refused", LS("why", ev->reason),
                 LS("source", ev->source));
    } else {
        log_debug(ev->id, "routed", LS("workspace", ev->workspace),
                  LI("sequence", ev->sequence), LS("type", ev->type),
                  LI("endpoints", wanted));
    }
}

static void take(struct sequencer *q, struct event_row *ev,
                 struct subject *subject, int64_t life);

/* One event of a request of several. Its id is made from the request's, so it
 * is known when the request comes again after a restore. */
static void take_part(struct sequencer *q, const struct event_row *request,
                      const struct subject *whole, struct bytes body,
                      size_t index)
{
    struct event_row ev = {.source = request->source,
                           .received_ms = request->received_ms,
                           .taken_ms = q->d.loop.now_ms};
    struct subject subject = {
        .source = whole->source, .headers = whole->headers, .body = body};
    char id[EVENT_ID_BYTES + 1];

    split_id(id, request->id, index);
    if (store_event_n(q->store, wire_text(id)))
        return;
    ev.id = id;
    ev.n = q->next_event++;
    store_part_add(q->store, ev.n, request->n);
    take(q, &ev, &subject, 0);
    subject_fini(&subject);
}

/* A request of several events: its own row says that it came, its events go
 * their ways. */
static void take_parts(struct sequencer *q, struct event_row *ev,
                       const struct subject *subject, const struct split *parts,
                       int64_t life)
{
    char reason[40];

    snprintf(reason, sizeof reason, "%zu events", parts->count);
    ev->type = "batch";
    ev->workspace = "default";
    ev->status = EVENT_SPLIT;
    ev->reason = reason;
    if (life)
        store_event_set(q->store, ev);
    else
        store_event_add(q->store, ev);
    for (size_t i = 0; i < parts->count; i++)
        take_part(q, ev, subject, parts->parts[i], i);
    if (life)
        letters_recovered(q, ev->n, 0, life);
    log_debug(ev->id, "split", LI("events", parts->count),
              LS("source", ev->source));
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

/* Of a refused event what came, or a requeue could not read it again; else what
 * is handed on. */
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

/* `life` 0: the event is new. Else its row is there, it was refused in that
 * life, and its letter was requeued. */
static void take(struct sequencer *q, struct event_row *ev,
                 struct subject *subject, int64_t life)
{
    bool fresh = life == 0;
    const struct source *source = settings_source(q->d.settings, ev->source);
    char earlier_id[EVENT_ID_BYTES + 1] = "";
    struct finding f;
    struct publication published = {0};
    struct split parts;
    char unwanted[UNWANTED_BYTES];
    struct buf clock;
    const char *unread;
    int wanted = 0;

    if (carries_several(q, ev, source, subject, &parts, &unread)) {
        take_parts(q, ev, subject, &parts, life);
        split_fini(&parts);
        return;
    }
    finding_init(&f);
    buf_init(&clock, 2 * CLOCK_MAX_BYTES);
    if (unread) {
        f.refused = unread;
    } else if (source) {
        subject->provider = source->provider;
        find(source, subject, &f);
    } else if (settings_producer(q->d.settings, ev->source)) {
        find_published(ev, subject, &published, &f);
    } else {
        f.refused = "its source is no longer in the configuration";
    }
    decide(q, ev, &f, source, earlier_id);
    keep_body(q, ev, subject, &published, fresh);
    if (ev->status == EVENT_ROUTED)
        wanted = route(q, ev, subject, &published, &clock);
    if (ev->status == EVENT_ROUTED && !wanted) {
        say_unwanted(q, subject, unwanted);
        ev->reason = unwanted;
    }
    if (fresh)
        store_event_add(q->store, ev);
    else
        store_event_set(q->store, ev);
    if (ev->status == EVENT_REFUSED)
        letters_dead(q, ev->n, 0, life + 1, (struct bytes){"", 0});
    else if (!fresh)
        letters_recovered(q, ev->n, 0, life);
    if (ev->status == EVENT_ROUTED && !wanted)
        body_maybe_drop(q, ev->n);
    say(q, ev, wanted);
    publication_fini(&published);
    buf_fini(&clock);
    finding_fini(&f);
}

gr_rc intake_accepted(struct sequencer *q, const struct wire_accepted *m)
{
    struct event_row ev = {.n = q->next_event};
    struct subject subject = {.headers = m->headers, .body = m->body};
    char id[EVENT_ID_BYTES + 1], source[NAME_MAX_BYTES + 1];

    if (m->event_id.n != EVENT_ID_BYTES || !m->source.n ||
        m->source.n > NAME_MAX_BYTES || !headers_valid(m->headers))
        return GR_REFUSE;
    if (q->no_room)
        return GR_AGAIN;
    if (store_event_n(q->store, m->event_id))
        return GR_OK; /* came again after a link was set back */
    wire_copy(id, sizeof id, m->event_id);
    wire_copy(source, sizeof source, m->source);
    ev.id = id;
    ev.source = subject.source = source;
    ev.received_ms = m->received_ms;
    ev.taken_ms = q->d.loop.now_ms;
    q->next_event++;
    q->metrics[METRIC_TAKEN]++;
    take(q, &ev, &subject, 0);
    subject_fini(&subject);
    return GR_OK;
}

gr_rc intake_again(struct sequencer *q, int64_t n, int64_t life)
{
    struct event_row row, ev = {.n = n};
    struct subject subject = {0};
    char *id, *source;

    if (!store_event(q->store, n, &row) || row.status != EVENT_REFUSED) {
        store_done(q->store);
        return GR_REFUSE;
    }
    ev.id = id = gr_strdup(row.id);
    ev.source = source = gr_strdup(row.source);
    ev.received_ms = row.received_ms;
    ev.taken_ms = row.taken_ms;
    store_done(q->store);
    subject.source = source;
    if (store_body(q->store, n, &subject.headers, &subject.body)) {
        take(q, &ev, &subject, life);
        subject_fini(&subject);
    }
    store_body_done(q->store);
    free(id);
    free(source);
    return GR_OK;
}
