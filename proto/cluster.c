/* cluster: keys and addresses of the processes on other hosts, the handler that admits their connections, and the
 * options of the sockets between hosts. */
#include "cluster.h"
#include "bounds.h"
#include "clock.h"
#include "cluster_key.h"
#include "config.h"
#include "grant.h"
#include "log.h"
#include "strangers.h"
#include "wire.h"
#include <czmq.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    KEYS_MAX = 2,
    ROUTE_MAX_BYTES = 16 * 1024,
    HANDSHAKE_MS = 3000, /* a stranger's connection lasts no longer */
    RECONNECT_MS = 100,  /* the first wait, doubled up to … */
    RECONNECT_MAX_MS = 2000,
    RECONNECT_TWO_MS = 500, /* to a peer with two keys, which may change it */
    STRANGERS_AT_ONCE = 64, /* handshakes answered in a turn */
    REBIND_MS = 2000,       /* libzmq closes a listener in another thread */
    REFUSED_LOG_MS = 10000,
    /* Connections that have not proved a key, beside four of each peer. */
    STRANGERS_MAX = 256,
    STRANGERS_OF_PEER = 4,
    ADDRESS_MAX_BYTES = 64,
    COMMAND_MAX_BYTES = 1024, /* what a socket that only sends may receive */
};

#define ZAP_DOMAIN "grapnel"

struct remote {
    char name[NAME_MAX_BYTES + 1];
    char host[NAME_MAX_BYTES + 1]; /* of an instance; else "" */
    char *address;
    char keys[KEYS_MAX][KEY_TEXT_BYTES + 1]; /* "" at the end */
    char seen[ADDRESS_MAX_BYTES]; /* it connected from there; "" or numeric */
    bool here;                    /* on our host */
};

struct cluster {
    char name[NAME_MAX_BYTES + 1];
    char *run_dir;
    char *address;                 /* ours */
    char host[NAME_MAX_BYTES + 1]; /* if we are an instance; else "" */
    zcert_t *own;
    int key_number; /* of `own`; a later key has a higher one */
    zsock_t *zap;
    struct strangers *strangers;
    zcertstore_t *allowed; /* the name of each is its meta "name" */
    struct remote *peers;
    size_t count;
    int64_t refused, logged, logged_ms;
};

/* ---- the configuration ---- */

static size_t host_bytes(const char *address)
{
    return (size_t)(strrchr(address, ':') - address);
}

static bool same_host(const char *a, const char *b)
{
    return host_bytes(a) == host_bytes(b) && strncmp(a, b, host_bytes(a)) == 0;
}

static void forget_peers(struct cluster *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->peers[i].address);
    free(c->peers);
    zcertstore_destroy(&c->allowed);
    c->peers = NULL;
    c->count = 0;
}

static void allow(struct cluster *c, const struct remote *r, const char *key)
{
    uint8_t public[KEY_BYTES], secret[KEY_BYTES] = {0};
    zcert_t *cert;

    if (!zmq_z85_decode(public, key))
        return;
    cert = zcert_new_from(public, secret);
    zcert_set_meta(cert, "name", "%s", r->name);
    zcert_set_meta(cert, "host", "%s", r->host);
    zcertstore_insert(c->allowed, &cert);
}

static void add_peer(struct cluster *c, const struct cluster_peer *from)
{
    struct remote *r = &c->peers[c->count++];

    *r = (struct remote){.address = gr_strdup(from->address),
                         .here = same_host(from->address, c->address)};
    wire_copy(r->name, sizeof r->name, wire_text(from->name));
    if (from->host)
        wire_copy(r->host, sizeof r->host, wire_text(from->host));
    for (size_t k = 0; k < from->keys.count && k < KEYS_MAX; k++) {
        key_from_digits(from->keys.items[k], r->keys[k]);
        if (!r->here)
            allow(c, r, r->keys[k]);
    }
}

