/* apply: writes turns and snapshots into the file of a standby, which SQLite never opens meanwhile, and cuts what the log does not have.
 *
 * A turn is whole pages, so applying one again after a crash is exact. The position file is written after the pages are synced. */
#ifndef REPLICATION_APPLY_H
#define REPLICATION_APPLY_H

#include "position_file.h"
#include "turn.h"

struct applied;

/* Opens or creates the file. */
struct applied *applied_open(const char *db_path);
void applied_close(struct applied *a);
const struct position *applied_position(const struct applied *a);
/* Writes the pages of this turn, which must follow the position (history, n + 1, and `chain` is its chain), and sets the file's size. Not synced yet.
 * GR_REFUSE: it does not follow; nothing was written. GR_AGAIN: the disk is full; repeat it. */
GR_MUST_CHECK gr_rc applied_turn(struct applied *a, struct bytes form,
                                 const uint8_t chain[CHAIN_BYTES],
                                 char why[200]);
/* Makes what was applied durable: fdatasync, then the position file. */
GR_MUST_CHECK gr_rc applied_sync(struct applied *a, char why[200]);

/* Before SQLite opens a file at a start: removes the turns after `n` of the engine's log from the write-ahead log (at most one is there), and
 * copies the rest of it into the file, without SQLite. `log`: of the engine, what the log says about n and chain. GR_REFUSE: the file is not a beginning of this
 * history's log; `why` says it, and nothing was changed. */
GR_MUST_CHECK gr_rc cut_to(const char *db_path, const struct position *log,
                           char why[200]);
/* Renames a file that has diverged, with its -wal and position, to NAME.diverged (…-2, -3), and removes -shm. */
void set_aside(const char *db_path);

#endif
