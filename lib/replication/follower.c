/* follower: the loop of a standby. */
#include "follower.h"
#include "apply.h"
#include "clock.h"
#include "cut.h"
#include "file_io.h"
#include "file_view.h"
#include "large_turn.h"
#include "log.h"
#include "permission.h"
#include "snapshot.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    KEEP_PLAIN_BYTES = 16 * 1024 *
                       1024, /* a larger buffer is freed after its turn */
    LOOK_MS = 200, /* between two looks whether the store was released */
    CHECK_OPCODES = 100000, /* SQLite's, between two looks at the time */
    SLICE_ATTEMPTS = 3,
};

struct follower {
    struct follower_settings s;
    char *db_path, *process;
    uint8_t me[HOLDER_BYTES];
    struct sealer *sealer;
    struct ownership ownership;
    enum {
        LOOK,    /* reads what the file and its log have */
        MATCH,   /* compares that with the engine's log */
        CUT,     /* to `to` */
        EMPTY,   /* there is no file */
        RESTORE, /* of a snapshot */
        FOLLOW,
        TAKEN, /* this start is the owner, and the position file does not say it yet */
    } state;
    struct content content;
    struct position to;
    struct applied *applied; /* FOLLOW, TAKEN */
    bool unsynced;           /* turns were applied that are not durable yet */
    struct snapshot_restore *restore;
    bool from_snapshot; /* the file was restored by this process */
    bool checked;       /* the whole file */
    bool
        knows_key; /* what the log or the snapshot has was decrypted, or there is nothing */
    bool
        as_left; /* no turn was applied since the active of this host has left the file: db_open() checks it, or checker.h while it works */
    char trouble
        [ENGINE_WHY_BYTES]; /* why the last reading or its rows could not be used; "": nothing */
    struct buf plain;
    bool
        read_slices; /* the last row needed calls of the engine, so the other rows of its reading are gone */
    int64_t last_follow_ms; /* mono_ms(); when the node row was last written */

    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t wake;
    bool stop;
    int peers; /* follower_reaches() */
    struct follower_state shown;
};

struct follower *follower_open(const struct follower_settings *s)
{
    struct follower *f = gr_alloc(sizeof *f);
    pthread_condattr_t attr;

    f->s = *s;
    f->db_path = gr_strdup(s->db_path);
    f->process = gr_strdup(s->process);
    memcpy(f->me, s->me, HOLDER_BYTES);
    f->sealer = sealer_open(s->key);
    ownership_init(&f->ownership, f->me, s->takeover_after_ms);
    buf_init(&f->plain, APPLY_FORM_MAX_BYTES);
    pthread_mutex_init(&f->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&f->wake, &attr);
    pthread_condattr_destroy(&attr);
    return f;
}

void follower_close(struct follower *f)
{
    if (!f)
        return;
    snapshot_restore_end(f->restore);
    applied_close(f->applied);
    sealer_close(f->sealer);
    buf_fini(&f->plain);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->wake);
    free(f->db_path);
    free(f->process);
    free(f);
}

const struct ownership *follower_ownership(const struct follower *f)
{
    return &f->ownership;
}

/* ---- what others see ---- */

static void show(struct follower *f, const char *why)
{
    struct ownership *o = &f->ownership;

    pthread_mutex_lock(&f->lock);
    f->shown.at = o->at;
    f->shown.log_n = o->seen ? o->owner.at.n : 0;
    f->shown.ready = o->ready;
    snprintf(f->shown.why, sizeof f->shown.why, "%s", why);
    pthread_mutex_unlock(&f->lock);
}

void follower_state(struct follower *f, struct follower_state *out)
{
    pthread_mutex_lock(&f->lock);
    *out = f->shown;
    pthread_mutex_unlock(&f->lock);
}

void follower_stop(struct follower *f)
{
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_signal(&f->wake);
    pthread_mutex_unlock(&f->lock);
}

