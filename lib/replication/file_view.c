/* file_view: reads a log's frames once, and shows SQLite the file with some of them, by a file system layer that only reads. */
#include "file_view.h"
#include "db_sums.h"
#include "file_io.h"
#include "row_page.h"
#include "wal_file.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEADER_BYTES = 100, /* of a database */
    PAGE_BYTES_AT = 16, /* two bytes; 1 means 65536 */
    WRITE_VERSION_AT = 18,
    READ_VERSION_AT = 19,
    WITH_WAL = 2,
};

struct frame {
    uint32_t page, size_pages;
};

struct file_view {
    int fd;
    int64_t bytes;
    uint32_t page_bytes;
    bool wal_header;
    struct wal_file *log; /* NULL: none, or its header is not valid */
    struct frame *frames;
    size_t frame_cap;
    uint32_t frame_count;
    /* What the open connection sees. */
    uint64_t *images;
    size_t image_count;
    int64_t shown_bytes;
};

/* ---- the file and its log ---- */

static void read_header(struct file_view *v)
{
    uint8_t head[HEADER_BYTES];
    uint32_t n;

    if (file_read_at(v->fd, head, sizeof head, 0) != (int64_t)sizeof head ||
        memcmp(head, "SQLite format 3", 16) != 0)
        return;
    n = (uint32_t)head[PAGE_BYTES_AT] << 8 | head[PAGE_BYTES_AT + 1];
    n = n == 1 ? WAL_PAGE_MAX_BYTES : n;
    if (wal_file_is_page_size(n))
        v->page_bytes = n;
    v->wal_header = head[WRITE_VERSION_AT] == WITH_WAL &&
                    head[READ_VERSION_AT] == WITH_WAL;
}

static void take_frame(struct file_view *v, uint32_t i)
{
    if (i == v->frame_cap) {
        v->frame_cap = v->frame_cap ? v->frame_cap * 2 : 1024;
        v->frames = gr_realloc(v->frames, v->frame_cap * sizeof *v->frames);
    }
    v->frames[i].page = wal_frame_page(v->log->frame);
    v->frames[i].size_pages = wal_frame_size_pages(v->log->frame);
    if (v->frames[i].size_pages)
        v->frame_count = i + 1;
}

static void read_log(struct file_view *v, const char *db_path)
{
    bool good = false;
    struct wal_sums before;

    v->log = wal_file_open(db_path, &good);
    if (!v->log)
        return;
    if (!good || v->log->page_bytes != v->page_bytes) {
        wal_file_close(v->log);
        v->log = NULL;
        return;
    }
    before = v->log->sums;
    for (uint32_t i = 0; wal_file_read(v->log); i++) {
        if (!wal_file_is_valid(v->log, before) ||
            !wal_frame_page(v->log->frame))
            break;
        before = wal_file_sums(v->log);
        take_frame(v, i);
    }
}

struct file_view *file_view_open(const char *db_path)
{
    int fd = open(db_path, O_RDONLY | O_CLOEXEC);
    struct file_view *v;
    struct stat st;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) != 0 || st.st_size == 0) {
        close(fd);
        return NULL;
    }
    v = gr_alloc(sizeof *v);
    v->fd = fd;
    v->bytes = st.st_size;
    read_header(v);
    if (v->page_bytes)
        read_log(v, db_path);
    return v;
}

void file_view_close(struct file_view *v)
{
    if (!v)
        return;
    wal_file_close(v->log);
    close(v->fd);
    free(v->frames);
    free(v->images);
    free(v);
}

uint32_t file_view_page_bytes(const struct file_view *v)
{
    return v->page_bytes;
}

bool file_view_has_wal_header(const struct file_view *v)
{
    return v->wal_header;
}

int64_t file_view_bytes(const struct file_view *v)
{
    return v->bytes;
}

uint32_t file_view_frames(const struct file_view *v)
{
    return v->frame_count;
}

uint32_t file_view_frame_page(const struct file_view *v, uint32_t frame)
{
    return v->frames[frame - 1].page;
}

uint32_t file_view_frame_size(const struct file_view *v, uint32_t frame)
{
    return v->frames[frame - 1].size_pages;
}

bool file_view_image(const struct file_view *v, uint32_t frame, void *to)
{
    int64_t at = WAL_HEADER_BYTES +
                 (int64_t)(frame - 1) *
                     (WAL_FRAME_HEADER_BYTES + (int64_t)v->page_bytes) +
                 WAL_FRAME_HEADER_BYTES;

    return file_read_at(fileno(v->log->file), to, v->page_bytes, at) ==
           (int64_t)v->page_bytes;
}

