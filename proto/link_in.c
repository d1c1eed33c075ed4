/* The receiving end of a link: applies messages in order, once, and acknowledges them.
 * `taken` is the last number that was applied, `n` the last on disk: n <= taken. */
#include "clock.h"
#include "link_table.h"
#include "log.h"
#include "unknown_version.h"
#include <string.h>

void link_in_store(struct links *h, struct link_in *i)
{
    i->made = false;
    if (!i->dirty)
        return;
    bind_i64(h->sql.in_set, 1, i->link);
    bind_i64(h->sql.in_set, 2, (int64_t)i->n);
    bind_text(h->sql.in_set, 3, i->inbox);
    bind_i64(h->sql.in_set, 4, (int64_t)i->lost);
    bind_i64(h->sql.in_set, 5, (int64_t)i->rewinds);
    bind_i64(h->sql.in_set, 6, (int64_t)i->unprocessable);
    db_run(h->db, h->sql.in_set);
    if (epochs_shorten(&i->epochs, EPOCHS_KEPT, i->n)) {
        bind_i64(h->sql.in_epochs_cut, 1, i->link);
        bind_i64(h->sql.in_epochs_cut, 2, INT64_MAX);
        bind_i64(h->sql.in_epochs_cut, 3, (int64_t)i->epochs.list[0].first);
        db_run(h->db, h->sql.in_epochs_cut);
    }
    i->dirty = false;
}

void links_hold(struct links *h, const char *from)
{
    link_in_named(h, from)->held = true;
}

void links_settle(struct links *h, const char *from, uint64_t n)
{
    struct link_in *i = link_in_known(h, from);

    if (i && n > i->taken)
        n = i->taken;
    if (!i || n <= i->n)
        return;
    i->n = n;
    i->dirty = i->ack_pending = true;
}

static void cut_epochs(struct links *h, struct link_in *i, uint64_t n)
{
    bind_i64(h->sql.in_epochs_cut, 1, i->link);
    bind_i64(h->sql.in_epochs_cut, 2, (int64_t)n);
    bind_i64(h->sql.in_epochs_cut, 3, 0);
    db_run(h->db, h->sql.in_epochs_cut);
    i->stale_epochs = false;
}

/* Row n, the next one, was written in `epoch`. */
static void take_number(struct links *h, struct link_in *i, uint64_t n,
                        uint64_t epoch)
{
    if (i->stale_epochs)
        cut_epochs(h, i, i->taken);
    if (epoch && epochs_of(&i->epochs, n) != epoch) {
        bind_i64(h->sql.in_epoch, 1, i->link);
        bind_i64(h->sql.in_epoch, 2, (int64_t)n);
        bind_i64(h->sql.in_epoch, 3, (int64_t)epoch);
        db_run(h->db, h->sql.in_epoch);
        epochs_add(&i->epochs, epoch, n);
    }
    i->taken = n;
    i->ack_pending = true;
    if (i->held)
        return; /* links_settle() moves the cursor */
    i->n = n;
    i->dirty = true;
}

/* On disk: this message is being tried, for the tries-th time. */
static void note_trying(struct links *h, struct link_in *i, uint64_t n,
                        int tries)
{
    i->trying = i->marked = n;
    i->tries = tries;
    bind_i64(h->sql.in_trying, 1, (int64_t)n);
    bind_i64(h->sql.in_trying, 2, tries);
    bind_i64(h->sql.in_trying, 3, i->link);
    db_run(h->db, h->sql.in_trying);
}

/* Rewind our cursor to n; the sender sends the messages after it again. */
static void rewind_cursor(struct links *h, struct link_in *i, uint64_t n)
{
    i->taken = n;
    if (i->n > n)
        i->n = n;
    epochs_cut(&i->epochs, n);
    cut_epochs(h, i, n);
    i->rewinds++;
    i->dirty = i->ack_pending = i->gap = true;
    if (i->trying > n) /* it names another message from now on */
        note_trying(h, i, 0, 0);
    if (h->ops->rewound)
        h->ops->rewound(h->self, i->peer, false);
}

/* No process has the messages before `floor` any more: count them as lost. */
static void jump_to(struct links *h, struct link_in *i, uint64_t floor,
                    uint64_t prev_epoch)
{
    uint64_t from = i->taken + 1, to = floor - 1;

    log_warn(NULL,
             from == 1 ? "the first message of a link does not have number 1"
                       : "messages are lost: their sender no longer has them",
             LS("peer", i->peer), LI("first_n", from), LI("last_n", to));
    bind_text(h->sql.in_lost, 1, i->peer);
    bind_i64(h->sql.in_lost, 2, (int64_t)from);
    bind_i64(h->sql.in_lost, 3, (int64_t)to);
    bind_i64(h->sql.in_lost, 4, now_ms());
    db_run(h->db, h->sql.in_lost);
    i->lost += to - from + 1;
    take_number(h, i, to, prev_epoch);
    i->n = to;
    i->dirty = true;
}

