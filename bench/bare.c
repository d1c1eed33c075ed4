/* bare: what libmicrohttpd alone can do on one thread: reads a POST's body,
 * throws it away and responds 200. The measure that bench/ingest holds our ingress
 * against. Prints its port and runs until it is killed. */
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct MHD_Response *response;

static enum MHD_Result on_call(void *cls, struct MHD_Connection *c,
                               const char *url, const char *method,
                               const char *version, const char *data,
                               size_t *data_bytes, void **context)
{
    static int seen;

    (void)cls, (void)url, (void)method, (void)version, (void)data;
    if (!*context) {
        *context = &seen;
        return MHD_YES;
    }
    if (*data_bytes) {
        *data_bytes = 0;
        return MHD_YES;
    }
    return MHD_queue_response(c, MHD_HTTP_OK, response);
}

int main(void)
{
    static char body[] = "{\"id\":\"evt_01J8X4M6Q2R3S4T5V6W7X8Y9Z0\","
                         "\"status\":\"accepted\"}";
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct MHD_Daemon *mhd;

    response = MHD_create_response_from_buffer(strlen(body), body,
                                               MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(response, "Content-Type", "application/json");
    mhd = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_TURBO, 0,
                           NULL, NULL, on_call, NULL, MHD_OPTION_SOCK_ADDR, &at,
                           MHD_OPTION_CONNECTION_LIMIT, 4096u, MHD_OPTION_END);
    if (!mhd) {
        fprintf(stderr, "bare: libmicrohttpd does not start\n");
        return 69;
    }
    printf("%u\n", MHD_get_daemon_info(mhd, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    for (;;)
        pause();
}