/* The host of each peer, if it is a numeric address. */
static void know_peers(struct cluster *c)
{
    strangers_limit(c->strangers,
                    STRANGERS_MAX + STRANGERS_OF_PEER * (int)c->count);
    for (size_t i = 0; i < c->count; i++) {
        const char *address = c->peers[i].address;
        int bracket = *address == '[', n = (int)host_bytes(address);
        char *host = gr_printf("%.*s", n - 2 * bracket, address + bracket);

        strangers_know(c->strangers, 2 * (int)i, host);
        free(host);
    }
}

/* A peer may come from another address than that at which it is reached. */
static void note_address(struct cluster *c, zcert_t *cert, const char *address)
{
    static const char mapped[] = "::ffff:"; /* IPv4 at a socket for both */

    if (strncmp(address, mapped, strlen(mapped)) == 0)
        address += strlen(mapped);
    for (size_t i = 0; i < c->count; i++) {
        struct remote *r = &c->peers[i];

        if (strcmp(r->name, zcert_meta(cert, "name")) != 0 ||
            strcmp(r->host, zcert_meta(cert, "host")) != 0 ||
            strcmp(r->seen, address) == 0)
            continue;
        wire_copy(r->seen, sizeof r->seen, wire_text(address));
        strangers_know(c->strangers, 2 * (int)i + 1, r->seen);
    }
}

static void take_peers(struct cluster *c, const struct settings *s)
{
    forget_peers(c);
    c->allowed = zcertstore_new(NULL);
    c->peers = gr_alloc(s->cluster.peer_count * sizeof *c->peers);
    for (size_t i = 0; i < s->cluster.peer_count; i++)
        if (strcmp(s->cluster.peers[i].name, c->name) != 0)
            add_peer(c, &s->cluster.peers[i]);
    know_peers(c);
}

static bool is_this_host(const struct settings *s, const char *host)
{
    char name[HOST_NAME_SIZE];

    settings_host(s, name);
    return s->cluster.host ? strcmp(name, host) == 0
                           : *name && strcasecmp(name, host) == 0;
}

/* *others: `peers` has this name, but on other hosts. */
static const struct cluster_peer *find_own(const struct settings *s,
                                           const char *name, bool *others)
{
    *others = false;
    for (size_t i = 0; i < s->cluster.peer_count; i++) {
        const struct cluster_peer *p = &s->cluster.peers[i];

        if (strcmp(p->name, name) != 0)
            continue;
        if (!p->host || is_this_host(s, p->host))
            return p;
        *others = true;
    }
    return NULL;
}

/* ---- open, reload, close ---- */

struct cluster *cluster_open(const struct settings *s, const char *name)
{
    bool others;
    const struct cluster_peer *own = find_own(s, name, &others);
    struct cluster *c;
    char *why = NULL;

    if (others && !own)
        die(EXIT_CONFIG,
            "cluster.peers: each %s has a `host`, and none is on this one: add "
            "one, or name this host as in `peers` (`cluster.host`)",
            name);
    if (!own)
        return NULL;
    if (!zsys_has_curve())
        die(EXIT_UNAVAILABLE,
            "this libzmq has no CURVE, which `cluster` needs: install one that "
            "is built with libsodium");
    c = gr_alloc(sizeof *c);
    *c = (struct cluster){.address = gr_strdup(own->address),
                          .run_dir = gr_strdup(s->run_dir)};
    wire_copy(c->name, sizeof c->name, wire_text(name));
    if (own->host)
        wire_copy(c->host, sizeof c->host, wire_text(own->host));
    c->own = key_load(s->cluster.keys, own, &why);
    if (!c->own)
        die(EXIT_CONFIG, "%s", why);
    c->strangers = strangers_open(HANDSHAKE_MS);
    take_peers(c, s);
    c->zap = zsock_new(ZMQ_REP);
    zsock_set_rcvtimeo(c->zap, 0);
    zsock_set_sndtimeo(c->zap, 0);
    if (zsock_bind(c->zap, "inproc://zeromq.zap.01") < 0)
        die(EXIT_UNAVAILABLE, "cannot bind inproc://zeromq.zap.01: %s",
            zmq_strerror(errno));
    return c;
}

