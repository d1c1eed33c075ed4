/* workspace: the numbers of each workspace, and their form on disk. */
#include "workspace.h"
#include "le64.h"
#include <stdlib.h>
#include <string.h>

void workspaces_clear(struct workspaces *w)
{
    struct workspace *ws;

    for (size_t at = 0; (ws = lookup_walk(&w->names, &at));) {
        for (size_t i = 0; i < ws->tally_count; i++)
            free(ws->tallies[i].type);
        free(ws->tallies);
        free(ws->routed);
        free(ws->name);
        free(ws);
    }
    lookup_fini(&w->names);
    SLIST_INIT(&w->dirty);
}

struct workspace *workspaces_find(struct workspaces *w, const char *name)
{
    uint64_t key = lookup_text(name);
    struct workspace *ws;

    for (size_t at = 0; (ws = lookup_get(&w->names, key, &at));)
        if (strcmp(ws->name, name) == 0)
            return ws;
    return NULL;
}

struct workspace *workspaces_add(struct workspaces *w, const char *name)
{
    struct workspace *ws = gr_alloc(sizeof *ws);

    ws->name = gr_strdup(name);
    lookup_add(&w->names, lookup_text(name), ws);
    return ws;
}

/* The index of `type`, or the one at which it would be inserted. */
static size_t index_of(const struct workspace *ws, const char *type,
                       size_t type_bytes, bool *found)
{
    size_t lo = 0, hi = ws->tally_count;

    *found = false;
    while (lo < hi && !*found) {
        size_t mid = (lo + hi) / 2;
        const char *t = ws->tallies[mid].type;
        int order = strncmp(t, type, type_bytes);

        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
        *found = order == 0 && !t[type_bytes];
    }
    return *found ? hi : lo;
}

/* The tally of `type`; made if it is missing. */
static struct type_tally *tally_of(struct workspace *ws, const char *type,
                                   size_t type_bytes)
{
    bool found;
    size_t at = index_of(ws, type, type_bytes, &found);

    if (!found && ws->tally_count >= TYPES_MAX) {
        type = "*";
        type_bytes = 1;
        at = index_of(ws, type, type_bytes, &found);
    }
    if (found)
        return &ws->tallies[at];
    ws->tallies = gr_realloc(ws->tallies,
                             (ws->tally_count + 1) * sizeof *ws->tallies);
    memmove(&ws->tallies[at + 1], &ws->tallies[at],
            (ws->tally_count - at) * sizeof *ws->tallies);
    ws->tally_count++;
    ws->tallies[at] = (struct type_tally){gr_strndup(type, type_bytes), 0};
    return &ws->tallies[at];
}

/* ',' and '=' separate the parts of a clock, so they and '%' are percent-encoded in a type. */
static void put_type(struct buf *out, const char *type)
{
    for (; *type; type++) {
        if (*type == ',' || *type == '=' || *type == '%')
            buf_printf(out, "%%%02X", (unsigned char)*type);
        else
            buf_put(out, type, 1);
    }
}

static int hex(char c)
{
    return c <= '9' ? c - '0' : (c & ~0x20) - 'A' + 10;
}

/* Decode what put_type() wrote, in place. */
static size_t unescape(char *type)
{
    char *to = type;

    for (char *p = type; *p; p++) {
        if (*p == '%' && p[1] && p[2]) {
            *to++ = (char)(hex(p[1]) << 4 | hex(p[2]));
            p += 2;
        } else {
            *to++ = *p;
        }
    }
    *to = 0;
    return (size_t)(to - type);
}

/* A queue that is unknown is of a damaged row. */
static void read_positions(struct workspace *ws, struct bytes positions)
{
    const uint8_t *p = positions.p;

    for (size_t i = 0; i < positions.n / 16; i++, p += 16) {
        uint64_t key = get_le64(p);
        enum priority queue = queue_numbered(key >> POSITION_QUEUE_SHIFT);

        if (queue)
            *workspace_position(ws, (int64_t)(uint32_t)key, queue,
                                true) = (int64_t)get_le64(p + 8);
    }
}

void workspace_read(struct workspace *ws, uint64_t sequence, const char *clock,
                    struct bytes routed, struct bytes positions)
{
    const uint8_t *p = routed.p;

