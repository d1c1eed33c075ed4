/* What dlqd has to say to sequencers, each row until it is acknowledged. */
#include "store_inside.h"
#include <stddef.h>
#include <stdio.h>

#define AT(field) offsetof(struct store, field)

static const struct db_statement statements[] = {
    {AT(requeue_add), "INSERT INTO requeues (letter, life, handed) VALUES (?1, "
                      "?2, 1) RETURNING n"},
    {AT(requeue_get), "SELECT letter, life FROM requeues WHERE n = ?1"},
    {AT(requeues_forget), "DELETE FROM requeues WHERE letter = ?1"},
    {AT(requeues_again),
     "INSERT INTO requeues (letter, life, handed) SELECT n, life, 0 FROM "
     "letters WHERE state = 'requeued' AND sequencer = ?1"},
    {AT(requeue_unhanded),
     "SELECT r.n, l.sequencer FROM requeues r JOIN letters l ON l.n = r.letter "
     "WHERE r.handed = 0 ORDER BY r.n LIMIT 1"},
    {AT(requeue_handed), "UPDATE requeues SET handed = 1 WHERE n = ?1"},
    {AT(decision_add),
     "INSERT INTO decisions (hop_n, sequencer, letter_id, life, event_id, "
     "endpoint, what) VALUES (0, ?1, ?2, ?3, ?4, ?5, ?6)"},
    {AT(decisions),
     "SELECT n, hop_n, sequencer FROM decisions ORDER BY n LIMIT ?1"},
    {AT(decision_get), "SELECT letter_id, life, event_id, endpoint, what FROM "
                       "decisions WHERE n = ?1"},
    {AT(decision_handed), "UPDATE decisions SET hop_n = ?2 WHERE n = ?1"},
    {AT(decision_drop), "DELETE FROM decisions WHERE n = ?1"},
    {AT(decisions_again),
     "INSERT INTO decisions (hop_n, sequencer, letter_id, life, event_id, "
     "endpoint, what) SELECT 0, sequencer, id, life, event_id, endpoint, state "
     "FROM letters WHERE state IN ('resolved', 'discarded') AND sequencer = ?1 "
     "AND endpoint IS NOT NULL"},
    {AT(redirect_add),
     "INSERT INTO redirects (hop_n, sequencer, letter, endpoint, act) VALUES "
     "(?1, ?2, ?3, ?4, ?5) RETURNING n"},
    {AT(redirects), "SELECT n, hop_n, sequencer, letter, endpoint, act FROM "
                    "redirects WHERE hop_n >= 0 ORDER BY n LIMIT ?1"},
    {AT(redirect_get), "SELECT n, hop_n, sequencer, letter, endpoint, act FROM "
                       "redirects WHERE n = ?1"},
    {AT(redirect_at), "UPDATE redirects SET hop_n = ?2 WHERE n = ?1"},
    {AT(redirects_again),
     "UPDATE redirects SET hop_n = 0 WHERE sequencer = ?1 AND letter IN "
     "(SELECT n FROM letters WHERE state = 'resolved' AND moved_ms >= ?2)"},
};

void store_prepare_outgoing(struct store *s)
{
    db_prepare_all(s->db, s, statements, COUNT_OF(statements));
}

/* ---- requeues ---- */

int64_t store_requeue_add(struct store *s, int64_t letter, int64_t life)
{
    bind_i64(s->requeue_add, 1, letter);
    bind_i64(s->requeue_add, 2, life);
    return db_number(s->db, s->requeue_add, 0);
}

bool store_requeue_get(struct store *s, int64_t n, int64_t *letter,
                       int64_t *life)
{
    bool found;

    bind_i64(s->requeue_get, 1, n);
    found = db_step(s->db, s->requeue_get);
    if (found) {
        *letter = col_i64(s->requeue_get, 0);
        *life = col_i64(s->requeue_get, 1);
    }
    db_done(s->requeue_get);
    return found;
}

void store_requeues_forget(struct store *s, int64_t letter)
{
    bind_i64(s->requeues_forget, 1, letter);
    db_run(s->db, s->requeues_forget);
}

int store_requeues_again(struct store *s, const char *sequencer)
{
    bind_text(s->requeues_again, 1, sequencer);
    db_run(s->db, s->requeues_again);
    return db_changes(s->db);
}

