/* store: statements of dead letters, their history, and messages to the sequencer. */
#include "store.h"
#include "stores.h"
#include "sums.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char dlqd_store_sql[];
extern const char *const dlqd_upgrades[];
const struct db_schema dlqd_schema = {.create = dlqd_store_sql,
                                      .steps = dlqd_upgrades,
                                      .count = DLQD_SCHEMA,
                                      .program = "grapnel-dlqd",
                                      .table = "contents"};

#define DEAD_LETTER \
    "SELECT " ROW_NAMES(DEAD_LETTER_COLUMNS) ", state FROM dead_letters "
/* The columns that a message fills. */
#define EVENT_COLUMNS(F, X) DEAD_LETTER_EVENT(F, X, str, str_or_null)
#define END_COLUMNS(F, X)   DEAD_LETTER_END(F, X, str, blob)
#define DEAD_COLUMNS(F, X)  EVENT_COLUMNS(F, X) END_COLUMNS(X, X)

#define SCAN_OF(state)                                              \
    "SELECT n, dead_ms, endpoint, workspace, type, reason, source " \
    "FROM dead_letters INDEXED BY dead_letters_newest "             \
    "WHERE state = " state " AND (dead_ms, n) < (?2, ?3) "

#define OLD(when)                                                              \
    "SELECT n FROM dead_letters WHERE state = ?1 AND " when " AND NOT EXISTS " \
    "(SELECT 1 FROM redirects r WHERE r.dead_letter = dead_letters.n AND "     \
    "r.link_n >= 0) ORDER BY moved_ms LIMIT ?3"

#define ALSO(state) "UNION ALL " SCAN_OF(state)

static const char scan_all[] = SCAN_OF("'dead'") ALSO("'requeued'")
    ALSO("'recovered'") ALSO("'resolved'")
        ALSO("'discarded'") "ORDER BY dead_ms DESC, n DESC";

#define AT(field) offsetof(struct store, field)

