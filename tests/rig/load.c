/* rig-load: signed Plane webhooks at an ingress, and what ingress said to each.
 *
 *   rig-load --target URL --secret S [--count N | --seconds S] [--rate R]
 *            [--connections C] [--workspaces K] [--size BYTES] [--first N]
 *            [--timeout S] [--deadline S] [--acks FILE] [--json] [--spread 1]
 *            [--signature-header NAME] [--header LINE] [--envelope BEFORE%AFTER]
 *
 * Without --rate each connection sends its next event when it has the response
 * to the last. With it events are due on a clock, whether or not ingress
 * keeps up, and latency counts from when one was due.
 *
 * Every body is unique: `n` counts from --first, and data.id is n under a
 * random prefix of this run. The workspace is ws-NNNN with n modulo K; with
 * --spread, with a hash of n instead, so that they are not equally busy. Nothing
 * is retried: an event whose connection breaks is recorded as an error and the
 * next takes its place. A connection that can't be made costs no event.
 *
 * For servers that expect something else than Plane's requests: --signature-header
 * names the header with the signature, --header is one more header, and --envelope
 * sends each body between two texts; the signature is that of the bare body.
 *
 * --acks writes a JSON line for each event that was sent:
 *   {"n":7,"workspace":"ws-0007","signature":"<hex>","sent_ms":…,
 *    "responded_ms":…,"status":200,"id":"evt_…"}   or …"error":"reset"}
 * The signature is the HMAC of the body, so that a checker with the secret can
 * tell whether a body that comes out is the one that went in.
 *
 * A body is the same for all events of a workspace up to its last hundred
 * bytes, so signing goes on from a state that has read the rest: it costs
 * about a microsecond, whatever the size. */
#include "text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* Of 64 bits (Knuth): its multiples are spread evenly. Delivery ids begin with some of these bits, as those of
 * real providers are random. */
#define GOLDEN           UINT64_C(0x9e3779b97f4a7c15)
#define SECOND_US        INT64_C(1000000)
#define RECONNECT_MIN_US 5000
#define RECONNECT_MAX_US 200000
#define READ_BYTES       16384
#define SIGNATURE_BYTES  32
#define STATUSES         600
#define EVENTS           256
#define ACKS_BYTES       (64 * 1024)
#define TURN_US          100000

struct options {
    const char *host_header, *path, *secret, *acks;
    const char *signature_header, *header, *before, *after;
    struct sockaddr_in address;
    int64_t count, first, rate;
    int64_t run_us, timeout_us, deadline_us;
    int connections, workspaces, size, json, spread;
};

enum stage { DOWN, CONNECTING, IDLE, WAITING };

struct connection {
    enum stage stage;
    int fd;
    int64_t again_us, backoff_us; /* when DOWN */
    int64_t n, due_us, sent_us, sent_wall_us;
    size_t written;
    struct text out, in;
    char signature[2 * SIGNATURE_BYTES + 1];
};

struct workspace {
    struct text head; /* body up to what differs */
    EVP_MAC_CTX *signed_head;
};

enum failure { RESET, CLOSED, TIMED_OUT, UNREADABLE, FAILURES };

static const char *const failure_names[] = {"reset", "closed", "timeout",
                                            "unreadable"};

struct load {
    struct options o;
    int epoll, acks_fd;
    uint64_t run;
    struct workspace *workspaces;
    struct connection *connections;
    struct text acks;
    int64_t started_us, ended_us;
    int64_t issued, responded, waiting, unconnected;
    int64_t statuses[STATUSES], failures[FAILURES];
    uint32_t *latencies_us;
    size_t latencies_capacity;
};

static volatile sig_atomic_t stopping;

static void on_signal(int signo)
{
    (void)signo;
    stopping = 1;
}

static void *zeroed(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (!memory)
        fail("out of memory");
    return memory;
}

/* --- bodies ------------------------------------------------------------- */

static const char body_tail[] = "\",\"id\":\"%016llx-%012llx\",\"n\":%lld}}";

/* The body of event n is the head of its workspace, then this. */
static void put_tail(const struct load *l, struct text *t, int64_t n)
{
    text_fmt(t, body_tail, (unsigned long long)l->run, (unsigned long long)n,
             (long long)n);
}

