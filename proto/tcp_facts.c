/* tcp_facts: asks the kernel about a connection. A file of its own, because <czmq.h> includes glibc's struct tcp_info,
 * which ends before the field that is read here. */
#include "tcp_facts.h"
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

uint64_t tcp_cookie(int fd)
{
    uint64_t cookie = 0;
    socklen_t n = sizeof cookie;

    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &n) == 0 ? cookie : 0;
}

uint64_t tcp_acknowledged_bytes(int fd)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof info;

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0
               ? info.tcpi_bytes_acked
               : UINT64_MAX;
}
