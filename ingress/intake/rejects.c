/* rejects: collects refused requests in memory, writes them, deletes old ones, and shows them. */
#include "rejects.h"
#include "clock.h"
#include "headers.h"
#include "ingress.h"
#include "json_text.h"
#include "mask.h"
#include "profile.h"
#include "show_request.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WRITE_MS = 1000,
    WRITE_COUNT = 256, /* of one turn */
    PATH_KEPT_BYTES = 200,
    HEADERS_KEPT_BYTES = 2048,
    SHOW_DEFAULT = 100,
    BODIES_KEPT_BYTES = 64 * 1024 * 1024,
    BODIES_WAITING_BYTES = 4 * 1024 *
                           1024, /* so that a second does not write more */
    PURGE_COUNT = 64,            /* of one turn */
};

#define BODIES_KEPT_MS DAY_MS

struct reject {
    STAILQ_ENTRY(reject) link;
    int64_t at_ms, body_bytes;
    enum response response;
    char remote[INET6_ADDRSTRLEN], method[16], path[PATH_KEPT_BYTES + 1];
    char id[REJECT_ID_BYTES + 1];
    char *delivery_id; /* the provider's id of this delivery; NULL: unknown */
    struct buf headers, body; /* `body` is empty if it is not kept */
    struct buf head; /* the whole head with its signature; empty: not kept */
};

struct rejects_of {
    SLIST_ENTRY(rejects_of) link;
    char source[NAME_MAX_BYTES + 1];
    int64_t last_n; /* of the last row written; -1: read it from the table */
    STAILQ_HEAD(, reject) waiting;
    size_t count;
    int64_t kept_bytes; /* of its bodies in the table */
    struct series *counts[RESPONSE_COUNT];
};

static struct rejects_of *of(struct rejects *j, const char *source)
{
    struct rejects_of *s;

    SLIST_FOREACH(s, &j->sources, link)
    if (strcmp(s->source, source) == 0)
        return s;
    s = gr_alloc(sizeof *s);
    snprintf(s->source, sizeof s->source, "%s", source);
    s->last_n = -1;
    STAILQ_INIT(&s->waiting);
    SLIST_INSERT_HEAD(&j->sources, s, link);
    return s;
}

static void drop_first(struct rejects *j, struct rejects_of *s)
{
    struct reject *e = STAILQ_FIRST(&s->waiting);

    STAILQ_REMOVE_HEAD(&s->waiting, link);
    s->count--;
    j->waiting_bytes -= (int64_t)(e->body.len + e->head.len);
    buf_fini(&e->headers);
    buf_fini(&e->body);
    buf_fini(&e->head);
    free(e->delivery_id);
    free(e);
}

/* ---- note ---- */

/* Keep the first two kilobytes of headers: whole headers only, and masked as they are shown,
 * since the reason of the refusal is known without the secrets. */
static void keep_headers(struct reject *e, const struct mask *m,
                         const struct request *r)
{
    struct bytes all = request_head(r);
    struct bytes name, value;
    size_t at = 0;
    struct buf shown;
    bool fits = true;

    buf_init(&shown, 8 * HEADERS_KEPT_BYTES);
    buf_init(&e->headers, HEADERS_KEPT_BYTES);
    while (fits && headers_next(all, &at, &name, &value) &&
           e->headers.len + name.n + value.n + 8 <= HEADERS_KEPT_BYTES) {
        char *text = gr_strndup(name.p, name.n);

        buf_reset(&shown);
        mask_value(m, name, value, &shown);
        /* A masked value may be longer than the original. */
        fits = e->headers.len + name.n + shown.len + 8 <= HEADERS_KEPT_BYTES;
        if (fits)
            headers_put(&e->headers, text,
                        (struct bytes){shown.data, shown.len});
        free(text);
    }
    buf_fini(&shown);
}

/* Mask the path, too: a token may have been sent to a wrong URL, in its path. */
static void keep_head(struct reject *e, struct ingress *g,
                      const struct request *r)
{
    const struct settings *s = g->daemon.settings;
    const struct mask m = {.source = settings_source(s, r->source),
                           .settings = s,
                           .for_display = true};
    struct buf path;

    buf_init(&path, HEAD_MAX_BYTES);
    mask_text(&m, wire_text(r->path), &path);
    wire_copy(e->path, sizeof e->path,
              (struct bytes){path.data ? path.data : "", path.len});
    buf_fini(&path);
    keep_headers(e, &m, r);
}

static bool in_header(const struct expr *e)
{
    for (; e && e->kind == EXPR_HEADER; e = e->other)
        ;
    return !e;
}

/* Find the delivery id if it is in a header: the body of a refused request is not read. */
static bool put_delivery_id(struct reject *e, const struct source *source,
                            struct bytes headers)
{
    struct subject subject = {.headers = headers};
    struct buf id;

