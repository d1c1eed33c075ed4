/* proxied: forwards requests to one process on another host, and its replies and metrics into run_dir. */
#include "proxied.h"
#include "clock.h"
#include "collector.h"
#include "control.h"
#include "log.h"
#include "process_socket.h"
#include <czmq.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WAITING_MAX = 256, /* requests without a reply */
    /* Longer than any client waits: then its entry only takes space. */
    FORGOTTEN_MS = 15 * 60 * 1000,
    MESSAGES_AT_ONCE = 64,
    REPLIES_KEPT = 16, /* in memory of ZeroMQ: one may be large */
    FRAMES_KEPT = 1000,
    EVENT_BYTES = 6,
};

struct proxied_request {
    TAILQ_ENTRY(proxied_request) link;
    uint64_t number;
    zframe_t *client; /* ROUTER's name for it */
    int64_t since_ms;
};

/* ---- requests ---- */

static void forget(struct proxied *p, struct proxied_request *r)
{
    TAILQ_REMOVE(&p->waiting, r, link);
    p->waiting_count--;
    zframe_destroy(&r->client);
    free(r);
}

static void reply(struct proxied *p, zframe_t *client, const void *text,
                  size_t n)
{
    zmsg_t *msg = zmsg_new();

    zmsg_addmem(msg, zframe_data(client), zframe_size(client));
    zmsg_addmem(msg, "", 0);
    zmsg_addmem(msg, text, n);
    (void)zmsg_send(&msg, p->control); /* the client may have gone */
    zmsg_destroy(&msg);
}

static void fail(struct proxied *p, zframe_t *client, const char *code,
                 const char *what)
{
    char *why = gr_printf("%s %s", what, strrchr(p->route, ' ') + 1),
         *text = control_error(code, why);

    reply(p, client, text, strlen(text));
    free(text);
    free(why);
}

static void fail_all(struct proxied *p)
{
    struct proxied_request *r;

    while ((r = TAILQ_FIRST(&p->waiting))) {
        fail(p, r->client, CONTROL_LOST,
             "the connection ended before the reply; it may have handled the "
             "request:");
        forget(p, r);
    }
}

static bool send_on(struct proxied *p, zframe_t *text)
{
    zmsg_t *msg = zmsg_new();
    bool sent;

    p->last++;
    zmsg_addmem(msg, &p->last, sizeof p->last);
    zmsg_addmem(msg, "", 0);
    zmsg_addmem(msg, zframe_data(text), zframe_size(text));
    sent = zmsg_send(&msg, p->far) == 0;
    zmsg_destroy(&msg);
    return sent;
}

/* [client, empty, text]; another message is dropped. */
static void take_request(struct proxied *p, zmsg_t *msg)
{
    zframe_t *client = zmsg_unwrap(msg), *text = zmsg_first(msg);
    struct proxied_request *r;

    if (zmsg_size(msg) != 1) {
        zframe_destroy(&client);
        return;
    }
    if (p->waiting_count == WAITING_MAX) {
        fail(p, client, "busy", "too many requests wait for");
    } else if (!p->connected || !send_on(p, text)) {
        fail(p, client, CONTROL_UNREACHABLE, "no connection to");
    } else {
        r = gr_alloc(sizeof *r);
        *r = (struct proxied_request){
            .number = p->last, .client = client, .since_ms = mono_ms()};
        TAILQ_INSERT_TAIL(&p->waiting, r, link);
        p->waiting_count++;
        return;
    }
    zframe_destroy(&client);
}

static void take_reply(struct proxied *p, zframe_t *number, zframe_t *text)
{
    struct proxied_request *r;
    uint64_t n;

    if (zframe_size(number) != sizeof n)
        return;
    memcpy(&n, zframe_data(number), sizeof n);
    TAILQ_FOREACH(r, &p->waiting, link)
    if (r->number == n)
        break;
    if (!r)
        return;
    reply(p, r->client, zframe_data(text), zframe_size(text));
    forget(p, r);
}

/* ---- metrics ---- */

static void ask_for_metrics(struct proxied *p)
{
    if (p->connected && zstr_send(p->far, CONTROL_METRICS) == 0)
        p->asked_ms = mono_ms();
}

