#include "list.h"
#include "bulk.h"
#include "clock.h"
#include "deaths.h"
#include "decide.h"
#include "dlqd.h"
#include "encoding.h"
#include "glob.h"
#include "json_text.h"
#include "mask.h"
#include "profile.h"
#include "redirect.h"
#include "requeue.h"
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one answer may cost; the asker goes on from "next". */
enum {
    LIST_DEFAULT = 100,
    LIST_MOST = 1000,
    SCAN_MOST = 5000,           /* index rows looked at, some 5 ms */
    ANSWER_BYTES = 1024 * 1024, /* of last responses and errors */
    RETRY_MOST = 1000,
    NOTE_MAX_BYTES = 4000,
};

/* ---- arguments ---- */

static bool arg_text(json_t *v, const char *key, const char **out,
                     char why[200])
{
    *out = json_string_value(v);
    if (!*out)
        snprintf(why, 200, "\"%s\" must be a text", key);
    return *out != NULL;
}

static bool arg_int(json_t *v, const char *key, int64_t least, int64_t *out,
                    char why[200])
{
    *out = json_integer_value(v);
    if (json_is_integer(v) && *out >= least)
        return true;
    snprintf(why, 200, "\"%s\" must be a whole number from %" PRId64, key,
             least);
    return false;
}

static bool read_state(struct list_filter *f, json_t *v, char why[200])
{
    if (!arg_text(v, "state", &f->state, why))
        return false;
    if (strcmp(f->state, "all") == 0) {
        f->state = NULL;
        return true;
    }
    if (states_find(&letter_states, f->state) >= 0)
        return true;
    snprintf(why, 200, "no letter is ever \"%.40s\"; the states are", f->state);
    for (int i = 0; i < LETTER_STATES; i++) {
        strncat(why, " ", 199 - strlen(why));
        strncat(why, states_name(&letter_states, i), 199 - strlen(why));
    }
    strncat(why, " all", 199 - strlen(why));
    return false;
}

static bool read_cursor(json_t *v, const char *key, int64_t *ms, int64_t *n,
                        char why[200])
{
    const char *text;
    int end = 0;

    if (!arg_text(v, key, &text, why))
        return false;
    if (sscanf(text, "%" SCNd64 ".%" SCNd64 "%n", ms, n, &end) == 2 &&
        end > 0 && text[end] == 0)
        return true;
    snprintf(why, 200, "\"%s\" must be the \"next\" of an answer", key);
    return false;
}

static bool read_arg(struct list_filter *f, const char *key, json_t *v,
                     char why[200])
{
    const struct {
        const char *key;
        const char **text;
    } texts[] = {{"endpoint", &f->endpoint},
                 {"workspace", &f->workspace},
                 {"type", &f->type},
                 {"reason", &f->reason},
                 {"source", &f->source},
                 {"who", &f->who},
                 {"to", &f->to},
                 {"note", &f->note}};

    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (strcmp(key, texts[i].key) == 0)
            return arg_text(v, key, texts[i].text, why);
    if (strcmp(key, "state") == 0)
        return read_state(f, v, why);
    if (strcmp(key, "before") == 0)
        return read_cursor(v, key, &f->before_ms, &f->before_n, why);
    if (strcmp(key, "after") == 0)
        return read_cursor(v, key, &f->after_ms, &f->after_n, why);
    if (strcmp(key, "since_ms") == 0)
        return arg_int(v, key, 0, &f->since_ms, why);
    if (strcmp(key, "until_ms") == 0)
        return arg_int(v, key, 0, &f->until_ms, why);
    if (strcmp(key, "limit") == 0)
        return arg_int(v, key, 1, &f->limit, why);
    snprintf(why, 200,
             "unknown \"%.40s\"; dlq knows state endpoint workspace type "
             "reason source since_ms until_ms limit before after to note who",
             key);
    return false;
}

bool list_filter_read(struct list_filter *f, json_t *args, char why[200])
{
    const char *key;
    json_t *v;

    *f = (struct list_filter){.state = states_name(&letter_states, LETTER_DEAD),
                              .until_ms = INT64_MAX,
                              .limit = LIST_DEFAULT,
                              .before_ms = INT64_MAX,
                              .before_n = INT64_MAX};
    json_object_foreach(args, key,
                        v) if (!read_arg(f, key, v, why)) return false;
    if (f->limit > LIST_MOST)
        f->limit = LIST_MOST;
    if (f->until_ms < f->before_ms) {
        f->before_ms = f->until_ms;
        f->before_n = 0; /* rows begin at 1: none of that time */
    }
    return true;
}