void follower_reaches(struct follower *f, int peers)
{
    pthread_mutex_lock(&f->lock);
    f->peers = peers;
    pthread_mutex_unlock(&f->lock);
}

static bool is_stopped(struct follower *f)
{
    bool stop;

    pthread_mutex_lock(&f->lock);
    stop = f->stop;
    pthread_mutex_unlock(&f->lock);
    return stop;
}

static int64_t often_ms(const struct follower *f)
{
    return hold_of_ms(f->s.takeover_after_ms) / 4;
}

/* Nothing can be done now, for this reason. */
static enum follower_result later(struct follower *f, int64_t *wait_ms,
                                  const char *why)
{
    show(f, why);
    *wait_ms = often_ms(f);
    return FOLLOWER_GOES_ON;
}

/* ---- the engine ---- */

struct reading {
    enum engine_result result;
    struct owner owner;
    const struct log_row *rows;
    size_t count;
};

/* Writes the node row with the present state, and reads the log after `at`. */
static struct reading follow(struct follower *f, const struct position *at,
                             size_t max_bytes, char why[ENGINE_WHY_BYTES])
{
    char missing[ENGINE_WHY_BYTES];
    struct node me = {.at = *at, .ready = f->ownership.ready, .why = missing};
    struct reading r = {0};

    pthread_mutex_lock(&f->lock);
    snprintf(missing, sizeof missing, "%s", f->shown.why);
    me.peers = f->peers;
    pthread_mutex_unlock(&f->lock);
    f->last_follow_ms = mono_ms();
    r.result = f->s.ops->follow(f->s.engine, &me, max_bytes, &r.owner, &r.rows,
                                &r.count, why);
    if (r.result == ENGINE_NO_ROW) {
        snprintf(why, ENGINE_WHY_BYTES, "the node row could not be written");
        r.result = ENGINE_UNKNOWN;
    }
    if (r.result == ENGINE_DONE) {
        pthread_mutex_lock(&f->lock);
        f->shown.followed_ms = now_ms();
        pthread_mutex_unlock(&f->lock);
    }
    return r;
}

static struct bytes plain_of(const struct follower *f)
{
    return (struct bytes){f->plain.data, f->plain.len};
}

/* One slice, after a few attempts. */
static gr_rc read_slice(struct follower *f, const struct seal_about *about,
                        int64_t slice, struct buf *sealed,
                        char why[ENGINE_WHY_BYTES])
{
    enum engine_result r = ENGINE_UNKNOWN;

    for (int i = 0; i < SLICE_ATTEMPTS && r == ENGINE_UNKNOWN; i++) {
        if (is_stopped(f)) {
            snprintf(why, ENGINE_WHY_BYTES, "it stops");
            return GR_AGAIN;
        }
        r = f->s.ops->get_slice(f->s.engine, about->n, about->epoch, slice,
                                sealed, why);
    }
    if (r == ENGINE_NO_ROW)
        snprintf(why, ENGINE_WHY_BYTES,
                 "slice %lld of turn %lld is not in the engine any more",
                 (long long)slice, (long long)about->n);
    return r == ENGINE_DONE ? GR_OK : GR_AGAIN;
}

/* The form of a large turn is in f->plain. Rows of the reading before are gone afterwards. */
static gr_rc read_slices(struct follower *f, const struct seal_about *about,
                         size_t bytes, char why[ENGINE_WHY_BYTES])
{
    char reason[200] = "", ignored[ENGINE_WHY_BYTES];
    struct buf sealed;
    gr_rc rc = GR_OK;

    f->read_slices = true;
    buf_reset(&f->plain);
    buf_init(&sealed, SEAL_PART_BYTES);
    for (int64_t i = 0; i < large_turn_slices(bytes) && rc == GR_OK; i++) {
        if (mono_ms() - f->last_follow_ms >= often_ms(f))
            follow(f, &f->ownership.at, 0, ignored);
        rc = read_slice(f, about, i, &sealed, why);
        if (rc != GR_OK)
            break;
        rc = large_turn_open(f->sealer, about, i,
                             (struct bytes){sealed.data, sealed.len}, &f->plain,
                             reason);
        if (rc != GR_OK)
            snprintf(why, ENGINE_WHY_BYTES, "turn %lld of the log: %s",
                     (long long)about->n, reason);
    }
    buf_fini(&sealed);
    return rc;
}

