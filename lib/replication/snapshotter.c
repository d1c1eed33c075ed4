/* snapshotter: makes snapshots in a thread of its own. */
#include "snapshotter.h"
#include "clock.h"
#include "log.h"
#include "snapshot.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_MS = 1000, /* between two questions whether one is due */
    /* After a step, so many times what it took: a turn waits for a step at the engine's owner row. */
    PAUSE_TIMES = 2,
    PAUSE_MAX_MS = 1000,
    GONE_MS = 5 * 60 *
              1000, /* a host that is silent for longer restores a snapshot */
    /* After a step without success; doubled each time. */
    RETRY_MS = 100,
    RETRY_MAX_MS = 15 * 1000,
    SAY_MS = 60 * 1000, /* a snapshot takes longer: how far it is */
};

struct snapshotter {
    struct snapshot_place place;
    char *process, *db_path;
    struct tenure mine;
    uint8_t history[HISTORY_BYTES];
    int schema;
    _Atomic bool wants_copy;

    /* Of the thread. */
    struct snapshot_maker *maker; /* NULL: none is being made */
    sqlite3 *h;                   /* the maker's */
    struct position made_at;      /* the maker's */
    int64_t began_ms;             /* mono; when the maker began */
    int64_t said_ms;              /* mono; when its progress was logged last */
    bool knows_newest;
    int64_t
        forget_since_ms; /* mono; when forget() began to wait; 0: it does not */
    int64_t damaged_n;   /* a snapshot at this turn is not good; 0: none */
    int64_t retry_ms;

    pthread_t thread;
    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t wake_up;
    bool stop, woken;
    struct position in_log; /* the last turn in the engine's log */
    /* Turns of this start, and the bytes of their parts. */
    int64_t turns, turn_bytes;
    bool begin; /* the write-ahead log was copied, at `begin_at` */
    struct position begin_at;
    struct snapshot_state state;
    int64_t stored_bytes; /* of the parts of the newest one */
    int64_t
        forget_n; /* what is before a snapshot at this turn is to end; 0: nothing */
    int64_t forgotten_n; /* everything before this snapshot has ended */
};

/* ---- waiting, and what others see ---- */

static void lock(struct snapshotter *s)
{
    pthread_mutex_lock(&s->lock);
}

static void unlock(struct snapshotter *s)
{
    pthread_mutex_unlock(&s->lock);
}

/* Until then, or until it is woken. The lock is held. */
static void wait_us(struct snapshotter *s, int64_t us)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += us / 1000000;
    until.tv_nsec += us % 1000000 * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!s->woken &&
           pthread_cond_timedwait(&s->wake_up, &s->lock, &until) == 0)
        ;
    s->woken = s->stop;
}

/* The lock is held. */
static void wake(struct snapshotter *s)
{
    s->woken = true;
    pthread_cond_signal(&s->wake_up);
}

/* The engine responds, but there is something to wait for. */
static void note_wait(struct snapshotter *s, const char *why)
{
    s->retry_ms = 0;
    lock(s);
    s->state.failing_since_ms = 0;
    snprintf(s->state.error, sizeof s->state.error, "%s", why);
    unlock(s);
}

static void note_success(struct snapshotter *s)
{
    note_wait(s, "");
}

/* Waits longer each time. */
static void note_failure(struct snapshotter *s, const char *why)
{
    bool first;

    lock(s);
    first = !s->state.failing_since_ms;
    if (first)
        s->state.failing_since_ms = now_ms();
    snprintf(s->state.error, sizeof s->state.error, "%s", why);
    unlock(s);
    if (first)
        log_warn(NULL,
                 "a step of a snapshot in the engine failed; it is repeated",
                 LS("file", s->db_path), LS("error", why));
    s->retry_ms = !s->retry_ms                     ? RETRY_MS
                  : s->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS
                                                   : s->retry_ms * 2;
    lock(s);
    wait_us(s, s->retry_ms * 1000);
    unlock(s);
}

/* ---- whether one is due ---- */

static void ask_for_newest(struct snapshotter *s)
{
    char why[ENGINE_WHY_BYTES] = "";
    int64_t n = -1, bytes = 0;

    switch (snapshot_newest(&s->place, s->history, &n, &bytes, why)) {
    case SNAPSHOT_DONE:
        break;
    case SNAPSHOT_NO_ROW:
        n = -1;
        break;
    case SNAPSHOT_DAMAGED: /* such as one with a former key */
        s->damaged_n = n;
        break;
    default:
        note_failure(s, why);
        return;
    }
    note_success(s);
    s->knows_newest = true;
    lock(s);
    s->state.n = n;
    s->stored_bytes = bytes;
    unlock(s);
}

