/* verifier: checks a SQLite file for damage: SQLite's quick_check of each table, and the
 * checksums of rows (db_sums.h). It works table by table and in small groups of rows, so that
 * the WAL can be restarted in between. */
#ifndef STORE_VERIFIER_H
#define STORE_VERIFIER_H

#include "db_sums.h"
#include <jansson.h>
#include <stdatomic.h>
#include <stddef.h>

struct verify_ends {
    atomic_bool stop;  /* all of it */
    atomic_bool leave; /* the table that it is at */
};

/* Of a file, in this thread. `ends` may be NULL. The caller's: {"file", "ok", "tables",
 * "rows", "damaged": [{"table", "id", "what"}], "skipped": [table]}; at most 1000 are
 * named, "damaged_count" counts all. A table is skipped when somebody made us leave it. */
json_t *verify_file(const char *path, const struct db_summed *sums,
                    size_t sum_count, struct verify_ends *ends);

/* The same in a thread of its own, at the lowest priority of processor and disk. */
struct verifier;
struct verifier *verifier_open(const char *path, const struct db_summed *sums,
                               size_t sum_count);
/* The result, the caller's; NULL: it is not done. */
json_t *verifier_take(struct verifier *v);
void verifier_break(struct verifier *v); /* leave this table; NULL will do */
void verifier_close(struct verifier *v); /* waits for its end; NULL will do */

#endif
