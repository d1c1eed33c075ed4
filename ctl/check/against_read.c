/* against_read: reads archived requests, and what the sequencer has recorded about them, from databases that
 * the processes go on using. */
#include "against.h"
#include "alloc.h"
#include "bounds.h"
#include "processes.h"
#include <dirent.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_ROWS = 1000,
    BATCH_BYTES = 16 * 1024 * 1024,
    BUSY_MS = 5000,
    ENDPOINT_IDS_MAX = 1 << 24,
};

/* One archive, with the rows that are read ahead. */
struct archive_file {
    sqlite3 *db;
    sqlite3_stmt *page;
    int64_t first, next, last; /* numbers of rows */
    struct archived_request rows[BATCH_ROWS];
    size_t count, at;
    bool ended;
};

struct reading {
    struct archive_file *files;
    size_t file_count;
    struct string_list names;
    sqlite3 *db; /* the sequencer's */
    sqlite3_stmt *event, *number, *duplicate_of, *deliveries, *endpoints;
    char **endpoint_names; /* by id; NULL: not known */
    size_t endpoint_count;
    struct archived_request batch[BATCH_ROWS];
    size_t batch_count;
    char failed[300]; /* the first error of a question; "": none */
};

/* ---- databases ---- */

static sqlite3 *open_file(const char *path, char why[300])
{
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(db, BUSY_MS);
    if (rc == SQLITE_OK) /* a file that is not a database is noticed here */
        rc = sqlite3_exec(db, "SELECT count(*) FROM sqlite_schema", NULL, NULL,
                          NULL);
    if (rc == SQLITE_OK)
        return db;
    snprintf(why, 300, "%.200s: %s", path,
             db ? sqlite3_errmsg(db) : sqlite3_errstr(rc));
    sqlite3_close(db);
    return NULL;
}

static bool prepare(sqlite3 *db, const char *sql, sqlite3_stmt **s,
                    char why[300])
{
    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, s, NULL) ==
        SQLITE_OK)
        return true;
    snprintf(why, 300,
             "%.150s: %s; the database is of another version: use `grapnel` of "
             "the same version as the processes",
             sqlite3_db_filename(db, "main"), sqlite3_errmsg(db));
    return false;
}

static const char *text_at(sqlite3_stmt *s, int i)
{
    const char *text = (const char *)sqlite3_column_text(s, i);

    return text ? text : "";
}

static struct bytes copy_at(sqlite3_stmt *s, int i)
{
    const void *p = sqlite3_column_blob(s, i);
    size_t n = (size_t)sqlite3_column_bytes(s, i);
    char *copy = gr_alloc(n + 1);

    if (n)
        memcpy(copy, p, n);
    return (struct bytes){copy, n};
}

static void explain(sqlite3 *db, char why[300])
{
    snprintf(why, 300, "%.150s: %.140s", sqlite3_db_filename(db, "main"),
             sqlite3_errmsg(db));
}

/* The number, or `none`. *good false: an error, `why`; then it does nothing. */
static int64_t number_of(sqlite3 *db, const char *sql, int64_t argument,
                         int64_t none, bool *good, char why[300])
{
    sqlite3_stmt *s = NULL;
    int64_t v = none;
    int rc = SQLITE_ERROR;

    if (!*good)
        return none;
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK &&
        sqlite3_bind_int64(s, 1, argument) == SQLITE_OK)
        rc = sqlite3_step(s);
    if (rc == SQLITE_ROW && sqlite3_column_type(s, 0) != SQLITE_NULL)
        v = sqlite3_column_int64(s, 0);
    *good = rc == SQLITE_ROW || rc == SQLITE_DONE;
    if (!*good)
        explain(db, why);
    sqlite3_finalize(s);
    return v;
}

