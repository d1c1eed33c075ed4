/* power: LD_PRELOAD it, and all that a process does to files below $RIG_POWER_STATE
 * is also written to a journal in $RIG_POWER, from which tests/power/disk.py makes
 * what a disk could hold after a power cut. A sync is journalled instead of done.
 * With RIG_POWER_FORGETS set, syncs are not even journalled: a disk that lies.
 *
 * A record: its dead letter, bytes of the path (u16), of the data (u32), the offset (u64),
 * all little endian; path; data. Each is one write(), after what it tells of.
 *
 *   C the file is made    W bytes written at the offset    T cut or grown to it
 *   S the file is synced  D the folder is synced           U the name is removed
 *   R renamed to the name that is the data                 M mapped for writing */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { FILES_MAX = 65536 };

static char *paths[FILES_MAX]; /* of the files below the folder; else NULL */
static int journal = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static int is_ours(const char *path)
{
    const char *folder = getenv("RIG_POWER_STATE");

    return folder && getenv("RIG_POWER") &&
           strncmp(path, folder, strlen(folder)) == 0;
}

static void open_journal(void)
{
    struct timespec now;
    char path[600];

    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(path, sizeof path, "%s/%012lld%09ld-%d", getenv("RIG_POWER"),
             (long long)now.tv_sec, now.tv_nsec, (int)getpid());
    journal = REAL(open)(path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
}

static void note(char what, const char *path, uint64_t offset, const void *data,
                 size_t n)
{
    uint16_t path_n = (uint16_t)strlen(path);
    uint32_t data_n = (uint32_t)n;
    char head[15];
    struct iovec all[3] = {{head, sizeof head},
                           {(void *)(uintptr_t)path, path_n},
                           {(void *)(uintptr_t)data, n}};
    int saved = errno;

    head[0] = what;
    memcpy(head + 1, &path_n, 2);
    memcpy(head + 3, &data_n, 4);
    memcpy(head + 7, &offset, 8);
    pthread_mutex_lock(&lock);
    if (journal < 0)
        open_journal();
    if (REAL(writev)(journal, all, 3) != (ssize_t)(sizeof head + path_n + n))
        abort();
    pthread_mutex_unlock(&lock);
    errno = saved;
}

static const char *path_of(int fd)
{
    return fd >= 0 && fd < FILES_MAX ? paths[fd] : NULL;
}

/* ---- names ---- */

static int opened(int fd, const char *path, int flags, int was_there)
{
    if (fd < 0 || fd >= FILES_MAX || !is_ours(path))
        return fd;
    free(paths[fd]);
    paths[fd] = strdup(path);
    if (!was_there)
        note('C', path, 0, "", 0);
    else if (flags & O_TRUNC)
        note('T', path, 0, "", 0);
    return fd;
}

static int open_it(const char *path, int flags, mode_t mode)
{
    int was_there = access(path, F_OK) == 0;

    return opened(REAL(open)(path, flags, mode), path, flags, was_there);
}

int open(const char *path, int flags, ...)
{
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return open_it(path, flags, mode);
}

/* The same with 64-bit offsets. */
int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int openat(int folder, const char *path, int flags, ...)
{
    int was_there = faccessat(folder, path, F_OK, 0) == 0;
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return opened(REAL(openat)(folder, path, flags, mode), path, flags,
                  was_there);
}

int close(int fd)
{
    if (path_of(fd)) {
        free(paths[fd]);
        paths[fd] = NULL;
    }
    return REAL(close)(fd);
}

int unlink(const char *path)
{
    int rc = REAL(unlink)(path);

    if (rc == 0 && is_ours(path))
        note('U', path, 0, "", 0);
    return rc;
}

int rename(const char *from, const char *to)
{
    int rc = REAL(rename)(from, to);

    if (rc == 0 && is_ours(from))
        note('R', from, 0, to, strlen(to));
    return rc;
}

/* ---- content ---- */

static ssize_t wrote(int fd, ssize_t n, const void *p, uint64_t offset)
{
    if (n > 0 && path_of(fd))
        note('W', path_of(fd), offset, p, (size_t)n);
    return n;
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t offset)
{
    return wrote(fd, REAL(pwrite)(fd, p, n, offset), p, (uint64_t)offset);
}

ssize_t pwrite64(int fd, const void *p, size_t n, off64_t offset)
{
    return wrote(fd, REAL(pwrite64)(fd, p, n, offset), p, (uint64_t)offset);
}

ssize_t write(int fd, const void *p, size_t n)
{
    off_t offset = path_of(fd) ? lseek(fd, 0, SEEK_CUR) : 0;

    return wrote(fd, REAL(write)(fd, p, n), p, (uint64_t)offset);
}

static int cut(int fd, int rc, uint64_t size)
{
    if (rc == 0 && path_of(fd))
        note('T', path_of(fd), size, "", 0);
    return rc;
}

int ftruncate(int fd, off_t size)
{
    return cut(fd, REAL(ftruncate)(fd, size), (uint64_t)size);
}

int ftruncate64(int fd, off64_t size)
{
    return cut(fd, REAL(ftruncate64)(fd, size), (uint64_t)size);
}

int posix_fallocate(int fd, off_t offset, off_t n)
{
    int rc = REAL(posix_fallocate)(fd, offset, n);
    struct stat is;

    if (rc == 0 && path_of(fd) && fstat(fd, &is) == 0)
        note('T', path_of(fd), (uint64_t)is.st_size, "", 0);
    return rc;
}

void *mmap(void *at, size_t n, int how, int flags, int fd, off_t offset)
{
    void *p = REAL(mmap)(at, n, how, flags, fd, offset);

    if (p != MAP_FAILED && path_of(fd) && (how & PROT_WRITE) &&
        (flags & MAP_SHARED))
        note('M', path_of(fd), 0, "", 0);
    return p;
}

/* ---- syncs ---- */

static int synced(int fd)
{
    struct stat is;

    if (!getenv("RIG_POWER_FORGETS") && fstat(fd, &is) == 0)
        note(S_ISDIR(is.st_mode) ? 'D' : 'S', path_of(fd), 0, "", 0);
    return 0;
}

int fsync(int fd)
{
    return path_of(fd) ? synced(fd) : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
    return path_of(fd) ? synced(fd) : REAL(fdatasync)(fd);
}
