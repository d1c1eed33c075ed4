/* db_check: ends the process when SQLite reports a damaged file. */
#include "db_check.h"
#include "alloc.h"
#include "log.h"
#include <stdlib.h>
#include <string.h>

bool db_says_damaged(int rc)
{
    return (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB;
}

void db_damaged(const char *path, const char *what)
{
    die(EXIT_STORAGE,
        "%s is damaged (%s). Restore a backup made by `grapnel backup` (a copy "
        "of a live file is not a backup), or move this file and its -wal away "
        "to start empty",
        path, what);
}

static int first_text(void *arg, int n, char **values, char **names)
{
    char **out = arg;

    (void)names;
    if (n > 0 && values[0] && !*out)
        *out = gr_strdup(values[0]);
    return 0;
}

void db_check(sqlite3 *h, const char *path, const char *pragma)
{
    char *verdict = NULL;
    int rc = sqlite3_exec(h, pragma, first_text, &verdict, NULL);

    if (db_says_damaged(rc))
        db_damaged(path, sqlite3_errmsg(h));
    if (rc != SQLITE_OK && rc != SQLITE_BUSY && rc != SQLITE_LOCKED &&
        rc != SQLITE_INTERRUPT)
        die(EXIT_STORAGE, "cannot check %s: %s", path, sqlite3_errmsg(h));
    if (verdict && strcmp(verdict, "ok") != 0)
        db_damaged(path, verdict);
    free(verdict);
}
