/* store_keys: the rows of `keys`, `recent_keys` and `key_generations`. Only keys.c and
 * recent_keys.c call it, inside the turn's transaction but at the start. */
#ifndef SEQUENCER_STORE_KEYS_H
#define SEQUENCER_STORE_KEYS_H

#include "db.h"
#include "dedupe.h"

struct generation {
    int64_t id;
    int class;
    int64_t count, made_ms, expires_ms;
    bool closed;
    /* false: an earlier version made it, and its rows have no segment number */
    bool segmented;
    struct filter filter; /* may not be loaded: then it permits all keys */
    bool dirty;           /* count or expires_ms is to be written */
};

struct store_keys;

struct store_keys *store_keys_open(struct db *db);
void store_keys_close(struct store_keys *s);

/* All generations, without their filters, oldest first. */
typedef void generation_fn(void *arg, const struct generation *g);
void store_keys_generations(struct store_keys *s, generation_fn *fn, void *arg);
void store_keys_filter(struct store_keys *s, struct generation *g);
void store_keys_generation_add(struct store_keys *s,
                               const struct generation *g);
/* Write count and expires_ms. */
void store_keys_generation_set(struct store_keys *s,
                               const struct generation *g);
void store_keys_generation_close(struct store_keys *s,
                                 const struct generation *g);
void store_keys_generation_drop(struct store_keys *s, int64_t id);

/* A row of `keys`. */
struct key_row {
    /* The numbers of its generation and segment, and a part of the key … */
    int64_t k;
    int64_t rest; /* … the other part of the key */
    int64_t event, received_ms;
};

/* The first and the last row that a generation can have. */
int64_t key_row_first(const struct generation *g);
int64_t key_row_last(const struct generation *g);
/* The segment of the generation's n-th key, from 0; the last one that it has. */
int key_segment(const struct generation *g, int64_t n);
int key_segment_last(const struct generation *g);
/* `k` and `rest` of a key in a segment of a generation; the key of such a row. */
struct key_row key_row_of(const struct generation *g, int segment,
                          struct key key);
struct key key_of_row(const struct generation *g, int64_t k, int64_t rest);

bool store_keys_find(struct store_keys *s, int64_t k, struct key_row *row);
/* Replaces a row with the same number. */
void store_keys_add(struct store_keys *s, const struct key_row *row);
/* Add all keys of this generation to a filter. */
void store_keys_each(struct store_keys *s, const struct generation *g,
                     struct filter *f);
/* Delete up to `max` rows of this generation; returns how many. */
int store_keys_forget(struct store_keys *s, const struct generation *g,
                      int max);

/* The rows of `recent_keys`, oldest first. */
typedef void recent_row_fn(void *arg, int64_t n, struct bytes keys);
void store_keys_recent(struct store_keys *s, recent_row_fn *fn, void *arg);
void store_keys_recent_add(struct store_keys *s, int64_t n, struct bytes keys);
/* Delete those up to this number. */
void store_keys_recent_drop(struct store_keys *s, int64_t n);

#endif
