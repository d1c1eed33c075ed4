/* wal_damage: says whether the write-ahead log that a crash left is whole.
 *
 * SQLite reads a WAL up to the first frame with a wrong checksum and takes that for its end.
 * After a crash in the middle of a write that is right. But a commit is synced before the
 * next one is written, so a wrong frame with a commit and further valid frames behind it was
 * changed by the disk, and SQLite would drop all later commits silently.
 * Source of the format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log */
#ifndef STORE_WAL_DAMAGE_H
#define STORE_WAL_DAMAGE_H

#include <stdbool.h>
#include <stdint.h>

struct wal_damage {
    int64_t frame;   /* the first wrong one, from 1; 0: the header */
    int64_t frames;  /* valid ones behind it */
    int64_t commits; /* transactions that end at it or behind it */
    /* true: a crash can't do that. false: the only commit behind it is the last one,
     * which a power cut can leave written in part. */
    bool certain;
};

/* Reads the -wal of this database, without SQLite; before SQLite opens it. true: valid
 * frames are behind a wrong one. false: none are, or there is no WAL to read. */
bool wal_damage_find(const char *db_path, struct wal_damage *out);
/* The same, and says so in the log. */
void wal_damage_warn(const char *db_path);

#endif
