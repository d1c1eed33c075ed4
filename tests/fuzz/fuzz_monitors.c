/* fuzz_monitors: bytes on a connection to metrics.publish, over a real socket. The
 * first byte says into how many pieces they are cut, and whether a greeting goes
 * before them.
 *
 * What the client reads begins with our greeting, and nothing is left of it when
 * it has closed. */
#include "fuzz.h"
#include "monitors.h"
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { GREETING_BYTES = 64, EPOCHS_MAX = 100 };

static const unsigned char hello[] =
    "\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
    "\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB";

static struct monitors *monitors;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static int64_t time_ms = 1000;

static void leave(void)
{
    monitors_close(monitors);
}

static void enter(void)
{
    const char *folder = getenv("TMPDIR");
    char *url;

    if (monitors)
        return;
    url = gr_printf("ipc://%s/fuzz-monitors-%d", folder ? folder : "/tmp",
                    (int)getpid());
    snprintf(address.sun_path, sizeof address.sun_path, "%s", url + 6);
    monitors = monitors_open(url);
    free(url);
    atexit(leave);
}

/* true: it was closed. */
static bool turn(int fd, struct buf *got)
{
    static const char frame[] = "\x87 a frame";
    char piece[4096];
    ssize_t n;

    time_ms += 10;
    monitors_run(monitors, time_ms);
    monitors_send(monitors, frame, sizeof frame - 1);
    while ((n = recv(fd, piece, sizeof piece, MSG_DONTWAIT)) > 0)
        buf_put(got, piece, (size_t)n);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static bool put(int fd, const void *p, size_t n, struct buf *got)
{
    const unsigned char *at = p;
    size_t sent = 0;

    for (int i = 0; sent < n && i < EPOCHS_MAX; i++) {
        ssize_t k = send(fd, at + sent, n - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (k > 0)
            sent += (size_t)k;
        if (turn(fd, got))
            return false;
    }
    return true;
}

static int reach(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    fuzz_check(fd >= 0);
    while (connect(fd, (const void *)&address, sizeof address) != 0)
        fuzz_check(errno == EINTR);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    unsigned how = fuzz_byte(&in);
    size_t pieces = 1 + how % 4;
    bool open = true;
    struct buf got;
    int fd;

    enter();
    buf_init(&got, 1 << 20);
    fd = reach();
    if (how & 4)
        open = put(fd, hello, sizeof hello - 1, &got);
    fuzz_check(open);
    for (size_t i = 0; i < pieces && open; i++) {
        size_t from = in.n * i / pieces, until = in.n * (i + 1) / pieces;

        open = put(fd, in.p + from, until - from, &got);
    }
    for (int i = 0; i < 3 && open; i++)
        open = !turn(fd, &got);
    fuzz_check(got.len >= GREETING_BYTES || !open);
    if (got.len)
        fuzz_check((unsigned char)got.data[0] == 0xff);
    fuzz_check(monitors_subscribed(monitors) <= 1);
    close(fd);
    for (int i = 0; i < 3; i++)
        monitors_run(monitors, time_ms);
    fuzz_check(monitors_subscribed(monitors) == 0);
    buf_fini(&got);
    return 0;
}
