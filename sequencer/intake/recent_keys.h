/* recent_keys: the idempotency keys that are not in the table `keys` yet.
 *
 * A key is a hash, so each row of `keys` goes into a page of its own: written one by one, a
 * key costs a page of the write-ahead log and soon another of the file (8 KiB for 32 bytes).
 * So the keys of a turn are one row of `recent_keys`, and all of them are in memory. When
 * there are RECENT_KEYS, they are moved to `keys` in the order of their rows, some in each
 * turn. A segment (dedupe.h) has 560 pages, so about 30 of them share a page.
 *
 * Everything happens in the turn's transaction. A crash leaves all keys in `recent_keys`, or
 * in both tables while they are being moved; the next start moves all of them again, which
 * changes nothing. After a rolled back turn close it and open it again. Only keys.c calls
 * it. */
#ifndef SEQUENCER_RECENT_KEYS_H
#define SEQUENCER_RECENT_KEYS_H

#include "store_keys.h"

enum {
    /* Each takes 32 bytes, and twice that many may wait (2 MiB). */
    RECENT_KEYS = 1 << 15,
    RECENT_MOVED_MIN = 64, /* in a turn; more if more were added */
};

struct recent_keys;

struct recent_keys *recent_keys_open(struct store_keys *store);
void recent_keys_close(struct recent_keys *r);

bool recent_keys_find(const struct recent_keys *r, int64_t k,
                      struct key_row *row);
/* Replaces a row with the same number. */
void recent_keys_add(struct recent_keys *r, const struct key_row *row);

typedef void recent_key_fn(void *arg, const struct key_row *row);
void recent_keys_each(const struct recent_keys *r, recent_key_fn *fn,
                      void *arg);

/* Once a turn, after all keys of the turn were added: writes these, and moves a bounded
 * number of older ones, except those that nobody needs any more. */
typedef bool recent_needed_fn(void *arg, const struct key_row *row);
void recent_keys_work(struct recent_keys *r, recent_needed_fn *needed,
                      void *arg);

#endif
