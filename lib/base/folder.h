/* folder: the sync of a folder. A file that was made, renamed or deleted is so after a power cut, too, only when its folder
 * was synced (fsync(2)). */
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H

#include <stdbool.h>

bool sync_folder(const char *folder); /* false: errno has the reason */
/* The folder that has this file. */
bool sync_folder_of(const char *path);

#endif
