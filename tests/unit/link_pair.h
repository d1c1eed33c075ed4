/* link_pair: processes with a real links each, over real sockets and real files,
 * in one test process, driven turn by turn. The test stands between a mailbox
 * and its links: it may drop, double and reorder frames, kill an end at any step
 * of a turn, and put an older file instead of an end's.
 *
 * Time is the test clock: it moves when nothing is on its way, so that waiting
 * costs nothing. */
#ifndef UNIT_LINK_PAIR_H
#define UNIT_LINK_PAIR_H

#include "bounds.h"
#include "clock.h"
#include "db.h"
#include "epochs.h"
#include "le64.h"
#include "links.h"
#include "log.h"
#include "mailbox.h"
#include "seeded.h"
#include "wire.h"
#include <czmq.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    FRAMES_HELD_MAX = 65536,
    IDLE_STEP_MS = 20,
    ROUNDS_MAX = 20000,
    ARCHIVE_KIND = 7,
};

/* Kinds of a row are sizes of its message. */
enum { SMALL, MIDDLING, LARGE, HUGE_ONE };

enum step { BEFORE_COMMIT, AFTER_COMMIT, AFTER_TELL, STEPS };

struct frame {
    char *p;
    size_t n;
};

struct end {
    char name[32], dir[80], path[160];
    struct db *db;
    struct mailbox *mailbox;
    struct links *links;
    stmt *insert, *archive_add, *archive_get;

    /* What the test wants of it. */
    const char *own_to;  /* its archive is its log to this peer */
    bool archives;       /* it keeps one beside its log, to be judged by */
    const char *keep_to; /* it keeps its log for this peer */
    const char *hold_from;
    bool settle_by_hand;
    unsigned settle_pm; /* per mille of turns of a held link; 0: 300 */
    unsigned lose_pm, double_pm, reorder_pm; /* per mille of frames */
    int no_space;      /* apply says GR_AGAIN this often */
    int slow_ms;       /* apply takes so long */
    unsigned stand_pm; /* per mille of frames: it stands still before one */
    uint64_t refuse_value;
    uint64_t crash_value; /* apply: _exit */
    bool alive;

    /* What happened. */
    int rewinds;
    struct {
        uint64_t n, value;
    } pending[WINDOW_MAX_COUNT]; /* of a held link: taken, not yet on disk */
    size_t pending_count;
    size_t turns;
    bool waits; /* it takes no frames before some time has passed */
    struct frame held[FRAMES_HELD_MAX];
    size_t held_count;
};

/* ---- messages: made from their value, so that every byte can be checked ---- */

static inline size_t size_of(int kind, uint64_t value)
{
    switch (kind) {
    case MIDDLING:
        return 8 + value * 2654435761u % 2000;
    case LARGE:
        return 300 * 1000;
    case HUGE_ONE:
        return 5 * 1000 * 1000;
    default:
        return 8;
    }
}

/* Its first byte is 0, so that it is not taken for a message of another version. */
static inline void put_message(struct buf *out, int kind, uint64_t value)
{
    size_t size = size_of(kind, value);
    char part[1024];

    put_le64(out, __builtin_bswap64(value));
    memset(part, (int)(value & 0x7f), sizeof part);
    for (size_t left = size - 8; left;) {
        size_t n = left < sizeof part ? left : sizeof part;

        buf_put(out, part, n);
        left -= n;
    }
}

static inline uint64_t value_of(struct bytes msg)
{
    const uint8_t *p = msg.p;

    assert_true(msg.n >= 8);
    for (size_t i = 8; i < msg.n; i++)
        assert_int_equal(p[i], __builtin_bswap64(get_le64(p)) & 0x7f);
    return __builtin_bswap64(get_le64(p));
}

/* ---- what the process would do ---- */

static inline void note_applied(struct end *e, const char *from, uint64_t n,
                                uint64_t value)
{
    bind_text(e->insert, 1, from);
    bind_i64(e->insert, 2, (int64_t)n);
    bind_i64(e->insert, 3, (int64_t)value);
    db_run(e->db, e->insert);
}

static inline gr_rc end_apply(void *self, const char *from, uint64_t n,
                              struct bytes msg)
{
    struct end *e = self;
    uint64_t value = value_of(msg);