static bool takes(const char *glob, const char *text)
{
    return !glob || glob_match(glob, text);
}

bool list_filter_takes(const struct list_filter *f, const struct scan_row *row)
{
    return takes(f->endpoint, row->endpoint) &&
           takes(f->workspace, row->workspace) && takes(f->type, row->type) &&
           takes(f->reason, row->reason) && takes(f->source, row->source);
}

/* ---- dlq ---- */

/* Append letter `n`; returns how many bytes of strangers' text it has. */
static size_t add_letter(struct dlqd *d, json_t *letters, int64_t n)
{
    struct letter l;
    size_t bytes;

    if (!store_find_n(&d->store, n, &l))
        return 0;
    bytes = l.last_response.n + strlen(l.last_error);
    json_array_append_new(letters, letter_json(&l));
    letter_fini(&l);
    return bytes;
}

json_t *list_cursor(const struct scan_row *last)
{
    char text[64];

    snprintf(text, sizeof text, "%" PRId64 ".%" PRId64, last->dead_ms, last->n);
    return json_string(text);
}

static json_t *ask_list(void *self, json_t *args, char why[200])
{
    struct dlqd *d = self;
    struct list_filter f;
    struct scan_row row;
    json_t *letters, *next = NULL;
    size_t bytes = 0;

    if (!list_filter_read(&f, args, why))
        return NULL;
    letters = json_array();
    store_scan(&d->store, f.state, f.before_ms, f.before_n);
    for (int i = 0; !next && store_scan_next(&d->store, &row); i++) {
        if (row.dead_ms < f.since_ms)
            break;
        if (list_filter_takes(&f, &row))
            bytes += add_letter(d, letters, row.n);
        if ((int64_t)json_array_size(letters) >= f.limit || i >= SCAN_MOST ||
            bytes >= ANSWER_BYTES)
            next = list_cursor(&row);
    }
    store_scan_done(&d->store);
    return json_pack("{s:o, s:o}", "letters", letters, "next",
                     next ? next : json_null());
}

/* ---- dlq_show ---- */

/* evt_… or dlq_… of an event, without the endpoint. false: it is neither. */
static bool event_of_letter(const char *id, char event[EVENT_ID_BYTES + 1])
{
    if (strlen(id) != EVENT_ID_BYTES ||
        (strncmp(id, "evt_", 4) != 0 && strncmp(id, "dlq_", 4) != 0))
        return false;
    snprintf(event, EVENT_ID_BYTES + 1, "evt_%s", id + 4);
    return true;
}

/* By its own id, or by its event's when that has one letter only. */
static bool find_letter(struct dlqd *d, const char *id, struct letter *l,
                        char why[200])
{
    struct letter other = {0};
    char event[EVENT_ID_BYTES + 1];
    int count = 0;

    if (store_find(&d->store, wire_text(id), l))
        return true;
    *l = (struct letter){0};
    snprintf(why, 200, "there is no dead letter %.120s", id);
    if (!event_of_letter(id, event))
        return false;
    store_event(&d->store, event);
    while (store_event_next(&d->store, &other)) {
        if (count++ == 0)
            *l = other;
        else
            letter_fini(&other);
    }
    if (count == 1)
        return true;
    if (count)
        snprintf(why, 200,
                 "%s has %d dead letters: write one's id, such as %.94s "
                 "(see grapnel trace)",
                 event, count, l->id);
    else
        snprintf(why, 200,
                 "%s has no dead letter: `grapnel trace %s` shows what became "
                 "of it",
                 event, event);
    letter_fini(l);
    return false;
}

static bool find_arg(struct dlqd *d, json_t *args, struct letter *l,
                     char why[200])
{
    const char *id;

    return arg_text(json_object_get(args, "id"), "id", &id, why) &&
           find_letter(d, id, l, why);
}

/* No column has it: the headers do. */
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

static void show_content(struct dlqd *d, json_t *out, const struct letter *l)
{
    const struct source *source = settings_source(d->daemon.settings,
                                                  l->source);
    struct bytes headers, body;

    if (!store_content(&d->store, l->n, &headers, &body))
        return;
    json_object_set_new(out, "delivery_id",
                        delivery_id_json(source, headers, body));
    json_object_set_new(out, "headers",
                        mask_json(d->daemon.settings, l->source, headers));
    if (utf8_valid(body))
        json_object_set_new(out, "body", json_text(body));
    else
        json_object_set_new(out, "body_b64", encoding_base64_json(body));
    store_content_done(&d->store);
}

