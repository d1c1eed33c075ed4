/* against_judge: what another configuration makes of archived requests, by the code with which ingress and the
 * sequencer decide, compared with what was recorded. */
#include "against.h"
#include "alloc.h"
#include "headers.h"
#include "lookup.h"
#include "mask.h"
#include "parsed_event.h"
#include "published.h"
#include "route.h"
#include "siphash.h"
#include "split.h"
#include "state_rules.h"
#include "subscriptions.h"
#include "verify.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Keys that are remembered, with what finds them: about 80 bytes each. */
    SEEN_MAX = 4 * 1000 * 1000,
    OBJECTS_MAX = 1000 * 1000,
    JUDGED_MAX_BYTES = 64 * 1024 * 1024, /* one bit for each event */
};

static const char key_reused[] = "idempotency_key_reused";
static const char not_known[] =
    "the sequencer has not taken it yet, or history.keep has passed";
static const char erased[] = "its workspace was erased";
static const char partly_erased[] =
    "events of an erased workspace were taken out of its body";
static const char operated[] = "an operator has decided about it";
static const char not_by_file[] =
    "it was refused for a reason that no configuration changes";
static const char still_waits[] =
    "only where it goes, as it still waits for other events";
static const char older_first[] =
    "the event that it is a duplicate of is older than the period, or not in "
    "the archive";
static const char too_many_keys[] =
    "too many idempotency keys to remember: choose a shorter period";

/* ---- idempotency keys that were seen ---- */

/* The first event with a key. For digests of signed parts, also what distinguishes it from one change
 * that the provider sends under several types. */
struct seen_key {
    struct key key;
    int64_t n, received_ms;
    uint64_t type, workspace;
};

/* A ring: the oldest key is forgotten for a new one. */
struct seen {
    struct lookup index;
    struct seen_key *all;
    size_t count, capacity, oldest;
};

static const struct seen_key *seen_find(const struct seen *s, struct key key,
                                        int64_t from_ms, int64_t to_ms)
{
    size_t i;

    for (size_t at = 0;
         (i = lookup_next(&s->index, key.hash, &at)) != LOOKUP_END;) {
        const struct seen_key *k = &s->all[i];

        if (k->key.check == key.check && k->key.hash == key.hash &&
            k->received_ms >= from_ms && k->received_ms <= to_ms)
            return k;
    }
    return NULL;
}

/* false: another key was forgotten. */
static bool seen_add(struct seen *s, const struct seen_key *key)
{
    bool full = s->count == SEEN_MAX;
    size_t at = full ? s->oldest : s->count;

    if (full) {
        lookup_drop(&s->index, s->all[at].key.hash, at);
        s->oldest = (s->oldest + 1) % SEEN_MAX;
    } else if (s->count == s->capacity) {
        s->capacity = s->capacity ? 2 * s->capacity : 1024;
        s->capacity = s->capacity < SEEN_MAX ? s->capacity : SEEN_MAX;
        s->all = gr_realloc(s->all, s->capacity * sizeof *s->all);
    }
    s->count += !full;
    s->all[at] = *key;
    lookup_put(&s->index, key->key.hash, at);
    return !full;
}

static void seen_fini(struct seen *s)
{
    lookup_fini(&s->index);
    free(s->all);
}

/* ---- all that is judged ---- */

struct object_state {
    char *name; /* of its source, workspace and object */
    char *state;
};

struct judging {
    const struct settings *settings;
    struct reading *reading;
    struct report *report;
    struct subscriptions *subscriptions;
    struct lookup endpoints; /* by name: the slot in settings->endpoints */
    uint32_t
        *expected;  /* by slot: the number of the last event that goes to it */
    uint32_t *had;  /* … and that went to it */
    uint32_t event; /* the number of the present one */
    struct seen keys, signed_parts;
    bool forgot_keys;
    struct lookup objects;
    struct object_state *states;
    size_t state_count;
    uint8_t *judged; /* a bit for each event from judged_from on */
    int64_t judged_from;
    size_t judged_bytes;
};

struct judging *judging_new(const struct settings *settings,
                            struct reading *reading, struct report *report)
{
    struct judging *j = gr_alloc(sizeof *j);
    size_t count = settings->endpoint_count, *numbers;

