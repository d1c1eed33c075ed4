/* verifier: checks pages and row checksums in small steps. */
#include "verifier.h"
#include "alloc.h"
#include "json_text.h"
#include "log.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    ROWS_AT_ONCE = 256,
    NAMED_MAX = 1000,
    BUSY_MS = 1000,
    /* For ioprio_set(2): not every libc's headers have linux/ioprio.h. */
    IOPRIO_WHO_PROCESS = 1,
    IOPRIO_IDLE = 3 << 13,
    NICE_MIN = 19,
};

struct look {
    sqlite3 *h;
    const char *path;
    struct verify_ends *ends;
    json_t *damaged, *skipped;
    int64_t tables, rows, damaged_count;
};

static bool stopped(const struct look *l)
{
    return l->ends && atomic_load(&l->ends->stop);
}

static bool left(const struct look *l)
{
    return stopped(l) || (l->ends && atomic_load(&l->ends->leave));
}

static int on_progress(void *arg)
{
    return left(arg);
}

static void add(struct look *l, const char *table, const char *id,
                const char *what)
{
    if (l->damaged_count++ < NAMED_MAX)
        json_array_append_new(l->damaged,
                              json_pack("{s:s, s:o, s:o}", "table", table, "id",
                                        id ? json_text_of(id) : json_null(),
                                        "what", json_text_of(what)));
}

/* Writes "NAME"; the names of our tables need no other quoting. */
static void check_pages(struct look *l, const char *table)
{
    char *sql = gr_printf("PRAGMA quick_check('%s')", table);
    sqlite3_stmt *q = NULL;
    int rc = sqlite3_prepare_v2(l->h, sql, -1, &q, NULL);

    while (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        const char *verdict = (const char *)sqlite3_column_text(q, 0);

        if (verdict && strcmp(verdict, "ok") != 0)
            add(l, table, NULL, verdict);
        rc = SQLITE_OK;
    }
    if (rc != SQLITE_DONE && rc != SQLITE_INTERRUPT && !left(l))
        add(l, table, NULL, sqlite3_errmsg(l->h));
    sqlite3_finalize(q);
    free(sql);
}

static bool has_sums(struct look *l, const struct db_summed *s)
{
    char *sql = gr_printf("SELECT sum, %s FROM %s LIMIT 0", s->columns,
                          s->table);
    sqlite3_stmt *q = NULL;
    bool has = sqlite3_prepare_v2(l->h, sql, -1, &q, NULL) == SQLITE_OK;

    sqlite3_finalize(q);
    free(sql);
    return has;
}

/* Checks some rows; each call is a transaction. false: there are no more. */
static bool check_some(struct look *l, const char *table, sqlite3_stmt *q,
                       int64_t *at)
{
    int count = 0, rc;

    sqlite3_bind_int64(q, 1, *at);
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        *at = sqlite3_column_int64(q, 0);
        count++;
        if (!sqlite3_column_int(q, 2))
            add(l, table, (const char *)sqlite3_column_text(q, 1),
                "wrong checksum");
    }
    l->rows += count;
    sqlite3_reset(q);
    /* A writer wants to restart the WAL: the next group of rows is read in another
     * transaction. */
    if (rc == SQLITE_INTERRUPT && l->ends && !stopped(l)) {
        atomic_store(&l->ends->leave, false);
        return true;
    }
    if (rc != SQLITE_DONE && !left(l))
        add(l, table, NULL, sqlite3_errmsg(l->h));
    return rc == SQLITE_DONE && count == ROWS_AT_ONCE;
}

static void check_rows(struct look *l, const struct db_summed *s)
{
    char *sql = gr_printf("SELECT rowid, %s, " DB_INTACT(
                              "%s") " FROM %s WHERE "
                                    "rowid > ?1 ORDER BY rowid LIMIT %d",
                          s->label, s->columns, s->table, ROWS_AT_ONCE);
    sqlite3_stmt *q = NULL;
    int64_t at = INT64_MIN;

    if (sqlite3_prepare_v2(l->h, sql, -1, &q, NULL) == SQLITE_OK)
        while (!stopped(l) && check_some(l, s->table, q, &at))
            ;
    else
        add(l, s->table, NULL, sqlite3_errmsg(l->h));
    sqlite3_finalize(q);
    free(sql);
}

