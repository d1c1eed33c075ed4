/* store: statements of the archive and of refused requests. */
#include "store.h"
#include "headers.h"
#include "stores.h"
#include "sums.h"
#include <stdlib.h>
#include <string.h>

extern const char ingress_store_sql[];
extern const char *const ingress_upgrades[];
/* Rows have a kilobyte or two and are appended: with pages larger than SQLite's default a
 * commit writes half as many pages; with still larger ones it writes more bytes. */
enum { PAGE_BYTES = 8 * 1024 };
const struct db_schema ingress_schema = {.create = ingress_store_sql,
                                         .steps = ingress_upgrades,
                                         .count = INGRESS_SCHEMA,
                                         .page_bytes = PAGE_BYTES,
                                         .program = "grapnel-ingress",
                                         .table = "archive"};

#define REJECT                                                                \
    "SELECT " ROW_NAMES(                                                      \
        REJECT_COLUMNS) ", EXISTS (SELECT 1 FROM reject_bodies b WHERE b.id " \
                        "= rejects.id) FROM rejects"

void store_open(struct store *s, struct db *db)
{
    s->db = db;
    s->insert = db_prepare(
        db, ROW_INSERT_WITH("archive", ARCHIVE_COLUMNS, ", sum",
                            ", content_sum(:n, :event_id, :source, "
                            ":received_ms, :remote, :headers, :body, :head)"));
    s->load = db_prepare(db, "SELECT event_id, source, received_ms, remote,"
                             " " ARCHIVE_HEADERS ", body, " ARCHIVE_INTACT
                             " FROM archive WHERE n = ?1");
    s->find = db_prepare(db, "SELECT n, received_ms, secret, source, remote,"
                             " " ARCHIVE_HEADERS ", length(body) FROM archive"
                             " WHERE n = ?1");
    s->ends = db_prepare(db,
                         "SELECT (SELECT n FROM archive ORDER BY n LIMIT 1),"
                         " (SELECT n FROM archive ORDER BY n DESC LIMIT 1)");
    s->oldest = db_prepare(db, "SELECT " ARCHIVE_SIZE ", event_id, head"
                               " FROM archive WHERE n > ?1 AND n <= ?2"
                               " ORDER BY n LIMIT ?3");
    s->drop = db_prepare(db, "DELETE FROM archive WHERE n = ?1");
    s->head_drop = db_prepare(db,
                              "DELETE FROM heads WHERE n = ?1 AND last_n = ?2");
    s->ages = db_prepare(db, "SELECT n, received_ms FROM archive WHERE n > ?1"
                             " ORDER BY n LIMIT ?2");
    s->next = db_prepare(db, "SELECT received_ms FROM archive WHERE n > ?1"
                             " ORDER BY n LIMIT 1");
    s->purge = db_prepare(db, "DELETE FROM archive WHERE n <= ?1");
    s->head = db_prepare(db, "INSERT INTO heads (n, last_n, headers, sum)"
                             " VALUES (?1, ?2, ?3, content_sum(?3))");
    s->head_purge = db_prepare(
        db, "DELETE FROM heads WHERE n <= ?1 AND last_n <= ?1");
    s->reject = db_prepare(
        db, ROW_REPLACE_WITH("rejects", REJECT_COLUMNS, ", slot", ", :slot"));
    s->reject_at = db_prepare(
        db, "SELECT id FROM rejects WHERE source = ?1 AND slot = ?2");
    s->reject_find = db_prepare(db, REJECT " WHERE id = ?1 AND id <> ''");
    s->body_put = db_prepare(db, "INSERT INTO reject_bodies (id, source, at_ms,"
                                 " body) VALUES (?1, ?2, ?3, ?4)");
    s->body_get = db_prepare(db,
                             "SELECT body FROM reject_bodies WHERE id = ?1");
    s->body_drop = db_prepare(db, "DELETE FROM reject_bodies WHERE id = ?1"
                                  " RETURNING source, length(body)");
    s->body_first_of = db_prepare(db, "SELECT id FROM reject_bodies WHERE"
                                      " source = ?1 ORDER BY n LIMIT 1");
    s->body_first = db_prepare(
        db, "SELECT id, at_ms FROM reject_bodies ORDER BY n LIMIT 1");
    s->bodies = db_prepare(db, "SELECT source, length(body)"
                               " FROM reject_bodies");
    s->reject_last = db_prepare(db,
                                "SELECT max(n) FROM rejects WHERE source = ?1");
    s->erase = db_prepare(
        db, "UPDATE archive SET headers = x'', body = x'', remote = '', head = "
            "0, sum = content_sum(n, event_id, source, received_ms, '', x'', "
            "x'', 0) WHERE n = ?1");
    s->erase_body = db_prepare(
        db, "UPDATE archive SET body = ?2, sum = content_sum(n, event_id, "
            "source, received_ms, remote, headers, ?2, head) WHERE n = ?1");
    s->reject_erase = db_prepare(
        db, "DELETE FROM rejects WHERE id = ?1 AND id <> ''");
    s->head_of = db_prepare(db, "SELECT " ARCHIVE_SIZE
                                ", head FROM archive WHERE n = ?1");
    s->head_erase = db_prepare(
        db, "DELETE FROM heads WHERE n = ?1 AND NOT EXISTS (SELECT 1 FROM "
            "archive WHERE archive.n BETWEEN heads.n AND heads.last_n AND head "
            "= ?1)");
    store_ids_open(&s->ids, db);
    store_replays_open(&s->replays, db);
    store_usage_open(&s->usage, db);
    s->rejects = db_prepare(db, REJECT " ORDER BY at_ms DESC, n DESC");
    s->rejects_of = db_prepare(db, REJECT " WHERE source = ?1 ORDER BY n DESC");
    s->rejects_by = db_prepare(db, REJECT
                               " WHERE delivery_id = ?1 ORDER BY at_ms DESC");
}

