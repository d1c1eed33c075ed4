/* snapshot: reads and writes the parts of snapshots. */
#include "snapshot.h"
#include "file_io.h"
#include "le64.h"
#include "position_file.h"
#include "sha256.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MANIFEST = -1, /* the number of its part */
    MANIFEST_VERSION = 1,
    MANIFEST_BYTES = 9 * 8 + HISTORY_BYTES + CHAIN_BYTES + SHA256_BYTES,
    PART_HEAD_BYTES = 8, /* its number */
    DUE_MIN_BYTES = 64 * 1024 * 1024,
};

/* What a snapshot is, in its last part. */
struct manifest {
    struct position at;
    int64_t whole_from, schema, page_bytes, size_pages, part_pages, parts;
    int64_t stored_bytes;      /* of all parts, compressed */
    uint8_t sum[SHA256_BYTES]; /* over all parts: each adds to the one before */
};

bool snapshot_due(bool has_one, int64_t turns, int64_t turn_bytes,
                  int64_t stored_bytes)
{
    int64_t limit = stored_bytes > DUE_MIN_BYTES ? stored_bytes : DUE_MIN_BYTES;

    return !has_one || (turn_bytes > 0 && turns >= limit / turn_bytes);
}

/* ---- parts ---- */

static void add_to_sum(uint8_t sum[SHA256_BYTES], const struct buf *part)
{
    struct bytes parts[] = {{sum, SHA256_BYTES}, {part->data, part->len}};

    sha256_of_parts(parts, COUNT_OF(parts), sum);
}

static int64_t parts_of(const struct manifest *m)
{
    return (m->size_pages + m->part_pages - 1) / m->part_pages;
}

static int64_t pages_in(const struct manifest *m, int64_t part)
{
    int64_t rest = m->size_pages - part * m->part_pages;

    return rest < m->part_pages ? rest : m->part_pages;
}

static void put_manifest(struct buf *out, const struct manifest *m)
{
    put_le64(out, MANIFEST_VERSION);
    put_le64(out, (uint64_t)m->at.n);
    put_le64(out, (uint64_t)m->whole_from);
    put_le64(out, (uint64_t)m->schema);
    put_le64(out, (uint64_t)m->page_bytes);
    put_le64(out, (uint64_t)m->size_pages);
    put_le64(out, (uint64_t)m->part_pages);
    put_le64(out, (uint64_t)m->parts);
    put_le64(out, (uint64_t)m->stored_bytes);
    buf_put(out, m->at.history, HISTORY_BYTES);
    buf_put(out, m->at.chain, CHAIN_BYTES);
    buf_put(out, m->sum, SHA256_BYTES);
}

static bool is_good(const struct manifest *m)
{
    return m->at.n >= 0 && m->whole_from >= m->at.n && m->page_bytes >= 512 &&
           m->page_bytes <= 65536 && m->part_pages > 0 &&
           m->part_pages <= SNAPSHOT_PART_BYTES / m->page_bytes &&
           m->size_pages > 0 && m->size_pages <= UINT32_MAX &&
           m->parts == parts_of(m) && m->stored_bytes >= 0;
}

static bool get_manifest(const struct buf *in, struct manifest *m)
{
    const char *p = in->data;

    if (in->len != MANIFEST_BYTES || get_le64(p) != MANIFEST_VERSION)
        return false;
    m->at.n = (int64_t)get_le64(p + 8);
    m->whole_from = (int64_t)get_le64(p + 16);
    m->schema = (int64_t)get_le64(p + 24);
    m->page_bytes = (int64_t)get_le64(p + 32);
    m->size_pages = (int64_t)get_le64(p + 40);
    m->part_pages = (int64_t)get_le64(p + 48);
    m->parts = (int64_t)get_le64(p + 56);
    m->stored_bytes = (int64_t)get_le64(p + 64);
    p += MANIFEST_BYTES - HISTORY_BYTES - CHAIN_BYTES - SHA256_BYTES;
    memcpy(m->at.history, p, HISTORY_BYTES);
    memcpy(m->at.chain, p + HISTORY_BYTES, CHAIN_BYTES);
    memcpy(m->sum, p + HISTORY_BYTES + CHAIN_BYTES, SHA256_BYTES);
    return is_good(m);
}