    *j = (struct judging){.settings = settings,
                          .reading = reading,
                          .report = report,
                          .judged_from = -1};
    numbers = gr_alloc((count + 1) * sizeof *numbers);
    j->expected = gr_alloc((count + 1) * sizeof *j->expected);
    j->had = gr_alloc((count + 1) * sizeof *j->had);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = i;
        lookup_put(&j->endpoints, lookup_text(settings->endpoints[i].name), i);
    }
    j->subscriptions = subscriptions_new(settings, numbers, count);
    free(numbers);
    return j;
}

void judging_free(struct judging *j)
{
    subscriptions_free(j->subscriptions);
    lookup_fini(&j->endpoints);
    lookup_fini(&j->objects);
    seen_fini(&j->keys);
    seen_fini(&j->signed_parts);
    for (size_t i = 0; i < j->state_count; i++) {
        free(j->states[i].name);
        free(j->states[i].state);
    }
    free(j->states);
    free(j->expected);
    free(j->had);
    free(j->judged);
    free(j);
}

/* Notes that an event's keys were looked at. */
static void note_judged(struct judging *j, int64_t n)
{
    size_t byte, size;

    if (j->judged_from < 0)
        j->judged_from = n;
    if (n < j->judged_from || (n - j->judged_from) / 8 >= JUDGED_MAX_BYTES)
        return;
    byte = (size_t)(n - j->judged_from) / 8;
    if (byte >= j->judged_bytes) {
        size = 2 * (byte + 512);
        j->judged = gr_realloc(j->judged, size);
        memset(j->judged + j->judged_bytes, 0, size - j->judged_bytes);
        j->judged_bytes = size;
    }
    j->judged[byte] |= (uint8_t)(1u << ((n - j->judged_from) & 7));
}

static bool was_judged(const struct judging *j, int64_t n)
{
    size_t byte = (size_t)(n - j->judged_from) / 8;

    return j->judged_from >= 0 && n >= j->judged_from &&
           byte < j->judged_bytes &&
           j->judged[byte] >> ((n - j->judged_from) & 7) & 1;
}

/* ---- one event ---- */

/* An event as another configuration reads it, and as it was recorded. */
struct comparing {
    const char *id, *source_name;
    const struct source *source;       /* NULL: a producer's event */
    const struct published *published; /* NULL: a source's event */
    struct parsed_event f;
    int64_t received_ms;
    int64_t n; /* of its row */
    /* copies: later questions need the row's statement */
    int64_t status, source_sequence;
    bool numbered;
    char *provider_id, *type, *workspace, *reason, *duplicate_of;
};

static void note_recorded(struct comparing *c, const struct recorded *row)
{
    c->n = row->n;
    c->received_ms = row->received_ms;
    c->status = row->status;
    c->numbered = row->numbered;
    c->source_sequence = row->source_sequence;
    c->provider_id = gr_strdup(row->provider_id);
    c->type = gr_strdup(row->type);
    c->workspace = gr_strdup(row->workspace);
    c->reason = gr_strdup(row->reason);
    c->duplicate_of = gr_strdup(row->duplicate_of);
}

static void comparing_fini(struct comparing *c)
{
    free(c->provider_id);
    free(c->type);
    free(c->workspace);
    free(c->reason);
    free(c->duplicate_of);
}

static void differs(struct judging *j, const struct comparing *c,
                    enum difference kind, const char *before, const char *after)
{
    report_difference(j->report, kind, c->source_name, c->id, before, after);
}

static const char *text_or(const struct buf *b, const char *otherwise)
{
    return b->len ? b->data : otherwise;
}

/* ---- duplicates ---- */

static bool has_key_of_type(const struct dedupe *d)
{
    for (size_t i = 0; i < d->count; i++)
        for (size_t k = 0; k < d->keys[i].count; k++)
            if (d->keys[i].parts[k].kind == EXPR_TYPE)
                return true;
    return false;
}

