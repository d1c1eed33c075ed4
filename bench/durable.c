/* durable: the smallest server that stores requests before it responds, for comparison.
 *
 *   durable FILE SECRET
 *
 * libmicrohttpd reads a POST, and the server compares its HMAC. The bodies of all
 * waiting requests are written with one pwrite() and one fdatasync(), in a thread,
 * while the next are read; then the responses are sent. It reads no header but the
 * signature, and makes no ids and no rows, so no request can be found again. FILE is
 * overwritten again and again, so that not even its length changes.
 *
 * bench/ingest runs it beside bare.c and our ingress: from bare.c to this is what the
 * disk costs on this machine, whatever the program; from this to our ingress is what
 * our archive costs. Prints its port and runs until it is killed. */
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 4096,
    BODY_MAX_BYTES = 16 * 1024,
    HEAD_BYTES = 400, /* what a row holds beside the body, about */
    FILE_BYTES = 32 * 1024 * 1024,
    GROUP_MIN = 16,
    LOOK_NS = 20 * 1000, /* for requests, while the thread writes */
    IDLE_MS = 100,
};

struct request {
    char body[BODY_MAX_BYTES];
    size_t n;
    enum { READING, WAITING, STORED, LEFT } state;
    struct request *spare;
};

static struct {
    struct MHD_Daemon *mhd;
    struct MHD_Response *response;
    const char *secret;
    struct request *spare;
    struct request *waiting[CONNECTIONS_MAX], *group[CONNECTIONS_MAX];
    int waiting_count, group_count;
    /* The thread's, while it writes. */
    int file, ended;
    sem_t go;
    char *bytes;
    size_t n;
} server;

