/* turn_pages: reads the new frames of a write-ahead log, and makes one turn of them. */
#include "turn_pages.h"
#include "wal_file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Frames are read in pieces of this size, and the last piece is kept until the form is made. A turn of usual size is one
 * piece, so each of its frames is read once. */
enum { PIECE_BYTES = 4 * 1024 * 1024 };

struct turn_pages {
    char *db_path;
    struct wal_file *log; /* NULL: not opened yet */
    uint32_t frames;      /* that were read before */
    struct wal_sums sums; /* in the last of them */
    uint8_t *piece;
    size_t piece_cap;
    uint32_t piece_first; /* its first frame, from 1 */
    /* Of each new frame: the page's number in the upper half, the frame's in the lower. Sorted, the last image of a
     * page comes last. */
    uint64_t *images;
    size_t image_count, image_cap;
};

struct turn_pages *turn_pages_open(const char *db_path)
{
    struct turn_pages *t = gr_alloc(sizeof *t);

    t->db_path = gr_strdup(db_path);
    return t;
}

void turn_pages_close(struct turn_pages *t)
{
    if (!t)
        return;
    wal_file_close(t->log);
    free(t->db_path);
    free(t->piece);
    free(t->images);
    free(t);
}

void turn_pages_salts(const struct turn_pages *t, uint8_t salts[8])
{
    if (t->log)
        memcpy(salts, t->log->salts, WAL_SALTS_BYTES);
    else
        memset(salts, 0, WAL_SALTS_BYTES);
}

static uint32_t page_of(uint64_t image)
{
    return (uint32_t)(image >> 32);
}

static uint32_t frame_of(uint64_t image)
{
    return (uint32_t)image;
}

GR_PRINTF(2, 3) static gr_rc refuse(char why[200], const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, 200, fmt, ap);
    va_end(ap);
    return GR_REFUSE;
}

/* Opens the log if it is another one than at the last read. The header is 32 bytes, which are compared at each read. */
static gr_rc look_for_new_log(struct turn_pages *t, char why[200])
{
    bool good = false;

    if (t->log && wal_file_is_current(t->log))
        return GR_OK;
    wal_file_close(t->log);
    t->log = wal_file_open(t->db_path, &good);
    if (!t->log || !good)
        return refuse(why, "the write-ahead log %s",
                      t->log ? "has a damaged header"
                             : "is missing or has no header");
    t->frames = 0;
    t->sums = t->log->sums;
    return GR_OK;
}

static const uint8_t *in_piece(const struct turn_pages *t, uint32_t frame)
{
    return t->piece + (frame - t->piece_first) * wal_file_frame_bytes(t->log);
}

/* Checks one frame of the piece, and notes its page. */
static gr_rc take_frame(struct turn_pages *t, uint32_t frame,
                        struct wal_sums *sums, char why[200])
{
    const uint8_t *p = in_piece(t, frame);

    if (!wal_frame_is_valid(t->log, p, *sums))
        return refuse(why,
                      "frame %u of the write-ahead log has a wrong checksum or "
                      "belongs to an older log",
                      frame);
    if (!wal_frame_page(p))
        return refuse(why, "frame %u of the write-ahead log has page number 0",
                      frame);
    *sums = wal_frame_sums(p);
    t->images[t->image_count++] = (uint64_t)wal_frame_page(p) << 32 | frame;
    return GR_OK;
}

/* Reads the frames after t->frames, up to this one. */
static gr_rc take_frames(struct turn_pages *t, uint32_t frames,
                         struct wal_sums *sums, char why[200])
{
    size_t frame_bytes = wal_file_frame_bytes(t->log);
    uint32_t in_a_piece = (uint32_t)(PIECE_BYTES / frame_bytes), count;