    clock_test_advance(e->slow_ms);
    if (e->no_space > 0) {
        e->no_space--;
        return GR_AGAIN;
    }
    if (e->crash_value && value == e->crash_value)
        _exit(99);
    if (e->refuse_value && value == e->refuse_value)
        return GR_REFUSE;
    if (e->hold_from) {
        assert_true(e->pending_count < COUNT_OF(e->pending));
        e->pending[e->pending_count].n = n;
        e->pending[e->pending_count++].value = value;
    } else {
        note_applied(e, from, n, value);
    }
    return GR_OK;
}

/* Some of what a held link has taken is written, and its cursor moves. */
static inline void end_settle(struct end *e, size_t count)
{
    for (size_t i = 0; i < count; i++)
        note_applied(e, e->hold_from, e->pending[i].n, e->pending[i].value);
    if (count == e->pending_count) { /* numbers without a message too */
        links_settle(e->links, e->hold_from, UINT64_MAX);
        e->pending_count = 0;
        return;
    }
    if (count)
        links_settle(e->links, e->hold_from, e->pending[count - 1].n);
    e->pending_count -= count;
    memmove(e->pending, e->pending + count,
            e->pending_count * sizeof *e->pending);
}

static inline bool end_load(void *self, const char *peer, uint64_t n, int kind,
                            int64_t ref, struct buf *out)
{
    struct end *e = self;
    bool found;

    (void)n;
    if (kind != ARCHIVE_KIND) {
        put_message(out, kind, (uint64_t)ref);
        return true;
    }
    assert_string_equal(peer, e->own_to);
    bind_i64(e->archive_get, 1, ref);
    found = db_step(e->db, e->archive_get);
    if (found)
        put_message(out, (int)col_i64(e->archive_get, 0),
                    (uint64_t)col_i64(e->archive_get, 1));
    db_done(e->archive_get);
    return found;
}

static inline void end_rewound(void *self, const char *peer, bool we_are_older)
{
    struct end *e = self;
    struct link_state l;
    int at = 0;

    (void)we_are_older;
    e->rewinds++;
    while (links_each(e->links, &at, &l))
        if (!l.out && strcmp(l.peer, peer) == 0)
            for (size_t i = 0; i < e->pending_count; i++)
                if (e->pending[i].n <= l.next)
                    note_applied(e, peer, e->pending[i].n, e->pending[i].value);
    e->pending_count = 0;
}

static const struct links_ops end_ops = {
    .apply = end_apply, .load = end_load, .rewound = end_rewound};

static const char *const end_steps[] = {
    "CREATE TABLE applied(id INTEGER PRIMARY KEY, peer TEXT, n INTEGER,"
    "  value INTEGER);"
    "CREATE TABLE archive(n INTEGER PRIMARY KEY, kind INTEGER, value INTEGER)",
    proto_links_sql,
};
static const struct db_schema end_schema = {.steps = end_steps, .count = 2};

/* ---- generation and death ---- */

static inline uint64_t fresh_epoch(void)
{
    return (rig_random() & INT64_MAX) | 1;
}

#ifdef UNIT_LINK_NET_H
/* The machine lives on: many worlds, no fsync. SQLite's calls come here; without them a commit would not leave
 * our buffer (wal_buffer.h). */
int fdatasync(int fd)
{
    (void)fd;
    return 0;
}
#endif

static inline void end_start(struct end *e)
{
    assert_false(e->alive);
    e->alive = true;
    e->db = db_open(e->path, &end_schema);
    e->insert = db_prepare(e->db, "INSERT INTO applied(peer, n, value) "
                                  "VALUES(?, ?, ?)");
    e->archive_add = db_prepare(e->db, "INSERT INTO archive VALUES(?, ?, ?)");
    e->archive_get = db_prepare(e->db,
                                "SELECT kind, value FROM archive WHERE n = ?");
    e->mailbox = mailbox_open(e->dir, e->name);
    e->links = links_open(e->db, e->mailbox, &end_ops, fresh_epoch(), e);
    if (e->own_to)
        links_own_log(e->links, e->own_to, ARCHIVE_KIND);
    if (e->keep_to)
        links_keep_log(e->links, e->keep_to);
    if (e->hold_from)
        links_hold(e->links, e->hold_from);
    e->pending_count = 0;
}

