/* memory_engine: an engine (engine.h) in memory that the processes of a test share, with unknown outcomes. One process at a time appends; a killed one
 * leaves a turn that is in, or not. */
#ifndef TEST_MEMORY_ENGINE_H
#define TEST_MEMORY_ENGINE_H

#include "engine.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    ME_TURNS_MAX = 20000,
    ME_PARTS_MAX = 16, /* of a turn */
    ME_SNAPSHOT_MAX = 4000,
};
#define ME_ARENA_BYTES (1ULL << 30)

struct me_turn {
    int64_t epoch;
    struct position at;
    size_t count;
    struct bytes parts[ME_PARTS_MAX];
    uint8_t content[32]; /* the test's own hash of the rows after it */
};

struct me_part {
    int64_t n, part, epoch;
    struct bytes bytes;
};

struct memory_engine {
    struct owner owner;
    _Atomic int64_t first, last; /* turns that are there: first … last */
    struct me_turn turns[ME_TURNS_MAX];
    _Atomic size_t part_count;
    struct me_part
        parts[ME_SNAPSHOT_MAX]; /* of snapshots; part -1: a manifest */
    _Atomic size_t arena_used;
    uint8_t *arena;
    uint8_t next_content[32]; /* of the turn that append() will put in */
    struct node node;         /* as the last follow wrote it */
    char node_why[300];
    int follows, claims;
    /* The next so many calls are unknown; executed: yet they are in. */
    int unknown;
    bool executed;
    struct log_row *rows; /* of the last follow, of this process */
};

/* A file is mapped at this address in every process, because it has pointers. */
#define ME_ADDRESS ((void *)0x200000000000)

/* In a file of this name, which other processes may open, too; NULL: in memory that processes share after a fork. */
static struct memory_engine *me_open(const char *file)
{
    size_t n = sizeof(struct memory_engine) + ME_ARENA_BYTES;
    int fd = file ? open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    struct memory_engine *e;

    if (file && (fd < 0 || ftruncate(fd, (off_t)n) != 0))
        abort();
    e = mmap(file ? ME_ADDRESS : NULL, n, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_NORESERVE |
                 (file ? MAP_FIXED_NOREPLACE : MAP_ANONYMOUS),
             fd, 0);
    if (e == MAP_FAILED || (file && e != ME_ADDRESS))
        abort();
    if (file)
        close(fd);
    if (!e->owner.exists) {
        e->first = 1;
        e->owner.at.history[3] = 9;
        e->owner.exists = true;
    }
    e->arena = (uint8_t *)(e + 1);
    e->rows = NULL;
    return e;
}

static void me_free(struct memory_engine *e)
{
    free(e->rows);
    munmap(e, sizeof *e + ME_ARENA_BYTES);
}

static struct bytes me_keep(struct memory_engine *e, const void *p, size_t n)
{
    uint8_t *to = e->arena + atomic_fetch_add(&e->arena_used, (n + 15) & ~15UL);

    if (to + n > e->arena + ME_ARENA_BYTES)
        abort();
    memcpy(to, p, n);
    return (struct bytes){to, n};
}

static struct memory_engine *me(struct engine *e)
{
    return (struct memory_engine *)(void *)e;
}

/* Whether the outcome is unknown; *execute: whether it is done all the same. */
static bool me_unknown(struct memory_engine *e, bool *execute, char *why)
{
    *execute = e->unknown <= 0 || e->executed;
    if (e->unknown <= 0)
        return false;
    e->unknown--;
    snprintf(why, ENGINE_WHY_BYTES, "the reply was lost");
    return true;
}

static struct position me_at(const struct memory_engine *e)
{
    int64_t last = atomic_load(&e->last);

    return last ? e->turns[last].at : e->owner.at;
}

static bool me_is_at(const struct memory_engine *e, const struct position *at)
{
    struct position mine = me_at(e);

    return position_equal(&mine, at);
}

