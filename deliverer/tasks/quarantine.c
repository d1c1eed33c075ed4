/* quarantine: the list of tasks that were in flight at a crash, and which of them begins. */
#include "quarantine.h"
#include "clock.h"
#include "deliverer.h"
#include "due.h"
#include "log.h"
#include "outcome.h"
#include "rows.h"
#include <stdlib.h>
#include <string.h>

static struct inflight_slot *slot_of(const struct quarantine *c,
                                     const struct quarantined *s)
{
    return &inflight_slots(&c->inflight)[s->slot];
}

/* ---- open and close ---- */

static const struct inflight_slot *sorted; /* for by_crashes() */

/* First tasks that were alone at a crash, then the last ones begun. */
static int by_crashes(const void *a, const void *b)
{
    const struct inflight_slot *x =
        &sorted[((const struct quarantined *)a)->slot];
    const struct inflight_slot *y =
        &sorted[((const struct quarantined *)b)->slot];

    if (x->crashes != y->crashes)
        return x->crashes > y->crashes ? -1 : 1;
    return x->begun > y->begun ? -1 : 1;
}

/* `ms`, doubled so often, but at most `max` times. */
static int64_t doubled(int64_t ms, uint32_t times, uint32_t max)
{
    return ms << (times < max ? times : max);
}

int64_t quarantine_quiet_ms(uint32_t crashes)
{
    return doubled(QUARANTINE_QUIET_MS, crashes ? crashes - 1 : 0, 3);
}

static int64_t quiet_ms(const struct quarantine *c)
{
    return quarantine_quiet_ms(inflight_crashes(&c->inflight));
}

void quarantine_open(struct deliverer *d, const char *path)
{
    struct quarantine *c = &d->quarantine;
    const struct inflight_slot *slots;
    uint32_t crashes;

    inflight_open(&c->inflight, path);
    c->alone = INFLIGHT_NONE;
    slots = inflight_slots(&c->inflight);
    if (!slots)
        return;
    c->tasks = gr_alloc(INFLIGHT_SLOTS * sizeof *c->tasks);
    for (int i = 0; i < INFLIGHT_SLOTS; i++)
        if (slots[i].state == INFLIGHT_QUARANTINED)
            c->tasks[c->count++] = (struct quarantined){.slot = i};
    sorted = slots;
    qsort(c->tasks, (size_t)c->count, sizeof *c->tasks, by_crashes);
    crashes = inflight_crashes(&c->inflight);
    c->each_ms = c->count ? QUARANTINE_ALL_MS / c->count : QUARANTINE_EACH_MS;
    if (c->each_ms > QUARANTINE_EACH_MS)
        c->each_ms = QUARANTINE_EACH_MS;
    c->each_ms = doubled(c->each_ms < 1 ? 1 : c->each_ms,
                         crashes ? crashes - 1 : 0, 11);
    if (c->count)
        log_warn(NULL,
                 "after a crash, the attempts that were in progress are tried "
                 "first, one at a time",
                 LI("requests", c->count), LI("crashes", crashes));
}

void quarantine_close(struct deliverer *d)
{
    inflight_close(&d->quarantine.inflight);
    free(d->quarantine.tasks);
    d->quarantine = (struct quarantine){0};
}

/* ---- the list ---- */

static void remove_entry(struct quarantine *c, struct quarantined *s)
{
    int i = (int)(s - c->tasks);

    c->count--;
    memmove(s, s + 1, (size_t)(c->count - i) * sizeof *s);
    if (c->count == 0)
        inflight_reset_crashes(&c->inflight);
}

static struct quarantined *find(struct quarantine *c, uint64_t grant,
                                const char *event_id)
{
    for (int i = 0; i < c->count; i++) {
        const struct inflight_slot *slot = slot_of(c, &c->tasks[i]);

        if (slot->grant == grant && strcmp(slot->event_id, event_id) == 0)
            return &c->tasks[i];
    }
    return NULL;
}