static void seal_one(const struct snapshot_place *place, enum seal_kind kind,
                     const struct position *at, int64_t epoch,
                     const struct buf *plain, struct buf *out)
{
    struct seal_about about = {
        .kind = kind, .process = place->process, .epoch = epoch, .n = at->n};
    struct sealed_parts sealed;

    memcpy(about.history, at->history, HISTORY_BYTES);
    sealer_seal(place->sealer, &about, (struct bytes){plain->data, plain->len},
                &sealed);
    if (sealed.count != 1)
        die(EXIT_SOFTWARE, "a part of a snapshot does not fit into one row");
    buf_reset(out);
    buf_put(out, sealed.parts[0].data, sealed.parts[0].len);
    sealed_parts_fini(&sealed);
}

struct read_part {
    int64_t n, epoch; /* of the snapshot that it is of */
    struct buf sealed, plain;
};

static void read_part_init(struct read_part *r)
{
    buf_init(&r->sealed, SEAL_PART_BYTES);
    buf_init(&r->plain, SNAPSHOT_PART_BYTES);
}

static void read_part_fini(struct read_part *r)
{
    buf_fini(&r->sealed);
    buf_fini(&r->plain);
}

/* SNAPSHOT_DONE: r->plain is the part. */
static enum snapshot_step read_one(const struct snapshot_place *place,
                                   int64_t part,
                                   const uint8_t history[HISTORY_BYTES],
                                   struct read_part *r,
                                   char why[ENGINE_WHY_BYTES])
{
    struct seal_about about = {.kind = part == MANIFEST ? SEAL_MANIFEST
                                                        : SEAL_SNAPSHOT,
                               .process = place->process};
    char reason[200] = "";
    struct bytes sealed;

    buf_reset(&r->sealed);
    buf_reset(&r->plain);
    switch (place->ops->get_snapshot(place->engine, part, &r->n, &r->epoch,
                                     &r->sealed, why)) {
    case ENGINE_UNKNOWN:
        return SNAPSHOT_WAIT;
    case ENGINE_NO_ROW:
        return SNAPSHOT_NO_ROW;
    case ENGINE_DONE:
        break;
    }
    memcpy(about.history, history, HISTORY_BYTES);
    about.epoch = r->epoch;
    about.n = r->n;
    sealed = (struct bytes){r->sealed.data, r->sealed.len};
    if (!r->sealed.failed && sealer_open_parts(place->sealer, &about, &sealed,
                                               1, &r->plain, reason) == GR_OK)
        return SNAPSHOT_DONE;
    snprintf(why, ENGINE_WHY_BYTES,
             "part %lld of the snapshot at turn %lld: %s", (long long)part,
             (long long)r->n, r->sealed.failed ? "it is too large" : reason);
    return SNAPSHOT_DAMAGED;
}

enum snapshot_step snapshot_newest(const struct snapshot_place *place,
                                   const uint8_t history[HISTORY_BYTES],
                                   int64_t *n, int64_t *bytes,
                                   char why[ENGINE_WHY_BYTES])
{
    struct read_part r = {0};
    struct manifest manifest;
    enum snapshot_step s;

    read_part_init(&r);
    s = read_one(place, MANIFEST, history, &r, why);
    if (s == SNAPSHOT_DONE || s == SNAPSHOT_DAMAGED)
        *n = r.n;
    if (s == SNAPSHOT_DONE && get_manifest(&r.plain, &manifest)) {
        *bytes = manifest.stored_bytes;
    } else if (s == SNAPSHOT_DONE) {
        snprintf(why, ENGINE_WHY_BYTES,
                 "the manifest of the snapshot at turn %lld is not valid",
                 (long long)r.n);
        s = SNAPSHOT_DAMAGED;
    }
    read_part_fini(&r);
    return s;
}

