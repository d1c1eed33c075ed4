/* What it means that SQLite can't: a full disk, or the end of this process. */
#include "db_inside.h"
#include "log.h"
#include <errno.h>

enum { DISK_IS_FULL_BYTES = 64 * 1024 };

static int last_errno(sqlite3_file *f)
{
    int why = 0;

    if (f && f->pMethods)
        f->pMethods->xFileControl(f, SQLITE_FCNTL_LAST_ERRNO, &why);
    return why;
}

/* For SQLite only ENOSPC is a full disk; for us one of which we have had our share
 * is, too. */
static bool is_over_quota(struct db *db)
{
    sqlite3_file *file = NULL, *wal = NULL;

    sqlite3_file_control(db->h, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    sqlite3_file_control(db->h, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
    return last_errno(file) == EDQUOT || last_errno(wal) == EDQUOT;
}

/* A write, not an fsync: after that nobody knows what is on the disk. */
bool db_is_full(struct db *db, int rc)
{
    return (rc & 0xff) == SQLITE_FULL ||
           (rc == SQLITE_IOERR_WRITE && is_over_quota(db));
}

/* SQLite calls it an I/O error when there is no space for its -shm. */
static const char *disk_hint(struct db *db)
{
    return db_disk_room_bytes(db) < DISK_IS_FULL_BYTES
               ? "The disk is full: free some space. "
               : "";
}

_Noreturn void db_failed(struct db *db, int rc, const char *doing)
{
    die(EXIT_STORAGE,
        "%s: %s failed: %s (%s). %sNothing that was promised is lost; what was "
        "being done is done again at the next start",
        db->path, doing, sqlite3_errstr(rc), db->h ? sqlite3_errmsg(db->h) : "",
        disk_hint(db));
}
