/* checkpoint_guard: lets no checkpoint copy from a write-ahead log that was restarted after it had begun.
 *
 * SQLite 3.7.0 to 3.51.2 has a defect (https://sqlite.org/wal.html, "The WAL-Reset Bug"): a checkpoint reads the
 * header of the WAL; if the whole WAL is in the file, a commit may restart the WAL right then; the checkpoint goes on
 * by the old header, and marks pages of the new WAL as copied that are not. They are lost at the next restart. From
 * 3.51.3 on, a checkpoint compares the salts of its header with those of the WAL once it has the lock that
 * prevents a restart. This is the same comparison, made for the older library in a layer of its file system. It
 * holds against every other connection that commits or checkpoints, in this process or in another. */
#ifndef STORE_CHECKPOINT_GUARD_H
#define STORE_CHECKPOINT_GUARD_H

#include <sqlite3.h>
#include <stdint.h>

struct checkpoint_guard {
    uint32_t salts[2]; /* of the WAL when the present checkpoint began */
};

/* `f` is a database that SQLite's own layer has just opened (xOpen). Its guard is `guard_at` bytes behind the
 * beginning of `f`, and must live as long. All files have the same layer and the same `guard_at`. A refused
 * checkpoint copies nothing, as if a reader had prevented it. */
void checkpoint_guard_install(sqlite3_file *f, int guard_at);

#endif