/* The form of a row is in f->plain. */
static gr_rc open_row(struct follower *f, const struct owner *owner,
                      const struct log_row *row, char why[ENGINE_WHY_BYTES])
{
    struct seal_about about = {.kind = SEAL_TURN,
                               .process = f->process,
                               .epoch = row->epoch,
                               .n = row->n};
    char reason[200] = "";
    gr_rc rc;

    memcpy(about.history, owner->at.history, HISTORY_BYTES);
    if (f->plain.cap > KEEP_PLAIN_BYTES)
        buf_fini(&f->plain);
    buf_reset(&f->plain);
    f->read_slices = false;
    rc = sealer_open_parts(f->sealer, &about, row->parts, row->count, &f->plain,
                           reason);
    if (rc != GR_OK)
        snprintf(why, ENGINE_WHY_BYTES, "turn %lld of the log: %s",
                 (long long)row->n, reason);
    else if (large_turn_bytes(plain_of(f)))
        rc = read_slices(f, &about, large_turn_bytes(plain_of(f)), why);
    f->knows_key |= rc == GR_OK;
    return rc;
}

/* ---- the start ---- */

static const struct position nowhere;
static const char not_begun[] =
    "replication was not begun for this process: run `grapnel replicate begin` "
    "on the host whose data it is to begin with";

static void begin_empty(struct follower *f)
{
    f->state = EMPTY;
    f->ownership.at = nowhere;
    f->ownership.ready = false;
    f->checked = f->as_left = false;
}

/* The file is not a beginning of the log. */
static void give_up_file(struct follower *f, const char *why)
{
    applied_close(f->applied);
    f->applied = NULL;
    f->unsynced = false;
    set_aside(f->db_path, why);
    begin_empty(f);
}

static enum follower_result look(struct follower *f)
{
    char why[200] = "";

    if (content_read(f->db_path, &f->content, why) != GR_OK)
        give_up_file(f, why);
    else if (f->content.exists)
        f->state = MATCH;
    else
        begin_empty(f);
    return FOLLOWER_GOES_ON;
}

static enum follower_result match(struct follower *f, int64_t *wait_ms,
                                  char why[ENGINE_WHY_BYTES])
{
    const struct position *from = content_from(&f->content);
    struct reading r = follow(f, from, 1, why);
    struct bytes first = {0};
    uint8_t chain[CHAIN_BYTES] = {0};
    char reason[200] = "";

    if (r.result != ENGINE_DONE)
        return later(f, wait_ms, why);
    if (!r.owner.exists)
        return later(f, wait_ms, not_begun);
    if (r.count) {
        memcpy(chain, r.rows[0].chain, CHAIN_BYTES);
        if (open_row(f, &r.owner, &r.rows[0], why) != GR_OK)
            return later(f, wait_ms, why);
        first = plain_of(f);
    }
    f->state = CUT;
    switch (content_match(&f->content, &r.owner.at, first, chain, reason)) {
    case CONTENT_IS_LAST:
        f->to = f->content.last;
        break;
    case CONTENT_IS_BEFORE:
        f->to = f->content.before;
        break;
    case CONTENT_DIVERGED:
    case CONTENT_TOO_OLD:
        give_up_file(f, reason);
        break;
    case CONTENT_AHEAD:
        snprintf(why, ENGINE_WHY_BYTES, "%s", reason);
        return FOLLOWER_CONTRADICTION;
    }
    return FOLLOWER_GOES_ON;
}

static enum follower_result begin_following(struct follower *f)
{
    struct ownership *o = &f->ownership;

