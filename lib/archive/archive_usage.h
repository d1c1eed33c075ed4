/* archive_usage: how many bytes of the archive each source has, so that a source that floods
 * loses its own processed requests before those of others; a part of archive_store.h.
 *
 * Kept in memory, and written about once a second and with each deletion. At a start, and after
 * a rollback, rows that came since the last write are counted again. Rows that an older version
 * stored are not counted: they are the oldest, and counting them would mean to read the whole
 * archive. */
#ifndef ARCHIVE_USAGE_H
#define ARCHIVE_USAGE_H

#include "bounds.h"
#include "db.h"

/* The size of a row beside headers and body. */
#define ARCHIVE_ROW_BYTES  100
#define ARCHIVE_TEXT_OF(x) #x
#define ARCHIVE_TEXT(x)    ARCHIVE_TEXT_OF(x)
/* Number, size and source of a row of the archive. Headers that several rows share count with
 * the last of them. */
#define ARCHIVE_SIZE                                                          \
    "n, length(headers) + length(body) + " ARCHIVE_TEXT(                      \
        ARCHIVE_ROW_BYTES) " + "                                              \
                           "CASE WHEN head = 0 THEN 0 ELSE ifnull((SELECT "   \
                           "length(h.headers) FROM "                          \
                           "heads h WHERE h.n = archive.head AND h.last_n = " \
                           "archive.n), 0) END, source"

struct usage_source {
    char name[NAME_MAX_BYTES + 1];
    int64_t bytes;
    bool changed; /* since the last write */
};

struct archive_usage {
    struct db *db;
    stmt *ends, *all, *rows, *put, *counted;
    struct usage_source *sources;
    size_t count;
    int64_t from_n;     /* rows up to this one are not counted, … */
    int64_t counted_n;  /* … those after it up to this one are */
    int64_t written_ms; /* mono */
};

void archive_usage_open(struct archive_usage *u, struct db *db);
void archive_usage_close(struct archive_usage *u);
/* After a rollback: continue from the rows on disk. */
void archive_usage_undo(struct archive_usage *u);

/* Row n is inserted; is deleted. */
void archive_usage_add(struct archive_usage *u, const char *source, int64_t n,
                       int64_t bytes);
void archive_usage_drop(struct archive_usage *u, const char *source, int64_t n,
                        int64_t bytes);
/* Inside a turn, after its deletions: write what changed. */
void archive_usage_write(struct archive_usage *u, int64_t mono_ms);

/* The source that has more than half of `limit_bytes`, if others have something, too; else
 * NULL. */
const char *archive_usage_flooder(const struct archive_usage *u,
                                  int64_t limit_bytes);

#endif