/* ---- making one ---- */

struct snapshot_maker {
    struct snapshot_place place;
    sqlite3_file *file;
    struct manifest manifest;
    enum {
        LOOK,
        CLEAN, /* of parts without a manifest */
        WRITE,
        WRITE_MANIFEST,
        CHECK,
        CHECK_MANIFEST,
        FORGET,
    } state;
    int64_t part;
    int64_t before; /* n of the snapshot before; -1: there is none */
    struct buf plain,
        sealed; /* sealed: not empty while its outcome is unknown */
    uint8_t checked[SHA256_BYTES]; /* of what was read back */
};

struct snapshot_maker *snapshot_begin(const struct snapshot_place *place,
                                      sqlite3 *h, const struct position *at,
                                      int schema)
{
    struct snapshot_maker *m = gr_alloc(sizeof *m);
    struct manifest *f = &m->manifest;
    uint8_t size[2] = {0};
    sqlite3_int64 bytes = 0;

    m->place = *place;
    sqlite3_file_control(h, "main", SQLITE_FCNTL_FILE_POINTER, &m->file);
    m->file->pMethods->xRead(m->file, size, sizeof size, 16);
    m->file->pMethods->xFileSize(m->file, &bytes);
    f->at = *at;
    f->schema = schema;
    f->page_bytes = size[0] << 8 | size[1];
    f->page_bytes = f->page_bytes == 1 ? 65536 : f->page_bytes;
    if (f->page_bytes < 512 || bytes < f->page_bytes)
        die(EXIT_SOFTWARE, "a snapshot of an empty file");
    f->size_pages = bytes / f->page_bytes;
    f->part_pages = (SNAPSHOT_PART_BYTES - PART_HEAD_BYTES) / f->page_bytes;
    f->parts = parts_of(f);
    buf_init(&m->plain, SNAPSHOT_PART_BYTES);
    buf_init(&m->sealed, SEAL_PART_BYTES);
    return m;
}

void snapshot_end(struct snapshot_maker *m)
{
    if (!m)
        return;
    buf_fini(&m->plain);
    buf_fini(&m->sealed);
    free(m);
}

/* The snapshot before this one: it stays, and older ones go. */
static enum snapshot_step look(struct snapshot_maker *m, char *why)
{
    int64_t bytes = 0;
    enum snapshot_step s = snapshot_newest(&m->place, m->manifest.at.history,
                                           &m->before, &bytes, why);

    if (s == SNAPSHOT_WAIT)
        return s;
    if (s == SNAPSHOT_NO_ROW)
        m->before = -1;
    if (m->before >= m->manifest.at.n) {
        m->manifest.stored_bytes = bytes;
        return SNAPSHOT_DONE; /* there is one of this content */
    }
    m->state = CLEAN;
    return SNAPSHOT_MORE;
}

/* What has no manifest was begun after the newest snapshot, by a start that has ended or lost the store, or has found it damaged. */
static enum snapshot_step clean(struct snapshot_maker *m,
                                const struct tenure *mine, char *why)
{
    bool more = false;

    switch (m->place.ops->forget_unfinished(m->place.engine, mine, m->before,
                                            m->manifest.at.n, &more, why)) {
    case ENGINE_UNKNOWN:
        return SNAPSHOT_WAIT;
    case ENGINE_NO_ROW:
        return SNAPSHOT_NO_ROW;
    case ENGINE_DONE:
        break;
    }
    if (!more)
        m->state = WRITE;
    return SNAPSHOT_MORE;
}