void store_undo(struct store *s)
{
    store_ids_undo(&s->ids);
    store_usage_undo(&s->usage);
}

void store_close(struct store *s)
{
    store_usage_close(&s->usage);
}

void store_insert(struct store *s, const struct archive_row *row)
{
    int i = 0;

    ROW_BIND(ARCHIVE_COLUMNS, s->insert, i, row);
    db_run(s->db, s->insert);
    store_ids_add(&s->ids, row->event_id, row->n);
    store_usage_add(&s->usage, row->source, row->n,
                    (int64_t)(row->headers.n + row->body.n) +
                        ARCHIVE_ROW_BYTES);
}

void store_head(struct store *s, const char *source, int64_t n, int64_t last_n,
                struct bytes headers)
{
    bind_i64(s->head, 1, n);
    bind_i64(s->head, 2, last_n);
    bind_blob(s->head, 3, headers);
    db_run(s->db, s->head);
    store_usage_add(&s->usage, source, last_n, (int64_t)headers.n);
}

int64_t store_received_after(struct store *s, int64_t n)
{
    int64_t ms;

    bind_i64(s->next, 1, n);
    ms = db_step(s->db, s->next) ? col_i64(s->next, 0) : 0;
    db_done(s->next);
    return ms;
}

int64_t store_number(struct store *s, const char *event_id)
{
    return store_ids_find(&s->ids, event_id);
}

bool store_request(struct store *s, int64_t n, struct archive_row *row)
{
    stmt *q = s->load;

    bind_i64(q, 1, n);
    if (!db_step(s->db, q))
        return false;
    *row = (struct archive_row){.n = n,
                                .event_id = col_text(q, 0),
                                .source = col_text(q, 1),
                                .received_ms = col_i64(q, 2),
                                .remote = col_text(q, 3),
                                .headers = col_blob(q, 4),
                                .body = col_blob(q, 5),
                                .damaged = col_i64(q, 6) == 0};
    if (row->damaged)
        db_damage_found(row->event_id, db_path(s->db), "archive");
    return true;
}

