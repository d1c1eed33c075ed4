#include "mailbox.h"
#include "alloc.h"
#include "bounds.h"
#include "log.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

enum {
    PEERS_MAX = 1024,
    /* A pipe holds about one window of batches; what is in it when a peer dies
     * is lost and sent again, so more would only be more work. */
    SEND_FRAMES = 64,
    TAKE_FRAMES = 256,
};

struct peer {
    char address[INBOX_MAX_BYTES + 1];
    void *push;
    bool full; /* it had no room when it was last asked */
};

struct mailbox {
    void *zmq, *pull, *priority;
    char *run_dir, *name, *address, *priority_address;
    struct peer peers[PEERS_MAX];
    int peer_count;
};

static char *address_of(const char *run_dir, const char *name, const char *kind)
{
    char *address = gr_printf("ipc://%s/%s.%s", run_dir, name, kind);

    if (strlen(address) - strlen("ipc://") >=
        sizeof((struct sockaddr_un *)0)->sun_path)
        die(EXIT_CONFIG,
            "run_dir: %s is too long a path for a socket (%zu bytes at most, "
            "with \"/%s.%s\"): choose a shorter one",
            run_dir, sizeof((struct sockaddr_un *)0)->sun_path - 1, name, kind);
    return address;
}

static void set_int(void *socket, int option, int value)
{
    if (zmq_setsockopt(socket, option, &value, sizeof value) != 0)
        die(EXIT_UNAVAILABLE, "zmq_setsockopt %d: %s", option,
            zmq_strerror(errno));
}

static void *bind_to(struct mailbox *m, const char *address)
{
    void *pull = zmq_socket(m->zmq, ZMQ_PULL);
    int64_t frame_max = FRAME_MAX_BYTES;

    if (!pull)
        die(EXIT_UNAVAILABLE, "no socket: %s", zmq_strerror(errno));
    set_int(pull, ZMQ_LINGER, 0);
    set_int(pull, ZMQ_RCVHWM, TAKE_FRAMES);
    zmq_setsockopt(pull, ZMQ_MAXMSGSIZE, &frame_max, sizeof frame_max);
    if (zmq_bind(pull, address) != 0)
        die(EXIT_UNAVAILABLE, "can't bind %s: %s", address,
            zmq_strerror(errno));
    return pull;
}

struct mailbox *mailbox_open(void *zmq, const char *run_dir, const char *name)
{
    struct mailbox *m = gr_alloc(sizeof *m);

    m->zmq = zmq;
    m->run_dir = gr_strdup(run_dir);
    m->name = gr_strdup(name);
    m->address = address_of(run_dir, name, "inbox");
    m->pull = bind_to(m, m->address);
    return m;
}

void mailbox_open_priority(struct mailbox *m)
{
    m->priority_address = address_of(m->run_dir, m->name, "priority");
    m->priority = bind_to(m, m->priority_address);
}

void mailbox_close(struct mailbox *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->peer_count; i++)
        zmq_close(m->peers[i].push);
    zmq_close(m->pull);
    if (m->priority)
        zmq_close(m->priority);
    free(m->run_dir);
    free(m->name);
    free(m->address);
    free(m->priority_address);
    free(m);
}

const char *mailbox_name(const struct mailbox *m)
{
    return m->name;
}

const char *mailbox_address(const struct mailbox *m)
{
    return m->address;
}

void *mailbox_socket(struct mailbox *m)
{
    return m->pull;
}

const char *mailbox_priority_address(const struct mailbox *m)
{
    return m->priority ? m->priority_address : m->address;
}

void *mailbox_priority_socket(struct mailbox *m)
{
    return m->priority;
}

void mailbox_address_of(const struct mailbox *m, const char *peer, char *out)
{
    char *address = address_of(m->run_dir, peer, "inbox");

    /* bounded by sun_path, well below INBOX_MAX_BYTES */
    memcpy(out, address, strlen(address) + 1);
    free(address);
}

/* A frame says where its sender is answered; we only ever connect to sockets
 * in our own run_dir, whoever asks. */
bool mailbox_reaches(const struct mailbox *m, struct bytes address)
{
    size_t scheme = strlen("ipc://"), dir = strlen(m->run_dir);
    const char *p = address.p;

    return address.n <= INBOX_MAX_BYTES && address.n > scheme + dir + 1 &&
           memcmp(p, "ipc://", scheme) == 0 &&
           memcmp(p + scheme, m->run_dir, dir) == 0 && p[scheme + dir] == '/' &&
           !memchr(p + scheme + dir + 1, '/', address.n - scheme - dir - 1) &&
           !memchr(p, 0, address.n);
}

static struct peer *connect_to(struct mailbox *m, const char *address)
{
    struct peer *p = &m->peers[m->peer_count];

    p->full = false;
    if (m->peer_count == PEERS_MAX ||
        !mailbox_reaches(m, (struct bytes){address, strlen(address)}))
        return NULL;
    p->push = zmq_socket(m->zmq, ZMQ_PUSH);
    if (!p->push)
        return NULL;
    set_int(p->push, ZMQ_LINGER, 0);
    set_int(p->push, ZMQ_SNDHWM, SEND_FRAMES);
    set_int(p->push, ZMQ_RECONNECT_IVL, 20);
    set_int(p->push, ZMQ_RECONNECT_IVL_MAX, 500);
    if (zmq_connect(p->push, address) != 0) {
        zmq_close(p->push);
        return NULL;
    }
    memcpy(p->address, address, strlen(address) + 1);
    m->peer_count++;
    return p;
}

static struct peer *find(struct mailbox *m, const char *address)
{
    for (int i = 0; i < m->peer_count; i++)
        if (strcmp(m->peers[i].address, address) == 0)
            return &m->peers[i];
    return connect_to(m, address);
}

static bool has_room(const struct peer *p)
{
    int events = 0;
    size_t n = sizeof events;

    return zmq_getsockopt(p->push, ZMQ_EVENTS, &events, &n) == 0 &&
           (events & ZMQ_POLLOUT);
}

bool mailbox_room(struct mailbox *m, const char *address)
{
    struct peer *p = find(m, address);

    if (!p)
        return false;
    p->full = !has_room(p);
    return !p->full;
}

int mailbox_full(struct mailbox *m, zmq_pollitem_t *items, int most)
{
    int n = 0;

    for (int i = 0; i < m->peer_count; i++) {
        struct peer *p = &m->peers[i];

        if (!p->full)
            continue;
        if (n < most)
            items[n] = (zmq_pollitem_t){.socket = p->push,
                                        .events = ZMQ_POLLOUT};
        n++;
        p->full = !has_room(p);
    }
    return n;
}

gr_rc mailbox_send(struct mailbox *m, const char *address, struct bytes frame)
{
    struct peer *p = find(m, address);

    if (!p)
        return GR_REFUSE;
    p->full = zmq_send(p->push, frame.p, frame.n, ZMQ_DONTWAIT) < 0;
    return p->full ? GR_AGAIN : GR_OK;
}

static gr_rc take_from(void *pull, zmq_msg_t *msg)
{
    zmq_msg_init(msg);
    if (zmq_msg_recv(msg, pull, ZMQ_DONTWAIT) >= 0)
        return GR_OK;
    zmq_msg_close(msg);
    return GR_AGAIN;
}

gr_rc mailbox_take(struct mailbox *m, zmq_msg_t *msg)
{
    return take_from(m->pull, msg);
}

gr_rc mailbox_take_priority(struct mailbox *m, zmq_msg_t *msg)
{
    return m->priority ? take_from(m->priority, msg) : GR_AGAIN;
}
