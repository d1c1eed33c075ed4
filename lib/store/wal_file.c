/* wal_file: reads the header and the frames of a write-ahead log. */
#include "wal_file.h"
#include "alloc.h"
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC \
    0x377f0682U /* its last bit says that checksums are of big-endian words */

static uint32_t word(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return be32toh(v);
}

static struct wal_sums stored(const uint8_t *p)
{
    return (struct wal_sums){word(p), word(p + 4)};
}

static bool same(struct wal_sums x, struct wal_sums y)
{
    return x.a == y.a && x.b == y.b;
}

static struct wal_sums add(struct wal_sums s, const uint8_t *p, size_t n,
                           bool big_endian)
{
    for (const uint8_t *end = p + n; p < end; p += 8) {
        uint32_t x, y;

        memcpy(&x, p, sizeof x);
        memcpy(&y, p + 4, sizeof y);
        s.a += (big_endian ? be32toh(x) : le32toh(x)) + s.b;
        s.b += (big_endian ? be32toh(y) : le32toh(y)) + s.a;
    }
    return s;
}

bool wal_file_is_page_size(uint32_t n)
{
    return n >= 512 && n <= WAL_PAGE_MAX_BYTES && (n & (n - 1)) == 0;
}

struct wal_file *wal_file_open(const char *db_path, bool *good)
{
    char *path = gr_printf("%s-wal", db_path);
    FILE *file = fopen(path, "rbe");
    uint8_t head[WAL_HEADER_BYTES];
    struct wal_file *w = NULL;

    free(path);
    if (file && fread(head, sizeof head, 1, file) == 1) {
        w = gr_alloc(sizeof *w);
        w->file = file;
        memcpy(w->header, head, sizeof head);
        w->big_endian = word(head) & 1;
        w->page_bytes = word(head + 8);
        w->sums = add((struct wal_sums){0, 0}, head,
                      WAL_HEADER_BYTES - WAL_SUMS_BYTES, w->big_endian);
        memcpy(w->salts, head + 16, WAL_SALTS_BYTES);
        *good = (word(head) & ~1U) == MAGIC &&
                wal_file_is_page_size(w->page_bytes) &&
                same(w->sums, stored(head + WAL_HEADER_BYTES - WAL_SUMS_BYTES));
    } else if (file) {
        fclose(file);
    }
    return w;
}

void wal_file_close(struct wal_file *w)
{
    if (w)
        fclose(w->file);
    free(w);
}

/* All `n` bytes at this place; false: the file is shorter, or cannot be read. */
static bool read_at(int fd, void *to, size_t n, off_t at)
{
    char *p = to;

    while (n) {
        ssize_t got = pread(fd, p, n, at);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        p += got;
        n -= (size_t)got;
        at += got;
    }
    return true;
}

bool wal_file_is_current(const struct wal_file *w)
{
    uint8_t head[WAL_HEADER_BYTES];
    int fd = fileno(w->file);
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_nlink > 0 &&
           read_at(fd, head, sizeof head, 0) &&
           memcmp(head, w->header, sizeof head) == 0;
}

size_t wal_file_frame_bytes(const struct wal_file *w)
{
    return WAL_FRAME_HEADER_BYTES + (size_t)w->page_bytes;
}

bool wal_file_read(struct wal_file *w)
{
    return fread(w->frame, wal_file_frame_bytes(w), 1, w->file) == 1;
}

bool wal_file_read_at(const struct wal_file *w, uint32_t first, uint32_t count,
                      uint8_t *out)
{
    size_t n = wal_file_frame_bytes(w);

    return read_at(fileno(w->file), out, count * n,
                   WAL_HEADER_BYTES + (off_t)(first - 1) * (off_t)n);
}

/* ---- one frame ---- */

bool wal_frame_is_valid(const struct wal_file *w, const uint8_t *frame,
                        struct wal_sums before)
{
    struct wal_sums s = add(before, frame, 8, w->big_endian);

    s = add(s, frame + WAL_FRAME_HEADER_BYTES, w->page_bytes, w->big_endian);
    return memcmp(frame + 8, w->salts, WAL_SALTS_BYTES) == 0 &&
           same(s, wal_frame_sums(frame));
}

struct wal_sums wal_frame_sums(const uint8_t *frame)
{
    return stored(frame + 8 + WAL_SALTS_BYTES);
}

uint32_t wal_frame_page(const uint8_t *frame)
{
    return word(frame);
}

uint32_t wal_frame_size_pages(const uint8_t *frame)
{
    return word(frame + 4);
}

bool wal_file_is_valid(const struct wal_file *w, struct wal_sums before)
{
    return wal_frame_is_valid(w, w->frame, before);
}

struct wal_sums wal_file_sums(const struct wal_file *w)
{
    return wal_frame_sums(w->frame);
}

bool wal_file_is_commit(const struct wal_file *w)
{
    return wal_frame_size_pages(w->frame) != 0 &&
           memcmp(w->frame + 8, w->salts, WAL_SALTS_BYTES) == 0;
}

uint32_t wal_file_page(const struct wal_file *w)
{
    return wal_frame_page(w->frame);
}

const uint8_t *wal_file_bytes(const struct wal_file *w)
{
    return w->frame + WAL_FRAME_HEADER_BYTES;
}