void cluster_close(struct cluster *c)
{
    if (!c)
        return;
    forget_peers(c);
    strangers_close(c->strangers);
    zsock_destroy(&c->zap);
    zcert_destroy(&c->own);
    free(c->address);
    free(c->run_dir);
    free(c);
}

/* The key in the folder of keys may be another one than at the start. */
static void take_own_key(struct cluster *c, const struct settings *s,
                         const struct cluster_peer *own)
{
    char *why = NULL;
    zcert_t *fresh = key_load(s->cluster.keys, own, &why);

    if (!fresh) {
        log_warn(NULL,
                 "the process keeps its key, because that in cluster.keys "
                 "cannot be used",
                 LS("error", why));
        free(why);
        return;
    }
    if (!zcert_eq(fresh, c->own)) {
        zcert_destroy(&c->own);
        c->own = fresh;
        c->key_number++;
        log_info(NULL, "this process has a new key");
        return;
    }
    zcert_destroy(&fresh);
}

void cluster_reload(struct cluster *c, const struct settings *s)
{
    const struct cluster_peer *own;
    bool others;

    if (!c)
        return;
    own = find_own(s, c->name, &others);
    if (!own || strcmp(own->address, c->address) != 0)
        log_warn(NULL,
                 "cluster.peers has another address for this process; it keeps "
                 "that of its start until it is restarted");
    if (own)
        take_own_key(c, s, own);
    take_peers(c, s);
}

int cluster_key_number(const struct cluster *c)
{
    return c->key_number;
}

zsock_t *cluster_socket(struct cluster *c)
{
    return c->zap;
}

/* ---- who may connect (RFC 27, ZAP) ---- */

/* A stranger can come as often as it likes. */
static void note_refused(struct cluster *c, const char *what,
                         const char *detail)
{
    int64_t now = mono_ms();

    c->refused++;
    if (c->logged_ms && now - c->logged_ms < REFUSED_LOG_MS)
        return;
    log_warn(NULL, what, LS("from", detail),
             LI("more", c->refused - c->logged - 1));
    c->logged = c->refused;
    c->logged_ms = now;
}

static zcert_t *certificate_of(const struct cluster *c, const char *key)
{
    return key ? zcertstore_lookup(c->allowed, key) : NULL;
}

static const char *name_of(const struct cluster *c, const char *key)
{
    zcert_t *cert = certificate_of(c, key);

    return cert ? zcert_meta(cert, "name") : NULL;
}

/* The key in Z85 of a request: version, id, domain, address, identity, mechanism, key. */
static bool read_key(zmsg_t *request, char key[KEY_TEXT_BYTES + 1], char **id,
                     char **address)
{
    zframe_t *version = zmsg_first(request), *frame;
    bool curve;

    *id = *address = NULL;
    if (zmsg_size(request) != 7 || !zframe_streq(version, "1.0"))
        return false;
    *id = zframe_strdup(zmsg_next(request));
    (void)zmsg_next(request);
    *address = zframe_strdup(zmsg_next(request));
    (void)zmsg_next(request);
    curve = zframe_streq(zmsg_next(request), "CURVE");
    frame = zmsg_next(request);
    if (!curve || zframe_size(frame) != KEY_BYTES)
        return false;
    zmq_z85_encode(key, zframe_data(frame), KEY_BYTES);
    return true;
}

/* 300 disconnects without an answer, and the other end tries again later; after 400 libzmq
 * (4.3.4) would never try again, also when its key is listed meanwhile. */
static void respond(struct cluster *c, zmsg_t *request)
{
    char key[KEY_TEXT_BYTES + 1], *id, *address;
    zcert_t *cert = read_key(request, key, &id, &address)
                        ? certificate_of(c, key)
                        : NULL;
    bool good = cert != NULL;

    if (good)
        note_address(c, cert, address);
    else
        note_refused(c,
                     "a connection was refused: its key is not in "
                     "cluster.peers",
                     address ? address : "");
    zstr_sendx(c->zap, "1.0", id ? id : "", good ? "200" : "300", "",
               good ? key : "", "", NULL);
    zstr_free(&id);
    zstr_free(&address);
}

