/* mailbox: binds inboxes, connects to the inboxes of peers, sends and receives frames. */
#include "mailbox.h"
#include "alloc.h"
#include "bounds.h"
#include "clock.h"
#include "grant.h"
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
    /* Of a peer on another host: */
    char *route;     /* cluster.h; NULL: on this one */
    int64_t full_ms; /* mono: without space since then; 0: it has some */
};

/* One of our inboxes, for two kinds of peers. */
struct inbox {
    zsock_t *local;
    zsock_t *remote; /* NULL: there are no other hosts */
    char *remote_address;
    bool remote_next; /* they are read in turn */
};

struct mailbox {
    struct inbox inbox, priority; /* the second one may not be open */
    struct cluster *cluster;      /* NULL: there are no other hosts */
    int key_number;               /* cluster_key_number() at the last bind */
    char *run_dir, *name;
    struct peer peers[PEERS_MAX];
    int peer_count;
};

static zsock_t *new_pull(void)
{
    zsock_t *inbox = zsock_new(ZMQ_PULL);

    zsock_set_rcvtimeo(inbox, 0);
    zsock_set_rcvhwm(inbox, TAKE_FRAMES);
    zsock_set_maxmsgsize(inbox, FRAME_MAX_BYTES);
    return inbox;
}

static zsock_t *open_inbox(const struct mailbox *m, const char *kind)
{
    zsock_t *inbox = new_pull();

    ipc_bind(inbox, m->run_dir, m->name, kind);
    return inbox;
}

static void join(struct mailbox *m, struct inbox *i, const char *kind)
{
    i->remote = new_pull();
    cluster_bind(m->cluster, i->remote, kind);
    i->remote_address = cluster_own_address(m->cluster, kind);
}

static void close_inbox(struct inbox *i)
{
    zsock_destroy(&i->local);
    cluster_unbind(&i->remote);
    free(i->remote_address);
}

struct mailbox *mailbox_open(const char *run_dir, const char *name)
{
    struct mailbox *m = gr_alloc(sizeof *m);

    m->run_dir = gr_strdup(run_dir);
    m->name = gr_strdup(name);
    m->inbox.local = open_inbox(m, "inbox");
    return m;
}

void mailbox_open_priority(struct mailbox *m)
{
    m->priority.local = open_inbox(m, "priority");
}

void mailbox_join(struct mailbox *m, struct cluster *cluster)
{
    if (!cluster)
        return;
    m->cluster = cluster;
    m->key_number = cluster_key_number(cluster);
    join(m, &m->inbox, "inbox");
    if (m->priority.local)
        join(m, &m->priority, "priority");
}

void mailbox_close(struct mailbox *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->peer_count; i++) {
        zsock_destroy(&m->peers[i].push);
        free(m->peers[i].route);
    }
    close_inbox(&m->inbox);
    close_inbox(&m->priority);
    free(m->run_dir);
    free(m->name);
    free(m);
}

const char *mailbox_name(const struct mailbox *m)
{
    return m->name;
}

static bool is_remote(const char *address)
{
    return strncmp(address, PEER_SCHEME, strlen(PEER_SCHEME)) == 0;
}

static const char *address_to(const struct inbox *i, const char *to)
{
    return i->remote && is_remote(to) ? i->remote_address
                                      : zsock_endpoint(i->local);
}

const char *mailbox_address(const struct mailbox *m, const char *to)
{
    return address_to(&m->inbox, to);
}

const char *mailbox_priority_address(const struct mailbox *m, const char *to)
{
    return address_to(m->priority.local ? &m->priority : &m->inbox, to);
}

zsock_t *mailbox_socket(struct mailbox *m)
{
    return m->inbox.local;
}

int mailbox_sockets(const struct mailbox *m, zsock_t *out[MAILBOX_SOCKETS])
{
    zsock_t *const all[MAILBOX_SOCKETS] = {m->inbox.local, m->priority.local,
                                           m->inbox.remote, m->priority.remote};
    int n = 0;

    for (int i = 0; i < MAILBOX_SOCKETS; i++)
        if (all[i])
            out[n++] = all[i];
    return n;
}

bool mailbox_is_priority(const struct mailbox *m, const zsock_t *socket)
{
    return socket == m->priority.local || socket == m->priority.remote;
}

void mailbox_address_of(const struct mailbox *m, const char *peer, char *out)
{
    char *address = cluster_address(m->cluster, peer, "inbox");

    if (!address)
        address = ipc_address(m->run_dir, peer, "inbox");
    /* at most sun_path or the longest name, both below INBOX_MAX_BYTES */
    memcpy(out, address, strlen(address) + 1);
    free(address);
}

/* A frame names its sender's inbox; we connect only to sockets in our own run_dir and to peers
 * that the configuration names, whatever a frame names. */
bool mailbox_reaches(const struct mailbox *m, struct bytes address)
{
    size_t scheme = strlen("ipc://"), dir = strlen(m->run_dir);
    const char *p = address.p;

    if (m->cluster && cluster_reaches(m->cluster, address))
        return true;
    return address.n <= INBOX_MAX_BYTES && address.n > scheme + dir + 1 &&
           memcmp(p, "ipc://", scheme) == 0 &&
           memcmp(p + scheme, m->run_dir, dir) == 0 && p[scheme + dir] == '/' &&
           !memchr(p + scheme + dir + 1, '/', address.n - scheme - dir - 1) &&
           !memchr(p, 0, address.n);
}

