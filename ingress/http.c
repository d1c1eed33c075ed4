#include "clock.h"
#include "headers.h"
#include "http_parts.h"
#include "listen.h"
#include "log.h"
#include "tap.h"
#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Since 0.9.77 the library refuses by itself what head.c finds by its traces in
 * 0.9.75 (Debian 12). */
#if MHD_VERSION >= 0x00097701
#define LIBRARY_IS_STRICT true
#define STRICTLY          MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1,
#else
#define LIBRARY_IS_STRICT false
#define STRICTLY
#endif

enum {
    /* Of each connection, for its head and a piece of its body. More than
     * HEAD_MAX_BYTES, so that it is mostly we who answer 431, in our words. */
    POOL_BYTES = 24 * 1024,
    SWALLOW_MAX_BYTES = 16 * 1024 * 1024,
    OWN_FILES = 64,  /* databases, mailboxes, control; and some that may come */
    HEAR_RUNS = 256, /* the library accepts about ten connections in one */
};

/* The library makes a list of the query's fields, of which nobody asks it, and
 * when it has no room for them it ends without a word, and without telling us.
 * So it gets to see one field. The text is in its own buffer, where it would put
 * zeroes; ours is a copy. */
static void join_fields(const char *query)
{
    for (char *p = (char *)(uintptr_t)query; (p = strchr(p, '&'));)
        *p = '.';
}

/* The request line is here: called before libmicrohttpd takes it apart. */
static void *on_line(void *cls, const char *uri, struct MHD_Connection *c)
{
    struct http *h = cls;
    struct request *r = request_new(h);

    const char *query = uri ? strchr(uri, '?') : NULL;

    h->heard++;
    r->visitor = visitor_of(c);
    r->raw_url_bytes = uri ? strlen(uri) : 0;
    if (query) {
        buf_puts(&r->query, query + 1);
        join_fields(query);
    }
    h->figures.body_bytes += (int64_t)r->body.cap;
    if (r->visitor)
        r->visitor->request = r;
    if (r->visitor && r->visitor->visit == VISIT_BETWEEN)
        visit_move(h, r->visitor, VISIT_READING);
    return r;
}

/* What the library refused by itself, in its words, is on record like the rest. */
static void note_refusal(struct http *h, struct MHD_Connection *c,
                         struct request *r)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        c, MHD_CONNECTION_INFO_HTTP_STATUS);
    unsigned status = info ? info->http_status : 0;

    if (r->answer || status < 400)
        return;
    memcpy(r->remote, r->visitor->remote, sizeof r->remote);
    r->answer = status == 414 || status == 431 ? ANSWER_HEAD_TOO_LARGE
                : r->begun                     ? ANSWER_LENGTH_AMBIGUOUS
                                               : ANSWER_HEAD_MALFORMED;
    h->ops.answered(h->self, r, r->answer);
}

static void on_completed(void *cls, struct MHD_Connection *c, void **context,
                         enum MHD_RequestTerminationCode why)
{
    struct http *h = cls;
    struct request *r = *context;

    (void)why;
    *context = NULL;
    if (!r)
        return;
    if (r->visitor && r->visitor->visit != VISIT_CUT) {
        note_refusal(h, c, r);
        visit_move(h, r->visitor, VISIT_BETWEEN);
        r->visitor->kept = true;
        r->visitor->read = false;
    }
    request_part(h, r);
}

/* ---- the bytes of chunked bodies, as they came (framing.h) ---- */

/* libmicrohttpd has read these into its buffer, and does not look at them yet. */
static void on_bytes(void *self, int fd, const char *p, size_t n)
{
    struct http *h = self;
    struct visitor *v = (size_t)fd < h->by_fd_count ? h->by_fd[fd] : NULL;
    struct request *r = v ? v->request : NULL;

    if (!v)
        return;
    v->read_end = p + n;
    v->read = true;
    if (!r || !r->chunked)
        return;
    framing_read(&r->framing, p, n);
    if (r->framing.state == FRAMING_BAD && r->answer != ANSWER_CHUNKS_MALFORMED)
        request_misframed(h, r);
}

