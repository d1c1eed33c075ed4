/* own_folder: a process judges with it before it creates a folder, and `grapnel check`, which
 * creates none. */
#include "own_folder.h"
#include "alloc.h"
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool own_folder_lacks_parent(const char *path)
{
    char *copy = gr_strdup(path);
    bool lacks = access(dirname(copy), F_OK) != 0 && errno == ENOENT;

    free(copy);
    return lacks;
}

char *own_folder_trouble(const char *path)
{
    struct stat st;
    int error = stat(path, &st) == 0 ? 0 : errno;

    if (!error && S_ISDIR(st.st_mode))
        return NULL;
    if (!error)
        return gr_printf("%s is not a folder: remove it, or choose another "
                         "path",
                         path);
    if (error == EACCES) /* another user may look there */
        return NULL;
    if (error != ENOENT)
        return gr_printf("cannot create %s: %s", path, strerror(error));
    /* Another process may have created the folder meanwhile. */
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
        return gr_printf("%s is a symbolic link to something that does not "
                         "exist: create that, or remove the link",
                         path);
    return NULL;
}
