#include "grants.h"
#include "clock.h"
#include "deliverer.h"
#include "grant.h"
#include "log.h"
#include "states.h"
#include "take.h"
#include "wire.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    PURGE_ROWS = 256,  /* of a grant that is over, in one turn */
    WANTED_MAX = 4096, /* grants asked for in one beat */
    ASK_GAP_MS = 50,   /* between a beat and one that asks */
    BEAT_MAX_BYTES = 64 * 1024,
};

static const struct state state_table[] = {
    [GRANT_OPEN] = {"open", STATE_TO(GRANT_RECALLED)},
    [GRANT_RECALLED] = {"recalled", STATE_TO(GRANT_DRAINED)},
    [GRANT_DRAINED] = {"drained", STATE_TO(GRANT_OVER)},
    [GRANT_OVER] = {"over", 0},
};
static const struct states grant_states = {"grant", state_table,
                                           COUNT_OF(state_table)};

const char *grant_state_name(int state)
{
    return states_name(&grant_states, state);
}

/* ---- the table ---- */

static struct grant **slot_of(const struct grants *s, uint64_t id)
{
    return &s->table[(id ^ id >> 32) & (s->room - 1)]; /* ids are random */
}

static void grow(struct grants *s)
{
    struct grants larger = {.room = s->room ? 2 * s->room : 256};
    struct grant *g, **slot;

    larger.table = gr_alloc(larger.room * sizeof *larger.table);
    for (size_t i = 0; i < s->room; i++)
        while ((g = s->table[i])) {
            s->table[i] = g->table_next;
            slot = slot_of(&larger, g->id);
            g->table_next = *slot;
            *slot = g;
        }
    free(s->table);
    s->table = larger.table;
    s->room = larger.room;
}

/* Walks all: NULL begins and ends. The one it stands on may not be freed. */
static struct grant *next(const struct grants *s, struct grant *g)
{
    size_t i = 0;

    if (g && g->table_next)
        return g->table_next;
    if (g)
        i = (size_t)(slot_of(s, g->id) - s->table) + 1;
    while (i < s->room && !s->table[i])
        i++;
    return i < s->room ? s->table[i] : NULL;
}

struct grant *grants_find(const struct deliverer *d, uint64_t id)
{
    struct grant *g = d->grants.room ? *slot_of(&d->grants, id) : NULL;

    while (g && g->id != id)
        g = g->table_next;
    return g;
}

struct grant *grants_next(const struct deliverer *d, struct grant *g)
{
    return next(&d->grants, g);
}

struct grant *grants_of(struct endpoint *e)
{
    return (struct grant *)(void *)((char *)e -
                                    offsetof(struct grant, endpoint));
}

static struct grant *add(struct deliverer *d, uint64_t id, struct bytes name)
{
    struct grant *g = gr_alloc(sizeof *g);
    struct grant **slot;

    if (d->grants.count >= d->grants.room)
        grow(&d->grants);
    g->id = id;
    wire_copy(g->name, sizeof g->name, name);
    g->endpoint.due_ms = INT64_MAX;
    slot = slot_of(&d->grants, id);
    g->table_next = *slot;
    *slot = g;
    d->grants.count++;
    return g;
}

static void drop(struct deliverer *d, struct grant *g)
{
    struct grant **slot = slot_of(&d->grants, g->id);

    while (*slot != g)
        slot = &(*slot)->table_next;
    *slot = g->table_next;
    d->grants.count--;
    free(g);
}

/* ---- changes, and taking them back ---- */

/* Before the first change of this turn. */
static void touch(struct deliverer *d, struct grant *g)
{
    if (g->turn == d->turn)
        return;
    g->turn = d->turn;
    g->kept.state = g->state;
    g->kept.on_disk = g->on_disk;
    g->kept.drained_n = g->drained_n;
}

static void write_row(struct deliverer *d, struct grant *g)
{
    touch(d, g);
    store_grant_put(&d->store, g->id, g->name, g->state, g->drained_n);
    g->on_disk = true;
}

static void move(struct deliverer *d, struct grant *g, enum grant_state to)
{
    touch(d, g);
    if (g->state == GRANT_OPEN) {
        g->closing_next = d->grants.closing;
        d->grants.closing = g;
    }
    states_move(&grant_states, &g->state, to, NULL, g->name, NULL);
    write_row(d, g);
}

static void find_closing(struct deliverer *d)
{
    d->grants.closing = NULL;
    for (struct grant *g = next(&d->grants, NULL); g; g = next(&d->grants, g))
        if (g->state != GRANT_OPEN) {
            g->closing_next = d->grants.closing;
            d->grants.closing = g;
        }
}

