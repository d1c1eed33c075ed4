/* strangers: counts the accepted connections that have not proved a key, and ends the oldest ones beyond the limit. */
#include "strangers.h"
#include "alloc.h"
#include "clock.h"
#include "log.h"
#include "rc.h"
#include "tcp_facts.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    WATCHES_MAX = 4, /* sockets */
    /* Of CURVE: a greeting of 64 bytes and WELCOME of 170. READY, which is more than 16, follows only for a key that
     * was admitted. */
    SENT_TO_STRANGERS_BYTES = 64 + 170 + 16,
    GONE_MS = 1000, /* beyond the longest handshake, libzmq has closed it */
    LOG_MS = 10000,
    NOTE_BYTES = 6, /* of a monitor: 16 bits of event, 32 of value */
};

struct guest {
    int fd;           /* libzmq's, which may have closed it and use it again */
    uint64_t cookie;  /* of the connection, from the kernel */
    int64_t since_ms; /* mono */
};

/* The thread's own. */
struct door {
    zsock_t *monitors[WATCHES_MAX];
    int count;
    int handshake_ms;
    struct guest *guests; /* in the order of their arrival */
    int guest_count, limit;
    char (*known)[INET6_ADDRSTRLEN];
    int known_count;
    int hand, nothing;        /* descriptors */
    int64_t ended, logged_ms; /* since the last line in the log */
};

struct strangers {
    zactor_t *thread;
    int watches;
};

/* ---- one connection ---- */

static bool is_stranger(int fd, const struct guest *g)
{
    return tcp_cookie(fd) == g->cookie &&
           tcp_acknowledged_bytes(fd) <= SENT_TO_STRANGERS_BYTES;
}

/* Makes `d->hand` this connection, which it stays whatever libzmq does meanwhile. false: it is not open any more, or it
 * has proved a key. The number is reserved, as a flood may have used up all others. */
static bool hold(struct door *d, const struct guest *g)
{
    return dup3(g->fd, d->hand, O_CLOEXEC) >= 0 && is_stranger(d->hand, g);
}

static void let_go(struct door *d)
{
    dup3(d->nothing, d->hand, O_CLOEXEC);
}

static const char *numeric(const struct sockaddr_storage *from,
                           char out[INET6_ADDRSTRLEN])
{
    static const char mapped[] = "::ffff:";
    const struct sockaddr_in *v4 = (const void *)from;
    const struct sockaddr_in6 *v6 = (const void *)from;

    if (from->ss_family == AF_INET)
        return inet_ntop(AF_INET, &v4->sin_addr, out, INET6_ADDRSTRLEN);
    if (from->ss_family != AF_INET6 ||
        !inet_ntop(AF_INET6, &v6->sin6_addr, out, INET6_ADDRSTRLEN))
        return NULL;
    return IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) ? out + strlen(mapped) : out;
}

static bool is_known(const struct door *d)
{
    struct sockaddr_storage from = {0};
    socklen_t n = sizeof from;
    char text[INET6_ADDRSTRLEN];
    const char *address;

    if (getpeername(d->hand, (struct sockaddr *)&from, &n) != 0)
        return false;
    address = numeric(&from, text);
    for (int i = 0; address && i < d->known_count; i++)
        if (strcmp(d->known[i], address) == 0)
            return true;
    return false;
}

/* ---- all of them ---- */

static void remove_guest(struct door *d, int i)
{
    d->guest_count--;
    memmove(&d->guests[i], &d->guests[i + 1],
            (size_t)(d->guest_count - i) * sizeof *d->guests);
}

/* Forgets those that are strangers no longer, until it holds one that may be ended. Returns its place, or -1. */
static int find_oldest(struct door *d, bool known, int64_t now)
{
    for (int i = 0; i < d->guest_count;) {
        const struct guest *g = &d->guests[i];

        if (now - g->since_ms > d->handshake_ms + GONE_MS || !hold(d, g))
            remove_guest(d, i);
        else if (known || !is_known(d))
            return i;
        else
            i++;
    }
    return -1;
}

static void note_ended(struct door *d, int64_t now)
{
    d->ended++;
    if (d->logged_ms && now - d->logged_ms < LOG_MS)
        return;
    log_warn(NULL,
             "connections without a key of cluster.peers were closed: too many "
             "are open; let only peers reach this port",
             LI("closed", d->ended), LI("limit", d->limit));
    d->ended = 0;
    d->logged_ms = now;
}

static void end_one(struct door *d, int64_t now)
{
    int i = find_oldest(d, false, now);

    if (i < 0 && d->guest_count == d->limit)
        i = find_oldest(d, true, now);
    if (i >= 0 && d->guest_count == d->limit) {
        shutdown(d->hand, SHUT_RDWR); /* libzmq closes it */
        remove_guest(d, i);
        note_ended(d, now);
    }
    let_go(d);
}

static void accepted(struct door *d, int fd)
{
    struct guest g = {fd, tcp_cookie(fd), mono_ms()};

    if (d->guest_count >= d->limit)
        end_one(d, g.since_ms);
    if (g.cookie && d->guest_count < d->limit)
        d->guests[d->guest_count++] = g;
}

static void left(struct door *d, int fd)
{
    for (int i = 0; i < d->guest_count; i++)
        if (d->guests[i].fd == fd) {
            remove_guest(d, i);
            return;
        }
}

