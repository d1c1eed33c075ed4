/* The sending end of a link: sends the log's rows until they are acknowledged.
 * `cursor` is the last acknowledged number, `sent` the last sent in this epoch, `next`
 * one past the last row: cursor <= sent < next. */
#include "clock.h"
#include "link_table.h"
#include "log.h"
#include <assert.h>
#include <string.h>

void link_out_store(struct links *h, struct link_out *o)
{
    bind_i64(h->sql.out_set, 1, o->link);
    bind_i64(h->sql.out_set, 2, (int64_t)o->next);
    bind_i64(h->sql.out_set, 3, (int64_t)o->cursor);
    bind_i64(h->sql.out_set, 4, (int64_t)o->floor);
    bind_i64(h->sql.out_set, 5, (int64_t)o->rewinds);
    db_run(h->db, h->sql.out_set);
    if (epochs_shorten(&o->epochs, EPOCHS_KEPT, o->floor - 1)) {
        bind_i64(h->sql.out_epochs_cut, 1, o->link);
        bind_i64(h->sql.out_epochs_cut, 2, (int64_t)o->epochs.list[0].first);
        db_run(h->db, h->sql.out_epochs_cut);
    }
    o->dirty = false;
    o->moved_ms = 0;
}

/* ---- acknowledgements ---- */

/* Measures one number at a time, as TCP does, from its sending to its acknowledgement.
 * A number that is sent again is not measured. */
static void time_taken(struct link_out *o, uint64_t taken)
{
    int64_t took = mono_us() - o->timed_us;

    if (!o->timed_n || taken < o->timed_n)
        return;
    o->timed_n = 0;
    o->round_trip_us += o->round_trip_us ? (took - o->round_trip_us) / 8 : took;
}

/* Continue after `n`: everything after it is sent (again). */
static void send_from(struct link_out *o, uint64_t n)
{
    o->sent = n;
    o->sent_bytes = 0;
    o->timed_n = 0;
    for (uint64_t k = o->cursor + 1; k <= n; k++)
        o->sent_bytes += o->sizes[k % WINDOW_MAX_COUNT];
}

static void move_cursor(struct link_out *o, uint64_t n)
{
    for (; o->cursor < n; o->cursor++) {
        uint64_t k = o->cursor + 1;

        if (k <= o->sent)
            o->sent_bytes -= o->sizes[k % WINDOW_MAX_COUNT];
    }
    if (o->sent < n)
        o->sent = n;
    if (!o->keep)
        o->dirty = true; /* its rows go */
    else if (!o->moved_ms)
        o->moved_ms = mono_ms();
    o->ask_wait_ms = ASK_FIRST_MS;
}

/* Our log has row n, written in `epoch` as far as we remember. */
static bool is_mine(const struct link_out *o, uint64_t n, uint64_t epoch)
{
    return n < o->next &&
           (epochs_of(&o->epochs, n) == epoch || epochs_forgot(&o->epochs, n));
}

/* Sent in the next after_commit(). A receiver whose `taken` has changed drops it. */
static void queue_epochs(struct link_out *o, uint64_t taken, uint64_t epoch)
{
    o->epochs_pending = true;
    o->epochs_cursor = taken;
    o->epochs_cursor_epoch = epoch;
}

/* The receiver has a row that our log lacks or that is of another epoch there: one end
 * was restored from an older copy. after_commit() sends our epochs. */
static void disagree(struct links *h, struct link_out *o, uint64_t n,
                     uint64_t epoch)
{
    queue_epochs(o, n, epoch);
    if (o->forked_n == n && o->forked_epoch == epoch)
        return;
    o->forked_n = n;
    o->forked_epoch = epoch;
    o->rewinds++;
    o->dirty = true;
    log_warn(NULL,
             "a durable link is rewound: the receiver has a message that is "
             "not in this log, so one side was restored from an older copy",
             LS("peer", o->peer), LI("peer_n", n), LI("last_n", o->next - 1));
    if (h->ops->rewound)
        h->ops->rewound(h->self, o->peer, true);
}

/* A receiver that has acknowledged messages before has no cursor now: it has lost its
 * database. It begins at the sender's cursor. (From a kept log it gets all rows again.) */
static void begin_afresh(struct links *h, struct link_out *o)
{
    if (!o->fresh_floor) {
        log_warn(NULL,
                 "the receiver has lost its database; it starts at this side's "
                 "cursor",
                 LS("peer", o->peer), LI("acknowledged_n", o->cursor));
        o->rewinds++;
        o->dirty = true;
        if (h->ops->rewound)
            h->ops->rewound(h->self, o->peer, false);
    }
    o->fresh_floor = o->cursor + 1;
    queue_epochs(o, 0, 0);
    send_from(o, o->cursor);
}

