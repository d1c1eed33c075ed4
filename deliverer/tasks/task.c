/* task: reads tasks from messages, and finds them by grant and event. */
#include "task.h"
#include "alloc.h"
#include "endpoint_config.h"
#include "inflight.h"
#include "log.h"
#include "siphash.h"
#include <stdlib.h>
#include <string.h>

/* With so many tasks in memory, or so many bytes, new ones become rows. */
enum { MEMORY_COUNT = 32 * 1024, MEMORY_BYTES = 64 * 1024 * 1024 };

static void drop_policy(struct task *t)
{
    if (t->retry)
        retry_policy_free(t->retry);
    free(t->retry);
    t->retry = NULL;
}

/* A row may hold a policy that another version of Grapnel wrote. Then the endpoint's applies,
 * until the sequencer sends the task again, which it does when versions change. */
static void read_policy(struct task *t)
{
    t->retry = gr_alloc(sizeof *t->retry);
    if (retry_policy_read(t->w.retry, t->retry) == GR_OK)
        return;
    log_warn(t->event_id,
             "the retry policy of a delivery cannot be read; that of its "
             "endpoint applies");
    drop_policy(t);
}

struct task *task_new(struct bytes message)
{
    struct task *t = gr_alloc(sizeof *t + message.n);

    memcpy(t->bytes, message.p, message.n);
    t->bytes_count = message.n;
    if (wire_get_stored_task(&t->w, (struct bytes){t->bytes, message.n}) !=
            GR_OK ||
        t->w.event_id.n == 0 || t->w.event_id.n > EVENT_ID_BYTES ||
        t->w.endpoint.n == 0 || t->w.endpoint.n > NAME_MAX_BYTES ||
        t->w.grant == 0) {
        free(t);
        return NULL;
    }
    wire_copy(t->event_id, sizeof t->event_id, t->w.event_id);
    t->slot = INFLIGHT_NONE;
    t->attempts = t->w.attempts;
    t->first_ms = t->w.first_ms;
    t->next_ms = t->w.next_ms;
    t->held_ms = -1;
    if (t->w.retry.n)
        read_policy(t);
    return t;
}

void task_free(struct task *t)
{
    if (t)
        drop_policy(t);
    free(t);
}

bool tasks_full(const struct tasks *s)
{
    return s->ids.used >= MEMORY_COUNT || s->bytes >= MEMORY_BYTES;
}

void tasks_init(struct tasks *s)
{
    *s = (struct tasks){0};
    TAILQ_INIT(&s->unstored);
}

void tasks_fini(struct tasks *s)
{
    struct task *t;

    while ((t = LIST_FIRST(&s->all)))
        tasks_drop(s, t);
    lookup_fini(&s->ids);
}

/* A keyed hash, because a producer can choose the event's id by its idempotency key. */
static uint64_t key_of(const struct grant *grant, const char *event_id)
{
    return hash_keyed_text((uint64_t)(uintptr_t)grant, event_id);
}

void tasks_add(struct tasks *s, struct task *t)
{
    lookup_add(&s->ids, key_of(t->grant, t->event_id), t);
    LIST_INSERT_HEAD(&s->all, t, link);
    s->bytes += sizeof *t + t->bytes_count;
}

void tasks_drop(struct tasks *s, struct task *t)
{
    tasks_remove_unstored(s, t);
    lookup_remove(&s->ids, key_of(t->grant, t->event_id), t);
    LIST_REMOVE(t, link);
    s->bytes -= sizeof *t + t->bytes_count;
    task_free(t);
}

struct task *tasks_find(const struct tasks *s, const struct grant *grant,
                        const char *event_id)
{
    uint64_t key = key_of(grant, event_id);
    struct task *t;

    for (size_t at = 0; (t = lookup_get(&s->ids, key, &at));)
        if (t->grant == grant && strcmp(t->event_id, event_id) == 0)
            return t;
    return NULL;
}

void tasks_add_unstored(struct tasks *s, struct task *t)
{
    t->in_unstored = true;
    TAILQ_INSERT_TAIL(&s->unstored, t, unstored_link);
}

void tasks_remove_unstored(struct tasks *s, struct task *t)
{
    if (t->in_unstored)
        TAILQ_REMOVE(&s->unstored, t, unstored_link);
    t->in_unstored = false;
}
