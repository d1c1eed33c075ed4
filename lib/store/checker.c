/* checker: a thread that runs SQLite's quick_check over one table after the other. */
#include "checker.h"
#include "alloc.h"
#include "db_check.h"
#include "log.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct checker {
    char *path;
    sqlite3 *h;
    pthread_t thread;
    atomic_bool stop;
    atomic_bool leave; /* the table that it is checking */
    char **tables;
    int count;
};

static int on_table(void *arg, int n, char **values, char **names)
{
    struct checker *c = arg;

    (void)names;
    if (n < 1 || !values[0])
        return 0;
    c->tables = gr_realloc(c->tables,
                           (size_t)(c->count + 1) * sizeof *c->tables);
    c->tables[c->count++] = gr_strdup(values[0]);
    return 0;
}

static int on_progress(void *arg)
{
    struct checker *c = arg;

    return atomic_load(&c->stop) || atomic_load(&c->leave);
}

static void *checker_main(void *arg)
{
    struct checker *c = arg;

    sqlite3_exec(c->h, "SELECT name FROM sqlite_schema WHERE type = 'table'",
                 on_table, c, NULL);
    for (int i = 0; i < c->count && !atomic_load(&c->stop); i++) {
        char *sql = gr_printf("PRAGMA quick_check('%s')", c->tables[i]);

        atomic_store(&c->leave, false);
        db_check(c->h, c->path, sql);
        if (atomic_load(&c->leave))
            log_info(NULL, "too much is being written to check a table now",
                     LS("file", c->path), LS("table", c->tables[i]));
        free(sql);
    }
    return NULL;
}

struct checker *checker_open(const char *path)
{
    struct checker *c = gr_alloc(sizeof *c);

    c->path = gr_strdup(path);
    if (sqlite3_open_v2(path, &c->h, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        die(EXIT_STORAGE, "%s: cannot open a connection to check it: %s", path,
            c->h ? sqlite3_errmsg(c->h) : "out of memory");
    sqlite3_busy_timeout(c->h, 1000);
    sqlite3_wal_autocheckpoint(c->h, 0);
    sqlite3_progress_handler(c->h, 1000, on_progress, c);
    if (pthread_create(&c->thread, NULL, checker_main, c) != 0)
        die(EXIT_UNAVAILABLE, "%s: can't start the thread that checks it",
            path);
    return c;
}

void checker_break(struct checker *c)
{
    if (!c)
        return;
    atomic_store(&c->leave, true);
    sqlite3_interrupt(c->h);
}

void checker_close(struct checker *c)
{
    if (!c)
        return;
    atomic_store(&c->stop, true);
    sqlite3_interrupt(c->h);
    pthread_join(c->thread, NULL);
    sqlite3_close(c->h);
    for (int i = 0; i < c->count; i++)
        free(c->tables[i]);
    free(c->tables);
    free(c->path);
    free(c);
}
