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
    atomic_bool stop;  /* the number of all */
    atomic_bool leave; /* the table that it is checking */
};

/* Checks a file in this thread. `ends` may be NULL. The caller owns the result: {"file",
 * "ok", "tables", "rows", "damaged": [{"table", "id", "what"}], "skipped": [table]}; it
 * names at most 1000, and "damaged_count" counts all. A table is skipped if verifier_skip()
 * was called meanwhile. */
json_t *verify_file(const char *path, const struct db_summed *sums,
                    size_t sum_count, struct verify_ends *ends);

/* The same in a thread, at the lowest priority for processor and disk. */
struct verifier;
struct verifier *verifier_open(const char *path, const struct db_summed *sums,
                               size_t sum_count);
/* The result, owned by the caller; NULL: it is not finished. */
json_t *verifier_take(struct verifier *v);
void verifier_break(
    struct verifier *v); /* leaves the present table; NULL is allowed */
void verifier_close(
    struct verifier *v); /* waits until it has ended; NULL is allowed */

#endif
