/* db_sums: rows that carry a checksum of their own columns.
 *
 * Such a table has a column `sum`. The SQL function content_sum() computes it from the other
 * columns when the row is written, and it is compared when the row is read. Rows from before
 * checksums existed have NULL there and are accepted. */
#ifndef STORE_DB_SUMS_H
#define STORE_DB_SUMS_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/* In SQL: 1 when the row is as it was written. */
#define DB_INTACT(columns) "(sum IS NULL OR sum = content_sum(" columns "))"

/* content_sum() on this connection. */
void db_sums_register(sqlite3 *h);

/* A table with checksums: what they are of, and how a row is named to a person. */
struct db_summed {
    const char *table, *columns, *label;
};

/* What was read is not what was written. Counted, and told in the log with `id`. */
void db_damage_found(const char *id, const char *path, const char *table);
/* The structure of a table is damaged. */
void db_damage_found_in(const char *path, const char *table, const char *what);
int64_t db_damage_count(void); /* since the start; any thread */

#endif
