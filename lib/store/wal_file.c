/* wal_file: reads the header and the frames of a write-ahead log. */
#include "wal_file.h"
#include "alloc.h"
#include <endian.h>
#include <stdlib.h>
#include <string.h>

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

bool wal_file_read(struct wal_file *w)
{
    return fread(w->frame, WAL_FRAME_HEADER_BYTES + w->page_bytes, 1,
                 w->file) == 1;
}

bool wal_file_is_valid(const struct wal_file *w, struct wal_sums before)
{
    struct wal_sums s = add(before, w->frame, 8, w->big_endian);

    s = add(s, wal_file_bytes(w), w->page_bytes, w->big_endian);
    return memcmp(w->frame + 8, w->salts, WAL_SALTS_BYTES) == 0 &&
           same(s, wal_file_sums(w));
}

struct wal_sums wal_file_sums(const struct wal_file *w)
{
    return stored(w->frame + 8 + WAL_SALTS_BYTES);
}

bool wal_file_is_commit(const struct wal_file *w)
{
    return word(w->frame + 4) != 0 &&
           memcmp(w->frame + 8, w->salts, WAL_SALTS_BYTES) == 0;
}

uint32_t wal_file_page(const struct wal_file *w)
{
    return word(w->frame);
}

const uint8_t *wal_file_bytes(const struct wal_file *w)
{
    return w->frame + WAL_FRAME_HEADER_BYTES;
}