static bool fits(struct MHD_Connection *c, const struct request *r)
{
    const char *said = MHD_lookup_connection_value(c, MHD_HEADER_KIND,
                                                   "X-Plane-Signature");
    unsigned char mac[32];
    char hex[2 * sizeof mac + 1];

    HMAC(EVP_sha256(), server.secret, (int)strlen(server.secret),
         (const unsigned char *)r->body, r->n, mac, NULL);
    for (size_t i = 0; i < sizeof mac; i++) {
        hex[2 * i] = "0123456789abcdef"[mac[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[mac[i] & 15];
    }
    hex[2 * sizeof mac] = 0;
    return said && strcmp(said, hex) == 0;
}

static struct request *request_new(void)
{
    struct request *r = server.spare;

    if (r)
        server.spare = r->spare;
    else
        r = malloc(sizeof *r);
    if (r) {
        r->n = 0;
        r->state = READING;
    }
    return r;
}

/* One that waits is asked for again by each run, and costs no system call. */
static enum MHD_Result on_call(void *cls, struct MHD_Connection *c,
                               const char *url, const char *method,
                               const char *version, const char *data,
                               size_t *data_bytes, void **context)
{
    struct request *r = *context;

    (void)cls, (void)url, (void)method, (void)version;
    if (!r)
        return (*context = request_new()) ? MHD_YES : MHD_NO;
    if (*data_bytes) {
        if (*data_bytes > sizeof r->body - r->n)
            return MHD_NO;
        memcpy(r->body + r->n, data, *data_bytes);
        r->n += *data_bytes;
        *data_bytes = 0;
        return MHD_YES;
    }
    if (r->state == STORED)
        return MHD_queue_response(c, MHD_HTTP_OK, server.response);
    if (r->state == WAITING)
        return MHD_YES;
    if (!fits(c, r) || server.waiting_count == CONNECTIONS_MAX)
        return MHD_NO;
    r->state = WAITING;
    server.waiting[server.waiting_count++] = r;
    return MHD_YES;
}

static void request_free(struct request *r)
{
    r->spare = server.spare;
    server.spare = r;
}

static void on_completed(void *cls, struct MHD_Connection *c, void **context,
                         enum MHD_RequestTerminationCode why)
{
    struct request *r = *context;

    (void)cls, (void)c, (void)why;
    if (r && r->state == WAITING)
        r->state = LEFT; /* he is gone; it is in a group, or will be */
    else if (r)
        request_free(r);
    *context = NULL;
}

static void stored(struct request *r)
{
    if (r->state == LEFT)
        request_free(r);
    else
        r->state = STORED;
}

/* ---- the disk ---- */

_Noreturn static void fail(const char *what)
{
    perror(what);
    exit(74);
}

static void *write_groups(void *arg)
{
    off_t at = 0;

    for (;;) {
        sem_wait(&server.go);
        if (at + (off_t)server.n > FILE_BYTES)
            at = 0;
        if (pwrite(server.file, server.bytes, server.n, at) !=
                (ssize_t)server.n ||
            fdatasync(server.file) != 0 || eventfd_write(server.ended, 1) != 0)
            fail("durable: its file");
        at += (off_t)server.n;
    }
    return arg;
}

/* Half of those who stand here, the ones just answered among them. */
static void begin_group(void)
{
    int max = (server.waiting_count + server.group_count + 1) / 2;

    if (max < GROUP_MIN)
        max = GROUP_MIN;
    if (max > server.waiting_count)
        max = server.waiting_count;
    server.n = 0;
    for (int i = 0; i < max; i++) {
        struct request *r = server.group[i] = server.waiting[i];

        memset(server.bytes + server.n, 'h', HEAD_BYTES);
        memcpy(server.bytes + server.n + HEAD_BYTES, r->body, r->n);
        server.n += HEAD_BYTES + r->n;
    }
    server.group_count = max;
    server.waiting_count -= max;
    memmove(server.waiting, server.waiting + max,
            (size_t)server.waiting_count * sizeof server.waiting[0]);
    sem_post(&server.go);
}

static void read_until_it_is_stored(void)
{
    struct timespec wait = {.tv_nsec = LOOK_NS};
    struct pollfd ended = {.fd = server.ended, .events = POLLIN};
    eventfd_t n;

    do {
        MHD_run(server.mhd);
        ppoll(&ended, 1, &wait, NULL);
        wait.tv_nsec *= 2;
    } while (!ended.revents);
    if (eventfd_read(server.ended, &n) != 0)
        fail("durable: eventfd");
    for (int i = 0; i < server.group_count; i++)
        stored(server.group[i]);
    MHD_run(server.mhd); /* makes the responses; the next run writes them */
}

static void make_file(const char *path)
{
    char *zeroes = calloc(1, FILE_BYTES);

    server.file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (!zeroes || server.file < 0 ||
        write(server.file, zeroes, FILE_BYTES) != FILE_BYTES ||
        fsync(server.file) != 0)
        fail(path);
    free(zeroes);
}

int main(int argc, char **argv)
{
    static char body[] = "{\"id\":\"evt_01J8X4M6Q2R3S4T5V6W7X8Y9Z0\","
                         "\"status\":\"accepted\"}";
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct pollfd http = {.events = POLLIN};
    pthread_t thread;

    if (argc != 3)
        return fprintf(stderr, "durable FILE SECRET\n"), 64;
    make_file(argv[1]);
    server.secret = argv[2];
    server.bytes = malloc((size_t)CONNECTIONS_MAX *
                          (HEAD_BYTES + BODY_MAX_BYTES));
    server.ended = eventfd(0, EFD_CLOEXEC);
    sem_init(&server.go, 0, 0);
    server.response = MHD_create_response_from_buffer(strlen(body), body,
                                                      MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(server.response, "Content-Type",
                            "application/json");
    server.mhd = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_TURBO, 0, NULL, NULL, on_call, NULL,
        MHD_OPTION_SOCK_ADDR, &at, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_MAX, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        NULL, MHD_OPTION_END);
    if (!server.mhd || !server.bytes || server.ended < 0 ||
        pthread_create(&thread, NULL, write_groups, NULL) != 0)
        fail("durable");
    http.fd =
        MHD_get_daemon_info(server.mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    printf("%u\n",
           MHD_get_daemon_info(server.mhd, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    for (;;) {
        MHD_run(server.mhd);
        if (server.waiting_count) {
            begin_group();
            read_until_it_is_stored();
        } else {
            poll(&http, 1, IDLE_MS);
        }
    }
}
