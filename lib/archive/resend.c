/* resend: lists archived events, and sends them again. */
#include "resend.h"
#include "archive.h"
#include "clock.h"
#include "json_text.h"
#include "log.h"
#include <string.h>

/* What one control request may cost. */
enum {
    PAGE_MAX = 500,
    LOOK_MAX = 5000, /* rows read, about 10 ms */
};

/* Rows are in the order of their numbers, and times ascend with them except for
 * steps of the clock and requests that arrived slowly. */
#define OUT_OF_ORDER_MS REPLAY_OUT_OF_ORDER_MS

/* Larger numbers in a control request are cut to this, so that sums do not overflow. */
#define NUMBER_MAX (INT64_MAX / 4)

static int64_t number(json_t *args, const char *key, int64_t otherwise)
{
    json_t *v = json_object_get(args, key);
    int64_t n = json_is_integer(v) ? json_integer_value(v) : otherwise;

    return n > NUMBER_MAX ? NUMBER_MAX : n < -1 ? -1 : n;
}

int64_t replay_row_before(struct archive *a, int64_t ms)
{
    int64_t lo = a->space.first_n - 1, hi = a->space.last_n, n, received_ms;

    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;

        if (archive_from(&a->store.replays, mid + 1, &n, &received_ms) &&
            received_ms < ms - OUT_OF_ORDER_MS)
            lo = n;
        else
            hi = mid;
    }
    return lo;
}

/* ---- list ---- */

struct replay_page {
    int64_t since_ms, until_ms, limit;
    const char *source;
    json_t *events;
    int64_t last_n;
    int looked;
    bool end; /* all rows of that time are read */
};

static bool on_entry(void *arg, const struct archive_entry *e)
{
    struct replay_page *p = arg;

    p->looked++;
    if (e->received_ms >= p->until_ms + OUT_OF_ORDER_MS) {
        p->end = true;
        return false;
    }
    p->last_n = e->n;
    if (e->received_ms >= p->since_ms && e->received_ms < p->until_ms &&
        (!p->source || strcmp(p->source, e->source) == 0))
        json_array_append_new(p->events,
                              json_pack("[s,I,s,o]", e->event_id,
                                        (json_int_t)e->received_ms, e->source,
                                        json_time(e->received_ms)));
    return (int64_t)json_array_size(p->events) < p->limit &&
           p->looked < LOOK_MAX;
}

json_t *replay_archive(void *self, json_t *args, char why[200])
{
    struct archive *a = self;
    struct replay_page p = {
        .since_ms = number(args, "since_ms", 0),
        .until_ms = number(args, "until_ms", a->daemon->loop.now_ms),
        .limit = number(args, "limit", PAGE_MAX),
        .source = json_string_value(json_object_get(args, "source")),
    };
    int64_t after = number(args, "after", -1), n, ms;
    bool more;

    if (p.until_ms < p.since_ms) {
        control_fail(why, CONTROL_INVALID,
                     "until_ms must not be before since_ms");
        return NULL;
    }
    if (after < 0 && json_is_true(json_object_get(args, "waiting")))
        after = (int64_t)links_cursor(a->daemon->links, SEQUENCER);
    else if (after < 0)
        after = replay_row_before(a, p.since_ms);
    p.events = json_array();
    p.last_n = after;
    archive_page(&a->store.replays, after, on_entry, &p);
    more = !p.end && archive_from(&a->store.replays, p.last_n + 1, &n, &ms);
    return json_pack("{s:o,s:o}", "events", p.events, "next",
                     more ? json_integer(p.last_n) : json_null());
}

/* ---- send again ---- */

struct replay_sending {
    const char *endpoint, *who;
    bool fresh;  /* as new events */
    bool always; /* to that endpoint, even if it is not subscribed */
    json_t *resent, *missing;
};

void replay_put(struct archive *a, struct replay_row *row)
{
    row->n = (int64_t)links_next(a->daemon->links, SEQUENCER);
    row->at_ms = a->daemon->loop.now_ms;
    archive_replay_add(&a->store.replays, row);
    links_put(a->daemon->links, SEQUENCER, KIND_ARCHIVED, row->n);
    a->replayed++;
}

static void add(struct archive *a, const struct replay_sending *s,
                int64_t archived, const char *event_id,
                char new_id[EVENT_ID_BYTES + 1])
{
    struct replay_row row = {
        .archived = archived,
        .action_id = random_id(),
        .event_id = event_id,
        .new_id = new_id,
        .endpoint = s->endpoint ? s->endpoint : "",
        .who = s->who ? s->who : "an operator",
        .always = s->always,
    };

    new_id[0] = 0;
    if (s->fresh) {
        memcpy(new_id, "evt_", 4);
        ulid_next(&a->ids, a->daemon->loop.now_ms, new_id + 4);
    }
    replay_put(a, &row);
}