/* A short read is the page that SQLite locks, or pages that are gone since the snapshot began: zeros, which later turns replace. */
static void read_pages(struct snapshot_maker *m)
{
    const struct manifest *f = &m->manifest;
    int64_t n = pages_in(f, m->part) * f->page_bytes;
    char *to;
    int rc;

    buf_reset(&m->plain);
    put_le64(&m->plain, (uint64_t)m->part);
    to = buf_add(&m->plain, (size_t)n);
    rc = m->file->pMethods->xRead(m->file, to, (int)n,
                                  m->part * f->part_pages * f->page_bytes);
    if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ)
        die(EXIT_STORAGE, "the database cannot be read for a snapshot: %s",
            sqlite3_errstr(rc));
    add_to_sum(m->manifest.sum, &m->plain);
}

static enum snapshot_step put(struct snapshot_maker *m,
                              const struct tenure *mine, int64_t part,
                              char *why)
{
    struct bytes sealed = {m->sealed.data, m->sealed.len};

    switch (m->place.ops->put_snapshot(m->place.engine, mine, &m->manifest.at,
                                       part, sealed, why)) {
    case ENGINE_UNKNOWN:
        return SNAPSHOT_WAIT; /* the same bytes again: the first may arrive late */
    case ENGINE_NO_ROW:
        return SNAPSHOT_NO_ROW;
    case ENGINE_DONE:
        break;
    }
    buf_reset(&m->sealed);
    return SNAPSHOT_MORE;
}

static enum snapshot_step write_part(struct snapshot_maker *m,
                                     const struct tenure *mine, char *why)
{
    enum snapshot_step s;

    if (!m->sealed.len) {
        read_pages(m);
        seal_one(&m->place, SEAL_SNAPSHOT, &m->manifest.at, mine->epoch,
                 &m->plain, &m->sealed);
        m->manifest.stored_bytes += (int64_t)m->sealed.len;
    }
    s = put(m, mine, m->part, why);
    if (s == SNAPSHOT_MORE && ++m->part == m->manifest.parts)
        m->state = WRITE_MANIFEST;
    return s;
}

/* The log's last turn is asked for after all pages were read, so they are of this turn at most. */
static enum snapshot_step write_manifest(struct snapshot_maker *m,
                                         const struct tenure *mine,
                                         const struct position *in_log,
                                         char *why)
{
    enum snapshot_step s;

    if (!m->sealed.len) {
        m->manifest.whole_from = in_log->n;
        buf_reset(&m->plain);
        put_manifest(&m->plain, &m->manifest);
        seal_one(&m->place, SEAL_MANIFEST, &m->manifest.at, mine->epoch,
                 &m->plain, &m->sealed);
    }
    s = put(m, mine, MANIFEST, why);
    if (s == SNAPSHOT_MORE) {
        m->state = CHECK;
        m->part = 0;
    }
    return s;
}

static enum snapshot_step damaged(const struct snapshot_maker *m, char *why)
{
    snprintf(why, ENGINE_WHY_BYTES,
             "the snapshot at turn %lld is not what was written",
             (long long)m->manifest.at.n);
    return SNAPSHOT_DAMAGED;
}

static enum snapshot_step check_part(struct snapshot_maker *m, char *why)
{
    struct read_part r;
    enum snapshot_step s;

    read_part_init(&r);
    s = read_one(&m->place, m->part, m->manifest.at.history, &r, why);
    if (s == SNAPSHOT_DONE && r.n == m->manifest.at.n) {
        add_to_sum(m->checked, &r.plain);
        if (++m->part == m->manifest.parts)
            m->state = CHECK_MANIFEST;
        s = SNAPSHOT_MORE;
    } else if (s == SNAPSHOT_DONE || s == SNAPSHOT_NO_ROW) {
        s = damaged(m, why);
    }
    read_part_fini(&r);
    return s;
}

static enum snapshot_step check_manifest(struct snapshot_maker *m, char *why)
{
    struct read_part r;
    struct manifest read;
    enum snapshot_step s;

