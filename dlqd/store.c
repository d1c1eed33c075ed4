#include "store_inside.h"
#include "sums.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define LETTER_COLUMNS                                                       \
    "n, id, life, state, sequencer, event_id, endpoint, reason, source, "    \
    "provider_id, type, workspace, received_ms, sequence, previous, clock, " \
    "attempts, first_ms, dead_ms, last_http_status, last_error, "            \
    "last_response, moved_ms, note"

#define SCAN_OF(state)                                              \
    "SELECT n, dead_ms, endpoint, workspace, type, reason, source " \
    "FROM letters INDEXED BY letters_newest "                       \
    "WHERE state = " state " AND (dead_ms, n) < (?2, ?3) "

#define OLD(when)                                                         \
    "SELECT n FROM letters WHERE state = ?1 AND " when " AND NOT EXISTS " \
    "(SELECT 1 FROM redirects r WHERE r.letter = letters.n AND "          \
    "r.hop_n >= 0) ORDER BY moved_ms LIMIT ?3"

#define ALSO(state) "UNION ALL " SCAN_OF(state)

static const char scan_all[] = SCAN_OF("'dead'") ALSO("'requeued'")
    ALSO("'recovered'") ALSO("'resolved'")
        ALSO("'discarded'") "ORDER BY dead_ms DESC, n DESC";

#define AT(field) offsetof(struct store, field)

static const struct db_statement statements[] = {
    {AT(find_id), "SELECT " LETTER_COLUMNS " FROM letters WHERE id = ?1"},
    {AT(find_n), "SELECT " LETTER_COLUMNS " FROM letters WHERE n = ?1"},
    {AT(by_event),
     "SELECT " LETTER_COLUMNS " FROM letters WHERE event_id = ?1 ORDER BY n"},
    {AT(insert),
     "INSERT INTO letters (id, life, state, sequencer, event_id, endpoint, "
     "reason, source, provider_id, type, workspace, received_ms, sequence, "
     "previous, clock, attempts, first_ms, dead_ms, last_http_status, "
     "last_error, last_response, moved_ms, sum) VALUES (?1, ?2, 'dead', ?3, "
     "?4, nullif(?5, ''), ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, "
     "?17, ?18, ?19, ?20, ?21, content_sum(?1, ?4, nullif(?5, ''), ?7, ?8, ?9, "
     "?10, ?11, ?12, ?13, ?14)) RETURNING n"},
    {AT(die_again),
     "UPDATE letters SET life = ?2, state = 'dead', reason = ?3, attempts = "
     "?4, first_ms = ?5, dead_ms = ?6, last_http_status = ?7, last_error = ?8, "
     "last_response = ?9, moved_ms = ?10 WHERE n = ?1"},
    {AT(move),
     "UPDATE letters SET state = ?2, life = ?3, moved_ms = ?4 WHERE n = ?1"},
    {AT(content_add),
     "INSERT INTO contents (letter, headers, body, sum) VALUES (?1, ?2, ?3, "
     "content_sum(?1, ?2, ?3))"},
    {AT(content_get),
     "SELECT headers, body, " DB_INTACT(SUM_CONTENTS) " AND (SELECT " DB_INTACT(
         SUM_LETTERS) " FROM letters WHERE n = ?1) FROM contents WHERE letter "
                      "= ?1"},
    {AT(history_add), "INSERT INTO history (letter, at_ms, from_state, "
                      "to_state, what) VALUES (?1, ?2, ?3, ?4, ?5)"},
    {AT(history_after),
     "SELECT n, letter, to_state FROM history WHERE n > ? ORDER BY n"},
    {AT(history_before), "SELECT n FROM history WHERE at_ms < ? ORDER BY n "
                         "DESC LIMIT 1"},
    {AT(history_last), "SELECT ifnull(max(n), 0) FROM history"},
    {AT(history_get), "SELECT at_ms, from_state, to_state, what FROM history "
                      "WHERE letter = ?1 ORDER BY n"},
    {AT(note), "UPDATE letters SET note = ?2 WHERE n = ?1"},
    {AT(scan_state), SCAN_OF("?1") "ORDER BY dead_ms DESC, n DESC"},
    {AT(scan_all), scan_all},
    {AT(scan_oldest),
     "SELECT n, dead_ms, endpoint, workspace, type, reason, source FROM "
     "letters INDEXED BY letters_newest WHERE state = 'dead' AND (dead_ms, n) "
     "> (?1, ?2) ORDER BY dead_ms, n"},
    {AT(redirects_forget), "DELETE FROM redirects WHERE letter = ?1"},
    {AT(tallies),
     "SELECT state, endpoint, reason, count FROM tallies WHERE count > 0"},
    {AT(old), OLD("moved_ms < ?2")},
    {AT(ahead), OLD("moved_ms > ?2")},
    {AT(count_old), "SELECT count(*) FROM (SELECT 1 FROM letters WHERE state = "
                    "?1 AND moved_ms < ?2 LIMIT 100000)"},
    {AT(drop_letter), "DELETE FROM letters WHERE n = ?1"},
    {AT(drop_content), "DELETE FROM contents WHERE letter = ?1"},
    {AT(drop_history), "DELETE FROM history WHERE letter = ?1"},
    {AT(count), "SELECT state, sum(count) FROM tallies GROUP BY state"},
    {AT(counted), "SELECT since_ms FROM counted WHERE one = 1"},
    {AT(counted_set), "UPDATE counted SET since_ms = ?1 WHERE one = 1"},
};

