/* store_keys: the rows of `keys` and `key_generations`. Only keys.c calls it, inside the turn's
 * transaction but at the start. */
#ifndef SEQUENCER_STORE_KEYS_H
#define SEQUENCER_STORE_KEYS_H

#include "db.h"
#include "dedupe.h"

struct generation {
    int64_t id;
    int class;
    int64_t count, made_ms, expires_ms;
    bool closed;
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

/* In the generation whose rows begin at `first`: the event that had this key in this range of
 * receive times; 0: none. */
int64_t store_keys_find(struct store_keys *s, int64_t first, struct key key,
                        int64_t from_ms, int64_t to_ms);
void store_keys_add(struct store_keys *s, int64_t first, struct key key,
                    int64_t event, int64_t received_ms);
/* Add all keys of this generation to a filter. */
void store_keys_each(struct store_keys *s, int64_t first, struct filter *f);
/* Delete up to `max` rows of this generation; returns how many. */
int store_keys_forget(struct store_keys *s, int64_t first, int max);

#endif