/* A process speaks for itself only: its frames must not replace those of another. */
static void take_metrics(struct proxied *p, zframe_t *frame)
{
    struct bytes bytes = {zframe_data(frame), zframe_size(frame)};

    if (collector_is_from(bytes, p->name))
        zsock_send(p->metrics, "b", bytes.p, bytes.n);
    else
        log_warn(NULL,
                 "metrics were dropped: another process than the one that "
                 "sent them is named there",
                 LS("peer", p->name));
}

/* [number, empty, text], or ["metrics", frame]. */
static void take_message(struct proxied *p, zmsg_t *msg)
{
    zframe_t *first = zmsg_first(msg);

    if (zmsg_size(msg) == 3)
        take_reply(p, first, zmsg_last(msg));
    else if (zmsg_size(msg) == 2 && zframe_streq(first, CONTROL_METRICS))
        take_metrics(p, zmsg_last(msg));
}

/* ---- the connection ---- */

/* Processes that cannot be reached do not fill the log: only a change is told. */
static void note(struct proxied *p, bool connected)
{
    if (p->connected == connected)
        return;
    p->connected = connected;
    p->since_ms = mono_ms();
    if (connected)
        log_info(NULL, "connected to a process on another host",
                 LS("peer", p->name),
                 LS("address", strrchr(p->route, ' ') + 1));
    else
        log_warn(NULL, "the connection to a process on another host ended",
                 LS("peer", p->name),
                 LS("address", strrchr(p->route, ' ') + 1));
}

/* Whether a connection is left of which the handshake may be the one that succeeded. */
static bool close_attempt(struct proxied *p, int32_t fd)
{
    bool left = false;

    for (int i = 0; i < p->attempt_count; i++)
        if (p->attempts[i].fd == fd)
            p->attempts[i--] = p->attempts[--p->attempt_count];
        else
            left |= p->attempts[i].may_be_it;
    return left;
}

/* A peer with two listed keys is tried with both (cluster_connect()). ZeroMQ does not say whose handshake succeeded: it is
 * one of the connections that are open then, and those with the other key end at once. */
static void take_event(struct proxied *p, zframe_t *frame)
{
    uint16_t event;
    int32_t fd;

    if (!frame || zframe_size(frame) != EVENT_BYTES)
        return;
    memcpy(&event, zframe_data(frame), sizeof event);
    memcpy(&fd, zframe_data(frame) + sizeof event, sizeof fd);
    if (event == ZMQ_EVENT_CONNECTED) {
        if (p->attempt_count < ATTEMPTS_MAX)
            p->attempts[p->attempt_count++] = (struct attempt){.fd = fd};
    } else if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
        for (int i = 0; i < p->attempt_count; i++)
            p->attempts[i].may_be_it = true;
        note(p, true);
        ask_for_metrics(p);
    } else if (event == ZMQ_EVENT_DISCONNECTED && !close_attempt(p, fd)) {
        note(p, false);
        fail_all(p);
    }
}

static void disconnect(struct proxied *p)
{
    zsock_destroy(&p->far); /* ends its events, too */
    zsock_destroy(&p->events);
    p->attempt_count = 0;
    p->connected = false;
    fail_all(p);
}

static void connect_to(struct proxied *p, struct cluster *cluster)
{
    /* The former socket may still have its address. */
    char *address = gr_printf("inproc://proxied.%s.%d", p->name,
                              p->connections++);

    p->far = zsock_new(ZMQ_DEALER);
    zsock_set_linger(p->far, 0);
    zsock_set_sndtimeo(p->far, 0);
    zsock_set_rcvtimeo(p->far, 0);
    zsock_set_immediate(p->far, 1); /* nothing is kept for a later connection */
    zsock_set_rcvhwm(p->far, REPLIES_KEPT);
    zsock_set_maxmsgsize(p->far, REPLY_MAX_BYTES);
    zmq_socket_monitor(zsock_resolve(p->far), address,
                       ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                           ZMQ_EVENT_DISCONNECTED);
    p->events = zsock_new(ZMQ_PAIR);
    zsock_set_rcvtimeo(p->events, 0);
    zsock_connect(p->events, "%s", address);
    p->key_number = cluster_key_number(cluster);
    if (cluster_connect(cluster, p->far, p->route) != GR_OK)
        log_warn(NULL, "the address of a process on another host is wrong",
                 LS("peer", p->name),
                 LS("address", strrchr(p->route, ' ') + 1));
    free(address);
}

