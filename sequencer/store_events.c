/* Events, and which requests they came in. */
#include "store_inside.h"
#include "sums.h"
#include <stddef.h>
#include <string.h>

#define DUPLICATE "1" /* EVENT_DUPLICATE */
#define BUFFERED  "3" /* EVENT_BUFFERED */
/* enum event_end. Without deliveries it is done. */
#define END_OF_EVENT                                                        \
    "(SELECT CASE WHEN min(d.status) < 3 THEN 0 WHEN min(d.status = 4 AND " \
    "d.reason = 'expired') THEN 2 ELSE 1 END FROM deliveries d WHERE "      \
    "d.event = events.n)"

#define AT(field) offsetof(struct store, field)

static const struct db_statement statements[] = {
    {AT(last_event), "SELECT max(n) FROM events"},
    {AT(event_add),
     "INSERT INTO events(" EVENT_COLUMNS
     ", sum) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,"
     "?18,?19,?20, content_sum(?1,?2,?3,?4,?5,?6,?7,?10,?11,?14,?15,?16,?20))"},
    /* A checksum that is wrong stays wrong: it is also of columns that are not set
     * here. */
    {AT(event_set),
     "UPDATE events SET status = ?2, sequence = ?3, clock = ?4, "
     "reason = ?5, provider_id = ?6, type = ?7, workspace = ?8, "
     "duplicate_of = ?9, source_sequence = ?10, late = ?11, gap "
     "= ?12, note = ?13, let_go_ms = ?14, reopened_ms = ?15, delivery_id = "
     "?16, sum = CASE WHEN " DB_INTACT(
         SUM_EVENTS) " THEN content_sum(n, id, "
                     "source, ?6, ?7, ?8, received_ms, ?3, ?4, ?10, ?11, ?12, "
                     "?16) ELSE sum "
                     "END WHERE n = ?1"},
    {AT(event), "SELECT " EVENT_COLUMNS " FROM events WHERE n = ?"},
    {AT(event_by_id), "SELECT " EVENT_COLUMNS " FROM events WHERE id = ?"},
    {AT(event_n), "SELECT n FROM events WHERE id = ?"},
    {AT(event_ended),
     "SELECT EXISTS (SELECT 1 FROM deliveries WHERE event = ?1 AND status < 3) "
     "OR EXISTS (SELECT 1 FROM events WHERE n = ?1 AND status IN (" BUFFERED
     ", " DUPLICATE "))"},
    {AT(event_totals),
     "SELECT count(*), ifnull(sum(status = 4), 0), ifnull(sum(attempts), 0), "
     "ifnull(min(status = 4 AND reason = 'expired'), 0), "
     "ifnull(max(reopened_ms), 0) FROM deliveries WHERE event = ?"},
    {AT(event_end), "SELECT " END_OF_EVENT " FROM events WHERE n = ?"},
    {AT(digest_add), "INSERT OR REPLACE INTO event_digests VALUES(?, ?)"},
    {AT(digest), "SELECT digest FROM event_digests WHERE event = ?"},
    {AT(transition_add),
     "INSERT OR REPLACE INTO transitions VALUES(?, ?, ?, ?)"},
    {AT(transition), "SELECT object, from_state, to_state FROM transitions "
                     "WHERE event = ?"},
    {AT(part_add), "INSERT INTO parts(event, request) VALUES(?, ?)"},
    {AT(part_of), "SELECT request FROM parts WHERE event = ?"},
    {AT(parts), "SELECT " EVENT_COLUMNS ", " END_OF_EVENT
                " FROM events WHERE n IN (SELECT event FROM parts WHERE "
                "request = ?) ORDER BY n"},
};

void store_prepare_events(struct store *s)
{
    db_prepare_all(s->db, s, statements, COUNT_OF(statements));
}

/* ---- events ---- */

int64_t store_last_event(struct store *s)
{
    return db_number(s->db, s->last_event, 0);
}

