/* show_order: the control commands about order: gaps, workspaces, duplicates. */
#include "show_order.h"
#include "clock.h"
#include "event_intake.h"
#include "glob.h"
#include "json_text.h"
#include "provider_ids.h"
#include "search.h"
#include "sha256.h"
#include "store.h"
#include "store_order.h"
#include "store_search.h"
#include "streams.h"
#include "watermarks.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LIMIT_USUAL = 100,
    LOOK_MAX = 5000,  /* gaps looked at, some 10 ms */
    LISTED_MAX = 64,  /* events that one request of `listed` looks for … */
    LISTED_US = 3000, /* … and how long for those after the first one */
    PAGE_MAX_BYTES = 512 * 1024,
};

static int limit_of(json_t *args)
{
    json_int_t limit = json_integer_value(json_object_get(args, "limit"));

    return limit ? (int)limit : LIMIT_USUAL;
}

static const char *text_of(json_t *args, const char *name)
{
    return json_string_value(json_object_get(args, name));
}

static const char *who_of(json_t *args)
{
    const char *who = text_of(args, "who");

    return who && *who ? who : "an operator";
}

/* ---- a suppressed duplicate ---- */

json_t *show_release(void *self, json_t *args, char why[200])
{
    const char *id = text_of(args, "event");

    if (intake_release(self, id, who_of(args), why) != GR_OK)
        return NULL;
    return json_pack("{s:s,s:s}", "id", id, "status", "released");
}

/* ---- gaps ---- */

struct listing {
    struct sequencer *q;
    const char *source, *workspace;
    int64_t since_ms, until_ms, limit, last;
    int looked;
    bool more;
    json_t *list;
};

static json_t *gap_json(struct sequencer *q, const struct gap_row *g)
{
    static const char *const names[] = {[GAP_OPEN] = "open",
                                        [GAP_FILLED] = "filled",
                                        [GAP_SKIPPED] = "skipped",
                                        [GAP_CLOSED] = "closed",
                                        [GAP_RECONCILED] = "reconciled"};
    const char *missing = watermarks_silent_ingress(q->watermarks);
    const char *status = g->status >= 0 && g->status < (int)COUNT_OF(names)
                             ? names[g->status]
                             : "?";
    json_t *j = json_pack(
        "{s:o,s:o,s:o,s:o,s:I,s:I,s:s,s:o,s:o,s:o}", "id",
        json_sprintf("gap_%lld", (long long)g->id), "source",
        json_text_of(g->source), "workspace", json_text_of(g->workspace),
        "type", json_text_or_null(g->type), "from", (json_int_t)g->span.first,
        "to", (json_int_t)g->span.last, "status", status, "opened_at",
        json_time(g->opened_ms), "closed_at", json_time(g->closed_ms), "note",
        json_text_or_null(g->note));

    if (g->status == GAP_OPEN)
        json_object_set_new(j, "waits_for",
                            missing ? json_string(missing) : json_null());
    return j;
}

static bool takes(const char *glob, const char *text)
{
    return !glob || glob_match(glob, text);
}

static bool on_gap(void *arg, const struct gap_row *g)
{
    struct listing *l = arg;

    l->last = g->id;
    if (takes(l->source, g->source) && takes(l->workspace, g->workspace) &&
        g->opened_ms >= l->since_ms && g->opened_ms < l->until_ms)
        json_array_append_new(l->list, gap_json(l->q, g));
    l->more = ++l->looked >= LOOK_MAX ||
              (int64_t)json_array_size(l->list) >= l->limit;
    return !l->more;
}

json_t *show_gaps(void *self, json_t *args, char why[200])
{
    json_int_t until = json_integer_value(json_object_get(args, "until_ms"));
    struct listing l = {
        .q = self,
        .source = text_of(args, "source"),
        .workspace = text_of(args, "workspace"),
        .since_ms = json_integer_value(json_object_get(args, "since_ms")),
        .until_ms = until ? until : INT64_MAX,
        .limit = limit_of(args)};
    const char *before = text_of(args, "before");
    char *end = NULL;
    int64_t below = before ? strtoll(before, &end, 10) : INT64_MAX;

    if (before && (end == before || *end)) {
        control_fail(why, CONTROL_INVALID,
                     "\"before\" must be the \"next\" of a reply");
        return NULL;
    }
    l.list = json_array();
    store_gaps(l.q->order, json_is_true(json_object_get(args, "open")), below,
               on_gap, &l);
    return json_pack("{s:o,s:o}", "gaps", l.list, "next",
                     l.more ? json_sprintf("%lld", (long long)l.last)
                            : json_null());
}

static const char *text_at(const json_t *list, size_t i)
{
    return json_string_value(json_array_get(list, i));
}

/* 1: it has arrived, 0: it has not, -1: that is not known yet. */
static int has_arrived(struct sequencer *q, const char *source,
                       const char *own_id, const char *provider_id)
{
    int64_t event;

    if (store_event_n(q->store, wire_text(own_id)))
        return 1;
    return provider_ids_find(q->provider_ids, source, provider_id, INT64_MAX, 1,
                             &event);
}

