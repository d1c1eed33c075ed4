/* archive: what a process has that stores events and sends them to the sequencer: the archive of
 * accepted requests, which is the log of its link, and what commands ask about it.
 *
 * A process that uses it has a `struct archive` as the first member of its own struct, so that the
 * commands of this folder get it as `self`, and `.read`s archive.sql in its store.sql. It calls
 * archive_open() in its open(), archive_undo() in undo() and archive_close() in close(). All rows
 * are written in the turn's transaction; after a crash the rows of the last commit are there. */
#ifndef ARCHIVE_H
#define ARCHIVE_H

#include "archive_space.h"
#include "archive_store.h"
#include "daemon.h"
#include "ulid.h"
#include "watermark.h"

#define SEQUENCER "sequencer" /* the process that gets the events */

enum {
    KIND_ARCHIVED = 1, /* kind of its rows on the link */
    /* For `page_bytes` of the schema: rows have a kilobyte or two and are appended. With pages
     * larger than SQLite's default a commit writes half as many pages; with still larger ones it
     * writes more bytes. */
    ARCHIVE_PAGE_BYTES = 8 * 1024,
};

struct archive {
    struct daemon *daemon; /* set before daemon_start() */
    struct archive_store store;
    struct archive_space space;
    struct ulid ids; /* of new events and actions */
    struct watermark watermark;
    struct replay_reading *replaying; /* of the running job, or NULL */
    int64_t replayed; /* events that were sent again since the start */
};

/* Prepares statements, owns the link's log, and continues ids after the last one on disk. */
void archive_open(struct archive *a);
/* After a rollback: reads again what memory holds about the rows. */
void archive_undo(struct archive *a);
void archive_close(struct archive *a);

/* The age of the oldest event that the sequencer has not processed; 0: there is none. Reads a
 * row. */
int64_t archive_oldest_ms(struct archive *a);

#endif
