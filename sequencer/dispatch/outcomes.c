/* outcomes: tells the processes that sent events what has become of them. */
#include "outcomes.h"
#include "clock.h"
#include "log.h"
#include "processes.h"
#include "sequencer.h"
#include "store.h"
#include "workspace_erase.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Kinds of processes that are told what becomes of their events. */
static const char *const kinds[] = {"outbox"};

enum {
    UNSENT_MAX =
        65536, /* events of which it is remembered that a row is unsent */
    UNACKED_MAX =
        20000, /* rows that are read to find the oldest event of them */
    CUT_PER_TURN = 4096,
    LOOK_MS = 1000,
    SILENT_MS = 5 * MINUTE_MS, /* without an acknowledgement: it is logged … */
    SAY_MS = HOUR_MS,          /* … and again after this time */
    KEEP_DAYS = 7,             /* rows that were acknowledged */
    UNACKED_DAYS = 30,         /* events whose outcome was not */
};

struct subscriber {
    int64_t id;
    char name[NAME_MAX_BYTES + 1];
    /* The event of each row that was put and not sent, with the row's number. Some may be
     * missing: then a change adds a row more. */
    struct lookup unsent;
    /* No unacknowledged row is about an event below this one. */
    int64_t oldest, oldest_ms; /* and the mono time at which it was looked up */
    int64_t marked_ms;         /* wall: of the last row in `outcome_marks` */
    uint64_t cursor;           /* at the last look … */
    int64_t moved_ms, said_ms; /* mono: … and since when it has that value */
};

struct outcomes {
    struct db *db;
    struct subscriber **all; /* by id */
    size_t count;
    int64_t looked_ms; /* mono */
    int64_t dropped;   /* outcomes that were not acknowledged; not logged yet */
    stmt *subscribers, *add, *of_event, *set;
    stmt *mark, *first_mark, *drop_mark;
    stmt *decision, *refusal, *replay, *event, *deliveries;
};

#define AT(field) offsetof(struct outcomes, field)

static const struct db_statement statements[] = {
    {AT(subscribers),
     "SELECT id, name, (SELECT max(at_ms) FROM outcome_marks WHERE "
     "subscriber = id) FROM subscribers ORDER BY id"},
    {AT(add), "INSERT INTO subscribers(name) VALUES(?) RETURNING id"},
    {AT(of_event), "SELECT subscriber FROM events WHERE n = ?"},
    {AT(set), "UPDATE events SET subscriber = ?2 WHERE n = ?1"},
    {AT(mark), "INSERT OR REPLACE INTO outcome_marks(subscriber, n, at_ms) "
               "VALUES(?, ?, ?)"},
    {AT(first_mark), "SELECT n, at_ms FROM outcome_marks WHERE subscriber = ? "
                     "ORDER BY n LIMIT 1"},
    {AT(drop_mark), "DELETE FROM outcome_marks WHERE subscriber = ? AND n = ?"},
    {AT(decision), "INSERT OR REPLACE INTO outcome_decisions(event, endpoint, "
                   "generation, resolved) VALUES(?, ?, ?, ?)"},
    {AT(refusal), "SELECT resolved FROM outcome_decisions WHERE event = ? AND "
                  "endpoint = 0"},
    {AT(replay), "INSERT OR REPLACE INTO outcome_replays(event, action_id) "
                 "VALUES(?, ?)"},
    {AT(event),
     "SELECT id, source, provider_id, workspace, status, reason, "
     "duplicate_of, (SELECT action_id FROM outcome_replays WHERE event = n) "
     "FROM events WHERE n = ?"},
    {AT(deliveries),
     "SELECT endpoint, status, attempts, earlier, at_ms, next_ms, "
     "http_status, reason, error, iif(status = 4, (SELECT resolved FROM "
     "outcome_decisions o WHERE o.event = d.event AND o.endpoint = d.endpoint "
     "AND o.generation = d.generation), 0) FROM deliveries d WHERE event = ?"},
};

/* ---- subscribers ---- */

static struct subscriber *keep(struct sequencer *q, struct outcomes *o,
                               int64_t id, const char *name)
{
    struct subscriber *s = gr_alloc(sizeof *s);

    s->id = id;
    wire_copy(s->name, sizeof s->name, wire_text(name));
    s->moved_ms = mono_ms();
    o->all = gr_realloc(o->all, (o->count + 1) * sizeof(void *));
    o->all[o->count++] = s;
    links_keep_log(q->d.links, s->name);
    return s;
}

