/* The hop's rows: the text of its statements, and memory read from rows. */
#include "hop_links.h"
#include <stddef.h>
#include <stdlib.h>

#define AT(field) offsetof(struct hop, sql.field)

static const struct db_statement statements[] = {
    {AT(out_add), "INSERT INTO hop_out(peer, next, cursor, floor) "
                  "VALUES(?, 1, 0, 1) RETURNING link"},
    {AT(out_set), "UPDATE hop_out SET next = ?2, cursor = ?3, floor = ?4, "
                  "set_back = ?5 WHERE link = ?1"},
    {AT(out_run), "INSERT INTO hop_out_runs(link, first, run) VALUES(?, ?, ?)"},
    {AT(out_runs_cut), "DELETE FROM hop_out_runs WHERE link = ? AND first < ?"},
    {AT(log_add), "INSERT INTO hop_log(link, n, kind, ref) VALUES(?, ?, ?, ?)"},
    {AT(log_cut), "DELETE FROM hop_log WHERE link = ? AND n < ?"},
    {AT(log_read),
     "SELECT n, kind, ref FROM hop_log WHERE link = ? AND n >= ? ORDER BY n"},
    {AT(in_add),
     "INSERT INTO hop_in(peer, inbox, n) VALUES(?, ?, 0) RETURNING link"},
    {AT(in_set), "UPDATE hop_in SET n = ?2, inbox = ?3, lost = ?4, "
                 "set_back = ?5, unprocessable = ?6 WHERE link = ?1"},
    {AT(in_run),
     "INSERT OR REPLACE INTO hop_in_runs(link, first, run) VALUES(?, ?, ?)"},
    {AT(in_runs_cut),
     "DELETE FROM hop_in_runs WHERE link = ? AND (first > ? OR first < ?)"},
    {AT(in_lost),
     "INSERT INTO hop_lost(peer, from_n, to_n, at_ms) VALUES(?, ?, ?, ?)"},
    {AT(in_aside), "INSERT INTO hop_unprocessable(peer, n, at_ms, why, bytes) "
                   "VALUES(?, ?, ?, ?, ?)"},
    {AT(in_trying), "UPDATE hop_in SET trying = ?, tries = ? WHERE link = ?"},
    {AT(in_clean),
     "UPDATE hop_in SET start_n = -1, stalls = 0, trying = 0, tries = 0"},
};

void hop_rows_prepare(struct hop *h)
{
    db_prepare_all(h->db, h, statements, COUNT_OF(statements));
}

static void read_runs(struct hop *h, const char *table, int64_t link,
                      struct runs *runs)
{
    char *sql = gr_printf("SELECT run, first FROM %s WHERE link = %lld "
                          "ORDER BY first",
                          table, (long long)link);
    sqlite3_stmt *s = NULL;

    sqlite3_prepare_v2(db_handle(h->db), sql, -1, &s, NULL);
    runs->count = 0;
    while (db_step(h->db, s))
        runs_add(runs, (uint64_t)col_i64(s, 0), (uint64_t)col_i64(s, 1));
    sqlite3_finalize(s);
    free(sql);
}

static void forget_out(struct hop_out *o)
{
    o->link = 0;
    o->next = o->floor = 1;
    o->cursor = o->sent = o->set_back = 0;
    o->sent_bytes = 0;
    o->timed_n = 0;
    o->runs.count = 0;
    o->dirty = o->say_runs = o->behind = o->in_doubt = false;
    o->moved_ms = 0;
    o->forked_n = o->forked_run = 0; /* said again, and counted */
    o->fresh_floor = 0;              /* … and so the process hears of it */
    o->gone_n = o->gone_count = 0;
}

/* What left in this run has left all the same. */
static void read_out(struct hop *h)
{
    sqlite3_stmt *s = NULL;

    for (size_t k = 0; k < h->out_count; k++)
        forget_out(h->out[k]);
    sqlite3_prepare_v2(db_handle(h->db),
                       "SELECT link, peer, next, cursor, floor, set_back "
                       "FROM hop_out",
                       -1, &s, NULL);
    while (db_step(h->db, s)) {
        struct hop_out *o = hop_out_named(h, col_text(s, 1));

        o->link = col_i64(s, 0);
        o->next = (uint64_t)col_i64(s, 2);
        o->cursor = (uint64_t)col_i64(s, 3);
        o->floor = (uint64_t)col_i64(s, 4);
        o->set_back = (uint64_t)col_i64(s, 5);
        o->sent = o->cursor;
        read_runs(h, "hop_out_runs", o->link, &o->runs);
    }
    sqlite3_finalize(s);
}

/* A held link may have noted runs of rows that it had taken but not settled.
 * They leave the disk in the turn that takes such a row again: not here, outside
 * of a turn, where a full disk would keep them and nobody know. */
static void forget_runs_past(struct hop_in *i, uint64_t n)
{
    size_t known = i->runs.count;

    runs_cut(&i->runs, n);
    i->stale_runs = i->runs.count < known;
}

static void forget_in(struct hop_in *i)
{
    i->link = 0;
    i->n = i->taken = i->lost = i->set_back = i->unprocessable = 0;
    i->trying = i->marked = 0;
    i->tries = 0;
    i->made = false;
    i->runs.count = 0;
    i->dirty = i->say = i->hole = false;
}

static void read_in(struct hop *h)
{
    sqlite3_stmt *s = NULL;

    for (size_t k = 0; k < h->in_count; k++)
        forget_in(h->in[k]);
    sqlite3_prepare_v2(db_handle(h->db),
                       "SELECT link, peer, inbox, n, lost, set_back, "
                       "unprocessable, trying, tries FROM hop_in",
                       -1, &s, NULL);
    while (db_step(h->db, s)) {
        struct hop_in *i = hop_in_named(h, col_text(s, 1));
        uint64_t n = (uint64_t)col_i64(s, 3);

        i->link = col_i64(s, 0);
        wire_copy(i->inbox, sizeof i->inbox, wire_text(col_text(s, 2)));
        i->n = i->taken = n;
        i->lost = (uint64_t)col_i64(s, 4);
        i->set_back = (uint64_t)col_i64(s, 5);
        i->unprocessable = (uint64_t)col_i64(s, 6);
        i->trying = (uint64_t)col_i64(s, 7);
        i->tries = (int)col_i64(s, 8);
        i->say = i->hole = true; /* we say where we are */
        read_runs(h, "hop_in_runs", i->link, &i->runs);
        forget_runs_past(i, n);
    }
    sqlite3_finalize(s);
}

void hop_rows_read(struct hop *h)
{
    read_out(h);
    read_in(h);
}

/* A start that finds the same place as unclean ones before it, or a message
 * being tried, has perhaps been taken down by what comes next. */
void hop_rows_suspect(struct hop *h)
{
    sqlite3_stmt *s = NULL;

    sqlite3_prepare_v2(db_handle(h->db),
                       "UPDATE hop_in SET stalls = CASE WHEN start_n = n THEN "
                       "stalls + 1 ELSE 0 END, start_n = n "
                       "RETURNING peer, stalls",
                       -1, &s, NULL);
    while (db_step(h->db, s)) {
        struct hop_in *i = hop_in_known(h, col_text(s, 0));

        if (i && i->trying > i->n)
            i->suspect_left = SUSPECT_COUNT + (int)(i->trying - i->n);
        else if (i && col_i64(s, 1) >= SUSPECT_STALLS)
            i->suspect_left = SUSPECT_COUNT;
    }
    sqlite3_finalize(s);
}