static int64_t find_replay(struct judging *j, const struct comparing *c,
                           const struct seen_key *own, int64_t earlier)
{
    const struct dedupe *d = &c->source->dedupe;
    const struct seen_key *first;
    struct seen_key fresh = *own;

    if (!c->f.has_signed)
        return 0;
    fresh.key = c->f.signed_part;
    first = seen_find(&j->signed_parts, fresh.key, INT64_MIN, INT64_MAX);
    if (!first) {
        if (earlier)
            fresh.n = earlier;
        j->forgot_keys |= !seen_add(&j->signed_parts, &fresh);
        return 0;
    }
    if (earlier ||
        (has_key_of_type(d) &&
         first->received_ms >= c->received_ms - d->ttl_ms &&
         first->workspace == own->workspace && first->type != own->type))
        return 0;
    return first->n;
}

/* The event of which this one is a duplicate; 0: of none. As sequencer/intake/duplicates.c. */
static int64_t find_earlier(struct judging *j, const struct comparing *c)
{
    struct seen_key own = {
        .n = c->n,
        .received_ms = c->received_ms,
        .type = hash_keyed_text(0, text_or(&c->f.type, "")),
        .workspace = hash_keyed_text(0, text_or(&c->f.workspace, ""))};
    bool known[KEYS_MAX] = {false};
    int64_t earlier = 0, replay;

    for (size_t i = 0; i < c->f.key_count; i++) {
        const struct parsed_key *k = &c->f.keys[i];
        const struct seen_key *first = seen_find(&j->keys, k->key,
                                                 c->received_ms - k->ttl_ms,
                                                 c->received_ms + k->ttl_ms);

        known[i] = first != NULL;
        if (first && !earlier)
            earlier = first->n;
    }
    replay = find_replay(j, c, &own, earlier);
    if (replay)
        return replay;
    for (size_t i = 0; i < c->f.key_count; i++) {
        struct seen_key fresh = own;

        fresh.key = c->f.keys[i].key;
        if (earlier)
            fresh.n = earlier;
        if (!known[i])
            j->forgot_keys |= !seen_add(&j->keys, &fresh);
    }
    return earlier;
}

/* Whether it would be a duplicate; a difference is reported. */
static bool judge_duplicate(struct judging *j, const struct comparing *c)
{
    int64_t earlier = c->source ? find_earlier(j, c) : 0;
    bool was = c->status == RECORDED_DUPLICATE;
    struct recorded first;

    note_judged(j, c->n);
    if (earlier && !was) {
        /* Archives are read side by side, so two of them may be in the other order. */
        if (!reading_is_merged(j->reading) ||
            strcmp(reading_duplicate_of(j->reading, earlier), c->id) != 0)
            differs(j, c, DIFFERENCE_DUPLICATE, NULL, NULL);
    } else if (!earlier && was) {
        if (j->forgot_keys)
            report_unjudged(j->report, too_many_keys);
        else if (!*c->duplicate_of ||
                 !reading_event(j->reading, c->duplicate_of, &first) ||
                 !was_judged(j, first.n))
            report_unjudged(j->report, older_first);
        else
            differs(j, c, DIFFERENCE_NOT_DUPLICATE, c->duplicate_of, NULL);
    }
    return earlier != 0;
}

/* ---- transitions ---- */

static struct object_state *find_state(struct judging *j, const char *name)
{
    size_t i;

    for (size_t at = 0;
         (i = lookup_next(&j->objects, lookup_text(name), &at)) != LOOKUP_END;)
        if (strcmp(j->states[i].name, name) == 0)
            return &j->states[i];
    return NULL;
}

static void set_state(struct judging *j, const char *name, const char *state)
{
    struct object_state *o = find_state(j, name);

    if (!o && j->state_count < OBJECTS_MAX) {
        if (!(j->state_count & (j->state_count - 1))) /* 0, 1, 2, 4, 8 … */
            j->states = gr_realloc(j->states, (2 * j->state_count + 1) *
                                                  sizeof *j->states);
        o = &j->states[j->state_count];
        *o = (struct object_state){.name = gr_strdup(name)};
        lookup_put(&j->objects, lookup_text(name), j->state_count++);
    }
    if (!o)
        return;
    free(o->state);
    o->state = gr_strdup(state);
}

/* Whether its transition would be valid. The state of an object before the period is not known: its
 * first transition is taken to be what it was. With `order` transitions are judged when events
 * are released, which is not known here: they stay what they were. */
