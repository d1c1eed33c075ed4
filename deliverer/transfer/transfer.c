/* transfer: sets up libcurl for one request, and reads the response by its callbacks. */
#include "transfer.h"
#include "bounds.h"
#include "clock.h"
#include "daemon.h"
#include "task.h"
#include "transfers.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum {
    IDLE_CONNECTION_S = 60, /* a connection idle for longer is not used again */
    OLD_CONNECTION_S = 600, /* then names and certificates are checked again */
    CA_CACHE_S = 600,       /* the system's certificates are read again */
    REQUEST_BUFFER_BYTES = 64 * 1024,
    /* So much later than the time-out of transfers.c is libcurl's for connecting. */
    AFTER_OURS_MS = 250,
};

/* ---- callbacks of libcurl ---- */

/* Append as much as fits; the rest is dropped. */
static void put_cut(struct buf *b, size_t max, const char *p, size_t n)
{
    size_t capacity = max - b->len;

    buf_put(b, p, n < capacity ? n : capacity);
}

static size_t on_body(char *p, size_t size, size_t count, void *self)
{
    struct transfer *f = self;
    size_t n = size * count;

    f->response_bytes += n;
    put_cut(&f->response, RESPONSE_MAX_BYTES, p, n);
    return f->response_bytes > RESPONSE_READ_MAX_BYTES ? 0 : n; /* 0: end it */
}

/* libcurl decodes chunks before it hands out the body. Sizes, extensions and trailers of
 * chunks are only in its trace of received bytes. */
static int on_raw(CURL *easy, curl_infotype kind, char *p, size_t n, void *self)
{
    struct transfer *f = self;

    (void)p;
    if (kind != CURLINFO_DATA_IN)
        return 0;
    /* Earlier bytes were decoded already. */
    if (f->raw_bytes > f->response_bytes + RESPONSE_HEAD_MAX_COST)
        curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L); /* on_progress() */
    f->raw_bytes += n;
    return 0;
}

/* Called only when a bound was passed: end the transfer. */
static int on_progress(void *self, curl_off_t dl_total, curl_off_t dl,
                       curl_off_t ul_total, curl_off_t ul)
{
    (void)self, (void)dl_total, (void)dl, (void)ul_total, (void)ul;
    return 1;
}

static size_t on_header(char *p, size_t size, size_t count, void *self)
{
    static const char chunked[] = "transfer-encoding:";
    struct transfer *f = self;
    size_t n = size * count;
    long status = 0;

    f->head_cost += n + HEADER_LINE_COST;
    if (f->head_cost > RESPONSE_HEAD_MAX_COST)
        return 0;            /* too large: CURLE_WRITE_ERROR */
    if (f->result.responded) /* a trailer */
        return n;
    /* Then on_raw() counts. */
    if (n > sizeof chunked && strncasecmp(p, chunked, sizeof chunked - 1) == 0)
        curl_easy_setopt(f->easy, CURLOPT_VERBOSE, 1L);
    /* A status line: the lines before it belong to a 1xx, which is not the response. */
    if (n > 5 && memcmp(p, "HTTP/", 5) == 0)
        buf_reset(&f->headers);
    if (n > 2 || (p[0] != '\r' && p[0] != '\n')) {
        put_cut(&f->headers, RESPONSE_HEADERS_MAX_BYTES, p, n);
        return n;
    }
    /* The empty line: a response's headers are complete. */
    curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200) {
        f->result.responded = true;
        f->result.status = status;
    }
    return n;
}

static void note_blocked(struct transfer *f, const char *ip, int port)
{
    f->result.blocked = true;
    f->result.port = guard_allows_port(&f->config->address_guard, port) ? 0
                                                                        : port;
    /* The holder of a workspace's token may have made this endpoint, and reads the error: it is not
     * told what names of the operator's network resolve to. */
    if (!endpoint_id_valid(f->config->settings.name))
        snprintf(f->result.address, sizeof f->result.address, "%s", ip);
}

/* The kernel sends a request for no longer than this attempt may take, also when this process has
 * died (see sockets_on_close()) and for a connection with other requests, which stays open. */
