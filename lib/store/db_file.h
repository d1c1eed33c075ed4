/* db_file: whether a path may be that of a database. */
#ifndef STORE_DB_FILE_H
#define STORE_DB_FILE_H

#include <stdbool.h>

enum { DB_FILE_WHY_BYTES = 256 };

/* False if something other than a plain file is there: `why`, to be read behind the path. A symbolic link is refused, because SQLite
 * keeps the write-ahead log beside the file to which it points (https://www.sqlite.org/src/file/src/os_unix.c, unixFullPathname()),
 * and Grapnel reads it beside the path. True also if nothing is there, or it cannot be told. A folder of the path may be a link. */
bool db_file_is_plain(const char *path, char why[DB_FILE_WHY_BYTES]);

#endif
