/* listen: binds a listening socket, and refuses a port that another program uses. */
#include "listen.h"
#include "rc.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LISTEN_BACKLOG = 1024 };

/* How often to try again when another ingress process that probes the port makes bind()
 * fail. */
enum { TRIES = 20, BETWEEN_MS = 25 };

/* Returns -1 with errno set. */
static int bind_at(const struct addrinfo *a, bool shared)
{
    int fd, on = 1, why;

    fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (shared)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0)
        return fd;
    why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* Several ingress processes of one pipeline share their port, and the kernel distributes
 * connections among them. Any program of the same user that sets SO_REUSEPORT could share
 * it too, and receive our connections. So unless a peer process is known, the port must be
 * free at first. */
static bool port_is_ours(const struct addrinfo *a, bool peers)
{
    int fd = bind_at(a, false);

    if (fd >= 0)
        close(fd);
    return fd >= 0 || errno != EADDRINUSE || peers;
}

static int listen_at(const struct addrinfo *a, listen_peers *peers, void *arg)
{
    int fd = -1, why = EADDRINUSE;

    for (int i = 0; fd < 0 && why == EADDRINUSE && i < TRIES; i++) {
        if (i)
            usleep(BETWEEN_MS * 1000);
        if (!peers)
            fd = bind_at(a, false);
        else if (port_is_ours(a, peers(arg)))
            fd = bind_at(a, true);
        else
            errno = EADDRINUSE;
        why = errno;
    }
    if (fd >= 0 && listen(fd, LISTEN_BACKLOG) == 0)
        return fd;
    why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

int listen_on(const char *key, const char *host, int port, listen_peers *peers,
              void *arg)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[16];
    int rc, fd;

    snprintf(service, sizeof service, "%d", port);
    rc = getaddrinfo(host && *host ? host : NULL, service, &hints, &found);
    if (rc)
        die(EXIT_UNAVAILABLE, "%s: %s: %s", key, host, gai_strerror(rc));
    fd = listen_at(found, peers, arg);
    if (fd < 0)
        die(EXIT_UNAVAILABLE,
            errno == EADDRINUSE ? "%s: %s:%d is in use by another program (%s)"
                                : "%s: cannot listen on %s:%d (%s)",
            key, host, port, strerror(errno));
    freeaddrinfo(found);
    return fd;
}
