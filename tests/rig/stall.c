/* stall: LD_PRELOAD it, and the process takes the file $RIG_STALL away and stands
 * still for $RIG_STALL_MS at the end of its next connect: libcurl asks who is at
 * the other end, and then sends. As if it were stopped in that moment.
 *
 * Or a thread that opens the file $RIG_STALL_FILE stands still there while the file
 * $RIG_STALL_OPEN exists, and the others go on. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int getpeername(int fd, struct sockaddr *restrict to, socklen_t *restrict size)
{
    int (*real)(int, struct sockaddr *restrict, socklen_t *restrict);
    const char *path = getenv("RIG_STALL"), *ms = getenv("RIG_STALL_MS");
    long wait_ms = ms ? strtol(ms, NULL, 10) : 0;
    struct timespec wait = {.tv_sec = wait_ms / 1000,
                            .tv_nsec = wait_ms % 1000 * 1000000};

    if (path && unlink(path) == 0)
        nanosleep(&wait, NULL);
    *(void **)&real = dlsym(RTLD_NEXT, "getpeername");
    return real(fd, to, size);
}

static void stand_still(const char *path)
{
    const char *file = getenv("RIG_STALL_FILE"),
               *while_there = getenv("RIG_STALL_OPEN");
    struct timespec wait = {.tv_nsec = 10 * 1000000};

    if (!file || !while_there || strcmp(path, file) != 0)
        return;
    while (access(while_there, F_OK) == 0)
        nanosleep(&wait, NULL);
}

#define OPEN_AS(name)                                 \
    int name(const char *path, int flags, ...)        \
    {                                                 \
        int (*real)(const char *, int, ...);          \
        va_list ap;                                   \
        int mode;                                     \
                                                      \
        va_start(ap, flags);                          \
        mode = flags & O_CREAT ? va_arg(ap, int) : 0; \
        va_end(ap);                                   \
        stand_still(path);                            \
        *(void **)&real = dlsym(RTLD_NEXT, #name);    \
        return real(path, flags, mode);               \
    }
OPEN_AS(open)
OPEN_AS(open64)
