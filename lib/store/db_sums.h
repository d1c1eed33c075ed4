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

/* The SQL expression that is 1 if the row is unchanged. */
#define DB_INTACT(columns) "(sum IS NULL OR sum = content_sum(" columns "))"

/* Adds content_sum() to this connection. */
void db_sums_register(sqlite3 *h);

/* A table with checksums: the columns that they cover, and the column by which a message
 * names a row. */
struct db_summed {
    const char *table, *columns, *label;
};

/* Call it for a row that differs from what was written. It counts, and logs `id`. */
void db_damage_found(const char *id, const char *path, const char *table);
/* The structure of a table is damaged. */
void db_damage_found_in(const char *path, const char *table, const char *what);
int64_t
db_damage_count(void); /* the number since the start; any thread may ask */

#endif
