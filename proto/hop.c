/* The hop's rows and its memory of them. hop_out.c sends, hop_in.c receives. */
#include "hop.h"
#include "clock.h"
#include "hop_links.h"
#include "log.h"
#include <stdlib.h>
#include <string.h>

static void prepare(struct hop *h)
{
    struct db *db = h->db;

    h->sql.out_add = db_prepare(
        db, "INSERT INTO hop_out(peer, next, cursor, floor) VALUES(?, 1, 0, 1) "
            "RETURNING link");
    h->sql.out_set = db_prepare(
        db, "UPDATE hop_out SET next = ?2, cursor = ?3, floor = ?4, "
            "set_back = ?5 WHERE link = ?1");
    h->sql.out_run = db_prepare(
        db, "INSERT INTO hop_out_runs(link, first, run) VALUES(?, ?, ?)");
    h->sql.out_runs_cut = db_prepare(
        db, "DELETE FROM hop_out_runs WHERE link = ? AND first < ?");
    h->sql.log_add = db_prepare(
        db, "INSERT INTO hop_log(link, n, kind, ref) VALUES(?, ?, ?, ?)");
    h->sql.log_cut = db_prepare(db,
                                "DELETE FROM hop_log WHERE link = ? AND n < ?");
    h->sql.log_read = db_prepare(
        db, "SELECT n, kind, ref FROM hop_log WHERE link = ? AND n >= ? "
            "ORDER BY n");
    h->sql.in_add = db_prepare(
        db, "INSERT INTO hop_in(peer, inbox, n) VALUES(?, ?, 0) "
            "RETURNING link");
    h->sql.in_set = db_prepare(
        db, "UPDATE hop_in SET n = ?2, inbox = ?3, lost = ?4, set_back = ?5, "
            "unprocessable = ?6 WHERE link = ?1");
    h->sql.in_run = db_prepare(
        db,
        "INSERT OR REPLACE INTO hop_in_runs(link, first, run) VALUES(?, ?, ?)");
    h->sql.in_runs_cut = db_prepare(
        db, "DELETE FROM hop_in_runs WHERE link = ? AND (first > ? OR "
            "first < ?)");
    h->sql.in_lost = db_prepare(
        db, "INSERT INTO hop_lost(peer, from_n, to_n, at_ms) "
            "VALUES(?, ?, ?, ?)");
    h->sql.in_aside = db_prepare(
        db, "INSERT INTO hop_unprocessable(peer, n, at_ms, why, bytes) "
            "VALUES(?, ?, ?, ?, ?)");
    h->sql.in_trying = db_prepare(
        db, "UPDATE hop_in SET trying = ?, tries = ? WHERE link = ?");
    h->sql.in_clean = db_prepare(
        db, "UPDATE hop_in SET start_n = -1, stalls = 0, trying = 0, "
            "tries = 0");
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

/* Links have runs of their own: a receiver that comes with the database of
 * another must not find its place in our log by chance. */
static uint64_t run_of_link(uint64_t start, const char *peer)
{
    uint64_t h = start;

    for (; *peer; peer++)
        h = (h ^ (unsigned char)*peer) * 1099511628211ULL;
    return h & INT64_MAX ? h & INT64_MAX : 1;
}

static struct hop_out *out_new(struct hop *h, const char *peer)
{
    struct hop_out *o = gr_alloc(sizeof *o);

    wire_copy(o->peer, sizeof o->peer, wire_text(peer));
    mailbox_address_of(h->mailbox, peer, o->inbox);
    o->run = run_of_link(h->run, o->peer);
    o->next = o->floor = 1;
    o->ask_wait_ms = ASK_FIRST_MS;
    h->out = gr_realloc(h->out, (h->out_count + 1) * sizeof *h->out);
    h->out[h->out_count++] = o;
    return o;
}

static struct hop_in *in_new(struct hop *h, const char *peer)
{
    struct hop_in *i = gr_alloc(sizeof *i);

    wire_copy(i->peer, sizeof i->peer, wire_text(peer));
    h->in = gr_realloc(h->in, (h->in_count + 1) * sizeof *h->in);
    h->in[h->in_count++] = i;
    return i;
}

bool hop_is_name(struct bytes s)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";

    for (size_t k = 0; k < s.n; k++)
        if (!memchr(allowed, ((const char *)s.p)[k], sizeof allowed - 1))
            return false;
    return s.n > 0 && s.n <= NAME_MAX_BYTES;
}

