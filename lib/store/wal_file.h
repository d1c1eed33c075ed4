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
    struct wal_sums sums; /* what the next frame's checksum begins with */
    uint8_t frame[WAL_FRAME_HEADER_BYTES + WAL_PAGE_MAX_BYTES];
};

/* Open the log of this database. NULL: there is none, or it has not even a header.
 * *good: its header is whole, and the first frame is next. */
struct wal_file *wal_file_open(const char *db_path, bool *good);
void wal_file_close(struct wal_file *w); /* NULL will do */

/* Read the next frame, whatever it holds; false: no whole one is left. */
bool wal_file_read(struct wal_file *w);
/* The frame belongs to this log, and its checksum, begun with `before`, is right. */
bool wal_file_is_valid(const struct wal_file *w, struct wal_sums before);
/* The frame's own checksum. */
struct wal_sums wal_file_sums(const struct wal_file *w);
/* The frame ends a transaction. */
bool wal_file_is_commit(const struct wal_file *w);
/* Which page it holds, from 1, and that page. */
uint32_t wal_file_page(const struct wal_file *w);
const uint8_t *wal_file_bytes(const struct wal_file *w);

bool wal_file_is_page_size(uint32_t bytes);

#endif