static json_t *history_json(struct dlqd *d, int64_t letter)
{
    json_t *out = json_array();
    struct history_row row;

    store_history(&d->store, letter);
    while (store_history_next(&d->store, &row))
        json_array_append_new(
            out,
            json_pack("{s:o, s:o, s:s, s:o}", "at", json_time(row.at_ms),
                      "from", *row.from ? json_string(row.from) : json_null(),
                      "to", row.to, "what", json_text_of(row.what)));
    return out;
}

static json_t *ask_show(void *self, json_t *args, char why[200])
{
    struct dlqd *d = self;
    struct letter l;
    json_t *out;

    if (!find_arg(d, args, &l, why))
        return NULL;
    out = letter_json(&l);
    json_object_set_new(out, "life", json_integer(l.life));
    json_object_set_new(out, "source", json_text_of(l.source));
    json_object_set_new(out, "provider_id", json_text_or_null(l.provider_id));
    json_object_set_new(out, "delivery_id", json_null());
    json_object_set_new(out, "type", json_text_of(l.type));
    json_object_set_new(out, "workspace", json_text_of(l.workspace));
    json_object_set_new(out, "sequence", json_number_or_null(l.sequence));
    json_object_set_new(out, "received_at", json_time(l.received_ms));
    show_content(d, out, &l);
    json_object_set_new(out, "history", history_json(d, l.n));
    letter_fini(&l);
    return out;
}

/* ---- dlq_retry ---- */

bool list_retry(struct dlqd *d, const char *id, const char *to, const char *who,
                char why[200])
{
    if (to && (!*to || strlen(to) > NAME_MAX_BYTES)) {
        snprintf(why, 200, "\"to\": no endpoint has such a name");
        return false;
    }
    return to ? redirect_letter(d, id, to, who, why)
              : requeue_letter(d, id, who, why);
}

/* What is retried, by its own id or its event's. */
struct retrying {
    struct dlqd *d;
    const char *to, *who;
    json_t *done, *refused;
};

static void retry_one(struct retrying *r, const char *id)
{
    char reason[200];

    if (list_retry(r->d, id, r->to, r->who, reason))
        json_array_append_new(r->done, json_string(id));
    else
        json_array_append_new(r->refused,
                              json_pack("{s:s, s:s}", "id", id, "why", reason));
}

enum { EVENT_LETTERS_MAX = 1000 };

/* All dead letters of an event. Their ids are read first: the walk must have ended
 * before one of them is moved. */
static void retry_event(struct retrying *r, const char *event_id)
{
    json_t *ids = json_array(), *id;
    struct letter l = {0};
    size_t i;

    store_event(&r->d->store, event_id);
    while (store_event_next(&r->d->store, &l)) {
        if (l.state == LETTER_DEAD && json_array_size(ids) < EVENT_LETTERS_MAX)
            json_array_append_new(ids, json_string(l.id));
        letter_fini(&l);
    }
    json_array_foreach(ids, i, id) retry_one(r, json_string_value(id));
    if (!json_array_size(ids))
        json_array_append_new(
            r->refused, json_pack("{s:s, s:s}", "id", event_id, "why",
                                  "no dead letter of this event waits for a "
                                  "decision"));
    json_decref(ids);
}

static json_t *ask_retry(void *self, json_t *args, char why[200])
{
    json_t *ids = json_object_get(args, "ids"), *id;
    struct retrying r = {
        .d = self,
        .to = json_string_value(json_object_get(args, "to")),
        .who = json_string_value(json_object_get(args, "who"))};
    size_t i;

    if (json_array_size(ids) < 1 || json_array_size(ids) > RETRY_MOST) {
        snprintf(why, 200, "\"ids\" must be a list of 1 to %d letters",
                 RETRY_MOST);
        return NULL;
    }
    json_array_foreach(ids, i, id) if (!json_is_string(id))
    {
        snprintf(why, 200, "\"ids\" must be a list of texts");
        return NULL;
    }
    r.done = json_array();
    r.refused = json_array();
    json_array_foreach(ids, i, id)
    {
        const char *text = json_string_value(id);

        if (strncmp(text, "evt_", 4) == 0)
            retry_event(&r, text);
        else
            retry_one(&r, text);
    }
    return json_pack("{s:o, s:o}", "requeued", r.done, "refused", r.refused);
}

/* ---- dlq_resolve, dlq_discard ---- */