    f->applied = applied_open(f->db_path);
    if (!f->applied) {
        give_up_file(f, "it cannot be opened with its position");
        return FOLLOWER_GOES_ON;
    }
    ownership_init(o, f->me, f->s.takeover_after_ms);
    o->at = *applied_position(f->applied);
    f->trouble[0] = 0;
    if (f->s.former_has_ended)
        memcpy(o->former, applied_holder(f->applied), HOLDER_BYTES);
    f->state = FOLLOW;
    log_info(NULL, "following the engine's log", LS("file", f->db_path),
             LI("turn", o->at.n));
    return FOLLOWER_GOES_ON;
}

static enum follower_result cut(struct follower *f, int64_t *wait_ms)
{
    char why[200] = "";

    switch (cut_to(f->db_path, &f->to, why)) {
    case GR_OK:
        f->as_left = f->content.stored.active;
        return begin_following(f);
    case GR_AGAIN:
        return later(f, wait_ms, why);
    case GR_REFUSE:
        break;
    }
    give_up_file(f, why);
    return FOLLOWER_GOES_ON;
}

/* ---- without a file ---- */

/* A log without a file belongs to one that was moved away. A position without a file is of a restoration that did not end. */
static void clear_rest(struct follower *f)
{
    static const char *const rest[] = {"-wal", "-shm", "-position"};
    char *wal = gr_printf("%s-wal", f->db_path);
    struct stat st;

    if (stat(wal, &st) == 0 && st.st_size > 0)
        set_aside(f->db_path, "there is a write-ahead log without its file");
    for (size_t i = 0; i < COUNT_OF(rest); i++) {
        char *name = gr_printf("%s%s", f->db_path, rest[i]);

        unlink(name);
        free(name);
    }
    folder_sync(f->db_path);
    free(wal);
}

/* A history that began without a file, and the log has all of it. */
static bool begins_empty(struct follower *f, const struct reading *r)
{
    struct position at = {0};
    struct turn_head head;
    char why[ENGINE_WHY_BYTES];
    struct log_row first;

    if (r->owner.at.n == 0)
        return position_is_empty(&r->owner.at);
    if (!r->count || r->rows[0].n != 1)
        return false;
    first = r->rows[0];
    if (open_row(f, &r->owner, &first, why) != GR_OK ||
        turn_read(plain_of(f), &head) != GR_OK)
        return false;
    position_next(&at, plain_of(f));
    return memcmp(at.chain, first.chain, CHAIN_BYTES) == 0;
}

static enum follower_result create(struct follower *f,
                                   const struct owner *owner, int64_t *wait_ms)
{
    struct position at = {0};
    struct applied *a;

    memcpy(at.history, owner->at.history, HISTORY_BYTES);
    a = applied_create(f->db_path, &at);
    if (!a)
        return later(f, wait_ms, "the disk is full");
    applied_close(a);
    return begin_following(f);
}

static enum follower_result empty(struct follower *f, int64_t *wait_ms,
                                  char why[ENGINE_WHY_BYTES])
{
    struct snapshot_place place = {f->s.ops, f->s.engine, f->sealer,
                                   f->process};
    struct reading r = follow(f, &nowhere, 1, why);
    bool can_begin;
    int64_t n, bytes;

    if (r.result != ENGINE_DONE)
        return later(f, wait_ms, why);
    if (!r.owner.exists)
        return later(f, wait_ms, not_begun);
    can_begin = begins_empty(f, &r);
    clear_rest(f);
    switch (snapshot_newest(&place, r.owner.at.history, &n, &bytes, why)) {
    case SNAPSHOT_DONE:
        log_info(NULL, "restoring a snapshot", LS("file", f->db_path),
                 LI("turn", n));
        f->restore = snapshot_restore_begin(&place, r.owner.at.history,
                                            f->db_path);
        f->state = RESTORE;
        return FOLLOWER_GOES_ON;
    case SNAPSHOT_NO_ROW:
        break;
    default:
        return later(f, wait_ms, why);
    }
    return can_begin
               ? create(f, &r.owner, wait_ms)
               : later(f, wait_ms,
                       "there is no file, and no snapshot to restore yet");
}

