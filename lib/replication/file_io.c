/* file_io: complete reads and writes, and syncs. */
#include "file_io.h"
#include "alloc.h"
#include "folder.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t file_read_at(int fd, void *to, size_t n, int64_t at)
{
    size_t done = 0;

    while (done < n) {
        ssize_t got = pread(fd, (char *)to + done, n - done, at + (off_t)done);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

bool file_is_full(int error)
{
    return error == ENOSPC || error == EDQUOT;
}

_Noreturn static void failed(const char *path, const char *what)
{
    die(EXIT_STORAGE,
        "%s: %s failed: %s. Nothing is lost: the next start continues from the "
        "last position that is on disk",
        path, what, strerror(errno));
}

gr_rc file_write_at(const char *path, int fd, const void *p, size_t n,
                    int64_t at)
{
    size_t done = 0;

    while (done < n) {
        ssize_t put = pwrite(fd, (const char *)p + done, n - done,
                             at + (off_t)done);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && file_is_full(errno))
            return GR_AGAIN;
        if (put < 0)
            failed(path, "a write");
        done += (size_t)put;
    }
    return GR_OK;
}

gr_rc file_set_size(const char *path, int fd, int64_t bytes)
{
    while (ftruncate(fd, bytes) != 0) {
        if (file_is_full(errno))
            return GR_AGAIN;
        if (errno != EINTR)
            failed(path, "changing its size");
    }
    return GR_OK;
}

void file_sync(const char *path, int fd)
{
    if (fdatasync(fd) != 0)
        failed(path, "fdatasync");
}

void folder_sync(const char *path)
{
    if (!sync_folder_of(path))
        failed(path, "the sync of its folder");
}
