/* The durable links' tables: their statements, and reading them into memory. */
#include "link_table.h"
#include <stddef.h>
#include <stdlib.h>

#define AT(field) offsetof(struct links, sql.field)

static const struct db_statement statements[] = {
    {AT(out_add), "INSERT INTO link_out(peer, next, cursor, floor) "
                  "VALUES(?, 1, 0, 1) RETURNING link"},
    {AT(out_set), "UPDATE link_out SET next = ?2, cursor = ?3, floor = ?4, "
                  "set_back = ?5 WHERE link = ?1"},
    {AT(out_epoch),
     "INSERT INTO link_out_epochs(link, first, epoch) VALUES(?, ?, ?)"},
    {AT(out_epochs_cut),
     "DELETE FROM link_out_epochs WHERE link = ? AND first < ?"},
    {AT(log_add),
     "INSERT INTO link_log(link, n, kind, ref) VALUES(?, ?, ?, ?)"},
    {AT(log_cut), "DELETE FROM link_log WHERE link = ? AND n < ?"},
    {AT(log_read),
     "SELECT n, kind, ref FROM link_log WHERE link = ? AND n >= ? ORDER BY n"},
    {AT(in_add),
     "INSERT INTO link_in(peer, inbox, n) VALUES(?, ?, 0) RETURNING link"},
    {AT(in_set), "UPDATE link_in SET n = ?2, inbox = ?3, lost = ?4, "
                 "set_back = ?5, unprocessable = ?6 WHERE link = ?1"},
    {AT(in_epoch), "INSERT OR REPLACE INTO link_in_epochs(link, first, epoch) "
                   "VALUES(?, ?, ?)"},
    {AT(in_epochs_cut),
     "DELETE FROM link_in_epochs WHERE link = ? AND (first > ? OR first < ?)"},
    {AT(in_lost),
     "INSERT INTO link_lost(peer, from_n, to_n, at_ms) VALUES(?, ?, ?, ?)"},
    {AT(in_aside), "INSERT INTO link_unprocessable(peer, n, at_ms, why, bytes) "
                   "VALUES(?, ?, ?, ?, ?)"},
    {AT(in_trying), "UPDATE link_in SET trying = ?, tries = ? WHERE link = ?"},
    {AT(in_clean),
     "UPDATE link_in SET start_n = -1, stalls = 0, trying = 0, tries = 0"},
};

void link_rows_prepare(struct links *h)
{
    db_prepare_all(h->db, h, statements, COUNT_OF(statements));
}

static void read_epochs(struct links *h, const char *table, int64_t link,
                        struct epochs *epochs)
{
    char *sql = gr_printf("SELECT epoch, first FROM %s WHERE link = %lld "
                          "ORDER BY first",
                          table, (long long)link);
    sqlite3_stmt *s = NULL;

    sqlite3_prepare_v2(db_handle(h->db), sql, -1, &s, NULL);
    epochs->count = 0;
    while (db_step(h->db, s))
        epochs_add(epochs, (uint64_t)col_i64(s, 0), (uint64_t)col_i64(s, 1));
    sqlite3_finalize(s);
    free(sql);
}

static void forget_out(struct link_out *o)
{
    o->link = 0;
    o->next = o->floor = 1;
    o->cursor = o->sent = o->rewinds = 0;
    o->sent_bytes = 0;
    o->timed_n = 0;
    o->epochs.count = 0;
    o->dirty = o->epochs_pending = o->behind = o->in_doubt = false;
    o->moved_ms = 0;
    o->forked_n = o->forked_epoch = 0; /* logged again, and counted */
    o->fresh_floor = 0; /* … and reported to the process again */
    o->gone_n = o->gone_count = 0;
    link_turn_clear(&o->turn);
}

/* Frames sent before a rollback stay sent: epochs and questions in memory are kept. */
static void read_out(struct links *h)
{
    sqlite3_stmt *s = NULL;

    for (size_t k = 0; k < h->out_count; k++)
        forget_out(h->out[k]);
    sqlite3_prepare_v2(db_handle(h->db),
                       "SELECT link, peer, next, cursor, floor, set_back "
                       "FROM link_out",
                       -1, &s, NULL);
    while (db_step(h->db, s)) {
        struct link_out *o = link_out_named(h, col_text(s, 1));

        o->link = col_i64(s, 0);
        o->next = (uint64_t)col_i64(s, 2);
        o->cursor = (uint64_t)col_i64(s, 3);
        o->floor = (uint64_t)col_i64(s, 4);
        o->rewinds = (uint64_t)col_i64(s, 5);
        o->sent = o->cursor;
        read_epochs(h, "link_out_epochs", o->link, &o->epochs);
    }
    sqlite3_finalize(s);
}

static void read_in(struct links *h)
{
    sqlite3_stmt *s = NULL;

    for (size_t k = 0; k < h->in_count; k++) {
        struct link_in *i = h->in[k];

        i->link = 0;
        i->n = i->taken = i->lost = i->rewinds = i->unprocessable = 0;
        i->trying = i->marked = 0;
        i->tries = 0;
        i->made = false;
        i->epochs.count = 0;
        i->dirty = i->ack_pending = i->gap = false;
    }
    sqlite3_prepare_v2(db_handle(h->db),
                       "SELECT link, peer, inbox, n, lost, set_back, "
                       "unprocessable, trying, tries FROM link_in",
                       -1, &s, NULL);
    while (db_step(h->db, s)) {
        struct link_in *i = link_in_named(h, col_text(s, 1));
        uint64_t n = (uint64_t)col_i64(s, 3);
        size_t epochs;

        i->link = col_i64(s, 0);
        wire_copy(i->inbox, sizeof i->inbox, wire_text(col_text(s, 2)));
        i->n = i->taken = n;
        i->lost = (uint64_t)col_i64(s, 4);
        i->rewinds = (uint64_t)col_i64(s, 5);
        i->unprocessable = (uint64_t)col_i64(s, 6);
        i->trying = (uint64_t)col_i64(s, 7);
        i->tries = (int)col_i64(s, 8);
        i->ack_pending = i->gap = true; /* send our cursor */
        read_epochs(h, "link_in_epochs", i->link, &i->epochs);
        /* A held link may have stored epochs of rows that it had taken but not settled. They
         * are deleted in the turn that takes such a row again, not here: outside a turn, a
         * full disk would keep them without an error. */
        epochs = i->epochs.count;
        epochs_cut(&i->epochs, n);
        i->stale_epochs = i->epochs.count < epochs;
    }
    sqlite3_finalize(s);
}

void link_rows_read(struct links *h)
{
    read_out(h);
    read_in(h);
}

/* If repeated unclean starts found the same cursor, or a message was being tried, the
 * next message may have crashed this process. */
void link_rows_quarantine(struct links *h)
{
    sqlite3_stmt *s = NULL;

    sqlite3_prepare_v2(db_handle(h->db),
                       "UPDATE link_in SET stalls = CASE WHEN start_n = n THEN "
                       "stalls + 1 ELSE 0 END, start_n = n "
                       "RETURNING peer, stalls",
                       -1, &s, NULL);
    while (db_step(h->db, s)) {
        struct link_in *i = link_in_known(h, col_text(s, 0));

        if (i && i->trying > i->n)
            i->quarantine_left = QUARANTINE_COUNT + (int)(i->trying - i->n);
        else if (i && col_i64(s, 1) >= QUARANTINE_STALLS)
            i->quarantine_left = QUARANTINE_COUNT;
    }
    sqlite3_finalize(s);
}