/* The head has just been read: what the library has read behind it stands behind it
 * in its buffer. When it has read nothing since the request before, it has moved
 * its buffer, and we do not know where that ends. */
static enum answer begin_framing(const struct http *h, struct request *r)
{
    const char *body = h->head.method + h->head.bytes;

    r->chunked = true;
    if (!r->visitor || !r->visitor->read)
        return ANSWER_CHUNKS_PIPELINED;
    if (r->visitor->read_end < body || r->visitor->read_end > body + POOL_BYTES)
        return ANSWER_CHUNKS_MALFORMED; /* not the library that we know */
    framing_read(&r->framing, body, (size_t)(r->visitor->read_end - body));
    return r->framing.state == FRAMING_BAD ? ANSWER_CHUNKS_MALFORMED
                                           : ANSWER_NONE;
}

/* The library has seen the end of the body; so must we. */
static bool is_framed(const struct request *r)
{
    return !r->chunked || r->framing.state == FRAMING_END;
}

static void run(struct http *h)
{
    if (!LIBRARY_IS_STRICT)
        tap_open(on_bytes, h);
    MHD_run(h->mhd);
    tap_close();
}

/* ---- a request ---- */

/* The target stays as it was sent; our paths need no escapes. */
static size_t leave_escaped(void *cls, struct MHD_Connection *c, char *text)
{
    (void)cls;
    (void)c;
    return strlen(text);
}

static enum MHD_Result on_header(void *cls, enum MHD_ValueKind kind,
                                 const char *name, size_t name_bytes,
                                 const char *value, size_t value_bytes)
{
    struct head *head = cls;

    (void)kind;
    if (head->count == HEAD_MAX_COUNT) {
        head->count++;
        return MHD_NO;
    }
    head->fields[head->count++] = (struct head_field){
        {name, name_bytes}, {value ? value : "", value ? value_bytes : 0}};
    return MHD_YES;
}

static void pack_headers(struct request *r, const struct head *head)
{
    if (r->query.len)
        headers_put(&r->headers, ":query",
                    (struct bytes){r->query.data, r->query.len});
    for (size_t i = 0; i < head->count; i++) {
        struct bytes value = head->fields[i].value;
        const char *p = value.p;

        while (value.n && (p[value.n - 1] == ' ' || p[value.n - 1] == '\t'))
            value.n--; /* white space around a value is not part of it */
        headers_put(&r->headers, head->fields[i].name.p, value);
    }
}

/* Is a refused request answered only behind its end? libmicrohttpd closes the
 * connection after an answer that comes before it; so only where its length
 * can't be trusted, is too much to throw away, or where the client asks first. */
static bool read_on(enum answer a, const struct head_facts *facts)
{
    bool body = facts->chunked || facts->length > 0;

    if (answer_facts(a)->closes && a != ANSWER_STOPPING)
        return false;
    return !(body && facts->expects) && facts->length <= SWALLOW_MAX_BYTES;
}

static enum answer judge(struct http *h, struct MHD_Connection *c,
                         struct request *r, struct head_facts *facts)
{
    struct head *head = &h->head;
    enum answer a;

    if (r->visitor)
        memcpy(r->remote, r->visitor->remote, sizeof r->remote);
    head->count = 0;
    head->parsed_strictly = LIBRARY_IS_STRICT;
    head->raw_url_bytes = r->raw_url_bytes;
    head->bytes = MHD_get_connection_info(
                      c, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)
                      ->header_size;
    MHD_get_connection_values_n(c, MHD_HEADER_KIND, on_header, head);
    a = head_check(head, facts);
    if (a)
        return a;
    r->method = head->method;
    r->path = head_path(head);
    pack_headers(r, head);
    a = h->ops.admit(h->self, r, facts);
    if (!a && facts->has_length &&
        facts->length > (uint64_t)h->bounds->max_body_bytes)
        a = ANSWER_BODY_TOO_LARGE;
    return a;
}

static enum MHD_Result begin(struct http *h, struct MHD_Connection *c,
                             struct request *r)
{
    struct head_facts facts;

