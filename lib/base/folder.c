/* folder: opens a folder and syncs it. */
#include "folder.h"
#include "alloc.h"
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <unistd.h>

bool sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = fd >= 0 && fsync(fd) == 0;

    if (fd >= 0)
        close(fd);
    return good;
}

bool sync_folder_of(const char *path)
{
    char *copy = gr_strdup(path);
    bool good = sync_folder(dirname(copy));

    free(copy);
    return good;
}
