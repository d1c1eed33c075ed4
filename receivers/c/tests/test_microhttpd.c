/* The middleware for libmicrohttpd: what it responds, and what it lets through. */
#include "support.h"
#include <arpa/inet.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static struct grapnel_microhttpd endpoint;
static struct MHD_Daemon *server;
static struct grapnel_store *store;
static struct grapnel_receiver *receiver;
static int returns;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char logged[400];
static int completed;

static int64_t the_time(void *arg)
{
    (void)arg;
    return scenario_now_s();
}

static void log_to_test(void *arg, const char *line)
{
    (void)arg;
    pthread_mutex_lock(&mutex);
    snprintf(logged, sizeof logged, "%s", line);
    pthread_mutex_unlock(&mutex);
}

static enum MHD_Result respond(void *arg, struct MHD_Connection *connection,
                               const char *url, const char *method,
                               const char *version, const char *data,
                               size_t *size, void **request)
{
    (void)arg;
    (void)url;
    (void)version;
    return grapnel_microhttpd_respond(&endpoint, connection, method, data, size,
                                      request);
}

static void on_completed(void *arg, struct MHD_Connection *connection,
                         void **request, enum MHD_RequestTerminationCode why)
{
    (void)arg;
    (void)connection;
    (void)why;
    grapnel_microhttpd_completed(request);
    __atomic_fetch_add(&completed, 1, __ATOMIC_SEQ_CST);
}

static int begin(void **state)
{
    (void)state;
    returns = 0;
    logged[0] = 0;
    store = grapnel_memory_store_new(0, 0);
    receiver = grapnel_receiver_new(store, scenario_key(), NULL);
    grapnel_receiver_set_clock(receiver, the_time, NULL);
    endpoint = (struct grapnel_microhttpd){.receiver = receiver,
                                           .handle = do_nothing,
                                           .arg = &returns,
                                           .body_max_bytes = 20000,
                                           .log = log_to_test};
    server = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD, 0,
        NULL, NULL, respond, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        NULL, MHD_OPTION_END);
    return server ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    MHD_stop_daemon(server);
    grapnel_receiver_free(receiver);
    grapnel_store_free(store);
    return 0;
}

static int connected(void)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_port = htons(
            MHD_get_daemon_info(server, MHD_DAEMON_INFO_BIND_PORT)->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(s >= 0);
    assert_int_equal(connect(s, (struct sockaddr *)&to, sizeof to), 0);
    return s;
}

static void send_all(int s, const void *p, size_t n)
{
    const char *at = p;

    while (n) {
        ssize_t sent = send(s, at, n, MSG_NOSIGNAL);

        if (sent <= 0) /* it has responded and closed */
            return;
        at += sent;
        n -= (size_t)sent;
    }
}

/* The head of a request with the headers of `q`. */
static void send_head(int s, const char *method, struct request *q,
                      const char *length)
{
    char line[2000];

    send_all(s, line,
             (size_t)snprintf(line, sizeof line,
                              "%s /hooks HTTP/1.1\r\nHost: x\r\n"
                              "Connection: close\r\n%s\r\n",
                              method, length));
    for (size_t i = 0; i < q->count; i++)
        send_all(s, line,
                 (size_t)snprintf(
                     line, sizeof line, "%.*s: %.*s\r\n",
                     (int)q->headers[i].name_bytes, q->headers[i].name,
                     (int)q->headers[i].value_bytes, q->headers[i].value));
    send_all(s, "\r\n", 2);
}

static _Thread_local char response[2000];

/* Returns the status; 0: the connection was closed without a response. */
static int status_of(int s)
{
    size_t n = 0;
    ssize_t got;

    while (n < sizeof response - 1 &&
           (got = recv(s, response + n, sizeof response - 1 - n, 0)) > 0)
        n += (size_t)got;
    response[n] = 0;
    close(s);
    return n > 12 ? (int)strtol(response + 9, NULL, 10) : 0;
}

static int ask(const char *method, struct request *q, const char *body,
               size_t n)
{
    int s = connected();
    char length[60];

    snprintf(length, sizeof length, "Content-Length: %zu", n);
    send_head(s, method, q, length);
    for (size_t i = 0; i < n; i += 7) /* in small parts */
        send_all(s, body + i, n - i < 7 ? n - i : 7);
    return status_of(s);
}

