/* clock: LD_PRELOAD it, and the wall clock is off by what the file $RIG_CLOCK
 * says now: 8 bytes, nanoseconds, may be negative. Other clocks are as they are:
 * that is what a step of the system's clock looks like. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_S = 1000000000 };

int clock_gettime(clockid_t id, struct timespec *t);

/* NULL: there is no such file. Mapped, so that a look costs nothing. */
static const volatile int64_t *offset(void)
{
    static const volatile int64_t *at;
    const char *path = getenv("RIG_CLOCK");
    int fd;
    void *p;

    if (at || !path)
        return at;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    p = mmap(NULL, sizeof *at, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (p != MAP_FAILED)
        at = p;
    return at;
}

/* The C library's own, without looking for it: we may be asked before it is
 * whole. */
int clock_gettime(clockid_t id, struct timespec *t)
{
    int before = errno;
    int64_t ns;

    if (syscall(SYS_clock_gettime, id, t) != 0)
        return -1;
    if (id == CLOCK_REALTIME && offset()) {
        ns = t->tv_nsec + *offset() % NS_PER_S + NS_PER_S;
        t->tv_sec += *offset() / NS_PER_S + ns / NS_PER_S - 1;
        t->tv_nsec = ns % NS_PER_S;
    }
    errno = before;
    return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}
