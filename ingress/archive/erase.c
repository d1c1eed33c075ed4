/* erase: finds the workspace of requests, as the sequencer does, and empties rows of the archive. */
#include "erase.h"
#include "headers.h"
#include "ingress.h"
#include "profile.h"
#include "published.h"
#include "split.h"
#include <stdlib.h>
#include <string.h>

enum {
    ROWS_PER_STEP = 200,
};

/* Positions from here on are of refused requests, those below of the archive. */
#define REJECTS_FROM (1LL << 60)

/* Tells whether a workspace is one of those that are looked for. */
typedef bool is_erased_fn(const void *arg, const char *workspace);

static bool is_any(const void *arg, const char *workspace)
{
    return erasures_has(arg, (struct bytes){workspace, strlen(workspace)});
}

static bool is_this(const void *arg, const char *workspace)
{
    return erase_is(arg, workspace);
}

static bool event_is(const struct source *source, struct bytes headers,
                     struct bytes body, is_erased_fn *is, const void *arg)
{
    struct subject subject = {.source = source->name,
                              .provider = source->provider,
                              .headers = headers,
                              .body = body};
    const char *why;
    struct buf name;
    bool found;

    buf_init(&name, TEXT_MAX_BYTES);
    found = profile_workspace(source, &subject, &name, &why) == GR_OK &&
            is(arg, name.len ? name.data : "default");
    buf_fini(&name);
    subject_fini(&subject);
    return found;
}

static bool published_is(struct bytes body, is_erased_fn *is, const void *arg)
{
    struct published_wrong wrong;
    struct published p;
    bool found = published_read(&p, body, &wrong) == GR_OK &&
                 is(arg, p.workspace);

    published_fini(&p);
    return found;
}

/* Writes null and blanks over the part. */
static void blank(struct buf *rest, struct bytes body, struct bytes part)
{
    char *at;

    if (!rest->len)
        buf_put(rest, body.p, body.n);
    if (rest->failed)
        return;
    at = rest->data + ((const char *)part.p - (const char *)body.p);
    memset(at, ' ', part.n);
    memcpy(at, part.n >= 4 ? "null" : "0", part.n >= 4 ? 4 : 1);
}

/* As erase_refuses(). */
static bool request_is(struct ingress *g, const char *name,
                       struct bytes headers, struct bytes body,
                       is_erased_fn *is, const void *arg, struct buf *rest)
{
    const struct source *source = settings_source(g->daemon.settings, name);
    struct split parts = {0};
    const char *why;
    size_t found = 0, count;

    if (!source)
        return published_is(body, is, arg);
    if (!source->batch || split_body(body, &parts, &why) != GR_OK ||
        !parts.count) {
        split_fini(&parts);
        return event_is(source, headers, body, is, arg);
    }
    for (size_t i = 0; i < parts.count; i++)
        if (event_is(source, headers, parts.parts[i], is, arg)) {
            blank(rest, body, parts.parts[i]);
            found++;
        }
    count = parts.count;
    split_fini(&parts);
    return found == count;
}

bool erase_refuses(struct ingress *g, const char *source, struct bytes headers,
                   struct bytes body, struct buf *rest)
{
    return erasures_count(g->daemon.erasures) > 0 &&
           request_is(g, source, headers, body, is_any, g->daemon.erasures,
                      rest);
}

/* ---- the archive ---- */

static void archive_row(struct ingress *g, struct erase_step *s, int64_t n)
{
    struct archive_row row;
    struct buf rest;
    bool whole = false, found;

    buf_init(&rest, (size_t)g->daemon.settings->ingress.max_body_bytes + 1);
    found = store_request(&g->store, n, &row);
    if (found && (row.headers.n || row.body.n))
        whole = request_is(g, row.source, row.headers, row.body, is_this, s,
                           &rest);
    store_request_done(&g->store);
    if (whole || rest.len) {
        store_erase(&g->store, n, whole ? NULL : &rest);
        s->changed++;
    }
    buf_fini(&rest);
}

struct step {
    struct erase_step *s;
    int64_t n[ROWS_PER_STEP];
    int count;
};