/* Frames that had not been read die with it. */
static inline void end_kill(struct end *e)
{
    assert_true(e->alive);
    e->alive = false;
    links_close(e->links);
    mailbox_close(e->mailbox);
    db_close(e->db);
    for (size_t i = 0; i < e->held_count; i++)
        free(e->held[i].p);
    e->held_count = 0;
}

static inline void end_make(struct end *e, const char *dir, const char *name)
{
    snprintf(e->name, sizeof e->name, "%s", name);
    snprintf(e->dir, sizeof e->dir, "%s", dir);
    snprintf(e->path, sizeof e->path, "%s/%s.db", dir, name);
    end_start(e);
}

static inline void end_restart(struct end *e)
{
    end_kill(e);
    end_start(e);
}

/* Ends that are killed many times at one cursor would in the end quarantine the
 * message there; tests of something else do without. */
static inline void end_calm(struct end *e)
{
    db_exec(e->db, "UPDATE link_in SET start_n = -1, stalls = 0, trying = 0, "
                   "tries = 0");
}

/* ---- copies ---- */

static inline void end_copy(struct end *e, const char *name)
{
    char why[200] = "", to[256];

    snprintf(to, sizeof to, "%s/%s", e->dir, name);
    unlink(to);
    assert_int_equal(db_backup_start(e->db, to, why), GR_OK);
    while (db_backup_step(e->db, why) == GR_AGAIN)
        ;
    assert_false(db_backup_running(e->db));
}

static inline void end_remove_store(struct end *e)
{
    char beside[200];

    unlink(e->path);
    snprintf(beside, sizeof beside, "%s-wal", e->path);
    unlink(beside);
    snprintf(beside, sizeof beside, "%s-shm", e->path);
    unlink(beside);
}

/* The copy replaces the store; NULL: an empty one does. */
static inline void end_restore(struct end *e, const char *name)
{
    char cp[600];

    if (e->alive)
        end_kill(e);
    end_remove_store(e);
    if (name) {
        snprintf(cp, sizeof cp, "cp %s/%s %s", e->dir, name, e->path);
        assert_int_equal(system(cp), 0);
    }
    end_start(e);
}

/* ---- frames between mailbox and link ---- */

static inline void hold_frame(struct end *e, const void *p, size_t n)
{
    size_t at = e->held_count;
    char *copy = malloc(n ? n : 1);

    assert_true(e->held_count < FRAMES_HELD_MAX);
    memcpy(copy, p, n);
    if (at && chance_pm(e->reorder_pm)) {
        size_t max = at < 16 ? at : 16;

        at -= rig_random() % (max + 1);
    }
    memmove(e->held + at + 1, e->held + at,
            (e->held_count - at) * sizeof *e->held);
    e->held[at] = (struct frame){copy, n};
    e->held_count++;
}

static inline bool end_read(struct end *e)
{
    zframe_t *frame;
    bool any = false;

    while (e->held_count < 200 && (frame = mailbox_take(e->mailbox))) {
        any = true;
        if (!chance_pm(e->lose_pm))
            hold_frame(e, zframe_data(frame), zframe_size(frame));
        if (chance_pm(e->double_pm))
            hold_frame(e, zframe_data(frame), zframe_size(frame));
        zframe_destroy(&frame);
    }
    return any;
}

static inline void end_receive(struct end *e)
{
    size_t k = 0;
    bool full = links_resume(e->links) == GR_AGAIN;

    e->waits = full;
    for (; k < e->held_count && !full; k++) {
        if (links_taken_count(e->links) >= TURN_MAX_COUNT ||
            links_taken_bytes(e->links) >= TURN_MAX_BYTES)
            break;
        if (chance_pm(e->stand_pm))
            clock_test_advance((int64_t)(rig_random() % 3000));
        full = links_receive(e->links,
                             (struct bytes){e->held[k].p, e->held[k].n}) ==
               GR_AGAIN;
        free(e->held[k].p);
    }
    e->held_count -= k;
    memmove(e->held, e->held + k, e->held_count * sizeof *e->held);
}

/* ---- turns ---- */

