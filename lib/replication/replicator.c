/* replicator: brings turns into the engine's log, beats, and keeps the permission to send. */
#include "replicator.h"
#include "clock.h"
#include "large_turn.h"
#include "log.h"
#include "permission.h"
#include "position_file.h"
#include "turn_pages.h"
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEEP_BYTES = 1024 * 1024, /* of the buffer for a turn, between two turns */
    STUCK_LOOK_MS = 1000,
    NODES_MS = 500, /* between two readings of the other hosts, at most */
    SLICE_AGAIN_MS = 500,
};

struct replicator {
    const struct engine_ops *ops;
    struct engine *engine; /* the thread's */
    char *process, *db_path;
    int64_t stuck_ms;
    struct snapshotter *snapshotter; /* NULL: it makes none */
    struct permission permission;
    _Atomic int64_t
        turn_ms; /* mono: when the loop's turn or the start began or went on; 0: it waits for input */

    /* Of the thread that commits. */
    struct sealer *sealer;
    struct turn_pages *pages;
    struct buf form;
    uint8_t next_history[HISTORY_BYTES], next_chain[CHAIN_BYTES];

    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    struct ownership ownership;
    struct sealed_parts
        parts; /* of the open turn: the same bytes until it is in */
    int64_t append_began_us; /* 0: it was not sent yet */
    struct {
        bool on;            /* slices of the turn at `at` are being written */
        struct position at; /* afterwards it is appended */
        bool cleaned;       /* those of earlier attempts are deleted */
        int64_t slice;      /* the next one */
        struct buf sealed;  /* not empty while its outcome is unknown */
        int64_t bytes;      /* of the slices of the open turn */
    } large;
    struct replicator_state
        state;      /* append_us, failing_since_ms, error, stuck */
    bool releasing; /* permission has ended for good */
    char heir[ENGINE_HOST_BYTES]; /* of the release */
    bool stop;
    struct engine_node *nodes; /* other hosts, as last read */
    size_t node_count;
    int64_t nodes_read_ms, nodes_due_ms; /* mono_ms() */
    bool nodes_failed;                   /* the last attempt to read them */
};

/* ---- the end of the process ---- */

static void put_position(char out[100], const struct position *p)
{
    char chain[2 * 8 + 1];

    for (size_t i = 0; i < 8; i++)
        snprintf(chain + 2 * i, 3, "%02x", p->chain[i]);
    snprintf(out, 100, "turn %lld (chain %s...)", (long long)p->n, chain);
}

/* A start removes a last turn that the log lacks, as nobody may have been told of it (cut.h). Of this one somebody was. */
static void note_acknowledged(const struct replicator *r)
{
    struct stored_position stored;

    if (!position_file_read(r->db_path, &stored))
        return;
    stored.at = r->ownership.at;
    stored.active = true;
    if (position_file_write(r->db_path, &stored) != GR_OK)
        log_error(NULL, "the disk is full: the next start may remove a turn",
                  LI("turn", stored.at.n));
}

_Noreturn static void contradicts(const struct replicator *r)
{
    const struct ownership *o = &r->ownership;
    const struct position *file = o->has_open ? &o->open : &o->at;
    char of_file[100], of_log[100];

    note_acknowledged(r);
    put_position(of_file, file);
    put_position(of_log, &o->owner.at);
    if (!o->owner.exists)
        die(EXIT_STORAGE,
            "the engine has no owner row of %s any more, and %s has %s%s. An "
            "operator ended replication, or the engine was restored from a "
            "backup: an operator has to begin a new history, or to turn "
            "replication off",
            r->process, r->db_path, of_file,
            o->has_open ? ", not acknowledged" : "");
    die(EXIT_STORAGE,
        "the engine's log of %s contradicts %s: the file has %s%s, and the log "
        "%s %s. The engine was restored from a backup, or lost commits that it "
        "had acknowledged: an operator has to begin a new history",
        r->process, r->db_path, of_file,
        o->has_open ? ", not acknowledged" : "",
        memcmp(file->history, o->owner.at.history, HISTORY_BYTES) == 0
            ? "ends with"
            : "has another history, and ends with",
        of_log);
}

