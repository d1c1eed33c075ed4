/* db_check: a SQLite file that is damaged is not used: the process ends (74) and
 * says the way out. */
#ifndef BASE_DB_CHECK_H
#define BASE_DB_CHECK_H

#include <sqlite3.h>
#include <stdbool.h>

/* Is that what this code of SQLite means? */
bool db_says_damaged(int rc);
_Noreturn void db_damaged(const char *path, const char *what);
/* With PRAGMA integrity_check or quick_check. A look that is interrupted finds
 * nothing. */
void db_check(sqlite3 *h, const char *path, const char *pragma);

#endif