static void show_restore(struct follower *f)
{
    int64_t parts, all;
    char why[ENGINE_WHY_BYTES];

    snapshot_restore_progress(f->restore, &parts, &all);
    snprintf(why, sizeof why,
             "a snapshot is being restored: %lld of %lld parts",
             (long long)parts, (long long)all);
    show(f, why);
}

static enum follower_result restore(struct follower *f, int64_t *wait_ms,
                                    char why[ENGINE_WHY_BYTES])
{
    enum snapshot_step s = snapshot_restore_step(f->restore, why);

    if (s == SNAPSHOT_MORE) {
        show_restore(f);
        if (mono_ms() - f->last_follow_ms >= often_ms(f))
            follow(f, &nowhere, 0, why);
        return FOLLOWER_GOES_ON;
    }
    if (s == SNAPSHOT_WAIT)
        return later(f, wait_ms, why);
    snapshot_restore_end(f->restore);
    f->restore = NULL;
    if (s == SNAPSHOT_DONE) {
        f->from_snapshot = f->knows_key = true;
        return begin_following(f);
    }
    if (s == SNAPSHOT_DAMAGED)
        log_error(NULL, "a snapshot cannot be restored", LS("file", f->db_path),
                  LS("reason", why));
    begin_empty(f);
    return later(f, wait_ms, s == SNAPSHOT_DAMAGED ? why : "");
}

/* ---- ready? ---- */

struct check {
    struct follower *f;
    bool stopped;
};

/* During the check of a large file the node row is written as usual. */
static int on_progress(void *arg)
{
    struct check *c = arg;
    struct follower *f = c->f;
    char why[ENGINE_WHY_BYTES];

    c->stopped = is_stopped(f);
    if (!c->stopped && mono_ms() - f->last_follow_ms >= often_ms(f))
        follow(f, &f->ownership.at, 0, why);
    return c->stopped;
}

/* false: `why` says what is wrong with the file; "": the check was interrupted. */
static bool integrity_is_good(struct follower *f, struct file_view *v,
                              char why[200])
{
    sqlite3 *h = file_view_sql(v, 0);
    struct check c = {.f = f};
    sqlite3_stmt *s = NULL;
    bool good = false;

    snprintf(why, 200, "SQLite cannot read the file");
    if (h) {
        sqlite3_progress_handler(h, CHECK_OPCODES, on_progress, &c);
        if (sqlite3_prepare_v2(h, "PRAGMA integrity_check(1)", -1, &s, NULL) ==
                SQLITE_OK &&
            sqlite3_step(s) == SQLITE_ROW) {
            snprintf(why, 200, "the integrity check found: %s",
                     (const char *)sqlite3_column_text(s, 0));
            good = strcmp((const char *)sqlite3_column_text(s, 0), "ok") == 0;
        }
        if (c.stopped)
            why[0] = 0;
        sqlite3_finalize(s);
        sqlite3_close(h);
    }
    return good && !c.stopped;
}

static bool row_is_right(const struct position *at,
                         const struct replicated_row *row, char why[200])
{
    if (row->state == ROW_FOUND && row->n == at->n &&
        memcmp(row->history, at->history, HISTORY_BYTES) == 0)
        return true;
    snprintf(why, 200,
             "the position is of turn %lld, and the row in the file is %s%lld",
             (long long)at->n,
             row->state == ROW_FOUND  ? "of turn "
             : row->state == ROW_NONE ? "missing: "
                                      : "not readable: ",
             (long long)row->n);
    return false;
}

static bool file_is_good(struct follower *f, char why[200])
{
    const struct position *at = applied_position(f->applied);
    struct file_view *v = file_view_open(f->db_path);
    struct replicated_row row;
    bool good;

    if (at->n == 0) { /* empty, or the file that the history began with */
        good = !v || integrity_is_good(f, v, why);
    } else if (!v) {
        snprintf(why, 200, "the file is missing or empty");
        good = false;
    } else {
        file_view_row(v, 0, &row);
        good = row_is_right(at, &row, why) && integrity_is_good(f, v, why);
    }
    file_view_close(v);
    return good;
}