static void check_table(struct look *l, const char *table,
                        const struct db_summed *sums, size_t count)
{
    if (l->ends)
        atomic_store(&l->ends->leave, false);
    check_pages(l, table);
    l->tables++;
    if (left(l)) {
        json_array_append_new(l->skipped, json_string(table));
        if (l->ends)
            atomic_store(&l->ends->leave, false);
    }
    for (size_t i = 0; i < count; i++)
        if (strcmp(sums[i].table, table) == 0 && has_sums(l, &sums[i]))
            check_rows(l, &sums[i]);
}

static void check_all(struct look *l, const struct db_summed *sums,
                      size_t count)
{
    sqlite3_stmt *q = NULL;
    json_t *tables = json_array(), *name;
    size_t i;
    int rc = sqlite3_prepare_v2(
        l->h, "SELECT name FROM sqlite_schema WHERE type = 'table'", -1, &q,
        NULL);

    while (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        json_array_append_new(
            tables, json_string((const char *)sqlite3_column_text(q, 0)));
        rc = SQLITE_OK;
    }
    if (rc != SQLITE_DONE)
        add(l, "sqlite_schema", NULL, sqlite3_errmsg(l->h));
    sqlite3_finalize(q);
    json_array_foreach(tables, i, name)
    {
        if (stopped(l))
            break;
        check_table(l, json_string_value(name), sums, count);
    }
    json_decref(tables);
}

json_t *verify_file(const char *path, const struct db_summed *sums,
                    size_t sum_count, struct verify_ends *ends)
{
    struct look l = {.path = path,
                     .ends = ends,
                     .damaged = json_array(),
                     .skipped = json_array()};

    if (sqlite3_open_v2(path, &l.h, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
        add(&l, "", NULL, l.h ? sqlite3_errmsg(l.h) : "out of memory");
    } else {
        sqlite3_busy_timeout(l.h, BUSY_MS);
        sqlite3_progress_handler(l.h, 1000, on_progress, &l);
        db_sums_register(l.h);
        check_all(&l, sums, sum_count);
    }
    sqlite3_close(l.h);
    return json_pack("{s:s, s:b, s:I, s:I, s:I, s:o, s:o}", "file", path, "ok",
                     l.damaged_count == 0, "tables", (json_int_t)l.tables,
                     "rows", (json_int_t)l.rows, "damaged_count",
                     (json_int_t)l.damaged_count, "damaged", l.damaged,
                     "skipped", l.skipped);
}

/* ---- in a thread ---- */

struct verifier {
    char *path;
    const struct db_summed *sums;
    size_t sum_count;
    struct verify_ends ends;
    pthread_t thread;
    atomic_bool done;
    json_t *result;
};

static void *verifier_main(void *arg)
{
    struct verifier *v = arg;
    id_t self = (id_t)syscall(SYS_gettid);

    /* On Linux both apply to one thread. If they are refused, the thread keeps its
     * priority. */
    (void)setpriority(PRIO_PROCESS, self, NICE_MIN);
    (void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE);
    v->result = verify_file(v->path, v->sums, v->sum_count, &v->ends);
    atomic_store(&v->done, true);
    return NULL;
}

struct verifier *verifier_open(const char *path, const struct db_summed *sums,
                               size_t sum_count)
{
    struct verifier *v = gr_alloc(sizeof *v);

    v->path = gr_strdup(path);
    v->sums = sums;
    v->sum_count = sum_count;
    if (pthread_create(&v->thread, NULL, verifier_main, v) != 0)
        die(EXIT_UNAVAILABLE, "%s: can't start the thread that verifies it",
            path);
    return v;
}

json_t *verifier_take(struct verifier *v)
{
    return atomic_load(&v->done) ? json_incref(v->result) : NULL;
}

void verifier_break(struct verifier *v)
{
    if (v)
        atomic_store(&v->ends.leave, true);
}

void verifier_close(struct verifier *v)
{
    if (!v)
        return;
    atomic_store(&v->ends.stop, true);
    pthread_join(v->thread, NULL);
    json_decref(v->result);
    free(v->path);
    free(v);
}