void store_request_done(struct store *s)
{
    db_done(s->load);
}

void store_erase(struct store *s, int64_t n, const struct buf *rest)
{
    stmt *q = rest ? s->erase_body : s->erase;
    int64_t head = 0;

    bind_i64(s->head_of, 1, n);
    if (db_step(s->db, s->head_of)) {
        head = col_i64(s->head_of, 3);
        if (!rest)
            store_usage_drop(&s->usage, col_text(s->head_of, 2), n,
                             col_i64(s->head_of, 1) - ARCHIVE_ROW_BYTES);
    }
    db_done(s->head_of);
    bind_i64(q, 1, n);
    if (rest)
        bind_blob(q, 2, (struct bytes){rest->data, rest->len});
    db_run(s->db, q);
    if (rest || !head)
        return;
    bind_i64(s->head_erase, 1, head);
    db_run(s->db, s->head_erase);
}

void store_put_message(const struct archive_row *row, struct buf *out)
{
    /* Unreadable headers of a damaged row are left out; the sequencer records it all the same. */
    bool readable = !row->damaged || headers_valid(row->headers);

    wire_put_accepted(
        out, &(struct wire_accepted){
                 .event_id = wire_text(row->event_id),
                 .source = wire_text(row->source),
                 .received_ms = row->received_ms,
                 .remote = wire_text(row->remote),
                 .headers = readable ? row->headers : (struct bytes){"", 0},
                 .body = row->body,
                 .damaged = row->damaged});
}

bool store_load(struct store *s, int64_t n, struct buf *out)
{
    struct archive_row row;
    bool found = store_request(s, n, &row);

    found = found && (row.headers.n || row.body.n); /* else it was erased */
    if (found)
        store_put_message(&row, out);
    store_request_done(s);
    return found;
}

void store_ends(struct store *s, int64_t *first, int64_t *last,
                char last_id[EVENT_ID_BYTES + 1])
{
    *first = *last = 0;
    if (db_step(s->db, s->ends)) {
        *first = col_i64(s->ends, 0);
        *last = col_i64(s->ends, 1);
    }
    db_done(s->ends);
    store_ids_newest(&s->ids, last_id);
}

int64_t store_purge(struct store *s, int64_t max_n, int64_t handed_n, int count,
                    int64_t bytes)
{
    int64_t upto = 0;

    s->purged = 0;
    bind_i64(s->oldest, 1, 0);
    bind_i64(s->oldest, 2, max_n);
    bind_i64(s->oldest, 3, count);
    while (bytes > 0 && db_step(s->db, s->oldest)) {
        if (store_replay_pins(&s->replays, col_i64(s->oldest, 0), handed_n))
            break;
        upto = col_i64(s->oldest, 0);
        bytes -= col_i64(s->oldest, 1);
        store_usage_drop(&s->usage, col_text(s->oldest, 2), upto,
                         col_i64(s->oldest, 1));
        s->purged++;
    }
    db_done(s->oldest);
    if (!upto)
        return 0;
    store_ids_cut(&s->ids, upto);
    bind_i64(s->purge, 1, upto);
    db_run(s->db, s->purge);
    bind_i64(s->head_purge, 1, upto);
    db_run(s->db, s->head_purge);
    store_replays_cut(&s->replays, upto);
    return db_full(s->db) ? 0 : upto;
}

struct doomed {
    int64_t n, head;
    char event_id[EVENT_ID_BYTES + 1];
};

/* Finds the rows to delete; moves `*at` on. */
static int find_doomed(struct store *s, const char *source, int64_t *at,
                       int64_t handed_n, int64_t bytes, struct doomed *doomed)
{
    int n = 0;

    while (bytes > 0 && db_step(s->db, s->oldest)) {
        int64_t row = col_i64(s->oldest, 0);

        if (strcmp(col_text(s->oldest, 2), source) == 0) {
            if (store_replay_pins(&s->replays, row, handed_n))
                break;
            doomed[n] = (struct doomed){.n = row,
                                        .head = col_i64(s->oldest, 4)};
            wire_copy(doomed[n++].event_id, EVENT_ID_BYTES + 1,
                      wire_text(col_text(s->oldest, 3)));
            bytes -= col_i64(s->oldest, 1);
            store_usage_drop(&s->usage, source, row, col_i64(s->oldest, 1));
        }
        *at = row;
    }
    db_done(s->oldest);
    return n;
}