static void set_aside(struct links *h, struct link_in *i, uint64_t n,
                      struct bytes msg, const char *why)
{
    log_warn(NULL, "a message cannot be applied; it is set aside",
             LS("peer", i->peer), LI("n", n), LI("message_bytes", msg.n),
             LS("error", why));
    bind_text(h->sql.in_aside, 1, i->peer);
    bind_i64(h->sql.in_aside, 2, (int64_t)n);
    bind_i64(h->sql.in_aside, 3, now_ms());
    bind_text(h->sql.in_aside, 4, why);
    bind_blob(h->sql.in_aside, 5, msg);
    db_run(h->db, h->sql.in_aside);
    i->unprocessable++;
    i->dirty = true;
}

static gr_rc apply(struct links *h, struct link_in *i, uint64_t n,
                   uint64_t epoch, struct bytes msg)
{
    struct wire_head other;
    gr_rc rc = GR_OK;

    h->applying = epoch;
    if (i->marked == n && i->tries > QUARANTINE_TRIES)
        set_aside(h, i, n, msg, "it crashed the process twice");
    else if (wire_is_unknown_version(&other, msg)) {
        unknown_version_warn(wire_text(i->peer), &other);
        rc = GR_AGAIN; /* it is understood when both run the same version */
    } else if (msg.n && h->ops->apply) {
        rc = h->ops->apply(h->self, i->peer, n, msg);
    }
    if (rc == GR_AGAIN) {
        if (i->marked == n) /* it did not crash this process */
            note_trying(h, i, 0, 0);
        return rc;
    }
    if (rc == GR_REFUSE)
        set_aside(h, i, n, msg, "it cannot be decoded");
    take_number(h, i, n, epoch);
    /* Once this is committed the message did not crash us, even while the cursor is
     * held: else two kills from outside, at any times, would set it aside. */
    if (i->marked == n)
        note_trying(h, i, 0, 0);
    h->taken_count++;
    h->taken_bytes += msg.n;
    return GR_OK;
}

/* After repeated crashes at the same cursor: one turn stores which message is next,
 * the following one applies it. GR_AGAIN: end this turn. */
static gr_rc watch_step(struct links *h, struct link_in *i, uint64_t n)
{
    if (!i->quarantine_left)
        return GR_OK;
    if (h->taken_count > 0)
        return GR_AGAIN; /* one per turn */
    if (i->marked == n) {
        i->quarantine_left--;
        return GR_OK;
    }
    h->quiet = i->trying == n && mono_ms() - h->opened_ms < QUARANTINE_QUIET_MS;
    if (h->quiet)
        return GR_AGAIN;
    note_trying(h, i, n, i->trying == n ? i->tries + 1 : 1);
    return GR_AGAIN;
}

/* ---- a batch ---- */

/* The next message of `b`; false when its lengths do not add up. */
static bool next_message(const struct wire_batch *b, size_t *at,
                         struct bytes *msg)
{
    const uint8_t *p = (const uint8_t *)b->messages.p + *at;
    size_t left = b->messages.n - *at, n = 0;

    if (left < 4)
        return false;
    for (int k = 3; k >= 0; k--)
        n = n << 8 | p[k];
    if (n > left - 4)
        return false;
    *msg = (struct bytes){p + 4, n};
    *at += 4 + n;
    return true;
}

/* Its lengths and its count agree. Checked before any message is applied. */
static bool is_whole(const struct wire_batch *b)
{
    size_t at = 0;
    struct bytes msg;

    if (b->count > BATCH_MAX_COUNT || b->first == 0 || b->first > INT64_MAX ||
        (b->count && b->epoch == 0))
        return false;
    for (uint64_t k = 0; k < b->count; k++)
        if (!next_message(b, &at, &msg))
            return false;
    return at == b->messages.n;
}

/* The rows that both `b` and we have are of the same epoch. An epoch that one side
 * has forgotten (0) is not compared. */
static bool agrees(const struct link_in *i, const struct wire_batch *b)
{
    uint64_t before = epochs_of(&i->epochs, b->first - 1);
    uint64_t last = b->first + b->count - 1; /* first-1 when it is empty */

    if (before && b->prev_epoch && before != b->prev_epoch)
        return false;
    if (last > i->taken)
        last = i->taken;
    return last < b->first || epochs_of(&i->epochs, last) == b->epoch;
}

static gr_rc take_rest(struct links *h, struct link_in *i,
                       const struct wire_batch *b, struct bytes frame)
{
    size_t at = 0;
    struct bytes msg;
    int64_t now;

    for (uint64_t n = b->first; n < b->first + b->count; n++) {
        next_message(b, &at, &msg);
        if (n <= i->taken)
            continue;
        now = mono_us();
        if (!h->applied_us)
            h->applied_us = now;
        /* One message may stand for thousands of events, while other peers wait and a deliverer
         * needs its lease extended. */
        if (now - h->applied_us > APPLY_MAX_US) {
            i->gap = true; /* the sender sends the rest again */
            break;
        }
        if (watch_step(h, i, n) != GR_OK) {
            buf_put(&h->kept, frame.p, frame.n);
            return GR_AGAIN;
        }
        if (apply(h, i, n, b->epoch, msg) != GR_OK)
            break; /* no space: the sender asks later, and sends it again */
    }
    return GR_OK;
}