_Noreturn static void fenced(const struct replicator *r)
{
    const struct ownership *o = &r->ownership;

    note_acknowledged(r); /* the other start may have found a log without it */
    die(EXIT_FENCED,
        "another start owns the store of %s, on host \"%s\": it has epoch "
        "%lld, this one had %lld. This process has sent nothing since its "
        "permission ended; start it again, and it becomes a standby",
        r->process, o->owner.host, (long long)o->owner.epoch,
        (long long)o->mine.epoch);
}

/* ---- the thread ---- */

/* The loop's turn lasts too long, so the process serves nobody. */
static bool is_stuck(struct replicator *r)
{
    int64_t began_ms = atomic_load(&r->turn_ms);
    bool stuck = began_ms && mono_ms() - began_ms > r->stuck_ms;

    if (stuck && !r->state.stuck)
        log_error(NULL,
                  "the main thread does not end its turn, or its start; the "
                  "heartbeats to the engine stop, so that a standby can take "
                  "over",
                  LI("turn_ms", mono_ms() - began_ms));
    else if (!stuck && r->state.stuck)
        log_info(NULL, "the main thread goes on; the heartbeats begin again");
    r->state.stuck = stuck;
    return stuck;
}

static enum step next_step(struct replicator *r, int64_t *wait_ms)
{
    enum step step = ownership_next(&r->ownership, mono_ms(), wait_ms);

    if (step == STEP_BEAT && is_stuck(r)) {
        *wait_ms = STUCK_LOOK_MS;
        return STEP_WAIT;
    }
    return step;
}

static void wait_for_change(struct replicator *r, int64_t ms)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / SECOND_MS;
    until.tv_nsec += ms % SECOND_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&r->changed, &r->lock, &until);
}

static void note_result(struct replicator *r, enum engine_result result,
                        const char *why)
{
    struct replicator_state *s = &r->state;

    if (result != ENGINE_UNKNOWN) {
        if (s->failing_since_ms)
            log_info(NULL, "the engine acknowledges again",
                     LI("after_ms", now_ms() - s->failing_since_ms));
        s->failing_since_ms = 0;
        s->error[0] = 0;
        return;
    }
    if (!s->failing_since_ms) {
        s->failing_since_ms = now_ms();
        log_warn(NULL,
                 "the engine did not acknowledge a statement; it is repeated",
                 LS("error", why));
    }
    snprintf(s->error, sizeof s->error, "%s", why);
}

/* The lock is not held; what a statement needs does not change before its result is told. */
static enum engine_result call(struct replicator *r, enum step step,
                               int64_t *beat, struct owner *owner,
                               char why[ENGINE_WHY_BYTES])
{
    const struct ownership *o = &r->ownership;
    struct node node = {.at = o->at, .ready = true, .why = ""};
    const struct log_row *rows;
    size_t count;

    switch (step) {
    case STEP_APPEND:
        return r->ops->append(r->engine, &o->mine, &o->at, &o->open, &r->parts,
                              beat, why);
    case STEP_BEAT:
        return r->ops->beat(r->engine, &o->mine, &o->at, beat, why);
    case STEP_RELEASE:
        return r->ops->release(r->engine, &o->mine, &o->at, o->beat, r->heir,
                               why);
    default:
        assert(step == STEP_JUDGE);
        return r->ops->follow(r->engine, &node, 0, owner, &rows, &count, why);
    }
}

/* The loop waited for the engine, so it was not stuck. */
static void engine_took_some(struct replicator *r)
{
    if (atomic_load(&r->turn_ms))
        atomic_store(&r->turn_ms, mono_ms());
}

