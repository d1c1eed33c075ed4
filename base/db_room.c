#include "alloc.h"
#include "db_inside.h"
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* A turn that forgets writes first, to the WAL; the very last room is not for that. */
enum { FORGET_ROOM_BYTES = 8 * 1024 * 1024 };

int64_t db_disk_room_bytes(const struct db *db)
{
    struct statvfs v;

    if (statvfs(db->path, &v) != 0)
        return 0;
    return (int64_t)v.f_bavail * (int64_t)v.f_frsize;
}

static int64_t pages_bytes(struct db *db, stmt *count)
{
    return db_number(db, count, 0) * db->page_bytes;
}

int64_t db_room_bytes(struct db *db)
{
    return db_disk_room_bytes(db) + pages_bytes(db, db->free_pages);
}

int64_t db_used_bytes(struct db *db)
{
    return pages_bytes(db, db->all_pages) - pages_bytes(db, db->free_pages);
}

bool db_over_share(struct db *db, int part)
{
    int64_t used = db_used_bytes(db);

    return db_disk_room_bytes(db) >= FORGET_ROOM_BYTES &&
           used > (used + db_room_bytes(db)) / part;
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