    if (source->delivery_id.kind == EXPR_NONE ||
        !in_header(&source->delivery_id))
        return false;
    buf_init(&id, TEXT_MAX_BYTES);
    profile_delivery_id(source, &subject, &id);
    e->delivery_id = id.len ? gr_strdup(id.data) : NULL;
    buf_fini(&id);
    return e->delivery_id;
}

/* For an unknown source, as when the URL at the provider is misspelt, try the headers of every
 * provider. */
static void find_delivery_id(struct reject *e, struct ingress *g,
                             const struct request *r)
{
    struct bytes headers = request_head(r);
    const struct source *source = settings_source(g->daemon.settings,
                                                  r->source);
    const char *profile;

    if (source)
        put_delivery_id(e, source, headers);
    for (size_t i = 0; !*r->source && (profile = profile_name(i)); i++)
        if (put_delivery_id(e, profile_source(profile_find(profile)), headers))
            return;
}

static void count(struct rejects_of *s, struct ingress *g, enum response a)
{
    if (!s->counts[a])
        s->counts[a] = METRIC_SERIES(g->daemon.metrics, FAMILY_REJECTED,
                                     s->source, response_facts(a)->reason);
    series_add(s->counts[a], 1);
}

/* What the verdict was made of, so that `rejects explain` can find the mistake: the head with the
 * signature, without shared tokens, as the archive keeps it; and the clock that judged the
 * time, as `:judged_at`. */
static void keep_signed(struct rejects *j, struct reject *e, struct ingress *g,
                        const struct request *r)
{
    const struct settings *s = g->daemon.settings;
    const struct mask m = {.source = settings_source(s, r->source),
                           .settings = s};
    char at[32];

    buf_init(&e->head, HEADERS_MAX_BYTES);
    snprintf(at, sizeof at, "%lld", (long long)system_ms());
    headers_put(&e->head, JUDGED_AT, wire_text(at));
    mask_head(&m, request_head(r), &e->head);
    if (e->head.failed)
        buf_reset(&e->head);
    j->waiting_bytes += (int64_t)e->head.len;
}

void rejects_note(struct rejects *j, struct ingress *g, const struct request *r,
                  enum response a)
{
    struct rejects_of *s = of(j, r->source);
    struct reject *e = gr_alloc(sizeof *e);

    count(s, g, a);
    if (a == RESPONSE_WORKSPACE_ERASED) { /* nothing of it is kept */
        free(e);
        return;
    }
    e->at_ms = now_ms(); /* the turn may have begun long ago */
    e->response = a;
    e->body_bytes = (int64_t)r->body.len;
    memcpy(e->remote, r->remote, sizeof e->remote);
    snprintf(e->method, sizeof e->method, "%s", r->method ? r->method : "");
    memcpy(e->id, "rej_", 4);
    ulid_next(&g->archive.ids, e->at_ms, e->id + 4);
    keep_head(e, g, r);
    find_delivery_id(e, g, r);
    /* The complete body of a request that was refused for what the client did. A request that
     * ingress failed to store, the client sends again. */
    if (r->received_ms && r->body.len && response_facts(a)->status < 500 &&
        j->waiting_bytes + (int64_t)r->body.len <= BODIES_WAITING_BYTES) {
        buf_init(&e->body, r->body.len);
        buf_put(&e->body, r->body.data, r->body.len);
        j->waiting_bytes += (int64_t)e->body.len;
    }
    if (r->received_ms && r->kind == REQUEST_HOOK &&
        response_facts(a)->status == 401 && e->body.len == r->body.len &&
        j->waiting_bytes + (int64_t)r->headers.len <= BODIES_WAITING_BYTES)
        keep_signed(j, e, g, r);
    STAILQ_INSERT_TAIL(&s->waiting, e, link);
    if (++s->count > REJECTS_KEPT)
        drop_first(j, s);
    if (!j->since_ms)
        j->since_ms = g->daemon.loop.mono_ms;
}

/* ---- write ---- */

/* Borrows from both. */
static struct reject_row row_of(const struct rejects_of *s,
                                const struct reject *e)
{
    return (struct reject_row){
        .source = s->source,
        .at_ms = e->at_ms,
        .status = response_facts(e->response)->status,
        .reason = response_facts(e->response)->reason,
        .remote = e->remote,
        .method = e->method,
        .path = e->path,
        .body_bytes = e->body_bytes,
        .headers = {e->headers.data ? e->headers.data : "", e->headers.len},
        .id = e->id,
        .has_body = e->body.len > 0,
        .delivery_id = e->delivery_id ? e->delivery_id : "",
    };
}

/* ---- kept bodies ---- */

