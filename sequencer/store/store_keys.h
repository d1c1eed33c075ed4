/* store_keys: the rows of `keys` and `key_generations`, for keys.c alone. */
#ifndef SEQUENCER_STORE_KEYS_H
#define SEQUENCER_STORE_KEYS_H

#include "db.h"
#include "dedupe.h"

struct generation {
    int64_t id;
    int class;
    int64_t count, made_ms, expires_ms;
    bool closed;
    struct filter filter; /* none: it was not loaded */
    bool dirty;
};

struct store_keys;

struct store_keys *store_keys_open(struct db *db);
void store_keys_close(struct store_keys *s);

/* Without their filters. */
typedef void generation_fn(void *arg, const struct generation *g);
void store_keys_generations(struct store_keys *s, generation_fn *fn, void *arg);
void store_keys_filter(struct store_keys *s, struct generation *g);
void store_keys_generation_add(struct store_keys *s,
                               const struct generation *g);
/* count and expires_ms */
void store_keys_generation_set(struct store_keys *s,
                               const struct generation *g);
void store_keys_generation_close(struct store_keys *s,
                                 const struct generation *g);
void store_keys_generation_drop(struct store_keys *s, int64_t id);

/* Rows of the generation that begins at `first`. */
int64_t store_keys_find(struct store_keys *s, int64_t first, struct key key,
                        int64_t from_ms, int64_t to_ms);
void store_keys_add(struct store_keys *s, int64_t first, struct key key,
                    int64_t event, int64_t received_ms);
/* Puts all of them into a filter. */
void store_keys_each(struct store_keys *s, int64_t first, struct filter *f);
/* Returns how many went. */
int store_keys_forget(struct store_keys *s, int64_t first, int max);

#endif