    for (uint32_t first = t->frames + 1; first - 1 < frames; first += count) {
        count = frames - first + 1;
        if (count > in_a_piece)
            count = in_a_piece;
        if (count * frame_bytes > t->piece_cap) {
            t->piece_cap = count * frame_bytes;
            t->piece = gr_realloc(t->piece, t->piece_cap);
        }
        if (!wal_file_read_at(t->log, first, count, t->piece))
            return refuse(why,
                          "the write-ahead log ends before frame %u, or "
                          "cannot be read",
                          first + count - 1);
        t->piece_first = first;
        for (uint32_t i = 0; i < count; i++) {
            gr_rc rc = take_frame(t, first + i, sums, why);

            if (rc != GR_OK)
                return rc;
        }
    }
    return GR_OK;
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Leaves the last image of each page that belongs to a file of this size. The page that SQLite locks has no content. */
static void choose_images(struct turn_pages *t, uint32_t size_pages)
{
    uint32_t locked = turn_locked_page(t->log->page_bytes);
    size_t kept = 0;

    qsort(t->images, t->image_count, sizeof *t->images, compare);
    for (size_t i = 0; i < t->image_count; i++) {
        uint32_t page = page_of(t->images[i]);

        if (i + 1 < t->image_count && page_of(t->images[i + 1]) == page)
            continue;
        if (page <= size_pages && page != locked)
            t->images[kept++] = t->images[i];
    }
    t->image_count = kept;
}

/* NULL: the frame cannot be read any more. */
static const uint8_t *image_in(struct turn_pages *t, uint32_t frame)
{
    if (frame >= t->piece_first)
        return in_piece(t, frame) + WAL_FRAME_HEADER_BYTES;
    return wal_file_read_at(t->log, frame, 1, t->log->frame)
               ? wal_file_bytes(t->log)
               : NULL;
}

static gr_rc put_turn(struct turn_pages *t, const struct position *at,
                      uint32_t size_pages, struct buf *form, char why[200])
{
    size_t before = form->len;
    struct turn_head head = {.n = at->n + 1,
                             .size_pages = size_pages,
                             .page_bytes = t->log->page_bytes,
                             .page_count = (uint32_t)t->image_count};

    memcpy(head.history, at->history, HISTORY_BYTES);
    if (form->failed || turn_bytes(&head) > form->max - before)
        return refuse(why,
                      "turn %lld has %u pages of %u bytes; it may have %zu "
                      "bytes",
                      (long long)head.n, head.page_count, head.page_bytes,
                      form->max - before);
    turn_put_head(form, &head);
    for (size_t i = 0; i < t->image_count; i++) {
        uint32_t frame = frame_of(t->images[i]);
        const uint8_t *image = image_in(t, frame);

        if (!image) {
            form->len = before;
            form->data[before] = 0;
            return refuse(why, "frame %u of the write-ahead log cannot be read",
                          frame);
        }
        turn_put_page(form, page_of(t->images[i]), image, head.page_bytes);
    }
    return GR_OK;
}

gr_rc turn_pages_read(struct turn_pages *t, const struct position *at,
                      uint32_t frames, struct buf *form, char why[200])
{
    gr_rc rc = look_for_new_log(t, why);
    struct wal_sums sums;
    uint32_t size_pages;

    if (rc != GR_OK)
        return rc;
    if (frames <= t->frames)
        return refuse(why,
                      "SQLite reported %u frames in the write-ahead log, but "
                      "%u were read before",
                      frames, t->frames);
    if (frames - t->frames > t->image_cap) {
        t->image_cap = frames - t->frames;
        t->images = gr_realloc(t->images, t->image_cap * sizeof *t->images);
    }
    t->image_count = 0;
    sums = t->sums;
    rc = take_frames(t, frames, &sums, why);
    if (rc != GR_OK)
        return rc;
    size_pages = wal_frame_size_pages(in_piece(t, frames));
    if (!size_pages)
        return refuse(why,
                      "frame %u of the write-ahead log does not end a "
                      "transaction",
                      frames);
    choose_images(t, size_pages);
    rc = put_turn(t, at, size_pages, form, why);
    if (rc == GR_OK) {
        t->frames = frames;
        t->sums = sums;
    }
    return rc;
}
