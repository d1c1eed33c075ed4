#include "alloc.h"
#include "clock.h"
#include "db_inside.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BACKUP_PAGES = 256 }; /* in one step, between two turns */

void db_backup_end(struct db *db, bool keep)
{
    if (!db->backup.to)
        return;
    sqlite3_backup_finish(db->backup.job);
    sqlite3_close(db->backup.to);
    if (!keep)
        unlink(db->backup.path);
    free(db->backup.path);
    memset(&db->backup, 0, sizeof db->backup);
}

gr_rc db_backup_start(struct db *db, const char *path, char why[200])
{
    int rc;

    if (db->backup.to) {
        sqlite3_snprintf(200, why, "a backup to %s is under way",
                         db->backup.path);
        return GR_REFUSE;
    }
    if (access(path, F_OK) == 0) {
        sqlite3_snprintf(200, why, "%s exists already", path);
        return GR_REFUSE;
    }
    rc = sqlite3_open(path, &db->backup.to);
    db->backup.path = gr_strdup(path);
    if (rc == SQLITE_OK)
        db->backup.job = sqlite3_backup_init(db->backup.to, "main", db->h,
                                             "main");
    if (!db->backup.job) {
        sqlite3_snprintf(200, why, "%s: %s", path,
                         sqlite3_errmsg(db->backup.to));
        db_backup_end(db, false);
        return GR_REFUSE;
    }
    return GR_OK;
}

gr_rc db_backup_step(struct db *db, char why[200])
{
    int rc = sqlite3_backup_step(db->backup.job, BACKUP_PAGES);

    if (rc == SQLITE_DONE) {
        gr_rc done;

        sqlite3_backup_finish(db->backup.job);
        db->backup.job = NULL;
        done = db_copy_finish(db->backup.to, now_ms(), why);
        db_backup_end(db, done == GR_OK);
        return done;
    }
    if (rc == SQLITE_OK || rc == SQLITE_BUSY || rc == SQLITE_LOCKED)
        return GR_AGAIN;
    sqlite3_snprintf(200, why, "%s: %s", db->backup.path, sqlite3_errstr(rc));
    db_backup_end(db, false);
    return GR_REFUSE;
}

bool db_backup_running(const struct db *db)
{
    return db->backup.to != NULL;
}
