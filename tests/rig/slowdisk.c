/* slowdisk: LD_PRELOAD it, and a sync of a WAL waits as long as there is a file
 * $RIG_DISK/hold, and fails when there is one $RIG_DISK/fail. While it waits
 * there is a file $RIG_DISK/held. The same of a database with hold-db, held-db.
 * As long as there is a file $RIG_DISK/step, each sync of a WAL waits for a file
 * $RIG_DISK/go, which it takes away after `held`. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int syncer(int fd);

syncer fdatasync;

static syncer *real(void)
{
    void *found = dlsym(RTLD_NEXT, "fdatasync");
    syncer *f;

    memcpy(&f, &found, sizeof f);
    return f;
}

static int ends(const char *text, size_t n, const char *end)
{
    size_t m = strlen(end);

    return n > m && !memcmp(text + n - m, end, m);
}

/* Of which kind the file is: "", "-db", or NULL for others. */
static const char *kind_of(int fd)
{
    char link[40], path[500];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path);
    if (n < 0)
        return NULL;
    return ends(path, (size_t)n, "-wal")  ? ""
           : ends(path, (size_t)n, ".db") ? "-db"
                                          : NULL;
}

static const char *sign(char path[500], const char *name, const char *kind)
{
    snprintf(path, 500, "%s/%s%s", getenv("RIG_DISK"), name, kind);
    return path;
}

static int is_there(const char *name, const char *kind)
{
    char path[500];

    return access(sign(path, name, kind), F_OK) == 0;
}

static void wait_there(const char *kind)
{
    char path[500];

    close(open(sign(path, "held", kind), O_CREAT | O_WRONLY, 0600));
    while (is_there("hold", kind))
        usleep(2000);
    unlink(path);
}

static void wait_for_go(void)
{
    char path[500];

    /* Another thread's sync may have waited, too, and gone on. */
    while (is_there("step", "") && !is_there("go", "")) {
        close(open(sign(path, "held", ""), O_CREAT | O_WRONLY, 0600));
        usleep(1000);
    }
    unlink(sign(path, "held", ""));
    unlink(sign(path, "go", ""));
}

int fdatasync(int fd)
{
    const char *kind = getenv("RIG_DISK") ? kind_of(fd) : NULL;

    if (!kind)
        return real()(fd);
    if (is_there("hold", kind))
        wait_there(kind);
    if (!*kind && is_there("step", kind))
        wait_for_go();
    if (is_there("fail", kind)) {
        errno = EIO;
        return -1;
    }
    return real()(fd);
}