static void bind_number_or_null(stmt *q, int i, uint64_t v)
{
    if (v)
        bind_i64(q, i, (int64_t)v);
    else
        bind_text(q, i, NULL);
}

static const char *or_null(const char *t)
{
    return t && *t ? t : NULL;
}

/* delivery_ids.sql */
static void bind_delivery_id(stmt *q, int i, const struct event_row *e)
{
    const char *id = or_null(e->delivery_id);

    bind_text(q, i,
              id && e->provider_id && strcmp(id, e->provider_id) == 0 ? ""
                                                                      : id);
}

/* Six columns from i on. NULL where there is nothing: a byte each. */
static void bind_order(stmt *q, int i, const struct event_row *e)
{
    if (e->numbered)
        bind_i64(q, i, e->source_sequence);
    else
        bind_text(q, i, NULL);
    bind_number_or_null(q, i + 1, e->late);
    bind_text(q, i + 2, or_null(e->gap));
    bind_text(q, i + 3, or_null(e->note));
    bind_number_or_null(q, i + 4, (uint64_t)e->let_go_ms);
    bind_number_or_null(q, i + 5, (uint64_t)e->reopened_ms);
}

void store_event_add(struct store *s, const struct event_row *e)
{
    stmt *q = s->event_add;

    bind_i64(q, 1, e->n);
    bind_text(q, 2, e->id);
    bind_text(q, 3, e->source);
    bind_text(q, 4, or_null(e->provider_id));
    bind_text(q, 5, e->type);
    bind_text(q, 6, e->workspace);
    bind_i64(q, 7, e->received_ms);
    bind_i64(q, 8, e->taken_ms);
    bind_i64(q, 9, e->status);
    bind_number_or_null(q, 10, e->sequence);
    bind_text(q, 11, or_null(e->clock));
    bind_text(q, 12, or_null(e->reason));
    bind_text(q, 13, or_null(e->duplicate_of));
    bind_order(q, 14, e);
    bind_delivery_id(q, 20, e);
    db_run(s->db, q);
}

void store_event_set(struct store *s, const struct event_row *e)
{
    stmt *q = s->event_set;

    bind_i64(q, 1, e->n);
    bind_i64(q, 2, e->status);
    bind_number_or_null(q, 3, e->sequence);
    bind_text(q, 4, or_null(e->clock));
    bind_text(q, 5, or_null(e->reason));
    bind_text(q, 6, or_null(e->provider_id));
    bind_text(q, 7, e->type);
    bind_text(q, 8, e->workspace);
    bind_text(q, 9, or_null(e->duplicate_of));
    bind_order(q, 10, e);
    bind_delivery_id(q, 16, e);
    db_run(s->db, q);
}

void read_event(stmt *q, struct event_row *e)
{
    *e = (struct event_row){
        .n = col_i64(q, 0),
        .id = col_text(q, 1),
        .source = col_text(q, 2),
        .provider_id = col_text(q, 3),
        .type = col_text(q, 4),
        .workspace = col_text(q, 5),
        .received_ms = col_i64(q, 6),
        .taken_ms = col_i64(q, 7),
        .status = (int)col_i64(q, 8),
        .sequence = (uint64_t)col_i64(q, 9),
        .clock = col_text(q, 10),
        .reason = col_text(q, 11),
        .duplicate_of = col_text(q, 12),
        .numbered = !col_null(q, 13),
        .source_sequence = col_i64(q, 13),
        .late = col_i64(q, 14) != 0,
        .gap = col_text(q, 15),
        .note = col_text(q, 16),
        .let_go_ms = col_i64(q, 17),
        .reopened_ms = col_i64(q, 18),
        .delivery_id = col_text(q, 19),
    };
    if (!*e->delivery_id && !col_null(q, 19))
        e->delivery_id = e->provider_id;
}

void store_done(struct store *s)
{
    db_done(s->event);
    db_done(s->event_by_id);
}