static const struct db_statement statements[] = {
    {AT(find_id), DEAD_LETTER "WHERE id = ?1"},
    {AT(find_n), DEAD_LETTER "WHERE n = ?1"},
    {AT(by_event), DEAD_LETTER "WHERE event_id = ?1 ORDER BY n"},
    {AT(insert),
     ROW_INSERT_WITH(
         "dead_letters", DEAD_COLUMNS, ", id, sequencer, state, moved_ms, sum",
         ", :id, :sequencer, 'dead', :moved_ms, content_sum(:id, :event_id, "
         ":endpoint, :source, :provider_id, :type, :workspace, :received_ms, "
         ":sequence, :previous, :clock)") " RETURNING n"},
    {AT(dead_again),
     "UPDATE dead_letters SET " ROW_SETS(
         END_COLUMNS) ", state = 'dead', moved_ms = :moved_ms WHERE n = :n"},
    {AT(move),
     "UPDATE dead_letters SET state = ?2, generation = ?3, moved_ms = ?4 "
     "WHERE n = ?1"},
    {AT(content_add), "INSERT INTO contents (dead_letter, headers, body, sum) "
                      "VALUES (?1, ?2, ?3, "
                      "content_sum(?1, ?2, ?3))"},
    {AT(content_get),
     "SELECT headers, body, " DB_INTACT(SUM_CONTENTS) " AND (SELECT " DB_INTACT(
         SUM_DEAD_LETTERS) " FROM dead_letters WHERE n = ?1) FROM contents "
                           "WHERE dead_letter "
                           "= ?1"},
    {AT(history_add), "INSERT INTO history (dead_letter, at_ms, from_state, "
                      "to_state, what) VALUES (?1, ?2, ?3, ?4, ?5)"},
    {AT(history_after),
     "SELECT n, dead_letter, to_state FROM history WHERE n > ? ORDER BY n"},
    {AT(history_before), "SELECT n FROM history WHERE at_ms < ? ORDER BY n "
                         "DESC LIMIT 1"},
    {AT(history_last), "SELECT ifnull(max(n), 0) FROM history"},
    {AT(history_get), "SELECT at_ms, from_state, to_state, what FROM history "
                      "WHERE dead_letter = ?1 ORDER BY n"},
    {AT(note), "UPDATE dead_letters SET note = ?2 WHERE n = ?1"},
    {AT(scan_state), SCAN_OF("?1") "ORDER BY dead_ms DESC, n DESC"},
    {AT(scan_all), scan_all},
    {AT(scan_oldest),
     "SELECT n, dead_ms, endpoint, workspace, type, reason, source FROM "
     "dead_letters INDEXED BY dead_letters_newest WHERE state = 'dead' AND "
     "(dead_ms, n) "
     "> (?1, ?2) ORDER BY dead_ms, n"},
    {AT(workspaces),
     "SELECT n, workspace FROM dead_letters WHERE n > ? ORDER BY n"},
    {AT(erase_replies),
     "DELETE FROM idempotency WHERE instr(reply, '\"last_response\"') > 0 AND "
     "instr(reply, ?) > 0"},
    {AT(redirects_forget), "DELETE FROM redirects WHERE dead_letter = ?1"},
    {AT(tallies),
     "SELECT state, endpoint, reason, count FROM tallies WHERE count > 0"},
    {AT(old), OLD("moved_ms < ?2")},
    {AT(ahead), OLD("moved_ms > ?2")},
    {AT(count_old),
     "SELECT count(*) FROM (SELECT 1 FROM dead_letters WHERE state = "
     "?1 AND moved_ms < ?2 LIMIT 100000)"},
    {AT(drop_dead_letter), "DELETE FROM dead_letters WHERE n = ?1"},
    {AT(drop_content), "DELETE FROM contents WHERE dead_letter = ?1"},
    {AT(drop_history), "DELETE FROM history WHERE dead_letter = ?1"},
    {AT(count), "SELECT state, sum(count) FROM tallies GROUP BY state"},
    {AT(counted), "SELECT since_ms FROM counted WHERE one = 1"},
    {AT(counted_set), "UPDATE counted SET since_ms = ?1 WHERE one = 1"},
    {AT(requeue_add),
     "INSERT INTO requeues (dead_letter, generation, handed) VALUES (?1, "
     "?2, 1) RETURNING n"},
    {AT(requeue_get),
     "SELECT dead_letter, generation FROM requeues WHERE n = ?1"},
    {AT(requeues_forget), "DELETE FROM requeues WHERE dead_letter = ?1"},
    {AT(requeues_again),
     "INSERT INTO requeues (dead_letter, generation, handed) SELECT n, "
     "generation, 0 FROM "
     "dead_letters WHERE state = 'requeued' AND sequencer = ?1"},
    {AT(requeue_not_in_log), "SELECT r.n, l.sequencer FROM requeues r JOIN "
                             "dead_letters l ON l.n = r.dead_letter "
                             "WHERE r.handed = 0 ORDER BY r.n LIMIT 1"},
    {AT(requeue_handed), "UPDATE requeues SET handed = 1 WHERE n = ?1"},
    {AT(decision_add), "INSERT INTO decisions (link_n, sequencer, "
                       "dead_letter_id, generation, event_id, "
                       "endpoint, what) VALUES (0, ?1, ?2, ?3, ?4, ?5, ?6)"},
    {AT(decisions),
     "SELECT n, link_n, sequencer FROM decisions ORDER BY n LIMIT ?1"},
    {AT(decision_get),
     "SELECT dead_letter_id, generation, event_id, endpoint, what FROM "
     "decisions WHERE n = ?1"},
    {AT(decision_handed), "UPDATE decisions SET link_n = ?2 WHERE n = ?1"},
    {AT(decision_drop), "DELETE FROM decisions WHERE n = ?1"},
    {AT(decisions_again),
     "INSERT INTO decisions (link_n, sequencer, dead_letter_id, generation, "
     "event_id, "
     "endpoint, what) SELECT 0, sequencer, id, generation, event_id, "
     "ifnull(endpoint, ''), state FROM dead_letters WHERE state IN "
     "('resolved', 'discarded') AND sequencer = ?1"},
    {AT(redirect_add), "INSERT INTO redirects (link_n, sequencer, dead_letter, "
                       "endpoint, action_id) VALUES "
                       "(?1, ?2, ?3, ?4, ?5) RETURNING n"},
    {AT(redirects),
     "SELECT n, link_n, sequencer, dead_letter, endpoint, action_id FROM "
     "redirects WHERE link_n >= 0 ORDER BY n LIMIT ?1"},
    {AT(redirect_get),
     "SELECT n, link_n, sequencer, dead_letter, endpoint, action_id FROM "
     "redirects WHERE n = ?1"},
    {AT(redirect_at), "UPDATE redirects SET link_n = ?2 WHERE n = ?1"},
    {AT(redirects_again),
     "UPDATE redirects SET link_n = 0 WHERE sequencer = ?1 AND dead_letter IN "
     "(SELECT n FROM dead_letters WHERE state = 'resolved' AND moved_ms >= "
     "?2)"},
};

