/* turn_pages: reads from the write-ahead log which pages the last commit has changed.
 *
 * It keeps its place in the log (frame, checksum, salts), so each read sees only the frames since the read before. */
#ifndef REPLICATION_TURN_PAGES_H
#define REPLICATION_TURN_PAGES_H

#include "turn.h"

struct turn_pages;

/* The place is the beginning of the log. The log may not exist yet. */
struct turn_pages *turn_pages_open(const char *db_path);
void turn_pages_close(struct turn_pages *t); /* NULL is allowed */

/* Reads to the commit that ends at `frames` frames (what SQLite's hook reported), and appends the form of one turn, with the number
 * after at->n, to `form`. If the log was begun anew, it begins at frame 1. GR_REFUSE: the log is not what the hook reported (a wrong
 * checksum, foreign salts, no commit at that frame, `form` is full), and `why` says it; the caller exits 74. */
GR_MUST_CHECK gr_rc turn_pages_read(struct turn_pages *t,
                                    const struct position *at, uint32_t frames,
                                    struct buf *form, char why[200]);
/* The log's salts as of the last read: what a position file stores. */
void turn_pages_salts(const struct turn_pages *t, uint8_t salts[8]);

#endif