struct hop_out *hop_out_known(struct hop *h, const char *peer)
{
    for (size_t k = 0; k < h->out_count; k++)
        if (strcmp(h->out[k]->peer, peer) == 0)
            return h->out[k];
    return NULL;
}

static struct hop_in *in_known(struct hop *h, const char *peer)
{
    for (size_t k = 0; k < h->in_count; k++)
        if (strcmp(h->in[k]->peer, peer) == 0)
            return h->in[k];
    return NULL;
}

static int64_t returned_link(struct hop *h, stmt *s)
{
    int64_t link = db_step(h->db, s) ? col_i64(s, 0) : 0;

    db_done(s);
    return link;
}

struct hop_out *hop_out_find(struct hop *h, const char *peer)
{
    struct hop_out *o = hop_out_known(h, peer);

    if (!o)
        o = out_new(h, peer);
    if (!o->link) {
        bind_text(h->sql.out_add, 1, o->peer);
        o->link = returned_link(h, h->sql.out_add);
    }
    return o;
}

struct hop_in *hop_in_find(struct hop *h, const char *peer)
{
    struct hop_in *i = in_known(h, peer);

    if (!i && h->in_count >= LINKS_MAX)
        return NULL;
    if (!i)
        i = in_new(h, peer);
    if (!i->link) {
        bind_text(h->sql.in_add, 1, i->peer);
        bind_text(h->sql.in_add, 2, i->inbox);
        i->link = returned_link(h, h->sql.in_add);
        i->made = true;
    }
    return i;
}