/* The link of a received frame; NULL: the frame is not for us or is malformed. Every
 * frame is acknowledged after the commit. */
static struct link_in *heard(struct links *h, struct bytes from,
                             struct bytes inbox, struct bytes to)
{
    char peer[NAME_MAX_BYTES + 1];
    struct link_in *i;

    if (!wire_is(to, mailbox_name(h->mailbox)) || !link_is_name(from) ||
        !mailbox_reaches(h->mailbox, inbox))
        return NULL;
    wire_copy(peer, sizeof peer, from);
    i = link_in_linked(h, peer);
    if (!i)
        return NULL;
    if (!wire_is(inbox, i->inbox)) {
        wire_copy(i->inbox, sizeof i->inbox, inbox);
        i->dirty = true;
    }
    i->heard_ms = mono_ms();
    i->ack_pending = true;
    return i;
}

gr_rc link_in_batch(struct links *h, struct bytes frame)
{
    struct wire_batch b;
    struct link_in *i;

    if (wire_get_batch(&b, frame) != GR_OK || !is_whole(&b))
        return GR_REFUSE;
    i = heard(h, b.from, b.inbox, b.to);
    if (!i)
        return GR_REFUSE;
    i->question = b.question;
    /* Store the cursor of a new link before applying its first message, so that a
     * crash inside that message is recognised at the next start. */
    if (b.first > i->taken + 1 || (i->made && b.count)) {
        i->gap = true;
        return GR_OK;
    }
    if (!agrees(i, &b))
        return GR_OK;
    return take_rest(h, i, &b, frame);
}

/* Rewind to the last row that both ends have, then skip the rows that no process has
 * any more. Only here, never on a batch: a batch can't show whether our last row
 * is also the sender's row of that number (tests/model/link.pml,
 * M_JUMP_ON_BATCH). */
static void agree_on(struct links *h, struct link_in *i,
                     const struct wire_epochs *r, const struct epochs *theirs)
{
    uint64_t both = epochs_common(&i->epochs, i->taken, theirs, r->next - 1);
    bool back = both < i->taken, over = false;

    if (back) {
        log_warn(NULL,
                 "a durable link is rewound to the last message that both "
                 "sides have",
                 LS("peer", i->peer), LI("from_n", i->taken), LI("to_n", both));
        rewind_cursor(h, i, both);
    }
    if (r->floor > i->taken + 1) {
        over = i->taken > 0; /* else this is the first contact */
        jump_to(h, i, r->floor, epochs_of(theirs, r->floor - 1));
    }
    if (over && !back && h->ops->rewound)
        h->ops->rewound(h->self, i->peer, false);
}

gr_rc link_in_epochs(struct links *h, const struct wire_epochs *r)
{
    struct epochs theirs = {0};
    struct link_in *i = NULL;

    if (r->next && r->floor && r->floor <= r->next && r->next <= INT64_MAX &&
        epochs_get(&theirs, r->epochs, r->count) == GR_OK)
        i = heard(h, r->from, r->inbox, r->to);
    if (!i) {
        epochs_fini(&theirs);
        return GR_REFUSE;
    }
    /* A frame that waited in a pipe may answer an older cursor: ignore it. */
    if (r->cursor == i->taken &&
        r->cursor_epoch == epochs_of(&i->epochs, i->taken))
        agree_on(h, i, r, &theirs);
    epochs_fini(&theirs);
    return GR_OK;
}

void link_in_flush(struct links *h, struct link_in *i)
{
    bool urgent = h->ops->urgent && h->ops->urgent(h->self, i->peer);
    struct wire_acked a = {
        .from = wire_text(mailbox_name(h->mailbox)),
        .inbox = wire_text(urgent
                               ? mailbox_priority_address(h->mailbox, i->inbox)
                               : mailbox_address(h->mailbox, i->inbox)),
        .to = wire_text(i->peer),
        .n = i->n,
        .epoch = epochs_of(&i->epochs, i->n),
        .taken = i->taken,
        .taken_epoch = epochs_of(&i->epochs, i->taken),
        .gap = i->gap,
        .answered_question = i->question};

    buf_reset(&h->frame);
    wire_put_acked(&h->frame, &a);
    if (*i->inbox &&
        mailbox_send(h->mailbox, i->inbox,
                     (struct bytes){h->frame.data, h->frame.len}) != GR_OK)
        return; /* the sender asks */
    i->ack_pending = i->gap = false;
}