void cluster_work(struct cluster *c)
{
    zmsg_t *request;

    for (int i = 0; c && i < STRANGERS_AT_ONCE; i++) {
        request = zmsg_recv(c->zap);
        if (!request)
            return;
        respond(c, request);
        zmsg_destroy(&request);
    }
}

/* ---- sockets ---- */

static void set_options(struct cluster *c, zsock_t *socket)
{
    int sixth = (int)(grant_lease_ms() / 6);

    zcert_apply(c->own, socket);
    zsock_set_ipv6(socket, 1);
    zsock_set_handshake_ivl(socket, HANDSHAKE_MS);
    zsock_set_heartbeat_ivl(socket, sixth);
    zsock_set_heartbeat_timeout(socket, sixth);
}

/* Each has its own port, from that of the address on. */
static const char *const socket_kinds[] = {"inbox", "priority", "control"};

static char *endpoint_of(const char *address, bool bind, const char *kind)
{
    size_t n = host_bytes(address);
    long port = strtol(address + n + 1, NULL, 10);
    bool number = *address == '[' || strspn(address, "0123456789.") == n;

    for (long i = 0; i < (long)COUNT_OF(socket_kinds); i++)
        if (strcmp(kind, socket_kinds[i]) == 0)
            port += i;
    return bind && !number ? gr_printf("tcp://*:%ld", port)
                           : gr_printf("tcp://%.*s:%ld", (int)n, address, port);
}

static void bind_to(struct cluster *c, zsock_t *socket, const char *kind,
                    int64_t wait_ms)
{
    char *endpoint = endpoint_of(c->address, true, kind);
    int64_t begun = mono_ms();

    set_options(c, socket);
    zsock_set_zap_domain(socket, ZAP_DOMAIN);
    zsock_set_curve_server(socket, 1);
    while (zsock_bind(socket, "%s", endpoint) < 0) {
        if (errno != EADDRINUSE || mono_ms() - begun >= wait_ms)
            die(EXIT_UNAVAILABLE,
                "cluster.peers: cannot bind %s, the address of %s: %s",
                endpoint, c->name, zmq_strerror(errno));
        zclock_sleep(1);
    }
    free(endpoint);
}

void cluster_bind(struct cluster *c, zsock_t *socket, const char *kind)
{
    strangers_watch(c->strangers, socket);
    bind_to(c, socket, kind, 0);
}

void cluster_bind_again(struct cluster *c, zsock_t *socket, const char *kind)
{
    char *endpoint = zsock_last_endpoint(socket);

    zsock_unbind(socket, "%s", endpoint);
    zstr_free(&endpoint);
    bind_to(c, socket, kind, REBIND_MS);
}

void cluster_unbind(zsock_t **socket)
{
    if (*socket)
        strangers_unwatch(*socket);
    zsock_destroy(socket);
}

static const struct remote *elsewhere(const struct cluster *c, const char *name)
{
    for (size_t i = 0; c && i < c->count; i++)
        if (strcmp(c->peers[i].name, name) == 0 && !c->peers[i].here)
            return &c->peers[i];
    return NULL;
}

char *cluster_address(const struct cluster *c, const char *name,
                      const char *kind)
{
    return elsewhere(c, name) ? gr_printf(PEER_SCHEME "%s.%s", name, kind)
                              : NULL;
}

char *cluster_own_address(const struct cluster *c, const char *kind)
{
    return gr_printf(PEER_SCHEME "%s%s%s.%s", c->name, *c->host ? "@" : "",
                     c->host, kind);
}

/* "peer://NAME.KIND" or "peer://NAME@HOST.KIND", in parts. */
struct peer_address {
    char text[INBOX_MAX_BYTES + 1];
    const char *name, *host; /* host: NULL: each instance */
    const char *kind;
};

