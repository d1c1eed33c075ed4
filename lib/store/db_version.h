/* db_version: which schema version a database has, and whether this program knows it. */
#ifndef STORE_DB_VERSION_H
#define STORE_DB_VERSION_H

/* SQLite's user_version of this file, with what is committed in a -wal beside it. The
 * file is only read: SQLite would recover the log and take locks. 0: no such file, or
 * not a database. */
int db_version_of(const char *path);

#endif
