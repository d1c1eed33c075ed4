/* faults: LD_PRELOAD it, and the Nth call of one kind fails once.
 *
 * RIG_FAULT=CALL:ERROR:N  CALL is open, write, sync (of files whose name begins with
 *                         $RIG_FAULT_FILES), accept, connect, send, receive or malloc;
 *                         ERROR is an errno as a number, or 0 for a write of half the
 *                         bytes, or -9: the process is killed instead of making the
 *                         call
 * RIG_FAULT_HIT           a file that is made when the call has failed
 *
 * malloc can't be used with a sanitizer, which has one of its own. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum call {
    NOT_SET,
    NO_CALL,
    OPEN,
    WRITE,
    SYNC,
    ACCEPT,
    CONNECT,
    SEND,
    RECEIVE,
    MALLOC
};

static const char *const names[] = {
    [OPEN] = "open",       [WRITE] = "write",     [SYNC] = "sync",
    [ACCEPT] = "accept",   [CONNECT] = "connect", [SEND] = "send",
    [RECEIVE] = "receive", [MALLOC] = "malloc"};

static atomic_int failing; /* enum call */
static atomic_long left;
static int error;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Without malloc(), which asks, too. */
static void read_fault(void)
{
    const char *fault = getenv("RIG_FAULT");
    int found = NO_CALL;
    long n = 0;
    size_t name_n = fault ? strcspn(fault, ":") : 0;

    for (int i = OPEN; fault && i <= MALLOC; i++)
        if (strlen(names[i]) == name_n && !strncmp(fault, names[i], name_n))
            found = i;
    if (found != NO_CALL && sscanf(fault + name_n, ":%d:%ld", &error, &n) != 2)
        abort();
    atomic_store(&left, n);
    atomic_store(&failing, found);
}

/* This call is the one that fails. */
static int fails(enum call call)
{
    int fd;

    if (atomic_load(&failing) == NOT_SET) {
        atomic_store(&failing,
                     NO_CALL); /* what read_fault() calls does not fail */
        read_fault();
    }
    if (atomic_load(&failing) != (int)call || atomic_fetch_sub(&left, 1) != 1)
        return 0;
    fd = (int)syscall(SYS_open, getenv("RIG_FAULT_HIT"), O_CREAT | O_WRONLY,
                      0600);
    syscall(SYS_close, fd);
    if (error < 0)
        kill(getpid(), -error);
    errno = error;
    return 1;
}

static int is_ours(const char *path)
{
    const char *prefix = getenv("RIG_FAULT_FILES");

    return prefix && strncmp(path, prefix, strlen(prefix)) == 0;
}

static int is_our_file(int fd)
{
    char link[40], path[500] = "";

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, path, sizeof path - 1) > 0 && is_ours(path);
}

/* ---- files ---- */

#define OPEN_AS(name)                                 \
    int name(const char *path, int flags, ...)        \
    {                                                 \
        va_list ap;                                   \
        int mode;                                     \
                                                      \
        va_start(ap, flags);                          \
        mode = flags & O_CREAT ? va_arg(ap, int) : 0; \
        va_end(ap);                                   \
        if (is_ours(path) && fails(OPEN))             \
            return -1;                                \
        return REAL(name)(path, flags, mode);         \
    }
OPEN_AS(open)
OPEN_AS(open64)

/* How many of `n` bytes to write; -1: fail. */
static ssize_t share(int fd, size_t n)
{
    if (!is_our_file(fd) || !fails(WRITE))
        return (ssize_t)n;
    return error || n < 2 ? -1 : (ssize_t)(n / 2);
}

ssize_t write(int fd, const void *p, size_t n)
{
    ssize_t do_n = share(fd, n);

    return do_n < 0 ? -1 : REAL(write)(fd, p, (size_t)do_n);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    ssize_t do_n = share(fd, n);

    return do_n < 0 ? -1 : REAL(pwrite)(fd, p, (size_t)do_n, at);
}

ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at)
{
    ssize_t do_n = share(fd, n);

    return do_n < 0 ? -1 : REAL(pwrite64)(fd, p, (size_t)do_n, at);
}

int fsync(int fd)
{
    return is_our_file(fd) && fails(SYNC) ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
    return is_our_file(fd) && fails(SYNC) ? -1 : REAL(fdatasync)(fd);
}

/* ---- sockets ---- */

int accept(int fd, struct sockaddr *restrict a, socklen_t *restrict n)
{
    return fails(ACCEPT) ? -1 : REAL(accept)(fd, a, n);
}

int accept4(int fd, struct sockaddr *restrict a, socklen_t *restrict n,
            int flags)
{
    return fails(ACCEPT) ? -1 : REAL(accept4)(fd, a, n, flags);
}

int connect(int fd, const struct sockaddr *a, socklen_t n)
{
    return fails(CONNECT) ? -1 : REAL(connect)(fd, a, n);
}

ssize_t send(int fd, const void *p, size_t n, int flags)
{
    return fails(SEND) ? -1 : REAL(send)(fd, p, n, flags);
}

ssize_t recv(int fd, void *p, size_t n, int flags)
{
    return fails(RECEIVE) ? -1 : REAL(recv)(fd, p, n, flags);
}

/* ---- memory ---- */

#ifdef RIG_FAULTS_OF_MEMORY
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t n);
void *__libc_realloc(void *p, size_t n);

void *malloc(size_t n)
{
    return fails(MALLOC) ? NULL : __libc_malloc(n);
}

void *calloc(size_t count, size_t n)
{
    return fails(MALLOC) ? NULL : __libc_calloc(count, n);
}

void *realloc(void *p, size_t n)
{
    return fails(MALLOC) ? NULL : __libc_realloc(p, n);
}
#endif