    read_part_init(&r);
    s = read_one(&m->place, MANIFEST, m->manifest.at.history, &r, why);
    if (s == SNAPSHOT_DONE && get_manifest(&r.plain, &read) &&
        position_equal(&read.at, &m->manifest.at) &&
        memcmp(read.sum, m->checked, SHA256_BYTES) == 0) {
        m->state = FORGET;
        s = m->before >= 0 ? SNAPSHOT_MORE : SNAPSHOT_DONE;
    } else if (s == SNAPSHOT_DONE || s == SNAPSHOT_NO_ROW) {
        s = damaged(m, why);
    }
    read_part_fini(&r);
    return s;
}

static enum snapshot_step forget(struct snapshot_maker *m,
                                 const struct tenure *mine, char *why)
{
    bool more = false;

    switch (
        m->place.ops->forget(m->place.engine, mine, m->before, &more, why)) {
    case ENGINE_UNKNOWN:
        return SNAPSHOT_WAIT;
    case ENGINE_NO_ROW:
        return SNAPSHOT_NO_ROW;
    case ENGINE_DONE:
        break;
    }
    return more ? SNAPSHOT_MORE : SNAPSHOT_DONE;
}

enum snapshot_step snapshot_step(struct snapshot_maker *m,
                                 const struct tenure *mine,
                                 const struct position *in_log,
                                 char why[ENGINE_WHY_BYTES])
{
    switch (m->state) {
    case LOOK:
        return look(m, why);
    case CLEAN:
        return clean(m, mine, why);
    case WRITE:
        return write_part(m, mine, why);
    case WRITE_MANIFEST:
        return write_manifest(m, mine, in_log, why);
    case CHECK:
        return check_part(m, why);
    case CHECK_MANIFEST:
        return check_manifest(m, why);
    case FORGET:
        break;
    }
    return forget(m, mine, why);
}

void snapshot_progress(const struct snapshot_maker *m, int64_t *parts,
                       int64_t *all)
{
    bool written = m->state > WRITE_MANIFEST;

    *all = 2 * m->manifest.parts;
    *parts = written ? m->manifest.parts + m->part : m->part;
}

int64_t snapshot_bytes(const struct snapshot_maker *m)
{
    return m->manifest.stored_bytes;
}

/* ---- restoring one ---- */

struct snapshot_restore {
    struct snapshot_place place;
    char *db_path, *path; /* path: while it is not complete */
    int fd;
    struct manifest manifest;
    bool has_manifest;
    int64_t n, epoch; /* of the manifest */
    int64_t part;
    uint8_t sum[SHA256_BYTES];
    struct read_part read;
    uint8_t history[HISTORY_BYTES];
};

struct snapshot_restore *
snapshot_restore_begin(const struct snapshot_place *place,
                       const uint8_t history[HISTORY_BYTES],
                       const char *db_path)
{
    struct snapshot_restore *r = gr_alloc(sizeof *r);

    r->place = *place;
    r->db_path = gr_strdup(db_path);
    r->path = gr_printf("%s-restoring", db_path);
    r->fd = -1;
    memcpy(r->history, history, HISTORY_BYTES);
    read_part_init(&r->read);
    return r;
}

static void close_file(struct snapshot_restore *r)
{
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
}

void snapshot_restore_end(struct snapshot_restore *r)
{
    if (!r)
        return;
    close_file(r);
    read_part_fini(&r->read);
    free(r->db_path);
    free(r->path);
    free(r);
}

void snapshot_restore_progress(const struct snapshot_restore *r, int64_t *parts,
                               int64_t *all)
{
    *parts = r->part;
    *all = r->has_manifest ? r->manifest.parts : 0;
}

static enum snapshot_step is_full(const char *path, char *why)
{
    snprintf(why, ENGINE_WHY_BYTES,
             "%s: the disk is full, so the snapshot cannot be restored; free "
             "some space",
             path);
    return SNAPSHOT_WAIT;
}

/* Begins from the first part, with an empty file. */
static enum snapshot_step begin_restoring(struct snapshot_restore *r, char *why)
{
    enum snapshot_step s;

