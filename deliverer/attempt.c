#include "attempt.h"
#include "bounds.h"
#include "clock.h"
#include "daemon.h"
#include "log.h"
#include "task.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS_PER_TURN = 512,
    KEPT_CONNECTIONS = 1024,
    IDLE_CONNECTION_S = 60, /* a connection idle for longer is not used again */
    OLD_CONNECTION_S = 600, /* so that certificates and names are looked at */
    REQUEST_BUFFER_BYTES = 64 * 1024,
};

/* ---- lists ---- */

static void list_add(struct flight_list *l, struct flight *f)
{
    f->prev = l->last;
    f->next = NULL;
    if (l->last)
        l->last->next = f;
    else
        l->first = f;
    l->last = f;
    l->count++;
}

static void list_drop(struct flight_list *l, struct flight *f)
{
    if (f->prev)
        f->prev->next = f->next;
    else
        l->first = f->next;
    if (f->next)
        f->next->prev = f->prev;
    else
        l->last = f->prev;
    f->next = f->prev = NULL;
    l->count--;
}

/* ---- what libcurl asks of us: one request ---- */

static size_t on_body(char *p, size_t size, size_t count, void *self)
{
    struct flight *f = self;
    size_t n = size * count, room = RESPONSE_MAX_BYTES - f->response.len;

    f->answer_bytes += n;
    buf_put(&f->response, p, n < room ? n : room);
    return f->answer_bytes > ANSWER_MAX_BYTES ? 0 : n; /* 0: enough of it */
}

static size_t on_header(char *p, size_t size, size_t count, void *self)
{
    struct flight *f = self;
    size_t n = size * count;
    long status = 0;

    /* The empty line: an answer's headers are complete. A 1xx is none yet. */
    if (n <= 2 && (p[0] == '\r' || p[0] == '\n')) {
        curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status);
        if (status >= 200) {
            f->answer.answered = true;
            f->answer.status = status;
        }
    }
    return n;
}

static curl_socket_t on_open(void *self, curlsocktype purpose,
                             struct curl_sockaddr *to)
{
    struct flight *f = self;
    int fd;

    (void)purpose;
    if (!guard_allows(&f->config->guard, &to->addr)) {
        f->answer.blocked = true;
        return CURL_SOCKET_BAD;
    }
    fd = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
    if (fd < 0)
        f->answer.starved = errno == EMFILE || errno == ENFILE ||
                            errno == ENOBUFS || errno == ENOMEM;
    else
        f->answer.opened = true;
    *f->connections += fd >= 0;
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/* Before each request, also on a connection that is used again: it may have
 * been opened for an endpoint that is allowed more than this one. */
static int on_request(void *self, char *ip, char *local_ip, int port,
                      int local_port)
{
    struct flight *f = self;

    (void)local_ip;
    (void)port;
    (void)local_port;
    f->answer.opened = true;
    if (guard_allows_text(&f->config->guard, ip))
        return CURL_PREREQFUNC_OK;
    f->answer.blocked = true;
    return CURL_PREREQFUNC_ABORT;
}

/* ---- what libcurl asks of us: sockets and timer ---- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *self,
                     void *known)
{
    struct flights *fs = self;
    struct epoll_event e = {.data.fd = fd};

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(fs->epoll, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    if (what & CURL_POLL_IN)
        e.events |= EPOLLIN;
    if (what & CURL_POLL_OUT)
        e.events |= EPOLLOUT;
    if (epoll_ctl(fs->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e) !=
        0)
        log_warn(NULL, "epoll_ctl failed", LS("why", strerror(errno)));
    if (!known)
        curl_multi_assign(fs->multi, fd, fs);
    return 0;
}

static int on_timer(CURLM *multi, long in_ms, void *self)
{
    struct flights *fs = self;

    (void)multi;
    fs->timer_ms = in_ms < 0 ? -1 : mono_ms() + in_ms;
    return 0;
}

/* ---- open and close ---- */

void flights_open(struct flights *fs)
{
    *fs = (struct flights){.timer_ms = -1};
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        die(EXIT_UNAVAILABLE, "libcurl can't be used");
    fs->multi = curl_multi_init();
    fs->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!fs->multi || fs->epoll < 0)
        die(EXIT_UNAVAILABLE, "no epoll: %s", strerror(errno));
    curl_multi_setopt(fs->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(fs->multi, CURLMOPT_SOCKETDATA, fs);
    curl_multi_setopt(fs->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(fs->multi, CURLMOPT_TIMERDATA, fs);
    curl_multi_setopt(fs->multi, CURLMOPT_MAXCONNECTS, (long)KEPT_CONNECTIONS);
}

static void flight_free(struct flight *f)
{
    curl_easy_cleanup(f->easy);
    endpoint_config_drop(f->config);
    request_fini(&f->request);
    buf_fini(&f->response);
    free(f);
}

void flights_close(struct flights *fs)
{
    struct flight *f;

    flights_interrupt(fs);
    while ((f = fs->ended.first)) {
        list_drop(&fs->ended, f);
        flight_free(f);
    }
    while ((f = fs->idle)) {
        fs->idle = f->next;
        flight_free(f);
    }
    curl_multi_cleanup(fs->multi);
    close(fs->epoll);
    curl_global_cleanup();
}

/* ---- one flight ---- */

/* Options that are the same in all attempts. */
static void set_fixed_options(struct flight *f)
{
    CURL *e = f->easy;

    curl_easy_setopt(e, CURLOPT_PROXY, ""); /* else http_proxy decides … */
    curl_easy_setopt(e, CURLOPT_NOPROXY,
                     "*"); /* … and the guard sees a proxy */
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(e, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_NOPROGRESS, 1L);
    /* A name that does not resolve: leave its thread behind, do not wait for
     * it, or one dead name server stops every endpoint. */
    curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_MAXAGE_CONN, (long)IDLE_CONNECTION_S);
    curl_easy_setopt(e, CURLOPT_MAXLIFETIME_CONN, (long)OLD_CONNECTION_S);
    curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, (long)REQUEST_BUFFER_BYTES);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "Grapnel/" GRAPNEL_VERSION);
    curl_easy_setopt(e, CURLOPT_POST, 1L);
    curl_easy_setopt(e, CURLOPT_PRIVATE, f);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, f);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, f);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, f);
    curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, on_request);
    curl_easy_setopt(e, CURLOPT_PREREQDATA, f);
}

