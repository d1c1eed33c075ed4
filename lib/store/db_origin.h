/* db_origin: whether a database file is the one that its process wrote last, or a copy of
 * it. For db.c; others ask by db_copied_ms() and the like (db.h). */
#ifndef STORE_DB_ORIGIN_H
#define STORE_DB_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

struct db;
struct db_origin;

/* Call it outside of a transaction, when the schema is there: it reads its tables, and
 * makes them if they are missing. */
struct db_origin *db_origin_open(struct db *db);
void db_origin_close(struct db_origin *o);
/* Call these before each commit, and after each that succeeded: the first writing
 * transaction of a start replaces FILE-start. If it is rolled back, the next one does it. */
void db_origin_commits(struct db_origin *o);
void db_origin_committed(struct db_origin *o);
void db_origin_rolled_back(struct db_origin *o);

/* The file is replicated: its rows are those of another file, which its log has proved to be right, so it is not judged. */
void db_origin_is_replicated(struct db_origin *o);

/* See db.h. */
int64_t db_origin_copied_ms(const struct db_origin *o);
bool db_origin_stamped(const struct db_origin *o);
const char *db_origin_restored_by(const struct db_origin *o);
const char *db_origin_restored_from(const struct db_origin *o);
void db_origin_adopt(struct db_origin *o);
void db_origin_note_written(struct db_origin *o, int64_t now_ms, bool last);

#endif
