/* cluster: the processes on other hosts: who they are, and sockets to and from them (tcp with CURVE).
 *
 * A process that `cluster.peers` names has a second socket for each inbox, bound at its own
 * address there. Peers whose address has the same host are reached by ipc, as all are without
 * `cluster`. docs/decisions/0125-several-hosts.md says why it is so.
 *
 * Frames to another host name inboxes as "peer://NAME.KIND"; each host looks the address up in its own
 * configuration. A name belongs to the keys that the configuration in force gives it. */
#ifndef PROTO_CLUSTER_H
#define PROTO_CLUSTER_H

#include "alloc.h"
#include "ipc.h"
#include "rc.h"
#include "settings.h"

#define PEER_SCHEME "peer://"

struct cluster;

/* A name may have several instances, each on a host of its own, of which one is active (docs/decisions/0125). The others
 * bind nothing, so a connection to the name is one to each instance, and frames go where a connection is open. A frame
 * names its sender's inbox as "peer://NAME@HOST.KIND", and that leads to this instance alone. */

/* NULL: `peers` does not have this name, so it speaks only to processes of its host. Exits 78 when its key cannot be
 * used. */
struct cluster *cluster_open(const struct settings *s, const char *name);
/* After all sockets that it has served or connected are closed. */
void cluster_close(struct cluster *c);
/* The peers of this configuration are in force from now on, and our key is read again; our own address stays. After
 * it: mailbox_rejoin(). */
void cluster_reload(struct cluster *c, const struct settings *s);
/* Of our key; it rises when a reload finds another one. */
int cluster_key_number(const struct cluster *c);

/* For the loop: connections that ask to be admitted, answered by cluster_work(). */
zsock_t *cluster_socket(struct cluster *c);
void cluster_work(struct cluster *c);

/* Bind at our address, for "inbox", "priority" or "control". Exits 69 when that fails. */
void cluster_bind(struct cluster *c, zsock_t *socket, const char *kind);
/* The same socket, with our present key. All its connections end, and its peers make new ones. */
void cluster_bind_again(struct cluster *c, zsock_t *socket, const char *kind);
/* Close a socket that was bound so, before cluster_close(). */
void cluster_unbind(zsock_t **socket);
/* "peer://NAME.KIND"; NULL: the peer is not on another host, not even an instance of it. The caller frees it. */
char *cluster_address(const struct cluster *c, const char *name,
                      const char *kind);
/* Our own: "peer://NAME.KIND", or "peer://NAME@HOST.KIND" of an instance. The caller frees it. */
char *cluster_own_address(const struct cluster *c, const char *kind);
/* Whether it is such an address, of a peer on another host or of an instance. */
bool cluster_reaches(const struct cluster *c, struct bytes address);
/* Where such an address leads now, and the keys of both ends, as one text; the caller frees it. NULL: nowhere. */
char *cluster_route(const struct cluster *c, const char *address);
/* Connect along a route. The socket receives at most its maxmsgsize, or, if that is not set, what ZeroMQ itself
 * needs. */
GR_MUST_CHECK gr_rc cluster_connect(struct cluster *c, zsock_t *socket,
                                    const char *route);
/* Whether a frame from a connection with this key (NULL: unknown) is what it claims to be. */
bool cluster_admits(struct cluster *c, const char *key, struct bytes frame);
/* Whether a connection with this key (NULL: unknown) may send control requests: only a console may. */
bool cluster_may_ask(struct cluster *c, const char *key);

/* The names of the processes that are, or may be, on other hosts, which a console asks; *at begins at 0. NULL: there is no
 * further one. */
const char *cluster_asked(const struct cluster *c, size_t *at);

/* Where such a process is, or each host where it may be. */
struct cluster_place {
    const char *host; /* of an instance, or ""; borrowed until a reload */
    bool here;        /* on our host */
    char *
        route; /* for cluster_connect(), to its control socket; the caller frees it */
};
/* The next place of this name; *at begins at 0. false: there is no further one. */
bool cluster_place(const struct cluster *c, const char *name, size_t *at,
                   struct cluster_place *out);

#endif