static void limit_unacknowledged(int fd, int64_t timeout_ms)
{
    unsigned ms = (unsigned)timeout_ms;

    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

static curl_socket_t on_open(void *self, curlsocktype purpose,
                             struct curl_sockaddr *to)
{
    struct transfer *f = self;
    int fd;

    (void)purpose;
    if (!guard_allows(&f->config->address_guard, &to->addr)) {
        char ip[INET6_ADDRSTRLEN] = "";
        int port = guard_describe(&to->addr, ip);

        note_blocked(f, ip, port);
        return CURL_SOCKET_BAD;
    }
    fd = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
    if (fd >= 0)
        limit_unacknowledged(fd, f->timeout_ms);
    if (fd < 0)
        f->result.starved = errno == EMFILE || errno == ENFILE ||
                            errno == ENOBUFS || errno == ENOMEM;
    else
        f->result.opened = true;
    f->all->connections += fd >= 0;
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/* Before each request, also on a connection that is used again: it may have been opened for
 * an endpoint to which more addresses are allowed. */
static int on_request(void *self, char *ip, char *local_ip, int port,
                      int local_port)
{
    struct transfer *f = self;

    (void)local_ip;
    (void)local_port;
    f->result.opened = true;
    f->result.lost = !*ip; /* the connection was reset */
    /* This address decides; another one of its host may have been refused before. */
    f->result.blocked = false;
    if (*ip && !guard_allows_text(&f->config->address_guard, ip, port))
        note_blocked(f, ip, port);
    /* The process may have been stopped since the turn began. */
    if (f->task && f->config->settings.ordered != LANES_NONE &&
        mono_ms() >= *f->all->lease_until_ms)
        f->interrupted = "the deliverer's lease has expired";
    if (f->result.lost || f->result.blocked || f->interrupted)
        return CURL_PREREQFUNC_ABORT;
    f->result.sent = true;
    f->sends++;
    /* If libcurl sends this request again, then on a new connection: libcurl does not take
     * that for dead a second time. */
    curl_easy_setopt(f->easy, CURLOPT_FRESH_CONNECT, 1L);
    return CURL_PREREQFUNC_OK;
}

/* ---- options ---- */

/* Options that are the same in all attempts. */
static void set_fixed_options(struct transfer *f)
{
    CURL *e = f->easy;

    /* With http_proxy of the environment on_open() would check the proxy's address. */
    curl_easy_setopt(e, CURLOPT_PROXY, "");
    curl_easy_setopt(e, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(e, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_DEBUGFUNCTION, on_raw);
    curl_easy_setopt(e, CURLOPT_DEBUGDATA, f);
    curl_easy_setopt(e, CURLOPT_XFERINFOFUNCTION, on_progress);
    /* Do not wait for the thread that resolves a name, or one dead name server stops every
     * endpoint. */
    curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
    /* Offered in the TLS handshake only; a plain connection is HTTP/1.1. */
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(e, CURLOPT_MAXAGE_CONN, (long)IDLE_CONNECTION_S);
    curl_easy_setopt(e, CURLOPT_MAXLIFETIME_CONN, (long)OLD_CONNECTION_S);
    curl_easy_setopt(e, CURLOPT_CA_CACHE_TIMEOUT, (long)CA_CACHE_S);
    curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, (long)REQUEST_BUFFER_BYTES);
    curl_easy_setopt(e, CURLOPT_POST, 1L);
    curl_easy_setopt(e, CURLOPT_PRIVATE, f);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, f);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, f);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, f);
    curl_easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, sockets_on_close);
    curl_easy_setopt(e, CURLOPT_CLOSESOCKETDATA, &f->all->sockets);
    curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, on_request);
    curl_easy_setopt(e, CURLOPT_PREREQDATA, f);
}

static void set_blob(CURL *e, CURLoption option, const char *pem)
{
    struct curl_blob blob = {.data = (void *)(uintptr_t)pem,
                             .flags = CURL_BLOB_COPY};

    if (pem)
        blob.len = strlen(pem);
    curl_easy_setopt(e, option, pem ? &blob : NULL);
}

/* libcurl allocates its buffer for each request, and keeps it until the response is complete. A
 * buffer of 1 KiB, up to which malloc has a cache, is enough for most responses; HTTP/2, which
 * is possible with TLS, uses it for its flow control. */
static void set_buffer(CURL *e, const char *url)
{
    bool plain = strncasecmp(url, "http:", strlen("http:")) == 0;

    curl_easy_setopt(e, CURLOPT_BUFFERSIZE, plain ? 1024L : 16 * 1024L);
}

/* Options of the endpoint. */
static void set_endpoint_options(struct transfer *f)
{
    const struct endpoint_config *c = f->config;
    const struct tls *tls = &c->settings.tls;
    CURL *e = f->easy;

    curl_easy_setopt(e, CURLOPT_URL, c->settings.url); /* to send it again */
    curl_easy_setopt(e, CURLOPT_CURLU, c->parsed);
    set_buffer(e, c->settings.url);
    curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, c->put ? "PUT" : NULL);
    set_blob(e, CURLOPT_CAINFO_BLOB, tls->ca);
    set_blob(e, CURLOPT_SSLCERT_BLOB, tls->certificate);
    set_blob(e, CURLOPT_SSLKEY_BLOB, tls->key);
    /* An authority of the endpoint's own replaces the system's, so the system's folder must
     * not be read either. */
    curl_easy_setopt(e, CURLOPT_CAPATH, tls->ca ? NULL : f->all->capath);
    f->prepared = c->id;
}