static bool is_valid(struct judging *j, const struct comparing *c)
{
    bool was = c->status != RECORDED_IGNORED, valid = was;
    const struct object_state *before;
    char *name;

    if (!c->source || c->source->states.object.kind == EXPR_NONE ||
        !c->f.has_transition)
        return true;
    if (c->source->order.by != ORDER_ARRIVAL)
        return was;
    name = gr_printf("%s\n%s\n%s", c->source_name, text_or(&c->f.workspace, ""),
                     text_or(&c->f.object, ""));
    before = find_state(j, name);
    if (before)
        valid = transition_is_valid(&c->source->states, before->state,
                                    text_or(&c->f.state, ""));
    if (valid)
        set_state(j, name, text_or(&c->f.state, ""));
    free(name);
    return valid;
}

/* ---- routing ---- */

struct routing_comparison {
    struct judging *j;
    const char *id;
};

static void on_delivery(void *self, const char *endpoint, bool sent_again)
{
    const struct routing_comparison *r = self;
    struct judging *j = r->j;
    size_t i, slot = SIZE_MAX;

    for (size_t at = 0; (i = lookup_next(&j->endpoints, lookup_text(endpoint),
                                         &at)) != LOOKUP_END;)
        if (strcmp(j->settings->endpoints[i].name, endpoint) == 0)
            slot = i;
    if (slot != SIZE_MAX)
        j->had[slot] = j->event;
    /* Endpoints that were made at run time are not in the file; an operator may send an event to
     * an endpoint that is not subscribed. */
    if (*endpoint && strncmp(endpoint, "ep_", 3) != 0 && !sent_again &&
        (slot == SIZE_MAX || j->expected[slot] != j->event))
        report_difference(j->report, DIFFERENCE_NOT_ROUTED, endpoint, r->id,
                          NULL, NULL);
}

static void compare_routing(struct judging *j, const struct comparing *c,
                            struct subject *subject)
{
    struct routing_comparison r = {j, c->id};
    const size_t *subscribed;
    size_t count;

    j->event++;
    subject->type = c->f.type.data;
    subject->workspace = c->f.workspace.data;
    subscribed = subscriptions_ask(j->subscriptions, subject, &count);
    for (size_t i = 0; i < count; i++)
        if (!c->published ||
            published_for(c->published,
                          j->settings->endpoints[subscribed[i]].name))
            j->expected[subscribed[i]] = j->event;
    reading_deliveries(j->reading, c->n, on_delivery, &r);
    for (size_t i = 0; i < count; i++)
        if (j->expected[subscribed[i]] == j->event &&
            j->had[subscribed[i]] != j->event)
            report_difference(j->report, DIFFERENCE_ROUTED,
                              j->settings->endpoints[subscribed[i]].name, c->id,
                              NULL, NULL);
}

/* ---- an event ---- */

static void compare_text(struct judging *j, const struct comparing *c,
                         enum difference kind, const char *before,
                         const char *after)
{
    if (strcmp(before, after) != 0)
        differs(j, c, kind, *before ? before : NULL, *after ? after : NULL);
}

static void compare_order(struct judging *j, const struct comparing *c)
{
    bool numbered = c->source && c->source->order.by == ORDER_SEQUENCE &&
                    c->f.has_position;
    char before[24] = "", after[24] = "";

    if (c->numbered)
        snprintf(before, sizeof before, "%" PRId64, c->source_sequence);
    if (numbered)
        snprintf(after, sizeof after, "%" PRId64, c->f.position);
    compare_text(j, c, DIFFERENCE_ORDER, before, after);
}

/* `c->f` says what the event would be; compare it with its row. */
static void compare(struct judging *j, const struct comparing *c,
                    struct subject *subject)
{
    bool refused = c->f.refused, valid;

