#include "care.h"
#include "clock.h"
#include "deliverer.h"
#include "due.h"
#include "log.h"
#include "outcome.h"
#include "rows.h"
#include <stdlib.h>
#include <string.h>

static struct flying_slot *slot_of(const struct care *c,
                                   const struct suspect *s)
{
    return &flying_slots(&c->flying)[s->slot];
}

/* ---- open and close ---- */

static const struct flying_slot *sorted; /* by whose slots qsort compares */

/* Those that crashed us alone, then the last that had begun. */
static int by_suspicion(const void *a, const void *b)
{
    const struct flying_slot *x = &sorted[((const struct suspect *)a)->slot];
    const struct flying_slot *y = &sorted[((const struct suspect *)b)->slot];

    if (x->crashes != y->crashes)
        return x->crashes > y->crashes ? -1 : 1;
    return x->begun > y->begun ? -1 : 1;
}

static int64_t doubled(int64_t ms, uint32_t times, uint32_t most)
{
    return ms << (times < most ? times : most);
}

static int64_t each_ms(const struct care *c)
{
    uint32_t crashes = flying_crashes(&c->flying);
    int64_t ms = c->count ? CARE_ALL_MS / c->count : CARE_EACH_MS;

    if (ms > CARE_EACH_MS)
        ms = CARE_EACH_MS;
    return doubled(ms < 1 ? 1 : ms, crashes ? crashes - 1 : 0, 11);
}

int64_t care_quiet_ms(uint32_t crashes)
{
    return doubled(CARE_QUIET_MS, crashes ? crashes - 1 : 0, 3);
}

static int64_t quiet_ms(const struct care *c)
{
    return care_quiet_ms(flying_crashes(&c->flying));
}

void care_open(struct deliverer *d, const char *path)
{
    struct care *c = &d->care;
    const struct flying_slot *slots;

    flying_open(&c->flying, path);
    c->alone = FLYING_NONE;
    slots = flying_slots(&c->flying);
    if (!slots)
        return;
    c->suspects = gr_alloc(FLYING_SLOTS * sizeof *c->suspects);
    for (int i = 0; i < FLYING_SLOTS; i++)
        if (slots[i].state == FLYING_SUSPECT)
            c->suspects[c->count++] = (struct suspect){.slot = i};
    sorted = slots;
    qsort(c->suspects, (size_t)c->count, sizeof *c->suspects, by_suspicion);
    c->each_ms = each_ms(c);
    if (c->count)
        log_warn(NULL,
                 "after a crash: what was in flight is tried first, one "
                 "at a time",
                 LI("requests", c->count),
                 LI("crashes", flying_crashes(&c->flying)));
}

void care_close(struct deliverer *d)
{
    flying_close(&d->care.flying);
    free(d->care.suspects);
    d->care = (struct care){0};
}

/* ---- the list ---- */

static void strike(struct care *c, struct suspect *s)
{
    int i = (int)(s - c->suspects);

    c->count--;
    memmove(s, s + 1, (size_t)(c->count - i) * sizeof *s);
    if (c->count == 0)
        flying_calm(&c->flying);
}

static struct suspect *find(struct care *c, uint64_t grant,
                            const char *event_id)
{
    for (int i = 0; i < c->count; i++) {
        const struct flying_slot *slot = slot_of(c, &c->suspects[i]);

        if (slot->grant == grant && strcmp(slot->event_id, event_id) == 0)
            return &c->suspects[i];
    }
    return NULL;
}

static struct grant *open_grant(struct deliverer *d, const struct suspect *s)
{
    struct grant *g = grants_find(d, slot_of(&d->care, s)->grant);

    return g && g->state == GRANT_OPEN ? g : NULL;
}

/* It has nothing to do with it, or is not ours any more. */
static void acquit(struct deliverer *d, struct suspect *s)
{
    const struct flying_slot *slot = slot_of(&d->care, s);
    struct grant *g = grants_find(d, slot->grant);
    struct task *t = g ? tasks_find(&d->tasks, g, slot->event_id) : NULL;

    if (t)
        t->held = false;
    flying_end(&d->care.flying, s->slot);
    strike(&d->care, s);
}

void care_meets(struct deliverer *d, struct task *t)
{
    struct suspect *s = d->care.count
                            ? find(&d->care, t->grant->id, t->event_id)
                            : NULL;

    t->held = s && slot_of(&d->care, s)->crashes > 0;
}

/* ---- what is on our disk ---- */

static void say_dead(struct deliverer *d, struct suspect *s,
                     const struct grant *g, const char *event_id,
                     uint64_t attempts, int64_t first_ms)
{
    outcome_crashed(d, g, event_id, attempts, first_ms);
    s->dead = true;
    s->turn = d->turn;
}

static void end_row(struct deliverer *d, struct suspect *s, struct grant *g)
{
    const struct flying_slot *slot = slot_of(&d->care, s);
    struct task_row row;

    if (!store_task_find(&d->store, g->id, slot->event_id, &row))
        return; /* it is sent again */
    rows_gone(d, g, row.n, row.parked);
    say_dead(d, s, g, slot->event_id, row.attempts, row.first_ms);
}

struct past {
    uint64_t grant;
    bool ended;
};

static void see_attempt(void *self, const struct attempt_row *row)
{
    struct past *p = self;

    p->ended = p->ended ||
               (row->grant == p->grant && row->outcome != OUTCOME_PARKED);
}