static void count_kept(void *arg, const char *source, int64_t bytes)
{
    struct rejects *j = arg;

    of(j, source)->kept_bytes += bytes;
    j->kept_bytes += bytes;
}

static void count_gone(void *arg, const char *source, int64_t bytes)
{
    count_kept(arg, source, -bytes);
}

static void count_bodies(struct rejects *j)
{
    struct rejects_of *s;

    if (j->counted)
        return;
    j->kept_bytes = 0;
    SLIST_FOREACH(s, &j->sources, link)
    s->kept_bytes = 0;
    store_reject_bodies(&j->store, count_kept, j);
    j->counted = true;
}

/* Make space for so many bytes: the source that has most loses its oldest bodies. */
static void make_space(struct rejects *j, int64_t bytes)
{
    while (j->kept_bytes + bytes > BODIES_KEPT_BYTES) {
        struct rejects_of *max = SLIST_FIRST(&j->sources), *s;

        SLIST_FOREACH(s, &j->sources, link)
        if (s->kept_bytes > max->kept_bytes)
            max = s;
        if (!max || !store_reject_body_drop_first(&j->store, max->source,
                                                  count_gone, j))
            return;
    }
}

/* Delete old bodies, once a minute. Returns ms until it must be called again, -1: not needed. */
static int purge(struct rejects *j, struct ingress *g)
{
    const struct retention *r = &g->daemon.retention;
    int64_t now = g->daemon.loop.now_ms, mono = g->daemon.loop.mono_ms;
    int n = 0;

    count_bodies(j);
    if (!j->kept_bytes)
        return -1;
    if (j->purged_ms && mono - j->purged_ms < MINUTE_MS)
        return (int)(j->purged_ms + MINUTE_MS - mono);
    while (n < PURGE_COUNT &&
           store_reject_body_drop_old(
               &j->store, retention_before(r, now, BODIES_KEPT_MS),
               retention_after(r, now, BODIES_KEPT_MS), count_gone, j))
        n++;
    if (n == PURGE_COUNT)
        return 0;
    j->purged_ms = mono;
    return MINUTE_MS;
}

static void write_first(struct rejects *j, struct rejects_of *s)
{
    const struct reject *e = STAILQ_FIRST(&s->waiting);
    struct reject_row row = row_of(s, e);
    struct bytes body = {e->body.data ? e->body.data : "", e->body.len};
    struct bytes head = {e->head.data ? e->head.data : "", e->head.len};

    if (s->last_n < 0)
        s->last_n = store_reject_last(&j->store, s->source);
    row.n = ++s->last_n;
    store_reject_body_replaced(&j->store, s->source, row.n, count_gone, j);
    store_reject(&j->store, &row);
    if (body.n + head.n) {
        make_space(j, (int64_t)(body.n + head.n));
        store_reject_body_add(&j->store, e->id, s->source, e->at_ms, body,
                              head);
        count_kept(j, s->source, (int64_t)(body.n + head.n));
    }
    drop_first(j, s);
}

void rejects_erase(struct rejects *j, const char *id)
{
    count_bodies(j);
    store_reject_erase(&j->store, id, count_gone, j);
}

/* Returns how many it has written; WRITE_COUNT: there may be more. */
static int write_some(struct rejects *j, struct ingress *g)
{
    struct rejects_of *s;
    int n = 0;

    count_bodies(j);
    SLIST_FOREACH(s, &j->sources, link)
    for (; s->count && n < WRITE_COUNT && !db_full(g->daemon.db); n++)
        write_first(j, s);
    return n;
}

int rejects_work(struct rejects *j, struct ingress *g, bool now)
{
    int64_t due_ms = j->since_ms + WRITE_MS - g->daemon.loop.mono_ms;

    if (!j->since_ms)
        return purge(j, g);
    if (g->archive.space.refusal) /* free space is left to events */
        return WRITE_MS;
    if (!now && due_ms > 0)
        return (int)due_ms;
    if (write_some(j, g) == WRITE_COUNT)
        return 0;
    j->since_ms = 0;
    return purge(j, g);
}

void rejects_undo(struct rejects *j)
{
    struct rejects_of *s;

    SLIST_FOREACH(s, &j->sources, link)
    s->last_n = -1;
    j->counted = false;
}

void rejects_fini(struct rejects *j)
{
    struct rejects_of *s;

    while ((s = SLIST_FIRST(&j->sources))) {
        SLIST_REMOVE_HEAD(&j->sources, link);
        while (s->count)
            drop_first(j, s);
        free(s);
    }
}

/* ---- show ---- */