static struct grant *open_grant(struct deliverer *d,
                                const struct quarantined *s)
{
    struct grant *g = own_grants_find(d, slot_of(&d->quarantine, s)->grant);

    return g && g->state == GRANT_OPEN ? g : NULL;
}

/* Remove an entry: the task did not cause the crash, or belongs to another deliverer now. */
static void clear(struct deliverer *d, struct quarantined *s)
{
    const struct inflight_slot *slot = slot_of(&d->quarantine, s);
    struct grant *g = own_grants_find(d, slot->grant);
    struct task *t = g ? tasks_find(&d->tasks, g, slot->event_id) : NULL;

    if (t)
        t->quarantined = false;
    inflight_end(&d->quarantine.inflight, s->slot);
    remove_entry(&d->quarantine, s);
}

void quarantine_mark(struct deliverer *d, struct task *t)
{
    struct quarantined *s = d->quarantine.count
                                ? find(&d->quarantine, t->grant->id,
                                       t->event_id)
                                : NULL;

    t->quarantined = s && slot_of(&d->quarantine, s)->crashes > 0;
}

/* ---- rows of quarantined tasks ---- */

static void put_dead(struct deliverer *d, struct quarantined *s,
                     const struct grant *g, const char *event_id,
                     uint64_t attempts, int64_t first_ms)
{
    outcome_put_crashed(d, g, event_id, attempts, first_ms);
    s->dead = true;
    s->turn = d->turn;
}

struct past_attempts {
    uint64_t grant;
    bool ended;
};

static void see_attempt(void *self, const struct attempt_row *row)
{
    struct past_attempts *p = self;

    p->ended = p->ended ||
               (row->grant_id == p->grant && row->outcome != OUTCOME_RETRYING);
}

/* Once for each entry: find its task, or end it. true: keep it on the list. */
static bool look(struct deliverer *d, struct quarantined *s)
{
    const struct inflight_slot *slot = slot_of(&d->quarantine, s);
    struct past_attempts past = {.grant = slot->grant};
    struct grant *g = open_grant(d, s);
    struct task_row row;

    if (!g)
        return false;
    if (slot->crashes >= QUARANTINE_CRASHES) {
        /* A task without a row is sent again: quarantine_ends(). */
        if (store_task_find(&d->store, g->id, slot->event_id, &row)) {
            rows_gone(d, g, row.n, row.retrying);
            put_dead(d, s, g, slot->event_id, row.attempts, row.first_ms);
        }
        return true;
    }
    if (tasks_find(&d->tasks, g, slot->event_id) ||
        due_bring(d, g, slot->event_id))
        return true;
    /* Not in memory and without a row: its result was committed just before the
     * crash, or the sequencer sends it again. */
    store_attempts_of_event(&d->store, slot->event_id, "", 0, 0, see_attempt,
                            &past);
    return !past.ended;
}

void quarantine_work(struct deliverer *d)
{
    struct quarantine *c = &d->quarantine;
    bool too_late = c->lease_ms &&
                    mono_ms() - c->lease_ms > QUARANTINE_FORGET_MS;

    for (int i = c->count - 1; i >= 0; i--) {
        struct quarantined *s = &c->tasks[i];

        if (too_late || (s->dead && s->turn != d->turn)) {
            clear(d, s);
        } else if (!s->looked && !loop_spent(&d->daemon.loop)) {
            s->looked = true;
            if (!look(d, s))
                clear(d, s);
        }
    }
}

void quarantine_undo(struct deliverer *d)
{
    for (int i = 0; i < d->quarantine.count; i++) {
        struct quarantined *s = &d->quarantine.tasks[i];

        if (s->dead && s->turn == d->turn)
            s->dead = s->looked = false;
    }
}

bool quarantine_ends(struct deliverer *d, const struct task *t)
{
    struct quarantined *s = d->quarantine.count
                                ? find(&d->quarantine, t->grant->id,
                                       t->event_id)
                                : NULL;

    if (!s || slot_of(&d->quarantine, s)->crashes < QUARANTINE_CRASHES)
        return false;
    put_dead(d, s, t->grant, t->event_id, t->attempts, t->first_ms);
    return true;
}