static bool me_owns(const struct memory_engine *e, const struct tenure *mine)
{
    return e->owner.epoch == mine->epoch &&
           memcmp(e->owner.holder, mine->holder, HOLDER_BYTES) == 0;
}

static enum engine_result me_append(struct engine *handle,
                                    const struct tenure *mine,
                                    const struct position *before,
                                    const struct position *after,
                                    const struct sealed_parts *parts,
                                    int64_t *beat, char why[ENGINE_WHY_BYTES])
{
    struct memory_engine *e = me(handle);
    bool execute, unknown = me_unknown(e, &execute, why);
    struct me_turn *turn = &e->turns[after->n];

    if (execute && me_owns(e, mine) && me_is_at(e, before)) {
        if (parts->count > ME_PARTS_MAX || after->n >= ME_TURNS_MAX)
            abort();
        *turn = (struct me_turn){
            .epoch = mine->epoch, .at = *after, .count = parts->count};
        for (size_t i = 0; i < parts->count; i++)
            turn->parts[i] = me_keep(e, parts->parts[i].data,
                                     parts->parts[i].len);
        memcpy(turn->content, e->next_content, sizeof turn->content);
        atomic_store(&e->last, after->n); /* from here on it is in */
        *beat = ++e->owner.beat;
        e->owner.schema = mine->schema;
    } else if (execute) {
        return unknown ? ENGINE_UNKNOWN : ENGINE_NO_ROW;
    }
    return unknown ? ENGINE_UNKNOWN : ENGINE_DONE;
}

static enum engine_result me_beat(struct engine *handle,
                                  const struct tenure *mine,
                                  const struct position *at, int64_t *beat,
                                  char why[ENGINE_WHY_BYTES])
{
    struct memory_engine *e = me(handle);
    bool execute, unknown = me_unknown(e, &execute, why);
    bool row = me_owns(e, mine) && me_is_at(e, at);

    if (execute && row)
        *beat = ++e->owner.beat;
    return unknown ? ENGINE_UNKNOWN : row ? ENGINE_DONE : ENGINE_NO_ROW;
}

static enum engine_result me_release(struct engine *handle,
                                     const struct tenure *mine,
                                     const struct position *at, int64_t beat,
                                     const char *heir,
                                     char why[ENGINE_WHY_BYTES])
{
    struct memory_engine *e = me(handle);
    bool execute, unknown = me_unknown(e, &execute, why);
    bool row = me_owns(e, mine) && me_is_at(e, at) && e->owner.beat == beat;

    if (execute && row) {
        memset(e->owner.holder, 0, HOLDER_BYTES);
        snprintf(e->owner.heir, sizeof e->owner.heir, "%s", heir);
        e->owner.beat++;
    }
    return unknown ? ENGINE_UNKNOWN : row ? ENGINE_DONE : ENGINE_NO_ROW;
}

static enum engine_result me_take_over(struct engine *handle,
                                       const struct owner *seen,
                                       const uint8_t holder[HOLDER_BYTES],
                                       struct tenure *mine,
                                       char why[ENGINE_WHY_BYTES])
{
    struct memory_engine *e = me(handle);
    bool execute, unknown = me_unknown(e, &execute, why);
    bool row = e->owner.epoch == seen->epoch && me_is_at(e, &seen->at) &&
               e->owner.beat == seen->beat && e->owner.schema == seen->schema;

    if (execute && row) {
        e->owner.epoch++;
        memcpy(e->owner.holder, holder, HOLDER_BYTES);
        e->owner.heir[0] = 0;
        mine->epoch = e->owner.epoch;
        memcpy(mine->holder, holder, HOLDER_BYTES);
        mine->schema = seen->schema;
    }
    return unknown ? ENGINE_UNKNOWN : row ? ENGINE_DONE : ENGINE_NO_ROW;
}