/* One turn; `more` may write rows, and is told that it did commit. With
 * `die_at` it ends at that step and starts again from its file. Returns
 * whether there was anything to read. */
static inline bool end_turn_dying(struct end *e, void (*more)(struct end *),
                                  enum step die_at)
{
    bool any = end_read(e) || e->held_count > 0;
    gr_rc rc;

    e->turns++;
    db_begin(e->db);
    end_receive(e);
    if (e->hold_from && !e->settle_by_hand &&
        chance_pm(e->settle_pm ? e->settle_pm : 300))
        end_settle(e, chance_pm(500) ? e->pending_count
                                     : rig_random() % (e->pending_count + 1));
    if (more)
        more(e);
    links_work(e->links);
    if (die_at == BEFORE_COMMIT) {
        end_restart(e);
        end_calm(e);
        return true;
    }
    rc = db_commit(e->db);
    if (rc != GR_OK) {
        e->pending_count = 0;
        links_undo(e->links);
    }
    if (die_at != AFTER_COMMIT && rc == GR_OK) {
        int ms = links_flush(e->links);

        assert_true(ms >= 0 && ms <= 5000);
    }
    db_tidy(e->db);
    if (die_at == AFTER_COMMIT || die_at == AFTER_TELL) {
        end_restart(e);
        end_calm(e);
    }
    return any;
}

static inline bool end_turn(struct end *e)
{
    return end_turn_dying(e, NULL, STEPS);
}

/* A turn of each of two ends. Time moves when nothing is on its way, and when an end
 * waits before it takes more. */
static inline void both_turn(struct end *a, struct end *b)
{
    bool any = false;

    if (a->alive)
        any = end_turn(a);
    if (b->alive)
        any = end_turn(b) || any;
    if ((a->alive && a->waits) || (b->alive && b->waits))
        clock_test_advance(IDLE_STEP_MS);
#ifdef UNIT_LINK_NET_H
    if (!net_step() && !any)
        clock_test_advance(IDLE_STEP_MS);
#else
    if (!any) {
        zmq_pollitem_t items[2];
        int n = 0;

        if (a->alive)
            items[n++] = (zmq_pollitem_t){
                zsock_resolve(mailbox_socket(a->mailbox)), -1, ZMQ_POLLIN, 0};
        if (b->alive)
            items[n++] = (zmq_pollitem_t){
                zsock_resolve(mailbox_socket(b->mailbox)), -1, ZMQ_POLLIN, 0};
        if (zmq_poll(items, n, 1) == 0)
            clock_test_advance(IDLE_STEP_MS);
    }
#endif
}

/* ---- what the sender writes ---- */

static uint64_t next_value = 1;

/* Append one row for `peer`, inside a transaction. Two of three come with their message. */
static inline uint64_t end_put(struct end *e, const char *peer, int kind)
{
    uint64_t value = next_value++;
    uint64_t n = links_next(e->links, peer);
    bool own = e->own_to && strcmp(e->own_to, peer) == 0;
    struct buf message;

    if (own || e->archives) {
        bind_i64(e->archive_add, 1, (int64_t)n);
        bind_i64(e->archive_add, 2, kind);
        bind_i64(e->archive_add, 3, (int64_t)value);
        db_run(e->db, e->archive_add);
    }
    buf_init(&message, FRAME_MAX_BYTES);
    if (value % 3)
        put_message(&message, kind, value);
    links_put_message(e->links, peer, own ? ARCHIVE_KIND : kind,
                      (int64_t)(own ? n : value),
                      (struct bytes){message.data, message.len});
    buf_fini(&message);
    return value;
}

/* `count` rows in one transaction, without a turn. */
static inline void end_write(struct end *e, const char *peer, int kind,
                             int count)
{
    db_begin(e->db);
    for (int i = 0; i < count; i++)
        end_put(e, peer, kind);
    links_work(e->links);
    assert_int_equal(db_commit(e->db), GR_OK);
}

static inline int64_t end_number(struct end *e, const char *sql)
{
    stmt *s = NULL;
    int64_t v = -1;

    assert_int_equal(sqlite3_prepare_v2(db_handle(e->db), sql, -1, &s, NULL),
                     SQLITE_OK);
    if (sqlite3_step(s) == SQLITE_ROW)
        v = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return v;
}

