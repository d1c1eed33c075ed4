/* shared_engine: small_engine.h as a `struct engine`, in memory that a forked process shares, so the engine outlives a process that a test
 * kills. It keeps the parts of each turn. A test makes it silent, loses its replies, or counts its statements. */
#ifndef SHARED_ENGINE_H
#define SHARED_ENGINE_H

#include "alloc.h"
#include "clock.h"
#include "ownership.h"
#include "small_engine.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SHARED_ARENA_BYTES = 512 * 1024 * 1024, SHARED_PARTS_MAX = 256 };

struct shared_turn {
    size_t at, lens[SHARED_PARTS_MAX];
    size_t count;
};

struct engine {
    struct small_engine e;
    struct shared_turn turns[SMALL_ROWS_MAX + 1];
    uint8_t history[HISTORY_BYTES];
    size_t used; /* of the arena */
    pthread_mutex_t lock;
    /* What the test sets and reads. */
    _Atomic int
        silent; /* statements wait, until this is 0 or the time limit ends */
    _Atomic int limit_ms; /* of a statement */
    _Atomic int
        lose; /* so many replies are lost; the statements are executed */
    _Atomic int refuse; /* so many statements fail at once, without effect */
    _Atomic int appends, beats, judges, releases, repeats;
    _Atomic int waiting;   /* statements that wait now */
    _Atomic bool differed; /* a turn was repeated with other bytes */
    /* The rows of other hosts; a test sets them before it opens the replicator. */
    struct engine_node nodes[4];
    size_t node_count;
    _Atomic int node_reads;
    _Atomic bool no_nodes; /* they cannot be read */
    uint8_t arena[];
};

static inline struct engine *shared_engine_open(const uint8_t history[])
{
    struct engine *s = mmap(NULL, sizeof *s + SHARED_ARENA_BYTES,
                            PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pthread_mutexattr_t shared;

    assert(s != MAP_FAILED);
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&s->lock, &shared);
    pthread_mutexattr_destroy(&shared);
    s->e.seen.exists = true;
    memcpy(s->history, history, HISTORY_BYTES);
    memcpy(s->e.seen.at.history, history, HISTORY_BYTES);
    s->limit_ms = 1000;
    small_make_durable(&s->e);
    return s;
}

static inline void shared_engine_forget(struct engine *s)
{
    munmap(s, sizeof *s + SHARED_ARENA_BYTES);
}

