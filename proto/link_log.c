/* The sender's log: numbers that refer to rows of the process's own tables. It has the
 * rows floor … next-1; a log that is not kept, only those after the cursor. */
#include "link_table.h"
#include <string.h>

struct bytes link_turn_message(const struct link_turn *t, uint64_t n)
{
    uint64_t i = n - t->first;
    size_t begin;

    if (n < t->first || i >= (uint64_t)t->count)
        return (struct bytes){NULL, 0};
    begin = i ? t->ends[i - 1] : 0;
    return (struct bytes){t->messages.data + begin, t->ends[i] - begin};
}

void link_turn_clear(struct link_turn *t)
{
    t->count = 0;
    buf_reset(&t->messages);
    if (t->messages.cap > TURN_MEMORY_KEPT_BYTES)
        buf_fini(&t->messages);
}

static void turn_keep(struct link_turn *t, uint64_t n, struct bytes message)
{
    if (!t->count)
        t->first = n;
    if (t->count == TURN_KEPT_MAX_COUNT || n != t->first + (uint64_t)t->count)
        return;
    if (message.n > TURN_KEPT_MAX_BYTES - t->messages.len)
        message.n = 0;
    if (message.n)
        buf_put(&t->messages, message.p, message.n);
    t->ends[t->count++] = t->messages.len;
}

void links_put(struct links *h, const char *peer, int kind, int64_t ref)
{
    links_put_message(h, peer, kind, ref, (struct bytes){NULL, 0});
}

void links_put_message(struct links *h, const char *peer, int kind, int64_t ref,
                       struct bytes message)
{
    struct link_out *o = link_out_linked(h, peer);

    if (epochs_of(&o->epochs, o->next) != o->epoch) {
        bind_i64(h->sql.out_epoch, 1, o->link);
        bind_i64(h->sql.out_epoch, 2, (int64_t)o->next);
        bind_i64(h->sql.out_epoch, 3, (int64_t)o->epoch);
        db_run(h->db, h->sql.out_epoch);
        epochs_add(&o->epochs, o->epoch, o->next);
    }
    if (!o->own) {
        bind_i64(h->sql.log_add, 1, o->link);
        bind_i64(h->sql.log_add, 2, (int64_t)o->next);
        bind_i64(h->sql.log_add, 3, kind);
        bind_i64(h->sql.log_add, 4, ref);
        db_run(h->db, h->sql.log_add);
    }
    turn_keep(&o->turn, o->next, message);
    o->next++;
    o->dirty = true;
}

void links_own_log(struct links *h, const char *peer, int kind)
{
    struct link_out *o = link_out_named(h, peer);

    o->own = o->keep = true;
    o->own_kind = kind;
}

void links_keep_log(struct links *h, const char *peer)
{
    link_out_named(h, peer)->keep = true;
}

uint64_t links_next(struct links *h, const char *peer)
{
    struct link_out *o = link_out_known(h, peer);

    return o ? o->next : 1;
}

uint64_t links_cursor(struct links *h, const char *peer)
{
    struct link_out *o = link_out_known(h, peer);

    return o ? o->cursor : 0;
}

int64_t links_round_trip_ms(const struct links *h, const char *peer)
{
    for (size_t k = 0; k < h->out_count; k++)
        if (strcmp(h->out[k]->peer, peer) == 0)
            return (h->out[k]->round_trip_us + 999) / 1000;
    return 0;
}

uint64_t links_backlog(struct links *h, const char *peer)
{
    struct link_out *o = link_out_known(h, peer);

    return o ? o->next - 1 - o->cursor : 0;
}

int64_t links_oldest_ref(struct links *h, const char *peer, uint64_t max)
{
    struct link_out *o = link_out_known(h, peer);
    stmt *s = h->sql.log_read;
    int64_t oldest = INT64_MAX;

    if (links_backlog(h, peer) > max)
        return 0;
    if (!o || !o->link)
        return oldest;
    bind_i64(s, 1, o->link);
    bind_i64(s, 2, (int64_t)o->cursor + 1);
    while (db_step(h->db, s))
        if (col_i64(s, 2) < oldest)
            oldest = col_i64(s, 2);
    db_done(s);
    return oldest;
}

uint64_t links_floor_of(struct links *h, const char *peer)
{
    struct link_out *o = link_out_known(h, peer);

    return o ? o->floor : 1;
}

static void cut_log(struct links *h, struct link_out *o)
{
    if (o->own)
        return;
    bind_i64(h->sql.log_cut, 1, o->link);
    bind_i64(h->sql.log_cut, 2, (int64_t)o->floor);
    db_run(h->db, h->sql.log_cut);
}

void links_floor(struct links *h, const char *peer, uint64_t floor)
{
    struct link_out *o = link_out_linked(h, peer);

    if (floor > o->cursor + 1) /* rows not yet acknowledged stay */
        floor = o->cursor + 1;
    if (floor <= o->floor)
        return;
    o->floor = floor;
    o->dirty = true;
    cut_log(h, o);
}

void link_log_store(struct links *h, struct link_out *o)
{
    if (!o->keep && o->floor != o->cursor + 1) {
        o->floor = o->cursor + 1;
        cut_log(h, o);
    }
    link_out_store(h, o);
}
