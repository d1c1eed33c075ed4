/* first_history: makes a file one that a history can begin with, or that is not replicated any more. */
#include "first_history.h"
#include "file_io.h"
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

static gr_rc refuse(sqlite3 *h, char why[200])
{
    snprintf(why, 200, "%s", sqlite3_errmsg(h));
    sqlite3_close(h);
    return GR_REFUSE;
}

static int on_number(void *out, int n, char **values, char **names)
{
    (void)n;
    (void)names;
    *(int *)out = values[0] ? (int)strtol(values[0], NULL, 10) : 0;
    return 0;
}

static int on_check(void *damaged, int n, char **values, char **names)
{
    (void)n;
    (void)names;
    *(bool *)damaged = !values[0] || strcmp(values[0], "ok") != 0;
    return 0;
}

/* SQLite takes the write-ahead log into the file when the last connection closes it. */
static gr_rc settle(const char *db_path, int *schema, char why[200])
{
    bool damaged = true;
    int busy = 1;
    sqlite3 *h;

    if (sqlite3_open_v2(db_path, &h, SQLITE_OPEN_READWRITE, NULL) !=
            SQLITE_OK ||
        sqlite3_exec(h, "PRAGMA synchronous = FULL", NULL, NULL, NULL) !=
            SQLITE_OK ||
        sqlite3_exec(h, "PRAGMA integrity_check(1)", on_check, &damaged,
                     NULL) != SQLITE_OK ||
        sqlite3_exec(h, "PRAGMA user_version", on_number, schema, NULL) !=
            SQLITE_OK ||
        sqlite3_exec(h, "PRAGMA journal_mode = WAL", NULL, NULL, NULL) !=
            SQLITE_OK ||
        sqlite3_exec(h, "DROP TABLE IF EXISTS replicated", NULL, NULL, NULL) !=
            SQLITE_OK ||
        sqlite3_exec(h, "PRAGMA wal_checkpoint(TRUNCATE)", on_number, &busy,
                     NULL) != SQLITE_OK)
        return refuse(h, why);
    if (busy || damaged) {
        snprintf(why, 200, "%s",
                 damaged
                     ? "the file is damaged (PRAGMA integrity_check): restore "
                       "a backup, or follow another host"
                     : "another program has it open: close it");
        sqlite3_close(h);
        return GR_REFUSE;
    }
    sqlite3_close(h);
    return GR_OK;
}

static void draw(void *to, size_t n)
{
    if (getrandom(to, n, 0) != (ssize_t)n)
        die(EXIT_UNAVAILABLE, "getrandom: %s", strerror(errno));
}

gr_rc history_prepare(const char *db_path, struct stored_position *out,
                      int *schema, char why[200])
{
    struct stat st;
    bool has_file = stat(db_path, &st) == 0 && st.st_size > 0,
         has_position = position_file_read(db_path, out);

    *schema = 0;
    if (has_file && settle(db_path, schema, why) != GR_OK)
        return GR_REFUSE;
    if (has_position && out->at.n == 0 && !out->active)
        return GR_OK;
    *out = (struct stored_position){0};
    draw(out->at.history, sizeof out->at.history);
    if (has_file)
        draw(out->at.chain, sizeof out->at.chain);
    if (!has_file)
        return GR_OK; /* the first start makes the file and its position */
    if (position_file_write(db_path, out) == GR_OK)
        return GR_OK;
    snprintf(why, 200, "the disk is full");
    return GR_REFUSE;
}

void history_forget(const char *db_path)
{
    position_file_remove(db_path);
    folder_sync(db_path);
}