/* Of a killed process, the statement is executed or not: its row in the arena is used when `seen` says so. */
static inline void shared_lock(struct engine *s)
{
    if (pthread_mutex_lock(&s->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&s->lock);
}

static inline bool shared_take_one(_Atomic int *count)
{
    int n = atomic_load(count);

    while (n > 0)
        if (atomic_compare_exchange_weak(count, &n, n - 1))
            return true;
    return false;
}

/* false: its time limit ended, or it failed at once. */
static inline bool shared_arrives(struct engine *s, char why[ENGINE_WHY_BYTES])
{
    int64_t until_ms = mono_ms() + s->limit_ms;

    snprintf(why, ENGINE_WHY_BYTES, "refused");
    if (shared_take_one(&s->refuse))
        return false;
    snprintf(why, ENGINE_WHY_BYTES, "no response");
    s->waiting++;
    while (s->silent && mono_ms() < until_ms)
        usleep(1000);
    s->waiting--;
    return !s->silent;
}

static inline void shared_keep(struct engine *s, int64_t n,
                               const struct sealed_parts *parts)
{
    struct shared_turn *t = &s->turns[n];
    size_t at = s->used;

    assert(parts->count <= SHARED_PARTS_MAX);
    if (t->count) { /* sent before */
        size_t p = t->at;
        bool same = t->count == parts->count;

        s->repeats++;
        for (size_t i = 0; same && i < parts->count; i++) {
            same = t->lens[i] == parts->parts[i].len &&
                   memcmp(s->arena + p, parts->parts[i].data, t->lens[i]) == 0;
            p += t->lens[i];
        }
        if (!same)
            s->differed = true;
    }
    for (size_t i = 0; i < parts->count; i++) {
        assert(at + parts->parts[i].len <= SHARED_ARENA_BYTES);
        memcpy(s->arena + at, parts->parts[i].data, parts->parts[i].len);
        t->lens[i] = parts->parts[i].len;
        at += t->lens[i];
    }
    t->at = s->used;
    t->count = parts->count;
    s->used = at;
}

static inline enum engine_result
shared_run(struct engine *s, const struct small_statement *statement,
           const struct sealed_parts *parts, int64_t *beat,
           char why[ENGINE_WHY_BYTES])
{
    bool changed;

    if (!shared_arrives(s, why))
        return ENGINE_UNKNOWN;
    shared_lock(s);
    if (parts && small_owns(&s->e, statement))
        shared_keep(s, statement->after.n, parts);
    changed = small_execute(&s->e, statement);
    if (changed)
        small_make_durable(&s->e);
    if (beat)
        *beat = s->e.seen.beat;
    pthread_mutex_unlock(&s->lock);
    if (shared_take_one(&s->lose)) {
        snprintf(why, ENGINE_WHY_BYTES, "the reply was lost");
        return ENGINE_UNKNOWN;
    }
    return changed ? ENGINE_DONE : ENGINE_NO_ROW;
}

static void shared_close(struct engine *s)
{
    (void)s; /* its memory is the test's */
}

static enum engine_result
shared_append(struct engine *s, const struct tenure *mine,
              const struct position *before, const struct position *after,
              const struct sealed_parts *parts, int64_t *beat,
              char why[ENGINE_WHY_BYTES])
{
    struct small_statement st = {
        .kind = SMALL_TURN, .mine = *mine, .at = *before, .after = *after};

    s->appends++;
    return shared_run(s, &st, parts, beat, why);
}

static enum engine_result shared_beat(struct engine *s,
                                      const struct tenure *mine,
                                      const struct position *at, int64_t *beat,
                                      char why[ENGINE_WHY_BYTES])
{
    struct small_statement st = {.kind = SMALL_BEAT, .mine = *mine, .at = *at};

    s->beats++;
    return shared_run(s, &st, NULL, beat, why);
}

static enum engine_result shared_release(struct engine *s,
                                         const struct tenure *mine,
                                         const struct position *at,
                                         int64_t beat, const char *heir,
                                         char why[ENGINE_WHY_BYTES])
{
    struct small_statement st = {.kind = SMALL_RELEASE,
                                 .mine = *mine,
                                 .at = *at,
                                 .beat = beat,
                                 .heir = heir};

    s->releases++;
    return shared_run(s, &st, NULL, NULL, why);
}

static enum engine_result shared_follow(struct engine *s, const struct node *me,
                                        size_t max_bytes, struct owner *owner,
                                        const struct log_row **rows,
                                        size_t *count,
                                        char why[ENGINE_WHY_BYTES])
{
    (void)me;
    assert(max_bytes == 0); /* to judge */
    s->judges++;
    *rows = NULL;
    *count = 0;
    if (!shared_arrives(s, why))
        return ENGINE_UNKNOWN;
    shared_lock(s);
    small_make_durable(&s->e);
    *owner = s->e.seen;
    pthread_mutex_unlock(&s->lock);
    return shared_take_one(&s->lose) ? ENGINE_UNKNOWN : ENGINE_DONE;
}

static enum engine_result shared_nodes(struct engine *s,
                                       const struct engine_node **nodes,
                                       size_t *count,
                                       char why[ENGINE_WHY_BYTES])
{
    s->node_reads++;
    *nodes = s->nodes;
    *count = s->node_count;
    snprintf(why, ENGINE_WHY_BYTES, "the nodes were refused");
    return s->no_nodes ? ENGINE_UNKNOWN : ENGINE_DONE;
}

static const struct engine_ops shared_engine_ops = {.close = shared_close,
                                                    .append = shared_append,
                                                    .beat = shared_beat,
                                                    .release = shared_release,
                                                    .follow = shared_follow,
                                                    .nodes = shared_nodes};

/* What an active begins with: the owner of epoch `epoch`, at the end of the log. */
static inline struct ownership shared_take_over(struct engine *s, uint8_t name,
                                                int64_t takeover_after_ms)
{
    struct ownership o;
    uint8_t me[HOLDER_BYTES] = {name};

    shared_lock(s);
    s->e.seen.epoch++;
    memcpy(s->e.seen.holder, me, HOLDER_BYTES);
    small_make_durable(&s->e);
    ownership_init(&o, me, takeover_after_ms);
    o.role = ROLE_ACTIVE;
    o.mine.epoch = s->e.seen.epoch;
    memcpy(o.mine.holder, me, HOLDER_BYTES);
    o.at = s->e.seen.at;
    o.beat = s->e.seen.beat;
    pthread_mutex_unlock(&s->lock);
    return o;
}

#endif
