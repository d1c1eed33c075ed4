/* db_check: refuses a damaged SQLite file: the process exits with 74 and says what to do. */
#ifndef STORE_DB_CHECK_H
#define STORE_DB_CHECK_H

#include <sqlite3.h>
#include <stdbool.h>

/* Whether this result code of SQLite means a damaged file. */
bool db_says_damaged(int rc);
_Noreturn void db_damaged(const char *path, const char *what);
/* Runs PRAGMA integrity_check or quick_check. A check that is interrupted reports no
 * damage. */
void db_check(sqlite3 *h, const char *path, const char *pragma);

#endif
