/* series_file: reads and writes the file of series. */
#include "series_file.h"
#include "alloc.h"
#include "checksum.h"
#include "clock.h"
#include "hash.h"
#include "log.h"
#include "lookup.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HEADER_BYTES = 4096,
    CHUNK_BYTES = 24576, /* its place; it has up to 24016 */
    RING_CHUNKS = 1440,
    VALUES_MAX = SERIES_SLOTS * SERIES_CHUNK_SAMPLES,
};

/* Numbers are in this machine's byte order: a file from another machine is begun anew. */
static const struct {
    char says[24];
    uint32_t slots, samples, chunks, order;
} header = {"grapnel series file 1\n", SERIES_SLOTS, SERIES_CHUNK_SAMPLES,
            RING_CHUNKS, 0x01020304};

struct stored_name {
    uint64_t sum;
    int64_t since_ms;
    char name[SERIES_NAME_BYTES + 1];
};

struct chunk {
    struct {
        uint64_t sum;
        int64_t begin_ms;
        uint64_t slots;
    } head;
    float values[VALUES_MAX];
};
_Static_assert(sizeof(struct chunk) <= CHUNK_BYTES, "a chunk fits its place");

struct series_file {
    char *path;
    int fd; /* -1: it cannot be used */
    struct stored_name *names;
    int64_t *used_ms; /* when a slot was last given a value */
    int slot_count;
    struct lookup index;
    struct chunk now[SERIES_RINGS]; /* begin_ms 0: none yet */
    bool dirty[SERIES_RINGS], warned;
    struct chunk read;
};

int64_t series_step_ms(enum series_ring ring)
{
    return ring == SERIES_FINE ? 10 * SECOND_MS : 5 * MINUTE_MS;
}

int64_t series_chunk_ms(enum series_ring ring)
{
    return series_step_ms(ring) * SERIES_CHUNK_SAMPLES;
}

int64_t series_span_ms(enum series_ring ring)
{
    return series_chunk_ms(ring) * RING_CHUNKS;
}

/* ---- the file ---- */

static void warn(struct series_file *f, const char *why)
{
    if (!f->warned)
        log_warn(NULL,
                 "the values for charts cannot be stored; deliveries and "
                 "alerts do not need them",
                 LS("file", f->path), LS("error", why));
    f->warned = true;
}

static void write_at(struct series_file *f, off_t at, const void *p, size_t n)
{
    ssize_t done;

    if (f->fd < 0)
        return;
    done = pwrite(f->fd, p, n, at);
    if (done == (ssize_t)n)
        f->warned = false;
    else
        warn(f, done < 0 ? strerror(errno) : "the disk is full");
}

static bool read_at(const struct series_file *f, off_t at, void *p, size_t n)
{
    return f->fd >= 0 && pread(f->fd, p, n, at) == (ssize_t)n;
}

static off_t name_at(int slot)
{
    return HEADER_BYTES + (off_t)slot * (off_t)sizeof(struct stored_name);
}

static off_t chunk_at(enum series_ring ring, int64_t begin_ms)
{
    off_t names = (name_at(SERIES_SLOTS) + HEADER_BYTES - 1) / HEADER_BYTES *
                  HEADER_BYTES,
          n = begin_ms / series_chunk_ms(ring) % RING_CHUNKS;

    return names + ((off_t)ring * RING_CHUNKS + n) * CHUNK_BYTES;
}

static uint64_t name_sum(const struct stored_name *n, int slot)
{
    uint64_t sum = checksum_add(CHECKSUM_BEGIN, &slot, sizeof slot);

    return checksum_add(sum, &n->since_ms, sizeof *n - sizeof n->sum);
}

static size_t value_bytes(const struct chunk *c)
{
    return (size_t)c->head.slots * SERIES_CHUNK_SAMPLES * sizeof c->values[0];
}

static uint64_t chunk_sum(const struct chunk *c, enum series_ring ring)
{
    uint64_t sum = checksum_add(CHECKSUM_BEGIN, &ring, sizeof ring);

    sum = checksum_add(sum, &c->head.begin_ms,
                       sizeof c->head - sizeof c->head.sum);
    return checksum_add(sum, c->values, value_bytes(c));
}

/* false: it is not there, or damaged. */
static bool read_chunk(const struct series_file *f, enum series_ring ring,
                       int64_t begin_ms, struct chunk *out)
{
    off_t at = chunk_at(ring, begin_ms);

    return read_at(f, at, &out->head, sizeof out->head) &&
           out->head.begin_ms == begin_ms && out->head.slots <= SERIES_SLOTS &&
           read_at(f, at + (off_t)sizeof out->head, out->values,
                   value_bytes(out)) &&
           out->head.sum == chunk_sum(out, ring);
}

static void begin_anew(struct series_file *f)
{
    char page[HEADER_BYTES] = {0};

    if (lseek(f->fd, 0, SEEK_END) > 0)
        log_warn(NULL,
                 "the file with the values for charts is damaged or of another "
                 "version; it is begun anew",
                 LS("file", f->path));
    if (ftruncate(f->fd, 0) != 0)
        warn(f, strerror(errno));
    memcpy(page, &header, sizeof header);
    write_at(f, 0, page, sizeof page);
}

static void index_name(struct series_file *f, int slot)
{
    lookup_put(&f->index, lookup_text(f->names[slot].name), (size_t)slot);
}