/* ---- the sockets in run_dir ---- */

static bool bind_here(struct proxied *p, zsock_t *socket, const char *kind)
{
    zsock_set_sndtimeo(socket, 0);
    zsock_set_rcvtimeo(socket, 0);
    zsock_set_linger(socket, 0);
    if (zsock_bind(socket, "ipc://%s/%s.%s", p->run_dir, p->name, kind) == 0)
        return true;
    log_warn(NULL,
             "a process on another host cannot be asked: its socket in run_dir "
             "cannot be bound",
             LS("peer", p->name), LS("error", zmq_strerror(errno)));
    return false;
}

static void remove_file(const struct proxied *p, const char *kind)
{
    char *path = gr_printf("%s/%s.%s", p->run_dir, p->name, kind);

    unlink(path);
    free(path);
}

static void write_host(const struct proxied *p)
{
    char *path = gr_printf("%s/%s.host", p->run_dir, p->name);
    FILE *file = fopen(path, "we");

    if (!file || fprintf(file, "%s\n",
                         strrchr(p->route, ' ') + 1 + strlen("tcp://")) < 0)
        log_warn(NULL, "a file in run_dir cannot be written", LS("file", path),
                 LS("error", strerror(errno)));
    if (file)
        fclose(file);
    free(path);
}

struct proxied *proxied_open(const char *run_dir, const char *name,
                             struct cluster *cluster, char *route)
{
    struct proxied *p = gr_alloc(sizeof *p);

    *p = (struct proxied){
        .route = route, .run_dir = gr_strdup(run_dir), .since_ms = mono_ms()};
    snprintf(p->name, sizeof p->name, "%s", name);
    TAILQ_INIT(&p->waiting);
    p->control = zsock_new(ZMQ_ROUTER);
    zsock_set_maxmsgsize(p->control, 1024 * 1024);
    p->metrics = zsock_new(ZMQ_PUB);
    zsock_set_sndhwm(p->metrics, FRAMES_KEPT);
    if (!bind_here(p, p->control, "control") ||
        !bind_here(p, p->metrics, "metrics")) {
        proxied_close(p, true);
        return NULL;
    }
    write_host(p);
    connect_to(p, cluster);
    return p;
}

void proxied_reroute(struct proxied *p, struct cluster *cluster, char *route)
{
    disconnect(p);
    free(p->route);
    p->route = route;
    write_host(p);
    connect_to(p, cluster);
}

void proxied_close(struct proxied *p, bool removed)
{
    disconnect(p);
    zsock_destroy(&p->control);
    zsock_destroy(&p->metrics);
    remove_file(p, "control"); /* ZeroMQ leaves them */
    remove_file(p, "metrics");
    if (removed)
        remove_file(p, "host");
    free(p->run_dir);
    free(p->route);
    free(p);
}

/* ---- work ---- */

void proxied_items(const struct proxied *p,
                   zmq_pollitem_t items[PROXIED_SOCKETS])
{
    zsock_t *const sockets[PROXIED_SOCKETS] = {p->events, p->far, p->control};

    for (int i = 0; i < PROXIED_SOCKETS; i++)
        items[i] = (zmq_pollitem_t){.socket = zsock_resolve(sockets[i]),
                                    .events = ZMQ_POLLIN};
}

static void take_messages(struct proxied *p, zsock_t *socket,
                          void (*take)(struct proxied *p, zmsg_t *msg))
{
    for (int i = 0; i < MESSAGES_AT_ONCE; i++) {
        zmsg_t *msg = zmsg_recv(socket);

        if (!msg)
            return;
        take(p, msg);
        zmsg_destroy(&msg);
    }
}

static void take_events(struct proxied *p, zmsg_t *msg)
{
    take_event(p, zmsg_first(msg));
}

void proxied_work(struct proxied *p)
{
    struct proxied_request *r;

    take_messages(p, p->far, take_message); /* what came before its end */
    take_messages(p, p->events, take_events);
    take_messages(p, p->control, take_request);
    if (mono_ms() - p->asked_ms > CONTROL_METRICS_MS / 3)
        ask_for_metrics(p);
    while ((r = TAILQ_FIRST(&p->waiting)) &&
           mono_ms() - r->since_ms > FORGOTTEN_MS)
        forget(p, r);
}
