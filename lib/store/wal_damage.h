/* wal_damage: is a write-ahead log that a crash left behind whole?
 *
 * SQLite reads a WAL up to the first frame whose checksum is wrong, and takes that for
 * its end: so it is after a crash while a transaction was written. But a commit is
 * synced before the next one is written. Where a commit lies behind a wrong frame, and
 * valid frames behind that, the disk has changed what was on it, and SQLite drops all
 * commits from there on without a word.
 * Source of the format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log */
#ifndef BASE_WAL_DAMAGE_H
#define BASE_WAL_DAMAGE_H

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
