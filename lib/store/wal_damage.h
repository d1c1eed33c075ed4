/* wal_damage: says whether the write-ahead log that a crash left is complete.
 *
 * SQLite reads a WAL up to the first frame with a wrong checksum and takes that for its
 * end. After a crash in the middle of a write that is right. But a commit is synced before
 * the next one is written. So if a wrong frame is followed by valid frames and a commit,
 * the disk has changed it, and SQLite would drop all later commits silently.
 * Source of the format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log */
#ifndef STORE_WAL_DAMAGE_H
#define STORE_WAL_DAMAGE_H

#include <stdbool.h>
#include <stdint.h>

struct wal_damage {
    int64_t frame;   /* the first wrong frame, from 1; 0: the header */
    int64_t frames;  /* the number of valid frames after it */
    int64_t commits; /* the number of transactions that end in it or after it */
    /* true: a crash cannot cause it. false: the only commit after it is the last one, which
     * a power cut can leave partly written. */
    bool certain;
};

/* Reads the -wal of this database, without SQLite, before SQLite opens it. true: there are
 * valid frames after a wrong one. false: there are none, or there is no WAL. */
bool wal_damage_find(const char *db_path, struct wal_damage *out);
/* The same, and logs a warning. */
void wal_damage_warn(const char *db_path);

#endif
