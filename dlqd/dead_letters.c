/* dead_letters: stores what the sequencer reports, changes states, and deletes old dead
 * letters. */
#include "dead_letters.h"
#include "clock.h"
#include "log.h"
#include "wire.h"
#include <stdio.h>
#include <stdlib.h>

enum {
    PURGE_MAX = 32,         /* dead letters per turn, about 5 ms */
    PURGE_EVERY_MS = 60000, /* when there was nothing to delete */
};

/* ---- transitions ---- */

void dead_letter_transition(struct dlqd *d, struct dead_letter *l, int to,
                            const char *what)
{
    int from = l->state;
    int64_t now = d->daemon.loop.now_ms;

    states_transition(&dead_letter_states, &l->state, to, l->event_id, l->id,
                      &d->metrics[M_MOVED]);
    d->metrics[M_DEAD_LETTERS + from]--;
    d->metrics[M_DEAD_LETTERS + to]++;
    store_move(&d->store, l->n, to, l->generation, now);
    if (from == DEAD_LETTER_REQUEUED)
        store_requeues_forget(&d->store, l->n);
    store_history_add(&d->store, l->n, now,
                      states_name(&dead_letter_states, from),
                      states_name(&dead_letter_states, to), what);
}

/* ---- dead ---- */

static bool fits(struct bytes text, size_t min, size_t max)
{
    return text.n >= min && text.n <= max;
}

/* Whether dlqd can store this and send it back later. If not, the message is refused: the link
 * sets it aside with its bytes. */
static bool is_storable(const struct wire_dead *m)
{
    return fits(m->dead_letter_id, 1, TEXT_MAX_BYTES) &&
           fits(m->event_id, 1, TEXT_MAX_BYTES) &&
           fits(m->endpoint, 0, NAME_MAX_BYTES) &&
           fits(m->source, 0, NAME_MAX_BYTES) &&
           fits(m->reason, 1, TEXT_MAX_BYTES) && m->generation >= 1 &&
           m->generation <= INT64_MAX && m->sequence <= INT64_MAX &&
           m->previous <= INT64_MAX && m->attempts <= INT64_MAX &&
           m->last_http_status <= 999;
}

/* For the history: "budget_attempts after 12 attempts: responded 503". */
static char *dead_letter_text(const struct wire_dead *m)
{
    struct buf b;
    char *text;

    buf_init(&b, 2 * TEXT_MAX_BYTES);
    buf_put(&b, m->reason.p, m->reason.n);
    if (m->attempts)
        buf_printf(&b, " after %llu attempt%s", (unsigned long long)m->attempts,
                   m->attempts == 1 ? "" : "s");
    if (m->last_http_status && !m->last_error.n)
        buf_printf(&b, ", last response %llu",
                   (unsigned long long)m->last_http_status);
    if (m->last_error.n) {
        buf_puts(&b, ": ");
        buf_put(&b, m->last_error.p, m->last_error.n);
    }
    text = buf_take(&b);
    return text ? text : gr_strdup("");
}

static void keep_new(struct dlqd *d, const char *from,
                     const struct wire_dead *m, const char *what)
{
    int64_t now = d->daemon.loop.now_ms;
    int64_t n = store_insert(&d->store, from, m, now);
    char *event = wire_dup(m->event_id), *id = wire_dup(m->dead_letter_id);

    store_history_add(&d->store, n, now, NULL,
                      states_name(&dead_letter_states, DEAD_LETTER_DEAD), what);
    d->metrics[M_DEAD_LETTERS + DEAD_LETTER_DEAD]++;
    log_info(event, "a dead letter is stored", LS("dead_letter", id),
             LS("summary", what));
    free(event);
    free(id);
}

