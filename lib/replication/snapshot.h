/* snapshot: the content of a database in the engine, in parts, so that a host without the file, or with another one, can become a standby.
 *
 * As a base backup of PostgreSQL it is a mixture, which the log completes. It begins between two turns, when the whole write-ahead log is in the file
 * (wal_begin_anew()) and in the engine's log, at position n. From then on each page of the *file*, without its write-ahead log, is as of turn n or of a later one that
 * is in the engine's log, because the checkpoint copies only those. So the parts are read from the file one by one while turns go on. Who restores them applies the log from turn n + 1, and
 * has one content from `whole_from` on, the last turn in the log when the last part was read. A page that the checkpoint was writing while it was read is of one of these turns, too.
 *
 * So no second copy is on the disk, no read transaction holds the write-ahead log for the time of gigabytes (sqlite3_backup needs either), and a turn waits for one part at
 * most, SNAPSHOT_PART_BYTES.
 *
 * Each step is at most one call of the engine and one part of memory. */
#ifndef REPLICATION_SNAPSHOT_H
#define REPLICATION_SNAPSHOT_H

#include "engine.h"
#include <sqlite3.h>

enum { SNAPSHOT_PART_BYTES = SEAL_ONE_PART_BYTES };

enum snapshot_step {
    SNAPSHOT_MORE, /* call it again */
    SNAPSHOT_DONE,
    SNAPSHOT_WAIT, /* call it again later: the engine does not respond, or the disk is full (`why`) */
    SNAPSHOT_NO_ROW, /* making one: this process may own the store no longer; judge. Restoring: there is none in the engine */
    SNAPSHOT_DAMAGED, /* it is not what was written, or has another key (`why`) */
};

struct snapshot_place {
    const struct engine_ops *ops;
    struct engine *engine;
    struct sealer *sealer;
    const char *process;
};

/* Whether the active should make one: there is none, or the log since it is as large as it is. `turns`: since it; `turn_bytes`: the average of a turn in the log;
 * `stored_bytes`: of its parts. Both are as they are stored, compressed. Pure. */
bool snapshot_due(bool has_one, int64_t turns, int64_t turn_bytes,
                  int64_t stored_bytes);

/* The newest snapshot with a manifest: its turn, and the bytes of its parts as they are stored. SNAPSHOT_DONE, _NO_ROW, _WAIT; _DAMAGED: its manifest has another key or history, and
 * only *n is set. */
enum snapshot_step snapshot_newest(const struct snapshot_place *place,
                                   const uint8_t history[HISTORY_BYTES],
                                   int64_t *n, int64_t *bytes,
                                   char why[ENGINE_WHY_BYTES]);

/* ---- the active ---- */

struct snapshot_maker;

/* `at`: of a turn that is in the engine's log, and the file has all turns up to it: the last turn, when the write-ahead log was copied as a whole between two turns. Later turns may have been
 * copied since. `h`: a connection to the file of the thread that makes the steps; only its file is read. It is borrowed, as `place` is. */
struct snapshot_maker *snapshot_begin(const struct snapshot_place *place,
                                      sqlite3 *h, const struct position *at,
                                      int schema);
void snapshot_end(struct snapshot_maker *m); /* NULL is allowed */
/* `in_log`: the last turn that is in the engine's log now. Deletes what a snapshot has left that was not completed; reads and writes all parts, then the manifest; reads all of it back and
 * compares; then deletes the snapshots before the last one, and the turns up to that one. Never ends a snapshot that was replaced by another owner: each call compares `mine`. After SNAPSHOT_DAMAGED begin another one, at a later position; the older ones are
 * still there. */
enum snapshot_step snapshot_step(struct snapshot_maker *m,
                                 const struct tenure *mine,
                                 const struct position *in_log,
                                 char why[ENGINE_WHY_BYTES]);
/* Parts written and read back (each counts twice), and how many that will be. */
void snapshot_progress(const struct snapshot_maker *m, int64_t *parts,
                       int64_t *all);
/* After SNAPSHOT_DONE: the bytes of its parts, as they are stored. */
int64_t snapshot_bytes(const struct snapshot_maker *m);

/* ---- a standby ---- */

struct snapshot_restore;

/* Restores the newest snapshot into this file, which does not exist. Until SNAPSHOT_DONE it is FILE-restoring; a crash begins again. */
struct snapshot_restore *
snapshot_restore_begin(const struct snapshot_place *place,
                       const uint8_t history[HISTORY_BYTES],
                       const char *db_path);
void snapshot_restore_end(struct snapshot_restore *r); /* NULL is allowed */
enum snapshot_step snapshot_restore_step(struct snapshot_restore *r,
                                         char why[ENGINE_WHY_BYTES]);
/* Of what is being restored, for status. */
void snapshot_restore_progress(const struct snapshot_restore *r, int64_t *parts,
                               int64_t *all);

#endif
