/* mailbox: binds inboxes, connects to the inboxes of peers, sends and receives frames. */
#include "mailbox.h"
#include "alloc.h"
#include "bounds.h"
#include <czmq.h>

enum {
    PEERS_MAX =
        1000, /* CZMQ ends a process that opens more than 1024 sockets */
    /* A pipe holds about one window of batches. Its frames are lost when a peer dies
     * and are sent again, so a larger pipe would only cost more work. */
    SEND_FRAMES = 64,
    TAKE_FRAMES = 256,
};

struct peer {
    char address[INBOX_MAX_BYTES + 1];
    zsock_t *push;
    bool full; /* it had no space at the last check */
};

struct mailbox {
    zsock_t *inbox, *priority; /* the second one may be NULL */
    char *run_dir, *name;
    struct peer peers[PEERS_MAX];
    int peer_count;
};

static zsock_t *open_inbox(const struct mailbox *m, const char *kind)
{
    zsock_t *inbox = zsock_new(ZMQ_PULL);

    zsock_set_rcvtimeo(inbox, 0);
    zsock_set_rcvhwm(inbox, TAKE_FRAMES);
    zsock_set_maxmsgsize(inbox, FRAME_MAX_BYTES);
    ipc_bind(inbox, m->run_dir, m->name, kind);
    return inbox;
}

struct mailbox *mailbox_open(const char *run_dir, const char *name)
{
    struct mailbox *m = gr_alloc(sizeof *m);

    m->run_dir = gr_strdup(run_dir);
    m->name = gr_strdup(name);
    m->inbox = open_inbox(m, "inbox");
    return m;
}

void mailbox_open_priority(struct mailbox *m)
{
    m->priority = open_inbox(m, "priority");
}

void mailbox_close(struct mailbox *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->peer_count; i++)
        zsock_destroy(&m->peers[i].push);
    zsock_destroy(&m->inbox);
    zsock_destroy(&m->priority);
    free(m->run_dir);
    free(m->name);
    free(m);
}

const char *mailbox_name(const struct mailbox *m)
{
    return m->name;
}

const char *mailbox_address(const struct mailbox *m)
{
    return zsock_endpoint(m->inbox);
}

zsock_t *mailbox_socket(struct mailbox *m)
{
    return m->inbox;
}

const char *mailbox_priority_address(const struct mailbox *m)
{
    return zsock_endpoint(m->priority ? m->priority : m->inbox);
}

zsock_t *mailbox_priority_socket(struct mailbox *m)
{
    return m->priority;
}

void mailbox_address_of(const struct mailbox *m, const char *peer, char *out)
{
    char *address = ipc_address(m->run_dir, peer, "inbox");

    /* at most sun_path, which is below INBOX_MAX_BYTES */
    memcpy(out, address, strlen(address) + 1);
    free(address);
}

/* A frame names its sender's inbox; we connect only to sockets in our own run_dir,
 * whatever a frame names. */
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
    p->push = zsock_new(ZMQ_PUSH);
    zsock_set_sndtimeo(p->push, 0);
    zsock_set_sndhwm(p->push, SEND_FRAMES);
    zsock_set_reconnect_ivl(p->push, 20);
    zsock_set_reconnect_ivl_max(p->push, 500);
    if (zsock_connect(p->push, "%s", address) != 0) {
        zsock_destroy(&p->push);
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

static bool has_capacity(const struct peer *p)
{
    return zsock_events(p->push) & ZMQ_POLLOUT;
}

bool mailbox_has_space(struct mailbox *m, const char *address)
{
    struct peer *p = find(m, address);

    if (!p)
        return false;
    p->full = !has_capacity(p);
    return !p->full;
}

int mailbox_full(struct mailbox *m, zmq_pollitem_t *items, int max)
{
    int n = 0;

    for (int i = 0; i < m->peer_count; i++) {
        struct peer *p = &m->peers[i];

        if (!p->full)
            continue;
        if (n < max)
            items[n] = (zmq_pollitem_t){.socket = zsock_resolve(p->push),
                                        .events = ZMQ_POLLOUT};
        n++;
        p->full = !has_capacity(p);
    }
    return n;
}

gr_rc mailbox_send(struct mailbox *m, const char *address, struct bytes frame)
{
    struct peer *p = find(m, address);

    if (!p)
        return GR_REFUSE;
    p->full = zsock_send(p->push, "b", frame.p, frame.n) != 0;
    return p->full ? GR_AGAIN : GR_OK;
}

zframe_t *mailbox_take(struct mailbox *m)
{
    return zframe_recv(m->inbox);
}

zframe_t *mailbox_take_priority(struct mailbox *m)
{
    return m->priority ? zframe_recv(m->priority) : NULL;
}
