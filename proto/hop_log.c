/* The sender's log: numbers that point at rows the process has anyway. Held are
 * floor … next-1; those of a log that is not kept, past the cursor only. */
#include "hop_links.h"
#include <string.h>

void hop_put(struct hop *h, const char *peer, int kind, int64_t ref)
{
    struct hop_out *o = hop_out_linked(h, peer);

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
    struct hop_out *o = hop_out_named(h, peer);

    o->own = o->keep = true;
    o->own_kind = kind;
}

void hop_keep_log(struct hop *h, const char *peer)
{
    hop_out_named(h, peer)->keep = true;
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

int64_t hop_round_trip_ms(const struct hop *h, const char *peer)
{
    for (size_t k = 0; k < h->out_count; k++)
        if (strcmp(h->out[k]->peer, peer) == 0)
            return (h->out[k]->round_trip_us + 999) / 1000;
    return 0;
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
    struct hop_out *o = hop_out_linked(h, peer);

    if (floor > o->cursor + 1) /* what was not handed on is held */
        floor = o->cursor + 1;
    if (floor <= o->floor)
        return;
    o->floor = floor;
    o->dirty = true;
    cut_log(h, o);
}

void hop_log_store(struct hop *h, struct hop_out *o)
{
    if (!o->keep && o->floor != o->cursor + 1) {
        o->floor = o->cursor + 1;
        cut_log(h, o);
    }
    hop_out_store(h, o);
}
