/* db_origin: whether a database file is the one that its process wrote last, or a copy of
 * it. For db.c; others ask by db_copied_ms() and the like (db.h). */
#ifndef STORE_DB_ORIGIN_H
#define STORE_DB_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

struct db;
struct db_origin;

/* Outside of a transaction, when the schema is there: reads, and makes its tables. */
struct db_origin *db_origin_open(struct db *db);
void db_origin_close(struct db_origin *o);
/* Before each commit, and after each that succeeded: the first one of a start that
 * writes replaces FILE-start. A rolled back one leaves it to the next. */
void db_origin_commits(struct db_origin *o);
void db_origin_committed(struct db_origin *o);
void db_origin_rolled_back(struct db_origin *o);

/* As in db.h. */
int64_t db_origin_copied_ms(const struct db_origin *o);
bool db_origin_stamped(const struct db_origin *o);
void db_origin_adopt(struct db_origin *o);
void db_origin_note_written(struct db_origin *o, int64_t now_ms, bool last);

#endif
