/* archive_erase: finds the workspace of requests, as the sequencer does, and empties rows of the archive. */
#include "archive_erase.h"
#include "archive.h"
#include "headers.h"
#include "profile.h"
#include "published.h"
#include "split.h"
#include <stdlib.h>
#include <string.h>

enum {
    ROWS_PER_STEP = 200,
};

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
static bool request_is(struct archive *a, const char *name,
                       struct bytes headers, struct bytes body,
                       is_erased_fn *is, const void *arg, struct buf *rest)
{
    const struct source *source = settings_source(a->daemon->settings, name);
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

bool erase_finds(struct archive *a, const char *source, struct bytes headers,
                 struct bytes body, const struct erase_step *s)
{
    struct buf rest;
    bool found;

    buf_init(&rest, (size_t)a->daemon->settings->ingress.max_body_bytes + 1);
    found = request_is(a, source, headers, body, is_this, s, &rest) || rest.len;
    buf_fini(&rest);
    return found;
}

bool erase_refuses(struct archive *a, const char *source, struct bytes headers,
                   struct bytes body, struct buf *rest)
{
    return erasures_count(a->daemon->erasures) > 0 &&
           request_is(a, source, headers, body, is_any, a->daemon->erasures,
                      rest);
}

/* ---- the archive ---- */

static void erase_row(struct archive *a, struct erase_step *s, int64_t n)
{
    struct archive_row row;
    struct buf rest;
    bool whole = false, found;

    buf_init(&rest, (size_t)a->daemon->settings->ingress.max_body_bytes + 1);
    found = archive_request(&a->store, n, &row);
    if (found && (row.headers.n || row.body.n))
        whole = request_is(a, row.source, row.headers, row.body, is_this, s,
                           &rest);
    archive_request_done(&a->store);
    if (whole || rest.len) {
        archive_empty(&a->store, n, whole ? NULL : &rest);
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
static bool archive_step(struct archive *a, struct erase_step *s)
{
    struct step step = {.s = s};

    archive_page(&a->store.replays, s->position, on_row, &step);
    for (int i = 0; i < step.count && !loop_spent(&a->daemon->loop); i++) {
        erase_row(a, s, step.n[i]);
        s->position = step.n[i];
    }
    return !step.count;
}

/* ---- the phases ---- */

static void events_step(struct archive *a, struct erase_step *s)
{
    json_t *id;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)s->ids, i, id)
    {
        int64_t n = archive_number(&a->store, json_string_value(id));

        if (n) {
            archive_empty(&a->store, n, NULL);
            s->changed++;
        }
    }
    s->done = true;
}

void archive_erase(struct archive *a, struct erase_step *s)
{
    switch (s->phase) {
    case ERASE_REFUSE: /* the process asks erase_refuses() for each event */
        s->position = (int64_t)links_next(a->daemon->links, SEQUENCER) - 1;
        s->done = true;
        break;
    case ERASE_HANDED:
        s->done = (int64_t)links_cursor(a->daemon->links, SEQUENCER) >=
                  s->position;
        break;
    case ERASE_EVENTS:
        events_step(a, s);
        break;
    default:
        s->done = archive_step(a, s);
        break;
    }
}