/* The lock is held. */
static bool is_due(const struct snapshotter *s)
{
    const struct snapshot_state *t = &s->state;
    bool has_one = t->n >= 0 && t->n != s->damaged_n;
    int64_t turns = s->in_log.n - t->n;

    if (s->stop || !s->turns || s->in_log.n <= s->damaged_n)
        return false;
    if (s->in_log.n >= s->forget_n && t->n < s->forget_n)
        return true;
    return snapshot_due(has_one, turns, s->turn_bytes / s->turns,
                        s->stored_bytes);
}

static void look(struct snapshotter *s)
{
    lock(s);
    s->state.due = is_due(s);
    atomic_store(&s->wants_copy, s->state.due);
    wait_us(s, LOOK_MS * 1000);
    unlock(s);
}

/* ---- what an erasure ends ---- */

/* The snapshot before which all is deleted; -1: none yet. */
static int64_t forget_before(struct snapshotter *s)
{
    int64_t n;

    lock(s);
    n = s->forgotten_n < s->forget_n && s->state.n >= s->forget_n &&
                s->state.n != s->damaged_n
            ? s->state.n
            : -1;
    unlock(s);
    return n;
}

/* A host that has not read the turns yet would have to restore the snapshot, and would keep its file aside. One that does not come forward is not waited for
 * for longer than GONE_MS; `why` names it. */
static enum engine_result have_all_read(struct snapshotter *s, int64_t n,
                                        bool *yes, char why[ENGINE_WHY_BYTES])
{
    const struct engine_node *nodes;
    size_t count;
    enum engine_result r = s->place.ops->nodes(s->place.engine, &nodes, &count,
                                               why);

    *yes = r == ENGINE_DONE;
    if (mono_ms() - s->forget_since_ms >= GONE_MS)
        return r;
    for (size_t i = 0; r == ENGINE_DONE && i < count; i++)
        if (nodes[i].n < n && nodes[i].seen_ms < GONE_MS) {
            snprintf(why, ENGINE_WHY_BYTES,
                     "an erasure waits until %s has read turn %lld",
                     nodes[i].host, (long long)n);
            *yes = false;
        }
    return r;
}

static void forget(struct snapshotter *s, int64_t n)
{
    char why[ENGINE_WHY_BYTES] = "";
    bool all = false, more = true;
    enum engine_result r;

    if (!s->forget_since_ms)
        s->forget_since_ms = mono_ms();
    r = have_all_read(s, n, &all, why);
    if (r == ENGINE_DONE && all)
        r = s->place.ops->forget(s->place.engine, &s->mine, n, &more, why);
    if (r != ENGINE_DONE) {
        s->knows_newest = false; /* another start may own the store */
        note_failure(s, *why ? why : "this start does not own the store");
        return;
    }
    note_wait(s, why);
    if (!all) {
        look(s); /* a host that cannot follow may need another snapshot */
    } else if (!more) {
        s->forget_since_ms = 0;
        lock(s);
        s->forgotten_n = n;
        unlock(s);
    }
}

bool snapshotter_forget(struct snapshotter *s, int64_t n)
{
    bool forgotten;

    lock(s);
    if (s->forget_n < n) {
        s->forget_n = n;
        wake(s);
    }
    forgotten = s->forgotten_n >= n;
    unlock(s);
    return forgotten;
}

/* ---- making one ---- */

