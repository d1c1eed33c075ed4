/* The links of a process, by the name of the peer. */
#include "hop_links.h"
#include "hash.h"
#include <stdlib.h>
#include <string.h>

bool hop_is_name(struct bytes s)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";

    for (size_t k = 0; k < s.n; k++)
        if (!memchr(allowed, ((const char *)s.p)[k], sizeof allowed - 1))
            return false;
    return s.n > 0 && s.n <= NAME_MAX_BYTES;
}

/* Links have runs of their own: a receiver that comes with the database of
 * another must not find its place in our log by chance. */
static uint64_t run_of_link(uint64_t start, const char *peer)
{
    uint64_t h = hash_name(start, peer);

    return h & INT64_MAX ? h & INT64_MAX : 1;
}

static struct hop_out *out_new(struct hop *h, const char *peer)
{
    struct hop_out *o = gr_alloc(sizeof *o);

    wire_copy(o->peer, sizeof o->peer, wire_text(peer));
    mailbox_address_of(h->mailbox, peer, o->inbox);
    o->run = o->question = run_of_link(h->run, o->peer);
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

struct hop_out *hop_out_known(struct hop *h, const char *peer)
{
    for (size_t k = 0; k < h->out_count; k++)
        if (strcmp(h->out[k]->peer, peer) == 0)
            return h->out[k];
    return NULL;
}

struct hop_in *hop_in_known(struct hop *h, const char *peer)
{
    for (size_t k = 0; k < h->in_count; k++)
        if (strcmp(h->in[k]->peer, peer) == 0)
            return h->in[k];
    return NULL;
}

struct hop_out *hop_out_named(struct hop *h, const char *peer)
{
    struct hop_out *o = hop_out_known(h, peer);

    return o ? o : out_new(h, peer);
}

struct hop_in *hop_in_named(struct hop *h, const char *peer)
{
    struct hop_in *i = hop_in_known(h, peer);

    return i ? i : in_new(h, peer);
}

static int64_t returned_link(struct hop *h, stmt *s)
{
    int64_t link = db_step(h->db, s) ? col_i64(s, 0) : 0;

    db_done(s);
    return link;
}

struct hop_out *hop_out_linked(struct hop *h, const char *peer)
{
    struct hop_out *o = hop_out_named(h, peer);

    if (!o->link) {
        bind_text(h->sql.out_add, 1, o->peer);
        o->link = returned_link(h, h->sql.out_add);
    }
    return o;
}

struct hop_in *hop_in_linked(struct hop *h, const char *peer)
{
    struct hop_in *i;

    if (!hop_in_known(h, peer) && h->in_count >= LINKS_MAX)
        return NULL;
    i = hop_in_named(h, peer);
    if (!i->link) {
        bind_text(h->sql.in_add, 1, i->peer);
        bind_text(h->sql.in_add, 2, i->inbox);
        i->link = returned_link(h, h->sql.in_add);
        i->made = true;
    }
    return i;
}

void hop_links_fini(struct hop *h)
{
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
}

static struct hop_link out_link(const struct hop_out *o)
{
    return (struct hop_link){.peer = o->peer,
                             .inbox = o->inbox,
                             .out = true,
                             .window = o->sent > o->cursor ? o->sent - o->cursor
                                                           : 0,
                             .next = o->next,
                             .done = o->cursor,
                             .set_back = o->set_back,
                             .heard_ms = o->heard_ms};
}

static struct hop_link in_link(const struct hop_in *i)
{
    return (struct hop_link){.peer = i->peer,
                             .inbox = i->inbox,
                             .next = i->taken,
                             .done = i->n,
                             .lost = i->lost,
                             .set_back = i->set_back,
                             .unprocessable = i->unprocessable,
                             .heard_ms = i->heard_ms};
}

bool hop_links(struct hop *h, int *at, struct hop_link *link)
{
    size_t k = (size_t)(*at)++;

    if (k < h->out_count) {
        *link = out_link(h->out[k]);
        return true;
    }
    k -= h->out_count;
    if (k < h->in_count) {
        *link = in_link(h->in[k]);
        return true;
    }
    return false;
}
