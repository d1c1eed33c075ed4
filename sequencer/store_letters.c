/* What has ended, on its way to dlqd, and what waits to be sent again. */
#include "store_inside.h"
#include <stddef.h>

#define AT(field) offsetof(struct store, field)

static const struct db_statement statements[] = {
    {AT(letter_add),
     "INSERT INTO letters(hop_n, event, endpoint, life, at_ms, attempts, "
     "first_ms, http_status, error, reason, response) VALUES(?, ?, ?, ?, ?, ?, "
     "?, ?, ?, ?, ?) RETURNING n"},
    {AT(letter),
     "SELECT n, event, endpoint, life, at_ms, attempts, first_ms, http_status, "
     "error, reason, response FROM letters WHERE n = ?"},
    {AT(letter_dead), "SELECT n FROM letters WHERE event = ? AND endpoint = ? "
                      "AND life = ? AND reason <> '' LIMIT 1"},
    {AT(letter_drop),
     "DELETE FROM letters WHERE n = (SELECT n FROM letters WHERE hop_n <= ?1 "
     "ORDER BY hop_n LIMIT 1) AND at_ms NOT BETWEEN ?2 AND ?3 "
     "RETURNING event, hop_n"},
    {AT(letter_pending), "SELECT 1 FROM letters WHERE event = ? LIMIT 1"},
    {AT(again_add),
     "INSERT OR REPLACE INTO agains(event, endpoint, act) VALUES(?, ?, ?)"},
    {AT(again_drop), "DELETE FROM agains WHERE event = ? AND endpoint = ?"},
    {AT(agains), "SELECT event, endpoint, act FROM agains WHERE event > ? "
                 "ORDER BY event LIMIT ?"},
    {AT(again_pending), "SELECT 1 FROM agains WHERE event = ? LIMIT 1"},
};

void store_prepare_letters(struct store *s)
{
    db_prepare_all(s->db, s, statements, COUNT_OF(statements));
}

/* ---- letters ---- */

int64_t store_letter_add(struct store *s, uint64_t hop_n,
                         const struct letter_row *l)
{
    stmt *q = s->letter_add;

    bind_i64(q, 1, (int64_t)hop_n);
    bind_i64(q, 2, l->event);
    bind_i64(q, 3, l->endpoint);
    bind_i64(q, 4, l->life);
    bind_i64(q, 5, l->at_ms);
    bind_i64(q, 6, l->attempts);
    bind_i64(q, 7, l->first_ms);
    bind_i64(q, 8, l->http_status);
    bind_text(q, 9, l->error);
    bind_text(q, 10, l->reason);
    bind_blob(q, 11, l->response);
    return db_number(s->db, q, 0);
}

bool store_letter(struct store *s, int64_t n, struct letter_row *l)
{
    stmt *q = s->letter;

    bind_i64(q, 1, n);
    if (!db_step(s->db, q)) {
        db_done(q);
        return false;
    }
    *l = (struct letter_row){.n = col_i64(q, 0),
                             .event = col_i64(q, 1),
                             .endpoint = col_i64(q, 2),
                             .life = col_i64(q, 3),
                             .at_ms = col_i64(q, 4),
                             .attempts = col_i64(q, 5),
                             .first_ms = col_i64(q, 6),
                             .http_status = col_i64(q, 7),
                             .error = col_text(q, 8),
                             .reason = col_text(q, 9),
                             .response = col_blob(q, 10)};
    return true;
}

void store_letter_done(struct store *s)
{
    db_done(s->letter);
}

int64_t store_letter_dead(struct store *s, int64_t event, int64_t endpoint,
                          int64_t life)
{
    bind_i64(s->letter_dead, 1, event);
    bind_i64(s->letter_dead, 2, endpoint);
    bind_i64(s->letter_dead, 3, life);
    return db_number(s->db, s->letter_dead, 0);
}

int64_t store_letter_drop(struct store *s, uint64_t *hop_n, int64_t from_ms,
                          int64_t to_ms)
{
    stmt *q = s->letter_drop;
    int64_t event = 0;

    bind_i64(q, 1, (int64_t)*hop_n);
    bind_i64(q, 2, from_ms);
    bind_i64(q, 3, to_ms);
    while (db_step(s->db, q)) {
        event = col_i64(q, 0);
        *hop_n = (uint64_t)col_i64(q, 1);
    }
    db_done(q);
    return event;
}

bool store_letter_pending(struct store *s, int64_t event)
{
    bind_i64(s->letter_pending, 1, event);
    return db_number(s->db, s->letter_pending, 0) != 0;
}

/* ---- what waits to be sent again ---- */

void store_again_add(struct store *s, int64_t event, int64_t endpoint,
                     uint64_t act)
{
    bind_i64(s->again_add, 1, event);
    bind_i64(s->again_add, 2, endpoint);
    bind_i64(s->again_add, 3, (int64_t)act);
    db_run(s->db, s->again_add);
}

void store_again_drop(struct store *s, int64_t event, int64_t endpoint)
{
    bind_i64(s->again_drop, 1, event);
    bind_i64(s->again_drop, 2, endpoint);
    db_run(s->db, s->again_drop);
}

int store_agains(struct store *s, int64_t after, int most,
                 struct again_row *rows)
{
    int n = 0;

    bind_i64(s->agains, 1, after);
    bind_i64(s->agains, 2, most);
    for (; n < most && db_step(s->db, s->agains); n++)
        rows[n] = (struct again_row){col_i64(s->agains, 0),
                                     col_i64(s->agains, 1),
                                     (uint64_t)col_i64(s->agains, 2)};
    db_done(s->agains);
    return n;
}

bool store_again_pending(struct store *s, int64_t event)
{
    bind_i64(s->again_pending, 1, event);
    return db_number(s->db, s->again_pending, 0) != 0;
}
