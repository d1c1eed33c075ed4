/* The hop as the loop sees it: its life, and its part of a turn. hop_links.c has
 * the links, hop_rows.c their rows, hop_log.c what is to be sent; hop_out.c sends,
 * hop_in.c receives. */
#include "hop.h"
#include "clock.h"
#include "hop_links.h"
#include <stdlib.h>

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
    hop_rows_prepare(h);
    hop_rows_read(h);
    hop_rows_suspect(h);
    return h;
}

void hop_close(struct hop *h)
{
    if (!h)
        return;
    hop_links_fini(h);
    buf_fini(&h->frame);
    buf_fini(&h->messages);
    buf_fini(&h->kept);
    free(h);
}

void hop_undo(struct hop *h)
{
    buf_reset(&h->kept);
    hop_rows_read(h);
    h->taken_count = 0;
    h->taken_bytes = 0;
    h->applied_us = 0;
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

uint64_t hop_epoch(const struct hop *h)
{
    return h->applying;
}

int hop_taken_count(const struct hop *h)
{
    return h->taken_count;
}

size_t hop_taken_bytes(const struct hop *h)
{
    return h->taken_bytes;
}

void hop_stopped(struct hop *h)
{
    db_run(h->db, h->sql.in_clean);
    for (size_t k = 0; k < h->out_count; k++)
        if (h->out[k]->moved_ms)
            hop_log_store(h, h->out[k]);
}

void hop_restored(struct hop *h)
{
    db_run(h->db, h->sql.in_clean);
    for (size_t k = 0; k < h->in_count; k++) {
        h->in[k]->trying = h->in[k]->marked = 0;
        h->in[k]->tries = h->in[k]->suspect_left = 0;
    }
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
            hop_log_store(h, h->out[k]);
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