static struct flight *flight_take(struct flights *fs)
{
    struct flight *f = fs->idle;

    if (f) {
        fs->idle = f->next;
        f->next = NULL;
        return f;
    }
    f = gr_alloc(sizeof *f);
    f->easy = curl_easy_init();
    if (!f->easy)
        die(EXIT_UNAVAILABLE, "libcurl is out of memory");
    request_init(&f->request);
    buf_init(&f->response, RESPONSE_MAX_BYTES);
    set_fixed_options(f);
    return f;
}

static void set_options(struct flight *f)
{
    const struct endpoint_config *c = f->config;
    const struct task *t = f->task;
    CURL *e = f->easy;

    curl_easy_setopt(e, CURLOPT_URL, c->url);
    curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, c->put ? "PUT" : NULL);
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)c->timeout_ms);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)c->connect_timeout_ms);
    curl_easy_setopt(e, CURLOPT_POSTFIELDS, (const char *)t->w.body.p);
    curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->w.body.n);
    curl_easy_setopt(
        e, CURLOPT_HTTPHEADER,
        request_headers(&f->request, &t->w,
                        (struct bytes){c->headers, c->headers_bytes},
                        &c->signer, t->attempts + 1, f->at_ms));
}

bool flights_room(const struct flights *fs)
{
    return fs->active.count + fs->ended.count < FLIGHTS_MAX;
}

void flight_begin(struct flights *fs, struct task *t,
                  struct endpoint_config *config, int64_t now_ms)
{
    struct flight *f = flight_take(fs);

    f->task = t;
    f->connections = &fs->connections;
    f->config = endpoint_config_use(config);
    f->answer = (struct answer){0};
    f->answer_bytes = 0;
    f->interrupted = f->decided = f->recorded = false;
    f->attempt_id = random_id();
    f->at_ms = now_ms;
    f->began_us = mono_us();
    f->retry_after_ms = 0;
    buf_reset(&f->response);
    set_options(f);
    list_add(&fs->active, f);
    if (curl_multi_add_handle(fs->multi, f->easy) != CURLM_OK)
        die(EXIT_UNAVAILABLE, "libcurl takes no more requests");
}

static void end(struct flights *fs, struct flight *f, CURLcode code)
{
    curl_off_t wait_s = 0;
    long os_errno = 0;

    curl_easy_getinfo(f->easy, CURLINFO_RETRY_AFTER, &wait_s);
    curl_easy_getinfo(f->easy, CURLINFO_OS_ERRNO, &os_errno);
    curl_multi_remove_handle(fs->multi, f->easy);
    f->answer.code = code;
    f->answer.os_errno = (int)os_errno;
    /* In seconds; 7.88 makes a past date a large negative number. */
    f->retry_after_ms = wait_s < 0 ? 0
                        : wait_s > DAY_MS / SECOND_MS
                            ? DAY_MS
                            : (int64_t)wait_s * SECOND_MS;
    f->duration_ms = (mono_us() - f->began_us + 500) / 1000;
    list_drop(&fs->active, f);
    list_add(&fs->ended, f);
}

static void take_ends(struct flights *fs)
{
    struct flight *f;
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(fs->multi, &left))) {
        CURLcode code = m->data.result;

        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &f);
        end(fs, f, code);
    }
}

static void take_events(struct flights *fs)
{
    struct epoll_event events[EVENTS_PER_TURN];
    int running, n = epoll_wait(fs->epoll, events, EVENTS_PER_TURN, 0);

    for (int i = 0; i < n; i++) {
        int mask = 0;

        if (events[i].events & EPOLLIN)
            mask |= CURL_CSELECT_IN;
        if (events[i].events & EPOLLOUT)
            mask |= CURL_CSELECT_OUT;
        if (events[i].events & (EPOLLERR | EPOLLHUP))
            mask |= CURL_CSELECT_ERR;
        curl_multi_socket_action(fs->multi, events[i].data.fd, mask, &running);
    }
}

void flights_turn(struct flights *fs)
{
    int running;

    take_events(fs);
    if (fs->timer_ms >= 0 && fs->timer_ms <= mono_ms()) {
        fs->timer_ms = -1;
        curl_multi_socket_action(fs->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    take_ends(fs);
}

int flights_wait_ms(const struct flights *fs)
{
    int64_t left;

    if (fs->timer_ms < 0)
        return -1;
    left = fs->timer_ms - mono_ms();
    return left < 0 ? 0 : left > MINUTE_MS ? (int)MINUTE_MS : (int)left;
}

void flights_interrupt(struct flights *fs)
{
    take_ends(fs);
    while (fs->active.first) {
        fs->active.first->interrupted = true;
        end(fs, fs->active.first, CURLE_ABORTED_BY_CALLBACK);
    }
}

void flight_done(struct flights *fs, struct flight *f)
{
    list_drop(&fs->ended, f);
    endpoint_config_drop(f->config);
    f->config = NULL;
    f->task = NULL;
    f->next = fs->idle;
    fs->idle = f;
}