/* The receiver's cursor is below what it once acknowledged. Our epochs tell it which
 * rows no longer exist. The process is informed once in any case, as it may have to
 * repeat what those rows said. */
static void rewind_to(struct links *h, struct link_out *o,
                      const struct wire_acked *a)
{
    uint64_t n = a->n;
    uint64_t held = n + 1 < o->floor ? o->floor - 1 : n;

    if (!o->behind || held < o->cursor) {
        log_warn(NULL,
                 "the receiver was restored from a copy without messages that "
                 "it had acknowledged",
                 LS("peer", o->peer), LI("peer_n", n),
                 LI("acknowledged_n", o->cursor), LI("first_n", o->floor));
        o->behind = true;
        o->rewinds++;
        if (held < o->cursor)
            o->cursor = held;
        o->dirty = true;
        if (h->ops->rewound)
            h->ops->rewound(h->self, o->peer, false);
    }
    if (a->taken + 1 < o->floor)
        queue_epochs(o, a->taken, a->taken_epoch);
    send_from(o, held);
}

/* Numbers are missing at the receiver: send again from there, once for each cursor and
 * round trip, because the receiver reports the gap for every batch behind it. */
static void fill_gap(struct link_out *o, uint64_t taken)
{
    int64_t now = mono_ms();

    if (taken >= o->sent ||
        (o->resent_from == taken && now - o->resent_ms < RESEND_MS))
        return;
    o->resent_from = taken;
    o->resent_ms = now;
    send_from(o, taken);
}

/* An acknowledgement that contradicts the log or the cursor may be an old frame, which
 * waited in a pipe while its process died or continued. So it is believed only if it
 * responds to a question asked after the first contradiction: then the receiver wrote it
 * after it had once acknowledged our cursor. An old frame, however often it is repeated,
 * responds to an older question. */
static bool is_proven(struct link_out *o, const struct wire_acked *a, bool mine)
{
    if (o->in_doubt && a->answered_question == o->question) {
        o->in_doubt = false;
        if (!mine || a->n < o->doubted_cursor)
            return true;
    }
    if (!o->in_doubt) {
        o->in_doubt = true;
        o->question++;
        o->doubted_cursor = o->cursor;
        o->ask_wait_ms = ASK_FIRST_MS;
    }
    o->ask_now = true;
    return false;
}

/* The link of this acknowledgement; NULL: there is none, and none is needed. */
static struct link_out *heard(struct links *h, const struct wire_acked *a)
{
    char peer[NAME_MAX_BYTES + 1];
    struct link_out *o;

    wire_copy(peer, sizeof peer, a->from);
    o = link_out_known(h, peer);
    if (!o || !o->link) {
        /* It has rows of ours that we do not know: our database was lost. */
        if (!a->taken || h->out_count >= LINKS_MAX)
            return NULL;
        o = link_out_linked(h, peer);
    }
    wire_copy(o->inbox, sizeof o->inbox, a->inbox);
    o->heard_ms = mono_ms();
    o->ask_at_ms = 0;
    o->asked = 0;
    return o;
}

gr_rc link_out_acked(struct links *h, const struct wire_acked *a)
{
    struct link_out *o;
    bool mine;

    if (!wire_is(a->to, mailbox_name(h->mailbox)) || !link_is_name(a->from) ||
        !mailbox_reaches(h->mailbox, a->inbox) || a->taken < a->n)
        return GR_REFUSE;
    o = heard(h, a);
    if (!o)
        return GR_OK;
    mine = is_mine(o, a->n, a->epoch) && is_mine(o, a->taken, a->taken_epoch);
    if (mine &&
        a->n >= o->cursor) { /* its cursor is in our log, at ours or above */
        time_taken(o, a->taken);
        if (a->answered_question == o->question)
            o->in_doubt = false;
        o->behind = false;
        if (a->n > o->cursor)
            move_cursor(o, a->n);
        if (a->n + 1 >= o->fresh_floor)
            o->fresh_floor = 0;
    } else if (!is_proven(o, a, mine)) {
        return GR_OK;
    } else if (mine && a->taken == 0 && o->floor > 1 && (o->own || !o->keep)) {
        begin_afresh(h, o);
    } else if (mine) {
        rewind_to(h, o, a);
    } else {
        disagree(h, o, a->taken, a->taken_epoch);
        return GR_OK;
    }
    if (a->gap)
        fill_gap(o, a->taken > o->cursor ? a->taken : o->cursor);
    return GR_OK;
}

