/* bare-post: libcurl alone, as fast as it goes: the same body over and over to
 * one URL, so many requests at once, each handle used again, one thread with
 * one epoll. It shows how fast a deliverer could be if it stored and signed nothing
 * and had no sequencer.
 *
 *   bare-post URL COUNT AT_ONCE BODY_BYTES [HEADER...]
 *
 * HEADER: "name: value", made once, sent with each request beside libcurl's
 * own. Prints seconds, and how many got 2xx. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

enum { EVENTS_AT_ONCE = 512, WAIT_MS = 1000 };

struct bare {
    CURLM *multi;
    int epoll;
    long left_ms; /* libcurl's timer; -1: none */
    long begun, ended, good, count;
};

static size_t forget(char *p, size_t size, size_t n, void *self)
{
    (void)p, (void)self;
    return size * n;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *self,
                     void *known)
{
    struct bare *b = self;
    struct epoll_event e = {.data.fd = fd};

    (void)easy;
    if (what == CURL_POLL_REMOVE)
        return epoll_ctl(b->epoll, EPOLL_CTL_DEL, fd, NULL), 0;
    e.events = (what & CURL_POLL_IN ? EPOLLIN : 0) |
               (what & CURL_POLL_OUT ? EPOLLOUT : 0);
    epoll_ctl(b->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e);
    if (!known)
        curl_multi_assign(b->multi, fd, b);
    return 0;
}

static int on_timer(CURLM *multi, long in_ms, void *self)
{
    (void)multi;
    ((struct bare *)self)->left_ms = in_ms;
    return 0;
}

static void begin(struct bare *b, CURL *easy)
{
    if (b->begun < b->count) {
        b->begun++;
        curl_multi_add_handle(b->multi, easy);
    }
}

static void take_ends(struct bare *b)
{
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(b->multi, &left))) {
        CURL *easy = m->easy_handle;
        long status = 0;

        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        b->good += status >= 200 && status < 300;
        b->ended++;
        curl_multi_remove_handle(b->multi, easy);
        begin(b, easy);
    }
}

static void turn(struct bare *b)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    long wait_ms = b->left_ms < 0 || b->left_ms > WAIT_MS ? WAIT_MS
                                                          : b->left_ms;
    int running, n = epoll_wait(b->epoll, events, EVENTS_AT_ONCE, (int)wait_ms);

    for (int i = 0; i < n; i++)
        curl_multi_socket_action(
            b->multi, events[i].data.fd,
            (events[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) |
                (events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                (events[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR
                                                          : 0),
            &running);
    if (n == 0 || b->left_ms == 0) {
        b->left_ms = -1;
        curl_multi_socket_action(b->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    take_ends(b);
}

static struct curl_slist *headers(char **lines)
{
    struct curl_slist *list = NULL;

    for (; *lines; lines++)
        list = curl_slist_append(list, *lines);
    return list;
}

static CURL *handle(const char *url, const char *body, long bytes,
                    struct curl_slist *list)
{
    CURL *e = curl_easy_init();

    curl_easy_setopt(e, CURLOPT_URL, url);
    curl_easy_setopt(e, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE, bytes);
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, forget);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    return e;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    struct bare b = {.left_ms = -1};
    long at_once, bytes;
    struct curl_slist *list;
    double began;
    char *body;

    if (argc < 5)
        return fputs("bare-post URL COUNT AT_ONCE BODY_BYTES [HEADER...]\n",
                     stderr),
               64;
    b.count = strtol(argv[2], NULL, 10);
    at_once = strtol(argv[3], NULL, 10);
    bytes = strtol(argv[4], NULL, 10);
    body = malloc((size_t)bytes + 1);
    if (!body || at_once < 1 || at_once > 10000)
        return 64;
    memset(body, 'x', (size_t)bytes);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    list = headers(argv + 5);
    b.multi = curl_multi_init();
    b.epoll = epoll_create1(EPOLL_CLOEXEC);
    curl_multi_setopt(b.multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(b.multi, CURLMOPT_SOCKETDATA, &b);
    curl_multi_setopt(b.multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(b.multi, CURLMOPT_TIMERDATA, &b);
    began = now();
    for (long i = 0; i < at_once; i++)
        begin(&b, handle(argv[1], body, bytes, list));
    while (b.ended < b.count)
        turn(&b);
    printf("%.4f %ld\n", now() - began, b.good);
    return b.good == b.count ? 0 : 1;
}
