/* The durable links of a process: open and close, and their part of a turn. link_table.c
 * has the links in memory, link_rows.c their rows, link_log.c the log; link_out.c sends,
 * link_in.c receives. */
#include "links.h"
#include "clock.h"
#include "link_table.h"
#include <stdlib.h>

struct links *links_open(struct db *db, struct mailbox *mailbox,
                         const struct links_ops *ops, uint64_t epoch,
                         void *self)
{
    struct links *h = gr_alloc(sizeof *h);

    h->db = db;
    h->mailbox = mailbox;
    h->ops = ops;
    h->self = self;
    h->epoch = epoch;
    h->opened_ms = mono_ms();
    buf_init(&h->frame, FRAME_MAX_BYTES);
    buf_init(&h->messages, FRAME_MAX_BYTES);
    buf_init(&h->kept, FRAME_MAX_BYTES);
    link_rows_prepare(h);
    link_rows_read(h);
    link_rows_quarantine(h);
    return h;
}

void links_close(struct links *h)
{
    if (!h)
        return;
    links_fini(h);
    buf_fini(&h->frame);
    buf_fini(&h->messages);
    buf_fini(&h->kept);
    free(h);
}

void links_undo(struct links *h)
{
    buf_reset(&h->kept);
    link_rows_read(h);
    h->taken_count = 0;
    h->taken_bytes = 0;
    h->applied_us = 0;
}

/* ---- the turn ---- */

gr_rc links_receive(struct links *h, struct bytes frame)
{
    struct wire_acked a;
    struct wire_epochs r;

    switch (wire_kind(frame)) {
    case WIRE_KIND_BATCH:
        return link_in_batch(h, frame);
    case WIRE_KIND_ACKED:
        if (wire_get_acked(&a, frame) != GR_OK)
            return GR_REFUSE;
        return link_out_acked(h, &a);
    case WIRE_KIND_EPOCHS:
        if (wire_get_epochs(&r, frame) != GR_OK)
            return GR_REFUSE;
        return link_in_epochs(h, &r);
    default:
        return GR_REFUSE;
    }
}

gr_rc links_resume(struct links *h)
{
    struct buf frame = h->kept;
    gr_rc rc;

    if (!frame.len)
        return GR_OK;
    buf_init(&h->kept, FRAME_MAX_BYTES);
    rc = link_in_batch(h, (struct bytes){frame.data, frame.len});
    buf_fini(&frame);
    return rc;
}

uint64_t links_epoch(const struct links *h)
{
    return h->applying;
}

int links_taken_count(const struct links *h)
{
    return h->taken_count;
}

size_t links_taken_bytes(const struct links *h)
{
    return h->taken_bytes;
}

void links_stopped(struct links *h)
{
    db_run(h->db, h->sql.in_clean);
    for (size_t k = 0; k < h->out_count; k++)
        if (h->out[k]->moved_ms)
            link_log_store(h, h->out[k]);
}

void links_restored(struct links *h)
{
    db_run(h->db, h->sql.in_clean);
    for (size_t k = 0; k < h->in_count; k++) {
        h->in[k]->trying = h->in[k]->marked = 0;
        h->in[k]->tries = h->in[k]->quarantine_left = 0;
    }
}

void links_work(struct links *h)
{
    for (size_t k = 0; k < h->in_count; k++)
        link_in_store(h, h->in[k]);
    for (size_t k = 0; k < h->out_count; k++) {
        struct link_out *o = h->out[k];

        /* The cursor of a kept log waits for a turn that writes rows anyway: an old cursor
         * costs some frames at the next start, and an fsync for the cursor alone delays
         * everything that waits for the next commit. */
        if (o->dirty || (o->moved_ms && (db_dirty(h->db) ||
                                         mono_ms() - o->moved_ms >= CURSOR_MS)))
            link_log_store(h, o);
    }
    h->taken_count = 0;
    h->taken_bytes = 0;
    h->applied_us = 0;
}

int links_flush(struct links *h)
{
    int64_t now = mono_ms();
    int wait_ms = ASK_IDLE_MS;

    for (size_t k = 0; k < h->in_count; k++)
        if (h->in[k]->ack_pending)
            link_in_flush(h, h->in[k]);
    db_read_begin(h->db);
    for (size_t k = 0; k < h->out_count; k++) {
        int ms = h->out[k]->link ? link_out_flush(h, h->out[k], now) : wait_ms;

        if (h->out[k]->moved_ms && ms > CURSOR_MS)
            ms = CURSOR_MS;
        if (ms < wait_ms)
            wait_ms = ms;
    }
    db_read_end(h->db);
    if (!h->kept.len)
        return wait_ms;
    return h->quiet ? QUARANTINE_LOOK_MS : 0;
}
