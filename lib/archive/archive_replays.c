/* archive_replays: statements of replays, and walks over the archive. */
#include "archive_replays.h"
#include "published.h"
#include "sums.h"

#define REPLAY "SELECT " ROW_NAMES(REPLAY_COLUMNS) " FROM replays "

/* As ARCHIVE_INTACT, in a query that also has the columns of a replay. */
#define REPLAYED_INTACT                                                     \
    DB_INTACT("archive.n, archive.event_id, source, received_ms, remote, "  \
              "headers, body, head")                                        \
    " AND (head = 0 OR (SELECT " DB_INTACT(SUM_HEADS) " FROM heads WHERE n" \
                                                      " = archive.head))"

void archive_replays_open(struct archive_replays *s, struct db *db)
{
    s->db = db;
    s->add = db_prepare(db, ROW_INSERT("replays", REPLAY_COLUMNS));
    s->load = db_prepare(
        db,
        "SELECT r.action_id, r.at_ms, archive.event_id, r.event_id, r.new_id,"
        " r.endpoint, archive.source, received_ms,"
        " remote, " ARCHIVE_HEADERS ", body, r.always, " REPLAYED_INTACT
        " FROM replays r JOIN archive ON archive.n = r.archived"
        " WHERE r.n = ?1");
    s->of_event = db_prepare(db, REPLAY "WHERE event_id = ?1 ORDER BY n");
    s->by_new = db_prepare(db, REPLAY "WHERE new_id = ?1 AND new_id <> ''");
    s->pins = db_prepare(
        db, "SELECT 1 FROM replays WHERE archived = ?1 AND n > ?2 LIMIT 1");
    s->cut = db_prepare(db, "DELETE FROM replays WHERE n <= ?1");
    s->last_new = db_prepare(db, "SELECT max(new_id) FROM replays"
                                 " WHERE new_id <> ''"
                                 " AND new_id < '" KEYED_IDS_FROM "'");
    s->from = db_prepare(db, "SELECT n, received_ms FROM archive"
                             " WHERE n >= ?1 ORDER BY n LIMIT 1");
    s->page = db_prepare(db, "SELECT n, received_ms, event_id, source"
                             " FROM archive WHERE n > ?1 ORDER BY n");
    s->newest = db_prepare(db, "SELECT n, received_ms, event_id, source,"
                               " " ARCHIVE_HEADERS
                               ", body FROM archive WHERE n <= ?1"
                               " ORDER BY n DESC");
}

void archive_replay_add(struct archive_replays *s, const struct replay_row *r)
{
    int i = 0;

    ROW_BIND(REPLAY_COLUMNS, s->add, i, r);
    db_run(s->db, s->add);
}

bool archive_replay_load(struct archive_replays *s, int64_t n, struct buf *out)
{
    stmt *q = s->load;
    bool found;

    bind_i64(q, 1, n);
    found = db_step(s->db, q);
    if (found && !col_blob(q, 9).n && !col_blob(q, 10).n)
        found = false; /* it was erased */
    if (found && !col_i64(q, 12)) {
        db_damage_found(col_text(q, 2), db_path(s->db), "archive");
        found = false;
    }
    if (found) {
        struct wire_replayed m = {
            .action_id = (uint64_t)col_i64(q, 0),
            .at_ms = col_i64(q, 1),
            .request_id = wire_text(col_text(q, 2)),
            .event_id = wire_text(col_text(q, 3)),
            .new_id = wire_text(col_text(q, 4)),
            .endpoint = wire_text(col_text(q, 5)),
            .source = wire_text(col_text(q, 6)),
            .received_ms = col_i64(q, 7),
            .remote = wire_text(col_text(q, 8)),
            .headers = col_blob(q, 9),
            .body = col_blob(q, 10),
            .always = (uint64_t)col_i64(q, 11),
        };

        wire_put_replayed(out, &m);
    }
    db_done(q);
    return found;
}

static void each(struct archive_replays *s, stmt *q, const char *event_id,
                 replay_fn *fn, void *arg)
{
    bind_text(q, 1, event_id);
    while (db_step(s->db, q)) {
        struct replay_row r;
        int i = 0;

        ROW_READ(REPLAY_COLUMNS, q, i, &r);
        fn(arg, &r);
    }
    db_done(q);
}

void archive_replays_of(struct archive_replays *s, const char *event_id,
                        replay_fn *fn, void *arg)
{
    each(s, s->by_new, event_id, fn, arg);
    each(s, s->of_event, event_id, fn, arg);
}

int64_t archive_replay_made_of(struct archive_replays *s, const char *new_id)
{
    int64_t n = 0;

    bind_text(s->by_new, 1, new_id);
    if (db_step(s->db, s->by_new))
        n = col_i64(s->by_new, 1);
    db_done(s->by_new);
    return n;
}

void archive_replays_last_id(struct archive_replays *s,
                             char id[EVENT_ID_BYTES + 1])
{
    id[0] = 0;
    if (db_step(s->db, s->last_new))
        wire_copy(id, EVENT_ID_BYTES + 1, wire_text(col_text(s->last_new, 0)));
    db_done(s->last_new);
}

bool archive_replay_pins(struct archive_replays *s, int64_t n, int64_t handed_n)
{
    bool pins;

    bind_i64(s->pins, 1, n);
    bind_i64(s->pins, 2, handed_n);
    pins = db_step(s->db, s->pins);
    db_done(s->pins);
    return pins;
}

void archive_replays_cut(struct archive_replays *s, int64_t n)
{
    bind_i64(s->cut, 1, n);
    db_run(s->db, s->cut);
}

bool archive_from(struct archive_replays *s, int64_t n, int64_t *found_n,
                  int64_t *received_ms)
{
    bool found;

    bind_i64(s->from, 1, n);
    found = db_step(s->db, s->from);
    if (found) {
        *found_n = col_i64(s->from, 0);
        *received_ms = col_i64(s->from, 1);
    }
    db_done(s->from);
    return found;
}

void archive_page(struct archive_replays *s, int64_t n, entry_fn *fn, void *arg)
{
    bool more = true;

    bind_i64(s->page, 1, n);
    while (more && db_step(s->db, s->page))
        more = fn(arg, &(struct archive_entry){
                           col_i64(s->page, 0), col_i64(s->page, 1),
                           col_text(s->page, 2), col_text(s->page, 3)});
    db_done(s->page);
}

void archive_newest(struct archive_replays *s, whole_fn *fn, void *arg)
{
    stmt *q = s->newest;
    bool more = true;

    bind_i64(q, 1, INT64_MAX);
    while (more && db_step(s->db, q))
        more = fn(arg,
                  &(struct archive_entry){col_i64(q, 0), col_i64(q, 1),
                                          col_text(q, 2), col_text(q, 3)},
                  col_blob(q, 4), col_blob(q, 5));
    db_done(q);
}