/* Times ascend with numbers but for changes of the clock: the first row of the period, by halves. */
static bool find_period(struct archive_file *f, int64_t since_ms, char why[300])
{
    int64_t low, high;
    bool good = true;

    f->first = number_of(f->db, "SELECT min(n) FROM archive WHERE n > ?1", -1,
                         1, &good, why);
    f->last = number_of(f->db, "SELECT max(n) FROM archive WHERE n > ?1", -1, 0,
                        &good, why);
    low = f->first;
    high = f->last + 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (number_of(f->db,
                      "SELECT received_ms FROM archive WHERE n >= ?1 ORDER BY "
                      "n LIMIT 1",
                      middle, INT64_MAX, &good, why) < since_ms)
            low = middle + 1;
        else
            high = middle;
    }
    f->first = f->next = low;
    return good;
}

static bool open_archive(struct reading *r, const char *state_dir,
                         const char *file, int64_t since_ms, char why[300])
{
    char *path = gr_printf("%s/%s", state_dir, file);
    struct archive_file *f;
    bool good;

    r->files = gr_realloc(r->files, (r->file_count + 1) * sizeof *r->files);
    f = &r->files[r->file_count++];
    *f = (struct archive_file){0};
    f->db = open_file(path, why);
    good = f->db &&
           prepare(f->db,
                   "SELECT n, event_id, source, received_ms, CASE WHEN head = "
                   "0 THEN headers ELSE (SELECT h.headers FROM heads h WHERE "
                   "h.n = archive.head) END, body FROM archive WHERE n >= ?1 "
                   "AND n <= ?2 ORDER BY n LIMIT ?3",
                   &f->page, why) &&
           find_period(f, since_ms, why);
    string_list_give(&r->names, gr_strndup(file, strlen(file) - strlen(".db")));
    free(path);
    return good;
}

/* "ingress.db", "ingress-2.db", "outbox.db", "reconcile.db" */
static int is_archive(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    char *name;
    bool is;

    if (n <= 3 || strcmp(e->d_name + n - 3, ".db") != 0)
        return false;
    name = gr_strndup(e->d_name, n - 3);
    is = process_is(name, PROCESSES_WITH_ARCHIVE);
    free(name);
    return is;
}

static bool open_archives(struct reading *r, const char *state_dir,
                          int64_t since_ms, char why[300])
{
    struct dirent **found = NULL;
    int n = scandir(state_dir, &found, is_archive, alphasort);
    bool good = n > 0;

    if (n <= 0)
        snprintf(why, 300, "%.200s has no archive (ingress*.db)", state_dir);
    for (int i = 0; i < n; i++) {
        good = good &&
               open_archive(r, state_dir, found[i]->d_name, since_ms, why);
        free(found[i]);
    }
    free(found);
    return good;
}

struct reading *reading_open(const char *state_dir, int64_t since_ms,
                             char why[300])
{
    struct reading *r = gr_alloc(sizeof *r);
    char *path = gr_printf("%s/sequencer.db", state_dir);
    bool good;

    r->db = open_file(path, why);
    good =
        r->db &&
        prepare(r->db,
                "SELECT n, received_ms, status, provider_id, type, "
                "workspace, reason, duplicate_of, source_sequence, "
                "reopened_ms FROM events WHERE id = ?1",
                &r->event, why) &&
        prepare(r->db, "SELECT n FROM events WHERE id = ?1", &r->number, why) &&
        prepare(r->db, "SELECT duplicate_of FROM events WHERE n = ?1",
                &r->duplicate_of, why) &&
        prepare(r->db,
                "SELECT endpoint, action_id FROM deliveries WHERE event = "
                "?1",
                &r->deliveries, why) &&
        prepare(r->db, "SELECT id, name FROM endpoints", &r->endpoints, why) &&
        open_archives(r, state_dir, since_ms, why);
    free(path);
    if (good)
        return r;
    reading_close(r);
    return NULL;
}

static void free_request(struct archived_request *a)
{
    free(a->id);
    free(a->source);
    free((void *)(uintptr_t)a->headers.p);
    free((void *)(uintptr_t)a->body.p);
    *a = (struct archived_request){0};
}

static void free_batch(struct reading *r)
{
    for (size_t i = 0; i < r->batch_count; i++)
        free_request(&r->batch[i]);
    r->batch_count = 0;
}

