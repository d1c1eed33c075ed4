/* gone: LD_PRELOAD it, and each connection is one that was reset as soon as it was
 * open: nobody can say any more who is at its other end. */
#include <errno.h>
#include <sys/socket.h>

int getpeername(int fd, struct sockaddr *restrict to, socklen_t *restrict size)
{
    (void)fd;
    (void)to;
    (void)size;
    errno = ENOTCONN;
    return -1;
}
