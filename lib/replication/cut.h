/* cut: what a start finds on disk, and how it becomes the file of a standby: with the turns that the engine's log has, and without a write-ahead
 * log.
 *
 * The commit that belongs to a turn is found by the row `replicated(history, n, chain)`, which each turn changes in its last commit: its page in the log's frames ends the
 * turn. Commits after it are of a turn that was never sent (db_open() may make several before its turn), and are always cut. The row also says which content the turn
 * follows, so nothing that was written before the kill needs to be known. All of it is done without SQLite, before db_open(). */
#ifndef REPLICATION_CUT_H
#define REPLICATION_CUT_H

#include "position_file.h"
#include "turn.h"

/* What the file and its write-ahead log have. The last turn may be missing in the engine's log; the one before it is not, because the checkpoint copies
 * only turns that are in the log, and a turn begins after the one before it is in. */
struct content {
    bool exists;   /* there is a file */
    int64_t n;     /* of the last turn */
    bool has_last; /* its chain is known */
    struct position last;
    bool has_before;
    struct position before; /* n - 1 */
    bool
        in_file; /* the last turn is in the file itself, so it is in the engine's log, and cannot be cut */
    struct stored_position
        stored; /* what is to be kept of the position file; zeros: there was none */
};

/* GR_REFUSE: the file, its log and its position do not belong together, or it was never replicated; `why` says it, and the caller sets them aside. Nothing is changed. */
GR_MUST_CHECK gr_rc content_read(const char *db_path, struct content *out,
                                 char why[200]);
/* The position to follow the engine's log from, to see which turns of this content it has. */
const struct position *content_from(const struct content *c);

enum content_match {
    CONTENT_IS_LAST, /* the log has `last`: cut_to() that */
    CONTENT_IS_BEFORE, /* the log has `before`, and another last turn or none: cut_to() that */
    CONTENT_DIVERGED, /* it is not a beginning of the log: set_aside() */
    CONTENT_TOO_OLD, /* the log does not have the turns after it any more: set_aside() */
    CONTENT_AHEAD, /* the log has lost turns: exit 74, because an operator decides */
};
/* `at`: history and last turn of the log, of the owner row. `first`: the form of the first turn in the log after content_from() (no bytes: there is none), `chain`: its chain. Pure. `why`
 * says what differs. */
enum content_match content_match(const struct content *c,
                                 const struct position *at, struct bytes first,
                                 const uint8_t chain[CHAIN_BYTES],
                                 char why[200]);

/* Makes the file one that has exactly the turns up to `to`, which is `last` or `before` of its content: copies their pages from the write-ahead log into it, syncs it, writes the
 * position, and removes the log and -shm. After a crash at any step it is repeated. GR_REFUSE: it does not have that content, and nothing was changed.
 * GR_AGAIN: the disk is full; repeat it. */
GR_MUST_CHECK gr_rc cut_to(const char *db_path, const struct position *to,
                           char why[200]);
/* Renames the file, its -wal and its position, as far as there are any, to NAME.diverged, NAME.diverged-wal … (.diverged-2, -3 if there are some
 * already), and removes -shm. `why` is logged. */
void set_aside(const char *db_path, const char *why);

#endif
