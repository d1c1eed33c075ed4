/* archive_store: statements of the archive. */
#include "archive_store.h"
#include "headers.h"
#include "sums.h"
#include <stdlib.h>
#include <string.h>

void archive_store_open(struct archive_store *s, struct db *db)
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
    s->erase = db_prepare(
        db, "UPDATE archive SET headers = x'', body = x'', remote = '', head = "
            "0, sum = content_sum(n, event_id, source, received_ms, '', x'', "
            "x'', 0) WHERE n = ?1");
    s->erase_body = db_prepare(
        db, "UPDATE archive SET body = ?2, sum = content_sum(n, event_id, "
            "source, received_ms, remote, headers, ?2, head) WHERE n = ?1");
    s->head_of = db_prepare(db, "SELECT " ARCHIVE_SIZE
                                ", head FROM archive WHERE n = ?1");
    s->head_erase = db_prepare(
        db, "DELETE FROM heads WHERE n = ?1 AND NOT EXISTS (SELECT 1 FROM "
            "archive WHERE archive.n BETWEEN heads.n AND heads.last_n AND head "
            "= ?1)");
    archive_ids_open(&s->ids, db);
    archive_replays_open(&s->replays, db);
    archive_usage_open(&s->usage, db);
}

void archive_store_undo(struct archive_store *s)
{
    archive_ids_undo(&s->ids);
    archive_usage_undo(&s->usage);
}

void archive_store_close(struct archive_store *s)
{
    archive_usage_close(&s->usage);
}

void archive_insert(struct archive_store *s, const struct archive_row *row)
{
    int i = 0;

    ROW_BIND(ARCHIVE_COLUMNS, s->insert, i, row);
    db_run(s->db, s->insert);
    archive_ids_add(&s->ids, row->event_id, row->n);
    archive_usage_add(&s->usage, row->source, row->n,
                      (int64_t)(row->headers.n + row->body.n) +
                          ARCHIVE_ROW_BYTES);
}

void archive_head(struct archive_store *s, const char *source, int64_t n,
                  int64_t last_n, struct bytes headers)
{
    bind_i64(s->head, 1, n);
    bind_i64(s->head, 2, last_n);
    bind_blob(s->head, 3, headers);
    db_run(s->db, s->head);
    archive_usage_add(&s->usage, source, last_n, (int64_t)headers.n);
}

int64_t archive_received_after(struct archive_store *s, int64_t n)
{
    int64_t ms;

    bind_i64(s->next, 1, n);
    ms = db_step(s->db, s->next) ? col_i64(s->next, 0) : 0;
    db_done(s->next);
    return ms;
}

int64_t archive_number(struct archive_store *s, const char *event_id)
{
    return archive_ids_find(&s->ids, event_id);
}

bool archive_request(struct archive_store *s, int64_t n,
                     struct archive_row *row)
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

void archive_request_done(struct archive_store *s)
{
    db_done(s->load);
}

void archive_empty(struct archive_store *s, int64_t n, const struct buf *rest)
{
    stmt *q = rest ? s->erase_body : s->erase;
    int64_t head = 0;

    bind_i64(s->head_of, 1, n);
    if (db_step(s->db, s->head_of)) {
        head = col_i64(s->head_of, 3);
        if (!rest)
            archive_usage_drop(&s->usage, col_text(s->head_of, 2), n,
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

void archive_put_message(const struct archive_row *row, struct buf *out)
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

bool archive_load(struct archive_store *s, int64_t n, struct buf *out)
{
    struct archive_row row;
    bool found = archive_request(s, n, &row);

    found = found && (row.headers.n || row.body.n); /* else it was erased */
    if (found)
        archive_put_message(&row, out);
    archive_request_done(s);
    return found || archive_replay_load(&s->replays, n, out);
}

void archive_ends(struct archive_store *s, int64_t *first, int64_t *last,
                  char last_id[EVENT_ID_BYTES + 1])
{
    *first = *last = 0;
    if (db_step(s->db, s->ends)) {
        *first = col_i64(s->ends, 0);
        *last = col_i64(s->ends, 1);
    }
    db_done(s->ends);
    archive_ids_newest(&s->ids, last_id);
}

int64_t archive_purge(struct archive_store *s, int64_t max_n, int64_t handed_n,
                      int count, int64_t bytes)
{
    int64_t upto = 0;

    s->purged = 0;
    bind_i64(s->oldest, 1, 0);
    bind_i64(s->oldest, 2, max_n);
    bind_i64(s->oldest, 3, count);
    while (bytes > 0 && db_step(s->db, s->oldest)) {
        if (archive_replay_pins(&s->replays, col_i64(s->oldest, 0), handed_n))
            break;
        upto = col_i64(s->oldest, 0);
        bytes -= col_i64(s->oldest, 1);
        archive_usage_drop(&s->usage, col_text(s->oldest, 2), upto,
                           col_i64(s->oldest, 1));
        s->purged++;
    }
    db_done(s->oldest);
    if (!upto)
        return 0;
    archive_ids_cut(&s->ids, upto);
    bind_i64(s->purge, 1, upto);
    db_run(s->db, s->purge);
    bind_i64(s->head_purge, 1, upto);
    db_run(s->db, s->head_purge);
    archive_replays_cut(&s->replays, upto);
    return db_full(s->db) ? 0 : upto;
}

struct doomed {
    int64_t n, head;
    char event_id[EVENT_ID_BYTES + 1];
};

/* Finds the rows to delete; moves `*at` on. */
static int find_doomed(struct archive_store *s, const char *source, int64_t *at,
                       int64_t handed_n, int64_t bytes, struct doomed *doomed)
{
    int n = 0;

    while (bytes > 0 && db_step(s->db, s->oldest)) {
        int64_t row = col_i64(s->oldest, 0);

        if (strcmp(col_text(s->oldest, 2), source) == 0) {
            if (archive_replay_pins(&s->replays, row, handed_n))
                break;
            doomed[n] = (struct doomed){.n = row,
                                        .head = col_i64(s->oldest, 4)};
            wire_copy(doomed[n++].event_id, EVENT_ID_BYTES + 1,
                      wire_text(col_text(s->oldest, 3)));
            bytes -= col_i64(s->oldest, 1);
            archive_usage_drop(&s->usage, source, row, col_i64(s->oldest, 1));
        }
        *at = row;
    }
    db_done(s->oldest);
    return n;
}

int64_t archive_purge_source(struct archive_store *s, const char *source,
                             int64_t *at, int64_t max_n, int64_t handed_n,
                             int count, int64_t bytes)
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
         * archive_ids_cut() deletes them later. */
        archive_ids_drop(&s->ids, d->event_id);
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

void archive_ages(struct archive_store *s, int64_t before_ms, int64_t now_ms,
                  int max, struct ages *ages)
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

bool archive_find(struct archive_store *s, const char *event_id,
                  struct archived *row)
{
    bind_i64(s->find, 1, archive_number(s, event_id));
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

void archive_found_done(struct archive_store *s)
{
    db_done(s->find);
}
