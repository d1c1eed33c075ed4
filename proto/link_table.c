/* The links of a process, by the name of the peer. */
#include "link_table.h"
#include "hash.h"
#include <stdlib.h>
#include <string.h>

bool link_is_name(struct bytes s)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";

    for (size_t k = 0; k < s.n; k++)
        if (!memchr(allowed, ((const char *)s.p)[k], sizeof allowed - 1))
            return false;
    return s.n > 0 && s.n <= NAME_MAX_BYTES;
}

static struct link_out *out_new(struct links *h, const char *peer)
{
    struct link_out *o = gr_alloc(sizeof *o);
    uint64_t epoch;

    wire_copy(o->peer, sizeof o->peer, wire_text(peer));
    mailbox_address_of(h->mailbox, peer, o->inbox);
    /* Each link has its own epoch, so that a receiver started with another's database cannot
     * find its cursor in our log by chance. */
    epoch = hash_name(h->epoch, o->peer) & INT64_MAX;
    o->epoch = o->question = epoch ? epoch : 1;
    o->next = o->floor = 1;
    o->ask_wait_ms = ASK_FIRST_MS;
    buf_init(&o->turn.messages, TURN_KEPT_MAX_BYTES);
    h->out = gr_realloc(h->out, (h->out_count + 1) * sizeof *h->out);
    h->out[h->out_count++] = o;
    return o;
}

struct link_out *link_out_known(struct links *h, const char *peer)
{
    for (size_t k = 0; k < h->out_count; k++)
        if (strcmp(h->out[k]->peer, peer) == 0)
            return h->out[k];
    return NULL;
}

struct link_in *link_in_known(struct links *h, const char *peer)
{
    for (size_t k = 0; k < h->in_count; k++)
        if (strcmp(h->in[k]->peer, peer) == 0)
            return h->in[k];
    return NULL;
}

struct link_out *link_out_named(struct links *h, const char *peer)
{
    struct link_out *o = link_out_known(h, peer);

    return o ? o : out_new(h, peer);
}

struct link_in *link_in_named(struct links *h, const char *peer)
{
    struct link_in *i = link_in_known(h, peer);

    if (i)
        return i;
    i = gr_alloc(sizeof *i);
    wire_copy(i->peer, sizeof i->peer, wire_text(peer));
    h->in = gr_realloc(h->in, (h->in_count + 1) * sizeof *h->in);
    h->in[h->in_count++] = i;
    return i;
}

static int64_t returned_link(struct links *h, stmt *s)
{
    int64_t link = db_step(h->db, s) ? col_i64(s, 0) : 0;

    db_done(s);
    return link;
}

struct link_out *link_out_linked(struct links *h, const char *peer)
{
    struct link_out *o = link_out_named(h, peer);

    if (!o->link) {
        bind_text(h->sql.out_add, 1, o->peer);
        o->link = returned_link(h, h->sql.out_add);
    }
    return o;
}

struct link_in *link_in_linked(struct links *h, const char *peer)
{
    struct link_in *i;

    if (!link_in_known(h, peer) && h->in_count >= LINKS_MAX)
        return NULL;
    i = link_in_named(h, peer);
    if (!i->link) {
        bind_text(h->sql.in_add, 1, i->peer);
        bind_text(h->sql.in_add, 2, i->inbox);
        i->link = returned_link(h, h->sql.in_add);
        i->made = true;
    }
    return i;
}

void links_fini(struct links *h)
{
    for (size_t k = 0; k < h->out_count; k++) {
        epochs_fini(&h->out[k]->epochs);
        buf_fini(&h->out[k]->turn.messages);
        free(h->out[k]);
    }
    for (size_t k = 0; k < h->in_count; k++) {
        epochs_fini(&h->in[k]->epochs);
        free(h->in[k]);
    }
    free(h->out);
    free(h->in);
}

bool links_each(struct links *h, int *at, struct link_state *link)
{
    size_t k = (size_t)(*at)++;

    if (k < h->out_count) {
        const struct link_out *o = h->out[k];

        *link = (struct link_state){
            .peer = o->peer,
            .inbox = o->inbox,
            .out = true,
            .window = o->sent > o->cursor ? o->sent - o->cursor : 0,
            .next = o->next,
            .done = o->cursor,
            .rewinds = o->rewinds,
            .heard_ms = o->heard_ms};
        return true;
    }
    k -= h->out_count;
    if (k < h->in_count) {
        const struct link_in *i = h->in[k];

        *link = (struct link_state){.peer = i->peer,
                                    .inbox = i->inbox,
                                    .next = i->taken,
                                    .done = i->n,
                                    .lost = i->lost,
                                    .rewinds = i->rewinds,
                                    .unprocessable = i->unprocessable,
                                    .heard_ms = i->heard_ms};
        return true;
    }
    return false;
}
