/* db_file: tells plain files from links, folders and pipes. */
#include "db_file.h"
#include <stdio.h>
#include <sys/stat.h>

bool db_file_is_plain(const char *path, char why[DB_FILE_WHY_BYTES])
{
    struct stat st;

    if (lstat(path, &st) != 0 || S_ISREG(st.st_mode))
        return true;
    snprintf(why, DB_FILE_WHY_BYTES, "%s",
             S_ISLNK(st.st_mode)
                 ? "is a symbolic link, and a database must not be one: its "
                   "write-ahead log would be elsewhere. Move the file to which "
                   "it points here, with the -wal beside that, or make the "
                   "whole folder a link"
                 : "is not a file");
    return false;
}
