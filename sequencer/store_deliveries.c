/* Deliveries and their attempts. */
#include "store_inside.h"
#include <stddef.h>

#define DELIVERY_COLUMNS                                                   \
    "event, endpoint, status, grant_id, out_n, life, previous, attempts, " \
    "earlier, first_ms, next_ms, at_ms, duration_ms, http_status, error, " \
    "reason, deliverer, lane, place, behind, paused_ms, act, died, sent, " \
    "reopened_ms"

#define AT(field) offsetof(struct store, field)

static const struct db_statement statements[] = {
    {AT(delivery_add),
     "INSERT INTO deliveries(event, endpoint, status, "
     "grant_id, out_n, previous, lane, place, behind, act, "
     "life, sent, reopened_ms) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
    {AT(delivery), "SELECT " DELIVERY_COLUMNS
                   " FROM deliveries WHERE event = ? AND endpoint = ?"},
    {AT(delivery_set),
     "UPDATE deliveries SET status = ?3, grant_id = ?4, out_n = ?5, life = ?6, "
     "attempts = ?7, earlier = ?8, first_ms = ?9, next_ms = ?10, at_ms = ?11, "
     "duration_ms = ?12, http_status = ?13, error = ?14, reason = ?15, "
     "deliverer = ?16, lane = ?17, behind = ?18, paused_ms = ?19, act = ?20, "
     "died = ?21, sent = ?22, reopened_ms = ?23 WHERE event = ?1 AND endpoint "
     "= ?2"},
    {AT(delivery_out), "UPDATE deliveries SET status = ?3, grant_id = ?4, "
                       "out_n = ?5 WHERE event = ?1 AND endpoint = ?2"},
    {AT(delivery_due),
     "UPDATE deliveries SET next_ms = ?3 WHERE event = ?1 AND endpoint = ?2"},
    {AT(life_set),
     "UPDATE deliveries SET life = ?3, died = ?3 - 1, reopened_ms "
     "= ?4 WHERE event = ?1 AND endpoint = ?2"},
    {AT(event_deliveries),
     "SELECT d.event, d.endpoint, d.status, d.grant_id, d.out_n, d.life, "
     "d.previous, d.attempts, d.earlier, d.first_ms, d.next_ms, d.at_ms, "
     "d.duration_ms, d.http_status, d.error, d.reason, d.deliverer, d.lane, "
     "d.place, d.behind, d.paused_ms, d.act, d.died, d.sent, d.reopened_ms, "
     "e.name FROM "
     "deliveries d "
     "JOIN endpoints e ON e.id = d.endpoint WHERE d.event = ? ORDER BY e.name"},
    {AT(open_figures),
     "SELECT status, count(*), min(event), min(iif(reopened_ms = 0, event, "
     "NULL)), min(nullif(reopened_ms, 0)) FROM (SELECT * FROM (SELECT status, "
     "event, reopened_ms FROM deliveries INDEXED BY deliveries_waiting WHERE "
     "status = 0 LIMIT 100000) UNION ALL SELECT * FROM (SELECT status, event, "
     "reopened_ms FROM deliveries INDEXED BY deliveries_out WHERE grant_id <> "
     "0 AND status < 3 LIMIT 100000)) GROUP BY status"},
    {AT(count_waiting),
     "SELECT count(*) FROM (SELECT 1 FROM deliveries INDEXED BY "
     "deliveries_waiting WHERE endpoint = ? AND status = 0 LIMIT ?)"},
    {AT(count_parked), "SELECT count(*) FROM (SELECT 1 FROM deliveries INDEXED "
                       "BY deliveries_out WHERE endpoint = ? AND grant_id = ? "
                       "AND status = 2 AND grant_id <> 0 LIMIT ?)"},
    {AT(in_flight),
     "SELECT (SELECT count(*) FROM deliveries INDEXED BY deliveries_out WHERE "
     "endpoint = ?1 AND grant_id = ?2 AND status = 1 AND grant_id <> 0) + "
     "(SELECT count(*) FROM deliveries INDEXED BY deliveries_out WHERE "
     "endpoint = ?1 AND grant_id = ?2 AND status >= 3 AND grant_id <> 0)"},
    {AT(ready),
     "SELECT event, next_ms, lane FROM deliveries INDEXED BY "
     "deliveries_waiting WHERE endpoint = ? AND behind = 0 AND lane "
     "> ? AND lane <= ? AND status = 0 ORDER BY lane, place LIMIT ?"},
    {AT(waiting), "SELECT event FROM deliveries INDEXED BY deliveries_waiting "
                  "WHERE endpoint = ? AND status = 0 LIMIT ?"},
    {AT(open_grant),
     "SELECT grant_id FROM deliveries INDEXED BY deliveries_out WHERE endpoint "
     "= ? AND grant_id > ? AND grant_id <> 0 ORDER BY grant_id LIMIT 1"},
    {AT(sweep),
     "UPDATE deliveries SET grant_id = 0, out_n = 0, sent = sent OR ?4, status "
     "= CASE WHEN status < 3 THEN 0 ELSE status END WHERE endpoint = ?1 AND "
     "event IN (SELECT "
     "event FROM deliveries INDEXED BY deliveries_out WHERE endpoint = ?1 AND "
     "grant_id = ?2 AND grant_id <> 0 LIMIT ?3) RETURNING status, lane"},
    {AT(out_after),
     "SELECT status, event, out_n, next_ms FROM deliveries INDEXED BY "
     "deliveries_out WHERE endpoint = ?1 AND grant_id = ?2 AND grant_id <> 0 "
     "AND (status, event) > (?3, ?4) ORDER BY status, event LIMIT ?5"},
    {AT(attempt_add), "INSERT OR IGNORE INTO attempts(event, endpoint, "
                      "attempt_id, n, at_ms, duration_ms, http_status, error, "
                      "deliverer) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)"},
    {AT(attempts),
     "SELECT n, at_ms, duration_ms, http_status, error, deliverer FROM "
     "attempts WHERE event = ? AND endpoint = ? ORDER BY n, at_ms"},
};

void store_prepare_deliveries(struct store *s)
{
    db_prepare_all(s->db, s, statements, COUNT_OF(statements));
}

/* ---- deliveries ---- */

void store_delivery_add(struct store *s, const struct delivery_row *d)
{
    stmt *q = s->delivery_add;

    bind_i64(q, 1, d->event);
    bind_i64(q, 2, d->endpoint);
    bind_i64(q, 3, d->status);
    bind_i64(q, 4, (int64_t)d->grant);
    bind_i64(q, 5, (int64_t)d->out_n);
    bind_i64(q, 6, (int64_t)d->previous);
    bind_i64(q, 7, d->lane);
    bind_i64(q, 8, d->place);
    bind_i64(q, 9, d->behind);
    bind_i64(q, 10, (int64_t)d->act);
    bind_i64(q, 11, d->life ? d->life : 1);
    bind_i64(q, 12, d->sent);
    bind_i64(q, 13, d->reopened_ms);
    db_run(s->db, q);
}

static void read_delivery(stmt *q, struct delivery_row *d)
{
    *d = (struct delivery_row){
        .event = col_i64(q, 0),
        .endpoint = col_i64(q, 1),
        .status = (int)col_i64(q, 2),
        .grant = (uint64_t)col_i64(q, 3),
        .out_n = (uint64_t)col_i64(q, 4),
        .life = col_i64(q, 5),
        .previous = (uint64_t)col_i64(q, 6),
        .attempts = col_i64(q, 7),
        .earlier = col_i64(q, 8),
        .first_ms = col_i64(q, 9),
        .next_ms = col_i64(q, 10),
        .at_ms = col_i64(q, 11),
        .duration_ms = col_i64(q, 12),
        .http_status = col_i64(q, 13),
        .error = col_text(q, 14),
        .reason = col_text(q, 15),
        .deliverer = col_text(q, 16),
        .lane = col_i64(q, 17),
        .place = col_i64(q, 18),
        .behind = col_i64(q, 19) != 0,
        .paused_ms = col_i64(q, 20),
        .act = (uint64_t)col_i64(q, 21),
        .died = col_i64(q, 22),
        .sent = col_i64(q, 23) != 0,
        .reopened_ms = col_i64(q, 24),
    };
}

bool store_delivery(struct store *s, int64_t event, int64_t endpoint,
                    struct delivery_row *d)
{
    db_done(s->delivery);
    bind_i64(s->delivery, 1, event);
    bind_i64(s->delivery, 2, endpoint);
    if (!db_step(s->db, s->delivery))
        return false;
    read_delivery(s->delivery, d);
    return true;
}

void store_delivery_done(struct store *s)
{
    db_done(s->delivery);
}

void store_delivery_set(struct store *s, const struct delivery_row *d)
{
    stmt *q = s->delivery_set;

    bind_i64(q, 1, d->event);
    bind_i64(q, 2, d->endpoint);
    bind_i64(q, 3, d->status);
    bind_i64(q, 4, (int64_t)d->grant);
    bind_i64(q, 5, (int64_t)d->out_n);
    bind_i64(q, 6, d->life);
    bind_i64(q, 7, d->attempts);
    bind_i64(q, 8, d->earlier);
    bind_i64(q, 9, d->first_ms);
    bind_i64(q, 10, d->next_ms);
    bind_i64(q, 11, d->at_ms);
    bind_i64(q, 12, d->duration_ms);
    bind_i64(q, 13, d->http_status);
    bind_text(q, 14, d->error);
    bind_text(q, 15, d->reason);
    bind_text(q, 16, d->deliverer);
    bind_i64(q, 17, d->lane);
    bind_i64(q, 18, d->behind);
    bind_i64(q, 19, d->paused_ms);
    bind_i64(q, 20, (int64_t)d->act);
    bind_i64(q, 21, d->died);
    bind_i64(q, 22, d->sent);
    bind_i64(q, 23, d->reopened_ms);
    db_run(s->db, q);
}

/* The lesser of the two that are not 0. */
static int64_t lesser(int64_t a, int64_t b)
{
    return !a || (b && b < a) ? b : a;
}

struct open_figures store_open_figures(struct store *s)
{
    struct open_figures f = {0};
    stmt *q = s->open_figures;

    while (db_step(s->db, q)) {
        int64_t status = col_i64(q, 0);

        if (status >= 0 && status < DELIVERY_DELIVERED)
            f.counts[status] = col_i64(q, 1);
        f.oldest = lesser(f.oldest, col_i64(q, 2));
        f.oldest_unopened = lesser(f.oldest_unopened, col_i64(q, 3));
        f.reopened_ms = lesser(f.reopened_ms, col_i64(q, 4));
    }
    db_done(q);
    return f;
}

void store_delivery_out(struct store *s, int64_t event, int64_t endpoint,
                        int status, uint64_t grant, uint64_t out_n)
{
    stmt *q = s->delivery_out;

    bind_i64(q, 1, event);
    bind_i64(q, 2, endpoint);
    bind_i64(q, 3, status);
    bind_i64(q, 4, (int64_t)grant);
    bind_i64(q, 5, (int64_t)out_n);
    db_run(s->db, q);
}

void store_delivery_due(struct store *s, int64_t event, int64_t endpoint,
                        int64_t next_ms)
{
    bind_i64(s->delivery_due, 1, event);
    bind_i64(s->delivery_due, 2, endpoint);
    bind_i64(s->delivery_due, 3, next_ms);
    db_run(s->db, s->delivery_due);
}

void store_life_set(struct store *s, int64_t event, int64_t endpoint,
                    int64_t life, int64_t reopened_ms)
{
    bind_i64(s->life_set, 1, event);
    bind_i64(s->life_set, 2, endpoint);
    bind_i64(s->life_set, 3, life);
    bind_i64(s->life_set, 4, reopened_ms);
    db_run(s->db, s->life_set);
}

int store_ready(struct store *s, int64_t endpoint, int64_t after, int64_t to,
                int most, struct ready_row *rows)
{
    stmt *q = s->ready;
    int n = 0;

    bind_i64(q, 1, endpoint);
    bind_i64(q, 2, after);
    bind_i64(q, 3, to);
    bind_i64(q, 4, most);
    for (; n < most && db_step(s->db, q); n++)
        rows[n] = (struct ready_row){col_i64(q, 0), col_i64(q, 1),
                                     col_i64(q, 2)};
    db_done(q);
    return n;
}

int store_waiting(struct store *s, int64_t endpoint, int most, int64_t *events)
{
    stmt *q = s->waiting;
    int n = 0;

    bind_i64(q, 1, endpoint);
    bind_i64(q, 2, most);
    for (; n < most && db_step(s->db, q); n++)
        events[n] = col_i64(q, 0);
    db_done(q);
    return n;
}

uint64_t store_open_grant(struct store *s, int64_t endpoint, uint64_t after)
{
    bind_i64(s->open_grant, 1, endpoint);
    bind_i64(s->open_grant, 2, (int64_t)after);
    return (uint64_t)db_number(s->db, s->open_grant, 0);
}

int store_sweep(struct store *s, int64_t endpoint, uint64_t grant, bool lossy,
                int most, int64_t *freed, int *freed_count)
{
    stmt *q = s->sweep;
    int n = 0;

    bind_i64(q, 1, endpoint);
    bind_i64(q, 2, (int64_t)grant);
    bind_i64(q, 3, most);
    bind_i64(q, 4, lossy);
    *freed_count = 0;
    for (; db_step(s->db, q); n++)
        if (col_i64(q, 0) >= DELIVERY_DELIVERED && col_i64(q, 1) >= 0)
            freed[(*freed_count)++] = col_i64(q, 1);
    db_done(q);
    return n;
}

int store_out_after(struct store *s, int64_t endpoint, uint64_t grant,
                    const struct out_row *after, int most, struct out_row *rows)
{
    stmt *q = s->out_after;
    int n = 0;

    bind_i64(q, 1, endpoint);
    bind_i64(q, 2, (int64_t)grant);
    bind_i64(q, 3, after->status);
    bind_i64(q, 4, after->event);
    bind_i64(q, 5, most);
    for (; n < most && db_step(s->db, q); n++)
        rows[n] = (struct out_row){.status = col_i64(q, 0),
                                   .event = col_i64(q, 1),
                                   .out_n = (uint64_t)col_i64(q, 2),
                                   .next_ms = col_i64(q, 3)};
    db_done(q);
    return n;
}

int64_t store_count_waiting(struct store *s, int64_t endpoint, int64_t most)
{
    bind_i64(s->count_waiting, 1, endpoint);
    bind_i64(s->count_waiting, 2, most);
    return db_number(s->db, s->count_waiting, 0);
}

int64_t store_count_parked(struct store *s, int64_t endpoint, uint64_t grant,
                           int64_t most)
{
    bind_i64(s->count_parked, 1, endpoint);
    bind_i64(s->count_parked, 2, (int64_t)grant);
    bind_i64(s->count_parked, 3, most);
    return db_number(s->db, s->count_parked, 0);
}

int64_t store_count_in_flight(struct store *s, int64_t endpoint, uint64_t grant)
{
    bind_i64(s->in_flight, 1, endpoint);
    bind_i64(s->in_flight, 2, (int64_t)grant);
    return db_number(s->db, s->in_flight, 0);
}

void store_event_deliveries(struct store *s, int64_t event, delivery_fn *fn,
                            void *arg)
{
    stmt *q = s->event_deliveries;
    struct delivery_row d;

    bind_i64(q, 1, event);
    while (db_step(s->db, q)) {
        read_delivery(q, &d);
        fn(arg, &d, col_text(q, 25));
    }
    db_done(q);
}

void store_attempt_add(struct store *s, int64_t event, int64_t endpoint,
                       const struct wire_result *r, const char *deliverer)
{
    stmt *q = s->attempt_add;

    bind_i64(q, 1, event);
    bind_i64(q, 2, endpoint);
    bind_i64(q, 3, (int64_t)r->attempt_id);
    bind_i64(q, 4, (int64_t)r->attempts);
    bind_i64(q, 5, r->at_ms);
    bind_i64(q, 6, r->duration_ms);
    bind_i64(q, 7, (int64_t)r->http_status);
    bind_str(q, 8, r->error);
    bind_text(q, 9, deliverer);
    db_run(s->db, q);
}

void store_attempts(struct store *s, int64_t event, int64_t endpoint,
                    attempt_fn *fn, void *arg)
{
    stmt *q = s->attempts;

    bind_i64(q, 1, event);
    bind_i64(q, 2, endpoint);
    while (db_step(s->db, q))
        fn(arg, col_i64(q, 0), col_i64(q, 1), col_i64(q, 2), col_i64(q, 3),
           col_text(q, 4), col_text(q, 5));
    db_done(q);
}
