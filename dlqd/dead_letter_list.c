/* dead_letter_list: control commands that list, show, retry and decide dead letters. */
#include "dead_letter_list.h"
#include "bulk.h"
#include "clock.h"
#include "decide.h"
#include "dlqd.h"
#include "encoding.h"
#include "glob.h"
#include "json_text.h"
#include "mask.h"
#include "new_dead_letters.h"
#include "profile.h"
#include "redirect.h"
#include "requeue.h"
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one reply may cost; the caller continues from "next". */
enum {
    LIST_DEFAULT = 100,
    SCAN_MAX = 5000,               /* index rows read */
    WORK_US = 3000,                /* once SCAN_MIN rows are read */
    SCAN_MIN = 100,                /* index rows that each request reads */
    SCANS_PER_LOOK = 16,           /* at the clock */
    RESPONSES_BYTES = 1024 * 1024, /* of last responses and errors */
    NOTE_MAX_BYTES = 4000,
};

/* ---- arguments ---- */

static bool read_cursor(json_t *args, const char *key, int64_t *ms, int64_t *n,
                        char why[200])
{
    const char *text = json_string_value(json_object_get(args, key));
    int end = 0;

    if (!text || (sscanf(text, "%" SCNd64 ".%" SCNd64 "%n", ms, n, &end) == 2 &&
                  end > 0 && text[end] == 0))
        return true;
    control_fail(why, CONTROL_INVALID,
                 "args.%s: \"%.40s\" is not the \"next\" of a reply", key,
                 text);
    return false;
}

static const char *arg_text(json_t *args, const char *key)
{
    return json_string_value(json_object_get(args, key));
}

static int64_t arg_int(json_t *args, const char *key, int64_t otherwise)
{
    json_t *v = json_object_get(args, key);

    return v ? json_integer_value(v) : otherwise;
}

bool list_filter_read(struct list_filter *f, json_t *args, char why[200])
{
    const char *state = arg_text(args, "state");

    *f = (struct list_filter){
        .state = state ? state
                       : states_name(&dead_letter_states, DEAD_LETTER_DEAD),
        .endpoint = arg_text(args, "endpoint"),
        .workspace = arg_text(args, "workspace"),
        .tenant = arg_text(args, "tenant"),
        .type = arg_text(args, "type"),
        .reason = arg_text(args, "reason"),
        .source = arg_text(args, "source"),
        .since_ms = arg_int(args, "since_ms", 0),
        .until_ms = arg_int(args, "until_ms", INT64_MAX),
        .limit = arg_int(args, "limit", LIST_DEFAULT),
        .before_ms = INT64_MAX,
        .before_n = INT64_MAX,
        .to = arg_text(args, "to"),
        .note = arg_text(args, "note"),
        .who = arg_text(args, "who")};
    if (strcmp(f->state, "all") == 0)
        f->state = NULL;
    if (!read_cursor(args, "before", &f->before_ms, &f->before_n, why) ||
        !read_cursor(args, "after", &f->after_ms, &f->after_n, why))
        return false;
    if (f->until_ms < f->before_ms) {
        f->before_ms = f->until_ms;
        f->before_n = 0; /* rows begin at 1: none at that time */
    }
    return true;
}

static bool takes(const char *glob, const char *text)
{
    return !glob || glob_match(glob, text);
}

/* Which workspace an endpoint belongs to, the sequencer knows; the console asks it. */
static bool is_of_tenant(const char *tenant, const char *workspace,
                         const char *endpoint)
{
    return !tenant || (strcmp(workspace, tenant) == 0 && endpoint &&
                       endpoint_id_valid(endpoint));
}

bool list_filter_takes(const struct list_filter *f, const struct scan_row *row)
{
    return is_of_tenant(f->tenant, row->workspace, row->endpoint) &&
           takes(f->endpoint, row->endpoint) &&
           takes(f->workspace, row->workspace) && takes(f->type, row->type) &&
           takes(f->reason, row->reason) && takes(f->source, row->source);
}

/* ---- dlq ---- */

/* Append dead letter `n`; returns how many bytes of responses and errors it has. */
static size_t add_dead_letter(struct dlqd *d, json_t *dead_letters, int64_t n)
{
    struct dead_letter l;
    size_t bytes;

    if (!store_find_n(&d->store, n, &l))
        return 0;
    bytes = l.last_response.n + strlen(l.last_error);
    json_array_append_new(dead_letters, dead_letter_json(&l));
    dead_letter_fini(&l);
    return bytes;
}