void store_open(struct store *s, struct db *db)
{
    s->db = db;
    db_prepare_all(db, s, statements, COUNT_OF(statements));
}

int64_t store_counted_since(struct store *s)
{
    return db_number(s->db, s->counted, 0);
}

void store_counted_since_set(struct store *s, int64_t ms)
{
    bind_i64(s->counted_set, 1, ms);
    db_run(s->db, s->counted_set);
}

/* ---- dead letters ---- */

/* From a row of DEAD_LETTER. */
static void read_dead_letter(stmt *q, struct dead_letter *l)
{
    int i = 0;

    ROW_READ(DEAD_LETTER_COLUMNS, q, i, l);
    l->state = states_find(&dead_letter_states, col_text(q, i));
}

static bool find(struct store *s, stmt *q, struct dead_letter *l)
{
    bool found = db_step(s->db, q);

    if (found)
        read_dead_letter(q, l);
    db_done(q);
    return found;
}

bool store_find(struct store *s, struct bytes id, struct dead_letter *l)
{
    bind_str(s->find_id, 1, id);
    return find(s, s->find_id, l);
}

bool store_find_n(struct store *s, int64_t n, struct dead_letter *l)
{
    bind_i64(s->find_n, 1, n);
    return find(s, s->find_n, l);
}

void store_event(struct store *s, const char *event_id)
{
    db_done(s->by_event);
    bind_text(s->by_event, 1, event_id);
}

bool store_event_next(struct store *s, struct dead_letter *l)
{
    if (db_step(s->db, s->by_event)) {
        read_dead_letter(s->by_event, l);
        return true;
    }
    db_done(s->by_event);
    return false;
}

int64_t store_insert(struct store *s, const char *from,
                     const struct wire_dead *m, int64_t now_ms)
{
    stmt *q = s->insert;
    int64_t n;
    int i = 0;

    ROW_BIND(DEAD_COLUMNS, q, i, m);
    bind_str(q, ++i, m->dead_letter_id);
    bind_text(q, ++i, from);
    bind_i64(q, ++i, now_ms);
    n = db_number(s->db, q, 0);
    bind_i64(s->content_add, 1, n);
    bind_blob(s->content_add, 2, m->headers);
    bind_blob(s->content_add, 3, m->body);
    db_run(s->db, s->content_add);
    return n;
}

void store_dead_again(struct store *s, int64_t n, const struct wire_dead *m,
                      int64_t now_ms)
{
    stmt *q = s->dead_again;
    int i = 0;

    ROW_BIND(END_COLUMNS, q, i, m);
    bind_i64(q, ++i, now_ms);
    bind_i64(q, ++i, n);
    db_run(s->db, q);
}

void store_note(struct store *s, int64_t dead_letter, const char *note)
{
    bind_i64(s->note, 1, dead_letter);
    bind_text(s->note, 2, note);
    db_run(s->db, s->note);
}

void store_move(struct store *s, int64_t n, int state, int64_t generation,
                int64_t now_ms)
{
    bind_i64(s->move, 1, n);
    bind_text(s->move, 2, states_name(&dead_letter_states, state));
    bind_i64(s->move, 3, generation);
    bind_i64(s->move, 4, now_ms);
    db_run(s->db, s->move);
}

bool store_content(struct store *s, int64_t dead_letter, struct bytes *headers,
                   struct bytes *body)
{
    bind_i64(s->content_get, 1, dead_letter);
    if (!db_step(s->db, s->content_get)) {
        db_done(s->content_get);
        return false;
    }
    *headers = col_blob(s->content_get, 0);
    *body = col_blob(s->content_get, 1);
    return true;
}

bool store_content_damaged(struct store *s)
{
    return col_i64(s->content_get, 2) == 0;
}

void store_content_done(struct store *s)
{
    db_done(s->content_get);
}

/* ---- history ---- */

void store_history_add(struct store *s, int64_t dead_letter, int64_t at_ms,
                       const char *from, const char *to, const char *what)
{
    stmt *q = s->history_add;

    bind_i64(q, 1, dead_letter);
    bind_i64(q, 2, at_ms);
    bind_text(q, 3, from ? from : "");
    bind_text(q, 4, to);
    bind_text(q, 5, what);
    db_run(s->db, q);
}

void store_history(struct store *s, int64_t dead_letter)
{
    db_done(s->history_get);
    bind_i64(s->history_get, 1, dead_letter);
}

bool store_history_next(struct store *s, struct history_row *row)
{
    stmt *q = s->history_get;

    if (!db_step(s->db, q)) {
        db_done(q);
        return false;
    }
    *row = (struct history_row){.at_ms = col_i64(q, 0),
                                .from = col_text(q, 1),
                                .to = col_text(q, 2),
                                .what = col_text(q, 3)};
    return true;
}

