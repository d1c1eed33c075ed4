/* rejects_erase: finds the workspace of refused requests, and deletes them. */
#include "rejects_erase.h"
#include "archive_erase.h"
#include "headers.h"
#include "ingress.h"
#include <stdlib.h>
#include <string.h>

enum {
    ROWS_PER_STEP = 200,
};

/* Positions from here on are of refused requests, those below of the archive. */
#define REJECTS_FROM (1LL << 60)

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
    struct reject_store *store = &t->g->rejects.store;
    struct bytes body = {"", 0}, head = {"", 0};
    bool found;

    if (t->skip-- > 0)
        return true;
    found = store_reject_body(store, row->id, &body, &head) && body.n;
    if (names_it(row->headers, body, t->s->workspace) ||
        names_it(head, body, t->s->workspace) ||
        (found && *row->source &&
         erase_finds(&t->g->archive, row->source, row->headers, body, t->s)))
        memcpy(t->ids[t->count++], row->id, REJECT_ID_BYTES + 1);
    store_reject_body_done(store);
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

    store_rejects(&g->rejects.store, NULL, on_reject, &t);
    for (int i = 0; i < t.count; i++)
        rejects_erase(&g->rejects, t.ids[i]);
    s->changed += t.count;
    s->position += ROWS_PER_STEP - t.left - t.count; /* these are gone */
    free(t.ids);
    return t.left > 0;
}

void ingress_erase(void *self, struct erase_step *s)
{
    struct ingress *g = self;

    if (s->phase <= ERASE_EVENTS) {
        archive_erase(&g->archive, s);
    } else if (g->rejects.since_ms) {
        return; /* some are not written yet */
    } else if (s->position < REJECTS_FROM) {
        archive_erase(&g->archive, s);
        if (s->done)
            s->position = REJECTS_FROM;
        s->done = false;
    } else {
        s->done = rejects_step(g, s);
    }
}
