/* wal: decides when the write-ahead log of a SQLite file is copied into the file, and when it
 * is restarted. Pure.
 *
 * A thread copies the WAL (copier.h), so that no commit waits for it (measured: the p99 of a
 * commit is 7.6 ms with the checkpoint in its path, 1.4 ms without). Beside a steady writer
 * that thread never reaches the end of the WAL. Past WAL_LIMIT_BYTES the loop therefore
 * copies the rest itself between two turns: as soon as the rest is short, and past twice the
 * limit in any case.
 *
 * The last free space of a disk is for data, not for its WAL: when space is short the WAL is
 * restarted sooner, and when there is none, after each commit.
 *
 * A snapshot of a replicated file begins when the whole WAL is in the file. When one is wanted, the WAL is restarted as soon as the rest is short. */
#ifndef STORE_WAL_H
#define STORE_WAL_H

#include "rc.h"

enum {
    /* Bytes that are not copied and are worth waking the thread. A page that is written
     * again meanwhile is copied only once; waiting gains nothing for the others. */
    WAL_PIECE_BYTES = 4 * 1024 * 1024,
    WAL_REST_BYTES =
        1024 * 1024, /* bytes that are not copied and few enough for the loop */
    WAL_LIMIT_BYTES = 32 * 1024 * 1024,
    /* The limit while the file is checked (checker.h). */
    WAL_MAX_BYTES = 512 * 1024 * 1024,
    WAL_FREE_PART = 16, /* of the space that is left, if that is less */
};

struct wal {
    int64_t piece_bytes; /* WAL_PIECE_BYTES, or less */
    int64_t bytes;       /* its length */
    int64_t
        held_bytes; /* its length when a reader prevented the restart; 0: no reader did */
    int64_t rest_bytes; /* not copied yet; negative: it is being copied */
    int64_t free_bytes; /* free on the disk */
    bool wanted;        /* all of it should be in the file soon */
};

enum wal_step { WAL_LEAVE, WAL_COPY, WAL_BEGIN_ANEW };
enum wal_step wal_step(const struct wal *w);
/* It could not be restarted: is it time to interrupt the reader? */
bool wal_presses(const struct wal *w);

#endif