int64_t store_purge_source(struct store *s, const char *source, int64_t *at,
                           int64_t max_n, int64_t handed_n, int count,
                           int64_t bytes)
{
    struct doomed *doomed = gr_alloc((size_t)count * sizeof *doomed);
    int n;

    bind_i64(s->oldest, 1, *at);
    bind_i64(s->oldest, 2, max_n);
    bind_i64(s->oldest, 3, count);
    n = find_doomed(s, source, at, handed_n, bytes, doomed);
    for (int i = 0; i < n; i++) {
        const struct doomed *d = &doomed[i];

        /* Entries of ids made from time stay, because other ids are found by them;
         * store_ids_cut() deletes them later. */
        store_ids_drop(&s->ids, d->event_id);
        bind_i64(s->drop, 1, d->n);
        db_run(s->db, s->drop);
        if (!d->head)
            continue;
        bind_i64(s->head_drop, 1, d->head);
        bind_i64(s->head_drop, 2, d->n);
        db_run(s->db, s->head_drop);
    }
    free(doomed);
    return db_full(s->db) ? 0 : n;
}

void store_ages(struct store *s, int64_t before_ms, int64_t now_ms, int max,
                struct ages *ages)
{
    stmt *q = s->ages;

    ages_begin(ages, before_ms);
    bind_i64(q, 1, ages->seen_n);
    bind_i64(q, 2, max);
    while (db_step(s->db, q) &&
           ages_see(ages, col_i64(q, 0), col_i64(q, 1), now_ms))
        ;
    db_done(q);
}

bool store_find(struct store *s, const char *event_id, struct archived *row)
{
    bind_i64(s->find, 1, store_number(s, event_id));
    if (!db_step(s->db, s->find)) {
        db_done(s->find);
        return false;
    }
    *row = (struct archived){
        .n = col_i64(s->find, 0),
        .received_ms = col_i64(s->find, 1),
        .secret = col_i64(s->find, 2),
        .source = col_text(s->find, 3),
        .remote = col_text(s->find, 4),
        .headers = col_blob(s->find, 5),
        .body_bytes = col_i64(s->find, 6),
    };
    return true;
}

void store_found_done(struct store *s)
{
    db_done(s->find);
}

/* ---- refused requests ---- */

void store_reject(struct store *s, const struct reject_row *row)
{
    int i = 0;

    ROW_BIND(REJECT_COLUMNS, s->reject, i, row);
    bind_i64(s->reject, ++i, row->n % REJECTS_KEPT);
    db_run(s->db, s->reject);
}

static struct reject_row read_reject(stmt *q)
{
    struct reject_row row;
    int i = 0;

    ROW_READ(REJECT_COLUMNS, q, i, &row);
    row.has_body = col_flag(q, i);
    return row;
}

int64_t store_reject_last(struct store *s, const char *source)
{
    int64_t n = 0;

    bind_text(s->reject_last, 1, source);
    if (db_step(s->db, s->reject_last))
        n = col_i64(s->reject_last, 0);
    db_done(s->reject_last);
    return n;
}

static void walk_rejects(struct store *s, stmt *q, reject_fn *fn, void *arg)
{
    bool more = true;

    while (more && db_step(s->db, q)) {
        struct reject_row row = read_reject(q);

        more = fn(arg, &row);
    }
    db_done(q);
}

void store_rejects(struct store *s, const char *source, reject_fn *fn,
                   void *arg)
{
    stmt *q = source ? s->rejects_of : s->rejects;

    if (source)
        bind_text(q, 1, source);
    walk_rejects(s, q, fn, arg);
}