static void make_workspace(struct load *l, int number)
{
    struct workspace *w = &l->workspaces[number];
    OSSL_PARAM digest[] = {OSSL_PARAM_construct_utf8_string(
                               OSSL_MAC_PARAM_DIGEST, (char[]){"SHA256"}, 0),
                           OSSL_PARAM_construct_end()};
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    struct text tail = {0};
    size_t bare;

    text_fmt(&w->head,
             "{\"event\":\"issue\",\"action\":\"update\",\"webhook_id\":"
             "\"7f0c1a52-0000-4000-8000-0000000000aa\",\"workspace_id\":"
             "\"ws-%04d\",\"activity\":{\"field\":\"state\",\"actor\":"
             "{\"id\":\"0b5c\",\"display_name\":\"rig\"}},\"data\":"
             "{\"name\":\"",
             number);
    put_tail(l, &tail, l->o.first);
    bare = w->head.len + tail.len;
    for (size_t i = bare; i < (size_t)l->o.size; i++)
        text_add(&w->head, &"grapnel "[i % 8], 1);
    w->signed_head = EVP_MAC_CTX_new(hmac);
    if (!hmac || !w->signed_head ||
        !EVP_MAC_init(w->signed_head, (const unsigned char *)l->o.secret,
                      strlen(l->o.secret), digest) ||
        !EVP_MAC_update(w->signed_head, (unsigned char *)w->head.at,
                        w->head.len))
        fail("libcrypto has no HMAC-SHA256");
    EVP_MAC_free(hmac);
    text_fini(&tail);
}

static void sign(const struct workspace *w, const struct text *tail,
                 char hex[2 * SIGNATURE_BYTES + 1])
{
    static const char digits[] = "0123456789abcdef";
    EVP_MAC_CTX *mac = EVP_MAC_CTX_dup(w->signed_head);
    unsigned char raw[SIGNATURE_BYTES];
    size_t len;

    if (!mac || !EVP_MAC_update(mac, (unsigned char *)tail->at, tail->len) ||
        !EVP_MAC_final(mac, raw, &len, sizeof raw))
        fail("signing failed");
    EVP_MAC_CTX_free(mac);
    for (size_t i = 0; i < SIGNATURE_BYTES; i++) {
        hex[2 * i] = digits[raw[i] >> 4];
        hex[2 * i + 1] = digits[raw[i] & 15];
    }
    hex[2 * SIGNATURE_BYTES] = '\0';
}

static int workspace_of(const struct load *l, int64_t n)
{
    uint64_t mixed = (uint64_t)n;

    if (l->o.spread) { /* of SplitMix64 */
        mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
        mixed ^= mixed >> 31;
    }
    return (int)(mixed % (uint64_t)l->o.workspaces);
}

static void make_request(struct load *l, struct connection *c)
{
    int number = workspace_of(l, c->n);
    const struct workspace *w = &l->workspaces[number];
    const struct options *o = &l->o;
    static struct text tail;

    if (!w->head.len) /* there may be millions, and few of them used */
        make_workspace(l, number);
    tail.len = 0;
    put_tail(l, &tail, c->n);
    sign(w, &tail, c->signature);
    c->out.len = 0;
    text_str(&c->out, "POST ");
    text_str(&c->out, o->path);
    text_str(&c->out, " HTTP/1.1\r\nHost: ");
    text_str(&c->out, o->host_header);
    text_fmt(&c->out,
             "\r\nContent-Type: application/json\r\n"
             "X-Plane-Event: issue\r\n%s: %s\r\n"
             "X-Plane-Delivery: %08x-%04x-4000-8000-%012llx\r\n",
             o->signature_header, c->signature,
             (unsigned)((l->run ^ (uint64_t)c->n * GOLDEN) >> 32),
             (unsigned)l->run & 0xffff, (unsigned long long)c->n);
    if (o->header)
        text_fmt(&c->out, "%s\r\n", o->header);
    text_fmt(&c->out, "Content-Length: %zu\r\n\r\n",
             strlen(o->before) + w->head.len + tail.len + strlen(o->after));
    text_str(&c->out, o->before);
    text_add(&c->out, w->head.at, w->head.len);
    text_add(&c->out, tail.at, tail.len);
    text_str(&c->out, o->after);
}

/* --- what was said ------------------------------------------------------ */

static void flush_acks(struct load *l)
{
    size_t done = 0;

    while (done < l->acks.len) {
        ssize_t n = write(l->acks_fd, l->acks.at + done, l->acks.len - done);

        if (n < 0 && errno != EINTR)
            fail("%s: %s", l->o.acks, strerror(errno));
        done += n < 0 ? 0 : (size_t)n;
    }
    l->acks.len = 0;
}

