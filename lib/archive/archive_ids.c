/* archive_ids: the archive's index of event ids. */
#include "archive_ids.h"
#include "published.h"
#include "wire.h"
#include <string.h>

#define KEYED "'" KEYED_IDS_FROM "'"

void archive_ids_open(struct archive_ids *s, struct db *db)
{
    s->db = db;
    s->add = db_prepare(
        db, "INSERT INTO archive_ids (event_id, n) VALUES (?1, ?2)");
    s->below = db_prepare(db, "SELECT event_id, n FROM archive_ids"
                              " WHERE event_id <= ?1"
                              " ORDER BY event_id DESC LIMIT 1");
    /* The id precedes headers and body in a row, so SQLite does not read these. */
    s->among = db_prepare(db, "SELECT n FROM archive WHERE n > ?1 AND n < ?2"
                              " AND event_id = ?3 LIMIT 1");
    s->cut = db_prepare(db, "DELETE FROM archive_ids WHERE event_id IN"
                            " (SELECT event_id FROM archive WHERE n <= ?1)");
    s->begin = db_prepare(
        db, "INSERT OR IGNORE INTO archive_ids (event_id, n)"
            " SELECT event_id, n FROM archive WHERE n > ?1 AND n < ?2"
            " AND event_id < " KEYED " ORDER BY n LIMIT 1");
    s->last = db_prepare(db, "SELECT n FROM archive_ids WHERE event_id < " KEYED
                             " ORDER BY event_id DESC LIMIT 1");
    s->newest = db_prepare(db, "SELECT max(event_id) FROM archive"
                               " WHERE n >= ?1 AND n < ?2"
                               " AND event_id < " KEYED);
    s->drop = db_prepare(db, "DELETE FROM archive_ids WHERE event_id = ?1"
                             " AND event_id >= " KEYED);
    /* Entries of rows deleted earlier. Ids made from time ascend with n, so these entries are
     * the first. */
    s->cut_stale = db_prepare(
        db, "DELETE FROM archive_ids WHERE event_id < (SELECT event_id FROM"
            " archive_ids WHERE event_id < " KEYED " AND n > ?1"
            " ORDER BY event_id LIMIT 1)");
    archive_ids_undo(s);
}

void archive_ids_undo(struct archive_ids *s)
{
    s->entered_n = db_number(s->db, s->last, 0);
}

static bool is_keyed(const char *event_id)
{
    return strcmp(event_id, KEYED_IDS_FROM) >= 0;
}

void archive_ids_add(struct archive_ids *s, const char *event_id, int64_t n)
{
    if (!is_keyed(event_id)) {
        if (s->entered_n && n < s->entered_n + IDS_APART)
            return;
        s->entered_n = n;
    }
    bind_text(s->add, 1, event_id);
    bind_i64(s->add, 2, n);
    db_run(s->db, s->add);
}

static int64_t among(struct archive_ids *s, int64_t n, const char *event_id)
{
    bind_i64(s->among, 1, n);
    bind_i64(s->among, 2, n + IDS_APART);
    bind_text(s->among, 3, event_id);
    return db_number(s->db, s->among, 0);
}

int64_t archive_ids_find(struct archive_ids *s, const char *event_id)
{
    int64_t n = 0;
    bool same = false;

    bind_text(s->below, 1, event_id);
    if (db_step(s->db, s->below)) {
        same = strcmp(col_text(s->below, 0), event_id) == 0;
        n = col_i64(s->below, 1);
    }
    db_done(s->below);
    if (same || !n)
        return n;
    return is_keyed(event_id) ? 0 : among(s, n, event_id);
}

void archive_ids_drop(struct archive_ids *s, const char *event_id)
{
    if (!is_keyed(event_id))
        return;
    bind_text(s->drop, 1, event_id);
    db_run(s->db, s->drop);
}

/* The deleted entry may be the one by which remaining rows are found: the first of these gets
 * an entry. If there is none, all remaining and later rows have their own. */
void archive_ids_cut(struct archive_ids *s, int64_t n)
{
    bind_i64(s->cut, 1, n);
    db_run(s->db, s->cut);
    bind_i64(s->begin, 1, n);
    bind_i64(s->begin, 2, n + IDS_APART);
    db_run(s->db, s->begin);
    bind_i64(s->cut_stale, 1, n);
    db_run(s->db, s->cut_stale);
    if (s->entered_n <= n)
        s->entered_n = 0;
}

void archive_ids_newest(struct archive_ids *s, char id[EVENT_ID_BYTES + 1])
{
    int64_t n = db_number(s->db, s->last, 0);

    id[0] = 0;
    bind_i64(s->newest, 1, n);
    bind_i64(s->newest, 2, n + IDS_APART);
    if (n && db_step(s->db, s->newest))
        wire_copy(id, EVENT_ID_BYTES + 1, wire_text(col_text(s->newest, 0)));
    db_done(s->newest);
}
