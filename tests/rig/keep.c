/* keep: LD_PRELOAD it, and a file whose path ends with $RIG_KEEP cannot be removed:
 * unlink() fails with EIO. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int unlink(const char *path)
{
    const char *kept = getenv("RIG_KEEP");
    size_t n = strlen(path), m = kept ? strlen(kept) : 0;
    int (*real)(const char *);

    if (m && n >= m && strcmp(path + n - m, kept) == 0) {
        errno = EIO;
        return -1;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "unlink");
    return real(path);
}