/* Before the thread that commits goes on, so nothing of the turn is in the file yet. */
static void turn_is_in(struct replicator *r)
{
    int64_t bytes = r->large.bytes;

    r->large.bytes = 0;
    for (size_t i = 0; i < r->parts.count; i++)
        bytes += (int64_t)r->parts.parts[i].len;
    if (r->snapshotter)
        snapshotter_turn_is_in(r->snapshotter, &r->ownership.at, bytes);
    r->state.append_us = mono_us() - r->append_began_us;
    r->append_began_us = 0;
    engine_took_some(r);
}

static void do_step(struct replicator *r, enum step step)
{
    struct ownership *o = &r->ownership;
    int64_t began_wall_ms = system_ms(), beat = 0;
    bool had_open = o->has_open;
    char why[ENGINE_WHY_BYTES] = "";
    struct owner owner = {0};
    enum engine_result result;

    if (step == STEP_APPEND && !r->append_began_us)
        r->append_began_us = mono_us();
    pthread_mutex_unlock(&r->lock);
    result = call(r, step, &beat, &owner, why);
    pthread_mutex_lock(&r->lock);
    note_result(r, result, why);
    if (step == STEP_JUDGE) {
        ownership_followed(o, step, result, &owner, mono_ms());
    } else {
        ownership_told(o, step, result, beat, mono_ms());
        if (result == ENGINE_DONE && o->role == ROLE_ACTIVE && !r->releasing)
            permission_extend(&r->permission, o->began_ms, began_wall_ms);
    }
    if (had_open && !o->has_open)
        turn_is_in(r);
    if (step == STEP_RELEASE) /* only once */
        r->stop = true;
    pthread_cond_broadcast(&r->changed);
}

/* How long to wait before the rows of other hosts are read again, at most `ms`; 0: now. They are read while the engine acknowledges and nothing else is to be
 * done, because a turn that is committed meanwhile waits for it. */
static int64_t nodes_wait_ms(const struct replicator *r, int64_t ms)
{
    int64_t left_ms = r->nodes_due_ms - mono_ms();

    if (r->state.failing_since_ms || r->releasing || left_ms >= ms)
        return ms;
    return left_ms > 0 ? left_ms : 0;
}

/* A failure says nothing about the permission to send, and the former rows stay. */
static void read_nodes(struct replicator *r)
{
    const struct engine_node *nodes;
    struct engine_node *copy = NULL;
    char why[ENGINE_WHY_BYTES];
    bool failed;
    size_t count;

    pthread_mutex_unlock(&r->lock);
    failed = r->ops->nodes(r->engine, &nodes, &count, why) != ENGINE_DONE;
    if (!failed) {
        copy = gr_alloc((count + 1) * sizeof *copy);
        memcpy(copy, nodes, count * sizeof *copy);
    }
    pthread_mutex_lock(&r->lock);
    if (failed && !r->nodes_failed)
        log_warn(NULL, "the standbys' rows could not be read from the engine",
                 LS("error", why));
    r->nodes_failed = failed;
    r->nodes_due_ms = mono_ms() + (r->permission.hold_ms / 2 < NODES_MS
                                       ? r->permission.hold_ms / 2
                                       : NODES_MS);
    if (failed)
        return;
    free(r->nodes);
    r->nodes = copy;
    r->node_count = count;
    r->nodes_read_ms = mono_ms();
}

static struct seal_about about_turn(const struct replicator *r,
                                    const struct position *at)
{
    struct seal_about about = {.kind = SEAL_TURN,
                               .process = r->process,
                               .epoch = r->ownership.mine.epoch,
                               .n = at->n};

    memcpy(about.history, at->history, HISTORY_BYTES);
    return about;
}