/* Memory as the disk has it. What left in this run has left all the same. */
static void read_out(struct hop *h)
{
    sqlite3_stmt *s = NULL;

    for (size_t k = 0; k < h->out_count; k++) {
        struct hop_out *o = h->out[k];

        o->link = 0;
        o->next = o->floor = 1;
        o->cursor = o->sent = o->set_back = 0;
        o->sent_bytes = 0;
        o->runs.count = 0;
        o->dirty = o->say_runs = o->behind = false;
        o->moved_ms = 0;
        o->forked_n = o->forked_run = 0; /* said again, and counted */
        o->fresh_floor = 0; /* … and so the process hears of it */
    }
    sqlite3_prepare_v2(db_handle(h->db),
                       "SELECT link, peer, next, cursor, floor, set_back "
                       "FROM hop_out",
                       -1, &s, NULL);
    while (db_step(h->db, s)) {
        struct hop_out *o = hop_out_known(h, col_text(s, 1));

        if (!o)
            o = out_new(h, col_text(s, 1));
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

static void read_in(struct hop *h)
{
    sqlite3_stmt *s = NULL;

    for (size_t k = 0; k < h->in_count; k++) {
        struct hop_in *i = h->in[k];

        i->link = 0;
        i->n = i->taken = i->lost = i->set_back = i->unprocessable = 0;
        i->trying = i->marked = 0;
        i->tries = 0;
        i->made = false;
        i->runs.count = 0;
        i->dirty = i->say = i->hole = false;
    }
    sqlite3_prepare_v2(db_handle(h->db),
                       "SELECT link, peer, inbox, n, lost, set_back, "
                       "unprocessable, trying, tries FROM hop_in",
                       -1, &s, NULL);
    while (db_step(h->db, s)) {
        struct hop_in *i = in_known(h, col_text(s, 1));
        uint64_t n = (uint64_t)col_i64(s, 3);

        if (!i)
            i = in_new(h, col_text(s, 1));
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

/* A start that finds the same place as unclean ones before it, or a message
 * being tried, has perhaps been taken down by what comes next. */
static void suspect(struct hop *h)
{
    sqlite3_stmt *s = NULL;

    sqlite3_prepare_v2(db_handle(h->db),
                       "UPDATE hop_in SET stalls = CASE WHEN start_n = n THEN "
                       "stalls + 1 ELSE 0 END, start_n = n "
                       "RETURNING peer, stalls",
                       -1, &s, NULL);
    while (db_step(h->db, s)) {
        struct hop_in *i = in_known(h, col_text(s, 0));

        if (i && i->trying > i->n)
            i->suspect_left = SUSPECT_COUNT + (int)(i->trying - i->n);
        else if (i && col_i64(s, 1) >= SUSPECT_STALLS)
            i->suspect_left = SUSPECT_COUNT;
    }
    sqlite3_finalize(s);
}

struct hop *hop_open(struct db *db, struct mailbox *mailbox,
                     const struct hop_ops *ops, uint64_t run, void *self)
{
    struct hop *h = gr_alloc(sizeof *h);

    h->db = db;
    h->mailbox = mailbox;
    h->ops = ops;
    h->self = self;
    h->run = run;
    h->opened_ms = mono_ms();
    buf_init(&h->frame, FRAME_MAX_BYTES);
    buf_init(&h->messages, FRAME_MAX_BYTES);
    buf_init(&h->kept, FRAME_MAX_BYTES);
    prepare(h);
    read_out(h);
    read_in(h);
    suspect(h);
    return h;
}

void hop_close(struct hop *h)
{
    if (!h)
        return;
    for (size_t k = 0; k < h->out_count; k++) {
        runs_fini(&h->out[k]->runs);
        free(h->out[k]);
    }
    for (size_t k = 0; k < h->in_count; k++) {
        runs_fini(&h->in[k]->runs);
        free(h->in[k]);
    }
    free(h->out);
    free(h->in);
    buf_fini(&h->frame);
    buf_fini(&h->messages);
    buf_fini(&h->kept);
    free(h);
}

void hop_undo(struct hop *h)
{
    buf_reset(&h->kept);
    read_out(h);
    read_in(h);
    h->taken_count = 0;
    h->taken_bytes = 0;
    h->applied_us = 0;
}

/* ---- the log ---- */

void hop_put(struct hop *h, const char *peer, int kind, int64_t ref)
{
    struct hop_out *o = hop_out_find(h, peer);

    if (runs_of(&o->runs, o->next) != o->run) {
        bind_i64(h->sql.out_run, 1, o->link);
        bind_i64(h->sql.out_run, 2, (int64_t)o->next);
        bind_i64(h->sql.out_run, 3, (int64_t)o->run);
        db_run(h->db, h->sql.out_run);
        runs_add(&o->runs, o->run, o->next);
    }
    if (!o->own) {
        bind_i64(h->sql.log_add, 1, o->link);
        bind_i64(h->sql.log_add, 2, (int64_t)o->next);
        bind_i64(h->sql.log_add, 3, kind);
        bind_i64(h->sql.log_add, 4, ref);
        db_run(h->db, h->sql.log_add);
    }
    o->next++;
    o->dirty = true;
}

void hop_own_log(struct hop *h, const char *peer, int kind)
{
    struct hop_out *o = hop_out_known(h, peer);

    if (!o)
        o = out_new(h, peer);
    o->own = o->keep = true;
    o->own_kind = kind;
}

void hop_keep_log(struct hop *h, const char *peer)
{
    struct hop_out *o = hop_out_known(h, peer);

    if (!o)
        o = out_new(h, peer);
    o->keep = true;
}

uint64_t hop_next(struct hop *h, const char *peer)
{
    struct hop_out *o = hop_out_known(h, peer);

    return o ? o->next : 1;
}

uint64_t hop_cursor(struct hop *h, const char *peer)
{
    struct hop_out *o = hop_out_known(h, peer);

    return o ? o->cursor : 0;
}

uint64_t hop_backlog(struct hop *h, const char *peer)
{
    struct hop_out *o = hop_out_known(h, peer);

    return o ? o->next - 1 - o->cursor : 0;
}

uint64_t hop_floor_of(struct hop *h, const char *peer)
{
    struct hop_out *o = hop_out_known(h, peer);

    return o ? o->floor : 1;
}

static void cut_log(struct hop *h, struct hop_out *o)
{
    if (o->own)
        return;
    bind_i64(h->sql.log_cut, 1, o->link);
    bind_i64(h->sql.log_cut, 2, (int64_t)o->floor);
    db_run(h->db, h->sql.log_cut);
}

void hop_floor(struct hop *h, const char *peer, uint64_t floor)
{
    struct hop_out *o = hop_out_find(h, peer);

    if (floor > o->cursor + 1) /* what was not handed on is held */
        floor = o->cursor + 1;
    if (floor <= o->floor)
        return;
    o->floor = floor;
    o->dirty = true;
    cut_log(h, o);
}

/* ---- the turn ---- */

gr_rc hop_receive(struct hop *h, struct bytes frame)
{
    struct wire_acked a;
    struct wire_runs r;

    switch (wire_kind(frame)) {
    case WIRE_KIND_BATCH:
        return hop_in_batch(h, frame);
    case WIRE_KIND_ACKED:
        if (wire_get_acked(&a, frame) != GR_OK)
            return GR_REFUSE;
        return hop_out_acked(h, &a);
    case WIRE_KIND_RUNS:
        if (wire_get_runs(&r, frame) != GR_OK)
            return GR_REFUSE;
        return hop_in_runs(h, &r);
    default:
        return GR_REFUSE;
    }
}

gr_rc hop_resume(struct hop *h)
{
    struct buf frame = h->kept;
    gr_rc rc;

    if (!frame.len)
        return GR_OK;
    buf_init(&h->kept, FRAME_MAX_BYTES);
    rc = hop_in_batch(h, (struct bytes){frame.data, frame.len});
    buf_fini(&frame);
    return rc;
}

int hop_taken_count(const struct hop *h)
{
    return h->taken_count;
}

size_t hop_taken_bytes(const struct hop *h)
{
    return h->taken_bytes;
}

static void store_out(struct hop *h, struct hop_out *o)
{
    if (!o->keep && o->floor != o->cursor + 1) {
        o->floor = o->cursor + 1;
        cut_log(h, o);
    }
    hop_out_store(h, o);
}

void hop_stopped(struct hop *h)
{
    db_run(h->db, h->sql.in_clean);
    for (size_t k = 0; k < h->out_count; k++)
        if (h->out[k]->moved_ms)
            store_out(h, h->out[k]);
}

/* The cursor of a log whose rows stay waits for a turn that has rows anyway: one
 * that is behind costs some frames at the next start, an fsync for it alone
 * costs all that is under way. */
static bool is_to_store(const struct hop *h, const struct hop_out *o)
{
    return o->dirty || (o->moved_ms && (db_dirty(h->db) ||
                                        mono_ms() - o->moved_ms >= CURSOR_MS));
}

void hop_work(struct hop *h)
{
    for (size_t k = 0; k < h->in_count; k++)
        hop_in_store(h, h->in[k]);
    for (size_t k = 0; k < h->out_count; k++)
        if (is_to_store(h, h->out[k]))
            store_out(h, h->out[k]);
    h->taken_count = 0;
    h->taken_bytes = 0;
    h->applied_us = 0;
}

int hop_tell(struct hop *h)
{
    int64_t now = mono_ms();
    int wait_ms = ASK_IDLE_MS;

    for (size_t k = 0; k < h->in_count; k++)
        if (h->in[k]->say)
            hop_in_tell(h, h->in[k]);
    db_read_begin(h->db);
    for (size_t k = 0; k < h->out_count; k++) {
        int ms = h->out[k]->link ? hop_out_tell(h, h->out[k], now) : wait_ms;

        if (h->out[k]->moved_ms && ms > CURSOR_MS)
            ms = CURSOR_MS;
        if (ms < wait_ms)
            wait_ms = ms;
    }
    db_read_end(h->db);
    if (!h->kept.len)
        return wait_ms;
    return h->quiet ? SUSPECT_LOOK_MS : 0;
}

void hop_hold(struct hop *h, const char *from)
{
    struct hop_in *i = in_known(h, from);

    if (!i)
        i = in_new(h, from);
    i->held = true;
}

void hop_settle(struct hop *h, const char *from, uint64_t n)
{
    struct hop_in *i = in_known(h, from);

    if (i && n > i->taken)
        n = i->taken;
    if (!i || n <= i->n)
        return;
    i->n = n;
    i->dirty = i->say = true;
}

bool hop_links(struct hop *h, int *at, struct hop_link *link)
{
    size_t k = (size_t)(*at)++;

    if (k < h->out_count) {
        const struct hop_out *o = h->out[k];

        *link = (struct hop_link){
            .peer = o->peer,
            .inbox = o->inbox,
            .out = true,
            .window = o->sent > o->cursor ? o->sent - o->cursor : 0,
            .next = o->next,
            .done = o->cursor,
            .set_back = o->set_back,
            .heard_ms = o->heard_ms};
        return true;
    }
    k -= h->out_count;
    if (k < h->in_count) {
        const struct hop_in *i = h->in[k];

        *link = (struct hop_link){.peer = i->peer,
                                  .inbox = i->inbox,
                                  .next = i->taken,
                                  .done = i->n,
                                  .lost = i->lost,
                                  .set_back = i->set_back,
                                  .unprocessable = i->unprocessable,
                                  .heard_ms = i->heard_ms};
        return true;
    }
    return false;
}