/* ---- batches and questions ---- */

static void begin_batch(struct links *h, struct link_out *o,
                        struct wire_batch *b)
{
    buf_reset(&h->messages);
    *b = (struct wire_batch){
        .from = wire_text(mailbox_name(h->mailbox)),
        .inbox = wire_text(mailbox_priority_address(h->mailbox, o->inbox)),
        .to = wire_text(o->peer),
        .prev_epoch = epochs_of(&o->epochs, o->sent),
        .first = o->sent + 1,
        .question = o->question};
    b->epoch = b->first < o->next ? epochs_of(&o->epochs, b->first)
                                  : b->prev_epoch;
}

/* Logs one line for all missing rows that are found in one pass through the log, or in
 * one second of it: moving an endpoint to another deliverer leaves thousands. Returns in
 * how many ms to call again; -1: not needed. */
static int log_gone(struct link_out *o, int64_t now)
{
    int64_t left_ms = o->gone_ms + GONE_LOG_MS - now;

    if (!o->gone_count)
        return -1;
    if (o->sent + 1 < o->next && left_ms > 0)
        return (int)left_ms;
    log_warn(NULL,
             "messages of the log are missing; their numbers are sent empty",
             LS("peer", o->peer), LI("rows", o->gone_count),
             LI("first_n", o->gone_first), LI("last_n", o->gone_n));
    o->gone_count = 0;
    return -1;
}

/* Append one message, its length before it, and note its size. false: it does not fit
 * behind the others, and is sent in the next batch, alone if need be. */
static bool add_message(struct links *h, struct link_out *o,
                        struct wire_batch *b, uint64_t n, int kind, int64_t ref)
{
    struct bytes kept = link_turn_message(&o->turn, n);
    size_t at = h->messages.len;
    uint8_t size[4] = {0};
    size_t bytes;

    buf_put(&h->messages, size, sizeof size);
    if (kept.n) {
        buf_put(&h->messages, kept.p, kept.n);
    } else if (!h->ops->load ||
               !h->ops->load(h->self, o->peer, n, kind, ref, &h->messages)) {
        h->messages.len = at + sizeof size;
        if (n >
            o->gone_n) { /* counted once, though it may be sent several times */
            if (!o->gone_count++) {
                o->gone_first = n;
                o->gone_ms = mono_ms();
            }
            o->gone_n = n;
        }
    }
    if (b->count && (h->messages.failed || h->messages.len > BATCH_MAX_BYTES)) {
        h->messages.len = at;
        h->messages.failed = false;
        return false;
    }
    if (h->messages.failed)
        die(EXIT_STORAGE, "%s: message %llu to %s is larger than any may be",
            db_path(h->db), (unsigned long long)n, o->peer);
    bytes = h->messages.len - at - sizeof size;
    for (int i = 0; i < 4; i++)
        h->messages.data[at + (size_t)i] = (char)(bytes >> (8 * i));
    o->sizes[n % WINDOW_MAX_COUNT] = (uint32_t)bytes;
    b->count++;
    return true;
}

static bool may_add(const struct links *h, const struct link_out *o,
                    const struct wire_batch *b, uint64_t n)
{
    return n < o->next && b->count < BATCH_MAX_COUNT &&
           n - o->cursor <= WINDOW_MAX_COUNT &&
           o->sent_bytes + h->messages.len < WINDOW_MAX_BYTES &&
           h->messages.len < BATCH_MAX_BYTES &&
           epochs_of(&o->epochs, n) == b->epoch;
}

/* Messages of this turn need no row of the log: it is read from the first one on that was
 * put without its message, or before this turn. */
static void fill(struct links *h, struct link_out *o, struct wire_batch *b)
{
    stmt *s = h->sql.log_read;
    uint64_t n = b->first;

    for (; may_add(h, o, b, n) && (o->own || link_turn_message(&o->turn, n).n);
         n++)
        if (!add_message(h, o, b, n, o->own_kind, (int64_t)n))
            return;
    if (!may_add(h, o, b, n))
        return;
    bind_i64(s, 1, o->link);
    bind_i64(s, 2, (int64_t)n);
    for (; may_add(h, o, b, n); n++) {
        if (!db_step(h->db, s) || (uint64_t)col_i64(s, 0) != n)
            die(EXIT_STORAGE, "%s: the log to %s lacks row %llu",
                db_path(h->db), o->peer, (unsigned long long)n);
        if (!add_message(h, o, b, n, (int)col_i64(s, 1), col_i64(s, 2)))
            break;
    }
    db_done(s);
}

