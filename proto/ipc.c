/* ipc: makes addresses of ZeroMQ sockets in run_dir, binds them, and tells whose their files are. */
#include "ipc.h"
#include "alloc.h"
#include "clock.h"
#include "rc.h"
#include <czmq.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* A lock is held for microseconds, unless its process was stopped meanwhile: a start does not wait for that one. */
enum { LOCK_WAIT_MS = 1000 };

char *ipc_address(const char *run_dir, const char *name, const char *kind)
{
    char *address = gr_printf("ipc://%s/%s.%s", run_dir, name, kind);

    if (strlen(address) - strlen("ipc://") >=
        sizeof((struct sockaddr_un *)0)->sun_path)
        die(EXIT_CONFIG,
            "run_dir: the path %s is too long for a socket (at most %zu bytes, "
            "with \"/%s.%s\"): choose a shorter one",
            run_dir, sizeof((struct sockaddr_un *)0)->sun_path - 1, name, kind);
    return address;
}

int ipc_lock(const char *run_dir)
{
    int lock = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0) {
        close(lock);
        return -1;
    }
    return lock;
}

void ipc_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}

static int lock_or_go_on(const char *run_dir)
{
    int64_t begun = mono_ms();
    int lock;

    while ((lock = ipc_lock(run_dir)) < 0 && errno == EWOULDBLOCK &&
           mono_ms() - begun < LOCK_WAIT_MS)
        zclock_sleep(1);
    return lock;
}

void ipc_bind(zsock_t *socket, const char *run_dir, const char *name,
              const char *kind)
{
    char *address = ipc_address(run_dir, name, kind);
    int lock = lock_or_go_on(run_dir);

    if (zsock_bind(socket, "%s", address) < 0)
        die(EXIT_UNAVAILABLE, "cannot bind %s: %s", address,
            zmq_strerror(errno));
    ipc_unlock(lock);
    free(address);
}

int ipc_bind_again(zsock_t *socket, const char *run_dir, const char *name,
                   const char *kind)
{
    char *address;
    int lock, rc = 0;

    if (ipc_file(run_dir, name, kind))
        return 0;
    lock = ipc_lock(run_dir);
    if (lock < 0 && errno == EWOULDBLOCK)
        return 0; /* the caller looks again */
    address = ipc_address(run_dir, name, kind);
    if (!ipc_file(run_dir, name, kind))
        rc = zsock_bind(socket, "%s", address) < 0 ? -1 : 1;
    ipc_unlock(lock);
    free(address);
    return rc;
}

uint64_t ipc_file(const char *run_dir, const char *name, const char *kind)
{
    char *path = gr_printf("%s/%s.%s", run_dir, name, kind);
    struct stat st;
    uint64_t file = stat(path, &st) == 0 ? st.st_ino : 0;

    free(path);
    return file;
}

bool ipc_listens(const char *run_dir, const char *name, const char *kind)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int n = snprintf(at.sun_path, sizeof at.sun_path, "%s/%s.%s", run_dir, name,
                     kind);
    /* EAGAIN: its queue of connections is full, as it accepts none. */
    bool yes = fd >= 0 && n > 0 && (size_t)n < sizeof at.sun_path &&
               (connect(fd, (struct sockaddr *)&at, sizeof at) == 0 ||
                errno == EAGAIN);

    if (fd >= 0)
        close(fd);
    return yes;
}

void ipc_remove(const char *run_dir, const char *name, const char *kind,
                uint64_t file)
{
    int lock = lock_or_go_on(run_dir);
    char *path = gr_printf("%s/%s.%s", run_dir, name, kind);

    if (file && ipc_file(run_dir, name, kind) == file)
        unlink(path);
    free(path);
    ipc_unlock(lock);
}

void ipc_follow(zsock_t *socket, const char *run_dir, const char *name,
                const char *kind, uint64_t *file)
{
    uint64_t now = ipc_file(run_dir, name, kind);

    if (*file && now && now != *file) {
        zsock_disconnect(socket, "ipc://%s/%s.%s", run_dir, name, kind);
        zsock_connect(socket, "ipc://%s/%s.%s", run_dir, name, kind);
    }
    if (now)
        *file = now;
}