    ws->sequence = sequence;
    while (*clock) {
        size_t n = strcspn(clock, ",");
        size_t eq = strcspn(clock, "=");

        if (eq < n) {
            char *type = gr_strndup(clock, eq);

            tally_of(ws, type, unescape(type))->count = strtoull(clock + eq + 1,
                                                                 NULL, 10);
            free(type);
        }
        clock += n + (clock[n] == ',');
    }
    ws->routed_count = routed.n / 16;
    ws->routed = gr_alloc(ws->routed_count * sizeof *ws->routed);
    for (size_t i = 0; i < ws->routed_count; i++, p += 16)
        ws->routed[i] = (struct routed){.endpoint = (int64_t)get_le64(p),
                                        .sequence = get_le64(p + 8)};
    read_positions(ws, positions);
}

void workspace_changed(struct workspaces *w, struct workspace *ws)
{
    if (ws->dirty)
        return;
    ws->dirty = true;
    SLIST_INSERT_HEAD(&w->dirty, ws, dirty_next);
}

uint64_t workspace_number(struct workspaces *w, struct workspace *ws,
                          const char *type)
{
    workspace_changed(w, ws);
    tally_of(ws, type, strlen(type))->count++;
    return ++ws->sequence;
}

static void put_tally(struct buf *out, const struct type_tally *t)
{
    put_type(out, t->type);
    buf_printf(out, "=%llu", (unsigned long long)t->count);
}

void workspace_clock(const struct workspace *ws, const char *type, size_t max,
                     struct buf *out)
{
    size_t at = out->len;

    for (size_t i = 0; i < ws->tally_count && out->len - at <= max; i++) {
        buf_put(out, ",", i ? 1 : 0);
        put_tally(out, &ws->tallies[i]);
    }
    if (out->len - at <= max)
        return;
    out->len = at;
    for (size_t i = 0; i < ws->tally_count; i++)
        if (strcmp(ws->tallies[i].type, type) == 0)
            put_tally(out, &ws->tallies[i]);
}

/* NULL: there is none, and `add` is false. */
static struct routed *routed_to(struct workspace *ws, int64_t endpoint,
                                bool add)
{
    for (size_t i = 0; i < ws->routed_count; i++)
        if (ws->routed[i].endpoint == endpoint)
            return &ws->routed[i];
    if (!add)
        return NULL;
    ws->routed = gr_realloc(ws->routed,
                            (ws->routed_count + 1) * sizeof *ws->routed);
    ws->routed[ws->routed_count] = (struct routed){.endpoint = endpoint};
    return &ws->routed[ws->routed_count++];
}

uint64_t workspace_routed(struct workspace *ws, int64_t endpoint,
                          uint64_t sequence)
{
    struct routed *r = routed_to(ws, endpoint, true);
    uint64_t before = r->sequence;

    r->sequence = sequence;
    return before;
}

int64_t *workspace_position(struct workspace *ws, int64_t endpoint,
                            enum priority priority, bool add)
{
    struct routed *r = routed_to(ws, endpoint, add);

    return r ? &r->positions[priority] : NULL;
}

void workspace_forget_routed(struct workspace *ws, int64_t endpoint,
                             workspace_over_fn *is_over, void *arg)
{
    size_t kept = 0;

    for (size_t i = 0; i < ws->routed_count; i++)
        if (ws->routed[i].endpoint == endpoint)
            return;
    for (size_t i = 0; i < ws->routed_count; i++)
        if (!is_over(arg, ws->routed[i].endpoint))
            ws->routed[kept++] = ws->routed[i];
    ws->routed_count = kept;
}

void workspace_routed_blob(const struct workspace *ws, struct buf *out)
{
    for (size_t i = 0; i < ws->routed_count; i++) {
        put_le64(out, (uint64_t)ws->routed[i].endpoint);
        put_le64(out, ws->routed[i].sequence);
    }
}

void workspace_positions_blob(const struct workspace *ws, struct buf *out)
{
    for (size_t i = 0; i < ws->routed_count; i++)
        for (int p = PRIORITY_HIGH; p < PRIORITIES; p++) {
            const struct routed *r = &ws->routed[i];

            if (!r->positions[p])
                continue;
            put_le64(out, (uint64_t)r->endpoint |
                              (uint64_t)queue_number((enum priority)p)
                                  << POSITION_QUEUE_SHIFT);
            put_le64(out, (uint64_t)r->positions[p]);
        }
}
