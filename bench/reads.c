/* bench-reads: sends GET requests at a steady rate over kept connections, for bench/api_reads.
 *
 *   bench-reads PORT TOKEN CONNECTIONS RATE SECONDS < PATHS
 *
 * The paths are sent in turns, a line each. A request is due on a clock, whether or not responses
 * come in time, and its latency counts from when it was due. Prints JSON: how many had which status, the rate,
 * percentiles of the latency in ms, and the bytes of a mean response. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PATHS_MAX = 100000, RESPONSE_MAX = 8 * 1024 * 1024, EVENTS = 64 };

struct connection {
    int fd;
    bool busy;
    int64_t due_us;
    char *in;
    size_t in_n, want; /* want: of the whole response; 0: not known */
    int status;
};

static struct {
    const char *token;
    int port, epoll, count;
    struct connection *all;
    char **paths;
    size_t path_count, next_path;
    double *took_ms;
    size_t done, capacity;
    long statuses[600], failed;
    double bytes;
} b;

static void fail(const char *what)
{
    fprintf(stderr, "bench-reads: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int number(const char *text)
{
    int n = (int)strtol(text, NULL, 10);

    if (n <= 0)
        fail(text);
    return n;
}

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void read_paths(void)
{
    char line[4096];

    b.paths = calloc(PATHS_MAX, sizeof *b.paths);
    while (b.path_count < PATHS_MAX && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        b.paths[b.path_count++] = strdup(line);
    }
    if (!b.path_count)
        fail("no paths on standard input");
}

static void open_one(struct connection *c)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)b.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    int one = 1;

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to) != 0)
        fail("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    if (epoll_ctl(b.epoll, EPOLL_CTL_ADD, c->fd, &e) != 0)
        fail("epoll_ctl");
    if (!c->in)
        c->in = malloc(RESPONSE_MAX);
    c->busy = false;
}

static void open_again(struct connection *c)
{
    b.failed += c->busy;
    close(c->fd);
    open_one(c);
}

static void send_one(struct connection *c, int64_t due_us)
{
    char text[8192];
    int n = snprintf(text, sizeof text,
                     "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                     "Authorization: Bearer %s\r\n\r\n",
                     b.paths[b.next_path], b.port, b.token);

    b.next_path = (b.next_path + 1) % b.path_count;
    c->busy = true;
    c->due_us = due_us;
    c->in_n = c->want = 0;
    if (write(c->fd, text, (size_t)n) != n)
        open_again(c);
}

static void ended(struct connection *c)
{
    c->busy = false;
    b.statuses[c->status > 0 && c->status < 600 ? c->status : 0]++;
    b.bytes += (double)c->in_n;
    if (b.done < b.capacity)
        b.took_ms[b.done++] = (double)(now_us() - c->due_us) / 1000;
}

/* Knows its length when the head is complete. */
static void read_head(struct connection *c)
{
    const char *end, *length;

    c->in[c->in_n] = 0;
    end = strstr(c->in, "\r\n\r\n");
    if (!end)
        return;
    length = strcasestr(c->in, "\r\nContent-Length:");
    if (!length || length > end)
        fail("a response has no Content-Length");
    c->status = (int)strtol(c->in + 9, NULL, 10);
    c->want = (size_t)(end + 4 - c->in) + strtoul(length + 17, NULL, 10);
}

static void readable(struct connection *c)
{
    ssize_t n;

    while ((n = read(c->fd, c->in + c->in_n, RESPONSE_MAX - 1 - c->in_n)) > 0) {
        c->in_n += (size_t)n;
        if (!c->want)
            read_head(c);
        if (c->want && c->in_n >= c->want) {
            ended(c);
            return;
        }
    }
    if (n == 0 || errno != EAGAIN)
        open_again(c);
}

static struct connection *idle(void)
{
    for (int i = 0; i < b.count; i++)
        if (!b.all[i].busy)
            return &b.all[i];
    return NULL;
}

static int compare(const void *x, const void *y)
{
    double p = *(const double *)x, q = *(const double *)y;

    return (p > q) - (p < q);
}

static double percentile(double part)
{
    return b.done ? b.took_ms[(size_t)((double)(b.done - 1) * part)] : 0;
}

static void print(double seconds)
{
    qsort(b.took_ms, b.done, sizeof *b.took_ms, compare);
    printf("{\"rate\": %.1f, \"failed\": %ld, \"bytes\": %.0f, \"p50\": %.2f, "
           "\"p99\": %.2f, \"statuses\": {",
           (double)b.done / seconds, b.failed,
           b.done ? b.bytes / (double)b.done : 0, percentile(0.5),
           percentile(0.99));
    for (int i = 0, any = 0; i < 600; i++)
        if (b.statuses[i])
            printf("%s\"%d\": %ld", any++ ? ", " : "", i, b.statuses[i]);
    printf("}}\n");
}

int main(int argc, char **argv)
{
    int64_t began_us, end_us, sent = 0, gap_us;

    if (argc != 6)
        return fprintf(stderr, "bench-reads PORT TOKEN CONNECTIONS RATE "
                               "SECONDS < PATHS\n"),
               64;
    b.port = number(argv[1]);
    b.token = argv[2];
    b.count = number(argv[3]);
    gap_us = 1000000 / number(argv[4]);
    read_paths();
    b.capacity = (size_t)(number(argv[4]) * (number(argv[5]) + 2));
    b.took_ms = malloc(b.capacity * sizeof *b.took_ms);
    b.epoll = epoll_create1(EPOLL_CLOEXEC);
    b.all = calloc((size_t)b.count, sizeof *b.all);
    for (int i = 0; i < b.count; i++)
        open_one(&b.all[i]);
    began_us = now_us();
    end_us = began_us + number(argv[5]) * INT64_C(1000000);
    while (now_us() < end_us) {
        struct epoll_event ready[EVENTS];
        struct connection *c;
        int64_t due_us = began_us + sent * gap_us, left_us;
        int n;

        while (due_us <= now_us() && (c = idle())) {
            send_one(c, due_us);
            due_us = began_us + ++sent * gap_us;
        }
        left_us = due_us - now_us();
        n = epoll_wait(b.epoll, ready, EVENTS,
                       left_us > 0 ? (int)(left_us / 1000) + 1 : 10);
        for (int i = 0; i < n; i++)
            readable(ready[i].data.ptr);
    }
    print((double)(now_us() - began_us) / 1000000);
    return 0;
}
