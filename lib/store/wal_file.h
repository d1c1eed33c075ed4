/* wal_file: reads the frames of a write-ahead log without SQLite, which would recover, lock
 * and change the file.
 * Source of the format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log */
#ifndef STORE_WAL_FILE_H
#define STORE_WAL_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    WAL_HEADER_BYTES = 32,
    WAL_FRAME_HEADER_BYTES = 24,
    WAL_SALTS_BYTES = 8,
    WAL_SUMS_BYTES = 8,
    WAL_PAGE_MAX_BYTES = 65536,
};

struct wal_sums {
    uint32_t a, b;
};

struct wal_file {
    FILE *file;
    uint32_t page_bytes;
    bool big_endian; /* its checksums are of big-endian words */
    uint8_t salts[WAL_SALTS_BYTES];
    struct wal_sums sums; /* the start value of the next frame's checksum */
    uint8_t header[WAL_HEADER_BYTES];
    uint8_t frame[WAL_FRAME_HEADER_BYTES + WAL_PAGE_MAX_BYTES];
};

/* Opens the log of this database. NULL: there is no log, or it is shorter than a header.
 * good: its header is valid, and the first frame is next. */
struct wal_file *wal_file_open(const char *db_path, bool *good);
void wal_file_close(struct wal_file *w); /* NULL is allowed */

/* Reads the next frame, whatever it contains; false: no complete one is left. */
bool wal_file_read(struct wal_file *w);
/* Whether the frame belongs to this log and its checksum, begun with `before`, is right. */
bool wal_file_is_valid(const struct wal_file *w, struct wal_sums before);
/* The checksum in the frame. */
struct wal_sums wal_file_sums(const struct wal_file *w);
/* Whether the frame ends a transaction. */
bool wal_file_is_commit(const struct wal_file *w);
/* The number of its page, from 1, and the page's bytes. */
uint32_t wal_file_page(const struct wal_file *w);
const uint8_t *wal_file_bytes(const struct wal_file *w);

bool wal_file_is_page_size(uint32_t bytes);

/* For a reader that knows how far it has read: it begins at any frame, with the checksum in the frame before it. */

/* Whether the log is still the one that was opened. false: it was begun anew or removed, or cannot be read. */
bool wal_file_is_current(const struct wal_file *w);
size_t wal_file_frame_bytes(const struct wal_file *w);
/* Reads `count` frames from frame `first` on (from 1) into `out`, as they are in the file. false: not all are there. What
 * wal_file_read() reads next stays the same. */
bool wal_file_read_at(const struct wal_file *w, uint32_t first, uint32_t count,
                      uint8_t *out);

/* A frame in memory: as the functions above. */
bool wal_frame_is_valid(const struct wal_file *w, const uint8_t *frame,
                        struct wal_sums before);
struct wal_sums wal_frame_sums(const uint8_t *frame);
uint32_t wal_frame_page(const uint8_t *frame);
/* If the frame ends a transaction, the size of the database in pages after it; else 0. */
uint32_t wal_frame_size_pages(const uint8_t *frame);

#endif
