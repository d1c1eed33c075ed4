#include "wal_damage.h"
#include "alloc.h"
#include "log.h"
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADER_BYTES = 32,
    FRAME_HEADER_BYTES = 24,
    SALTS_BYTES = 8,
    SUMS_BYTES = 8,
    PAGE_MOST_BYTES = 65536,
    DB_PAGE_SIZE_AT = 16, /* in a database's header; two bytes, 1: 65536 */
};

#define MAGIC 0x377f0682U /* its last bit: checksums are of big-endian words */

struct sums {
    uint32_t a, b;
};

struct log_reader {
    FILE *file;
    uint32_t page_bytes;
    bool big_endian;
    uint8_t salts[SALTS_BYTES];
    uint8_t frame[FRAME_HEADER_BYTES + PAGE_MOST_BYTES];
};

static uint32_t word(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return be32toh(v);
}

static struct sums stored(const uint8_t *p)
{
    return (struct sums){word(p), word(p + 4)};
}

static bool same(struct sums x, struct sums y)
{
    return x.a == y.a && x.b == y.b;
}

static struct sums add(struct sums s, const uint8_t *p, size_t n,
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

static bool is_page_size(uint32_t n)
{
    return n >= 512 && n <= PAGE_MOST_BYTES && (n & (n - 1)) == 0;
}

static uint32_t page_bytes_of(const char *db_path)
{
    FILE *file = fopen(db_path, "rbe");
    uint8_t head[DB_PAGE_SIZE_AT + 2];
    uint32_t n = 0;

    if (file && fread(head, sizeof head, 1, file) == 1)
        n = (uint32_t)head[DB_PAGE_SIZE_AT] << 8 | head[DB_PAGE_SIZE_AT + 1];
    if (file)
        fclose(file);
    return n == 1 ? PAGE_MOST_BYTES : n;
}

static bool read_frame(struct log_reader *r)
{
    return fread(r->frame, FRAME_HEADER_BYTES + r->page_bytes, 1, r->file) == 1;
}

/* With the checksum in the frame before this one. */
static bool is_valid(const struct log_reader *r, struct sums before)
{
    struct sums s = add(before, r->frame, 8, r->big_endian);

    s = add(s, r->frame + FRAME_HEADER_BYTES, r->page_bytes, r->big_endian);
    return memcmp(r->frame + 8, r->salts, SALTS_BYTES) == 0 &&
           same(s, stored(r->frame + 8 + SALTS_BYTES));
}

static bool is_commit(const struct log_reader *r)
{
    return word(r->frame + 4) != 0 &&
           memcmp(r->frame + 8, r->salts, SALTS_BYTES) == 0;
}

/* From the first wrong frame on, which is read: a chain of its own begins behind each
 * frame, as each holds the checksum that the next one's begins with. */
static void count_behind(struct log_reader *r, struct wal_damage *out)
{
    bool ended = is_commit(r);

    out->commits += ended;
    for (;;) {
        struct sums before = stored(r->frame + 8 + SALTS_BYTES);

        if (!read_frame(r))
            return;
        if (!is_valid(r, before))
            continue;
        out->frames++;
        out->certain |= ended;
        if (is_commit(r)) {
            out->commits++;
            ended = true;
        }
    }
}

/* A wrong header makes all of it void. Its frames say themselves what belongs together;
 * of a log that was begun anew the old frames are still there, but its header is one
 * sector, which is written or not. */
static void count_all(struct log_reader *r, const char *db_path,
                      struct wal_damage *out)
{
    r->page_bytes = page_bytes_of(db_path);
    r->big_endian = false;
    if (!is_page_size(r->page_bytes) || !read_frame(r))
        return;
    memcpy(r->salts, r->frame + 8, SALTS_BYTES);
    count_behind(r, out);
    out->certain = out->frames > 0;
    out->frames += out->frames > 0; /* the first */
}

static void look(struct log_reader *r, const char *db_path,
                 struct wal_damage *out)
{
    uint8_t head[HEADER_BYTES];
    struct sums sums;

    if (fread(head, sizeof head, 1, r->file) != 1)
        return;
    r->big_endian = word(head) & 1;
    r->page_bytes = word(head + 8);
    sums = add((struct sums){0, 0}, head, HEADER_BYTES - SUMS_BYTES,
               r->big_endian);
    if ((word(head) & ~1U) != MAGIC || !is_page_size(r->page_bytes) ||
        !same(sums, stored(head + HEADER_BYTES - SUMS_BYTES))) {
        count_all(r, db_path, out);
        return;
    }
    memcpy(r->salts, head + 16, SALTS_BYTES);
    for (out->frame = 1; read_frame(r); out->frame++) {
        if (!is_valid(r, sums)) {
            count_behind(r, out);
            return;
        }
        sums = stored(r->frame + 8 + SALTS_BYTES);
    }
}

bool wal_damage_find(const char *db_path, struct wal_damage *out)
{
    char *path = gr_printf("%s-wal", db_path);
    struct log_reader *r = gr_alloc(sizeof *r);

    *out = (struct wal_damage){0};
    r->file = fopen(path, "rbe");
    if (r->file) {
        look(r, db_path, out);
        fclose(r->file);
    }
    free(r);
    free(path);
    return out->frames > 0;
}

void wal_damage_warn(const char *db_path)
{
    struct wal_damage d;

    if (!wal_damage_find(db_path, &d))
        return;
    log_warn(NULL,
             d.certain
                 ? "the write-ahead log is damaged: the commits from that "
                   "frame on are lost in this file. What other processes still "
                   "have is sent again. Check the disk, then run `grapnel "
                   "verify`"
                 : "the last commit in the write-ahead log is incomplete: the "
                   "power failed while it was written, or the disk has damaged "
                   "it. What other processes still have is sent again",
             LS("file", db_path), LI("frame", d.frame),
             LI("frames_lost", d.frames), LI("commits_lost", d.commits));
}