void reading_close(struct reading *r)
{
    free_batch(r);
    for (size_t i = 0; i < r->file_count; i++) {
        struct archive_file *f = &r->files[i];

        while (f->at < f->count)
            free_request(&f->rows[f->at++]);
        sqlite3_finalize(f->page);
        sqlite3_close(f->db);
    }
    free(r->files);
    string_list_fini(&r->names);
    sqlite3_finalize(r->event);
    sqlite3_finalize(r->number);
    sqlite3_finalize(r->duplicate_of);
    sqlite3_finalize(r->deliveries);
    sqlite3_finalize(r->endpoints);
    sqlite3_close(r->db);
    for (size_t i = 0; i < r->endpoint_count; i++)
        free(r->endpoint_names[i]);
    free(r->endpoint_names);
    free(r);
}

const struct string_list *reading_names(const struct reading *r)
{
    return &r->names;
}

bool reading_is_merged(const struct reading *r)
{
    return r->file_count > 1;
}

double reading_part(const struct reading *r)
{
    int64_t all = 0, done = 0;

    for (size_t i = 0; i < r->file_count; i++) {
        const struct archive_file *f = &r->files[i];

        all += f->last + 1 - f->first;
        done += f->next - f->first;
    }
    return all > 0 ? (double)done / (double)all : 1;
}

/* ---- requests ---- */

/* Reads the next rows of one archive. The rows that come meanwhile are not read. */
static bool read_page(struct archive_file *f, char why[300])
{
    size_t bytes = 0;
    int rc;

    f->count = f->at = 0;
    sqlite3_bind_int64(f->page, 1, f->next);
    sqlite3_bind_int64(f->page, 2, f->last);
    sqlite3_bind_int64(f->page, 3, BATCH_ROWS);
    while (bytes < BATCH_BYTES && (rc = sqlite3_step(f->page)) == SQLITE_ROW) {
        struct archived_request *a = &f->rows[f->count++];

        f->next = sqlite3_column_int64(f->page, 0) + 1;
        *a = (struct archived_request){
            .id = gr_strdup(text_at(f->page, 1)),
            .source = gr_strdup(text_at(f->page, 2)),
            .received_ms = sqlite3_column_int64(f->page, 3),
            .headers = copy_at(f->page, 4),
            .body = copy_at(f->page, 5)};
        bytes += a->headers.n + a->body.n;
        rc = SQLITE_ROW;
    }
    if (bytes < BATCH_BYTES && rc != SQLITE_DONE) {
        explain(f->db, why);
        sqlite3_reset(f->page);
        return false;
    }
    sqlite3_reset(f->page);
    f->ended = !f->count;
    return true;
}

/* The archive whose next request is the oldest. NULL: all have ended, or *good is false. */
static struct archive_file *oldest(struct reading *r, bool *good, char why[300])
{
    struct archive_file *best = NULL;

    for (size_t i = 0; i < r->file_count && *good; i++) {
        struct archive_file *f = &r->files[i];

        if (f->at == f->count && !f->ended)
            *good = read_page(f, why);
        if (f->at < f->count && (!best || f->rows[f->at].received_ms <
                                              best->rows[best->at].received_ms))
            best = f;
    }
    return *good ? best : NULL;
}

static int by_number(const void *a, const void *b)
{
    const struct archived_request *x = a, *y = b;

    return x->n < y->n ? -1 : x->n > y->n;
}

/* Whether there is a row. An error is told by the next reading_batch(), and nothing that was made of it is
 * used. */
static bool step(struct reading *r, sqlite3_stmt *s)
{
    int rc = sqlite3_step(s);

    if (rc != SQLITE_ROW && rc != SQLITE_DONE && !*r->failed)
        explain(r->db, r->failed);
    return rc == SQLITE_ROW;
}

static int64_t number_of_event(struct reading *r, const char *id)
{
    int64_t n;

    sqlite3_bind_text(r->number, 1, id, -1, SQLITE_STATIC);
    n = step(r, r->number) ? sqlite3_column_int64(r->number, 0) : INT64_MAX;
    sqlite3_reset(r->number);
    return n;
}

/* Ends the read transaction of the batch before, and begins another one. A statement that is on a row
 * would keep the old one, and so hinder each checkpoint until the command ends. */
