/* watermark: keeps the last watermark request until it is answered. */
#include "archive.h"
#include "log.h"
#include "wire.h"

void watermark_frame(struct archive *a, int kind, struct bytes frame)
{
    struct watermark *w = &a->watermark;
    struct wire_watermark_request s;

    if (kind != WIRE_KIND_WATERMARK_REQUEST ||
        wire_get_watermark_request(&s, frame) != GR_OK ||
        !wire_is(s.from, SEQUENCER) ||
        !mailbox_reaches(a->daemon->mailbox, s.inbox)) {
        log_warn(NULL, "a frame for another kind of process arrived; dropped",
                 LS("kind", wire_kind_name(kind)));
        return;
    }
    /* Ignore a new request while the last one of this epoch is unanswered: if each replaced the
     * one before, a batch that is being stored would delay all of them. */
    if (w->epoch == s.epoch && !w->next)
        return;
    wire_copy(w->inbox, sizeof w->inbox, s.inbox);
    w->epoch = s.epoch;
    w->stamp_ms = s.stamp_ms;
    w->next = 0;
    w->fresh = true;
}

/* All requests received before the watermark request have a number below `next`. A lost frame
 * does no harm: the sequencer asks again. */
void watermark_flush(struct archive *a)
{
    struct watermark *w = &a->watermark;
    struct wire_watermark s = {
        .from = wire_text(a->daemon->name),
        .inbox = wire_text(mailbox_address(a->daemon->mailbox, w->inbox)),
        .epoch = w->epoch,
        .stamp_ms = w->stamp_ms,
        .next = w->next};
    struct buf out;

    if (!w->epoch || !w->next)
        return;
    buf_init(&out, 1024);
    wire_put_watermark(&out, &s);
    if (mailbox_send(a->daemon->mailbox, w->inbox,
                     (struct bytes){out.data, out.len}) == GR_OK)
        w->epoch = 0;
    buf_fini(&out);
}