json_t *list_cursor(const struct scan_row *last)
{
    char text[64];

    snprintf(text, sizeof text, "%" PRId64 ".%" PRId64, last->dead_ms, last->n);
    return json_string(text);
}

static bool is_spent(int scanned, int64_t began_us)
{
    return scanned >= SCAN_MAX ||
           (scanned >= SCAN_MIN && scanned % SCANS_PER_LOOK == 0 &&
            thread_us() - began_us >= WORK_US);
}

json_t *list_ask(void *self, json_t *args, char why[200])
{
    struct dlqd *d = self;
    struct list_filter f;
    struct scan_row row;
    json_t *dead_letters, *next = NULL;
    int64_t began_us = thread_us();
    size_t bytes = 0;

    if (!list_filter_read(&f, args, why))
        return NULL;
    dead_letters = json_array();
    store_scan(&d->store, f.state, f.before_ms, f.before_n);
    for (int i = 0; !next && store_scan_next(&d->store, &row); i++) {
        if (row.dead_ms < f.since_ms)
            break;
        if (list_filter_takes(&f, &row))
            bytes += add_dead_letter(d, dead_letters, row.n);
        if ((int64_t)json_array_size(dead_letters) >= f.limit ||
            is_spent(i, began_us) || bytes >= RESPONSES_BYTES)
            next = list_cursor(&row);
    }
    store_scan_done(&d->store);
    return json_pack("{s:o, s:o}", "dead_letters", dead_letters, "next",
                     next ? next : json_null());
}

/* ---- dlq_show ---- */

/* The event id in evt_… or in a dlq_… without an endpoint. false: it is neither. */
static bool event_of_dead_letter(const char *id, char event[EVENT_ID_BYTES + 1])
{
    if (strlen(id) != EVENT_ID_BYTES ||
        (strncmp(id, "evt_", 4) != 0 && strncmp(id, "dlq_", 4) != 0))
        return false;
    snprintf(event, EVENT_ID_BYTES + 1, "evt_%s", id + 4);
    return true;
}

/* By its own id, or by the id of its event if that has only one dead letter; of a tenant, only by
 * its own id. */
static bool find_dead_letter(struct dlqd *d, json_t *args,
                             struct dead_letter *l, char why[200])
{
    const char *id = arg_text(args, "id"), *tenant = arg_text(args, "tenant");
    struct dead_letter other = {0};
    char event[EVENT_ID_BYTES + 1];
    int count = 0;

    if (store_find(&d->store, wire_text(id), l)) {
        if (is_of_tenant(tenant, l->workspace, l->endpoint))
            return true;
        dead_letter_fini(l);
    }
    *l = (struct dead_letter){0};
    if (tenant) {
        control_fail(why, CONTROL_NOT_FOUND, "there is no dead letter %.120s",
                     id);
        return false;
    }
    if (!event_of_dead_letter(id, event)) {
        control_fail(why, CONTROL_NOT_FOUND,
                     "there is no dead letter %.120s: `grapnel dlq` lists them",
                     id);
        return false;
    }
    store_event(&d->store, event);
    while (store_event_next(&d->store, &other)) {
        if (count++ == 0)
            *l = other;
        else
            dead_letter_fini(&other);
    }
    if (count == 1)
        return true;
    if (count)
        control_fail(why, CONTROL_REFUSED,
                     "%s has %d dead letters: write one's id, such as %.94s "
                     "(see grapnel trace)",
                     event, count, l->id);
    else
        control_fail(
            why, CONTROL_NOT_FOUND,
            "%s has no dead letter; `grapnel trace %s` shows its history",
            event, event);
    dead_letter_fini(l);
    return false;
}

/* The delivery id has no column: it is in the headers or the body. */
static json_t *delivery_id_json(const struct source *source,
                                struct bytes headers, struct bytes body)
{
    struct subject subject = {.headers = headers, .body = body};
    struct buf id;
    json_t *json;

    if (!source)
        return json_null();
    buf_init(&id, TEXT_MAX_BYTES);
    profile_delivery_id(source, &subject, &id);
    json = json_text_or_null(id.data);
    subject_fini(&subject);
    buf_fini(&id);
    return json;
}

