/* ipc: makes addresses of ZeroMQ sockets in run_dir, and binds them. */
#include "ipc.h"
#include "alloc.h"
#include "rc.h"
#include <czmq.h>
#include <sys/un.h>

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

void ipc_bind(zsock_t *socket, const char *run_dir, const char *name,
              const char *kind)
{
    char *address = ipc_address(run_dir, name, kind);

    if (zsock_bind(socket, "%s", address) < 0)
        die(EXIT_UNAVAILABLE, "cannot bind %s: %s", address,
            zmq_strerror(errno));
    free(address);
}
