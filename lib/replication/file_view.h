/* file_view: a database as its file and the first frames of its write-ahead log have it. Neither is locked, changed or recovered.
 *
 * Not for a file that this process has open with SQLite: closing it here would drop SQLite's locks. */
#ifndef REPLICATION_FILE_VIEW_H
#define REPLICATION_FILE_VIEW_H

#include "turn.h"
#include <sqlite3.h>

struct file_view;

/* NULL: there is no such file, or it is empty. */
struct file_view *file_view_open(const char *db_path);
void file_view_close(struct file_view *v); /* NULL is allowed */

/* Of the file's header; 0: it is not a database. */
uint32_t file_view_page_bytes(const struct file_view *v);
/* Whether the header says that a write-ahead log belongs to the file. A backup's header does not. */
bool file_view_has_wal_header(const struct file_view *v);
int64_t
file_view_bytes(const struct file_view *v); /* of the file, without its log */
/* The frames of the log up to the end of its last complete transaction. What follows the first frame with a wrong checksum is not counted. 0: none, or there is no log. */
uint32_t file_view_frames(const struct file_view *v);
/* The page in this frame (from 1), and the size of the database in pages if the frame ends a transaction, else 0. */
uint32_t file_view_frame_page(const struct file_view *v, uint32_t frame);
uint32_t file_view_frame_size(const struct file_view *v, uint32_t frame);
/* Reads a frame's page. false: it cannot be read any more. */
bool file_view_image(const struct file_view *v, uint32_t frame, void *to);
/* The last image of each page in the frames after `after`, up to `frames`, by page, without pages behind the end of the database and the one that SQLite locks: the upper half of
 * each is the page, the lower the frame. `frames` ends a transaction. The caller frees it. */
uint64_t *file_view_images(const struct file_view *v, uint32_t after,
                           uint32_t frames, size_t *count);

/* A connection that reads the file and the first `frames` frames, which end a transaction. NULL: it cannot be opened. One connection of a
 * view at a time; close it with sqlite3_close() before the view. */
sqlite3 *file_view_sql(struct file_view *v, uint32_t frames);

/* The row that each turn writes: `replicated(history, n, chain)`. */
struct replicated_row {
    enum {
        ROW_NONE, /* no such table, or it is empty */
        ROW_FOUND,
        ROW_UNREADABLE, /* SQLite cannot read the file: pages of several turns are in it, or it is damaged */
    } state;
    uint8_t history[HISTORY_BYTES];
    int64_t n;
    uint8_t chain[CHAIN_BYTES]; /* before turn n */
    uint32_t
        page; /* where the row is; the same as long as the table exists. 0: there is no table */
};
void file_view_row(struct file_view *v, uint32_t frames,
                   struct replicated_row *out);
/* The same for frames in the middle of the log (0: the file alone), when the checkpoint may have copied newer pages: SQLite could not read such a mixture, so only
 * the row's page is looked at. `page`: of file_view_row() with all frames. ROW_UNREADABLE: it is a page of something else. */
void file_view_row_at(const struct file_view *v, uint32_t frames, uint32_t page,
                      struct replicated_row *out);

#endif