static void read_subscribers(struct sequencer *q, struct outcomes *o)
{
    while (db_step(o->db, o->subscribers)) {
        struct subscriber *s = keep(q, o, col_i64(o->subscribers, 0),
                                    col_text(o->subscribers, 1));

        s->marked_ms = col_i64(o->subscribers, 2);
    }
    db_done(o->subscribers);
}

static void forget_subscribers(struct outcomes *o)
{
    for (size_t i = 0; i < o->count; i++) {
        lookup_fini(&o->all[i]->unsent);
        free(o->all[i]);
    }
    o->count = 0;
}

struct outcomes *outcomes_open(struct sequencer *q)
{
    struct outcomes *o = gr_alloc(sizeof *o);

    o->db = q->d.db;
    db_prepare_all(o->db, o, statements, COUNT_OF(statements));
    read_subscribers(q, o);
    return o;
}

void outcomes_close(struct outcomes *o)
{
    forget_subscribers(o);
    free(o->all);
    free(o);
}

/* Which rows are in the logs is not known any more. */
void outcomes_undo(struct sequencer *q)
{
    forget_subscribers(q->outcomes);
    read_subscribers(q, q->outcomes);
}

static struct subscriber *by_id(const struct outcomes *o, int64_t id)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->all[i]->id == id)
            return o->all[i];
    return NULL;
}

static struct subscriber *by_name(const struct outcomes *o, const char *name)
{
    for (size_t i = 0; i < o->count; i++)
        if (strcmp(o->all[i]->name, name) == 0)
            return o->all[i];
    return NULL;
}

int64_t outcomes_subscriber(struct sequencer *q, const char *process)
{
    struct outcomes *o = q->outcomes;
    struct subscriber *s;
    bool has = false;

    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        has |= process_is(process, kinds[i]);
    if (!has)
        return 0;
    s = by_name(o, process);
    if (!s) {
        bind_text(o->add, 1, process);
        s = keep(q, o, db_number(o->db, o->add, 0), process);
        log_info(NULL, "a process is told what becomes of its events",
                 LS("peer", process));
    }
    return s->id;
}

static int64_t subscriber_of(struct outcomes *o, int64_t event)
{
    bind_i64(o->of_event, 1, event);
    return db_number(o->db, o->of_event, 0);
}

/* ---- what has changed ---- */

void outcomes_changed_for(struct sequencer *q, int64_t event,
                          int64_t subscriber)
{
    struct outcomes *o = q->outcomes;
    struct subscriber *s = subscriber ? by_id(o, subscriber) : NULL;
    int64_t now = q->d.loop.now_ms;
    size_t at = 0;
    uint64_t n;

    if (!s || lookup_next(&s->unsent, (uint64_t)event, &at) != LOOKUP_END)
        return;
    n = links_next(q->d.links, s->name);
    links_put(q->d.links, s->name, WIRE_KIND_OUTCOME, event);
    if (s->unsent.used < UNSENT_MAX)
        lookup_put(&s->unsent, (uint64_t)event, n);
    if (event < s->oldest)
        s->oldest = event;
    if (!s->marked_ms || now - s->marked_ms >= HOUR_MS || now < s->marked_ms) {
        s->marked_ms = now;
        bind_i64(o->mark, 1, s->id);
        bind_i64(o->mark, 2, (int64_t)n);
        bind_i64(o->mark, 3, now);
        db_run(o->db, o->mark);
    }
    q->metrics[METRIC_OUTCOMES]++;
}

void outcomes_changed(struct sequencer *q, int64_t event)
{
    if (q->outcomes && q->outcomes->count)
        outcomes_changed_for(q, event, subscriber_of(q->outcomes, event));
}

void outcomes_sent_again(struct sequencer *q, const char *process,
                         int64_t event, uint64_t action_id)
{
    struct outcomes *o = q->outcomes;
    int64_t subscriber = outcomes_subscriber(q, process),
            was = o->count ? subscriber_of(o, event) : 0;

    if (subscriber && subscriber != was) {
        bind_i64(o->set, 1, event);
        bind_i64(o->set, 2, subscriber);
        db_run(o->db, o->set);
    }
    if (!subscriber)
        subscriber = was;
    if (subscriber && action_id) {
        bind_i64(o->replay, 1, event);
        bind_i64(o->replay, 2, (int64_t)action_id);
        db_run(o->db, o->replay);
    }
    outcomes_changed_for(q, event, subscriber);
}

void outcomes_decided(struct sequencer *q, int64_t event, int64_t endpoint,
                      int64_t generation, bool resolved)
{
    struct outcomes *o = q->outcomes;

    if (!o->count || !subscriber_of(o, event))
        return;
    bind_i64(o->decision, 1, event);
    bind_i64(o->decision, 2, endpoint);
    bind_i64(o->decision, 3, generation);
    bind_i64(o->decision, 4, resolved);
    db_run(o->db, o->decision);
    outcomes_changed(q, event);
}