static void keep_again(struct dlqd *d, struct dead_letter *l,
                       const struct wire_dead *m, const char *what)
{
    bool odd = l->state != DEAD_LETTER_REQUEUED ||
               m->generation == (uint64_t)l->generation;

    if (odd)
        log_warn(
            l->event_id,
            "this dead letter was dead-lettered again without a requeue: "
            "this process or the sequencer was restored from an older copy",
            LS("dead_letter", l->id),
            LS("state", states_name(&dead_letter_states, l->state)),
            LI("generation", l->generation),
            LI("peer_generation", m->generation));
    l->generation = (int64_t)m->generation;
    dead_letter_transition(d, l, DEAD_LETTER_DEAD, what);
    store_dead_again(&d->store, l->n, m, d->daemon.loop.now_ms);
    log_info(l->event_id, "a requeued dead letter failed again",
             LS("dead_letter", l->id), LI("generation", m->generation),
             LS("summary", what));
}

/* Count a dead letter in this state since `at_ms`. After a restore, earlier messages are
 * received again, which were counted then. A restore time in the future comes from a clock that was
 * ahead, and is ignored. */
static void count(struct dlqd *d, int state, int64_t at_ms)
{
    if (at_ms >= d->counted_since_ms ||
        d->counted_since_ms > d->daemon.loop.now_ms)
        d->metrics[M_MOVED + state]++;
}

static void on_dead(struct dlqd *d, const char *from, const struct wire_dead *m)
{
    struct dead_letter l = {0};
    bool have = store_find(&d->store, m->dead_letter_id, &l);
    char *what = dead_letter_text(m);

    switch (dead_letter_died(have ? &l : NULL, m->generation, m->dead_ms)) {
    case DEAD_LETTER_NEW:
        keep_new(d, from, m, what);
        count(d, DEAD_LETTER_DEAD, m->dead_ms);
        break;
    case DEAD_LETTER_MOVES:
        keep_again(d, &l, m, what);
        d->metrics[M_MOVED +
                   DEAD_LETTER_DEAD]--; /* counted by the transition */
        count(d, DEAD_LETTER_DEAD, m->dead_ms);
        break;
    case DEAD_LETTER_DUPLICATE:
    case DEAD_LETTER_UNKNOWN:
        d->metrics[M_DUPLICATES]++;
        break;
    }
    free(what);
    dead_letter_fini(&l);
}

/* ---- recovered ---- */

static void on_recovered(struct dlqd *d, const struct wire_recovered *m)
{
    struct dead_letter l = {0};
    bool have = store_find(&d->store, m->dead_letter_id, &l);
    char *id = wire_dup(m->dead_letter_id);

    switch (dead_letter_recovered(have ? &l : NULL, m->generation)) {
    case DEAD_LETTER_MOVES:
        l.generation = (int64_t)m->generation;
        dead_letter_transition(
            d, &l, DEAD_LETTER_RECOVERED,
            !l.endpoint ? "accepted later and routed"
            : l.state == DEAD_LETTER_REQUEUED
                ? "delivered after the requeue"
                : "delivered by an attempt that was still in progress");
        d->metrics[M_MOVED +
                   DEAD_LETTER_RECOVERED]--; /* counted by the transition */
        count(d, DEAD_LETTER_RECOVERED, m->at_ms);
        log_info(l.event_id, "a dead letter is recovered",
                 LS("dead_letter", id));
        break;
    case DEAD_LETTER_UNKNOWN:
        d->metrics[M_UNKNOWN]++;
        log_warn(NULL,
                 "a dead letter that is not stored here was delivered: it was "
                 "deleted, or this database is an older copy",
                 LS("dead_letter", id));
        break;
    case DEAD_LETTER_DUPLICATE:
    case DEAD_LETTER_NEW:
        d->metrics[M_DUPLICATES]++;
        break;
    }
    free(id);
    dead_letter_fini(&l);
}

gr_rc dead_letters_apply(void *self, const char *from, uint64_t n,
                         struct bytes msg)
{
    struct wire_recovered recovered;
    struct wire_dead dead;

    (void)n; /* a number is not an identity: links can be rewound */
    switch (wire_kind(msg)) {
    case WIRE_KIND_DEAD:
        if (wire_get_dead(&dead, msg) != GR_OK || !is_storable(&dead))
            return GR_REFUSE;
        on_dead(self, from, &dead);
        return GR_OK;
    case WIRE_KIND_RECOVERED:
        if (wire_get_recovered(&recovered, msg) != GR_OK ||
            recovered.generation > INT64_MAX)
            return GR_REFUSE;
        on_recovered(self, &recovered);
        return GR_OK;
    default:
        return GR_REFUSE;
    }
}