static uint32_t page_of(uint64_t image)
{
    return (uint32_t)(image >> 32);
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

uint64_t *file_view_images(const struct file_view *v, uint32_t after,
                           uint32_t frames, size_t *count)
{
    uint32_t locked = turn_locked_page(v->page_bytes);
    size_t all = frames - after, kept = 0;
    uint64_t *images = gr_alloc(all * sizeof *images);

    for (size_t i = 0; i < all; i++) {
        uint32_t frame = after + (uint32_t)i + 1;

        images[i] = (uint64_t)file_view_frame_page(v, frame) << 32 | frame;
    }
    qsort(images, all, sizeof *images, compare);
    for (size_t i = 0; i < all; i++) {
        uint32_t page = page_of(images[i]);

        if (i + 1 < all && page_of(images[i + 1]) == page)
            continue;
        if (page <= file_view_frame_size(v, frames) && page != locked)
            images[kept++] = images[i];
    }
    *count = kept;
    return images;
}

/* ---- what SQLite sees ---- */

struct view_file {
    sqlite3_file base;
    struct file_view *view;
};

static struct file_view *view_of(sqlite3_file *f)
{
    return ((struct view_file *)(void *)f)->view;
}

static int page_compare(const void *key, const void *image)
{
    uint32_t page = *(const uint32_t *)key,
             other = page_of(*(const uint64_t *)image);

    return (page > other) - (page < other);
}

/* SQLite reads within one page. */
static int on_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at)
{
    struct file_view *v = view_of(f);
    uint32_t page = (uint32_t)(at / v->page_bytes) + 1;
    const uint64_t *image = NULL;
    int fd = v->fd;
    int64_t got, want = n;

    if (v->image_count)
        image = bsearch(&page, v->images, v->image_count, sizeof *v->images,
                        page_compare);
    if (at + want > v->shown_bytes)
        want = at < v->shown_bytes ? v->shown_bytes - at : 0;
    if (image) {
        fd = fileno(v->log->file);
        at = WAL_HEADER_BYTES +
             ((int64_t)(uint32_t)*image - 1) *
                 (WAL_FRAME_HEADER_BYTES + (int64_t)v->page_bytes) +
             WAL_FRAME_HEADER_BYTES + at % v->page_bytes;
    }
    got = file_read_at(fd, to, (size_t)want, at);
    if (got < 0)
        return SQLITE_IOERR_READ;
    if (got == n)
        return SQLITE_OK;
    memset((char *)to + got, 0, (size_t)(n - got));
    return SQLITE_IOERR_SHORT_READ;
}

static int on_size(sqlite3_file *f, sqlite3_int64 *size)
{
    *size = view_of(f)->shown_bytes;
    return SQLITE_OK;
}

static int on_close(sqlite3_file *f)
{
    (void)f;
    return SQLITE_OK;
}

static int on_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    (void)f, (void)p, (void)n, (void)at;
    return SQLITE_READONLY;
}

static int on_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    (void)f, (void)size;
    return SQLITE_READONLY;
}

static int on_flags(sqlite3_file *f, int flags)
{
    (void)f, (void)flags;
    return SQLITE_OK;
}

static int on_check_lock(sqlite3_file *f, int *is_reserved)
{
    (void)f;
    *is_reserved = 0;
    return SQLITE_OK;
}

static int on_control(sqlite3_file *f, int what, void *arg)
{
    (void)f, (void)what, (void)arg;
    return SQLITE_NOTFOUND;
}

static int on_sector_size(sqlite3_file *f)
{
    (void)f;
    return 0;
}

/* SQLite then reads without locks, and looks for neither a log nor a journal. */
static int on_characteristics(sqlite3_file *f)
{
    (void)f;
    return SQLITE_IOCAP_IMMUTABLE;
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = on_close,
    .xRead = on_read,
    .xWrite = on_write,
    .xTruncate = on_truncate,
    .xSync = on_flags,
    .xFileSize = on_size,
    .xLock = on_flags,
    .xUnlock = on_flags,
    .xCheckReservedLock = on_check_lock,
    .xFileControl = on_control,
    .xSectorSize = on_sector_size,
    .xDeviceCharacteristics = on_characteristics,
};

/* The view that the next connection of this thread shows. */
static _Thread_local struct file_view *opening;

static int on_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *f,
                   int flags, int *flags_out)
{
    struct view_file *file = (struct view_file *)(void *)f;

    (void)vfs, (void)path;
    f->pMethods = NULL;
    if (!(flags & SQLITE_OPEN_MAIN_DB) || !opening)
        return SQLITE_CANTOPEN;
    file->view = opening;
    f->pMethods = &methods;
    if (flags_out)
        *flags_out = flags;
    return SQLITE_OK;
}