static enum engine_result me_follow(struct engine *handle,
                                    const struct node *node, size_t max_bytes,
                                    struct owner *owner,
                                    const struct log_row **rows, size_t *count,
                                    char why[ENGINE_WHY_BYTES])
{
    struct memory_engine *e = me(handle);
    bool execute;
    int64_t n = node->at.n + 1;
    size_t bytes = 0;

    e->follows++;
    *count = 0;
    if (me_unknown(e, &execute, why))
        return ENGINE_UNKNOWN;
    e->node = *node;
    snprintf(e->node_why, sizeof e->node_why, "%s", node->why);
    *owner = e->owner;
    owner->at = me_at(e);
    if (n < e->first)
        n = e->first;
    free(e->rows);
    e->rows = calloc(ME_TURNS_MAX, sizeof *e->rows);
    for (; max_bytes && n <= atomic_load(&e->last); n++) {
        struct me_turn *t = &e->turns[n];
        struct log_row *row = &e->rows[*count];

        if (*count && bytes >= max_bytes)
            break;
        *row = (struct log_row){
            .n = n, .epoch = t->epoch, .parts = t->parts, .count = t->count};
        memcpy(row->chain, t->at.chain, CHAIN_BYTES);
        for (size_t i = 0; i < t->count; i++)
            bytes += t->parts[i].n;
        ++*count;
    }
    *rows = e->rows;
    return ENGINE_DONE;
}

static enum engine_result me_claim(struct engine *handle,
                                   const struct owner *seen,
                                   char why[ENGINE_WHY_BYTES])
{
    struct memory_engine *e = me(handle);
    bool execute;

    if (me_unknown(e, &execute, why))
        return ENGINE_UNKNOWN;
    if (e->owner.epoch != seen->epoch || e->owner.beat != seen->beat)
        return ENGINE_NO_ROW;
    e->owner.claim = e->owner.beat;
    e->claims++;
    return ENGINE_DONE;
}

static struct me_part *me_part_of(struct memory_engine *e, int64_t n,
                                  int64_t part)
{
    for (size_t i = 0; i < e->part_count; i++)
        if (e->parts[i].n == n && e->parts[i].part == part)
            return &e->parts[i];
    return NULL;
}

static enum engine_result me_put_snapshot(struct engine *handle,
                                          const struct tenure *mine,
                                          const struct position *at,
                                          int64_t part, struct bytes sealed,
                                          char why[ENGINE_WHY_BYTES])
{
    struct memory_engine *e = me(handle);
    bool execute, unknown = me_unknown(e, &execute, why);
    struct me_part *p;

    if (!me_owns(e, mine))
        return unknown ? ENGINE_UNKNOWN : ENGINE_NO_ROW;
    p = me_part_of(e, at->n, part);
    if (execute) {
        if (!p && e->part_count == ME_SNAPSHOT_MAX)
            abort();
        if (!p)
            p = &e->parts[e->part_count];
        *p = (struct me_part){.n = at->n,
                              .part = part,
                              .epoch = mine->epoch,
                              .bytes = me_keep(e, sealed.p, sealed.n)};
        if (p == &e->parts[e->part_count])
            e->part_count++;
    }
    return unknown ? ENGINE_UNKNOWN : ENGINE_DONE;
}

static enum engine_result me_get_snapshot(struct engine *handle, int64_t part,
                                          int64_t *n, int64_t *epoch,
                                          struct buf *sealed,
                                          char why[ENGINE_WHY_BYTES])
{
    struct memory_engine *e = me(handle);
    bool execute;
    const struct me_part *p, *newest = NULL;

    if (me_unknown(e, &execute, why))
        return ENGINE_UNKNOWN;
    for (size_t i = 0; i < e->part_count; i++)
        if (e->parts[i].part == -1 && (!newest || e->parts[i].n > newest->n))
            newest = &e->parts[i];
    p = newest ? me_part_of(e, newest->n, part) : NULL;
    if (!p)
        return ENGINE_NO_ROW;
    *n = p->n;
    *epoch = p->epoch;
    buf_put(sealed, p->bytes.p, p->bytes.n);
    return ENGINE_DONE;
}