/* Called when the event of this connection has ended, either way. */
static void put_ack(struct load *l, const struct connection *c, int status,
                    const char *id, size_t id_len, const char *error)
{
    int64_t now = wall_us();

    if (l->acks_fd < 0)
        return;
    text_fmt(&l->acks,
             "{\"n\":%lld,\"workspace\":\"ws-%04d\",\"signature\":\"%s\","
             "\"sent_ms\":%lld.%03lld,\"responded_ms\":%lld.%03lld,",
             (long long)c->n, workspace_of(l, c->n), c->signature,
             (long long)(c->sent_wall_us / 1000),
             (long long)(c->sent_wall_us % 1000), (long long)(now / 1000),
             (long long)(now % 1000));
    if (error) {
        text_fmt(&l->acks, "\"error\":\"%s\"}\n", error);
    } else {
        text_fmt(&l->acks, "\"status\":%d,\"id\":", status);
        if (id)
            text_json(&l->acks, id, id_len);
        else
            text_str(&l->acks, "null");
        text_str(&l->acks, "}\n");
    }
    if (l->acks.len >= ACKS_BYTES)
        flush_acks(l);
}

static void put_latency(struct load *l, int64_t us)
{
    if ((size_t)l->responded == l->latencies_capacity) {
        l->latencies_capacity = l->latencies_capacity
                                    ? 2 * l->latencies_capacity
                                    : 65536;
        l->latencies_us = realloc(l->latencies_us,
                                  l->latencies_capacity * sizeof(uint32_t));
        if (!l->latencies_us)
            fail("out of memory");
    }
    l->latencies_us[l->responded++] = us > (int64_t)UINT32_MAX ? UINT32_MAX
                                                               : (uint32_t)us;
}

/* --- connections -------------------------------------------------------- */

static void hang_up(struct connection *c, int64_t now_us)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->stage = DOWN;
    c->in.len = 0;
    c->again_us = now_us + c->backoff_us;
    c->backoff_us = 2 * c->backoff_us < RECONNECT_MAX_US ? 2 * c->backoff_us
                                                         : RECONNECT_MAX_US;
}

static void on_failure(struct load *l, struct connection *c,
                       enum failure failure, int64_t now_us)
{
    if (c->stage == WAITING) {
        l->failures[failure]++;
        l->waiting--;
        l->ended_us = now_us;
        put_ack(l, c, 0, NULL, 0, failure_names[failure]);
    } else if (c->stage == CONNECTING) {
        if (!l->unconnected++)
            fprintf(stderr, "no connection to %s; trying on\n",
                    l->o.host_header);
    }
    hang_up(c, now_us);
}

static void watch(struct load *l, struct connection *c, int op, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = c};

    if (epoll_ctl(l->epoll, op, c->fd, &e))
        fail("epoll: %s", strerror(errno));
}