void store_rejects_by(struct store *s, const char *delivery_id, reject_fn *fn,
                      void *arg)
{
    bind_text(s->rejects_by, 1, delivery_id);
    walk_rejects(s, s->rejects_by, fn, arg);
}

bool store_reject_find(struct store *s, const char *id, struct reject_row *row)
{
    bind_text(s->reject_find, 1, id);
    if (!db_step(s->db, s->reject_find))
        return false;
    *row = read_reject(s->reject_find);
    return true;
}

void store_reject_done(struct store *s)
{
    db_done(s->reject_find);
}

/* ---- their bodies ---- */

void store_reject_body_add(struct store *s, const char *id, const char *source,
                           int64_t at_ms, struct bytes body)
{
    bind_text(s->body_put, 1, id);
    bind_text(s->body_put, 2, source);
    bind_i64(s->body_put, 3, at_ms);
    bind_blob(s->body_put, 4, body);
    db_run(s->db, s->body_put);
}

bool store_reject_body(struct store *s, const char *id, struct bytes *body)
{
    bind_text(s->body_get, 1, id);
    if (!db_step(s->db, s->body_get))
        return false;
    *body = col_blob(s->body_get, 0);
    return true;
}

void store_reject_body_done(struct store *s)
{
    db_done(s->body_get);
}

static void drop_body(struct store *s, const char *id, reject_body_fn *fn,
                      void *arg)
{
    bind_text(s->body_drop, 1, id);
    while (db_step(s->db, s->body_drop))
        fn(arg, col_text(s->body_drop, 0), col_i64(s->body_drop, 1));
    db_done(s->body_drop);
}

void store_reject_erase(struct store *s, const char *id, reject_body_fn *fn,
                        void *arg)
{
    drop_body(s, id, fn, arg);
    bind_text(s->reject_erase, 1, id);
    db_run(s->db, s->reject_erase);
}

/* The id in the row of `q`, if there is one. */
static bool first_id(struct store *s, stmt *q, char id[REJECT_ID_BYTES + 1])
{
    bool found = db_step(s->db, q);

    if (found)
        wire_copy(id, REJECT_ID_BYTES + 1, wire_text(col_text(q, 0)));
    db_done(q);
    return found;
}

void store_reject_body_replaced(struct store *s, const char *source, int64_t n,
                                reject_body_fn *fn, void *arg)
{
    char id[REJECT_ID_BYTES + 1];

    bind_text(s->reject_at, 1, source);
    bind_i64(s->reject_at, 2, n % REJECTS_KEPT);
    if (first_id(s, s->reject_at, id))
        drop_body(s, id, fn, arg);
}

bool store_reject_body_drop_first(struct store *s, const char *source,
                                  reject_body_fn *fn, void *arg)
{
    char id[REJECT_ID_BYTES + 1];
    bool found;

    bind_text(s->body_first_of, 1, source);
    found = first_id(s, s->body_first_of, id);
    if (found)
        drop_body(s, id, fn, arg);
    return found && !db_full(s->db);
}

bool store_reject_body_drop_old(struct store *s, int64_t before_ms,
                                int64_t after_ms, reject_body_fn *fn, void *arg)
{
    stmt *q = s->body_first;
    char id[REJECT_ID_BYTES + 1];
    bool old = db_step(s->db, q) &&
               (col_i64(q, 1) < before_ms || col_i64(q, 1) > after_ms);

    if (old)
        wire_copy(id, sizeof id, wire_text(col_text(q, 0)));
    db_done(q);
    if (old)
        drop_body(s, id, fn, arg);
    return old && !db_full(s->db);
}

void store_reject_bodies(struct store *s, reject_body_fn *fn, void *arg)
{
    while (db_step(s->db, s->bodies))
        fn(arg, col_text(s->bodies, 0), col_i64(s->bodies, 1));
    db_done(s->bodies);
}