/* true: keep it on the list. */
static bool look(struct deliverer *d, struct suspect *s)
{
    const struct flying_slot *slot = slot_of(&d->care, s);
    struct past past = {.grant = slot->grant};
    struct grant *g = open_grant(d, s);

    if (!g)
        return false;
    if (slot->crashes >= CARE_CRASHES) {
        end_row(d, s, g);
        return true;
    }
    if (tasks_find(&d->tasks, g, slot->event_id) ||
        due_bring(d, g, slot->event_id))
        return true;
    /* Neither here nor a row: its end was told just before the crash, or the
     * sequencer sends it again. */
    store_attempts_of_event(&d->store, slot->event_id, see_attempt, &past);
    return !past.ended;
}

static bool to_strike(const struct deliverer *d, const struct suspect *s)
{
    return (s->dead && s->turn != d->turn) ||
           (d->care.lease_ms && mono_ms() - d->care.lease_ms > CARE_FORGET_MS);
}

void care_work(struct deliverer *d)
{
    struct care *c = &d->care;

    for (int i = c->count - 1; i >= 0; i--) {
        struct suspect *s = &c->suspects[i];

        if (to_strike(d, s)) {
            acquit(d, s);
        } else if (!s->looked && !loop_spent(&d->daemon.loop)) {
            s->looked = true;
            if (!look(d, s))
                acquit(d, s);
        }
    }
}

void care_undo(struct deliverer *d)
{
    for (int i = 0; i < d->care.count; i++) {
        struct suspect *s = &d->care.suspects[i];

        if (s->dead && s->turn == d->turn)
            s->dead = s->looked = false;
    }
}

bool care_ends(struct deliverer *d, const struct task *t)
{
    struct suspect *s = d->care.count
                            ? find(&d->care, t->grant->id, t->event_id)
                            : NULL;

    if (!s || slot_of(&d->care, s)->crashes < CARE_CRASHES)
        return false;
    say_dead(d, s, t->grant, t->event_id, t->attempts, t->first_ms);
    return true;
}

/* ---- whose turn it is ---- */

static bool nothing_flies(const struct deliverer *d)
{
    return d->flights.active.count + d->flights.ended.count == 0;
}

/* The first that could begin; *pending: some can't yet. */
static struct task *first_able(struct deliverer *d, bool *pending)
{
    int64_t now_us = mono_us();

    for (int i = 0; i < d->care.count; i++) {
        struct suspect *s = &d->care.suspects[i];
        struct grant *g = open_grant(d, s);
        struct task *t;

        if (!g || s->dead ||
            (slot_of(&d->care, s)->crashes > 0 &&
             mono_ms() - d->care.lease_ms < quiet_ms(&d->care)))
            continue;
        t = tasks_find(&d->tasks, g, slot_of(&d->care, s)->event_id);
        if (t && t->state == TASK_WAITING &&
            endpoint_may_begin(&g->endpoint, t, &d->lanes, now_us))
            return t;
        *pending = true;
    }
    return NULL;
}

/* How long what flies may take to end, so that one that came late is alone. */
static int64_t empty_ms(const struct care *c)
{
    return doubled(CARE_EMPTY_MS, flying_crashes(&c->flying), 7);
}

struct task *care_next(struct deliverer *d, bool *hold)
{
    struct care *c = &d->care;
    int64_t now = mono_ms();
    bool pending = false, free_way;
    struct task *t;

    *hold = false;
    if (!c->count && !c->patience_ms)
        return NULL;
    if (!c->lease_ms)
        c->lease_ms = now;
    t = first_able(d, &pending);
    free_way = nothing_flies(d) || (c->patience_ms && now >= c->patience_ms);
    if (t && !free_way && !c->patience_ms)
        c->patience_ms = now + empty_ms(c);
    if (!t && free_way)
        c->patience_ms = 0;
    *hold = t || c->patience_ms ||
            (pending && now - c->lease_ms < CARE_HOLD_MS);
    return free_way ? t : NULL;
}

void care_begins(struct deliverer *d, struct task *t, bool chosen)
{
    struct care *c = &d->care;
    struct suspect *s = c->count ? find(c, t->grant->id, t->event_id) : NULL;
    bool alone = chosen && nothing_flies(d);

    if (s) {
        t->slot = s->slot;
        t->lost = true;
        strike(c, s);
    } else {
        t->slot = flying_put(&c->flying, t->grant->id, t->event_id);
    }
    if (c->alone != FLYING_NONE)
        flying_company(&c->flying, c->alone);
    flying_begin(&c->flying, t->slot, alone);
    c->alone = alone ? t->slot : FLYING_NONE;
    if (chosen)
        c->patience_ms = mono_ms() + c->each_ms;
}

void care_ended(struct deliverer *d, struct task *t)
{
    struct care *c = &d->care;

    if (t->slot != FLYING_NONE && t->slot == c->alone)
        c->alone = FLYING_NONE;
    flying_end(&c->flying, t->slot);
    t->slot = FLYING_NONE;
}

int care_wait_ms(const struct deliverer *d)
{
    const struct care *c = &d->care;
    int64_t lived = mono_ms() - c->lease_ms;

    if (c->patience_ms)
        return c->patience_ms <= mono_ms() ? 0
                                           : (int)(c->patience_ms - mono_ms());
    if (!c->count || !c->lease_ms)
        return -1;
    if (lived < CARE_HOLD_MS)
        return CARE_HOLD_MS - (int)lived;
    if (lived < quiet_ms(c))
        return (int)(quiet_ms(c) - lived);
    return -1; /* it waits for a row, an answer, or a gate */
}