/* A damaged file that this process has restored is removed, so that copies of it do not fill the disk. */
static enum follower_result damaged(struct follower *f, int64_t *wait_ms,
                                    const char *why)
{
    if (!f->from_snapshot) {
        give_up_file(f, why);
        return FOLLOWER_GOES_ON;
    }
    log_error(NULL, "a restored snapshot is damaged; it is removed",
              LS("file", f->db_path), LS("reason", why));
    applied_close(f->applied);
    f->applied = NULL;
    unlink(f->db_path);
    position_file_remove(f->db_path);
    begin_empty(f);
    later(f, wait_ms, why);
    *wait_ms = f->s.takeover_after_ms;
    return FOLLOWER_GOES_ON;
}

static bool has_space(const char *db_path)
{
    struct statvfs v;

    return statvfs(db_path, &v) != 0 ||
           (int64_t)v.f_bavail * (int64_t)v.f_frsize >= FOLLOWER_FREE_BYTES;
}

/* What is missing to be ready; NULL: nothing. */
static const char *missing(const struct follower *f,
                           char text[ENGINE_WHY_BYTES])
{
    const struct ownership *o = &f->ownership;

    if (!o->seen)
        return "the replication log was not read yet";
    if (!o->owner.exists)
        return not_begun;
    if (!position_equal(&o->at, &o->owner.at)) {
        snprintf(text, ENGINE_WHY_BYTES,
                 "the file has turn %lld, and the log ends with turn %lld",
                 (long long)o->at.n, (long long)o->owner.at.n);
        return text;
    }
    if (!applied_is_whole(f->applied))
        return "the log does not have all turns that the snapshot needs";
    if (o->owner.schema > f->s.schema) {
        snprintf(text, ENGINE_WHY_BYTES,
                 "the file has schema version %d, and this program knows "
                 "versions up to %d: upgrade it",
                 o->owner.schema, f->s.schema);
        return text;
    }
    if (!has_space(f->db_path))
        return "the disk is full: a takeover needs 16 MiB";
    return NULL;
}

/* While no turn comes, a standby with another key would seem to be ready, and after its takeover nobody could read all of the log. The last active of this host may go on with another
 * key: it makes another snapshot. */
static bool has_the_key(struct follower *f, char why[ENGINE_WHY_BYTES])
{
    struct snapshot_place place = {f->s.ops, f->s.engine, f->sealer,
                                   f->process};
    int64_t n, bytes;

    if (f->knows_key || f->as_left)
        return true;
    switch (snapshot_newest(&place, f->ownership.owner.at.history, &n, &bytes,
                            why)) {
    case SNAPSHOT_DONE:
    case SNAPSHOT_NO_ROW:
        f->knows_key = true;
        break;
    default:
        break;
    }
    return f->knows_key;
}

/* GOES_ON with f->state FOLLOW: it is known whether it is ready. */
static enum follower_result judge_ready(struct follower *f, int64_t *wait_ms)
{
    char text[ENGINE_WHY_BYTES], why[200] = "";
    const char *what = missing(f, text);

    if (!what && !has_the_key(f, text))
        what = text;
    if (!what && !f->checked && !f->as_left) {
        show(f, "the file is being checked");
        if (!file_is_good(f, why))
            return why[0] ? damaged(f, wait_ms, why) : FOLLOWER_GOES_ON;
        f->checked = true;
        log_info(NULL, "ready to take over", LS("file", f->db_path),
                 LI("turn", f->ownership.at.n));
    }
    f->ownership.ready = !what;
    show(f, f->trouble[0] ? f->trouble : what ? what : "");
    return FOLLOWER_GOES_ON;
}

/* ---- following ---- */