void store_open(struct store *s, struct db *db)
{
    s->db = db;
    db_prepare_all(db, s, statements, COUNT_OF(statements));
    store_prepare_outgoing(s);
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

/* ---- letters ---- */

static char *dup(stmt *q, int column)
{
    return gr_strdup(col_text(q, column));
}

static struct bytes dup_blob(stmt *q, int column)
{
    struct bytes b = col_blob(q, column);
    char *copy = gr_alloc(b.n);

    memcpy(copy, b.p, b.n);
    return (struct bytes){copy, b.n};
}

/* From a row of LETTER_COLUMNS. */
static void read_letter(stmt *q, struct letter *l)
{
    *l = (struct letter){
        .n = col_i64(q, 0),
        .id = dup(q, 1),
        .life = col_i64(q, 2),
        .state = states_find(&letter_states, col_text(q, 3)),
        .sequencer = dup(q, 4),
        .event_id = dup(q, 5),
        .endpoint = col_null(q, 6) ? NULL : dup(q, 6),
        .reason = dup(q, 7),
        .source = dup(q, 8),
        .provider_id = dup(q, 9),
        .type = dup(q, 10),
        .workspace = dup(q, 11),
        .received_ms = col_i64(q, 12),
        .sequence = col_i64(q, 13),
        .previous = col_i64(q, 14),
        .clock = dup(q, 15),
        .attempts = col_i64(q, 16),
        .first_ms = col_i64(q, 17),
        .dead_ms = col_i64(q, 18),
        .last_http_status = col_i64(q, 19),
        .last_error = dup(q, 20),
        .last_response = dup_blob(q, 21),
        .moved_ms = col_i64(q, 22),
        .note = dup(q, 23),
    };
}

static bool find(struct store *s, stmt *q, struct letter *l)
{
    bool found = db_step(s->db, q);

    if (found)
        read_letter(q, l);
    db_done(q);
    return found;
}

bool store_find(struct store *s, struct bytes id, struct letter *l)
{
    bind_str(s->find_id, 1, id);
    return find(s, s->find_id, l);
}

bool store_find_n(struct store *s, int64_t n, struct letter *l)
{
    bind_i64(s->find_n, 1, n);
    return find(s, s->find_n, l);
}

void store_event(struct store *s, const char *event_id)
{
    db_done(s->by_event);
    bind_text(s->by_event, 1, event_id);
}

bool store_event_next(struct store *s, struct letter *l)
{
    if (db_step(s->db, s->by_event)) {
        read_letter(s->by_event, l);
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

    bind_str(q, 1, m->letter_id);
    bind_i64(q, 2, (int64_t)m->life);
    bind_text(q, 3, from);
    bind_str(q, 4, m->event_id);
    bind_str(q, 5, m->endpoint);
    bind_str(q, 6, m->reason);
    bind_str(q, 7, m->source);
    bind_str(q, 8, m->provider_id);
    bind_str(q, 9, m->type);
    bind_str(q, 10, m->workspace);
    bind_i64(q, 11, m->received_ms);
    bind_i64(q, 12, (int64_t)m->sequence);
    bind_i64(q, 13, (int64_t)m->previous);
    bind_str(q, 14, m->clock);
    bind_i64(q, 15, (int64_t)m->attempts);
    bind_i64(q, 16, m->first_ms);
    bind_i64(q, 17, m->dead_ms);
    bind_i64(q, 18, (int64_t)m->last_http_status);
    bind_str(q, 19, m->last_error);
    bind_blob(q, 20, m->last_response);
    bind_i64(q, 21, now_ms);
    n = db_number(s->db, q, 0);
    bind_i64(s->content_add, 1, n);
    bind_blob(s->content_add, 2, m->headers);
    bind_blob(s->content_add, 3, m->body);
    db_run(s->db, s->content_add);
    return n;
}

void store_die_again(struct store *s, int64_t n, const struct wire_dead *m,
                     int64_t now_ms)
{
    stmt *q = s->die_again;

    bind_i64(q, 1, n);
    bind_i64(q, 2, (int64_t)m->life);
    bind_str(q, 3, m->reason);
    bind_i64(q, 4, (int64_t)m->attempts);
    bind_i64(q, 5, m->first_ms);
    bind_i64(q, 6, m->dead_ms);
    bind_i64(q, 7, (int64_t)m->last_http_status);
    bind_str(q, 8, m->last_error);
    bind_blob(q, 9, m->last_response);
    bind_i64(q, 10, now_ms);
    db_run(s->db, q);
}

void store_note(struct store *s, int64_t letter, const char *note)
{
    bind_i64(s->note, 1, letter);
    bind_text(s->note, 2, note);
    db_run(s->db, s->note);
}

void store_move(struct store *s, int64_t n, int state, int64_t life,
                int64_t now_ms)
{
    bind_i64(s->move, 1, n);
    bind_text(s->move, 2, states_name(&letter_states, state));
    bind_i64(s->move, 3, life);
    bind_i64(s->move, 4, now_ms);
    db_run(s->db, s->move);
}

bool store_content(struct store *s, int64_t letter, struct bytes *headers,
                   struct bytes *body)
{
    bind_i64(s->content_get, 1, letter);
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

void store_history_add(struct store *s, int64_t letter, int64_t at_ms,
                       const char *from, const char *to, const char *what)
{
    stmt *q = s->history_add;

    bind_i64(q, 1, letter);
    bind_i64(q, 2, at_ms);
    bind_text(q, 3, from ? from : "");
    bind_text(q, 4, to);
    bind_text(q, 5, what);
    db_run(s->db, q);
}

void store_history(struct store *s, int64_t letter)
{
    db_done(s->history_get);
    bind_i64(s->history_get, 1, letter);
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
                               .letter = col_i64(s->history_after, 1),
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
                int64_t *n, int most)
{
    int count = 0;

    bind_text(q, 1, states_name(&letter_states, state));
    bind_i64(q, 2, when_ms);
    bind_i64(q, 3, most);
    while (count < most && db_step(s->db, q))
        n[count++] = col_i64(q, 0);
    db_done(q);
    return count;
}

int store_old(struct store *s, int state, int64_t before_ms, int64_t after_ms,
              int64_t *n, int most)
{
    int count = some(s, s->old, state, before_ms, n, most);

    return count + some(s, s->ahead, state, after_ms, n + count, most - count);
}

int64_t store_count_old(struct store *s, int state, int64_t before_ms)
{
    bind_text(s->count_old, 1, states_name(&letter_states, state));
    bind_i64(s->count_old, 2, before_ms);
    return db_number(s->db, s->count_old, 0);
}

void store_drop(struct store *s, int64_t n)
{
    stmt *drops[] = {s->drop_history, s->drop_content, s->redirects_forget,
                     s->drop_letter};

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
    *t = (struct tally){.state = states_find(&letter_states, col_text(q, 0)),
                        .endpoint = col_text(q, 1),
                        .reason = col_text(q, 2),
                        .count = col_i64(q, 3)};
    return true;
}

void store_count(struct store *s, int64_t counts[LETTER_STATES])
{
    memset(counts, 0, LETTER_STATES * sizeof *counts);
    while (db_step(s->db, s->count)) {
        int state = states_find(&letter_states, col_text(s->count, 0));

        if (state >= 0)
            counts[state] = col_i64(s->count, 1);
    }
    db_done(s->count);
}
