/* slowdisk: LD_PRELOAD it, and a sync of a WAL waits as long as there is a file
 * $RIG_DISK/hold, and fails when there is one $RIG_DISK/fail. While it waits
 * there is a file $RIG_DISK/held. */
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

static int is_wal(int fd)
{
    char link[40], path[500];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path);
    return n > 4 && !memcmp(path + n - 4, "-wal", 4);
}

static const char *sign(char path[500], const char *name)
{
    snprintf(path, 500, "%s/%s", getenv("RIG_DISK"), name);
    return path;
}

static int is_there(const char *name)
{
    char path[500];

    return access(sign(path, name), F_OK) == 0;
}

static void wait_there(void)
{
    char path[500];

    close(open(sign(path, "held"), O_CREAT | O_WRONLY, 0600));
    while (is_there("hold"))
        usleep(2000);
    unlink(path);
}

int fdatasync(int fd)
{
    if (!getenv("RIG_DISK") || !is_wal(fd))
        return real()(fd);
    if (is_there("hold"))
        wait_there();
    if (is_there("fail")) {
        errno = EIO;
        return -1;
    }
    return real()(fd);
}
