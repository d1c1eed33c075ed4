/* web: the console's HTTP server: it reads requests within limits and sends one response
 * for each.
 *
 * libmicrohttpd runs without a thread, driven by the loop. A complete request is given to
 * `begin`, which responds at once or later; until then its connection is suspended. All names
 * here are of this process only.
 *
 * With a certificate it serves only HTTPS (web_tls.h); the handshake counts as sending.
 *
 * Limits: a client has 30 s to send a request, and 30 s to read the response (of a stream: each
 * piece of it). Heads are checked strictly (http_head.h), bodies have at most 64 KiB. When nearly
 * all connections are in use, the one that has waited longest is closed (waiters.h). When
 * responses hold too much memory, the connection with the oldest unread one is closed.
 *
 * DNS rebinding: a web page can point its own host name at this address and make a browser
 * read from here what the page itself cannot reach. The browser sends the page's name in
 * `Host`, so only known names are accepted. An IP address in `Host` is accepted, as nobody
 * else can point it here. */
#ifndef CONSOLE_WEB_H
#define CONSOLE_WEB_H

#include "alloc.h"
#include "conf.h"
#include "ulid.h"
#include "web_error.h"
#include <arpa/inet.h>
#include <sys/queue.h>

struct tls;
struct web;
struct web_client;
struct MHD_Connection;

enum {
    WEB_CONNECTIONS_MAX = 256,
    WEB_BODY_MAX_BYTES = 64 * 1024,
    WEB_HEADERS_MAX = 12,     /* of a response, beside the usual ones */
    WEB_MESSAGE_BYTES = 1000, /* of an error; longer ones are cut */
    WEB_REQUEST_ID_BYTES = 4 + ULID_BYTES,
};

/* `stream_bytes` of a stream whose end is not known. */
#define WEB_STREAM_OPEN UINT64_MAX
enum { WEB_STREAM_BROKEN = -1, WEB_STREAM_END = -2 };

/* Fills in the next bytes of a stream. Returns their number; 0: not now, call web_continue()
 * later; WEB_STREAM_BROKEN: the rest cannot be had, so the connection ends before its time;
 * WEB_STREAM_END: of an open one, there are no more. */
typedef int64_t web_stream_fn(void *self, char *to, size_t max);

/* The callee of `begin` reads the first part, and sets the second before it responds. */
struct web_request {
    const char *method;
    char *path;  /* as it was sent, not decoded, without the query */
    char *query; /* as it was sent; NULL: there is none */
    struct buf body;
    char remote[INET6_ADDRSTRLEN];
    char id[WEB_REQUEST_ID_BYTES + 1]; /* "req_" and a ULID */
    void *self;                        /* the callee's */

    unsigned status;   /* 200 */
    const char *type;  /* static; JSON */
    const char *cache; /* Cache-Control; static; no-store */
    struct buf text;   /* the body, unless it is a stream */
    struct {
        const char *name; /* static */
        char *value;      /* owned */
    } headers[WEB_HEADERS_MAX];
    size_t header_count;
    web_stream_fn *stream; /* called with `self` */
    uint64_t stream_bytes;

    /* web.c's */
    TAILQ_ENTRY(web_request) link;
    struct web *web;
    struct web_client *client;
    struct MHD_Connection *mhd;
    size_t raw_url_bytes;
    bool begun, refused, given, responded, suspended;
};

struct web_ops {
    /* A request is complete. It must get web_respond(), now or later. */
    void (*begin)(void *self, struct web_request *r);
    /* A request that was given to `begin` is over: its response was sent, or its client has
     * gone. Called once for each; r->self is not used any more. */
    void (*end)(void *self, struct web_request *r);
};

/* Exits 69 with the reason if it cannot listen, and 78 if it cannot use the certificate. `host` is
 * borrowed. HTTPS, if `tls` has a key. */
struct web *web_open(const char *host, int port, const struct tls *tls,
                     const struct web_ops *ops, void *self);
/* New connections use this certificate. What cannot be used is logged, and changes nothing. */
void web_set_tls(struct web *h, const struct tls *tls);
/* Further names that `Host` may have; addresses, "localhost" and the host of web_open()
 * are always accepted. Borrowed until the next call. */
void web_set_hosts(struct web *h, const struct string_list *hosts);
/* Requests without a response get none. */
void web_close(struct web *h);
int web_fd(const struct web *h); /* for the loop */
/* Returns how long the loop may sleep, in ms; -1: until a socket is ready. */
int web_run(struct web *h, int64_t now_ms, int64_t mono_ms);

/* The value of a header of the request, or NULL; of several, the first. *count: how many there
 * are. Valid until the response. */
const char *web_header(const struct web_request *r, const char *name,
                       int *count);
void web_add_header(struct web_request *r, const char *name, const char *value);
/* Makes the response an error. `field` names the argument that is wrong; or NULL. */
void web_fail(struct web_request *r, enum web_error e, const char *field,
              const char *format, ...) GR_PRINTF(4, 5);
/* Sends the response. The next web_run(), which must follow at once, writes it. */
void web_respond(struct web_request *r);
/* Whether its client has closed the connection while the request waits for its response, or while
 * a stream has nothing to send. */
bool web_client_left(const struct web_request *r);
/* A stream that had no bytes has some now, or has failed. */
void web_continue(struct web_request *r);
/* Closes the connection of a stream whose client does not read. `end` follows. */
void web_cut(struct web_request *r);

/* Whether this value of `Host` is accepted. Its port is ignored. */
bool web_host_known(const char *value, const char *listen,
                    const struct string_list *hosts);
/* Whether an `Origin` header has the same host, and port, as this `Host` header. */
bool web_same_origin(const char *origin, const char *host);

#endif