void store_changes(struct store *s, int64_t after)
{
    db_done(s->history_after);
    bind_i64(s->history_after, 1, after);
}

bool store_changes_next(struct store *s, struct change_row *row)
{
    if (!db_step(s->db, s->history_after))
        return false;
    *row = (struct change_row){.n = col_i64(s->history_after, 0),
                               .dead_letter = col_i64(s->history_after, 1),
                               .to = col_text(s->history_after, 2)};
    return true;
}

void store_changes_done(struct store *s)
{
    db_done(s->history_after);
}

int64_t store_changes_before(struct store *s, int64_t at_ms)
{
    bind_i64(s->history_before, 1, at_ms);
    return db_number(s->db, s->history_before, 0);
}

int64_t store_changes_last(struct store *s)
{
    int64_t n = db_step(s->db, s->history_last) ? col_i64(s->history_last, 0)
                                                : 0;

    db_done(s->history_last);
    return n;
}

/* ---- requeues ---- */

int64_t store_requeue_add(struct store *s, int64_t dead_letter,
                          int64_t generation)
{
    bind_i64(s->requeue_add, 1, dead_letter);
    bind_i64(s->requeue_add, 2, generation);
    return db_number(s->db, s->requeue_add, 0);
}

bool store_requeue_get(struct store *s, int64_t n, int64_t *dead_letter,
                       int64_t *generation)
{
    bool found;

    bind_i64(s->requeue_get, 1, n);
    found = db_step(s->db, s->requeue_get);
    if (found) {
        *dead_letter = col_i64(s->requeue_get, 0);
        *generation = col_i64(s->requeue_get, 1);
    }
    db_done(s->requeue_get);
    return found;
}

void store_requeues_forget(struct store *s, int64_t dead_letter)
{
    bind_i64(s->requeues_forget, 1, dead_letter);
    db_run(s->db, s->requeues_forget);
}

int store_requeues_again(struct store *s, const char *sequencer)
{
    bind_text(s->requeues_again, 1, sequencer);
    db_run(s->db, s->requeues_again);
    return db_changes(s->db);
}