static bool parse(struct peer_address *a, struct bytes address)
{
    const size_t scheme = strlen(PEER_SCHEME);
    char *at, *dot;

    if (address.n > INBOX_MAX_BYTES || address.n <= scheme ||
        memcmp(address.p, PEER_SCHEME, scheme) != 0 ||
        memchr(address.p, 0, address.n))
        return false;
    wire_copy(a->text, sizeof a->text, address);
    dot = strchr(a->text + scheme, '.');
    if (!dot)
        return false;
    *dot = 0;
    a->name = a->text + scheme;
    a->host = NULL;
    at = strchr(a->text + scheme, '@');
    if (at) {
        *at = 0;
        a->host = at + 1;
    }
    for (size_t i = 0; i < COUNT_OF(socket_kinds); i++)
        if (strcmp(dot + 1, socket_kinds[i]) == 0) {
            a->kind = socket_kinds[i];
            return true;
        }
    return false;
}

/* Of our host, too: such a peer names its inbox so to a name that has instances elsewhere. */
static bool is_at(const struct remote *r, const struct peer_address *a)
{
    return strcmp(r->name, a->name) == 0 &&
           (!a->host || (*a->host && strcmp(r->host, a->host) == 0));
}

static bool leads_somewhere(const struct cluster *c,
                            const struct peer_address *a)
{
    for (size_t i = 0; i < c->count; i++)
        if (is_at(&c->peers[i], a))
            return true;
    return false;
}

bool cluster_reaches(const struct cluster *c, struct bytes address)
{
    struct peer_address a;

    return c && parse(&a, address) && strcmp(a.kind, "control") != 0 &&
           leads_somewhere(c, &a);
}

/* The words of a route: our key; for each instance its keys and then its endpoint. */
char *cluster_route(const struct cluster *c, const char *address)
{
    struct peer_address a;
    struct buf route;

    if (!c || !parse(&a, wire_text(address)) || !leads_somewhere(c, &a))
        return NULL;
    buf_init(&route, ROUTE_MAX_BYTES);
    buf_puts(&route, zcert_public_txt(c->own));
    for (size_t i = 0; i < c->count; i++) {
        const struct remote *r = &c->peers[i];
        char *endpoint;

        if (!is_at(r, &a))
            continue;
        endpoint = r->here ? ipc_address(c->run_dir, r->name, a.kind)
                           : endpoint_of(r->address, false, a.kind);
        for (size_t k = 0; !r->here && k < KEYS_MAX && *r->keys[k]; k++)
            buf_printf(&route, " %s", r->keys[k]);
        buf_printf(&route, " %s", endpoint);
        free(endpoint);
    }
    return buf_take(&route);
}

/* Connects along the words of a route: to those of this host (local), or to the others, once with each key. Returns how many
 * connections there are; -1: an endpoint is wrong. */
static int connect_words(zsock_t *socket, const char *route, bool local)
{
    char *words = gr_strdup(route), *save = NULL, *word, *keys[KEYS_MAX] = {0};
    int count = 0, key_count = 0;

    (void)strtok_r(words, " ", &save); /* our own key */
    while (count >= 0 && (word = strtok_r(NULL, " ", &save))) {
        if (strncmp(word, "ipc://", 6) == 0) {
            if (local)
                count = zsock_connect(socket, "%s", word) == 0 ? count + 1 : -1;
        } else if (strncmp(word, "tcp://", 6) != 0) {
            keys[key_count++] = word;
        } else {
            char *port = strrchr(word, ':');

            for (int k = 0; !local && count >= 0 && k < key_count; k++) {
                zsock_set_curve_serverkey(socket, keys[k]);
                /* With "0", for ZeroMQ another endpoint: a DEALER connects to the same one only once. */
                count = zsock_connect(socket, "%.*s:%s%s", (int)(port - word),
                                      word, k ? "0" : "", port + 1) == 0
                            ? count + 1
                            : -1;
            }
            key_count = 0;
        }
    }
    free(words);
    return count;
}

/* More than the own key, a key and an endpoint. */
static bool has_choice(const char *route)
{
    int words = 1;

    for (const char *p = route; *p; p++)
        words += *p == ' ';
    return words > 3;
}

/* A peer with two keys uses one of them, and changes it when it likes; of several instances one is active. So the socket
 * tries all of them all the time, and has space only where a handshake has succeeded. */