json_t *rejects_json(struct ingress *g, const struct reject_row *row)
{
    return json_pack(
        "{s:o,s:o,s:s,s:s,s:I,s:s,s:o,s:o,s:o,s:I,s:b,s:o,s:s}", "id",
        json_text_or_null(row->id), "at", json_time(row->at_ms), "source",
        row->source, "reason", row->reason, "status", (json_int_t)row->status,
        "remote", row->remote, "delivery_id",
        json_text_or_null(row->delivery_id), "method",
        json_text_of(row->method), "path", json_text_of(row->path),
        "body_bytes", (json_int_t)row->body_bytes, "has_body", row->has_body,
        "headers", mask_json(g->daemon.settings, row->source, row->headers),
        "process", g->daemon.name);
}

void rejects_write_all(struct rejects *j, struct ingress *g)
{
    while (!g->archive.space.refusal && write_some(j, g) == WRITE_COUNT)
        ;
}

struct shown {
    struct ingress *g;
    json_t *list;
    size_t max;
    int64_t since_ms, until_ms; /* 0: no limit */
    const char *source, *id;    /* NULL: any */
};

static bool show(void *arg, const struct reject_row *row)
{
    struct shown *shown = arg;

    if ((shown->source && strcmp(row->source, shown->source) != 0) ||
        (shown->id && strcmp(row->delivery_id, shown->id) != 0))
        return true;
    if ((shown->since_ms && row->at_ms < shown->since_ms) ||
        (shown->until_ms && row->at_ms >= shown->until_ms))
        return true;
    json_array_append_new(shown->list, rejects_json(shown->g, row));
    return json_array_size(shown->list) < shown->max;
}

/* Waiting rows of several sources are not in order of time. */
static int newer_first(const void *left, const void *right)
{
    const struct reject_row *a = left, *b = right;

    return (a->at_ms < b->at_ms) - (a->at_ms > b->at_ms);
}

/* Show the rows that could not be written, as there is no space. false: enough are shown. */
static bool show_waiting(const struct rejects *j, const char *source,
                         struct shown *shown)
{
    struct reject_row *rows = NULL;
    const struct rejects_of *s;
    const struct reject *e;
    size_t count = 0, at;
    bool more = true;

    SLIST_FOREACH(s, &j->sources, link)
    {
        if (!s->count || (source && strcmp(s->source, source) != 0))
            continue;
        rows = gr_realloc(rows, (count + s->count) * sizeof *rows);
        at = count += s->count;
        STAILQ_FOREACH(e, &s->waiting, link)
        rows[--at] = row_of(s, e);
    }
    if (count)
        qsort(rows, count, sizeof *rows, newer_first);
    for (size_t i = 0; i < count && more; i++)
        more = show(shown, &rows[i]);
    free(rows);
    return more;
}

json_t *rejects_show(void *self, json_t *args, char why[200])
{
    struct ingress *g = self;
    const char *source = json_string_value(json_object_get(args, "source"));
    json_int_t limit = json_integer_value(json_object_get(args, "limit"));
    struct shown shown = {
        .g = g,
        .source = source,
        .id = json_string_value(json_object_get(args, "id")),
        .list = json_array(),
        .max = SHOW_DEFAULT,
        .since_ms = json_integer_value(json_object_get(args, "since_ms")),
        .until_ms = json_integer_value(json_object_get(args, "until_ms")),
    };

    (void)why;
    if (source && strcmp(source, "-") == 0) /* "-": of unknown sources */
        shown.source = source = "";
    if (limit)
        shown.max = (size_t)limit;
    rejects_write_all(&g->rejects, g);
    if (!show_waiting(&g->rejects, source, &shown))
        ;
    else if (shown.id)
        store_rejects_by(&g->rejects.store, shown.id, show, &shown);
    else
        store_rejects(&g->rejects.store, source, show, &shown);
    return json_pack("{s:o}", "rejects", shown.list);
}

bool rejects_find(struct rejects *j, struct ingress *g, const char *id,
                  struct reject_row *row, char why[200])
{
    rejects_write_all(j, g);
    if (store_reject_find(&j->store, id, row))
        return true;
    store_reject_done(&j->store);
    control_fail(
        why, CONTROL_NOT_FOUND,
        "no refused request has the id %.40s: the last 1000 of each source "
        "are kept",
        id);
    return false;
}

json_t *show_reject(void *self, json_t *args, char why[200])
{
    struct ingress *g = self;
    const char *id = json_string_value(json_object_get(args, "id"));
    struct reject_row row;
    struct bytes body, head;
    json_t *out;

    if (!rejects_find(&g->rejects, g, id, &row, why))
        return NULL;
    out = rejects_json(g, &row);
    store_reject_done(&g->rejects.store);
    if (store_reject_body(&g->rejects.store, id, &body, &head) && body.n)
        request_put_body(out, body,
                         json_integer_value(json_object_get(args, "offset")));
    store_reject_body_done(&g->rejects.store);
    return out;
}
