/* stall: LD_PRELOAD it, and the process takes the file $RIG_STALL away and stands
 * still for $RIG_STALL_MS at the end of its next connect: libcurl asks who is at
 * the other end, and then sends. As if it were stopped in that moment. */
#include <dlfcn.h>
#include <stdlib.h>
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