/* ---- the message ---- */

/* The delivery that the message names: the first dead one by name that nobody has resolved, else
 * the open one whose last attempt is the latest. */
struct named {
    bool dead;
    int64_t at_ms, http_status;
    const char *endpoint; /* NULL: there is none */
    char *reason, *error;
};

static bool is_better(const struct named *n, bool dead, int64_t at_ms,
                      const char *endpoint)
{
    if (!n->endpoint || dead != n->dead)
        return !n->endpoint || dead;
    return dead ? strcmp(endpoint, n->endpoint) < 0 : at_ms > n->at_ms;
}

static void look_at(struct sequencer *q, stmt *r, struct wire_outcome *m,
                    struct named *n)
{
    const struct endpoint *e = endpoint_by_id(q, col_i64(r, 0));
    int64_t status = col_i64(r, 1), at_ms = col_i64(r, 4),
            next_ms = col_i64(r, 5);
    bool dead = status == DELIVERY_DEAD, resolved = dead && col_i64(r, 9);

    m->dead += dead;
    m->resolved += resolved;
    m->delivered += status == DELIVERY_DELIVERED;
    m->open += status < DELIVERY_DELIVERED;
    m->attempts += (uint64_t)(col_i64(r, 2) - col_i64(r, 3));
    m->attempts_before += (uint64_t)col_i64(r, 3);
    if (at_ms > m->last_ms)
        m->last_ms = at_ms;
    if (status < DELIVERY_DELIVERED && next_ms &&
        (!m->next_ms || next_ms < m->next_ms))
        m->next_ms = next_ms;
    if (status == DELIVERY_DELIVERED || resolved || !e ||
        !is_better(n, dead, at_ms, e->name))
        return;
    free(n->reason);
    free(n->error);
    *n = (struct named){.dead = dead,
                        .at_ms = at_ms,
                        .http_status = col_i64(r, 6),
                        .endpoint = e->name,
                        .reason = gr_strdup(dead ? col_text(r, 7) : ""),
                        .error = gr_strdup(col_text(r, 8))};
}

static const char *state_of(struct outcomes *o, int64_t event, int64_t status,
                            const struct wire_outcome *m)
{
    if (status == EVENT_REFUSED || status == EVENT_IGNORED) {
        bind_i64(o->refusal, 1, event);
        if (db_number(o->db, o->refusal, 0))
            return "resolved";
    }
    if (status == EVENT_BUFFERED)
        return "open";
    if (status != EVENT_ROUTED)
        return event_status_plain((int)status);
    if (m->open)
        return "open";
    if (m->dead)
        return m->resolved == m->dead ? "resolved" : "dead";
    return m->delivered ? "delivered" : "no_endpoint";
}

bool outcomes_load(struct sequencer *q, const char *peer, uint64_t n,
                   int64_t event, struct buf *out)
{
    struct outcomes *o = q->outcomes;
    struct subscriber *s = by_name(o, peer);
    struct wire_outcome m = {.at_ms = q->d.loop.now_ms};
    struct named named = {0};
    int64_t status;
    bool erased;

    if (s)
        lookup_drop(&s->unsent, (uint64_t)event, (size_t)n);
    bind_i64(o->event, 1, event);
    if (!db_step(o->db, o->event)) {
        db_done(o->event);
        return false;
    }
    bind_i64(o->deliveries, 1, event);
    while (db_step(o->db, o->deliveries))
        look_at(q, o->deliveries, &m, &named);
    db_done(o->deliveries);
    m.event_id = wire_text(col_text(o->event, 0));
    m.source = wire_text(col_text(o->event, 1));
    status = col_i64(o->event, 4);
    m.action_id = (uint64_t)col_i64(o->event, 7);
    erased = workspace_is_erased_label(col_text(o->event, 3));
    m.state = wire_text(erased ? "erased" : state_of(o, event, status, &m));
    if (!erased) {
        m.provider_id = wire_text(col_text(o->event, 2));
        m.duplicate_of = wire_text(col_text(o->event, 6));
        m.endpoint = wire_text(named.endpoint ? named.endpoint : "");
        m.http_status = (uint64_t)named.http_status;
        m.reason = wire_text(named.reason ? named.reason
                                          : col_text(o->event, 5));
        m.error = wire_text(named.error ? named.error : "");
    }
    wire_put_outcome(out, &m);
    db_done(o->event);
    free(named.reason);
    free(named.error);
    return true;
}

