/* fuzz_http: bytes on a connection to the HTTP front end, over a real socket. The
 * first byte says into how many pieces they are cut.
 *
 * Every request that is taken is answered; what the client reads are HTTP
 * responses; and no connection, request or memory is left when it has closed. */
#include "clock.h"
#include "fuzz.h"
#include "http.h"
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EPOCHS_MAX = 200, STEP_MS = 500 };

static struct http *http;
static int port, taken, responded_taken;
static struct request_list waiting = TAILQ_HEAD_INITIALIZER(waiting);
static const struct http_bounds bounds = {
    .max_body_bytes = 4096, .max_connections = 50, .read_timeout_ms = 10000};

static enum response admit(void *self, struct request *r,
                           const struct head_facts *facts)
{
    (void)self, (void)facts;
    if (strcmp(r->path, "/in/s") != 0)
        return RESPONSE_PATH_UNKNOWN;
    if (strcmp(r->method, "POST") != 0)
        return RESPONSE_ONLY_POST;
    snprintf(r->source, sizeof r->source, "s");
    return RESPONSE_NONE;
}

static enum response take(void *self, struct request *r)
{
    (void)self;
    fuzz_check(r->body.len <= (size_t)bounds.max_body_bytes);
    taken++;
    TAILQ_INSERT_TAIL(&waiting, r, link);
    return RESPONSE_NONE;
}

static void responded(void *self, const struct request *r, enum response a)
{
    (void)self, (void)r;
    fuzz_check(a > RESPONSE_NONE && a < RESPONSE_COUNT);
}

static const struct http_ops ops = {admit, take, responded};

static void leave(void)
{
    http_close(http);
}

static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    fuzz_check(fd >= 0 && bind(fd, (void *)&a, sizeof a) == 0 &&
               getsockname(fd, (void *)&a, &size) == 0);
    close(fd);
    return ntohs(a.sin_port);
}

static void enter(void)
{
    if (http)
        return;
    clock_test_set(1700000000000LL);
    port = free_port();
    http = http_open("127.0.0.1", port, &bounds, &ops, NULL, NULL, NULL);
    atexit(leave);
}

static void run(void)
{
    struct request *r, *next;

    http_run(http, now_ms(), mono_ms());
    for (r = TAILQ_FIRST(&waiting); r; r = next) {
        next = TAILQ_NEXT(r, link);
        TAILQ_REMOVE(&waiting, r, link);
        responded_taken++;
        snprintf(r->event_id, sizeof r->event_id,
                 "evt_01M7ZTFTJX2GJ88K9BVSR291WA");
        http_respond(http, r, RESPONSE_ACCEPTED);
    }
    http_run(http, now_ms(), mono_ms());
}

/* libFuzzer's alarm may interrupt it; it goes on, and is asked again. */
static bool reach(int fd, const struct sockaddr_in *to)
{
    while (connect(fd, (const void *)to, sizeof *to) != 0)
        if (errno == EISCONN)
            return true;
        else if (errno != EINTR && errno != EALREADY)
            return false;
    return true;
}

/* true: the server has closed. */
static bool read_all(int fd, struct buf *got)
{
    char piece[4096];
    ssize_t n;

    while ((n = recv(fd, piece, sizeof piece, MSG_DONTWAIT)) > 0)
        buf_put(got, piece, (size_t)n);
    return n == 0 || (n < 0 && errno != EAGAIN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    size_t pieces, sent = 0;
    bool closed = false;
    struct buf got;
    int fd;

    if (n > 60000)
        return 0;
    enter();
    pieces = 1 + fuzz_byte(&in) % 4;
    to.sin_port = htons((uint16_t)port);
    buf_init(&got, 1 << 20);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fuzz_check(fd >= 0 && reach(fd, &to));
    taken = responded_taken = 0;
    for (size_t i = 1; i <= pieces && !closed; i++) {
        size_t until = in.n * i / pieces;

        while (sent < until && !closed) {
            ssize_t k = send(fd, in.p + sent, until - sent,
                             MSG_NOSIGNAL | MSG_DONTWAIT);

            run();
            closed = read_all(fd, &got);
            if (k > 0)
                sent += (size_t)k;
        }
        run();
    }
    shutdown(fd, SHUT_WR);
    for (int i = 0; !closed && i < EPOCHS_MAX; i++) {
        run();
        closed = read_all(fd, &got);
        if (i > 10)
            clock_test_advance(STEP_MS);
    }
    fuzz_check(closed);
    close(fd);
    for (int i = 0; http_figures(http).connections && i < EPOCHS_MAX; i++) {
        run();
        clock_test_advance(STEP_MS);
    }
    fuzz_check(http_figures(http).connections == 0);
    fuzz_check(http_figures(http).busy == 0);
    fuzz_check(taken == responded_taken);
    if (got.len)
        fuzz_check(got.len > 12 && memcmp(got.data, "HTTP/1.", 7) == 0);
    buf_fini(&got);
    return 0;
}