    r->begun = true;
    r->answer = judge(h, c, r, &facts);
    if (facts.chunked && !LIBRARY_IS_STRICT) {
        enum answer wrong = begin_framing(h, r);

        r->answer = wrong ? wrong : r->answer;
    }
    if (!r->answer)
        return MHD_YES;
    h->ops.answered(h->self, r, r->answer);
    return read_on(r->answer, &facts) ? MHD_YES
                                      : responses_say(h, c, r, r->answer);
}

static enum MHD_Result more(struct http *h, struct request *r,
                            const char *piece, size_t n)
{
    if (!r->answer) {
        request_keep(h, r, piece, n);
        return MHD_YES;
    }
    r->swallowed_bytes += n;
    if (r->swallowed_bytes <= SWALLOW_MAX_BYTES)
        return MHD_YES;
    if (r->visitor && r->visitor->visit != VISIT_CUT)
        visit_cut(h, r->visitor, r->answer);
    return MHD_NO;
}

static enum MHD_Result finish(struct http *h, struct MHD_Connection *c,
                              struct request *r)
{
    if (!is_framed(r) && r->answer != ANSWER_CHUNKS_MALFORMED)
        request_misframed(h, r);
    if (r->answer)
        return responses_say(h, c, r, r->answer);
    if (r->taken)
        return MHD_YES;
    if (r->visitor && r->visitor->visit == VISIT_CUT)
        return MHD_NO; /* its time was over; it has been told so */
    r->received_ms = h->now_ms;
    r->taken_ms = h->mono_ms;
    r->answer = h->ops.take(h->self, r);
    request_hold(h, r);
    if (r->answer) {
        h->ops.answered(h->self, r, r->answer);
        return responses_say(h, c, r, r->answer);
    }
    r->taken = true;
    if (r->visitor)
        visit_move(h, r->visitor, VISIT_STANDING);
    return MHD_YES; /* and we are asked again by every run */
}

static enum MHD_Result on_call(void *cls, struct MHD_Connection *c,
                               const char *url, const char *method,
                               const char *version, const char *data,
                               size_t *data_bytes, void **context)
{
    struct http *h = cls;
    struct request *r = *context;
    size_t n = *data_bytes;

    if (!r)
        return MHD_NO; /* on_line() always makes one */
    if (!r->begun) {
        h->head.method = method;
        h->head.url = url;
        h->head.version = version;
        return begin(h, c, r);
    }
    *data_bytes = 0;
    return n ? more(h, r, data, n) : finish(h, c, r);
}

void http_answer(struct http *h, struct request *r, enum answer a)
{
    assert(r->taken && a);
    r->answer = a;
    r->taken = false;
    h->answers++;
    h->ops.answered(h->self, r, a);
    if (!r->visitor)
        request_free(h, r);
}

/* ---- opening, turning, closing ---- */

GR_PRINTF(2, 0)
static void mhd_says(void *cls, const char *format, va_list args)
{
    char text[256];
    size_t n;

    (void)cls;
    if (!log_wants(LOG_DEBUG))
        return;
    vsnprintf(text, sizeof text, format, args);
    n = strcspn(text, "\n");
    text[n] = 0;
    log_debug(NULL, "libmicrohttpd", LS("says", text));
}

/* Past the process's bound on open files nobody is accepted, and then nobody makes
 * room (visits.c). So the connections must stay below it, with some files left
 * for ourselves. */
static int64_t most_connections(const struct http_bounds *bounds)
{
    struct rlimit files;
    int64_t most = bounds->max_connections, left;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur > INT64_MAX / 2)
        return most;
    left = (int64_t)files.rlim_cur - OWN_FILES;
    if (left >= most)
        return most;
    most = left < 1 ? 1 : left;
    log_warn(NULL,
             "this process may open too few files for ingress.max_connections; "
             "raise its limit (ulimit -n)",
             LI("files", (int64_t)files.rlim_cur),
             LI("max_connections", bounds->max_connections),
             LI("connections", most));
    return most;
}

