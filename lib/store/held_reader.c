/* held_reader: holds the checkpoint back by an open read transaction. */
#include "held_reader.h"
#include "alloc.h"
#include <sqlite3.h>
#include <stdlib.h>

enum { BUSY_MS = 5000 };

struct held_reader {
    sqlite3 *h;
    char *path;
    sqlite3_stmt *begin, *look, *end;
};

static void check(const struct held_reader *r, int rc, int expected)
{
    if (rc != expected)
        die(EXIT_STORAGE,
            "%s: the read transaction that keeps turns out of the file until "
            "they are replicated failed: %s. Nothing is lost; start again",
            r->path, sqlite3_errmsg(r->h));
}

static sqlite3_stmt *prepare(struct held_reader *r, const char *sql)
{
    sqlite3_stmt *s = NULL;

    check(
        r,
        sqlite3_prepare_v3(r->h, sql, -1, SQLITE_PREPARE_PERSISTENT, &s, NULL),
        SQLITE_OK);
    return s;
}

struct held_reader *held_reader_open(const char *path)
{
    struct held_reader *r = gr_alloc(sizeof *r);

    r->path = gr_strdup(path);
    if (sqlite3_open_v2(path, &r->h,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        die(EXIT_STORAGE, "%s: cannot open a second connection: %s", path,
            r->h ? sqlite3_errmsg(r->h) : "out of memory");
    sqlite3_busy_timeout(r->h, BUSY_MS);
    sqlite3_db_config(r->h, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
    r->begin = prepare(r, "BEGIN");
    r->look = prepare(r, "SELECT 1 FROM sqlite_schema LIMIT 1");
    r->end = prepare(r, "COMMIT");
    return r;
}

void held_reader_close(struct held_reader *r)
{
    if (!r)
        return;
    sqlite3_finalize(r->begin);
    sqlite3_finalize(r->look);
    sqlite3_finalize(r->end);
    sqlite3_close(r->h);
    free(r->path);
    free(r);
}

static void run(struct held_reader *r, sqlite3_stmt *s)
{
    int rc = sqlite3_step(s);

    check(r, rc, s == r->look ? SQLITE_ROW : SQLITE_DONE);
    sqlite3_reset(s);
}

void held_reader_end(struct held_reader *r)
{
    if (!sqlite3_get_autocommit(r->h))
        run(r, r->end);
}

void held_reader_renew(struct held_reader *r)
{
    held_reader_end(r);
    run(r, r->begin);
    run(r, r->look); /* BEGIN alone reads nothing */
}