static bool on_row(void *arg, const struct archive_entry *e)
{
    struct step *step = arg;

    step->n[step->count++] = e->n;
    return step->count < ROWS_PER_STEP;
}

/* true: there are no more rows. */
static bool archive_step(struct ingress *g, struct erase_step *s)
{
    struct step step = {.s = s};

    store_archive_page(&g->store.replays, s->position, on_row, &step);
    for (int i = 0; i < step.count && !loop_spent(&g->daemon.loop); i++) {
        archive_row(g, s, step.n[i]);
        s->position = step.n[i];
    }
    return !step.count;
}

/* ---- refused requests ---- */

struct rejects_step {
    struct ingress *g;
    struct erase_step *s;
    int64_t skip;
    int left;
    char (*ids)[REJECT_ID_BYTES + 1];
    int count;
};

/* A request that cannot be read is found by the name as a JSON text in its body, or as the value
 * of a header. */
static bool names_it(struct bytes headers, struct bytes body, const char *name)
{
    json_t *json = name ? json_string(name) : NULL;
    char *quoted = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;
    bool found = quoted && memmem(body.p, body.n, quoted, strlen(quoted));
    struct bytes key, value;
    size_t at = 0;

    while (quoted && !found && headers_next(headers, &at, &key, &value))
        found = value.n == strlen(name) && memcmp(value.p, name, value.n) == 0;
    free(quoted);
    json_decref(json);
    return found;
}

static bool on_reject(void *arg, const struct reject_row *row)
{
    struct rejects_step *t = arg;
    struct bytes body = {"", 0};
    struct buf rest;
    bool found;

    if (t->skip-- > 0)
        return true;
    buf_init(&rest, (size_t)t->g->daemon.settings->ingress.max_body_bytes + 1);
    found = row->has_body && store_reject_body(&t->g->store, row->id, &body);
    if (names_it(row->headers, body, t->s->workspace) ||
        (found && *row->source &&
         (request_is(t->g, row->source, row->headers, body, is_this, t->s,
                     &rest) ||
          rest.len)))
        memcpy(t->ids[t->count++], row->id, REJECT_ID_BYTES + 1);
    store_reject_body_done(&t->g->store);
    buf_fini(&rest);
    return --t->left > 0;
}

/* true: there are no more rows. */
static bool rejects_step(struct ingress *g, struct erase_step *s)
{
    struct rejects_step t = {.g = g,
                             .s = s,
                             .skip = s->position - REJECTS_FROM,
                             .left = ROWS_PER_STEP,
                             .ids = gr_alloc(ROWS_PER_STEP * sizeof *t.ids)};

    store_rejects(&g->store, NULL, on_reject, &t);
    for (int i = 0; i < t.count; i++)
        rejects_erase(&g->rejects, g, t.ids[i]);
    s->changed += t.count;
    s->position += ROWS_PER_STEP - t.left - t.count; /* these are gone */
    free(t.ids);
    return t.left > 0;
}

/* ---- the phases ---- */

static void events_step(struct ingress *g, struct erase_step *s)
{
    json_t *id;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)s->ids, i, id)
    {
        int64_t n = store_number(&g->store, json_string_value(id));

        if (n) {
            store_erase(&g->store, n, NULL);
            s->changed++;
        }
    }
    s->done = true;
}

void ingress_erase(void *self, struct erase_step *s)
{
    struct ingress *g = self;

    switch (s->phase) {
    case ERASE_REFUSE: /* intake_store_row() asks erase_refuses() */
        s->position = (int64_t)links_next(g->daemon.links, SEQUENCER) - 1;
        s->done = true;
        break;
    case ERASE_HANDED:
        s->done = (int64_t)links_cursor(g->daemon.links, SEQUENCER) >=
                  s->position;
        break;
    case ERASE_EVENTS:
        events_step(g, s);
        break;
    default:
        if (!g->rejects.since_ms) { /* all are written */
            if (s->position < REJECTS_FROM && archive_step(g, s))
                s->position = REJECTS_FROM;
            else if (s->position >= REJECTS_FROM)
                s->done = rejects_step(g, s);
        }
        break;
    }
}