bool store_requeue_not_in_log(struct store *s, int64_t *n, char *sequencer)
{
    stmt *q = s->requeue_not_in_log;
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

void store_decision_add(struct store *s, const struct dead_letter *l,
                        const char *what)
{
    stmt *q = s->decision_add;

    bind_text(q, 1, l->sequencer);
    bind_text(q, 2, l->id);
    bind_i64(q, 3, l->generation);
    bind_text(q, 4, l->event_id);
    bind_text(q, 5, l->endpoint ? l->endpoint : "");
    bind_text(q, 6, what);
    db_run(s->db, q);
}

int store_decisions(struct store *s, int max, struct decision_row *rows)
{
    stmt *q = s->decisions;
    int n = 0;

    bind_i64(q, 1, max);
    for (; n < max && db_step(s->db, q); n++) {
        rows[n].n = col_i64(q, 0);
        rows[n].link_n = (uint64_t)col_i64(q, 1);
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
    *m = (struct wire_decided){.dead_letter_id = wire_text(col_text(q, 0)),
                               .generation = (uint64_t)col_i64(q, 1),
                               .event_id = wire_text(col_text(q, 2)),
                               .endpoint = wire_text(col_text(q, 3)),
                               .what = wire_text(col_text(q, 4))};
    return true;
}

void store_decision_done(struct store *s)
{
    db_done(s->decision_get);
}

void store_decision_handed(struct store *s, int64_t n, uint64_t link_n)
{
    bind_i64(s->decision_handed, 1, n);
    bind_i64(s->decision_handed, 2, (int64_t)link_n);
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

    bind_i64(q, 1, r->link_n);
    bind_text(q, 2, r->sequencer);
    bind_i64(q, 3, r->dead_letter);
    bind_text(q, 4, r->endpoint);
    bind_i64(q, 5, (int64_t)r->action_id);
    return db_number(s->db, q, 0);
}

static void read_redirect(stmt *q, struct redirect_row *r)
{
    r->n = col_i64(q, 0);
    r->link_n = col_i64(q, 1);
    wire_copy(r->sequencer, sizeof r->sequencer, wire_text(col_text(q, 2)));
    r->dead_letter = col_i64(q, 3);
    wire_copy(r->endpoint, sizeof r->endpoint, wire_text(col_text(q, 4)));
    r->action_id = (uint64_t)col_i64(q, 5);
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

int store_redirects(struct store *s, int max, struct redirect_row *rows)
{
    int n = 0;

    bind_i64(s->redirects, 1, max);
    while (n < max && db_step(s->db, s->redirects))
        read_redirect(s->redirects, &rows[n++]);
    db_done(s->redirects);
    return n;
}

void store_redirect_at(struct store *s, int64_t n, int64_t link_n)
{
    bind_i64(s->redirect_at, 1, n);
    bind_i64(s->redirect_at, 2, link_n);
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

/* ---- the list ---- */

void store_scan(struct store *s, const char *state, int64_t before_ms,
                int64_t before_n)
{
    stmt *q = s->scanning = state ? s->scan_state : s->scan_all;

    if (state)
        bind_text(q, 1, state);
    bind_i64(q, 2, before_ms);
    bind_i64(q, 3, before_n);
}

bool store_scan_next(struct store *s, struct scan_row *row)
{
    stmt *q = s->scanning;

    if (!db_step(s->db, q))
        return false;
    *row = (struct scan_row){.n = col_i64(q, 0),
                             .dead_ms = col_i64(q, 1),
                             .endpoint = col_text(q, 2),
                             .workspace = col_text(q, 3),
                             .type = col_text(q, 4),
                             .reason = col_text(q, 5),
                             .source = col_text(q, 6)};
    return true;
}

void store_scan_oldest(struct store *s, int64_t after_ms, int64_t after_n)
{
    stmt *q = s->scanning = s->scan_oldest;

    bind_i64(q, 1, after_ms);
    bind_i64(q, 2, after_n);
}

void store_scan_done(struct store *s)
{
    db_done(s->scanning);
}

/* ---- retention, counts ---- */

static int some(struct store *s, stmt *q, int state, int64_t when_ms,
                int64_t *n, int max)
{
    int count = 0;

    bind_text(q, 1, states_name(&dead_letter_states, state));
    bind_i64(q, 2, when_ms);
    bind_i64(q, 3, max);
    while (count < max && db_step(s->db, q))
        n[count++] = col_i64(q, 0);
    db_done(q);
    return count;
}

int store_old(struct store *s, int state, int64_t before_ms, int64_t after_ms,
              int64_t *n, int max)
{
    int count = some(s, s->old, state, before_ms, n, max);

    return count + some(s, s->ahead, state, after_ms, n + count, max - count);
}

int64_t store_count_old(struct store *s, int state, int64_t before_ms)
{
    bind_text(s->count_old, 1, states_name(&dead_letter_states, state));
    bind_i64(s->count_old, 2, before_ms);
    return db_number(s->db, s->count_old, 0);
}

void store_drop(struct store *s, int64_t n)
{
    stmt *drops[] = {s->drop_history, s->drop_content, s->redirects_forget,
                     s->drop_dead_letter};

    for (size_t i = 0; i < COUNT_OF(drops); i++) {
        bind_i64(drops[i], 1, n);
        db_run(s->db, drops[i]);
    }
}

void store_tallies(struct store *s)
{
    db_done(s->tallies);
}

bool store_tallies_next(struct store *s, struct tally *t)
{
    stmt *q = s->tallies;

    if (!db_step(s->db, q)) {
        db_done(q);
        return false;
    }
    *t = (struct tally){
        .state = states_find(&dead_letter_states, col_text(q, 0)),
        .endpoint = col_text(q, 1),
        .reason = col_text(q, 2),
        .count = col_i64(q, 3)};
    return true;
}

void store_count(struct store *s, int64_t counts[DEAD_LETTER_STATES])
{
    memset(counts, 0, DEAD_LETTER_STATES * sizeof *counts);
    while (db_step(s->db, s->count)) {
        int state = states_find(&dead_letter_states, col_text(s->count, 0));

        if (state >= 0)
            counts[state] = col_i64(s->count, 1);
    }
    db_done(s->count);
}

/* ---- erasure ---- */

void store_workspaces(struct store *s, int64_t after)
{
    bind_i64(s->workspaces, 1, after);
}

bool store_workspaces_next(struct store *s, int64_t *n, const char **workspace)
{
    if (!db_step(s->db, s->workspaces))
        return false;
    *n = col_i64(s->workspaces, 0);
    *workspace = col_text(s->workspaces, 1);
    return true;
}

void store_workspaces_done(struct store *s)
{
    db_done(s->workspaces);
}

void store_erase_replies(struct store *s, const char *id)
{
    bind_text(s->erase_replies, 1, id);
    db_run(s->db, s->erase_replies);
}