static enum follower_result sync_applied(struct follower *f, int64_t *wait_ms)
{
    char why[200] = "";

    if (applied_sync(f->applied, why) != GR_OK)
        return later(f, wait_ms, why);
    f->unsynced = false;
    f->ownership.at = *applied_position(f->applied);
    return FOLLOWER_GOES_ON;
}

static void trouble(struct follower *f, int64_t *wait_ms, const char *why)
{
    snprintf(f->trouble, sizeof f->trouble, "%s", why);
    *wait_ms = often_ms(f);
}

/* The transaction that read the rows was acknowledged. */
static void apply_rows(struct follower *f, const struct reading *r,
                       int64_t *wait_ms, char why[ENGINE_WHY_BYTES])
{
    f->trouble[0] = 0;
    for (size_t i = 0; i < r->count; i++) {
        struct log_row row = r->rows[i];
        char reason[200] = "";
        gr_rc rc = open_row(f, &r->owner, &row, why);

        if (rc != GR_OK) {
            trouble(f, wait_ms, why);
            break;
        }
        rc = applied_turn(f->applied, plain_of(f), row.chain, reason);
        if (rc == GR_REFUSE) {
            give_up_file(f, reason);
            return;
        }
        if (rc == GR_AGAIN) {
            trouble(f, wait_ms, reason);
            break;
        }
        f->as_left = false;
        f->unsynced = true;
        if (f->read_slices)
            break;
    }
}

static enum follower_result follow_step(struct follower *f, int64_t *wait_ms,
                                        char why[ENGINE_WHY_BYTES])
{
    struct ownership *o = &f->ownership;
    struct reading r = follow(f, &o->at, FOLLOWER_READ_BYTES, why);

    ownership_followed(o, STEP_FOLLOW, r.result, &r.owner, mono_ms());
    if (r.result != ENGINE_DONE) {
        snprintf(f->trouble, sizeof f->trouble, "%s", why);
        return FOLLOWER_GOES_ON;
    }
    if (r.owner.exists &&
        memcmp(r.owner.at.history, o->at.history, HISTORY_BYTES) != 0) {
        give_up_file(f, "the log has another history");
        return FOLLOWER_GOES_ON;
    }
    apply_rows(f, &r, wait_ms, why);
    if (f->state == FOLLOW && f->unsynced && !*wait_ms)
        return sync_applied(f, wait_ms);
    return FOLLOWER_GOES_ON;
}

static enum follower_result take_over(struct follower *f, int64_t *wait_ms,
                                      char why[ENGINE_WHY_BYTES])
{
    struct ownership *o = &f->ownership;
    struct tenure mine;
    enum engine_result r;

    if (memcmp(applied_holder(f->applied), f->me, HOLDER_BYTES) != 0 &&
        applied_note_holder(f->applied, f->me) != GR_OK)
        return later(f, wait_ms, "the disk is full");
    r = f->s.ops->take_over(f->s.engine, &o->owner, f->me, &mine, why);
    ownership_told(o, STEP_TAKE_OVER, r, 0, mono_ms());
    return FOLLOWER_GOES_ON;
}

static void claim(struct follower *f, char why[ENGINE_WHY_BYTES])
{
    struct ownership *o = &f->ownership;
    enum engine_result r = f->s.ops->claim(f->s.engine, &o->owner, why);

    ownership_told(o, STEP_CLAIM, r, 0, mono_ms());
}

static enum follower_result contradiction(const struct follower *f,
                                          char why[ENGINE_WHY_BYTES])
{
    const struct ownership *o = &f->ownership;

    snprintf(why, ENGINE_WHY_BYTES,
             "the log ends with turn %lld, and the file has turn %lld%s",
             (long long)o->owner.at.n, (long long)o->at.n,
             o->owner.at.n == o->at.n ? ", with another content"
                                      : ", which was in it");
    return FOLLOWER_CONTRADICTION;
}