/* The lock is not held; the thread that commits waits, so its form does not change. */
static enum engine_result call_for_slice(struct replicator *r, bool *more,
                                         char why[ENGINE_WHY_BYTES])
{
    const struct tenure *mine = &r->ownership.mine;
    struct seal_about about = about_turn(r, &r->large.at);
    struct bytes form = {r->form.data, r->form.len};

    if (!r->large.cleaned)
        return r->ops->forget_slices(r->engine, mine, more, why);
    if (!r->large.sealed.len)
        large_turn_seal(r->sealer, &about, form, r->large.slice,
                        &r->large.sealed);
    return r->ops->put_slice(
        r->engine, mine, &r->large.at, r->large.slice,
        (struct bytes){r->large.sealed.data, r->large.sealed.len}, why);
}

/* Between two beats: a step of writing the slices of a large turn. If the store has another owner, the next beat shows it. */
static void put_slice(struct replicator *r, int64_t wait_ms)
{
    char why[ENGINE_WHY_BYTES] = "";
    enum engine_result result;
    bool more = false;

    pthread_mutex_unlock(&r->lock);
    result = call_for_slice(r, &more, why);
    pthread_mutex_lock(&r->lock);
    note_result(r, result, why);
    if (result != ENGINE_DONE) {
        wait_for_change(r, wait_ms < SLICE_AGAIN_MS ? wait_ms : SLICE_AGAIN_MS);
        return;
    }
    engine_took_some(r);
    if (!r->large.cleaned) {
        r->large.cleaned = !more;
        return;
    }
    r->large.bytes += (int64_t)r->large.sealed.len;
    buf_reset(&r->large.sealed);
    if (++r->large.slice < large_turn_slices(r->form.len))
        return;
    r->large.on = false;
    pthread_cond_broadcast(&r->changed);
}

static void wait_for_work(struct replicator *r, int64_t wait_ms)
{
    int64_t ms = nodes_wait_ms(r, wait_ms);

    if (r->large.on)
        put_slice(r, wait_ms);
    else if (ms)
        wait_for_change(r, ms);
    else
        read_nodes(r);
}