static enum engine_result me_forget(struct engine *handle,
                                    const struct tenure *mine, int64_t n,
                                    bool *more, char why[ENGINE_WHY_BYTES])
{
    struct memory_engine *e = me(handle);
    bool execute;
    size_t kept = 0;

    if (me_unknown(e, &execute, why))
        return ENGINE_UNKNOWN;
    if (!me_owns(e, mine))
        return ENGINE_NO_ROW;
    for (size_t i = 0; i < e->part_count; i++)
        if (e->parts[i].n >= n)
            e->parts[kept++] = e->parts[i];
    e->part_count = kept;
    *more = e->first + 3 <= n;
    e->first = *more ? e->first + 3 : n + 1 > e->first ? n + 1 : e->first + 0;
    return ENGINE_DONE;
}

static enum engine_result me_forget_unfinished(struct engine *handle,
                                               const struct tenure *mine,
                                               int64_t after, int64_t before,
                                               bool *more,
                                               char why[ENGINE_WHY_BYTES])
{
    struct memory_engine *e = me(handle);
    bool execute;
    size_t kept = 0;

    if (me_unknown(e, &execute, why))
        return ENGINE_UNKNOWN;
    if (!me_owns(e, mine))
        return ENGINE_NO_ROW;
    for (size_t i = 0; i < e->part_count; i++)
        if (e->parts[i].n <= after || e->parts[i].n >= before ||
            e->parts[i].part < -1)
            e->parts[kept++] = e->parts[i];
    *more = kept < e->part_count; /* the second time there is nothing */
    e->part_count = kept;
    return ENGINE_DONE;
}

/* Slices are parts with numbers below that of a manifest. */
static enum engine_result me_put_slice(struct engine *handle,
                                       const struct tenure *mine,
                                       const struct position *at, int64_t slice,
                                       struct bytes sealed,
                                       char why[ENGINE_WHY_BYTES])
{
    return me_put_snapshot(handle, mine, at, -2 - slice, sealed, why);
}

static enum engine_result me_get_slice(struct engine *handle, int64_t n,
                                       int64_t epoch, int64_t slice,
                                       struct buf *sealed,
                                       char why[ENGINE_WHY_BYTES])
{
    struct memory_engine *e = me(handle);
    const struct me_part *p = me_part_of(e, n, -2 - slice);
    bool execute;

    if (me_unknown(e, &execute, why))
        return ENGINE_UNKNOWN;
    if (!p || p->epoch != epoch)
        return ENGINE_NO_ROW;
    buf_reset(sealed);
    buf_put(sealed, p->bytes.p, p->bytes.n);
    return ENGINE_DONE;
}

static enum engine_result me_forget_slices(struct engine *handle,
                                           const struct tenure *mine,
                                           bool *more,
                                           char why[ENGINE_WHY_BYTES])
{
    struct memory_engine *e = me(handle);
    bool execute;
    size_t kept = 0;

    if (me_unknown(e, &execute, why))
        return ENGINE_UNKNOWN;
    if (!me_owns(e, mine))
        return ENGINE_NO_ROW;
    for (size_t i = 0; i < e->part_count; i++)
        if (e->parts[i].n <= e->last || e->parts[i].part >= -1)
            e->parts[kept++] = e->parts[i];
    *more = kept < e->part_count;
    e->part_count = kept;
    return ENGINE_DONE;
}

static const struct engine_ops memory_engine_ops = {
    .append = me_append,
    .beat = me_beat,
    .release = me_release,
    .take_over = me_take_over,
    .follow = me_follow,
    .claim = me_claim,
    .put_snapshot = me_put_snapshot,
    .get_snapshot = me_get_snapshot,
    .forget = me_forget,
    .forget_unfinished = me_forget_unfinished,
    .put_slice = me_put_slice,
    .get_slice = me_get_slice,
    .forget_slices = me_forget_slices,
};

#endif