struct http *http_open(const char *host, int port,
                       const struct http_bounds *bounds,
                       const struct http_ops *ops, void *self,
                       listen_siblings *siblings, void *arg)
{
    struct http *h = gr_alloc(sizeof *h);
    int fd = listen_on("ingress.listen", host, port, siblings, arg);

    h->bounds = bounds;
    h->most_connections = most_connections(bounds);
    h->ops = *ops;
    h->self = self;
    h->now_ms = now_ms();
    h->mono_ms = mono_ms();
    waiters_init(&h->waiting);
    TAILQ_INIT(&h->spare);
    responses_make(h);
    /* No idle timeout (0), because we have deadlines; strictness is head.c's.
     * A request that was taken is not suspended: suspending costs four system
     * calls, and being asked again costs none (docs/decisions/0009). */
    h->mhd = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG, (uint16_t)port, NULL, NULL, on_call,
        h, MHD_OPTION_EXTERNAL_LOGGER, mhd_says, h, MHD_OPTION_LISTEN_SOCKET,
        fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)h->most_connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_NOTIFY_CONNECTION,
        visit_notify, h, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
        MHD_OPTION_URI_LOG_CALLBACK, on_line, h, MHD_OPTION_UNESCAPE_CALLBACK,
        leave_escaped, h, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        STRICTLY MHD_OPTION_END);
    if (!h->mhd)
        die(EXIT_UNAVAILABLE, "libmicrohttpd does not start on %s:%d", host,
            port);
    h->epoll_fd =
        MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    return h;
}

int http_fd(const struct http *h)
{
    return h->epoll_fd;
}

int http_run(struct http *h, int64_t now_wall_ms, int64_t now_mono_ms)
{
    MHD_UNSIGNED_LONG_LONG more_ms = 1;
    int due_ms;

    h->now_ms = now_wall_ms;
    h->mono_ms = now_mono_ms;
    /* One run makes an answer, the next writes it. */
    run(h);
    if (h->answers) {
        h->answers = 0;
        run(h);
    }
    if (MHD_get_timeout(h->mhd, &more_ms) == MHD_NO)
        more_ms = 1;
    due_ms = visits_time_out(h); /* what has come was read before */
    if (h->room_made)
        due_ms = 0;
    h->room_made = false;
    return more_ms ? due_ms : 0;
}

/* Who has come before is heard, and gets an answer: else the kernel resets him. */
static void hear_all(struct http *h)
{
    uint64_t heard;

    for (int i = 0; i < HEAR_RUNS; i++) {
        heard = h->heard;
        run(h);
        if (heard == h->heard && i)
            return;
    }
}

void http_quiesce(struct http *h)
{
    struct visitor *v, *next;
    int fd;

    if (h->quiesced)
        return;
    hear_all(h);
    h->quiesced = true;
    fd = MHD_quiesce_daemon(h->mhd);
    if (fd >= 0)
        close(fd);
    for (v = visitor_waiting(TAILQ_FIRST(&h->waiting)); v; v = next) {
        next = visitor_waiting(TAILQ_NEXT(&v->waiter, link));
        if (v->visit == VISIT_BETWEEN)
            visit_leave(h, v);
    }
}

struct http_figures http_figures(const struct http *h)
{
    return h->figures;
}

/* Whose request is still not whole is told why it goes no further. */
static void say_stopping(struct http *h)
{
    struct visitor *v, *next;

    for (v = visitor_waiting(TAILQ_FIRST(&h->waiting)); v; v = next) {
        next = visitor_waiting(TAILQ_NEXT(&v->waiter, link));
        if (v->visit != VISIT_READING || !v->request)
            continue;
        if (!v->request->answer)
            h->ops.answered(h->self, v->request, ANSWER_STOPPING);
        visit_cut(h, v,
                  v->request->answer ? v->request->answer : ANSWER_STOPPING);
    }
}

void http_close(struct http *h)
{
    if (!h)
        return;
    say_stopping(h);
    MHD_stop_daemon(h->mhd);
    requests_free_spare(h);
    responses_free(h);
    free(h->by_fd);
    free(h);
}
