/* small_engine: an engine in memory for tests of replication. It has what its sessions see and what survives the loss of a node; at a failover
 * the difference is lost. A statement is a value, so a test can run it late, twice, or never. */
#ifndef SMALL_ENGINE_H
#define SMALL_ENGINE_H

#include "engine.h"
#include <stdio.h>
#include <string.h>

enum { SMALL_ROWS_MAX = 4096 };

enum small_kind {
    SMALL_TURN,
    SMALL_BEAT,
    SMALL_CLAIM,
    SMALL_TAKE,
    SMALL_RELEASE
};

struct small_statement {
    enum small_kind kind;
    struct tenure mine; /* TAKE: the holder that begins */
    struct position at, after;
    struct owner seen; /* TAKE, CLAIM */
    int64_t beat;      /* RELEASE */
    const char *heir;  /* RELEASE; NULL: any host */
};

struct small_row {
    int64_t epoch;
    uint8_t chain[CHAIN_BYTES];
};

struct small_engine {
    struct owner seen, durable;
    struct small_row rows[SMALL_ROWS_MAX + 1]; /* up to seen.at.n */
};

static inline bool small_owns(const struct small_engine *e,
                              const struct small_statement *s)
{
    return e->seen.epoch == s->mine.epoch &&
           memcmp(e->seen.holder, s->mine.holder, HOLDER_BYTES) == 0 &&
           position_equal(&e->seen.at, &s->at);
}

static inline bool small_is_as_seen(const struct small_engine *e,
                                    const struct small_statement *s)
{
    return e->seen.epoch == s->seen.epoch && e->seen.beat == s->seen.beat &&
           position_equal(&e->seen.at, &s->seen.at);
}

/* true: it changed one row. */
static inline bool small_execute(struct small_engine *e,
                                 const struct small_statement *s)
{
    struct owner *o = &e->seen;

    if (!o->exists)
        return false;
    switch (s->kind) {
    case SMALL_TURN:
        if (!small_owns(e, s) || s->after.n > SMALL_ROWS_MAX)
            return false;
        o->at = s->after;
        o->schema = s->mine.schema;
        o->beat++;
        e->rows[o->at.n].epoch = o->epoch;
        memcpy(e->rows[o->at.n].chain, o->at.chain, CHAIN_BYTES);
        return true;
    case SMALL_BEAT:
        if (!small_owns(e, s))
            return false;
        o->beat++;
        return true;
    case SMALL_RELEASE:
        if (!small_owns(e, s) || o->beat != s->beat)
            return false;
        memset(o->holder, 0, HOLDER_BYTES);
        snprintf(o->heir, sizeof o->heir, "%s", s->heir ? s->heir : "");
        o->beat++;
        return true;
    case SMALL_CLAIM:
        if (!small_is_as_seen(e, s))
            return false;
        o->claim = o->beat;
        return true;
    case SMALL_TAKE:
        if (!small_is_as_seen(e, s))
            return false;
        o->epoch++;
        memcpy(o->holder, s->mine.holder, HOLDER_BYTES);
        o->heir[0] = 0;
        return true;
    }
    return false;
}

/* Acknowledged with all before it. */
static inline void small_make_durable(struct small_engine *e)
{
    e->durable = e->seen;
}

static inline void small_fail_over(struct small_engine *e)
{
    e->seen = e->durable;
}

#endif