static void hear(struct door *d, zsock_t *monitor)
{
    zmsg_t *note = zmsg_recv(monitor);
    zframe_t *head = note ? zmsg_first(note) : NULL;
    uint16_t event;
    uint32_t value;

    if (head && zframe_size(head) == NOTE_BYTES) {
        memcpy(&event, zframe_data(head), sizeof event);
        memcpy(&value, zframe_data(head) + sizeof event, sizeof value);
        if (event == ZMQ_EVENT_ACCEPTED)
            accepted(d, (int)value);
        else
            left(d, (int)value);
    }
    zmsg_destroy(&note);
}

/* ---- the thread ---- */

static void set_limit(struct door *d, int limit)
{
    struct guest *guests = gr_alloc((size_t)limit * sizeof *guests);
    int keep = d->guest_count < limit ? d->guest_count : limit;

    if (keep)
        memcpy(guests, d->guests + d->guest_count - keep,
               (size_t)keep * sizeof *guests);
    free(d->guests);
    d->guests = guests;
    d->guest_count = keep;
    d->limit = limit;
    free(d->known);
    d->known = NULL;
    d->known_count = 0;
}

static void know(struct door *d, int number, const char *address)
{
    if (number >= d->known_count) {
        d->known = gr_realloc(d->known,
                              (size_t)(number + 1) * sizeof *d->known);
        memset(d->known[d->known_count], 0,
               (size_t)(number + 1 - d->known_count) * sizeof *d->known);
        d->known_count = number + 1;
    }
    snprintf(d->known[number], sizeof *d->known, "%s", address);
}

static void watch(struct door *d, const char *endpoint)
{
    zsock_t *monitor = zsock_new(ZMQ_PAIR);

    /* libzmq's thread would wait for space while it accepts. */
    zsock_set_rcvhwm(monitor, 0);
    zsock_connect(monitor, "%s", endpoint);
    d->monitors[d->count++] = monitor;
}

/* An order of the process. false: end. */
static bool obey(struct door *d, zsock_t *pipe)
{
    char *word = NULL, *text = NULL;
    int number = 0;
    bool go_on = zsock_recv(pipe, "sis", &word, &number, &text) == 0 && word &&
                 strcmp(word, "$TERM") != 0;

    if (go_on && strcmp(word, "WATCH") == 0) {
        watch(d, text);
        zsock_signal(pipe, 0);
    } else if (go_on && strcmp(word, "LIMIT") == 0)
        set_limit(d, number);
    else if (go_on)
        know(d, number, text);
    zstr_free(&word);
    zstr_free(&text);
    return go_on;
}

static void run(zsock_t *pipe, void *arg)
{
    struct door d = {.handshake_ms = *(int *)arg};
    bool go_on = true;

    d.nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    d.hand = fcntl(d.nothing, F_DUPFD_CLOEXEC, 0);
    if (d.hand < 0)
        die(EXIT_UNAVAILABLE, "cannot open /dev/null: %s", strerror(errno));
    set_limit(&d, 1);
    zsock_signal(pipe, 0);
    while (go_on) {
        zmq_pollitem_t items[WATCHES_MAX + 1] = {
            {.socket = zsock_resolve(pipe), .events = ZMQ_POLLIN}};

        for (int i = 0; i < d.count; i++)
            items[i + 1] = (zmq_pollitem_t){
                .socket = zsock_resolve(d.monitors[i]), .events = ZMQ_POLLIN};
        if (zmq_poll(items, d.count + 1, -1) < 0)
            continue; /* a signal */
        for (int i = 0; i < d.count; i++)
            if (items[i + 1].revents)
                hear(&d, d.monitors[i]);
        if (items[0].revents)
            go_on = obey(&d, pipe);
    }
    for (int i = 0; i < d.count; i++)
        zsock_destroy(&d.monitors[i]);
    free(d.guests);
    free(d.known);
    close(d.hand);
    close(d.nothing);
}

/* ---- the process's side ---- */

struct strangers *strangers_open(int handshake_ms)
{
    struct strangers *s = gr_alloc(sizeof *s);

    *s = (struct strangers){.thread = zactor_new(run, &handshake_ms)};
    if (!s->thread)
        die(EXIT_UNAVAILABLE, "cannot start a thread: %s", strerror(errno));
    return s;
}

void strangers_close(struct strangers *s)
{
    if (!s)
        return;
    zactor_destroy(&s->thread);
    free(s);
}

void strangers_watch(struct strangers *s, zsock_t *socket)
{
    char *endpoint = gr_printf("inproc://strangers-%d", s->watches++);

    if (s->watches > WATCHES_MAX ||
        zmq_socket_monitor(zsock_resolve(socket), endpoint,
                           ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) != 0)
        die(EXIT_UNAVAILABLE, "cannot monitor a socket: %s",
            zmq_strerror(errno));
    zsock_send(s->thread, "sis", "WATCH", 0, endpoint);
    zsock_wait(s->thread); /* from here on nothing is missed */
    free(endpoint);
}

void strangers_unwatch(zsock_t *socket)
{
    zmq_socket_monitor(zsock_resolve(socket), NULL, 0);
}

void strangers_limit(struct strangers *s, int limit)
{
    zsock_send(s->thread, "sis", "LIMIT", limit, "");
}

void strangers_know(struct strangers *s, int number, const char *address)
{
    zsock_send(s->thread, "sis", "KNOW", number, address);
}