/* Free the memory that one large message needed. */
static void give_back(struct buf *b)
{
    if (b->cap > BUFFER_KEPT_BYTES)
        buf_fini(b);
}

static gr_rc send_batch(struct links *h, struct link_out *o,
                        struct wire_batch *b)
{
    gr_rc rc;

    b->messages = (struct bytes){h->messages.data, h->messages.len};
    buf_reset(&h->frame);
    wire_put_batch(&h->frame, b);
    assert(!h->frame.failed);
    rc = mailbox_send(h->mailbox, o->inbox,
                      (struct bytes){h->frame.data, h->frame.len});
    give_back(&h->messages);
    give_back(&h->frame);
    return rc;
}

static gr_rc send_epochs(struct links *h, struct link_out *o)
{
    struct wire_epochs r = {
        .from = wire_text(mailbox_name(h->mailbox)),
        .inbox = wire_text(mailbox_priority_address(h->mailbox, o->inbox)),
        .to = wire_text(o->peer),
        .next = o->next,
        .floor = o->epochs_cursor == 0 && o->fresh_floor > o->floor
                     ? o->fresh_floor
                     : o->floor,
        .cursor = o->epochs_cursor,
        .cursor_epoch = o->epochs_cursor_epoch};

    buf_reset(&h->messages);
    r.count = epochs_put(&o->epochs, &h->messages);
    r.epochs = (struct bytes){h->messages.data, h->messages.len};
    buf_reset(&h->frame);
    wire_put_epochs(&h->frame, &r);
    return mailbox_send(h->mailbox, o->inbox,
                        (struct bytes){h->frame.data, h->frame.len});
}

/* Send what the window allows. false: the pipe is full. */
static bool send_rows(struct links *h, struct link_out *o)
{
    struct wire_batch b;

    for (;;) {
        begin_batch(h, o, &b);
        fill(h, o, &b);
        if (!b.count)
            return true;
        if (send_batch(h, o, &b) != GR_OK)
            return false;
        for (uint64_t n = b.first; n < b.first + b.count; n++)
            o->sent_bytes += o->sizes[n % WINDOW_MAX_COUNT];
        o->sent = b.first + b.count - 1;
        if (!o->timed_n) {
            o->timed_n = o->sent;
            o->timed_us = mono_us();
        }
    }
}

static int send_to_peer(struct links *h, struct link_out *o, int64_t now)
{
    bool idle = o->sent == o->cursor, under_way;
    struct wire_batch b;

    /* A full pipe wakes the loop when it has space (mailbox_full()). */
    if (!mailbox_has_space(h->mailbox, o->inbox))
        return ASK_IDLE_MS;
    if (o->epochs_pending && send_epochs(h, o) == GR_OK)
        o->epochs_pending = false;
    if (!send_rows(h, o))
        return ASK_IDLE_MS;
    if (idle && o->sent > o->cursor)
        o->ask_wait_ms = ASK_FIRST_MS;
    under_way = o->cursor + 1 < o->next || o->in_doubt;
    if (!o->ask_at_ms) /* we just started, or just received a frame */
        o->ask_at_ms = !o->heard_ms ? now
                       : under_way  ? now + o->ask_wait_ms
                                    : now + ASK_IDLE_MS;
    if (under_way && o->ask_at_ms > now + o->ask_wait_ms)
        o->ask_at_ms = now + o->ask_wait_ms;
    if (o->ask_now || o->ask_at_ms <= now) {
        /* Ask for the receiver's cursor with an empty batch. It is sent behind everything else,
         * so its response shows whether that arrived. The inbox that the peer named may be
         * wrong: use the one made of its name. */
        if (o->asked++ >= ASKED_MAX)
            mailbox_address_of(h->mailbox, o->peer, o->inbox);
        begin_batch(h, o, &b);
        o->ask_now = false;
        (void)!send_batch(h, o, &b); /* if it is lost, we ask again */
        o->ask_wait_ms *= 2;
        if (o->ask_wait_ms > ASK_MAX_MS)
            o->ask_wait_ms = ASK_MAX_MS;
        o->ask_at_ms = now + (under_way ? o->ask_wait_ms : ASK_IDLE_MS);
    }
    return (int)(o->ask_at_ms - now);
}

int link_out_flush(struct links *h, struct link_out *o, int64_t now)
{
    int wait_ms = send_to_peer(h, o, now), log_ms = log_gone(o, now);

    link_turn_clear(&o->turn);
    return log_ms >= 0 && log_ms < wait_ms ? log_ms : wait_ms;
}
