/* The receiving end of a link. Taken: applied. n: on disk. n <= taken. */
#include "clock.h"
#include "hop_links.h"
#include "log.h"
#include "other_version.h"
#include <string.h>

void hop_in_store(struct hop *h, struct hop_in *i)
{
    i->made = false;
    if (!i->dirty)
        return;
    bind_i64(h->sql.in_set, 1, i->link);
    bind_i64(h->sql.in_set, 2, (int64_t)i->n);
    bind_text(h->sql.in_set, 3, i->inbox);
    bind_i64(h->sql.in_set, 4, (int64_t)i->lost);
    bind_i64(h->sql.in_set, 5, (int64_t)i->set_back);
    bind_i64(h->sql.in_set, 6, (int64_t)i->unprocessable);
    db_run(h->db, h->sql.in_set);
    if (runs_shorten(&i->runs, RUNS_KEPT, i->n)) {
        bind_i64(h->sql.in_runs_cut, 1, i->link);
        bind_i64(h->sql.in_runs_cut, 2, INT64_MAX);
        bind_i64(h->sql.in_runs_cut, 3, (int64_t)i->runs.list[0].first);
        db_run(h->db, h->sql.in_runs_cut);
    }
    i->dirty = false;
}

void hop_hold(struct hop *h, const char *from)
{
    hop_in_named(h, from)->held = true;
}

void hop_settle(struct hop *h, const char *from, uint64_t n)
{
    struct hop_in *i = hop_in_known(h, from);

    if (i && n > i->taken)
        n = i->taken;
    if (!i || n <= i->n)
        return;
    i->n = n;
    i->dirty = i->say = true;
}

static void cut_runs(struct hop *h, struct hop_in *i, uint64_t n)
{
    bind_i64(h->sql.in_runs_cut, 1, i->link);
    bind_i64(h->sql.in_runs_cut, 2, (int64_t)n);
    bind_i64(h->sql.in_runs_cut, 3, 0);
    db_run(h->db, h->sql.in_runs_cut);
    i->stale_runs = false;
}

/* Row n, the next one, was written in `run`. */
static void take_number(struct hop *h, struct hop_in *i, uint64_t n,
                        uint64_t run)
{
    if (i->stale_runs)
        cut_runs(h, i, i->taken);
    if (run && runs_of(&i->runs, n) != run) {
        bind_i64(h->sql.in_run, 1, i->link);
        bind_i64(h->sql.in_run, 2, (int64_t)n);
        bind_i64(h->sql.in_run, 3, (int64_t)run);
        db_run(h->db, h->sql.in_run);
        runs_add(&i->runs, run, n);
    }
    i->taken = n;
    i->say = true;
    if (i->held)
        return; /* hop_settle() moves the place */
    i->n = n;
    i->dirty = true;
}

/* On disk: this message is being tried, for the tries-th time. */
static void note_trying(struct hop *h, struct hop_in *i, uint64_t n, int tries)
{
    i->trying = i->marked = n;
    i->tries = tries;
    bind_i64(h->sql.in_trying, 1, (int64_t)n);
    bind_i64(h->sql.in_trying, 2, tries);
    bind_i64(h->sql.in_trying, 3, i->link);
    db_run(h->db, h->sql.in_trying);
}

/* Our place goes back to n; what follows comes again. */
static void place_back(struct hop *h, struct hop_in *i, uint64_t n)
{
    i->taken = n;
    if (i->n > n)
        i->n = n;
    runs_cut(&i->runs, n);
    cut_runs(h, i, n);
    i->set_back++;
    i->dirty = i->say = i->hole = true;
    if (i->trying > n) /* it names another message from now on */
        note_trying(h, i, 0, 0);
    if (h->ops->set_back)
        h->ops->set_back(h->self, i->peer, false);
}

/* Nobody holds what lies before `floor`. */
static void jump_to(struct hop *h, struct hop_in *i, uint64_t floor,
                    uint64_t prev_run)
{
    uint64_t from = i->taken + 1, to = floor - 1;

    log_warn(NULL,
             from == 1 ? "first contact with a log that does not begin at 1"
                       : "messages are lost: their sender holds them no more",
             LS("peer", i->peer), LI("first_n", from), LI("last_n", to));
    bind_text(h->sql.in_lost, 1, i->peer);
    bind_i64(h->sql.in_lost, 2, (int64_t)from);
    bind_i64(h->sql.in_lost, 3, (int64_t)to);
    bind_i64(h->sql.in_lost, 4, now_ms());
    db_run(h->db, h->sql.in_lost);
    i->lost += to - from + 1;
    take_number(h, i, to, prev_run);
    i->n = to;
    i->dirty = true;
}