static void it_responds(void **state)
{
    static char large[20001];
    struct request q = delivery("in order", 0);
    char *changed = malloc(q.body_bytes + 1);

    (void)state;
    returns = 3;
    assert_int_equal(ask("POST", &q, q.body, q.body_bytes), 503);
    assert_non_null(strstr(logged, "Grapnel sends it again"));
    assert_non_null(strstr(logged, "returned 3"));
    returns = 0;
    assert_int_equal(ask("POST", &q, q.body, q.body_bytes), 204);
    assert_int_equal(ask("PUT", &q, q.body, q.body_bytes), 204);
    assert_non_null(changed);
    memcpy(changed, q.body, q.body_bytes);
    changed[q.body_bytes] = ' ';
    assert_int_equal(ask("POST", &q, changed, q.body_bytes + 1), 401);
    assert_non_null(strstr(logged, "webhook-signature is wrong"));
    assert_int_equal(ask("POST", &q, large, sizeof large), 413);
    assert_int_equal(ask("POST", &q, large, sizeof large - 1), 401);
    assert_int_equal(ask("GET", &q, "", 0), 405);
    assert_non_null(strstr(response, "Allow: POST, PUT"));
    add_header(&q, "webhook-id", "evt_1", 5);
    assert_int_equal(ask("POST", &q, q.body, q.body_bytes), 401);
    assert_non_null(strstr(logged, "2 headers webhook-id"));
    free(changed);
    request_free(&q);
}

/* A body in chunks, as clients send it that do not know its length. */
static int ask_in_chunks(struct request *q, size_t count)
{
    static char chunk[1000];
    int s = connected();
    char line[32];

    send_head(s, "POST", q, "Transfer-Encoding: chunked");
    if (!count) {
        send_all(s, line,
                 (size_t)snprintf(line, sizeof line, "%zx\r\n", q->body_bytes));
        send_all(s, q->body, q->body_bytes);
        send_all(s, "\r\n", 2);
    }
    for (size_t i = 0; i < count; i++) {
        send_all(s, "3e8\r\n", 5);
        send_all(s, chunk, sizeof chunk);
        send_all(s, "\r\n", 2);
    }
    send_all(s, "0\r\n\r\n", 5);
    return status_of(s);
}

static void a_body_without_a_length_is_bounded(void **state)
{
    struct request q = delivery("in order", 0);

    (void)state;
    assert_int_equal(ask_in_chunks(&q, 0), 204);
    assert_int_equal(ask_in_chunks(&q, 20), 401);
    assert_int_equal(ask_in_chunks(&q, 21), 0);
    request_free(&q);
}

/* While the event is being processed, it arrives again. */
static int ask_inside(void *arg, const struct grapnel_event *e,
                      const struct grapnel_check *check,
                      const struct grapnel_transaction *t)
{
    struct request *q = arg;

    (void)e;
    (void)check;
    (void)t;
    assert_int_equal(ask("POST", q, q->body, q->body_bytes), 503);
    assert_non_null(strstr(response, "Retry-After: 10"));
    return 0;
}

static void it_responds_busy(void **state)
{
    struct request q = delivery("in order", 0);

    (void)state;
    endpoint.handle = ask_inside;
    endpoint.arg = &q;
    assert_int_equal(ask("POST", &q, q.body, q.body_bytes), 204);
    assert_string_equal(logged, "");
    request_free(&q);
}

/* The leak checker says whether its memory was freed. */
static void a_client_that_leaves_is_forgotten(void **state)
{
    struct request q = delivery("in order", 0);
    int before = __atomic_load_n(&completed, __ATOMIC_SEQ_CST);
    int s = connected();

    (void)state;
    send_head(s, "POST", &q, "Content-Length: 10000");
    send_all(s, "{\"half\":", 8);
    close(s);
    while (__atomic_load_n(&completed, __ATOMIC_SEQ_CST) == before)
        usleep(1000);
    assert_int_equal(ask("POST", &q, q.body, q.body_bytes), 204);
    request_free(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_responds, begin, end),
        cmocka_unit_test_setup_teardown(a_body_without_a_length_is_bounded,
                                        begin, end),
        cmocka_unit_test_setup_teardown(it_responds_busy, begin, end),
        cmocka_unit_test_setup_teardown(a_client_that_leaves_is_forgotten,
                                        begin, end),
    };
    int failed;

    vectors(); /* before there are threads */
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    vectors_close();
    return failed;
}
