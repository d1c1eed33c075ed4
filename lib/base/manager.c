/* manager: talks to the service manager's socket: a datagram for each message, lines of KEY=VALUE. */
#include "manager.h"
#include "alloc.h"
#include "clock.h"
#include "log.h"
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    STATUS_EVERY_MS = 5 * 1000,
    STATUS_MAX_BYTES = 300,
    MESSAGE_MAX = 500,
    AGAIN_MS =
        100, /* when to send again a message for which the manager had no space */
    WAITED_MS =
        5 *
        1000, /* that the loop has waited for the disk, before the status says
                           * so */
    US_PER_MS = 1000,
    US_PER_S = 1000 * 1000,
    NS_PER_US = 1000,
};

static struct {
    int fd; /* -1: no service manager */
    struct sockaddr_un to;
    socklen_t to_bytes;
    int64_t
        watchdog_ms; /* half of the watchdog's limit; 0: there is no watchdog */
    int64_t alive_ms;    /* mono: when the last WATCHDOG=1 was sent */
    int64_t extended_ms; /* mono: when the last extension was sent */
    int64_t status_ms;   /* mono: when the last status was sent; 0: never */
    int64_t stop_max_ms; /* the argument of manager_stopping() */
    bool owes_ready, owes_stopping;
    bool stopping;
    bool failed; /* the errno that was logged */
    char status[STATUS_MAX_BYTES];
} m = {.fd = -1};

/* ---- the environment ---- */

/* $NOTIFY_SOCKET is "/path", or "@name" in the abstract namespace. */
static bool read_address(const char *text)
{
    size_t n = strlen(text);

    if ((text[0] != '/' && text[0] != '@') || n < 2 ||
        n >= sizeof m.to.sun_path)
        return false;
    m.to = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(m.to.sun_path, text, n);
    m.to_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    if (text[0] == '@')
        m.to.sun_path[0] = 0;
    else
        m.to_bytes++; /* the end of the path belongs to it */
    return true;
}

/* Half of $WATCHDOG_USEC, ms. 0: not set, not for this process, or not a number. */
static int64_t read_watchdog(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    char *end;
    long long n;

    if (!usec || (pid && strtoll(pid, NULL, 10) != getpid()))
        return 0;
    errno = 0;
    n = strtoll(usec, &end, 10);
    if (errno || *end || n <= 0)
        return 0;
    n /= 2 * US_PER_MS;
    return n > 0 ? n : 1;
}

void manager_open(void)
{
    const char *at = getenv("NOTIFY_SOCKET");

    m.fd = -1;
    m.watchdog_ms = 0;
    if (at && *at && !read_address(at))
        log_warn(NULL,
                 "NOTIFY_SOCKET is not a path or @NAME; the service manager "
                 "gets no notifications",
                 LS("file", at));
    else if (at && *at)
        m.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (m.fd >= 0)
        m.watchdog_ms = read_watchdog();
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

void manager_close(void)
{
    if (m.fd >= 0)
        close(m.fd);
    m.fd = -1;
}

bool manager_watches(void)
{
    return m.fd >= 0 && m.watchdog_ms > 0;
}

/* ---- messages ---- */

/* false: it was not sent, because the manager is busy or has gone (it may come back). */
static bool notify(const char *text)
{
    if (sendto(m.fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL,
               (const struct sockaddr *)&m.to, m.to_bytes) >= 0) {
        m.failed = false;
        return true;
    }
    if (errno != EAGAIN && errno != ENOBUFS && !m.failed) {
        log_warn(NULL, "the service manager cannot be notified",
                 LS("error", strerror(errno)));
        m.failed = true;
    }
    return false;
}

static void notify_extended(const char *more, int64_t ms)
{
    char text[MESSAGE_MAX];

    snprintf(text, sizeof text, "EXTEND_TIMEOUT_USEC=%lld%s%s",
             (long long)(ms * US_PER_MS), *more ? "\n" : "", more);
    notify(text);
}

/* For messages that must arrive. */
static void settle(void)
{
    char text[MESSAGE_MAX];

    if (m.owes_ready)
        m.owes_ready = !notify("READY=1");
    if (m.owes_stopping) {
        snprintf(text, sizeof text,
                 "STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=%lld",
                 (long long)((m.stop_max_ms + MANAGER_EXTEND_MS) * US_PER_MS));
        m.owes_stopping = !notify(text);
    }
}

void manager_starting(const char *status)
{
    char text[STATUS_MAX_BYTES];

    if (m.fd < 0)
        return;
    /* A standby was ready before it opens its database, so the watchdog runs. */
    snprintf(text, sizeof text, "WATCHDOG=1\nSTATUS=%s", status);
    notify_extended(text, MANAGER_EXTEND_MS);
}

void manager_ready(void)
{
    m.owes_ready = m.fd >= 0 && !m.stopping;
    settle();
}

void manager_reloading(void)
{
    struct timespec now;
    char text[MESSAGE_MAX];

    if (m.fd < 0 || m.stopping)
        return;
    /* MONOTONIC_USEC is for managers that wait for the reload to end (Type=notify-reload);
     * older ones ignore it. It must be of CLOCK_MONOTONIC, which mono_us() is not. */
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld",
             (long long)now.tv_sec * US_PER_S + now.tv_nsec / NS_PER_US);
    notify(text);
}

void manager_stopping(int64_t max_ms)
{
    if (m.fd < 0 || m.stopping)
        return;
    m.stopping = m.owes_stopping = true;
    m.owes_ready = false;
    m.stop_max_ms = max_ms;
    settle();
}

/* ---- the turn ---- */

int manager_turn(int64_t mono_ms)
{
    int64_t due_ms = m.alive_ms + m.watchdog_ms - mono_ms;

    if (m.fd < 0)
        return -1;
    settle();
    if (m.watchdog_ms && due_ms <= 0) {
        if (!notify("WATCHDOG=1"))
            return AGAIN_MS;
        m.alive_ms = mono_ms;
        due_ms = m.watchdog_ms;
    }
    if (m.owes_ready || m.owes_stopping)
        return AGAIN_MS;
    return m.watchdog_ms ? (int)(due_ms < MINUTE_MS ? due_ms : MINUTE_MS) : -1;
}

void manager_waits(int64_t mono_ms, int64_t disk_ms, const char *what)
{
    char text[STATUS_MAX_BYTES];

    if (m.fd < 0)
        return;
    manager_turn(mono_ms);
    if (!disk_ms || mono_ms - disk_ms < WAITED_MS)
        return;
    if (m.stopping && mono_ms - m.extended_ms >= MANAGER_EXTEND_EVERY_MS) {
        notify_extended("", MANAGER_EXTEND_MS);
        m.extended_ms = mono_ms;
    }
    if (!manager_status_is_due(mono_ms))
        return;
    snprintf(text, sizeof text, "waiting for %s for %lld s", what,
             (long long)(mono_ms - disk_ms) / SECOND_MS);
    manager_status(text, mono_ms);
}

bool manager_status_is_due(int64_t mono_ms)
{
    return m.fd >= 0 &&
           (!m.status_ms || mono_ms - m.status_ms >= STATUS_EVERY_MS);
}

void manager_status(const char *text, int64_t mono_ms)
{
    char message[STATUS_MAX_BYTES + 16];

    m.status_ms = mono_ms;
    if (strcmp(text, m.status) == 0)
        return;
    snprintf(message, sizeof message, "STATUS=%.*s", STATUS_MAX_BYTES - 1,
             text);
    if (notify(message))
        snprintf(m.status, sizeof m.status, "%s", text);
}