static void read_names(struct series_file *f, int64_t now)
{
    struct stored_name n;

    for (int i = 0; i < SERIES_SLOTS; i++) {
        if (!read_at(f, name_at(i), &n, sizeof n) || !n.name[0] ||
            n.sum != name_sum(&n, i) || n.name[SERIES_NAME_BYTES])
            continue;
        f->names[i] = n;
        f->used_ms[i] = now;
        f->slot_count = i + 1;
        index_name(f, i);
    }
}

struct series_file *series_file_open(const char *path)
{
    struct series_file *f = gr_alloc(sizeof *f);
    char is[sizeof header];

    f->path = gr_strdup(path);
    f->names = gr_alloc(SERIES_SLOTS * sizeof *f->names);
    f->used_ms = gr_alloc(SERIES_SLOTS * sizeof *f->used_ms);
    f->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (f->fd < 0)
        warn(f, strerror(errno));
    else if (read_at(f, 0, is, sizeof is) &&
             memcmp(is, &header, sizeof is) == 0)
        read_names(f, now_ms());
    else
        begin_anew(f);
    return f;
}

void series_file_close(struct series_file *f)
{
    if (!f)
        return;
    series_file_flush(f);
    if (f->fd >= 0)
        close(f->fd);
    lookup_fini(&f->index);
    free(f->names);
    free(f->used_ms);
    free(f->path);
    free(f);
}

/* ---- names ---- */

/* A free slot, or the one that has had no value for the longest time. */
static int free_slot(const struct series_file *f, int64_t time_ms)
{
    int oldest = -1;

    for (int i = 0; i < SERIES_SLOTS; i++) {
        if (!f->names[i].name[0])
            return i;
        if (oldest < 0 || f->used_ms[i] < f->used_ms[oldest])
            oldest = i;
    }
    return time_ms - f->used_ms[oldest] > DAY_MS ? oldest : -1;
}

int series_file_slot(struct series_file *f, const char *name, int64_t time_ms)
{
    uint64_t key = lookup_text(name);
    size_t at = 0, found;
    struct stored_name *n;
    int slot;

    while ((found = lookup_next(&f->index, key, &at)) != LOOKUP_END)
        if (strcmp(f->names[found].name, name) == 0)
            return (int)found;
    slot = strlen(name) <= SERIES_NAME_BYTES ? free_slot(f, time_ms) : -1;
    if (slot < 0)
        return -1;
    n = &f->names[slot];
    if (n->name[0])
        lookup_drop(&f->index, lookup_text(n->name), (size_t)slot);
    *n = (struct stored_name){.since_ms = time_ms};
    memcpy(n->name, name, strlen(name));
    n->sum = name_sum(n, slot);
    f->used_ms[slot] = time_ms;
    if (slot >= f->slot_count)
        f->slot_count = slot + 1;
    index_name(f, slot);
    write_at(f, name_at(slot), n, sizeof *n);
    return slot;
}

const char *series_file_name(const struct series_file *f, int slot,
                             int64_t *since_ms)
{
    if (slot < 0 || slot >= f->slot_count || !f->names[slot].name[0])
        return NULL;
    *since_ms = f->names[slot].since_ms;
    return f->names[slot].name;
}

/* ---- values ---- */

static void flush_ring(struct series_file *f, enum series_ring ring)
{
    struct chunk *c = &f->now[ring];

    if (!f->dirty[ring])
        return;
    f->dirty[ring] = false;
    c->head.sum = chunk_sum(c, ring);
    write_at(f, chunk_at(ring, c->head.begin_ms), c,
             sizeof c->head + value_bytes(c));
}

void series_file_flush(struct series_file *f)
{
    for (int ring = 0; ring < SERIES_RINGS; ring++)
        flush_ring(f, (enum series_ring)ring);
}

void series_file_set(struct series_file *f, enum series_ring ring, int slot,
                     int64_t time_ms, float value)
{
    int64_t chunk_ms = series_chunk_ms(ring),
            begin_ms = time_ms - time_ms % chunk_ms;
    struct chunk *c = &f->now[ring];

    if (c->head.begin_ms != begin_ms) {
        flush_ring(f, ring);
        if (!read_chunk(f, ring, begin_ms, c)) {
            c->head.begin_ms = begin_ms;
            c->head.slots = 0;
        }
    }
    for (; c->head.slots <= (uint64_t)slot; c->head.slots++)
        for (int i = 0; i < SERIES_CHUNK_SAMPLES; i++)
            c->values[c->head.slots * SERIES_CHUNK_SAMPLES + (size_t)i] = NAN;
    c->values[(int64_t)slot * SERIES_CHUNK_SAMPLES +
              (time_ms - begin_ms) / series_step_ms(ring)] = value;
    f->used_ms[slot] = time_ms;
    f->dirty[ring] = true;
}

const float *series_file_chunk(struct series_file *f, enum series_ring ring,
                               int64_t time_ms, int *slots)
{
    int64_t begin_ms = time_ms - time_ms % series_chunk_ms(ring);
    const struct chunk *c = &f->now[ring];

    if (c->head.begin_ms != begin_ms) {
        if (!read_chunk(f, ring, begin_ms, &f->read))
            return NULL;
        c = &f->read;
    }
    *slots = (int)c->head.slots;
    return c->values;
}