/* ---- retention ---- */

static void purge_one(struct dlqd *d, int64_t n)
{
    struct dead_letter l;

    if (!store_find_n(&d->store, n, &l))
        return;
    /* No operator decided about a dead one in that time: log it, and let a lane that it halts
     * continue. */
    if (l.state == DEAD_LETTER_DEAD)
        store_decision_add(&d->store, &l, "deleted after dlq.keep");
    if (l.state == DEAD_LETTER_DEAD)
        log_warn(
            l.event_id,
            "a dead letter without a decision is deleted: it is older than "
            "dlq.keep",
            LS("dead_letter", l.id), LS("endpoint", l.endpoint),
            LS("reason", l.reason));
    store_drop(&d->store, n);
    d->metrics[M_DEAD_LETTERS + l.state]--;
    d->metrics[M_PURGED]++;
    dead_letter_fini(&l);
}

int dead_letters_purge(struct dlqd *d)
{
    static const int states[] = {DEAD_LETTER_RECOVERED, DEAD_LETTER_RESOLVED,
                                 DEAD_LETTER_DISCARDED, DEAD_LETTER_DEAD};
    int64_t before_ms = retention_before(&d->daemon.retention,
                                         d->daemon.loop.now_ms,
                                         d->daemon.settings->dlq_keep_ms);
    int64_t after_ms = retention_after(&d->daemon.retention,
                                       d->daemon.loop.now_ms,
                                       d->daemon.settings->dlq_keep_ms);
    int64_t now = d->daemon.loop.mono_ms, old[PURGE_MAX];
    int count = 0;

    if (now < d->purge_due_ms)
        return (int)(d->purge_due_ms - now);
    for (size_t i = 0; i < COUNT_OF(states); i++) {
        count = store_old(&d->store, states[i], before_ms, after_ms, old,
                          PURGE_MAX);
        for (int k = 0; k < count; k++)
            purge_one(d, old[k]);
        if (count)
            break; /* one limited step per turn */
    }
    if (count)
        return 0;
    d->purge_due_ms = now + PURGE_EVERY_MS;
    return PURGE_EVERY_MS;
}

/* ---- erasure ---- */

enum { ERASE_ROWS = 64 };

static void erase_one(struct dlqd *d, int64_t n)
{
    struct dead_letter l;

    if (!store_find_n(&d->store, n, &l))
        return;
    if (l.endpoint)
        store_decision_add(&d->store, &l, "erased");
    store_erase_replies(&d->store, l.id);
    store_drop(&d->store, n);
    d->metrics[M_DEAD_LETTERS + l.state]--;
    dead_letter_fini(&l);
}

bool dlqd_owns(void *self, const struct erase_step *s, const char *id)
{
    struct dlqd *d = self;
    struct dead_letter l = {0};
    bool found = store_find(&d->store, wire_text(id), &l);

    if (!found) { /* or one of an event's */
        store_event(&d->store, id);
        while (store_event_next(&d->store, &l)) {
            found = found || erase_is(s, l.workspace);
            dead_letter_fini(&l);
        }
        return found;
    }
    found = erase_is(s, l.workspace);
    dead_letter_fini(&l);
    return found;
}

void dlqd_erase(void *self, struct erase_step *s)
{
    int64_t rows[ERASE_ROWS], found[ERASE_ROWS];
    struct dlqd *d = self;
    const char *workspace;
    int count = 0, n = 0;

    s->done = s->phase != ERASE_REST;
    if (s->done)
        return;
    store_workspaces(&d->store, s->position);
    while (count < ERASE_ROWS &&
           store_workspaces_next(&d->store, &rows[count], &workspace)) {
        if (erase_is(s, workspace))
            found[n++] = rows[count];
        count++;
    }
    store_workspaces_done(&d->store);
    for (int i = 0; i < n; i++)
        erase_one(d, found[i]);
    s->changed += n;
    if (count)
        s->position = rows[count - 1];
    s->done = !count;
}