    report_judged(j->report);
    if (refused || c->status == RECORDED_REFUSED) {
        if (refused && c->status != RECORDED_REFUSED)
            differs(j, c, DIFFERENCE_REFUSED, NULL, c->f.refused);
        else if (!refused)
            differs(j, c, DIFFERENCE_NOT_REFUSED, c->reason, NULL);
        if (refused)
            return;
    } else {
        compare_text(j, c, DIFFERENCE_ID, c->provider_id,
                     text_or(&c->f.id, ""));
        compare_text(j, c, DIFFERENCE_TYPE, c->type,
                     text_or(&c->f.type, "unknown"));
        compare_text(j, c, DIFFERENCE_WORKSPACE, c->workspace,
                     text_or(&c->f.workspace, "default"));
    }
    if (judge_duplicate(j, c) || c->status == RECORDED_DUPLICATE ||
        c->status == RECORDED_REFUSED)
        return;
    compare_order(j, c);
    valid = is_valid(j, c);
    if (!valid && c->status != RECORDED_IGNORED)
        differs(j, c, DIFFERENCE_IGNORED, NULL, c->f.state.data);
    else if (valid && c->status == RECORDED_IGNORED)
        differs(j, c, DIFFERENCE_NOT_IGNORED, c->reason, NULL);
    else if (valid && c->status == RECORDED_ROUTED)
        compare_routing(j, c, subject);
    else if (valid && c->status == RECORDED_BUFFERED)
        report_unjudged(j->report, still_waits);
}

/* Why an event cannot be compared; NULL: it can. */
static const char *incomparable(const struct recorded *row)
{
    if (row->status == RECORDED_IGNORED &&
        strcmp(row->reason, "workspace_erased") == 0)
        return erased;
    if (row->reopened)
        return operated;
    if (row->status == RECORDED_REFUSED &&
        (strncmp(row->reason, key_reused, strlen(key_reused)) == 0 ||
         strstr(row->reason, "damaged")))
        return not_by_file;
    return NULL;
}

/* An event of a source; `whole` and `index` as parsed_event_make() takes them. */
static void judge_event(struct judging *j, const struct source *source,
                        const char *id, const struct recorded *row,
                        struct subject *subject,
                        const struct parsed_signed *whole, size_t index,
                        const char *unparsable)
{
    struct comparing c = {
        .id = id, .source_name = source->name, .source = source};

    if (incomparable(row)) {
        report_unjudged(j->report, incomparable(row));
        return;
    }
    note_recorded(&c, row);
    if (unparsable)
        parsed_event_refuse(&c.f, unparsable);
    else
        parsed_event_make(&c.f, source, subject, whole, index);
    compare(j, &c, subject);
    parsed_event_fini(&c.f);
    comparing_fini(&c);
}

/* ---- a request of a source ---- */

static void judge_parts(struct judging *j, const struct source *source,
                        const struct archived_request *r,
                        const struct recorded *request, struct subject *subject,
                        const struct split *parts)
{
    struct parsed_signed signed_part;
    char id[EVENT_ID_BYTES + 1], before[40] = "one", after[40];
    int64_t status = request->status;
    struct recorded row;

    snprintf(after, sizeof after, "%zu events", parts->count);
    if (status == RECORDED_SPLIT)
        snprintf(before, sizeof before, "%s", request->reason);
    if (strcmp(before, after) != 0)
        report_difference(j->report, DIFFERENCE_SPLIT, source->name, r->id,
                          before, after);
    if (status != RECORDED_SPLIT)
        return;
    parsed_event_signed(&signed_part, source, subject);
    for (size_t i = 0; i < parts->count; i++) {
        struct subject part = {.source = source->name,
                               .provider = source->provider,
                               .headers = r->headers,
                               .body = parts->parts[i]};

        split_id(id, r->id, i);
        if (reading_event(j->reading, id, &row))
            judge_event(j, source, id, &row, &part, &signed_part, i, NULL);
        else
            report_unjudged(j->report, not_known);
        subject_fini(&part);
    }
}

/* Whether an event of an erased workspace was taken out of the list, so that the signature fits no more. */
static bool is_partly_erased(const struct source *source, struct bytes body)
{
    struct split parts = {0};
    const char *why;
    bool erased_part = false;

    if (source->batch && split_body(body, &parts, &why) == GR_OK)
        for (size_t i = 0; i < parts.count; i++)
            erased_part |= parts.parts[i].n == 4 &&
                           memcmp(parts.parts[i].p, "null", 4) == 0;
    split_fini(&parts);
    return erased_part;
}