static gr_rc connect_push(struct mailbox *m, struct peer *p)
{
    gr_rc rc = GR_REFUSE;

    p->full = false;
    p->full_ms = 0;
    p->push = zsock_new(ZMQ_PUSH);
    zsock_set_sndtimeo(p->push, 0);
    zsock_set_sndhwm(p->push, SEND_FRAMES);
    if (is_remote(p->address)) {
        p->route = cluster_route(m->cluster, p->address);
        if (p->route)
            rc = cluster_connect(m->cluster, p->push, p->route);
    } else {
        zsock_set_reconnect_ivl(p->push, 20);
        zsock_set_reconnect_ivl_max(p->push, 500);
        if (zsock_connect(p->push, "%s", p->address) == 0)
            rc = GR_OK;
    }
    if (rc != GR_OK)
        zsock_destroy(&p->push);
    return rc;
}

static void disconnect(struct peer *p)
{
    zsock_destroy(&p->push);
    free(p->route);
    p->route = NULL;
    p->full = false;
}

static struct peer *connect_to(struct mailbox *m, const char *address)
{
    struct peer *p = &m->peers[m->peer_count];

    if (m->peer_count == PEERS_MAX ||
        !mailbox_reaches(m, (struct bytes){address, strlen(address)}))
        return NULL;
    memcpy(p->address, address, strlen(address) + 1);
    if (connect_push(m, p) != GR_OK) {
        disconnect(p);
        return NULL;
    }
    m->peer_count++;
    return p;
}

/* libzmq gives a connection up for good after a protocol error, which anybody between the hosts can
 * cause; then the socket has no space any more. What it holds is sent again by the durable
 * link. */
static struct peer *connect_again(struct mailbox *m, struct peer *p)
{
    if (p->push && (!p->full_ms || mono_ms() - p->full_ms < grant_lease_ms()))
        return p;
    disconnect(p);
    return connect_push(m, p) == GR_OK ? p : NULL;
}

static struct peer *find(struct mailbox *m, const char *address)
{
    for (int i = 0; i < m->peer_count; i++)
        if (strcmp(m->peers[i].address, address) == 0)
            return is_remote(address) ? connect_again(m, &m->peers[i])
                                      : &m->peers[i];
    return connect_to(m, address);
}

int mailbox_bind_again(struct mailbox *m)
{
    int inbox = ipc_bind_again(m->inbox.local, m->run_dir, m->name, "inbox");
    int priority = m->priority.local
                       ? ipc_bind_again(m->priority.local, m->run_dir, m->name,
                                        "priority")
                       : 0;

    return inbox < 0 || priority < 0 ? -1 : inbox + priority;
}

static void bind_again(struct mailbox *m)
{
    if (!m->cluster || m->key_number == cluster_key_number(m->cluster))
        return;
    m->key_number = cluster_key_number(m->cluster);
    cluster_bind_again(m->cluster, m->inbox.remote, "inbox");
    if (m->priority.remote)
        cluster_bind_again(m->cluster, m->priority.remote, "priority");
}

void mailbox_rejoin(struct mailbox *m)
{
    bind_again(m);
    for (int i = 0; i < m->peer_count; i++) {
        struct peer *p = &m->peers[i];
        char *route = p->route ? cluster_route(m->cluster, p->address) : NULL;

        if (p->route && (!route || strcmp(route, p->route) != 0))
            disconnect(p);
        free(route);
    }
}

static void note_space(struct peer *p, bool full)
{
    p->full = full;
    if (!p->route)
        return;
    if (!full)
        p->full_ms = 0;
    else if (!p->full_ms)
        p->full_ms = mono_ms();
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
    note_space(p, !has_capacity(p));
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
        note_space(p, !has_capacity(p));
    }
    return n;
}

gr_rc mailbox_send(struct mailbox *m, const char *address, struct bytes frame)
{
    struct peer *p = find(m, address);

    if (!p)
        return GR_REFUSE;
    note_space(p, zsock_send(p->push, "b", frame.p, frame.n) != 0);
    return p->full ? GR_AGAIN : GR_OK;
}

/* The next frame that is what it claims to be. */
static zframe_t *take_remote(struct mailbox *m, struct inbox *i)
{
    zframe_t *frame;

    while ((frame = zframe_recv(i->remote))) {
        if (cluster_admits(
                m->cluster, zframe_meta(frame, "User-Id"),
                (struct bytes){zframe_data(frame), zframe_size(frame)}))
            return frame;
        zframe_destroy(&frame);
    }
    return NULL;
}

static zframe_t *take(struct mailbox *m, struct inbox *i)
{
    zframe_t *frame = NULL;

    if (!i->remote)
        return zframe_recv(i->local);
    i->remote_next = !i->remote_next;
    if (i->remote_next)
        frame = take_remote(m, i);
    if (!frame)
        frame = zframe_recv(i->local);
    return frame || i->remote_next ? frame : take_remote(m, i);
}

zframe_t *mailbox_take(struct mailbox *m)
{
    return take(m, &m->inbox);
}

zframe_t *mailbox_take_priority(struct mailbox *m)
{
    return m->priority.local ? take(m, &m->priority) : NULL;
}