json_t *show_listed(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const json_t *own_ids = json_object_get(args, "own_ids"),
                 *provider_ids = json_object_get(args, "provider_ids");
    json_t *missing = json_array();
    int64_t began_us = thread_us();
    size_t i = 0;
    int arrived = 0;

    if (json_array_size(own_ids) != json_array_size(provider_ids)) {
        control_fail(why, CONTROL_INVALID,
                     "args.own_ids and args.provider_ids must have the same "
                     "number of items");
        json_decref(missing);
        return NULL;
    }
    do {
        arrived = has_arrived(q, text_of(args, "source"), text_at(own_ids, i),
                              text_at(provider_ids, i));
        json_array_append_new(missing, json_boolean(!arrived));
    } while (arrived >= 0 && ++i < json_array_size(own_ids) && i < LISTED_MAX &&
             thread_us() - began_us < LISTED_US);
    if (arrived < 0) {
        json_decref(missing);
        return events_unread(q, why);
    }
    return json_pack("{s:o,s:I,s:I,s:I}", "missing", missing, "clock",
                     (json_int_t)watermarks_want(q->watermarks), "arrived",
                     (json_int_t)watermarks_arrived(q->watermarks), "purged_ms",
                     (json_int_t)store_purged_ms(q->store));
}

/* "gap_12" or "12"; 0: it is not an id. */
static int64_t gap_id(const char *text)
{
    char *end;
    long long id;

    if (strncmp(text, "gap_", 4) == 0)
        text += 4;
    id = strtoll(text, &end, 10);
    return *end || end == text || id < 1 ? 0 : id;
}

json_t *show_close_gap(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *text = text_of(args, "id"), *note = text_of(args, "note");
    int64_t id = gap_id(text);
    char name[24];

    if (!id)
        control_fail(why, CONTROL_NOT_FOUND,
                     "\"%.40s\" is not the id of a gap (see grapnel gaps)",
                     text);
    else if (streams_close_gap(q->streams, id, note, why) == GR_OK) {
        snprintf(name, sizeof name, "%" PRId64, id);
        store_action_note(q->search, q->d.loop.now_ms, "gap", name,
                          "closed by %s: %s", who_of(args), note);
        return json_pack("{s:o,s:s}", "id",
                         json_sprintf("gap_%lld", (long long)id), "status",
                         "closed");
    }
    return NULL;
}

/* ---- workspaces ---- */

struct workspace_page {
    struct sequencer *q;
    json_t *list;
    int64_t limit;
    size_t bytes, looked;
    struct buf last; /* the name of the last workspace, in hexadecimal digits */
    bool more;
};

/* "a=1,b=2" as an object. */
static json_t *clock_json(const char *clock)
{
    json_t *out = json_object();

    while (*clock) {
        size_t n = strcspn(clock, ","), eq = strcspn(clock, "=");

        if (eq < n)
            json_object_setn_new(
                out, clock, eq,
                json_integer(strtoll(clock + eq + 1, NULL, 10)));
        clock += n + (clock[n] == ',');
    }
    return out;
}

static bool on_workspace(void *arg, const char *name, int64_t sequence,
                         const char *clock)
{
    struct workspace_page *p = arg;
    int64_t gaps;

    p->more = (int64_t)json_array_size(p->list) >= p->limit ||
              p->bytes >= PAGE_MAX_BYTES || p->looked >= LOOK_MAX;
    if (p->more)
        return false;
    gaps = store_gap_count(p->q->order, name);
    p->bytes += strlen(name) + strlen(clock);
    p->looked += (size_t)gaps;
    p->last.len = 0;
    hex_put(name, strlen(name), &p->last);
    json_array_append_new(
        p->list,
        json_pack("{s:o,s:I,s:o,s:I,s:I}", "workspace", json_text_of(name),
                  "sequence", (json_int_t)sequence, "clock", clock_json(clock),
                  "open_gaps", (json_int_t)gaps, "buffered",
                  (json_int_t)store_buffered_count(p->q->order, name)));
    return true;
}

json_t *show_workspace(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *name = text_of(args, "workspace");
    struct workspace_page p = {.q = q, .list = json_array(), .limit = 1};
    json_t *out = NULL;

    buf_init(&p.last, 2 * TEXT_MAX_BYTES);
    /* If all its events are buffered, it has no row yet. */
    if (store_workspace_row(q->order, name, on_workspace, &p) ||
        (store_buffered_count(q->order, name) &&
         on_workspace(&p, name, 0, ""))) {
        out = json_incref(json_array_get(p.list, 0));
    } else {
        control_fail(why, CONTROL_NOT_FOUND, "there is no workspace %.100s",
                     name);
    }
    json_decref(p.list);
    buf_fini(&p.last);
    return out;
}

/* A name may not be UTF-8, so `next` has it in hexadecimal digits. NULL: it has not. The
 * caller frees the name. */
static char *read_after(const char *hex)
{
    size_t n = hex ? strlen(hex) : 0;
    char *name = gr_alloc(n / 2 + 1);
    unsigned byte;

    if (n % 2 || strspn(hex ? hex : "", "0123456789abcdef") != n) {
        free(name);
        return NULL;
    }
    for (size_t i = 0; i < n; i += 2)
        if (sscanf(hex + i, "%2x", &byte) == 1)
            name[i / 2] = (char)byte;
    return name;
}

json_t *show_workspaces(void *self, json_t *args, char why[200])
{
    struct workspace_page p = {.q = self, .limit = limit_of(args)};
    char *after = read_after(text_of(args, "after"));
    json_t *out;

    if (!after) {
        control_fail(why, CONTROL_INVALID,
                     "\"after\" must be the \"next\" of a reply");
        return NULL;
    }
    p.list = json_array();
    buf_init(&p.last, 2 * TEXT_MAX_BYTES);
    store_workspace_list(p.q->order, after, on_workspace, &p);
    out = json_pack("{s:o,s:o}", "workspaces", p.list, "next",
                    p.more ? json_stringn(p.last.data, p.last.len)
                           : json_null());
    buf_fini(&p.last);
    free(after);
    return out;
}