static void *replicator_main(void *arg)
{
    struct replicator *r = arg;
    int64_t wait_ms;

    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        enum step step = next_step(r, &wait_ms);

        switch (step) {
        case STEP_WAIT:
            wait_for_work(r, wait_ms);
            break;
        case STEP_FENCED:
            fenced(r);
        case STEP_CONTRADICTION:
            contradicts(r);
        default:
            do_step(r, step);
        }
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* ---- turns, in the thread that commits ---- */

static struct position position_of(struct replicator *r)
{
    struct position at;

    pthread_mutex_lock(&r->lock);
    at = r->ownership.at;
    pthread_mutex_unlock(&r->lock);
    return at;
}

static void next_turn(void *self, struct db_turn *turn)
{
    struct replicator *r = self;
    struct position at = position_of(r);

    memcpy(r->next_history, at.history, HISTORY_BYTES);
    memcpy(r->next_chain, at.chain, CHAIN_BYTES);
    turn->history = (struct bytes){r->next_history, HISTORY_BYTES};
    turn->chain = (struct bytes){r->next_chain, CHAIN_BYTES};
    turn->n = at.n + 1;
}

/* Writes the slices of a large turn, and makes `row` what the log has instead of its form. */
static void write_slices(struct replicator *r, const struct position *after,
                         struct buf *row)
{
    log_info(NULL, "a large turn is being written into the engine",
             LI("turn", after->n), LI("bytes", (int64_t)r->form.len));
    large_turn_put_row(r->form.len, row);
    pthread_mutex_lock(&r->lock);
    r->large.on = true;
    r->large.at = *after;
    r->large.cleaned = false;
    r->large.slice = r->large.bytes = 0;
    buf_init(&r->large.sealed, SEAL_PART_BYTES);
    pthread_cond_broadcast(&r->changed);
    while (r->large.on)
        pthread_cond_wait(&r->changed, &r->lock);
    buf_fini(&r->large.sealed);
    pthread_mutex_unlock(&r->lock);
}

/* Waits until the turn is in. */
static void append(struct replicator *r, const struct position *after,
                   struct bytes row)
{
    struct seal_about about = about_turn(r, after);

    sealer_seal(r->sealer, &about, row, &r->parts);
    pthread_mutex_lock(&r->lock);
    ownership_open_turn(&r->ownership, after);
    pthread_cond_broadcast(&r->changed);
    while (r->ownership.has_open)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
    sealed_parts_fini(&r->parts);
}

static void turn_is_committed(void *self, uint32_t frames)
{
    struct replicator *r = self;
    struct position before = position_of(r), after = before;
    char why[200];
    struct bytes form;
    struct buf row;

    if (turn_pages_read(r->pages, &before, frames, &r->form, why) != GR_OK)
        die(EXIT_STORAGE,
            "%s: turn %lld cannot be read from the write-ahead log: %s. It was "
            "not acknowledged, and the next start removes it. If it is a "
            "migration that is too large: end the replication with `grapnel "
            "replicate off %s`, start once, and begin it again",
            r->db_path, (long long)before.n + 1, why, r->process);
    form = (struct bytes){r->form.data, r->form.len};
    position_next(&after, form);
    buf_init(&row, LARGE_TURN_BYTES);
    if (form.n > LARGE_TURN_BYTES) {
        write_slices(r, &after, &row);
        form = (struct bytes){row.data, row.len};
    }
    append(r, &after, form);
    buf_fini(&row);
    if (r->form.cap > KEEP_BYTES) {
        buf_fini(&r->form);
        buf_init(&r->form, REPLICATOR_TURN_BYTES);
    }
    buf_reset(&r->form);
}

static bool wants_copy(void *self)
{
    struct replicator *r = self;

    return r->snapshotter && snapshotter_wants_copy(r->snapshotter);
}

static void log_is_copied(void *self)
{
    struct replicator *r = self;

    if (r->snapshotter)
        snapshotter_copied(r->snapshotter);
}

struct db_replication replicator_turns(struct replicator *r)
{
    return (struct db_replication){.self = r,
                                   .next = next_turn,
                                   .committed = turn_is_committed,
                                   .wants_copy = wants_copy,
                                   .copied = log_is_copied};
}

/* ---- for the loop ---- */

bool replicator_may_send(const struct replicator *r)
{
    return permission_holds(&r->permission, mono_ms(), system_ms());
}

void replicator_in_turn(struct replicator *r, bool yes)
{
    atomic_store(&r->turn_ms, yes ? mono_ms() : 0);
}

bool replicator_release(struct replicator *r, const char *heir, int64_t wait_ms)
{
    int64_t until_ms = mono_ms() + wait_ms;
    bool released;

    snapshotter_stop(r->snapshotter); /* replicator_close() waits for it */
    pthread_mutex_lock(&r->lock);
    permission_end(&r->permission);
    snprintf(r->heir, sizeof r->heir, "%s", heir ? heir : "");
    r->releasing = r->ownership.release = true;
    pthread_cond_broadcast(&r->changed);
    while (!r->stop && mono_ms() < until_ms)
        wait_for_change(r, until_ms - mono_ms());
    r->stop = true;
    released = r->ownership.role == ROLE_STANDBY;
    pthread_mutex_unlock(&r->lock);
    return released;
}

static int64_t seen_ms(const struct replicator *r,
                       const struct engine_node *node)
{
    return node->seen_ms + mono_ms() - r->nodes_read_ms;
}

static void count_standbys(const struct replicator *r,
                           struct replicator_state *out)
{
    int64_t known_ms = REPLICATOR_KNOWN_TAKEOVERS *
                       r->ownership.takeover_after_ms;

    for (size_t i = 0; i < r->node_count; i++) {
        const struct engine_node *node = &r->nodes[i];
        int64_t behind = r->ownership.at.n - node->n;

        if (seen_ms(r, node) > known_ms)
            continue;
        out->standbys++;
        out->ready += node->ready;
        if (behind > out->behind)
            out->behind = behind;
    }
}

bool replicator_node(struct replicator *r, const char *host,
                     struct engine_node *out)
{
    bool found = false;

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->node_count && !found; i++) {
        found = strcmp(r->nodes[i].host, host) == 0;
        if (found) {
            *out = r->nodes[i];
            out->seen_ms = seen_ms(r, out);
        }
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

bool replicator_heir(struct replicator *r, struct engine_node *out)
{
    const struct engine_node *best = NULL;

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->node_count; i++) {
        const struct engine_node *node = &r->nodes[i];

        if (node->ready && node->peers > (best ? best->peers : 0) &&
            seen_ms(r, node) <= r->ownership.takeover_after_ms)
            best = node;
    }
    if (best) {
        *out = *best;
        out->seen_ms = seen_ms(r, best);
    }
    pthread_mutex_unlock(&r->lock);
    return best != NULL;
}

void replicator_state(struct replicator *r, struct replicator_state *out)
{
    pthread_mutex_lock(&r->lock);
    *out = r->state;
    out->role = r->ownership.role;
    out->epoch = r->ownership.mine.epoch;
    out->n = r->ownership.at.n;
    out->turn_open = r->ownership.has_open;
    count_standbys(r, out);
    pthread_mutex_unlock(&r->lock);
    out->may_send_ms = permission_left_ms(&r->permission, mono_ms(),
                                          system_ms());
}

bool replicator_forget(struct replicator *r, int64_t n)
{
    return !r->snapshotter || snapshotter_forget(r->snapshotter, n);
}

void replicator_snapshots(struct replicator *r, struct snapshot_state *out)
{
    *out = (struct snapshot_state){.n = -1};
    if (r->snapshotter)
        snapshotter_state(r->snapshotter, out);
}

/* ---- open and close ---- */

static struct snapshotter *open_snapshotter(const struct replicator_settings *s)
{
    struct snapshotter_settings settings = {.ops = s->ops,
                                            .engine = s->snapshots,
                                            .process = s->process,
                                            .db_path = s->db_path,
                                            .key = s->key,
                                            .mine = s->ownership->mine,
                                            .at = s->ownership->at,
                                            .schema = s->schema};

    return s->snapshots ? snapshotter_open(&settings) : NULL;
}

struct replicator *replicator_open(const struct replicator_settings *s)
{
    struct replicator *r = gr_alloc(sizeof *r);
    pthread_condattr_t monotonic;

    assert(s->ownership->role == ROLE_ACTIVE);
    r->ops = s->ops;
    r->engine = s->engine;
    r->process = gr_strdup(s->process);
    r->db_path = gr_strdup(s->db_path);
    r->stuck_ms = s->stuck_ms;
    atomic_init(&r->turn_ms, mono_ms()); /* the start */
    r->ownership = *s->ownership;
    r->ownership.mine.schema = s->schema; /* of its first turn on */
    r->state.append_us = -1;
    permission_init(&r->permission, r->ownership.takeover_after_ms);
    r->sealer = sealer_open(s->key);
    r->pages = turn_pages_open(s->db_path);
    buf_init(&r->form, REPLICATOR_TURN_BYTES);
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&r->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    r->snapshotter = open_snapshotter(s);
    if (pthread_create(&r->thread, NULL, replicator_main, r) != 0)
        die(EXIT_UNAVAILABLE, "can't start the replication thread");
    return r;
}

void replicator_close(struct replicator *r)
{
    if (!r)
        return;
    snapshotter_stop(r->snapshotter);
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    snapshotter_close(r->snapshotter);
    r->ops->close(r->engine);
    sealer_close(r->sealer);
    turn_pages_close(r->pages);
    buf_fini(&r->form);
    free(r->nodes);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
    free(r->process);
    free(r->db_path);
    free(r);
}