/* false: ingress would refuse it. Judged as of the time of receipt. */
static bool is_genuine(struct judging *j, const struct source *source,
                       const struct archived_request *r)
{
    enum verification v;
    bool unset = false, skipped;
    struct bytes value;
    json_t *masked;
    int secret;

    if (headers_get(r->headers, RECONCILED_HEADER, &value, NULL))
        return true; /* from the list of its provider, which signs nothing */
    v = verify(source, r->headers, r->body, r->received_ms, &secret);
    if (v == VERDICT_HOLDS)
        return true;
    for (size_t i = 0; i < source->secrets.count; i++)
        unset |= strstr(source->secrets.items[i], UNSET_SECRET) != NULL;
    masked = mask_places(source, r->headers);
    skipped = true;
    if (unset)
        report_unverified(j->report, source->name,
                          "a variable of its secrets is not set in this shell");
    else if (json_array_size(masked))
        report_unverified(j->report, source->name,
                          "its token was masked before requests were stored");
    else if (is_partly_erased(source, r->body))
        report_unverified(j->report, source->name, partly_erased);
    else
        skipped = false;
    if (!skipped)
        report_difference(j->report, DIFFERENCE_REJECTED, source->name, r->id,
                          NULL, verdict_name(v));
    json_decref(masked);
    return skipped;
}

static void judge_hook(struct judging *j, const struct source *source,
                       const struct archived_request *r,
                       const struct recorded *row)
{
    struct subject subject = {.source = source->name,
                              .provider = source->provider,
                              .headers = r->headers,
                              .body = r->body};
    struct split parts = {0};
    const char *why = NULL;

    if (!is_genuine(j, source, r)) {
        report_judged(j->report);
        return;
    }
    if (source->batch && split_body(r->body, &parts, &why) == GR_OK &&
        parts.count)
        judge_parts(j, source, r, row, &subject, &parts);
    else if (row->status == RECORDED_SPLIT)
        report_difference(j->report, DIFFERENCE_SPLIT, source->name, r->id,
                          row->reason, "one");
    else
        judge_event(j, source, r->id, row, &subject, NULL, 0, why);
    split_fini(&parts);
    subject_fini(&subject);
}

/* ---- an object of a producer or a relay ---- */

static void judge_published(struct judging *j, const struct producer *producer,
                            const struct archived_request *r,
                            const struct recorded *row)
{
    struct subject subject = {
        .source = r->source, .headers = r->headers, .body = r->body};
    struct comparing c = {.id = r->id, .source_name = r->source};
    struct published_wrong wrong;
    struct published p;
    struct bytes key = {"", 0};
    bool good = published_read(&p, r->body, &wrong) == GR_OK;

    if (good && !settings_relay(j->settings, r->source) &&
        published_judge(&p, j->settings, producer, &wrong) != PUBLISHED_GOOD) {
        report_judged(j->report);
        report_difference(j->report, DIFFERENCE_REJECTED, r->source, r->id,
                          NULL, wrong.why);
    } else {
        parsed_event_refuse(&c.f, good ? NULL : wrong.why);
        if (good && p.id)
            key = (struct bytes){p.id, strlen(p.id)};
        else if (good &&
                 !headers_get(r->headers, "Idempotency-Key", &key, NULL))
            key = (struct bytes){"", 0};
        if (good) {
            buf_put(&c.f.id, key.p, key.n);
            buf_puts(&c.f.type, p.type);
            buf_puts(&c.f.workspace, p.workspace);
            c.published = &p;
        }
        note_recorded(&c, row);
        compare(j, &c, &subject);
        comparing_fini(&c);
        parsed_event_fini(&c.f);
    }
    published_fini(&p);
    subject_fini(&subject);
}

void judging_request(struct judging *j, const struct archived_request *r)
{
    const struct source *source = settings_source(j->settings, r->source);
    const struct producer *producer = settings_producer(j->settings, r->source);
    struct recorded row;

    if (!reading_event(j->reading, r->id, &row)) {
        report_unjudged(j->report, not_known);
    } else if (incomparable(&row)) {
        report_unjudged(j->report, incomparable(&row));
    } else if (!r->headers.n && !r->body.n) {
        report_unjudged(j->report, erased);
    } else if (source) {
        judge_hook(j, source, r, &row);
    } else if (producer) {
        judge_published(j, producer, r, &row);
    } else {
        report_judged(j->report);
        report_difference(j->report, DIFFERENCE_REJECTED, r->source, r->id,
                          NULL, "its source is not in the configuration");
    }
}
