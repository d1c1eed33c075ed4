/* The sending end of a link. Cursor: acknowledged. Sent: left in this run. Next:
 * one past the last row. cursor <= sent < next. */
#include "clock.h"
#include "hop_links.h"
#include "log.h"
#include <assert.h>
#include <string.h>

void hop_out_store(struct hop *h, struct hop_out *o)
{
    bind_i64(h->sql.out_set, 1, o->link);
    bind_i64(h->sql.out_set, 2, (int64_t)o->next);
    bind_i64(h->sql.out_set, 3, (int64_t)o->cursor);
    bind_i64(h->sql.out_set, 4, (int64_t)o->floor);
    bind_i64(h->sql.out_set, 5, (int64_t)o->set_back);
    db_run(h->db, h->sql.out_set);
    if (runs_shorten(&o->runs, RUNS_KEPT, o->floor - 1)) {
        bind_i64(h->sql.out_runs_cut, 1, o->link);
        bind_i64(h->sql.out_runs_cut, 2, (int64_t)o->runs.list[0].first);
        db_run(h->db, h->sql.out_runs_cut);
    }
    o->dirty = false;
    o->moved_ms = 0;
}

/* ---- what the receiver says ---- */

/* One number at a time, as TCP does: from its sending until it was taken. A number that
 * is sent again measures nothing. */
static void time_sent(struct hop_out *o, uint64_t n)
{
    if (o->timed_n)
        return;
    o->timed_n = n;
    o->timed_us = mono_us();
}

static void time_taken(struct hop_out *o, uint64_t taken)
{
    int64_t took = mono_us() - o->timed_us;

    if (!o->timed_n || taken < o->timed_n)
        return;
    o->timed_n = 0;
    o->round_trip_us += o->round_trip_us ? (took - o->round_trip_us) / 8 : took;
}

/* Go on from `n`: everything after it is sent (again). */
static void send_from(struct hop_out *o, uint64_t n)
{
    o->sent = n;
    o->sent_bytes = 0;
    o->timed_n = 0;
    for (uint64_t k = o->cursor + 1; k <= n; k++)
        o->sent_bytes += o->sizes[k % WINDOW_MAX_COUNT];
}

static void move_cursor(struct hop_out *o, uint64_t n)
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

/* Row n is ours and was written in `run`, as far as we remember. */
static bool is_mine(const struct hop_out *o, uint64_t n, uint64_t run)
{
    return n < o->next &&
           (runs_of(&o->runs, n) == run || runs_forgot(&o->runs, n));
}

/* In the next tell(). The receiver drops it when it has moved since. */
static void answer_with_runs(struct hop_out *o, uint64_t taken, uint64_t run)
{
    o->say_runs = true;
    o->runs_place = taken;
    o->runs_place_run = run;
}

/* The receiver has a row that we don't have, or not as it has it: one of us
 * came back from an older copy. tell() sends it our runs. */
static void disagree(struct hop *h, struct hop_out *o, uint64_t n, uint64_t run)
{
    answer_with_runs(o, n, run);
    if (o->forked_n == n && o->forked_run == run)
        return;
    o->forked_n = n;
    o->forked_run = run;
    o->set_back++;
    o->dirty = true;
    log_warn(NULL,
             "a link was set back: the receiver has a row that is not in our "
             "log, so one of us came back from an older copy",
             LS("peer", o->peer), LI("peer_n", n), LI("last_n", o->next - 1));
    if (h->ops->set_back)
        h->ops->set_back(h->self, o->peer, true);
}

/* A receiver with no place at all, though it acknowledged once: its store is
 * gone. It begins at our cursor. (Of a kept log it gets what is held.) */
static void begin_afresh(struct hop *h, struct hop_out *o)
{
    if (!o->fresh_floor) {
        log_warn(NULL,
                 "the receiver has lost its store; it begins at our cursor",
                 LS("peer", o->peer), LI("acknowledged_n", o->cursor));
        o->set_back++;
        o->dirty = true;
        if (h->ops->set_back)
            h->ops->set_back(h->self, o->peer, false);
    }
    o->fresh_floor = o->cursor + 1;
    answer_with_runs(o, 0, 0);
    send_from(o, o->cursor);
}

/* The receiver is behind what it once acknowledged. What is held no more it
 * learns from our runs, and the process hears of it in any case, once: what those
 * rows were about may have to be said anew. */
static void go_back_to(struct hop *h, struct hop_out *o,
                       const struct wire_acked *a)
{
    uint64_t n = a->n;
    uint64_t held = n + 1 < o->floor ? o->floor - 1 : n;

    if (!o->behind || held < o->cursor) {
        log_warn(NULL, "the receiver came back behind what it acknowledged",
                 LS("peer", o->peer), LI("peer_n", n),
                 LI("acknowledged_n", o->cursor), LI("first_n", o->floor));
        o->behind = true;
        o->set_back++;
        if (held < o->cursor)
            o->cursor = held;
        o->dirty = true;
        if (h->ops->set_back)
            h->ops->set_back(h->self, o->peer, false);
    }
    if (a->taken + 1 < o->floor)
        answer_with_runs(o, a->taken, a->taken_run);
    send_from(o, held);
}