static int on_access(sqlite3_vfs *vfs, const char *path, int flags, int *out)
{
    (void)vfs, (void)path, (void)flags;
    *out = 0;
    return SQLITE_OK;
}

static int on_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
    (void)vfs, (void)path, (void)sync;
    return SQLITE_READONLY;
}

static const char vfs_name[] = "grapnel-view";

static void register_vfs(void)
{
    static sqlite3_vfs vfs;

    vfs = *sqlite3_vfs_find(NULL);
    vfs.zName = vfs_name;
    vfs.szOsFile = (int)sizeof(struct view_file);
    vfs.xOpen = on_open;
    vfs.xAccess = on_access;
    vfs.xDelete = on_delete;
    sqlite3_vfs_register(&vfs, 0);
}

sqlite3 *file_view_sql(struct file_view *v, uint32_t frames)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    sqlite3 *h = NULL;
    int rc;

    pthread_once(&once, register_vfs);
    free(v->images);
    v->images = NULL;
    v->image_count = 0;
    v->shown_bytes = v->bytes;
    if (frames) {
        v->images = file_view_images(v, 0, frames, &v->image_count);
        v->shown_bytes = (int64_t)file_view_frame_size(v, frames) *
                         v->page_bytes;
    }
    opening = v;
    rc = sqlite3_open_v2("view", &h, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX,
                         vfs_name);
    if (rc == SQLITE_OK) /* opens the file */
        rc = sqlite3_exec(h,
                          "PRAGMA temp_store = MEMORY; PRAGMA schema_version",
                          NULL, NULL, NULL);
    opening = NULL;
    if (rc == SQLITE_OK) {
        db_sums_register(h);
        return h;
    }
    sqlite3_close(h);
    return NULL;
}

/* ---- the row ---- */

/* SQLITE_ROW: *s has one. Else the statement is finalized. */
static int first_row(sqlite3 *h, const char *sql, sqlite3_stmt **s)
{
    int rc = sqlite3_prepare_v2(h, sql, -1, s, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(*s);
    if (rc != SQLITE_ROW) {
        sqlite3_finalize(*s);
        *s = NULL;
    }
    return rc;
}

static bool copy_blob(sqlite3_stmt *s, int i, void *to, int n)
{
    const void *p = sqlite3_column_blob(s, i);

    if (sqlite3_column_type(s, i) != SQLITE_BLOB ||
        sqlite3_column_bytes(s, i) != n)
        return false;
    memcpy(to, p, (size_t)n);
    return true;
}

static void read_row(sqlite3 *h, struct replicated_row *out)
{
    sqlite3_stmt *s;
    int rc = first_row(h,
                       "SELECT rootpage FROM sqlite_schema WHERE type = "
                       "'table' AND name = 'replicated'",
                       &s);

    if (rc == SQLITE_ROW) {
        out->page = (uint32_t)sqlite3_column_int64(s, 0);
        sqlite3_finalize(s);
        rc = first_row(h, "SELECT history, n, chain FROM replicated", &s);
    }
    if (rc == SQLITE_DONE) {
        out->state = ROW_NONE;
    } else if (rc == SQLITE_ROW) {
        out->n = sqlite3_column_int64(s, 1);
        if (copy_blob(s, 0, out->history, HISTORY_BYTES) &&
            copy_blob(s, 2, out->chain, CHAIN_BYTES) && out->n > 0)
            out->state = ROW_FOUND;
        sqlite3_finalize(s);
    }
}

void file_view_row(struct file_view *v, uint32_t frames,
                   struct replicated_row *out)
{
    sqlite3 *h = file_view_sql(v, frames);

    *out = (struct replicated_row){.state = ROW_UNREADABLE};
    if (h)
        read_row(h, out);
    sqlite3_close(h);
}

void file_view_row_at(const struct file_view *v, uint32_t frames, uint32_t page,
                      struct replicated_row *out)
{
    uint8_t *image = gr_alloc(v->page_bytes);
    uint32_t f = frames;
    bool there;

    while (f && v->frames[f - 1].page != page)
        f--;
    there = f ? file_view_image(v, f, image)
              : file_read_at(v->fd, image, v->page_bytes,
                             ((int64_t)page - 1) * v->page_bytes) ==
                    (int64_t)v->page_bytes;
    *out = (struct replicated_row){.state = ROW_NONE};
    if (there)
        row_page_read(image, v->page_bytes, out);
    out->page = page;
    free(image);
}
