/* wal_buffer: a file system layer of SQLite that collects the writes to write-ahead logs, and guards
 * checkpoints. */
#include "wal_buffer.h"
#include "alloc.h"
#include "checkpoint_guard.h"
#include <stdlib.h>
#include <string.h>

/* SQLite's layer for Unix refuses a write that is longer, as if the disk were full. */
enum { BUFFER_BYTES = (1 << 17) - 1 };

struct wal_buffer {
    sqlite3_file base;
    sqlite3_int64 at; /* where in the file the collected bytes belong */
    int len;
    bool deferred; /* wal_buffer_defer_sync() */
    char *bytes;
    sqlite3_file
        real[]; /* of SQLite's own layer, which is larger than this type */
};

static sqlite3_vfs *real_vfs;

static struct wal_buffer *buffer_of(sqlite3_file *f)
{
    return (struct wal_buffer *)(void *)f;
}

static const sqlite3_io_methods *real_methods(const struct wal_buffer *b)
{
    return b->real->pMethods;
}

/* After an error the bytes are dropped: the transaction that wrote them ends with that
 * error. */
static int flush(struct wal_buffer *b)
{
    int n = b->len;

    if (!n) /* writes nothing, also not here: another thread may sync */
        return SQLITE_OK;
    b->len = 0;
    return real_methods(b)->xWrite(b->real, b->bytes, n, b->at);
}

static int on_close(sqlite3_file *f)
{
    struct wal_buffer *b = buffer_of(f);
    int flushed = flush(b), closed = real_methods(b)->xClose(b->real);

    free(b->bytes);
    return flushed ? flushed : closed;
}

static int on_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at)
{
    struct wal_buffer *b = buffer_of(f);
    int rc = flush(b);

    return rc ? rc : real_methods(b)->xRead(b->real, to, n, at);
}

static int on_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    struct wal_buffer *b = buffer_of(f);

    if (b->len && (at != b->at + b->len || n > BUFFER_BYTES - b->len)) {
        int rc = flush(b);

        if (rc)
            return rc;
    }
    if (n > BUFFER_BYTES)
        return real_methods(b)->xWrite(b->real, p, n, at);
    if (!b->bytes)
        b->bytes = gr_alloc(BUFFER_BYTES);
    if (!b->len)
        b->at = at;
    memcpy(b->bytes + b->len, p, (size_t)n);
    b->len += n;
    return SQLITE_OK;
}

static int on_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    struct wal_buffer *b = buffer_of(f);
    int rc = flush(b);

    return rc ? rc : real_methods(b)->xTruncate(b->real, size);
}

static int on_sync(sqlite3_file *f, int flags)
{
    struct wal_buffer *b = buffer_of(f);
    /* SQLite syncs the header of a log that begins anew before it writes pages behind it, so that pages of
     * the old log never look like pages of the new one. */
    bool is_header = b->len && b->at == 0;
    int rc = flush(b);

    if (rc || (b->deferred && !is_header))
        return rc;
    return real_methods(b)->xSync(b->real, flags);
}

static int on_size(sqlite3_file *f, sqlite3_int64 *size)
{
    struct wal_buffer *b = buffer_of(f);
    int rc = flush(b);

    return rc ? rc : real_methods(b)->xFileSize(b->real, size);
}

static int on_lock(sqlite3_file *f, int level)
{
    struct wal_buffer *b = buffer_of(f);

    return real_methods(b)->xLock(b->real, level);
}

static int on_unlock(sqlite3_file *f, int level)
{
    struct wal_buffer *b = buffer_of(f);

    return real_methods(b)->xUnlock(b->real, level);
}

static int on_check_lock(sqlite3_file *f, int *is_reserved)
{
    struct wal_buffer *b = buffer_of(f);

    return real_methods(b)->xCheckReservedLock(b->real, is_reserved);
}

static int on_control(sqlite3_file *f, int what, void *arg)
{
    struct wal_buffer *b = buffer_of(f);

    return real_methods(b)->xFileControl(b->real, what, arg);
}

static int on_sector_size(sqlite3_file *f)
{
    struct wal_buffer *b = buffer_of(f);

    return real_methods(b)->xSectorSize(b->real);
}

static int on_characteristics(sqlite3_file *f)
{
    struct wal_buffer *b = buffer_of(f);

    return real_methods(b)->xDeviceCharacteristics(b->real);
}

static const sqlite3_io_methods methods = {
    .iVersion = 1, /* shared memory and mappings belong to the database file */
    .xClose = on_close,
    .xRead = on_read,
    .xWrite = on_write,
    .xTruncate = on_truncate,
    .xSync = on_sync,
    .xFileSize = on_size,
    .xLock = on_lock,
    .xUnlock = on_unlock,
    .xCheckReservedLock = on_check_lock,
    .xFileControl = on_control,
    .xSectorSize = on_sector_size,
    .xDeviceCharacteristics = on_characteristics,
};

void wal_buffer_defer_sync(sqlite3_file *wal, bool on)
{
    if (wal->pMethods == &methods)
        buffer_of(wal)->deferred = on;
}

_Static_assert(sizeof(struct checkpoint_guard) <= sizeof(struct wal_buffer),
               "a database's guard is behind SQLite's own part of its file");

static int open_real(const char *path, sqlite3_file *f, int flags,
                     int *flags_out)
{
    int rc = real_vfs->xOpen(real_vfs, path, f, flags, flags_out);

    if (rc == SQLITE_OK && (flags & SQLITE_OPEN_MAIN_DB))
        checkpoint_guard_install(f, real_vfs->szOsFile);
    return rc;
}

/* Any other file is one of SQLite's own layer; so is a log on a device where a write may damage bytes beside
 * it, for which SQLite writes the end of a commit after its sync. */
static int on_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *f,
                   int flags, int *flags_out)
{
    struct wal_buffer *b = buffer_of(f);
    int rc;

    (void)vfs;
    if (!(flags & SQLITE_OPEN_WAL))
        return open_real(path, f, flags, flags_out);
    *b = (struct wal_buffer){0};
    rc = real_vfs->xOpen(real_vfs, path, b->real, flags, flags_out);
    if (rc == SQLITE_OK &&
        !(on_characteristics(f) & SQLITE_IOCAP_POWERSAFE_OVERWRITE)) {
        real_methods(b)->xClose(b->real);
        return real_vfs->xOpen(real_vfs, path, f, flags, flags_out);
    }
    if (rc == SQLITE_OK)
        b->base.pMethods = &methods;
    else if (real_methods(b))
        real_methods(b)->xClose(b->real);
    return rc;
}

const char *wal_buffer_vfs(void)
{
    static sqlite3_vfs vfs;

    if (!real_vfs) {
        real_vfs = sqlite3_vfs_find(NULL);
        vfs = *real_vfs;
        vfs.zName = "grapnel";
        vfs.szOsFile += (int)sizeof(struct wal_buffer);
        vfs.xOpen = on_open;
        sqlite3_vfs_register(&vfs, 0);
    }
    return vfs.zName;
}