static void dial(struct load *l, struct connection *c, int64_t now_us)
{
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        fail("socket: %s", strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    c->stage = CONNECTING;
    if (connect(c->fd, (const struct sockaddr *)&l->o.address,
                sizeof l->o.address) &&
        errno != EINPROGRESS) {
        on_failure(l, c, RESET, now_us);
        return;
    }
    watch(l, c, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
}

static void send_rest(struct load *l, struct connection *c, int64_t now_us)
{
    while (c->written < c->out.len) {
        ssize_t n = send(c->fd, c->out.at + c->written, c->out.len - c->written,
                         MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN) {
            watch(l, c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            return;
        }
        if (n < 0) {
            on_failure(l, c, RESET, now_us);
            return;
        }
        c->written += (size_t)n;
    }
}

static void send_event(struct load *l, struct connection *c, int64_t now_us)
{
    c->n = l->o.first + l->issued;
    c->due_us = l->o.rate ? l->started_us + l->issued * SECOND_US / l->o.rate
                          : now_us;
    l->issued++;
    l->waiting++;
    make_request(l, c);
    c->sent_us = now_us;
    c->sent_wall_us = wall_us();
    c->written = 0;
    c->stage = WAITING;
    send_rest(l, c, now_us);
}

/* --- responses ------------------------------------------------------------ */

static const char *find(const char *at, size_t len, const char *what)
{
    size_t want = strlen(what);

    for (size_t i = 0; i + want <= len; i++)
        if (!strncasecmp(at + i, what, want))
            return at + i + want;
    return NULL;
}

/* The text of "id" in the response's body; NULL when there is none. */
static const char *response_id(const char *body, size_t len, size_t *id_len)
{
    const char *at = find(body, len, "\"id\"");
    const char *end;

    at = at ? memchr(at, '"', (size_t)(body + len - at)) : NULL;
    end = at ? memchr(at + 1, '"', (size_t)(body + len - at - 1)) : NULL;
    if (!end)
        return NULL;
    *id_len = (size_t)(end - at - 1);
    return at + 1;
}

/* 1: a whole response was there; 0: not yet; -1: none that we can read. */
static int take_response(struct load *l, struct connection *c, int64_t now_us)
{
    const char *end = memmem(c->in.at, c->in.len, "\r\n\r\n", 4);
    size_t head, body, id_len = 0;
    const char *length, *id;
    long status;

    if (!end)
        return c->in.len > READ_BYTES ? -1 : 0;
    head = (size_t)(end - c->in.at) + 4;
    if (head < 16 || memcmp(c->in.at, "HTTP/1.", 7))
        return -1;
    status = strtol(c->in.at + 9, NULL, 10);
    length = find(c->in.at, head, "\r\ncontent-length:");
    body = length ? (size_t)strtoull(length, NULL, 10) : 0;
    if (status < 100 || status >= STATUSES)
        return -1;
    if (c->in.len < head + body)
        return 0;
    id = response_id(c->in.at + head, body, &id_len);
    put_ack(l, c, (int)status, id, id_len, NULL);
    put_latency(l, now_us - c->due_us);
    l->statuses[status]++;
    l->waiting--;
    l->ended_us = now_us;
    c->stage = IDLE;
    c->backoff_us = RECONNECT_MIN_US;
    if (find(c->in.at, head, "\r\nconnection: close"))
        hang_up(c, now_us);
    c->in.len = 0;
    return 1;
}

static void on_readable(struct load *l, struct connection *c, int64_t now_us)
{
    ssize_t n = recv(c->fd, text_reserve(&c->in, READ_BYTES), READ_BYTES, 0);

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        on_failure(l, c, n ? RESET : CLOSED, now_us);
        return;
    }
    c->in.len += (size_t)n;
    if (c->stage != WAITING || take_response(l, c, now_us) < 0)
        on_failure(l, c, UNREADABLE, now_us);
}

static void on_event(struct load *l, const struct epoll_event *e,
                     int64_t now_us)
{
    struct connection *c = e->data.ptr;

    if (c->stage == CONNECTING) {
        if (e->events & (EPOLLERR | EPOLLHUP)) {
            on_failure(l, c, RESET, now_us);
            return;
        }
        c->stage = IDLE;
        watch(l, c, EPOLL_CTL_MOD, EPOLLIN);
    } else if (e->events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
        on_readable(l, c, now_us);
    } else if (c->stage == WAITING) {
        watch(l, c, EPOLL_CTL_MOD, EPOLLIN);
        send_rest(l, c, now_us);
    }
}

/* --- the run ------------------------------------------------------------ */

static int issuing(const struct load *l, int64_t now_us)
{
    return !stopping && (!l->o.count || l->issued < l->o.count) &&
           (!l->o.run_us || now_us - l->started_us < l->o.run_us);
}

static int is_due(const struct load *l, int64_t now_us)
{
    return !l->o.rate ||
           (now_us - l->started_us) * l->o.rate >= l->issued * SECOND_US;
}

/* Move each connection as far as time alone moves it. */
static void attend(struct load *l, int64_t now_us)
{
    for (int i = 0; i < l->o.connections; i++) {
        struct connection *c = &l->connections[i];

        if (c->stage == WAITING && now_us - c->sent_us > l->o.timeout_us)
            on_failure(l, c, TIMED_OUT, now_us);
        if (c->stage == DOWN && c->again_us <= now_us && issuing(l, now_us))
            dial(l, c, now_us);
        if (c->stage == IDLE && issuing(l, now_us) && is_due(l, now_us))
            send_event(l, c, now_us);
    }
}

static int wait_ms(const struct load *l)
{
    /* A rate is kept by looking often; a broken connection is dialled again
     * within a few milliseconds; the rest is events. */
    return l->o.rate || l->waiting < l->o.connections ? 1 : 50;
}

static void run(struct load *l)
{
    struct epoll_event events[EVENTS];
    int64_t now_us = mono_us(), flushed_us = now_us;

    l->started_us = l->ended_us = now_us;
    while ((issuing(l, now_us) || (l->waiting && !stopping)) &&
           now_us - l->started_us < l->o.deadline_us) {
        int n;

        attend(l, now_us);
        n = epoll_wait(l->epoll, events, EVENTS, wait_ms(l));
        now_us = mono_us();
        for (int i = 0; i < n; i++)
            on_event(l, &events[i], now_us);
        if (now_us - flushed_us > TURN_US) {
            flush_acks(l);
            flushed_us = now_us;
        }
    }
    for (int i = 0; i < l->o.connections; i++)
        if (l->connections[i].stage == WAITING)
            on_failure(l, &l->connections[i], TIMED_OUT, now_us);
    flush_acks(l);
}

/* --- the summary -------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static double percentile_ms(const struct load *l, double share)
{
    int64_t at = (int64_t)((double)l->responded * share);

    if (!l->responded)
        return 0;
    return l->latencies_us[at < l->responded ? at : l->responded - 1] / 1000.0;
}

static void print_counts(const struct load *l, const char *one,
                         const char *between)
{
    const char *comma = "";

    for (int i = 0; i < STATUSES; i++) {
        if (!l->statuses[i])
            continue;
        printf("%s%s%d%s: %lld", comma, one, i, one, (long long)l->statuses[i]);
        comma = between;
    }
    for (int i = 0; i < FAILURES; i++) {
        if (!l->failures[i])
            continue;
        printf("%s%s%s%s: %lld", comma, one, failure_names[i], one,
               (long long)l->failures[i]);
        comma = between;
    }
}

static void print_summary(struct load *l)
{
    double seconds = (double)(l->ended_us - l->started_us) / 1e6;
    double rate = seconds > 0 ? (double)l->responded / seconds : 0;
    const char *format =
        l->o.json ? "{\"sent\": %lld, \"responded\": %lld, \"unconnected\": "
                    "%lld, \"seconds\": %.3f, \"rate\": %.1f, "
                    "\"latency_ms\": {\"p50\": %.3f, \"p90\": %.3f, "
                    "\"p99\": %.3f, \"max\": %.3f}, \"counts\": {"
                  : "sent         %lld\nresponded    %lld\n"
                    "unconnected  %lld\nseconds      %.3f\n"
                    "rate         %.1f /s\nlatency      p50 %.3f ms  "
                    "p90 %.3f ms  p99 %.3f ms  max %.3f ms\ncounts       ";

    qsort(l->latencies_us, (size_t)l->responded, sizeof(uint32_t), by_value);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    printf(format, (long long)l->issued, (long long)l->responded,
           (long long)l->unconnected, seconds, rate, percentile_ms(l, 0.5),
           percentile_ms(l, 0.9), percentile_ms(l, 0.99),
           percentile_ms(l, 1.0));
#pragma GCC diagnostic pop
    print_counts(l, l->o.json ? "\"" : "", l->o.json ? ", " : "  ");
    printf("%s\n", l->o.json ? "}}" : "");
}

/* --- start -------------------------------------------------------------- */

static void parse_target(struct options *o, char *url)
{
    char *host = url + strlen("http://"), *slash, *colon;
    char name[64];

    if (strncmp(url, "http://", strlen("http://")))
        fail("--target is http://ADDRESS:PORT/PATH");
    slash = strchr(host, '/');
    o->path = slash ? slash : "/";
    snprintf(name, sizeof name, "%.*s",
             (int)(slash ? (size_t)(slash - host) : strlen(host)), host);
    o->host_header = strdup(name);
    colon = strchr(name, ':');
    o->address.sin_family = AF_INET;
    o->address.sin_port = htons(colon ? (uint16_t)strtol(colon + 1, NULL, 10)
                                      : 80);
    if (colon)
        *colon = '\0';
    if (!strcmp(name, "localhost"))
        snprintf(name, sizeof name, "127.0.0.1");
    if (inet_pton(AF_INET, name, &o->address.sin_addr) != 1)
        fail("--target: %s is no IPv4 address", name);
}

static void parse_envelope(struct options *o, char *envelope)
{
    char *place = strchr(envelope, '%');

    if (!place)
        fail("--envelope: %s needs a %% at the place of the body", envelope);
    *place = '\0';
    o->before = envelope;
    o->after = place + 1;
}

static int64_t seconds_us(const char *s)
{
    return (int64_t)(strtod(s, NULL) * (double)SECOND_US);
}

static void parse_options(struct options *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"target", required_argument, NULL, 't'},
        {"secret", required_argument, NULL, 's'},
        {"count", required_argument, NULL, 'n'},
        {"seconds", required_argument, NULL, 'S'},
        {"rate", required_argument, NULL, 'r'},
        {"connections", required_argument, NULL, 'c'},
        {"workspaces", required_argument, NULL, 'w'},
        {"size", required_argument, NULL, 'z'},
        {"first", required_argument, NULL, 'f'},
        {"timeout", required_argument, NULL, 'T'},
        {"deadline", required_argument, NULL, 'D'},
        {"acks", required_argument, NULL, 'a'},
        {"json", no_argument, NULL, 'j'},
        {"spread", required_argument, NULL, 'p'},
        {"signature-header", required_argument, NULL, 'g'},
        {"header", required_argument, NULL, 'h'},
        {"envelope", required_argument, NULL, 'e'},
        {0}};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 't':
            parse_target(o, optarg);
            break;
        case 's':
            o->secret = optarg;
            break;
        case 'n':
            o->count = strtoll(optarg, NULL, 10);
            break;
        case 'S':
            o->run_us = seconds_us(optarg);
            break;
        case 'r':
            o->rate = strtoll(optarg, NULL, 10);
            break;
        case 'c':
            o->connections = (int)strtol(optarg, NULL, 10);
            break;
        case 'w':
            o->workspaces = (int)strtol(optarg, NULL, 10);
            break;
        case 'z':
            o->size = (int)strtol(optarg, NULL, 10);
            break;
        case 'f':
            o->first = strtoll(optarg, NULL, 10);
            break;
        case 'T':
            o->timeout_us = seconds_us(optarg);
            break;
        case 'D':
            o->deadline_us = seconds_us(optarg);
            break;
        case 'a':
            o->acks = optarg;
            break;
        case 'j':
            o->json = 1;
            break;
        case 'p':
            o->spread = (int)strtol(optarg, NULL, 10);
            break;
        case 'g':
            o->signature_header = optarg;
            break;
        case 'h':
            o->header = optarg;
            break;
        case 'e':
            parse_envelope(o, optarg);
            break;
        default:
            exit(64);
        }
    }
    if (!o->path || !o->secret || (!o->count && !o->run_us) ||
        o->connections < 1 || o->workspaces < 1)
        fail("rig-load needs --target, --secret, and --count or --seconds");
}