void transfer_prepare(struct transfer *f)
{
    const struct endpoint_config *c = f->config;
    const struct task *t = f->task;
    CURL *e = f->easy;

    if (f->prepared != c->id)
        set_endpoint_options(f);
    if (t->w.url.n) { /* the task has a URL of its own */
        char *url = wire_dup(t->w.url);

        curl_easy_setopt(e, CURLOPT_CURLU, NULL);
        curl_easy_setopt(e, CURLOPT_URL, url); /* libcurl copies it */
        set_buffer(e, url);
        free(url);
        f->prepared = 0;
    }
    /* libcurl divides this time among the addresses of a host; transfers.c ends attempts
     * that take longer. */
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)f->connect_ms + AFTER_OURS_MS);
    curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, 0L);
    curl_easy_setopt(e, CURLOPT_VERBOSE, 0L);    /* on_header() sets it */
    curl_easy_setopt(e, CURLOPT_NOPROGRESS, 1L); /* on_raw() sets it */
    curl_easy_setopt(e, CURLOPT_POSTFIELDS, (const char *)t->w.body.p);
    curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->w.body.n);
    curl_easy_setopt(e, CURLOPT_MAX_SEND_SPEED_LARGE,
                     (curl_off_t)t->bytes_per_s);
    f->signed_ms = system_ms() + t->signed_offset_ms;
    curl_easy_setopt(
        e, CURLOPT_HTTPHEADER,
        request_headers(
            &f->request, &t->w, (struct bytes){c->headers, c->headers_bytes},
            &c->signer, c->settings.trace_context != TRACE_HEADERS_NONE,
            t->attempts + 1, f->signed_ms));
}

void transfer_stood_still(struct transfer *f)
{
    int64_t since_ms = (mono_us() - f->began_us) / 1000;

    if (!f->result.sent)
        curl_easy_setopt(f->easy, CURLOPT_CONNECTTIMEOUT_MS,
                         (long)(since_ms + f->connect_ms + AFTER_OURS_MS));
}

/* ---- one transfer ---- */

struct transfer *transfer_new(struct transfers *fs)
{
    struct transfer *f = gr_alloc(sizeof *f);

    f->all = fs;
    f->easy = curl_easy_init();
    if (!f->easy)
        die(EXIT_UNAVAILABLE, "libcurl is out of memory");
    request_init(&f->request);
    buf_init(&f->headers, RESPONSE_HEADERS_MAX_BYTES);
    buf_init(&f->response, RESPONSE_MAX_BYTES);
    set_fixed_options(f);
    return f;
}

void transfer_free(struct transfer *f)
{
    curl_easy_cleanup(f->easy);
    endpoint_config_drop(f->config);
    request_fini(&f->request);
    buf_fini(&f->headers);
    buf_fini(&f->response);
    free(f);
}

static int64_t microseconds(const struct transfer *f, CURLINFO what)
{
    curl_off_t us = 0;

    curl_easy_getinfo(f->easy, what, &us);
    return us > 0 ? us : 0;
}

static void read_timings(struct transfer *f)
{
    bool opened = f->result.opened;

    f->timings = (struct timings){
        .dns_us = opened ? microseconds(f, CURLINFO_NAMELOOKUP_TIME_T) : 0,
        .connect_us = microseconds(f, CURLINFO_CONNECT_TIME_T),
        .tls_us = microseconds(f, CURLINFO_APPCONNECT_TIME_T),
        .first_byte_us = f->result.responded
                             ? microseconds(f, CURLINFO_STARTTRANSFER_TIME_T)
                             : 0,
        .total_us = mono_us() - f->began_us};
    f->duration_ms = (f->timings.total_us + 500) / 1000;
}

/* libcurl gives seconds; 7.88 makes a past date a large negative number. */
static int64_t retry_after_ms(const struct transfer *f)
{
    curl_off_t wait_s = 0;

    curl_easy_getinfo(f->easy, CURLINFO_RETRY_AFTER, &wait_s);
    if (wait_s < 0)
        return 0;
    return wait_s > DAY_MS / SECOND_MS ? DAY_MS : (int64_t)wait_s * SECOND_MS;
}

static void read_why_untrusted(struct transfer *f)
{
    long result = 0;

    curl_easy_getinfo(f->easy, CURLINFO_SSL_VERIFYRESULT, &result);
    /* libcurl compares the name, not OpenSSL, and gives no reason. */
    snprintf(f->result.tls, sizeof f->result.tls, "%s",
             result == X509_V_OK || result == X509_V_ERR_UNSPECIFIED
                 ? "it is for another host name"
                 : X509_verify_cert_error_string(result));
}

void transfer_read(struct transfer *f, CURLcode code)
{
    long os_errno = 0, connects = 0;

    curl_easy_getinfo(f->easy, CURLINFO_OS_ERRNO, &os_errno);
    curl_easy_getinfo(f->easy, CURLINFO_NUM_CONNECTS, &connects);
    curl_easy_getinfo(f->easy, CURLINFO_HTTP_VERSION, &f->http_version);
    f->result.code = code;
    f->result.os_errno = (int)os_errno;
    if (code == CURLE_PEER_FAILED_VERIFICATION)
        read_why_untrusted(f);
    f->retry_after_ms = retry_after_ms(f);
    read_timings(f);
    f->all->reused += f->sends > 0 && connects == 0;
    f->all->resent += f->sends > 1;
}