static void renew(struct reading *r)
{
    sqlite3_reset(r->event);
    sqlite3_reset(r->duplicate_of);
    if ((!sqlite3_get_autocommit(r->db) &&
         sqlite3_exec(r->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) ||
        sqlite3_exec(r->db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
        explain(r->db, r->failed);
}

gr_rc reading_batch(struct reading *r, struct archived_request **all,
                    size_t *count, char why[300])
{
    struct archive_file *f;
    size_t bytes = 0;
    bool good;

    free_batch(r);
    if (!*r->failed)
        renew(r);
    good = !*r->failed;
    if (!good)
        snprintf(why, 300, "%s", r->failed);
    while (good && r->batch_count < BATCH_ROWS && bytes < BATCH_BYTES &&
           (f = oldest(r, &good, why))) {
        struct archived_request *a = &r->batch[r->batch_count++];

        *a = f->rows[f->at++];
        bytes += a->headers.n + a->body.n;
        if (r->file_count > 1)
            a->n = number_of_event(r, a->id);
    }
    if (r->file_count > 1)
        qsort(r->batch, r->batch_count, sizeof *r->batch, by_number);
    *all = r->batch;
    *count = r->batch_count;
    return good ? GR_OK : GR_REFUSE;
}

/* ---- what was recorded ---- */

bool reading_event(struct reading *r, const char *id, struct recorded *out)
{
    sqlite3_stmt *s = r->event;

    sqlite3_reset(s);
    sqlite3_bind_text(s, 1, id, -1, SQLITE_TRANSIENT);
    if (!step(r, s))
        return false;
    *out = (struct recorded){.n = sqlite3_column_int64(s, 0),
                             .received_ms = sqlite3_column_int64(s, 1),
                             .status = sqlite3_column_int64(s, 2),
                             .provider_id = text_at(s, 3),
                             .type = text_at(s, 4),
                             .workspace = text_at(s, 5),
                             .reason = text_at(s, 6),
                             .duplicate_of = text_at(s, 7),
                             .numbered = sqlite3_column_type(s, 8) !=
                                         SQLITE_NULL,
                             .source_sequence = sqlite3_column_int64(s, 8),
                             .reopened = sqlite3_column_int64(s, 9) != 0};
    return true;
}

const char *reading_duplicate_of(struct reading *r, int64_t n)
{
    sqlite3_reset(r->duplicate_of);
    sqlite3_bind_int64(r->duplicate_of, 1, n);
    return step(r, r->duplicate_of) ? text_at(r->duplicate_of, 0) : "";
}

static void read_endpoints(struct reading *r)
{
    while (step(r, r->endpoints)) {
        int64_t id = sqlite3_column_int64(r->endpoints, 0);
        size_t need;

        if (id < 0 || id >= ENDPOINT_IDS_MAX)
            continue;
        need = (size_t)id + 1;
        if (need > r->endpoint_count) {
            r->endpoint_names = gr_realloc(r->endpoint_names,
                                           need * sizeof *r->endpoint_names);
            memset(r->endpoint_names + r->endpoint_count, 0,
                   (need - r->endpoint_count) * sizeof *r->endpoint_names);
            r->endpoint_count = need;
        }
        free(r->endpoint_names[id]);
        r->endpoint_names[id] = gr_strdup(text_at(r->endpoints, 1));
    }
    sqlite3_reset(r->endpoints);
}

static const char *endpoint_name(struct reading *r, int64_t id)
{
    if (id < 0 || id >= ENDPOINT_IDS_MAX)
        return "";
    if ((size_t)id >= r->endpoint_count || !r->endpoint_names[id])
        read_endpoints(r);
    return (size_t)id < r->endpoint_count && r->endpoint_names[id]
               ? r->endpoint_names[id]
               : "";
}

void reading_deliveries(struct reading *r, int64_t n, reading_delivery_fn *fn,
                        void *self)
{
    sqlite3_stmt *s = r->deliveries;

    sqlite3_bind_int64(s, 1, n);
    while (step(r, s))
        fn(self, endpoint_name(r, sqlite3_column_int64(s, 0)),
           sqlite3_column_int64(s, 1) != 0);
    sqlite3_reset(s);
}