struct grant *grants_take(struct deliverer *d, uint64_t id, struct bytes name)
{
    struct grant *g = grants_find(d, id);

    if (!g)
        g = add(d, id, name);
    if (!g->on_disk && g->state != GRANT_OVER)
        write_row(d, g);
    /* We are leaving: what is given to us now is given back at once. */
    if (d->daemon.loop.stopping)
        grants_recall(d, g, "stopping");
    return g;
}

/* ---- from disk ---- */

static void on_row(void *self, uint64_t id, const char *name, int state,
                   uint64_t drained_n)
{
    struct deliverer *d = self;
    struct grant *g = add(d, id, wire_text(name));

    g->state = state >= GRANT_OPEN && state <= GRANT_OVER ? state : GRANT_OVER;
    g->drained_n = drained_n;
    g->on_disk = true;
    g->over_ms = mono_ms();
}

static void on_count(void *self, uint64_t id, int64_t count, int64_t parked,
                     int64_t due_ms)
{
    struct deliverer *d = self;
    struct grant *g = grants_find(d, id);

    if (!g) { /* rows whose grant is gone: purge them */
        g = add(d, id, wire_text("?"));
        g->state = GRANT_OVER;
    }
    g->endpoint.rows = count;
    g->endpoint.due_ms = due_ms;
    if (parked)
        gate_doubt(&g->endpoint.gate);
    grants_count_parked(d, g, parked);
}

void grants_count_parked(struct deliverer *d, struct grant *g, int64_t more)
{
    if (g->state != GRANT_OPEN)
        return;
    g->endpoint.parked += more;
    d->parked_rows += more;
}

void grants_open(struct deliverer *d)
{
    store_grants(&d->store, on_row, d);
    store_task_counts(&d->store, on_count, d);
    find_closing(d);
    d->grants.ask = d->grants.count > 0;
}

void grants_close(struct deliverer *d)
{
    struct grant *g;

    for (size_t i = 0; i < d->grants.room; i++)
        while ((g = d->grants.table[i])) {
            d->grants.table[i] = g->table_next;
            endpoint_config_drop(g->endpoint.config);
            free(g);
        }
    free(d->grants.table);
    d->grants = (struct grants){0};
}

/* Memory as the disk has it. The queues were emptied before. */
void grants_undo(struct deliverer *d)
{
    struct grant *g;

    for (g = next(&d->grants, NULL); g; g = next(&d->grants, g)) {
        if (g->turn == d->turn) {
            g->state = g->kept.state;
            g->on_disk = g->kept.on_disk;
            g->drained_n = g->kept.drained_n;
        }
        g->endpoint.rows = g->endpoint.rows_here = g->endpoint.parked = 0;
        g->endpoint.due_ms = INT64_MAX;
    }
    d->parked_rows = 0;
    store_task_counts(&d->store, on_count, d);
    find_closing(d);
    for (g = next(&d->grants, NULL); g; g = next(&d->grants, g))
        endpoint_schedule(&g->endpoint, &d->schedule);
}

/* ---- the lease ---- */

bool grants_may_begin(const struct deliverer *d)
{
    return mono_ms() < d->grants.lease_until_ms;
}

/* Takes over `config`; NULL: unconfirmed. */
static void set_config(struct deliverer *d, struct grant *g,
                       struct endpoint_config *config)
{
    d->grants.confirmed += (config != NULL) - (g->endpoint.config != NULL);
    endpoint_config_drop(g->endpoint.config);
    g->endpoint.config = config;
    endpoint_schedule(&g->endpoint, &d->schedule);
}

/* Past the lease nothing is confirmed but by an answer that is newer than it.
 */
static void lapse(struct deliverer *d, int64_t now)
{
    int count = 0;

    if (now < d->grants.lease_until_ms || d->grants.confirmed == 0)
        return;
    for (struct grant *g = next(&d->grants, NULL); g; g = next(&d->grants, g))
        if (g->endpoint.config && g->stamp_ms + grant_lease_ms() <= now) {
            if (g->endpoint.config->ordered != LANES_NONE)
                flights_interrupt(&d->flights, g, "our lease was over");
            set_config(d, g, NULL);
            count++;
        }
    d->grants.ask = d->grants.ask || count;
    if (count)
        log_warn(NULL,
                 "the sequencer is silent: nothing is begun until it "
                 "confirms again",
                 LI("grants", count));
}