static void show_content(struct dlqd *d, json_t *out,
                         const struct dead_letter *l, bool tenant)
{
    const struct source *source = settings_source(d->daemon.settings,
                                                  l->source);
    struct bytes headers, body;

    if (!store_content(&d->store, l->n, &headers, &body))
        return;
    json_object_set_new(out, "delivery_id",
                        delivery_id_json(source, headers, body));
    if (!tenant) /* they tell of the source and of its network */
        json_object_set_new(out, "headers",
                            mask_json(d->daemon.settings, l->source, headers));
    if (utf8_valid(body))
        json_object_set_new(out, "body", json_text(body));
    else
        json_object_set_new(out, "body_b64", encoding_base64_json(body));
    store_content_done(&d->store);
}

static json_t *history_json(struct dlqd *d, int64_t dead_letter)
{
    json_t *out = json_array();
    struct history_row row;

    store_history(&d->store, dead_letter);
    while (store_history_next(&d->store, &row))
        json_array_append_new(
            out,
            json_pack("{s:o, s:o, s:s, s:o}", "at", json_time(row.at_ms),
                      "from", *row.from ? json_string(row.from) : json_null(),
                      "to", row.to, "what", json_text_of(row.what)));
    return out;
}

json_t *list_ask_show(void *self, json_t *args, char why[200])
{
    struct dlqd *d = self;
    struct dead_letter l;
    json_t *out;

    if (!find_dead_letter(d, args, &l, why))
        return NULL;
    out = dead_letter_json(&l);
    json_object_set_new(out, "generation", json_integer(l.generation));
    json_object_set_new(out, "source", json_text_of(l.source));
    json_object_set_new(out, "provider_id", json_text_or_null(l.provider_id));
    json_object_set_new(out, "delivery_id", json_null());
    json_object_set_new(out, "type", json_text_of(l.type));
    json_object_set_new(out, "workspace", json_text_of(l.workspace));
    json_object_set_new(out, "sequence", json_number_or_null(l.sequence));
    json_object_set_new(out, "received_at", json_time(l.received_ms));
    show_content(d, out, &l, arg_text(args, "tenant"));
    json_object_set_new(out, "history", history_json(d, l.n));
    dead_letter_fini(&l);
    return out;
}

/* ---- dlq_retry ---- */

bool list_to_good(const struct dlqd *d, const char *to, char why[200])
{
    if (!to || settings_endpoint(d->daemon.settings, to) ||
        endpoint_id_valid(to))
        return true;
    control_fail(why, CONTROL_NOT_FOUND, "args.to: no endpoint is named %.63s",
                 to);
    return false;
}

bool list_retry(struct dlqd *d, const char *id, const char *to,
                uint64_t action_id, const char *who, char why[200])
{
    return to ? redirect_dead_letter(d, id, to, action_id, who, why)
              : requeue_dead_letter(d, id, who, why);
}

/* The ids that are retried, and the results. */
struct retrying {
    struct dlqd *d;
    const char *to, *who;
    json_t *done, *refused;
    bool unknown; /* an event has no dead letter */
};

static void retry_one(struct retrying *r, const char *id)
{
    char reason[200];

    if (list_retry(r->d, id, r->to, random_id(), r->who, reason))
        json_array_append_new(r->done, json_string(id));
    else
        json_array_append_new(r->refused,
                              json_pack("{s:s, s:s}", "id", id, "why", reason));
}

enum { EVENT_DEAD_LETTERS_MAX = 1000 };

/* Retry all dead letters of an event. Their ids are read first: the walk must have ended before
 * one of them changes. */
static void retry_event(struct retrying *r, const char *event_id)
{
    json_t *ids = json_array(), *id;
    struct dead_letter l = {0};
    size_t i;

    r->unknown = true;
    store_event(&r->d->store, event_id);
    while (store_event_next(&r->d->store, &l)) {
        r->unknown = false;
        if (l.state == DEAD_LETTER_DEAD &&
            json_array_size(ids) < EVENT_DEAD_LETTERS_MAX)
            json_array_append_new(ids, json_string(l.id));
        dead_letter_fini(&l);
    }
    json_array_foreach(ids, i, id) retry_one(r, json_string_value(id));
    if (!json_array_size(ids))
        json_array_append_new(
            r->refused, json_pack("{s:s, s:s}", "id", event_id, "why",
                                  "no dead letter of this event waits for a "
                                  "decision"));
    json_decref(ids);
}

