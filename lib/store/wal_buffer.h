/* wal_buffer: writes the write-ahead log of a SQLite file in large pieces.
 *
 * SQLite writes each page of a commit with two system calls: 24 bytes of header, then the
 * page. Here they are collected, and written when SQLite syncs or reads the log, or when
 * the buffer is full. Nothing is weaker for that: SQLite publishes the pages of a commit
 * only after the call of xSync, which `synchronous = FULL` guarantees, and a crash before that loses
 * a commit that has not returned. An error of a collected write is returned by the call
 * that writes it, in a commit by the sync. */
#ifndef STORE_WAL_BUFFER_H
#define STORE_WAL_BUFFER_H

#include <sqlite3.h>
#include <stdbool.h>

/* The name to open a connection with (sqlite3_open_v2) that writes or checkpoints. Only its write-ahead
 * log is different, and its checkpoints are guarded (checkpoint_guard.h): connections that were opened in
 * another way may use the same file. Call it from one thread. */
const char *wal_buffer_vfs(void);

/* `wal` is the log of such a connection. While this is on, COMMIT writes the log and need not sync it. Before
 * anybody is told of the commit, xSync of `wal` must succeed; it may run in another thread while
 * the connection reads. */
void wal_buffer_defer_sync(sqlite3_file *wal, bool on);

#endif