/* An answer to a beat of this run, whose lease has not passed. */
static bool counts(const struct deliverer *d, uint64_t run, int64_t stamp_ms,
                   int64_t now)
{
    return run == d->daemon.run && stamp_ms <= now &&
           stamp_ms + grant_lease_ms() > now;
}

void grants_pulse(struct deliverer *d, struct bytes frame)
{
    struct wire_pulse p;
    int64_t now = mono_ms();

    if (wire_get_pulse(&p, frame) != GR_OK) {
        log_warn(NULL, "a pulse makes no sense; dropped");
        return;
    }
    if (!counts(d, p.run, p.stamp_ms, now))
        return;
    lapse(d, now); /* what lapsed while we slept stays lapsed */
    if (p.stamp_ms + grant_lease_ms() > d->grants.lease_until_ms)
        d->grants.lease_until_ms = p.stamp_ms + grant_lease_ms();
}

/* Rows that were due while we could not begin (we were down, or without the
 * sequencer) do not go all at once. */
static void note_late(struct grant *g)
{
    struct endpoint *e = &g->endpoint;

    if (!e->config && e->rows > 0 && e->due_ms < INT64_MAX)
        gate_late(&e->gate, now_ms() - e->due_ms, mono_us());
}

static void confirm(struct deliverer *d, struct grant *g,
                    const struct wire_granted *w)
{
    struct endpoint_config *config;
    const char *why;

    if (endpoint_config_new(&config, w->config, &why) != GR_OK) {
        log_warn(NULL, "an endpoint can't be served as it is configured",
                 LS("endpoint", g->name), LS("why", why));
        return;
    }
    g->stamp_ms = w->stamp_ms;
    gate_configure(&g->endpoint.gate, config);
    note_late(g);
    set_config(d, g, config);
}

void grants_granted(struct deliverer *d, struct bytes frame)
{
    struct wire_granted w;
    struct grant *g;

    if (wire_get_granted(&w, frame) != GR_OK || !w.grant || !w.endpoint.n ||
        w.endpoint.n > NAME_MAX_BYTES) {
        log_warn(NULL, "a grant makes no sense; dropped");
        return;
    }
    if (!counts(d, w.run, w.stamp_ms, mono_ms()))
        return;
    g = grants_take(d, w.grant, w.endpoint);
    if (g->state == GRANT_OPEN && wire_is(w.endpoint, g->name))
        confirm(d, g, &w);
}

void grants_voided(struct deliverer *d, struct bytes frame)
{
    struct wire_voided v;
    struct grant *g;

    if (wire_get_voided(&v, frame) != GR_OK)
        return;
    g = grants_find(d, v.grant);
    if (g)
        grants_recall(d, g, "the sequencer has ended it");
}

/* ---- giving back ---- */

/* What waits in memory is forgotten; its rows are purged later. */
static void forget_queue(struct deliverer *d, struct endpoint *e)
{
    struct task *t;

    while ((t = e->fresh.first ? e->fresh.first : e->due.first)) {
        endpoint_remove(e, t);
        e->rows_here -= t->row != 0;
        take_settled(d, t);
        tasks_drop(&d->tasks, t);
    }
}

void grants_recall(struct deliverer *d, struct grant *g, const char *why)
{
    if (g->state != GRANT_OPEN)
        return;
    log_info(NULL, "giving an endpoint back", LS("endpoint", g->name),
             LS("why", why), LI("in_flight", g->endpoint.in_flight),
             LI("rows", g->endpoint.rows));
    grants_count_parked(d, g, -g->endpoint.parked);
    move(d, g, GRANT_RECALLED);
    g->endpoint.gate.breaker = (struct breaker){0};
    g->endpoint.recovered_ms = 0;
    forget_queue(d, &g->endpoint);
    set_config(d, g, NULL);
}

void grants_recall_all(struct deliverer *d, const char *why)
{
    for (struct grant *g = next(&d->grants, NULL); g; g = next(&d->grants, g))
        grants_recall(d, g, why);
}

static void put_drained(struct deliverer *d, struct grant *g)
{
    touch(d, g);
    g->drained_n = results_put_drained(d, g->id);
}

void grants_drain_again(struct deliverer *d)
{
    for (struct grant *g = d->grants.closing; g; g = g->closing_next)
        if (g->state == GRANT_DRAINED) {
            put_drained(d, g);
            write_row(d, g);
        }
}

