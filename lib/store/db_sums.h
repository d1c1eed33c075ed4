/* db_sums: rows that carry a checksum of what is in them.
 *
 * Such a table has a column `sum`, written with the row by the SQL function
 * content_sum() over its other columns, and compared when the row is read. A row of
 * before there were checksums has NULL there, and is believed. */
#ifndef BASE_DB_SUMS_H
#define BASE_DB_SUMS_H

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