static inline struct link_state link_of(struct end *e, const char *peer,
                                        bool out)
{
    struct link_state l;
    int at = 0;

    while (links_each(e->links, &at, &l))
        if (l.out == out && strcmp(l.peer, peer) == 0)
            return l;
    return (struct link_state){0};
}

/* Turns until the sender's log is acknowledged to its end and the receiver
 * stands there too. */
static inline bool is_through(struct end *from, struct end *to)
{
    struct link_state l;
    int at = 0;

    if (links_backlog(from->links, to->name) || from->held_count ||
        to->held_count)
        return false;
    while (links_each(to->links, &at, &l))
        if (!l.out && strcmp(l.peer, from->name) == 0)
            return l.done + 1 == links_next(from->links, to->name) &&
                   l.next == l.done;
    return links_next(from->links, to->name) == 1;
}

static inline void run_through(struct end *from, struct end *to)
{
    int64_t begun_ms = mono_ms();
    struct link_state in;

    for (int i = 0; i < ROUNDS_MAX; i++) {
        both_turn(from, to);
        if (is_through(from, to))
            return;
    }
    in = link_of(to, from->name, false);
    fail_msg(
        "%s never got through to %s: backlog %llu, cursor %llu, floor %llu; it "
        "has taken %llu and stored %llu; frames unread: %zu and %zu; %lld ms; "
        "seed %llu",
        from->name, to->name,
        (unsigned long long)links_backlog(from->links, to->name),
        (unsigned long long)links_cursor(from->links, to->name),
        (unsigned long long)links_floor_of(from->links, to->name),
        (unsigned long long)in.next, (unsigned long long)in.done,
        from->held_count, to->held_count, (long long)(mono_ms() - begun_ms),
        (unsigned long long)rig_seed);
}

/* ---- judgement ---- */

/* Applied: 1 … last of `peer`'s values from `first` on, once each, in order,
 * with numbers in order. */
static inline void assert_exactly(struct end *to, const char *peer,
                                  uint64_t first, uint64_t last)
{
    stmt *s = NULL;
    uint64_t value = first, n = 0;

    sqlite3_prepare_v2(
        db_handle(to->db),
        "SELECT value, n FROM applied WHERE peer = ? ORDER BY id", -1, &s,
        NULL);
    bind_text(s, 1, peer);
    while (sqlite3_step(s) == SQLITE_ROW) {
        assert_int_equal(col_i64(s, 0), value);
        assert_true((uint64_t)col_i64(s, 1) > n);
        n = (uint64_t)col_i64(s, 1);
        value++;
    }
    sqlite3_finalize(s);
    assert_int_equal(value, last + 1);
}

static inline void assert_no_alarm(struct end *from, struct end *to)
{
    struct link_state out = link_of(from, to->name, true);
    struct link_state in = link_of(to, from->name, false);

    assert_int_equal(out.rewinds, 0);
    assert_int_equal(in.rewinds, 0);
    assert_int_equal(in.lost, 0);
    assert_int_equal(in.unprocessable, 0);
}

/* ---- a folder, two ends ---- */

struct pair {
    char dir[64];
    struct end a, b; /* a sends to b */
};

static inline int pair_setup(void **state)
{
    struct pair *p = calloc(1, sizeof *p);
    const char *folder = getenv("TMPDIR");

    snprintf(p->dir, sizeof p->dir, "%.40s/link-XXXXXX",
             folder ? folder : "/tmp");
    assert_non_null(mkdtemp(p->dir));
    log_open("test", LEVEL_ERROR, false);
    clock_test_set(1700000000000);
    rig_seed = 88172645463325252ULL;
    next_value = 1;
    *state = p;
    return 0;
}

static inline int pair_teardown(void **state)
{
    struct pair *p = *state;
    char rm[100];

    if (p->a.alive)
        end_kill(&p->a);
    if (p->b.alive)
        end_kill(&p->b);
    snprintf(rm, sizeof rm, "rm -rf %s", p->dir);
    free(p);
    return system(rm) == 0 ? 0 : -1;
}

static inline void pair_start(struct pair *p)
{
    end_make(&p->a, p->dir, "a");
    end_make(&p->b, p->dir, "b");
}

#define PAIR_TEST(f) \
    cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)

#endif