json_t *outcomes_last_numbers(struct sequencer *q)
{
    json_t *out = json_object();

    for (size_t i = 0; i < q->outcomes->count; i++) {
        const char *name = q->outcomes->all[i]->name;
        json_int_t last = (json_int_t)links_next(q->d.links, name) - 1;

        json_object_set_new(out, name, json_integer(last));
    }
    return out;
}

/* ---- retention ---- */

bool outcomes_needs(struct sequencer *q, int64_t event, int64_t subscriber,
                    int64_t taken_ms)
{
    struct outcomes *o = q->outcomes;
    struct subscriber *s = by_id(o, subscriber);
    int64_t now = q->d.loop.mono_ms;

    if (!s || !links_backlog(q->d.links, s->name))
        return false;
    if (event >= s->oldest &&
        (!s->oldest_ms || now - s->oldest_ms >= LOOK_MS)) {
        s->oldest = links_oldest_ref(q->d.links, s->name, UNACKED_MAX);
        s->oldest_ms = now;
    }
    if (event < s->oldest)
        return false;
    if (taken_ms >= retention_before(&q->d.retention, q->d.loop.now_ms,
                                     UNACKED_DAYS * DAY_MS))
        return true;
    o->dropped++;
    return false;
}

/* Deletes rows before the first mark that is too old. true: there are more. */
static bool cut(struct sequencer *q, struct subscriber *s, int64_t from_ms,
                int64_t to_ms)
{
    struct outcomes *o = q->outcomes;
    uint64_t mark = 0, floor = links_floor_of(q->d.links, s->name), next;

    bind_i64(o->first_mark, 1, s->id);
    if (db_step(o->db, o->first_mark) && (col_i64(o->first_mark, 1) < from_ms ||
                                          col_i64(o->first_mark, 1) > to_ms))
        mark = (uint64_t)col_i64(o->first_mark, 0);
    db_done(o->first_mark);
    if (!mark)
        return false;
    next = mark > floor + CUT_PER_TURN ? floor + CUT_PER_TURN : mark;
    links_floor(q->d.links, s->name, next);
    if (links_floor_of(q->d.links, s->name) < next)
        return false; /* the rest is not acknowledged */
    if (next == mark) {
        bind_i64(o->drop_mark, 1, s->id);
        bind_i64(o->drop_mark, 2, (int64_t)mark);
        db_run(o->db, o->drop_mark);
    }
    return true;
}

static void look(struct sequencer *q, struct subscriber *s)
{
    uint64_t cursor = links_cursor(q->d.links, s->name),
             backlog = links_backlog(q->d.links, s->name);
    int64_t now = q->d.loop.mono_ms;

    if (!backlog || cursor != s->cursor) {
        if (s->said_ms)
            log_info(NULL, "a process takes the outcomes of its events again",
                     LS("peer", s->name), LI("outcomes", backlog));
        s->cursor = cursor;
        s->moved_ms = now;
        s->said_ms = 0;
    } else if (now - s->moved_ms >= SILENT_MS &&
               (!s->said_ms || now - s->said_ms >= SAY_MS)) {
        s->said_ms = now;
        log_warn(NULL,
                 "a process does not take the outcomes of its events; start "
                 "it, or they are deleted 30 days after their events arrived",
                 LS("peer", s->name), LI("outcomes", backlog),
                 LI("minutes", (now - s->moved_ms) / MINUTE_MS));
    }
}

bool outcomes_work(struct sequencer *q)
{
    struct outcomes *o = q->outcomes;
    struct retention *r = &q->d.retention;
    int64_t now = q->d.loop.now_ms, from_ms, to_ms,
            keep = q->d.settings->history_keep_ms;
    bool more = false;

    if (!o->count ||
        (o->looked_ms && q->d.loop.mono_ms - o->looked_ms < LOOK_MS))
        return false;
    if (keep > KEEP_DAYS * DAY_MS)
        keep = KEEP_DAYS * DAY_MS;
    from_ms = retention_before(r, now, keep);
    to_ms = retention_after(r, now, keep);
    if (retention_history(r, q->d.db, q->d.settings, now) == INT64_MAX)
        from_ms = INT64_MAX;
    for (size_t i = 0; i < o->count; i++) {
        look(q, o->all[i]);
        more |= cut(q, o->all[i], from_ms, to_ms);
    }
    if (o->dropped)
        log_warn(NULL,
                 "events are purged after 30 days, though their process has "
                 "not taken all outcomes",
                 LI("events", o->dropped));
    o->dropped = 0;
    o->looked_ms = more ? 0 : q->d.loop.mono_ms;
    return more;
}