/* Numbers are missing at the receiver: send from there again, but once for
 * each place and round trip, as every batch behind the hole says so. */
static void fill_hole(struct hop_out *o, uint64_t taken)
{
    int64_t now = mono_ms();

    if (taken >= o->sent ||
        (o->back_to == taken && now - o->back_ms < GO_BACK_MS))
        return;
    o->back_to = taken;
    o->back_ms = now;
    send_from(o, taken);
}

/* What contradicts the log or the cursor may be an old frame, which waited in a pipe
 * while its process died or went on. So it is believed only in answer to a question that
 * was asked after the first contradiction: then the receiver was there at a time when
 * its place had been at the cursor already. However often an old frame is repeated, it
 * answers an older question. */
static bool is_proven(struct hop_out *o, const struct wire_acked *a, bool mine)
{
    if (o->in_doubt && a->answers == o->question) {
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

/* NULL: it is of no link that we know, and nothing to know of either. */
static struct hop_out *heard(struct hop *h, const struct wire_acked *a)
{
    char peer[NAME_MAX_BYTES + 1];
    struct hop_out *o;

    wire_copy(peer, sizeof peer, a->from);
    o = hop_out_known(h, peer);
    if (!o || !o->link) {
        /* Rows of ours that we know nothing of? Then our store was lost. */
        if (!a->taken || h->out_count >= LINKS_MAX)
            return NULL;
        o = hop_out_linked(h, peer);
    }
    wire_copy(o->inbox, sizeof o->inbox, a->inbox);
    o->heard_ms = mono_ms();
    o->ask_at_ms = 0;
    o->asked = 0;
    return o;
}

/* Its place is a row of ours, at the cursor or beyond. */
static void believe(struct hop_out *o, const struct wire_acked *a)
{
    if (a->answers == o->question)
        o->in_doubt = false;
    o->behind = false;
    if (a->n > o->cursor)
        move_cursor(o, a->n);
    if (a->n + 1 >= o->fresh_floor)
        o->fresh_floor = 0;
}

/* Its place is a row of ours, below the cursor. */
static void set_back_to(struct hop *h, struct hop_out *o,
                        const struct wire_acked *a)
{
    if (a->taken == 0 && o->floor > 1 && (o->own || !o->keep))
        begin_afresh(h, o);
    else
        go_back_to(h, o, a);
}

gr_rc hop_out_acked(struct hop *h, const struct wire_acked *a)
{
    struct hop_out *o;
    bool mine;

    if (!wire_is(a->to, mailbox_name(h->mailbox)) || !hop_is_name(a->from) ||
        !mailbox_reaches(h->mailbox, a->inbox) || a->taken < a->n)
        return GR_REFUSE;
    o = heard(h, a);
    if (!o)
        return GR_OK;
    mine = is_mine(o, a->n, a->run) && is_mine(o, a->taken, a->taken_run);
    if (mine && a->n >= o->cursor) {
        time_taken(o, a->taken);
        believe(o, a);
    } else if (!is_proven(o, a, mine)) {
        return GR_OK;
    } else if (mine) {
        set_back_to(h, o, a);
    } else {
        disagree(h, o, a->taken, a->taken_run);
        return GR_OK;
    }
    if (a->hole)
        fill_hole(o, a->taken > o->cursor ? a->taken : o->cursor);
    return GR_OK;
}

/* ---- what we say ---- */

static void begin_batch(struct hop *h, struct hop_out *o, struct wire_batch *b)
{
    buf_reset(&h->messages);
    *b = (struct wire_batch){
        .from = wire_text(mailbox_name(h->mailbox)),
        .inbox = wire_text(mailbox_priority_address(h->mailbox)),
        .to = wire_text(o->peer),
        .prev_run = runs_of(&o->runs, o->sent),
        .first = o->sent + 1,
        .question = o->question};
    b->run = b->first < o->next ? runs_of(&o->runs, b->first) : b->prev_run;
}

/* A row may be sent several times; it is counted once. */
static void note_gone(struct hop_out *o, uint64_t n)
{
    if (n <= o->gone_n)
        return;
    if (!o->gone_count++) {
        o->gone_first = n;
        o->gone_ms = mono_ms();
    }
    o->gone_n = n;
}

/* Moving an endpoint to another deliverer leaves thousands of such rows behind:
 * one line for all that are found in one pass through the log, or in one second
 * of it. Returns in how many ms to call again; -1: not needed. */
static int log_gone(struct hop_out *o, int64_t now)
{
    int64_t left_ms = o->gone_ms + GONE_LOG_MS - now;

    if (!o->gone_count)
        return -1;
    if (o->sent + 1 < o->next && left_ms > 0)
        return (int)left_ms;
    log_warn(NULL, "rows of the log are gone; their numbers are sent empty",
             LS("peer", o->peer), LI("rows", o->gone_count),
             LI("first_n", o->gone_first), LI("last_n", o->gone_n));
    o->gone_count = 0;
    return -1;
}

/* Append one message, its length before it, and note its size. false: it is
 * too large to go behind others, and goes alone in the next batch. */
static bool add_message(struct hop *h, struct hop_out *o, struct wire_batch *b,
                        uint64_t n, int kind, int64_t ref)
{
    size_t at = h->messages.len;
    uint8_t size[4] = {0};
    size_t bytes;

    buf_put(&h->messages, size, sizeof size);
    if (!h->ops->load ||
        !h->ops->load(h->self, o->peer, n, kind, ref, &h->messages)) {
        note_gone(o, n);
        h->messages.len = at + sizeof size;
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

static bool may_add(const struct hop *h, const struct hop_out *o,
                    const struct wire_batch *b, uint64_t n)
{
    return n < o->next && b->count < BATCH_MAX_COUNT &&
           n - o->cursor <= WINDOW_MAX_COUNT &&
           o->sent_bytes + h->messages.len < WINDOW_MAX_BYTES &&
           h->messages.len < BATCH_MAX_BYTES && runs_of(&o->runs, n) == b->run;
}

static void fill_from_log(struct hop *h, struct hop_out *o,
                          struct wire_batch *b)
{
    stmt *s = h->sql.log_read;
    uint64_t n = b->first;

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

static void fill(struct hop *h, struct hop_out *o, struct wire_batch *b)
{
    if (!o->own) {
        fill_from_log(h, o, b);
        return;
    }
    for (uint64_t n = b->first; may_add(h, o, b, n); n++)
        if (!add_message(h, o, b, n, o->own_kind, (int64_t)n))
            break;
}

/* Memory stays flat: what one large message took is given back. */
static void give_back(struct buf *b)
{
    if (b->cap > BUFFER_KEPT_BYTES)
        buf_fini(b);
}

static gr_rc send_batch(struct hop *h, struct hop_out *o, struct wire_batch *b)
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

static gr_rc send_runs(struct hop *h, struct hop_out *o)
{
    struct wire_runs r = {
        .from = wire_text(mailbox_name(h->mailbox)),
        .inbox = wire_text(mailbox_priority_address(h->mailbox)),
        .to = wire_text(o->peer),
        .next = o->next,
        .floor = o->runs_place == 0 && o->fresh_floor > o->floor
                     ? o->fresh_floor
                     : o->floor,
        .place = o->runs_place,
        .place_run = o->runs_place_run};

    buf_reset(&h->messages);
    r.count = runs_put(&o->runs, &h->messages);
    r.runs = (struct bytes){h->messages.data, h->messages.len};
    buf_reset(&h->frame);
    wire_put_runs(&h->frame, &r);
    return mailbox_send(h->mailbox, o->inbox,
                        (struct bytes){h->frame.data, h->frame.len});
}

/* Send what the window allows. false: the pipe is full. */
static bool send_rows(struct hop *h, struct hop_out *o)
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
        time_sent(o, o->sent);
    }
}

/* An empty batch asks "where are you?": behind everything that was sent, so
 * that its answer tells whether that arrived. */
static void ask(struct hop *h, struct hop_out *o)
{
    struct wire_batch b;

    /* Perhaps what we were told of its inbox was wrong. */
    if (o->asked++ >= ASKED_MOST)
        mailbox_address_of(h->mailbox, o->peer, o->inbox);
    begin_batch(h, o, &b);
    o->ask_now = false;
    (void)!send_batch(h, o, &b); /* not heard? We ask again */
}

static int tell_peer(struct hop *h, struct hop_out *o, int64_t now)
{
    bool idle = o->sent == o->cursor, under_way;

    /* A full pipe wakes the loop when it has room (mailbox_full()). */
    if (!mailbox_room(h->mailbox, o->inbox))
        return ASK_IDLE_MS;
    if (o->say_runs && send_runs(h, o) == GR_OK)
        o->say_runs = false;
    if (!send_rows(h, o))
        return ASK_IDLE_MS;
    if (idle && o->sent > o->cursor)
        o->ask_wait_ms = ASK_FIRST_MS;
    under_way = o->cursor + 1 < o->next || o->in_doubt;
    if (!o->ask_at_ms) /* just started, or just heard from it */
        o->ask_at_ms = !o->heard_ms ? now
                       : under_way  ? now + o->ask_wait_ms
                                    : now + ASK_IDLE_MS;
    if (under_way && o->ask_at_ms > now + o->ask_wait_ms)
        o->ask_at_ms = now + o->ask_wait_ms;
    if (o->ask_now || o->ask_at_ms <= now) {
        ask(h, o);
        o->ask_wait_ms *= 2;
        if (o->ask_wait_ms > ASK_MOST_MS)
            o->ask_wait_ms = ASK_MOST_MS;
        o->ask_at_ms = now + (under_way ? o->ask_wait_ms : ASK_IDLE_MS);
    }
    return (int)(o->ask_at_ms - now);
}

int hop_out_tell(struct hop *h, struct hop_out *o, int64_t now)
{
    int wait_ms = tell_peer(h, o, now), log_ms = log_gone(o, now);

    return log_ms >= 0 && log_ms < wait_ms ? log_ms : wait_ms;
}