bool list_note_good(const char *note, char why[200])
{
    bool good = note && *note && strlen(note) <= NOTE_MAX_BYTES;

    if (!good)
        snprintf(why, 200, "\"note\" must have 1 to %d bytes", NOTE_MAX_BYTES);
    return good;
}

static json_t *ask_decide(void *self, json_t *args, int state, char why[200])
{
    struct dlqd *d = self;
    const char *who = json_string_value(json_object_get(args, "who")), *note;
    struct letter before, l;
    json_t *out = NULL;

    if (!arg_text(json_object_get(args, "note"), "note", &note, why) ||
        !list_note_good(note, why) || !find_arg(d, args, &before, why))
        return NULL;
    if (decide_letter(d, before.id, state, note, who, why) &&
        store_find(&d->store, wire_text(before.id), &l)) {
        out = letter_json(&l);
        letter_fini(&l);
    }
    letter_fini(&before);
    return out;
}

static json_t *ask_resolve(void *self, json_t *args, char why[200])
{
    return ask_decide(self, args, LETTER_RESOLVED, why);
}

static json_t *ask_discard(void *self, json_t *args, char why[200])
{
    return ask_decide(self, args, LETTER_DISCARDED, why);
}

/* ---- trace ---- */

static void add_timeline(struct dlqd *d, const struct letter *l, json_t *out)
{
    struct history_row row;

    store_history(&d->store, l->n);
    while (store_history_next(&d->store, &row)) {
        char *what = gr_printf("letter %s (%s) %s: %s", l->id,
                               l->endpoint ? l->endpoint : "not routed", row.to,
                               row.what);

        json_array_append_new(out, json_pack("{s:o, s:s, s:o}", "at",
                                             json_time(row.at_ms), "process",
                                             d->daemon.name, "what",
                                             json_text_of(what)));
        free(what);
    }
}

static json_t *ask_trace(void *self, json_t *args, char why[200])
{
    struct dlqd *d = self;
    struct letter l;
    const char *id;
    json_t *out;

    if (!arg_text(json_object_get(args, "id"), "id", &id, why))
        return NULL;
    out = json_array();
    store_event(&d->store, id);
    while (store_event_next(&d->store, &l)) {
        add_timeline(d, &l, out);
        letter_fini(&l);
    }
    return json_pack("{s:o}", "timeline", out);
}

const struct control_command dlqd_commands[] = {
    {"dlq",
     "state endpoint workspace type reason source since_ms until_ms limit "
     "before",
     "letters, newest first: {\"letters\":[…],\"next\":…}; go on with "
     "\"before\": next until that is null",
     ask_list},
    {"dlq_show", "id", "one letter with headers, body and history", ask_show},
    {"dlq_retry", "ids to who",
     "dead letters back to the sequencer: "
     "{\"requeued\":[id…],\"refused\":[{\"id\",\"why\"}]}",
     ask_retry},
    {"dlq_retry_all",
     "endpoint workspace type reason source since_ms until_ms limit after to "
     "who",
     "the oldest of these dead letters back to the sequencer: "
     "{\"requeued\":[id…],\"refused\":[{\"id\",\"why\"}],\"next\":…}; go on "
     "with "
     "\"after\": next until that "
     "is "
     "null",
     bulk_retry},
    {"dlq_resolve_all",
     "endpoint workspace type reason source since_ms until_ms limit after note "
     "who",
     "the oldest of these dead letters are dealt with: {\"resolved\":[id…],"
     "\"refused\":[],\"next\":…}; go on with \"after\": next until that is "
     "null",
     bulk_resolve},
    {"dlq_discard_all",
     "endpoint workspace type reason source since_ms until_ms limit after note "
     "who",
     "the oldest of these dead letters are not wanted: {\"discarded\":[id…],"
     "\"refused\":[],\"next\":…}; go on with \"after\": next until that is "
     "null",
     bulk_discard},
    {"dlq_count",
     "endpoint workspace type reason source since_ms until_ms limit after to "
     "note who",
     "how many that would be: {\"count\",\"next\"}; page by page as well",
     bulk_count},
    {"dlq_stats", "",
     "letters by state, the dead ones by endpoint, reason and fault",
     bulk_stats},
    {"dlq_resolve", "id note who", "a dead letter was dealt with: the letter",
     ask_resolve},
    {"dlq_discard", "id note who", "a dead letter is not wanted: the letter",
     ask_discard},
    {"dlq_deaths", "after since_ms limit",
     "letters that died, each time, in that order: go on with \"after\": next",
     deaths_ask},
    {"trace", "id", "what happened here to an event", ask_trace},
    {0}};