gr_rc cluster_connect(struct cluster *c, zsock_t *socket, const char *route)
{
    bool choice = has_choice(route);

    if (choice)
        zsock_set_immediate(socket, 1);
    if (zsock_maxmsgsize(socket) < 0)
        zsock_set_maxmsgsize(socket, COMMAND_MAX_BYTES);
    zsock_set_connect_timeout(socket, HANDSHAKE_MS);
    zsock_set_reconnect_ivl(socket, RECONNECT_MS);
    zsock_set_reconnect_ivl_max(socket,
                                choice ? RECONNECT_TWO_MS : RECONNECT_MAX_MS);
    /* Without keys: ZeroMQ takes the options as they are at each connect. */
    if (connect_words(socket, route, true) < 0)
        return GR_REFUSE;
    set_options(c, socket);
    return connect_words(socket, route, false) < 0 ? GR_REFUSE : GR_OK;
}

/* ---- frames ---- */

/* Which kind of process sends a frame of this kind; NULL: each. */
static const char *sender_kind(int kind)
{
    switch (kind) {
    case WIRE_KIND_HEARTBEAT:
    case WIRE_KIND_TAKEN:
        return "deliverer";
    case WIRE_KIND_HEARTBEAT_ACK:
    case WIRE_KIND_GRANTED:
    case WIRE_KIND_REVOKED:
    case WIRE_KIND_WATERMARK_REQUEST:
        return "sequencer";
    default:
        return NULL;
    }
}

static bool is_kind(const char *name, const char *kind)
{
    size_t n = strlen(kind);

    return strncmp(name, kind, n) == 0 && (!name[n] || name[n] == '-');
}

/* An instance names itself, and no other one of its name. */
static bool is_from(const char *name, const char *host, struct bytes frame)
{
    const char *kind = sender_kind(wire_kind(frame));
    struct peer_address a;
    struct bytes from, inbox;

    if (!wire_sender(frame, &from, &inbox) || !wire_is(from, name))
        return false;
    if (is_kind(name, "console") || (kind && !is_kind(name, kind)))
        return false;
    return parse(&a, inbox) && strcmp(a.name, name) == 0 &&
           strcmp(a.host ? a.host : "", host) == 0;
}

bool cluster_admits(struct cluster *c, const char *key, struct bytes frame)
{
    const char *name = name_of(c, key);

    if (!name) {
        note_refused(c,
                     "a frame was refused: its key is no longer in "
                     "cluster.peers",
                     key ? key : "");
        return false;
    }
    if (is_from(name, zcert_meta(certificate_of(c, key), "host"), frame))
        return true;
    note_refused(c,
                 "a frame was refused: its sender's key belongs to another "
                 "name, or such a process does not send it",
                 name);
    return false;
}

/* ---- control requests ---- */

bool cluster_may_ask(struct cluster *c, const char *key)
{
    const char *name = name_of(c, key);

    if (name && is_kind(name, "console"))
        return true;
    note_refused(c,
                 "a control request was refused: only the key of a console in "
                 "cluster.peers may send one",
                 name  ? name
                 : key ? key
                       : "");
    return false;
}

static bool is_listed_before(const struct cluster *c, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (!c->peers[i].here &&
            strcmp(c->peers[i].name, c->peers[at].name) == 0)
            return true;
    return false;
}

const char *cluster_asked(const struct cluster *c, size_t *at)
{
    while (c && *at < c->count) {
        size_t i = (*at)++;
        const struct remote *r = &c->peers[i];

        if (!r->here && !is_kind(r->name, "console") && !is_listed_before(c, i))
            return r->name;
    }
    return NULL;
}

bool cluster_place(const struct cluster *c, const char *name, size_t *at,
                   struct cluster_place *out)
{
    while (*at < c->count) {
        const struct remote *r = &c->peers[(*at)++];
        char *address;

        if (strcmp(r->name, name) != 0)
            continue;
        address = gr_printf(PEER_SCHEME "%s%s%s.control", name,
                            *r->host ? "@" : "", r->host);
        *out = (struct cluster_place){.host = r->host,
                                      .here = r->here,
                                      .route = cluster_route(c, address)};
        free(address);
        return true;
    }
    return false;
}
