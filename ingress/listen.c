#include "http_parts.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LISTEN_BACKLOG = 1024 };

static int listen_at(const struct addrinfo *a)
{
    int fd, on = 1;

    fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    /* Not SO_REUSEPORT: two of us on one port must be noticed. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 &&
        listen(fd, LISTEN_BACKLOG) == 0)
        return fd;
    on = errno;
    close(fd);
    errno = on;
    return -1;
}

int listen_on(const char *host, int port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[16];
    int rc, fd;

    snprintf(service, sizeof service, "%d", port);
    rc = getaddrinfo(host && *host ? host : NULL, service, &hints, &found);
    if (rc)
        die(EXIT_UNAVAILABLE, "ingress.listen: %s: %s", host, gai_strerror(rc));
    fd = listen_at(found);
    if (fd < 0)
        die(EXIT_UNAVAILABLE,
            errno == EADDRINUSE
                ? "ingress.listen: %s:%d is in use by another program (%s)"
                : "ingress.listen: can't listen on %s:%d (%s)",
            host, port, strerror(errno));
    freeaddrinfo(found);
    return fd;
}