bool store_requeue_unhanded(struct store *s, int64_t *n, char *sequencer)
{
    stmt *q = s->requeue_unhanded;
    bool found = db_step(s->db, q);

    if (found) {
        *n = col_i64(q, 0);
        wire_copy(sequencer, NAME_MAX_BYTES + 1, wire_text(col_text(q, 1)));
    }
    db_done(q);
    if (found) {
        bind_i64(s->requeue_handed, 1, *n);
        db_run(s->db, s->requeue_handed);
    }
    return found && !db_full(s->db);
}

/* ---- decisions ---- */

void store_decision_add(struct store *s, const struct letter *l,
                        const char *what)
{
    stmt *q = s->decision_add;

    bind_text(q, 1, l->sequencer);
    bind_text(q, 2, l->id);
    bind_i64(q, 3, l->life);
    bind_text(q, 4, l->event_id);
    bind_text(q, 5, l->endpoint);
    bind_text(q, 6, what);
    db_run(s->db, q);
}

int store_decisions(struct store *s, int most, struct decision_row *rows)
{
    stmt *q = s->decisions;
    int n = 0;

    bind_i64(q, 1, most);
    for (; n < most && db_step(s->db, q); n++) {
        rows[n].n = col_i64(q, 0);
        rows[n].hop_n = (uint64_t)col_i64(q, 1);
        snprintf(rows[n].sequencer, sizeof rows[n].sequencer, "%s",
                 col_text(q, 2));
    }
    db_done(q);
    return n;
}

bool store_decision(struct store *s, int64_t n, struct wire_decided *m)
{
    stmt *q = s->decision_get;

    bind_i64(q, 1, n);
    if (!db_step(s->db, q))
        return false;
    *m = (struct wire_decided){.letter_id = wire_text(col_text(q, 0)),
                               .life = (uint64_t)col_i64(q, 1),
                               .event_id = wire_text(col_text(q, 2)),
                               .endpoint = wire_text(col_text(q, 3)),
                               .what = wire_text(col_text(q, 4))};
    return true;
}

void store_decision_done(struct store *s)
{
    db_done(s->decision_get);
}

void store_decision_handed(struct store *s, int64_t n, uint64_t hop_n)
{
    bind_i64(s->decision_handed, 1, n);
    bind_i64(s->decision_handed, 2, (int64_t)hop_n);
    db_run(s->db, s->decision_handed);
}

void store_decision_drop(struct store *s, int64_t n)
{
    bind_i64(s->decision_drop, 1, n);
    db_run(s->db, s->decision_drop);
}

int store_decisions_again(struct store *s, const char *sequencer)
{
    bind_text(s->decisions_again, 1, sequencer);
    db_run(s->db, s->decisions_again);
    return db_changes(s->db);
}

/* ---- to another endpoint ---- */

int64_t store_redirect_add(struct store *s, const struct redirect_row *r)
{
    stmt *q = s->redirect_add;

    bind_i64(q, 1, r->hop_n);
    bind_text(q, 2, r->sequencer);
    bind_i64(q, 3, r->letter);
    bind_text(q, 4, r->endpoint);
    bind_i64(q, 5, (int64_t)r->act);
    return db_number(s->db, q, 0);
}

static void read_redirect(stmt *q, struct redirect_row *r)
{
    r->n = col_i64(q, 0);
    r->hop_n = col_i64(q, 1);
    wire_copy(r->sequencer, sizeof r->sequencer, wire_text(col_text(q, 2)));
    r->letter = col_i64(q, 3);
    wire_copy(r->endpoint, sizeof r->endpoint, wire_text(col_text(q, 4)));
    r->act = (uint64_t)col_i64(q, 5);
}

bool store_redirect(struct store *s, int64_t n, struct redirect_row *r)
{
    bool found;

    bind_i64(s->redirect_get, 1, n);
    found = db_step(s->db, s->redirect_get);
    if (found)
        read_redirect(s->redirect_get, r);
    db_done(s->redirect_get);
    return found;
}

int store_redirects(struct store *s, int most, struct redirect_row *rows)
{
    int n = 0;

    bind_i64(s->redirects, 1, most);
    while (n < most && db_step(s->db, s->redirects))
        read_redirect(s->redirects, &rows[n++]);
    db_done(s->redirects);
    return n;
}

void store_redirect_at(struct store *s, int64_t n, int64_t hop_n)
{
    bind_i64(s->redirect_at, 1, n);
    bind_i64(s->redirect_at, 2, hop_n);
    db_run(s->db, s->redirect_at);
}

int store_redirects_again(struct store *s, const char *sequencer,
                          int64_t since_ms)
{
    bind_text(s->redirects_again, 1, sequencer);
    bind_i64(s->redirects_again, 2, since_ms);
    db_run(s->db, s->redirects_again);
    return db_changes(s->db);
}
