/* walk_store: reads and writes the rows of `walks`. */
#include "walk_store.h"
#include "wire.h"

void walk_store_open(struct walk_store *s, struct db *db)
{
    s->db = db;
    s->read = db_prepare(
        db, "SELECT " ROW_NAMES(WALK_COLUMNS) ", position, error FROM walks "
                                              "WHERE source = ?1");
    s->put = db_prepare(
        db, "INSERT OR REPLACE INTO walks (source, position, error, " ROW_NAMES(
                WALK_COLUMNS) ") VALUES (:source, :position, "
                              ":error, " ROW_VALUES(WALK_COLUMNS) ")");
}

bool walk_read(struct walk_store *s, const char *source, struct walk_row *row)
{
    bool found;
    int at = 0;

    *row = (struct walk_row){0};
    bind_text(s->read, 1, source);
    found = db_step(s->db, s->read);
    if (found) {
        ROW_READ(WALK_COLUMNS, s->read, at, row);
        wire_copy(row->position, sizeof row->position,
                  wire_text(col_text(s->read, at++)));
        wire_copy(row->error, sizeof row->error,
                  wire_text(col_text(s->read, at)));
    }
    db_done(s->read);
    return found;
}

void walk_put(struct walk_store *s, const char *source,
              const struct walk_row *row)
{
    int at = 3;

    bind_text(s->put, 1, source);
    bind_text(s->put, 2, row->position);
    bind_text(s->put, 3, row->error);
    ROW_BIND(WALK_COLUMNS, s->put, at, row);
    db_run(s->db, s->put);
}
