/* keys: which idempotency keys were seen, and with which event.
 *
 * Millions of keys are stored at once, and each event looks up all of its own. So they are
 * stored in generations of at most GENERATION_KEYS. New keys are in memory and in a table of
 * their own, until many of them are moved together (recent_keys.h). Each generation has a filter in memory (two
 * bytes a key) that shows without a read of the disk that a key is not in it. A generation
 * is deleted as a whole when its last key has expired. Its keys are in up to eight segments, in the order in which
 * they came: a move changes the pages of a segment or two, not those of the generation.
 *
 * Memory: two bytes a key, up to FILTERS_MAX_BYTES. Beyond that the filters of the oldest
 * generations are not loaded, and each lookup searches the table for these instead, once for each segment. Rows
 * and filters are written in the turn's transaction; after a rolled back turn call
 * keys_undo(). */
#ifndef SEQUENCER_KEYS_H
#define SEQUENCER_KEYS_H

#include "db.h"
#include "dedupe.h"

enum { FILTERS_MAX_BYTES = 256 * 1024 * 1024 };

struct keys;
struct retention;

struct keys *keys_open(struct db *db);
void keys_close(struct keys *k);
void keys_undo(struct keys *k);

/* The event that had this key at most `ttl_ms` before or after this receive time, other than
 * `self`; 0: there is no such event. */
int64_t keys_find(struct keys *k, struct key key, int64_t received_ms,
                  int64_t ttl_ms, int64_t self);
void keys_add(struct keys *k, struct key key, int64_t event,
              int64_t received_ms, int64_t ttl_ms, int64_t now_ms);
/* The same for digests of signed parts, which are stored apart from the keys. Every stored
 * digest is found, however old, so that a clock that was ahead hides none. */
int64_t keys_find_signed(struct keys *k, struct key key, int64_t self);
/* The first event with this digest was received at `from_ms` or later. */
bool keys_signed_since(struct keys *k, struct key key, int64_t from_ms);
void keys_add_signed(struct keys *k, struct key key, int64_t event,
                     int64_t received_ms, int64_t keep_ms, int64_t now_ms);
/* Once a turn, after all of its keys were added: writes these. */
void keys_store(struct keys *k);
/* Once a turn: close generations that are full or old, and delete those that
 * have expired at receive time `done_ms` (0: delete nothing). Bounded; true: there is
 * more. */
bool keys_work(struct keys *k, const struct retention *r, int64_t now_ms,
               int64_t done_ms);

/* For status and tests. */
int64_t keys_count(const struct keys *k);
size_t keys_filter_bytes(const struct keys *k);

#endif