    r->has_manifest = false;
    r->part = 0;
    memset(r->sum, 0, sizeof r->sum);
    close_file(r);
    s = read_one(&r->place, MANIFEST, r->history, &r->read, why);
    if (s != SNAPSHOT_DONE)
        return s;
    if (!get_manifest(&r->read.plain, &r->manifest) ||
        memcmp(r->manifest.at.history, r->history, HISTORY_BYTES) != 0 ||
        r->manifest.at.n != r->read.n) {
        snprintf(why, ENGINE_WHY_BYTES,
                 "the manifest of the snapshot at turn %lld is not one of this "
                 "program",
                 (long long)r->read.n);
        return SNAPSHOT_DAMAGED;
    }
    r->fd = open(r->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (r->fd < 0 && file_is_full(errno))
        return is_full(r->path, why);
    if (r->fd < 0)
        die(EXIT_STORAGE, "%s: cannot be created: %s", r->path,
            strerror(errno));
    r->n = r->read.n;
    r->epoch = r->read.epoch;
    r->has_manifest = true;
    return SNAPSHOT_MORE;
}

/* The position first: without its file it means nothing, and a file without it would look like one that was never replicated. */
static enum snapshot_step finish(struct snapshot_restore *r, char *why)
{
    struct stored_position stored = {.at = r->manifest.at,
                                     .whole_from = r->manifest.whole_from};

    if (memcmp(r->sum, r->manifest.sum, SHA256_BYTES) != 0) {
        snprintf(why, ENGINE_WHY_BYTES,
                 "the parts of the snapshot at turn %lld are not those of its "
                 "manifest",
                 (long long)r->n);
        r->has_manifest = false;
        return SNAPSHOT_DAMAGED;
    }
    if (file_set_size(r->path, r->fd,
                      r->manifest.size_pages * r->manifest.page_bytes) != GR_OK)
        return is_full(r->path, why);
    file_sync(r->path, r->fd);
    if (position_file_write(r->db_path, &stored) != GR_OK)
        return is_full(r->db_path, why);
    if (rename(r->path, r->db_path) != 0)
        die(EXIT_STORAGE, "%s: cannot be renamed to %s: %s", r->path,
            r->db_path, strerror(errno));
    folder_sync(r->db_path);
    close_file(r);
    return SNAPSHOT_DONE;
}

static enum snapshot_step restore_part(struct snapshot_restore *r, char *why)
{
    const struct manifest *f = &r->manifest;
    const struct buf *plain = &r->read.plain;
    size_t n = (size_t)(pages_in(f, r->part) * f->page_bytes);
    enum snapshot_step s = read_one(&r->place, r->part, r->history, &r->read,
                                    why);

    if (s == SNAPSHOT_NO_ROW ||
        (s == SNAPSHOT_DONE &&
         (r->read.n != r->n || r->read.epoch != r->epoch))) {
        r->has_manifest = false; /* there is a newer one */
        return SNAPSHOT_MORE;
    }
    if (s != SNAPSHOT_DONE)
        return s;
    if (plain->len != PART_HEAD_BYTES + n ||
        get_le64(plain->data) != (uint64_t)r->part) {
        snprintf(why, ENGINE_WHY_BYTES,
                 "part %lld of the snapshot at turn %lld is another one",
                 (long long)r->part, (long long)r->n);
        r->has_manifest = false;
        return SNAPSHOT_DAMAGED;
    }
    if (file_write_at(r->path, r->fd, plain->data + PART_HEAD_BYTES, n,
                      r->part * f->part_pages * f->page_bytes) != GR_OK)
        return is_full(r->path, why);
    add_to_sum(r->sum, plain);
    r->part++;
    return SNAPSHOT_MORE;
}

enum snapshot_step snapshot_restore_step(struct snapshot_restore *r,
                                         char why[ENGINE_WHY_BYTES])
{
    if (!r->has_manifest)
        return begin_restoring(r, why);
    if (r->part < r->manifest.parts)
        return restore_part(r, why);
    return finish(r, why);
}
