#include "task.h"
#include "alloc.h"
#include "flying.h"
#include "siphash.h"
#include <stdlib.h>
#include <string.h>

/* Of all tasks in memory. */
enum { MEMORY_COUNT = 32 * 1024, MEMORY_BYTES = 64 * 1024 * 1024 };

struct task *task_new(struct bytes message)
{
    struct task *t = gr_alloc(sizeof *t + message.n);

    memcpy(t->bytes, message.p, message.n);
    t->bytes_count = message.n;
    if (wire_get_task(&t->w, (struct bytes){t->bytes, message.n}) != GR_OK ||
        t->w.event_id.n == 0 || t->w.event_id.n > EVENT_ID_BYTES ||
        t->w.endpoint.n == 0 || t->w.endpoint.n > NAME_MAX_BYTES ||
        t->w.grant == 0) {
        free(t);
        return NULL;
    }
    wire_copy(t->event_id, sizeof t->event_id, t->w.event_id);
    t->slot = FLYING_NONE;
    t->attempts = t->w.attempts;
    t->first_ms = t->w.first_ms;
    t->next_ms = t->w.next_ms;
    t->held_ms = -1;
    return t;
}

void task_free(struct task *t)
{
    free(t);
}

bool tasks_full(const struct tasks *s)
{
    return s->count >= MEMORY_COUNT || s->bytes >= MEMORY_BYTES;
}

void tasks_fini(struct tasks *s)
{
    for (size_t i = 0; i < s->room; i++)
        while (s->table[i]) {
            struct task *t = s->table[i];

            s->table[i] = t->hash_next;
            task_free(t);
        }
    free(s->table);
    *s = (struct tasks){0};
}

/* Over the event's id, which a producer can choose by its idempotency key, and where its
 * grant is. */
static uint64_t hash_of(const struct grant *grant, const char *event_id)
{
    return hash_keyed_text((uint64_t)(uintptr_t)grant, event_id);
}

static struct task **slot_of(const struct tasks *s, const struct grant *grant,
                             const char *event_id)
{
    return &s->table[hash_of(grant, event_id) & (s->room - 1)];
}

static void grow(struct tasks *s)
{
    struct tasks larger = {.room = s->room ? 2 * s->room : 1024};
    struct task *t, **slot;

    larger.table = gr_alloc(larger.room * sizeof *larger.table);
    for (size_t i = 0; i < s->room; i++)
        while ((t = s->table[i])) {
            s->table[i] = t->hash_next;
            slot = slot_of(&larger, t->grant, t->event_id);
            t->hash_next = *slot;
            *slot = t;
        }
    free(s->table);
    s->table = larger.table;
    s->room = larger.room;
}

void tasks_add(struct tasks *s, struct task *t)
{
    struct task **slot;

    if (s->count >= s->room)
        grow(s);
    slot = slot_of(s, t->grant, t->event_id);
    t->hash_next = *slot;
    *slot = t;
    s->count++;
    s->bytes += sizeof *t + t->bytes_count;
}

void tasks_drop(struct tasks *s, struct task *t)
{
    struct task **slot = slot_of(s, t->grant, t->event_id);

    tasks_close(s, t);
    while (*slot != t)
        slot = &(*slot)->hash_next;
    *slot = t->hash_next;
    s->count--;
    s->bytes -= sizeof *t + t->bytes_count;
    task_free(t);
}

struct task *tasks_find(const struct tasks *s, const struct grant *grant,
                        const char *event_id)
{
    struct task *t = s->room ? *slot_of(s, grant, event_id) : NULL;

    while (t && (t->grant != grant || strcmp(t->event_id, event_id) != 0))
        t = t->hash_next;
    return t;
}

void tasks_open(struct tasks *s, struct task *t)
{
    t->open_prev = s->open_last;
    t->open_next = NULL;
    if (s->open_last)
        s->open_last->open_next = t;
    else
        s->open_first = t;
    s->open_last = t;
}

void tasks_close(struct tasks *s, struct task *t)
{
    if (!t->open_prev && !t->open_next && s->open_first != t)
        return;
    if (t->open_prev)
        t->open_prev->open_next = t->open_next;
    else
        s->open_first = t->open_next;
    if (t->open_next)
        t->open_next->open_prev = t->open_prev;
    else
        s->open_last = t->open_prev;
    t->open_prev = t->open_next = NULL;
}

void tasks_each(struct tasks *s, task_fn *each, void *self)
{
    struct task *t, *next;

    for (size_t i = 0; i < s->room; i++)
        for (t = s->table[i]; t; t = next) {
            next = t->hash_next;
            each(self, t);
        }
}