/* ---- which task begins ---- */

static bool nothing_in_flight(const struct deliverer *d)
{
    return d->transfers.active.count + d->transfers.ended.count == 0;
}

/* The first task that can begin; *pending: some cannot begin yet. */
static struct task *first_able(struct deliverer *d, bool *pending)
{
    int64_t now_us = mono_us();

    for (int i = 0; i < d->quarantine.count; i++) {
        struct quarantined *s = &d->quarantine.tasks[i];
        struct grant *g = open_grant(d, s);
        struct task *t;

        if (!g || s->dead ||
            (slot_of(&d->quarantine, s)->crashes > 0 &&
             mono_ms() - d->quarantine.lease_ms < quiet_ms(&d->quarantine)))
            continue;
        t = tasks_find(&d->tasks, g, slot_of(&d->quarantine, s)->event_id);
        if (t && t->state == TASK_WAITING &&
            endpoint_may_begin(&g->endpoint, t, &d->busy_lanes, now_us))
            return t;
        *pending = true;
    }
    return NULL;
}

struct task *quarantine_next(struct deliverer *d, bool *wait)
{
    struct quarantine *c = &d->quarantine;
    int64_t now = mono_ms();
    bool pending = false, free_way;
    struct task *t;

    *wait = false;
    if (!c->count && !c->patience_ms)
        return NULL;
    if (!c->lease_ms)
        c->lease_ms = now;
    t = first_able(d, &pending);
    free_way = nothing_in_flight(d) ||
               (c->patience_ms && now >= c->patience_ms);
    /* Let requests in flight end, so that a late task is alone. */
    if (t && !free_way && !c->patience_ms)
        c->patience_ms = now + doubled(QUARANTINE_EMPTY_MS,
                                       inflight_crashes(&c->inflight), 7);
    if (!t && free_way)
        c->patience_ms = 0;
    *wait = t || c->patience_ms ||
            (pending && now - c->lease_ms < QUARANTINE_WAIT_MS);
    return free_way ? t : NULL;
}

void quarantine_began(struct deliverer *d, struct task *t, bool chosen)
{
    struct quarantine *c = &d->quarantine;
    struct quarantined *s = c->count ? find(c, t->grant->id, t->event_id)
                                     : NULL;
    bool alone = chosen && nothing_in_flight(d);

    if (s) {
        t->slot = s->slot;
        t->lost = true;
        remove_entry(c, s);
    } else {
        t->slot = inflight_add(&c->inflight, t->grant->id, t->event_id);
    }
    if (c->alone != INFLIGHT_NONE)
        inflight_not_alone(&c->inflight, c->alone);
    inflight_begin(&c->inflight, t->slot, alone);
    c->alone = alone ? t->slot : INFLIGHT_NONE;
    if (chosen)
        c->patience_ms = mono_ms() + c->each_ms;
}

void quarantine_ended(struct deliverer *d, struct task *t)
{
    struct quarantine *c = &d->quarantine;

    if (t->slot != INFLIGHT_NONE && t->slot == c->alone)
        c->alone = INFLIGHT_NONE;
    inflight_end(&c->inflight, t->slot);
    t->slot = INFLIGHT_NONE;
}

int quarantine_wait_ms(const struct deliverer *d)
{
    const struct quarantine *c = &d->quarantine;
    int64_t lived = mono_ms() - c->lease_ms;

    if (c->patience_ms)
        return c->patience_ms <= mono_ms() ? 0
                                           : (int)(c->patience_ms - mono_ms());
    if (!c->count || !c->lease_ms)
        return -1;
    if (lived < QUARANTINE_WAIT_MS)
        return QUARANTINE_WAIT_MS - (int)lived;
    if (lived < quiet_ms(c))
        return (int)(quiet_ms(c) - lived);
    return -1; /* it waits for a row, a response, or a throttle */
}