static void open_load(struct load *l)
{
    struct options *o = &l->o;

    if (getrandom(&l->run, sizeof l->run, 0) != sizeof l->run)
        fail("no randomness");
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->acks_fd = -1;
    if (o->acks) {
        l->acks_fd = open(o->acks, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                          0600);
        if (l->acks_fd < 0)
            fail("%s: %s", o->acks, strerror(errno));
    }
    l->workspaces = zeroed((size_t)o->workspaces, sizeof *l->workspaces);
    l->connections = zeroed((size_t)o->connections, sizeof *l->connections);
    for (int i = 0; i < o->connections; i++) {
        l->connections[i].fd = -1;
        l->connections[i].backoff_us = RECONNECT_MIN_US;
    }
}

static void close_load(struct load *l)
{
    for (int i = 0; i < l->o.workspaces; i++) {
        EVP_MAC_CTX_free(l->workspaces[i].signed_head);
        text_fini(&l->workspaces[i].head);
    }
    for (int i = 0; i < l->o.connections; i++) {
        if (l->connections[i].fd >= 0)
            close(l->connections[i].fd);
        text_fini(&l->connections[i].in);
        text_fini(&l->connections[i].out);
    }
    free(l->workspaces);
    free(l->connections);
    free(l->latencies_us);
    text_fini(&l->acks);
    free((char *)l->o.host_header);
}

int main(int argc, char **argv)
{
    struct load l = {.o = {.connections = 16,
                           .workspaces = 1,
                           .size = 1024,
                           .first = 1,
                           .signature_header = "X-Plane-Signature",
                           .before = "",
                           .after = "",
                           .timeout_us = 30 * SECOND_US,
                           .deadline_us = 3600 * SECOND_US}};

    parse_options(&l.o, argc, argv);
    raise_descriptor_limit();
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    signal(SIGPIPE, SIG_IGN);
    open_load(&l);
    run(&l);
    print_summary(&l);
    close_load(&l);
    return 0;
}