bool store_event(struct store *s, int64_t n, struct event_row *e)
{
    db_done(s->event);
    bind_i64(s->event, 1, n);
    if (!db_step(s->db, s->event))
        return false;
    read_event(s->event, e);
    return true;
}

bool store_event_by_id(struct store *s, struct bytes id, struct event_row *e)
{
    db_done(s->event_by_id);
    bind_str(s->event_by_id, 1, id);
    if (!db_step(s->db, s->event_by_id))
        return false;
    read_event(s->event_by_id, e);
    return true;
}

int64_t store_event_n(struct store *s, struct bytes id)
{
    bind_str(s->event_n, 1, id);
    return db_number(s->db, s->event_n, 0);
}

bool store_event_ended(struct store *s, int64_t event)
{
    bind_i64(s->event_ended, 1, event);
    return db_number(s->db, s->event_ended, 0) == 0;
}

struct delivery_totals store_delivery_totals(struct store *s, int64_t event)
{
    struct delivery_totals t = {0};
    stmt *q = s->event_totals;

    bind_i64(q, 1, event);
    if (db_step(s->db, q))
        t = (struct delivery_totals){.endpoints = col_i64(q, 0),
                                     .dead = col_i64(q, 1),
                                     .attempts = col_i64(q, 2),
                                     .expired = col_i64(q, 3) != 0,
                                     .reopened_ms = col_i64(q, 4)};
    db_done(q);
    return t;
}

enum event_end store_event_end(struct store *s, int64_t event)
{
    bind_i64(s->event_end, 1, event);
    return (enum event_end)db_number(s->db, s->event_end, 0);
}

/* ---- requests of several events ---- */

static void each_event(struct store *s, stmt *q, part_fn *fn, void *arg)
{
    struct event_row e;

    while (db_step(s->db, q)) {
        read_event(q, &e);
        fn(arg, &e, (enum event_end)col_i64(q, EVENT_COLUMN_COUNT));
    }
    db_done(q);
}

void store_part_add(struct store *s, int64_t event, int64_t request)
{
    bind_i64(s->part_add, 1, event);
    bind_i64(s->part_add, 2, request);
    db_run(s->db, s->part_add);
}

int64_t store_part_of(struct store *s, int64_t event)
{
    bind_i64(s->part_of, 1, event);
    return db_number(s->db, s->part_of, 0);
}

void store_parts(struct store *s, int64_t request, part_fn *fn, void *arg)
{
    bind_i64(s->parts, 1, request);
    each_event(s, s->parts, fn, arg);
}

/* ---- digests ---- */

void store_digest_add(struct store *s, int64_t event, struct bytes digest)
{
    bind_i64(s->digest_add, 1, event);
    bind_blob(s->digest_add, 2, digest);
    db_run(s->db, s->digest_add);
}

bool store_digest_differs(struct store *s, int64_t event, struct bytes digest)
{
    bool differs = false;
    struct bytes known;

    bind_i64(s->digest, 1, event);
    if (db_step(s->db, s->digest)) {
        known = col_blob(s->digest, 0);
        differs = known.n != digest.n ||
                  memcmp(known.p, digest.p, digest.n) != 0;
    }
    db_done(s->digest);
    return differs;
}

/* ---- transitions ---- */

void store_transition_add(struct store *s, int64_t event, const char *object,
                          const char *from, const char *to)
{
    bind_i64(s->transition_add, 1, event);
    bind_text(s->transition_add, 2, object);
    bind_text(s->transition_add, 3, from ? from : "");
    bind_text(s->transition_add, 4, to);
    db_run(s->db, s->transition_add);
}

bool store_transition(struct store *s, int64_t event, const char **object,
                      const char **from, const char **to)
{
    bind_i64(s->transition, 1, event);
    if (!db_step(s->db, s->transition))
        return false;
    *object = col_text(s->transition, 0);
    *from = col_text(s->transition, 1);
    *to = col_text(s->transition, 2);
    return true;
}

void store_transition_done(struct store *s)
{
    db_done(s->transition);
}
