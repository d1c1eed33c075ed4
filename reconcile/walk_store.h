/* walk_store: the rows of `walks`. All calls are inside the turn's transaction; a crash leaves what the
 * last turn that committed has written. */
#ifndef RECONCILE_WALK_STORE_H
#define RECONCILE_WALK_STORE_H

#include "db.h"
#include "row.h"

/* What is kept of `position` and `error`: a page whose position is longer ends its walk. */
enum { WALK_TEXT_BYTES = 2048 };

#define WALK_COLUMNS(F, X) \
    F(i64, covered_ms)     \
    X(i64, first_ms)       \
    X(i64, from_ms)        \
    X(i64, to_ms)          \
    X(i64, pages)          \
    X(i64, listed)         \
    X(i64, found)          \
    X(i64, due_ms)         \
    X(i64, ended_ms)       \
    X(i64, failures)
struct walk_row {
    ROW_FIELDS(WALK_COLUMNS)
    char position[WALK_TEXT_BYTES], error[WALK_TEXT_BYTES];
};

struct walk_store {
    struct db *db;
    stmt *read, *put;
};

void walk_store_open(struct walk_store *s, struct db *db);
/* false: the source has no row; *row is then zero. */
bool walk_read(struct walk_store *s, const char *source, struct walk_row *row);
void walk_put(struct walk_store *s, const char *source,
              const struct walk_row *row);

#endif
