#include "alloc.h"
#include "db_inside.h"
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

int64_t db_disk_room_bytes(const struct db *db)
{
    struct statvfs v;

    if (statvfs(db->path, &v) != 0)
        return 0;
    return (int64_t)v.f_bavail * (int64_t)v.f_frsize;
}

int64_t db_room_bytes(struct db *db)
{
    int64_t own = 0;

    if (db_step(db, db->free_pages))
        own = col_i64(db->free_pages, 0) * db->page_bytes;
    db_done(db->free_pages);
    return db_disk_room_bytes(db) + own;
}

int64_t db_size_bytes(const struct db *db)
{
    char *wal = gr_printf("%s-wal", db->path);
    struct stat file, log;
    int64_t n = stat(db->path, &file) == 0 ? file.st_size : 0;

    if (stat(wal, &log) == 0)
        n += log.st_size;
    free(wal);
    return n;
}
