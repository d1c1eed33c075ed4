/* templates: finds the template of a request by a key that costs little to make. */
#include "templates.h"
#include "clock.h"
#include "deliverer.h"
#include "granted_endpoint.h"
#include "headers.h"
#include "sent.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_MAX_BYTES = 1024,
    USED_EVERY_MS = 60 * 60 * 1000, /* so often at most `used_ms` is written */
};

struct template
{
    int64_t id, used_ms;
    struct buf request;
};

/* ---- the key ---- */

struct template_key {
    char bytes[KEY_MAX_BYTES];
    size_t n;
    bool too_long;
};

static void put(struct template_key *k, const void *p, size_t n)
{
    if (n > sizeof k->bytes - k->n) {
        k->too_long = true;
        return;
    }
    if (n)
        memcpy(k->bytes + k->n, p, n);
    k->n += n;
}

static void put_text(struct template_key *k, struct bytes text)
{
    uint32_t n = (uint32_t)text.n;

    put(k, &n, sizeof n);
    put(k, text.p, text.n);
}

/* Everything that the lines of request.c depend on, except values that vary. */
static void make_key(struct template_key *k, const struct transfer *f)
{
    const struct wire_task *t = &f->task->w;
    const uint64_t numbers[] = {f->config->id, t->series,
                                (t->sequence ? 1U : 0) | (t->clock.n ? 2U : 0) |
                                    (t->source_sequence.n ? 4U : 0) |
                                    (t->gap.n ? 8U : 0) | (t->late ? 16U : 0) |
                                    (t->replay ? 32U : 0)};
    struct bytes name, value;
    size_t at = 0;

    k->n = 0;
    k->too_long = false;
    put(k, numbers, sizeof numbers);
    put_text(k, t->source);
    while (headers_next(t->headers, &at, &name, &value)) {
        const char *p = name.p;

        /* In lower case: names that differ only in case are the same. */
        for (size_t i = 0; i < name.n && !k->too_long; i++)
            put(k, &(char){(char)tolower((unsigned char)p[i])}, 1);
        put(k, "", 1);
        if (sent_is_constant(name, value))
            put_text(k, value);
    }
}

/* Hashes eight bytes at a time. After a collision find_or_add() compares whole requests. */
static size_t slot_of(const struct template_key *k)
{
    uint64_t h = k->n, word;

    for (size_t i = 0; i < k->n; i += sizeof word) {
        size_t left = k->n - i;

        word = 0;
        memcpy(&word, k->bytes + i, left < sizeof word ? left : sizeof word);
        h = (h ^ word) * 0x9e3779b97f4a7c15ULL;
        h ^= h >> 29;
    }
    return h % TEMPLATE_SLOTS;
}

/* ---- the list ---- */

static void add(struct templates *t, int64_t id, int64_t used_ms,
                struct bytes request)
{
    struct template *one;

    t->all = gr_realloc(t->all, (t->count + 1) * sizeof *t->all);
    one = &t->all[t->count++];
    *one = (struct template){.id = id, .used_ms = used_ms};
    buf_init(&one->request, SENT_MAX_BYTES);
    buf_put(&one->request, request.p, request.n);
}

static void on_row(void *self, int64_t id, struct bytes request,
                   int64_t used_ms)
{
    struct deliverer *d = self;

    if (d->templates.count < TEMPLATES_MAX)
        add(&d->templates, id, used_ms, request);
}

void templates_open(struct deliverer *d)
{
    store_templates(&d->store, on_row, d);
}

void templates_close(struct deliverer *d)
{
    struct templates *t = &d->templates;

    for (size_t i = 0; i < t->count; i++)
        buf_fini(&t->all[i].request);
    for (size_t i = 0; i < TEMPLATE_SLOTS; i++)
        free(t->slots[i].key);
    free(t->all);
    *t = (struct templates){0};
}

void templates_undo(struct deliverer *d)
{
    templates_close(d);
    templates_open(d);
}

/* The position in `all`, by the whole request, which takes longer than by its key. -1: there
 * is no space for one more. */
static int64_t find_or_add(struct deliverer *d, const struct transfer *f)
{
    struct templates *t = &d->templates;
    int64_t now = d->daemon.loop.now_ms, at = -1;
    struct buf request;

    buf_init(&request, SENT_MAX_BYTES);
    sent_pack_template(f, &request);
    for (size_t i = 0; i < t->count && at < 0; i++)
        if (t->all[i].request.len == request.len &&
            memcmp(t->all[i].request.data, request.data, request.len) == 0)
            at = (int64_t)i;
    if (at < 0 && t->count < TEMPLATES_MAX) {
        struct bytes packed = {request.data, request.len};

        at = (int64_t)t->count;
        add(t, store_template_add(&d->store, packed, now), now, packed);
    }
    buf_fini(&request);
    return at;
}

static struct template *find(struct deliverer *d, const struct transfer *f,
                             const struct template_key *k)
{
    struct template_slot *slot = &d->templates.slots[slot_of(k)];
    int64_t at;

    if (slot->n == k->n && slot->key && memcmp(slot->key, k->bytes, k->n) == 0)
        return &d->templates.all[slot->at];
    at = find_or_add(d, f);
    if (at < 0)
        return NULL;
    free(slot->key);
    *slot = (struct template_slot){
        .key = gr_alloc(k->n), .n = k->n, .at = (size_t)at};
    memcpy(slot->key, k->bytes, k->n);
    return &d->templates.all[at];
}

int64_t templates_note(struct deliverer *d, const struct transfer *f)
{
    int64_t now = d->daemon.loop.now_ms;
    struct template *one;
    struct template_key k;

    make_key(&k, f);
    one = k.too_long ? NULL : find(d, f, &k);
    if (one && now - one->used_ms >= USED_EVERY_MS) {
        one->used_ms = now;
        store_template_used(&d->store, one->id, now);
    }
    return one ? one->id : 0;
}

struct bytes templates_find(const struct deliverer *d, int64_t id)
{
    const struct templates *t = &d->templates;

    for (size_t i = 0; i < t->count; i++)
        if (t->all[i].id == id)
            return (struct bytes){t->all[i].request.data,
                                  t->all[i].request.len};
    return (struct bytes){"", 0};
}

void templates_purge(struct deliverer *d, int64_t before_ms)
{
    const struct templates *t = &d->templates;
    bool old = false;

    before_ms -= 2 * USED_EVERY_MS;
    for (size_t i = 0; i < t->count && !old; i++)
        old = t->all[i].used_ms < before_ms;
    if (old && store_templates_purge(&d->store, before_ms) > 0)
        templates_undo(d);
}