static void purge(struct deliverer *d, struct grant *g)
{
    int n;

    if (g->state < GRANT_DRAINED || g->endpoint.rows <= 0 ||
        loop_spent(&d->daemon.loop))
        return;
    n = store_tasks_purge(&d->store, g->id, PURGE_ROWS);
    g->endpoint.rows = n < PURGE_ROWS ? 0 : g->endpoint.rows - n;
}

/* One step of a grant that is not OPEN. true: nothing of it is left, on disk
 * or here. */
static bool step(struct deliverer *d, struct grant *g, int64_t now)
{
    if (g->state == GRANT_RECALLED && g->endpoint.in_flight == 0) {
        put_drained(d, g);
        move(d, g, GRANT_DRAINED);
    }
    if (g->state == GRANT_DRAINED &&
        hop_cursor(d->daemon.hop, SEQUENCER) >= g->drained_n) {
        move(d, g, GRANT_OVER);
        g->over_ms = now;
    }
    purge(d, g);
    if (g->state != GRANT_OVER || g->endpoint.rows > 0 || g->turn == d->turn)
        return false;
    if (g->on_disk) {
        touch(d, g);
        store_grant_gone(&d->store, g->id);
        g->on_disk = false;
        return false;
    }
    return now - g->over_ms >= grant_lease_ms();
}

void grants_work(struct deliverer *d)
{
    struct grant *g, **link = &d->grants.closing;
    int64_t now = mono_ms();

    lapse(d, now);
    while ((g = *link)) {
        if (!step(d, g, now)) {
            link = &g->closing_next;
            continue;
        }
        *link = g->closing_next;
        drop(d, g);
    }
}

bool grants_all_drained(const struct deliverer *d)
{
    for (struct grant *g = next(&d->grants, NULL); g; g = next(&d->grants, g))
        if (g->state < GRANT_DRAINED)
            return false;
    return true;
}

/* ---- the beat ---- */

static void put_u64(struct buf *b, uint64_t v)
{
    unsigned char le[8];

    for (int i = 0; i < 8; i++)
        le[i] = (unsigned char)(v >> (8 * i));
    buf_put(b, le, sizeof le);
}

/* Without work too: one that has ended is to be forgotten. */
static bool wants(const struct grant *g)
{
    return g->state == GRANT_OPEN && !g->endpoint.config;
}

static uint64_t put_wanted(const struct deliverer *d, struct buf *out)
{
    uint64_t count = 0;

    for (struct grant *g = next(&d->grants, NULL); g && count < WANTED_MAX;
         g = next(&d->grants, g))
        if (wants(g)) {
            put_u64(out, g->id);
            count++;
        }
    return count;
}

static void beat(struct deliverer *d, int64_t now)
{
    char to[INBOX_MAX_BYTES + 1];
    struct buf wanted, frame;
    struct wire_beat b = {
        .from = wire_text(d->daemon.name),
        .inbox = wire_text(mailbox_address(d->daemon.mailbox)),
        .store = d->store.id,
        .run = d->daemon.run,
        .stamp_ms = now};

    buf_init(&wanted, WANTED_MAX * 8);
    buf_init(&frame, BEAT_MAX_BYTES);
    b.wanted_count = put_wanted(d, &wanted);
    b.wanted = (struct bytes){wanted.data ? wanted.data : "", wanted.len};
    wire_put_beat(&frame, &b);
    mailbox_address_of(d->daemon.mailbox, SEQUENCER, to);
    /* A beat that finds no room is one that was lost. */
    if (mailbox_send(d->daemon.mailbox, to,
                     (struct bytes){frame.data, frame.len}) != GR_OK)
        log_debug(NULL, "no room for a beat");
    buf_fini(&frame);
    buf_fini(&wanted);
}

void grants_tell(struct deliverer *d)
{
    int64_t now = mono_ms();
    bool asks = d->grants.ask && now - d->grants.beaten_ms >= ASK_GAP_MS;

    /* Whoever leaves does not say that he is there: he is given nothing. */
    if (d->daemon.loop.stopping || (now < d->grants.beat_ms && !asks))
        return;
    beat(d, now);
    d->grants.ask = false;
    d->grants.beaten_ms = now;
    d->grants.beat_ms = now + grant_beat_ms();
}

int grants_wait_ms(const struct deliverer *d)
{
    int64_t now = mono_ms(), at = d->grants.beat_ms;

    if (d->daemon.loop.stopping)
        return -1;
    if (d->grants.ask)
        at = d->grants.beaten_ms + ASK_GAP_MS;
    if (d->grants.lease_until_ms > now && d->grants.lease_until_ms < at)
        at = d->grants.lease_until_ms;
    return at <= now ? 0 : (int)(at - now);
}