/* `request`: NULL, or the event's request, which has several. */
static void send_one(struct archive *a, const struct replay_sending *s,
                     const char *id, const char *request)
{
    char new_id[EVENT_ID_BYTES + 1];
    int64_t archived = archive_number(&a->store, request ? request : id);

    if (!archived) {
        json_array_append_new(s->missing, json_string(id));
        return;
    }
    add(a, s, archived, id, new_id);
    json_array_append_new(
        s->resent, json_pack("{s:s,s:o}", "id", id, "new_id",
                             *new_id ? json_string(new_id) : json_null()));
}

/* The declaration bounds characters; these are bounds in bytes. */
static bool are_ids(json_t *events, const char *event, char why[200])
{
    json_t *one;
    size_t i;

    json_array_foreach(events, i, one)
    {
        if (json_string_length(json_object_get(one, "id")) != EVENT_ID_BYTES) {
            control_fail(why, CONTROL_INVALID,
                         "args.events[%zu].id: write evt_ and 26 characters",
                         i);
            return false;
        }
    }
    if (event && strlen(event) != EVENT_ID_BYTES) {
        control_fail(why, CONTROL_INVALID,
                     "args.event: write evt_ and 26 characters");
        return false;
    }
    return true;
}

json_t *replay_resend(void *self, json_t *args, char why[200])
{
    struct archive *a = self;
    json_t *events = json_object_get(args, "events"), *one;
    const char *event = json_string_value(json_object_get(args, "event"));
    struct replay_sending s = {
        .endpoint = json_string_value(json_object_get(args, "endpoint")),
        .who = json_string_value(json_object_get(args, "who")),
        .fresh = json_is_true(json_object_get(args, "new_id")),
        .always = json_is_true(json_object_get(args, "always")),
    };
    size_t i;

    if (!events == !event) {
        control_fail(why, CONTROL_INVALID,
                     "write either args.events or args.event");
        return NULL;
    }
    if (!are_ids(events, event, why))
        return NULL;
    if (s.endpoint && strlen(s.endpoint) > NAME_MAX_BYTES) {
        control_fail(why, CONTROL_INVALID,
                     "args.endpoint: at most %d bytes are allowed",
                     NAME_MAX_BYTES);
        return NULL;
    }
    if (a->space.refusal) {
        control_fail(why, CONTROL_DISK_FULL,
                     "%s stores no events now (%s): free disk space, or raise "
                     "ingress.archive.max_size, then send again",
                     a->daemon->plan->process,
                     archive_refusal_name(a->space.refusal));
        return NULL;
    }
    s.resent = json_array();
    s.missing = json_array();
    json_array_foreach(events, i, one)
        send_one(a, &s, json_string_value(json_object_get(one, "id")),
                 json_string_value(json_object_get(one, "request")));
    if (event)
        send_one(a, &s, event, NULL);
    log_info(NULL, "an operator sends archived events again",
             LI("events", json_array_size(s.resent)),
             LS("endpoint", s.endpoint),
             LI("missing", json_array_size(s.missing)));
    return json_pack("{s:o,s:o}", "resent", s.resent, "missing", s.missing);
}

/* ---- trace ---- */

struct replay_lines {
    struct archive *a;
    const char *id;
    json_t *timeline;
    bool any;
};

static void on_replay(void *arg, const struct replay_row *r)
{
    struct replay_lines *t = arg;
    char *what;

    if (strcmp(r->new_id, t->id) == 0)
        what = gr_printf("made of %s by %s (replay --new-id)", r->event_id,
                         r->who);
    else if (*r->new_id)
        what = gr_printf("sent again as %s by %s", r->new_id, r->who);
    else
        what = gr_printf("sent again by %s to %s", r->who,
                         *r->endpoint ? r->endpoint : "all endpoints");
    json_array_append_new(t->timeline,
                          json_pack("{s:o,s:s,s:o}", "at", json_time(r->at_ms),
                                    "process", t->a->daemon->name, "what",
                                    json_text_of(what)));
    free(what);
    t->any = true;
}

bool replay_timeline(struct archive *a, const char *event_id, json_t *timeline)
{
    struct replay_lines t = {.a = a, .id = event_id, .timeline = timeline};

    archive_replays_of(&a->store.replays, event_id, on_replay, &t);
    return t.any;
}