/* It only gives access to the file: it never runs a statement. */
static sqlite3 *open_file(const struct snapshotter *s)
{
    sqlite3 *h = NULL;

    if (sqlite3_open_v2(s->db_path, &h,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        die(EXIT_STORAGE, "%s: cannot open another connection: %s", s->db_path,
            h ? sqlite3_errmsg(h) : "out of memory");
    sqlite3_db_config(h, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
    return h;
}

static void begin(struct snapshotter *s)
{
    lock(s);
    s->begin = false;
    s->made_at = s->begin_at;
    unlock(s);
    s->h = open_file(s);
    s->maker = snapshot_begin(&s->place, s->h, &s->made_at, s->schema);
    s->began_ms = s->said_ms = mono_ms();
}

static void say_progress(struct snapshotter *s)
{
    int64_t now = mono_ms();

    if (now - s->said_ms < SAY_MS)
        return;
    s->said_ms = now;
    log_info(NULL, "a snapshot is being written into the engine, and read back",
             LS("file", s->db_path), LI("turn", s->made_at.n),
             LI("parts", s->state.parts), LI("all_parts", s->state.all_parts));
}

static void end(struct snapshotter *s)
{
    snapshot_end(s->maker);
    s->maker = NULL;
    sqlite3_close(s->h);
    s->h = NULL;
    lock(s);
    s->state.parts = s->state.all_parts = 0;
    unlock(s);
}

static void is_made(struct snapshotter *s)
{
    int64_t parts;

    lock(s);
    parts = s->state.all_parts / 2;
    s->state.n = s->made_at.n;
    s->state.made_ms = now_ms();
    s->state.parts = s->state.all_parts = 0;
    s->stored_bytes = snapshot_bytes(s->maker);
    unlock(s);
    log_info(NULL, "a snapshot is in the engine", LS("file", s->db_path),
             LI("turn", s->made_at.n), LI("parts", parts),
             LI("took_ms", mono_ms() - s->began_ms));
    end(s);
}

/* The next one begins at a later turn. */
static void is_damaged(struct snapshotter *s, const char *why)
{
    log_error(NULL,
              "a snapshot in the engine is not what was written; another one "
              "is made",
              LS("file", s->db_path), LS("error", why));
    s->damaged_n = s->made_at.n;
    lock(s);
    s->state.n = s->made_at.n;
    unlock(s);
    end(s);
}

static void pause_after(struct snapshotter *s, int64_t took_us)
{
    int64_t us = took_us * PAUSE_TIMES;

    lock(s);
    wait_us(s, us < PAUSE_MAX_MS * 1000 ? us : PAUSE_MAX_MS * 1000);
    unlock(s);
}

static void make(struct snapshotter *s)
{
    char why[ENGINE_WHY_BYTES] = "";
    int64_t began_us = mono_us();
    struct position in_log;
    enum snapshot_step step;

    lock(s);
    in_log = s->in_log;
    unlock(s);
    step = snapshot_step(s->maker, &s->mine, &in_log, why);
    lock(s);
    snapshot_progress(s->maker, &s->state.parts, &s->state.all_parts);
    unlock(s);
    switch (step) {
    case SNAPSHOT_MORE:
        note_success(s);
        say_progress(s);
        pause_after(s, mono_us() - began_us);
        break;
    case SNAPSHOT_DONE:
        note_success(s);
        is_made(s);
        break;
    case SNAPSHOT_WAIT:
        note_failure(s, why);
        break;
    case SNAPSHOT_DAMAGED:
        is_damaged(s, why);
        break;
    case SNAPSHOT_NO_ROW:
        end(s);
        s->knows_newest = false; /* another start may own the store */
        note_failure(s, "this start does not own the store");
        break;
    }
}

static void *snapshotter_main(void *arg)
{
    struct snapshotter *s = arg;

    for (;;) {
        bool stop, due;

        lock(s);
        stop = s->stop;
        due = s->begin;
        unlock(s);
        if (stop)
            break;
        if (s->maker)
            make(s);
        else if (due)
            begin(s);
        else if (!s->knows_newest)
            ask_for_newest(s);
        else if (forget_before(s) >= 0)
            forget(s, forget_before(s));
        else
            look(s);
    }
    if (s->maker)
        end(s);
    return NULL;
}

/* ---- the turns ---- */

void snapshotter_turn_is_in(struct snapshotter *s, const struct position *at,
                            int64_t bytes)
{
    lock(s);
    s->in_log = *at;
    s->turn_bytes += bytes;
    if (!s->turns++)
        wake(s);
    unlock(s);
}

bool snapshotter_wants_copy(const struct snapshotter *s)
{
    return atomic_load(&s->wants_copy);
}

void snapshotter_copied(struct snapshotter *s)
{
    if (!snapshotter_wants_copy(s))
        return;
    lock(s);
    if (s->turns && !s->stop) {
        atomic_store(&s->wants_copy, false);
        s->state.due = false;
        s->begin = true;
        s->begin_at = s->in_log;
        wake(s);
    }
    unlock(s);
}

void snapshotter_state(struct snapshotter *s, struct snapshot_state *out)
{
    lock(s);
    *out = s->state;
    unlock(s);
}

/* ---- open and close ---- */

struct snapshotter *snapshotter_open(const struct snapshotter_settings *s)
{
    struct snapshotter *new = gr_alloc(sizeof *new);
    pthread_condattr_t monotonic;

    new->process = gr_strdup(s->process);
    new->db_path = gr_strdup(s->db_path);
    new->place = (struct snapshot_place){.ops = s->ops,
                                         .engine = s->engine,
                                         .sealer = sealer_open(s->key),
                                         .process = new->process};
    new->mine = s->mine;
    new->schema = s->schema;
    new->in_log = s->at;
    memcpy(new->history, s->at.history, HISTORY_BYTES);
    new->state.n = -1;
    pthread_mutex_init(&new->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&new->wake_up, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&new->thread, NULL, snapshotter_main, new) != 0)
        die(EXIT_UNAVAILABLE, "can't start the thread that makes snapshots");
    return new;
}

void snapshotter_stop(struct snapshotter *s)
{
    if (!s)
        return;
    lock(s);
    s->stop = true;
    atomic_store(&s->wants_copy, false);
    wake(s);
    unlock(s);
}

void snapshotter_close(struct snapshotter *s)
{
    if (!s)
        return;
    snapshotter_stop(s);
    pthread_join(s->thread, NULL);
    s->place.ops->close(s->place.engine);
    sealer_close(s->place.sealer);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->wake_up);
    free(s->process);
    free(s->db_path);
    free(s);
}