static void set_aside(struct hop *h, struct hop_in *i, uint64_t n,
                      struct bytes msg, const char *why)
{
    log_warn(NULL, "a message can't be applied; it is kept aside",
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

static gr_rc apply(struct hop *h, struct hop_in *i, uint64_t n, uint64_t run,
                   struct bytes msg)
{
    struct wire_head other;
    gr_rc rc = GR_OK;

    h->applying = run;
    if (i->marked == n && i->tries > SUSPECT_TRIES)
        set_aside(h, i, n, msg, "it took the process down twice");
    else if (wire_is_other_version(&other, msg)) {
        other_version_warn(wire_text(i->peer), &other);
        rc = GR_AGAIN; /* it is understood when both run the same version */
    } else if (msg.n && h->ops->apply) {
        rc = h->ops->apply(h->self, i->peer, n, msg);
    }
    if (rc == GR_AGAIN) {
        if (i->marked == n) /* it did no harm */
            note_trying(h, i, 0, 0);
        return rc;
    }
    if (rc == GR_REFUSE)
        set_aside(h, i, n, msg, "it does not decode");
    take_number(h, i, n, run);
    /* Once this is committed it did no harm, though its place may be held:
     * else whoever kills us twice, now and then, would take it out. */
    if (i->marked == n)
        note_trying(h, i, 0, 0);
    h->taken_count++;
    h->taken_bytes += msg.n;
    return GR_OK;
}

/* After unclean starts at the same place: first a turn that writes which
 * message is next, then one that applies it. GR_AGAIN: end this turn. */
static gr_rc watch_step(struct hop *h, struct hop_in *i, uint64_t n)
{
    if (!i->suspect_left)
        return GR_OK;
    if (h->taken_count > 0)
        return GR_AGAIN; /* one per turn */
    if (i->marked == n) {
        i->suspect_left--;
        return GR_OK;
    }
    h->quiet = i->trying == n && mono_ms() - h->opened_ms < SUSPECT_QUIET_MS;
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

/* Whole, and no more than it says: looked at before any of it is applied. */
static bool is_whole(const struct wire_batch *b)
{
    size_t at = 0;
    struct bytes msg;

    if (b->count > BATCH_MAX_COUNT || b->first == 0 || b->first > INT64_MAX ||
        (b->count && b->run == 0))
        return false;
    for (uint64_t k = 0; k < b->count; k++)
        if (!next_message(b, &at, &msg))
            return false;
    return at == b->messages.n;
}

/* Where `b` and we have a row in common, it is the same row. A run that one
 * side no longer remembers (0) says nothing. */
static bool agrees(const struct hop_in *i, const struct wire_batch *b)
{
    uint64_t before = runs_of(&i->runs, b->first - 1);
    uint64_t last = b->first + b->count - 1; /* first-1 when it is empty */

    if (before && b->prev_run && before != b->prev_run)
        return false;
    if (last > i->taken)
        last = i->taken;
    return last < b->first || runs_of(&i->runs, last) == b->run;
}

/* One message may stand for thousands of events. Others wait to be heard
 * meanwhile, and a deliverer for its lease. */
static bool is_spent(struct hop *h)
{
    int64_t now = mono_us();

    if (!h->applied_us)
        h->applied_us = now;
    return now - h->applied_us > APPLY_MAX_US;
}

static gr_rc take_rest(struct hop *h, struct hop_in *i,
                       const struct wire_batch *b, struct bytes frame)
{
    size_t at = 0;
    struct bytes msg;

    for (uint64_t n = b->first; n < b->first + b->count; n++) {
        next_message(b, &at, &msg);
        if (n <= i->taken)
            continue;
        if (is_spent(h)) {
            i->hole = true; /* from here it is sent again */
            break;
        }
        if (watch_step(h, i, n) != GR_OK) {
            buf_put(&h->kept, frame.p, frame.n);
            return GR_AGAIN;
        }
        if (apply(h, i, n, b->run, msg) != GR_OK)
            break; /* no room: the sender will ask, and send it again */
    }
    return GR_OK;
}

/* The link on which this is said to us; NULL: it makes no sense. We answer it
 * after the commit, whatever it is. */
static struct hop_in *heard(struct hop *h, struct bytes from,
                            struct bytes inbox, struct bytes to)
{
    char peer[NAME_MAX_BYTES + 1];
    struct hop_in *i;

    if (!wire_is(to, mailbox_name(h->mailbox)) || !hop_is_name(from) ||
        !mailbox_reaches(h->mailbox, inbox))
        return NULL;
    wire_copy(peer, sizeof peer, from);
    i = hop_in_linked(h, peer);
    if (!i)
        return NULL;
    if (!wire_is(inbox, i->inbox)) {
        wire_copy(i->inbox, sizeof i->inbox, inbox);
        i->dirty = true;
    }
    i->heard_ms = mono_ms();
    i->say = true;
    return i;
}

gr_rc hop_in_batch(struct hop *h, struct bytes frame)
{
    struct wire_batch b;
    struct hop_in *i;

    if (wire_get_batch(&b, frame) != GR_OK || !is_whole(&b))
        return GR_REFUSE;
    i = heard(h, b.from, b.inbox, b.to);
    if (!i)
        return GR_REFUSE;
    i->question = b.question;
    /* A message that takes us down must find on disk where we stood. */
    if (b.first > i->taken + 1 || (i->made && b.count)) {
        i->hole = true;
        return GR_OK;
    }
    if (!agrees(i, &b))
        return GR_OK;
    return take_rest(h, i, &b, frame);
}

/* Go back to the last row that both have, and from there over what nobody
 * holds. Only here, never on a batch: a batch can't show whether our last row
 * is also the sender's row of that number (tests/model/hop.pml,
 * M_JUMP_ON_BATCH). */
static void agree_on(struct hop *h, struct hop_in *i, const struct wire_runs *r,
                     const struct runs *theirs)
{
    uint64_t both = runs_common(&i->runs, i->taken, theirs, r->next - 1);
    bool back = both < i->taken, over = false;

    if (back) {
        log_warn(NULL,
                 "a link was set back: we go back to the last row that the "
                 "sender has too",
                 LS("peer", i->peer), LI("from_n", i->taken), LI("to_n", both));
        place_back(h, i, both);
    }
    if (r->floor > i->taken + 1) {
        over = i->taken > 0; /* else we have only begun */
        jump_to(h, i, r->floor, runs_of(theirs, r->floor - 1));
    }
    if (over && !back && h->ops->set_back)
        h->ops->set_back(h->self, i->peer, false);
}

gr_rc hop_in_runs(struct hop *h, const struct wire_runs *r)
{
    struct runs theirs = {0};
    struct hop_in *i = NULL;

    if (r->next && r->floor && r->floor <= r->next && r->next <= INT64_MAX &&
        runs_get(&theirs, r->runs, r->count) == GR_OK)
        i = heard(h, r->from, r->inbox, r->to);
    if (!i) {
        runs_fini(&theirs);
        return GR_REFUSE;
    }
    /* An old frame that waited in a pipe speaks of another place. */
    if (r->place == i->taken && r->place_run == runs_of(&i->runs, i->taken))
        agree_on(h, i, r, &theirs);
    runs_fini(&theirs);
    return GR_OK;
}

/* Where the sender is to send its messages. */
static const char *address_for(const struct hop *h, const char *peer)
{
    return h->ops->urgent && h->ops->urgent(h->self, peer)
               ? mailbox_priority_address(h->mailbox)
               : mailbox_address(h->mailbox);
}

void hop_in_tell(struct hop *h, struct hop_in *i)
{
    struct wire_acked a = {.from = wire_text(mailbox_name(h->mailbox)),
                           .inbox = wire_text(address_for(h, i->peer)),
                           .to = wire_text(i->peer),
                           .n = i->n,
                           .run = runs_of(&i->runs, i->n),
                           .taken = i->taken,
                           .taken_run = runs_of(&i->runs, i->taken),
                           .hole = i->hole,
                           .answers = i->question};

    buf_reset(&h->frame);
    wire_put_acked(&h->frame, &a);
    if (*i->inbox &&
        mailbox_send(h->mailbox, i->inbox,
                     (struct bytes){h->frame.data, h->frame.len}) != GR_OK)
        return; /* the sender will ask */
    i->say = i->hole = false;
}