static json_t *retry_reply(struct retrying *r)
{
    return json_pack("{s:o, s:o}", "requeued", r->done, "refused", r->refused);
}

static bool is_event(const char *id)
{
    return strncmp(id, "evt_", 4) == 0;
}

static void retry_each(struct retrying *r, const char *id)
{
    if (is_event(id))
        retry_event(r, id);
    else
        retry_one(r, id);
}

/* With one `id`, it is an error if nothing changes. */
static json_t *retry_alone(struct retrying *r, const char *id, char why[200])
{
    const json_t *first;

    retry_each(r, id);
    if (json_array_size(r->done))
        return retry_reply(r);
    first = json_array_get(r->refused, 0);
    control_fail(why, r->unknown ? CONTROL_NOT_FOUND : CONTROL_REFUSED, "%s",
                 json_string_value(json_object_get(first, "why")));
    json_decref(retry_reply(r));
    return NULL;
}

static json_t *retry_all(struct retrying *r, const json_t *ids)
{
    json_t *id;
    size_t i;

    json_array_foreach(ids, i, id) retry_each(r, json_string_value(id));
    return retry_reply(r);
}

json_t *list_ask_retry(void *self, json_t *args, char why[200])
{
    json_t *ids = json_object_get(args, "ids"), *reply = NULL;
    const char *id = arg_text(args, "id"), *tenant = arg_text(args, "tenant");
    struct retrying r = {
        .d = self, .to = arg_text(args, "to"), .who = arg_text(args, "who")};
    struct dead_letter l = {0};

    if (!ids == !id || (ids && tenant)) {
        control_fail(why, CONTROL_INVALID, "write either args.ids or args.id");
        return NULL;
    }
    if (id && (!is_event(id) || tenant) &&
        !find_dead_letter(r.d, args, &l, why))
        return NULL;
    if (list_to_good(r.d, r.to, why)) {
        r.done = json_array();
        r.refused = json_array();
        reply = ids ? retry_all(&r, ids)
                    : retry_alone(&r, l.id ? l.id : id, why);
    }
    dead_letter_fini(&l);
    return reply;
}

/* ---- dlq_resolve, dlq_discard ---- */

bool list_note_good(const char *note, char why[200])
{
    if (strlen(note) <= NOTE_MAX_BYTES)
        return true;
    control_fail(why, CONTROL_INVALID,
                 "args.note: at most %d bytes are allowed", NOTE_MAX_BYTES);
    return false;
}

static json_t *ask_decide(void *self, json_t *args, int state, char why[200])
{
    struct dlqd *d = self;
    const char *note = arg_text(args, "note");
    struct dead_letter before, l;
    json_t *out = NULL;

    if (!list_note_good(note, why) || !find_dead_letter(d, args, &before, why))
        return NULL;
    if (decide_dead_letter(d, before.id, state, note, arg_text(args, "who"),
                           why) &&
        store_find(&d->store, wire_text(before.id), &l)) {
        out = dead_letter_json(&l);
        dead_letter_fini(&l);
    }
    dead_letter_fini(&before);
    return out;
}

json_t *list_ask_resolve(void *self, json_t *args, char why[200])
{
    return ask_decide(self, args, DEAD_LETTER_RESOLVED, why);
}

json_t *list_ask_discard(void *self, json_t *args, char why[200])
{
    return ask_decide(self, args, DEAD_LETTER_DISCARDED, why);
}

/* ---- trace ---- */

static void add_timeline(struct dlqd *d, const struct dead_letter *l,
                         json_t *out)
{
    struct history_row row;

    store_history(&d->store, l->n);
    while (store_history_next(&d->store, &row)) {
        char *what = gr_printf("dead letter %s (%s) %s: %s", l->id,
                               l->endpoint ? l->endpoint : "not routed", row.to,
                               row.what);

        json_array_append_new(out, json_pack("{s:o, s:s, s:o}", "at",
                                             json_time(row.at_ms), "process",
                                             d->daemon.name, "what",
                                             json_text_of(what)));
        free(what);
    }
}

json_t *list_ask_trace(void *self, json_t *args, char why[200])
{
    struct dlqd *d = self;
    struct dead_letter l;
    json_t *out = json_array();

    (void)why;
    store_event(&d->store, arg_text(args, "id"));
    while (store_event_next(&d->store, &l)) {
        add_timeline(d, &l, out);
        dead_letter_fini(&l);
    }
    return json_pack("{s:o}", "timeline", out);
}