static enum follower_result next_step(struct follower *f, int64_t *wait_ms,
                                      char why[ENGINE_WHY_BYTES])
{
    enum follower_result r = FOLLOWER_GOES_ON;

    switch (ownership_next(&f->ownership, mono_ms(), wait_ms)) {
    case STEP_FOLLOW:
        return follow_step(f, wait_ms, why);
    case STEP_CLAIM:
        claim(f, why);
        break;
    case STEP_TAKE_OVER:
        r = take_over(f, wait_ms, why);
        break;
    case STEP_CONTRADICTION:
        return contradiction(f, why);
    default: /* STEP_WAIT; the others are of an active */
        break;
    }
    return r;
}

static enum follower_result follow_log(struct follower *f, int64_t *wait_ms,
                                       char why[ENGINE_WHY_BYTES])
{
    if (f->unsynced) {
        sync_applied(f, wait_ms);
        if (f->unsynced)
            return FOLLOWER_GOES_ON;
    }
    judge_ready(f, wait_ms);
    if (f->state != FOLLOW || is_stopped(f))
        return FOLLOWER_GOES_ON;
    if (f->ownership.role == ROLE_ACTIVE) {
        f->state = TAKEN;
        return FOLLOWER_GOES_ON;
    }
    return next_step(f, wait_ms, why);
}

/* The engine says that this start is the owner, and the file is at the end of the log. */
static enum follower_result taken(struct follower *f, int64_t *wait_ms)
{
    char *shm = gr_printf("%s-shm", f->db_path);

    if (applied_hand_over(f->applied) != GR_OK) {
        free(shm);
        return later(f, wait_ms, "the disk is full");
    }
    unlink(shm);
    free(shm);
    applied_close(f->applied);
    f->applied = NULL;
    log_info(NULL, "this process owns the store now", LS("file", f->db_path),
             LI("turn", f->ownership.at.n),
             LI("epoch", f->ownership.mine.epoch));
    return FOLLOWER_OWNER;
}

enum follower_result follower_step(struct follower *f, int64_t *wait_ms,
                                   char why[ENGINE_WHY_BYTES])
{
    *wait_ms = 0;
    why[0] = 0;
    if (is_stopped(f))
        return FOLLOWER_STOPPED;
    switch (f->state) {
    case LOOK:
        return look(f);
    case MATCH:
        return match(f, wait_ms, why);
    case CUT:
        return cut(f, wait_ms);
    case EMPTY:
        return empty(f, wait_ms, why);
    case RESTORE:
        return restore(f, wait_ms, why);
    case FOLLOW:
        return follow_log(f, wait_ms, why);
    case TAKEN:
        break;
    }
    return taken(f, wait_ms);
}

static void wait(struct follower *f, int64_t ms)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&f->lock);
    while (!f->stop &&
           pthread_cond_timedwait(&f->wake, &f->lock, &until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&f->lock);
}

static bool may_take_at_once(const struct follower *f)
{
    return f->state == FOLLOW && f->ownership.ready && f->s.ops->is_free;
}

/* A release is noticed soon: to read costs the engine little, while to follow is a durable write. */
static void rest(struct follower *f, int64_t ms)
{
    char why[ENGINE_WHY_BYTES];
    bool is_free = false;

    while (ms > 0 && !is_free && !is_stopped(f)) {
        int64_t part_ms = may_take_at_once(f) && ms > LOOK_MS ? LOOK_MS : ms;

        wait(f, part_ms);
        ms -= part_ms;
        if (ms > 0 &&
            f->s.ops->is_free(f->s.engine, &is_free, why) != ENGINE_DONE)
            is_free = false;
    }
    if (is_free)
        ownership_hurry(&f->ownership);
}

enum follower_result follower_run(struct follower *f,
                                  char why[ENGINE_WHY_BYTES])
{
    for (;;) {
        int64_t wait_ms;
        enum follower_result r = follower_step(f, &wait_ms, why);

        if (r != FOLLOWER_GOES_ON)
            return r;
        if (wait_ms > 0)
            rest(f, wait_ms);
    }
}
