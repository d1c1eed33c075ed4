/* Tests of reach with real sockets: which processes count, by tcp and on this host, and since when none is reached.
 *
 * Without a descriptor it cannot ask, which is not the same as reaching nobody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "alloc.h"
#include "clock.h"
#include "processes.h"
#include "reach.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PEERS_MAX = 4, TAKEOVER_MS = 1000 };

static struct test {
    char dir[64];
    struct cluster_peer peers[PEERS_MAX];
    struct settings settings;
} t;

static int setup(void **state)
{
    (void)state;
    memset(&t, 0, sizeof t);
    strcpy(t.dir, "/tmp/reach-XXXXXX");
    assert_non_null(mkdtemp(t.dir));
    t.settings.run_dir = t.dir;
    t.settings.cluster.peers = t.peers;
    t.settings.replicate.takeover_after_ms = TAKEOVER_MS;
    return 0;
}

static int teardown(void **state)
{
    char *command = gr_printf("rm -r %s", t.dir);

    (void)state;
    assert_int_equal(system(command), 0);
    free(command);
    for (size_t i = 0; i < t.settings.cluster.peer_count; i++)
        free(t.peers[i].address);
    return 0;
}

/* An instance at this port. */
static void add_peer(char *name, int port)
{
    t.peers[t.settings.cluster.peer_count++] = (struct cluster_peer){
        .name = name, .address = gr_printf("127.0.0.1:%d", port)};
}

static int port_of(int fd)
{
    struct sockaddr_in at;
    socklen_t n = sizeof at;

    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    return ntohs(at.sin_port);
}

/* A bound socket, whose port nobody else gets; it refuses connections until listen(). */
static int bound(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static int active(char *name)
{
    int fd = bound();

    assert_int_equal(listen(fd, 100), 0);
    add_peer(name, port_of(fd));
    return fd;
}

static int standby(char *name)
{
    int fd = bound();

    add_peer(name, port_of(fd));
    return fd;
}

/* Of a process on this host. */
static int inbox(const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(at.sun_path, sizeof at.sun_path, "%.60s/%s", t.dir, name);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 100), 0);
    return fd;
}

static struct reach_state state_of(struct reach *r)
{
    struct reach_state s;

    reach_state(r, &s);
    return s;
}

static void wait_for(struct reach *r, int reached)
{
    while (state_of(r).reached != reached)
        usleep(1000);
}

static void wait_alone(struct reach *r, int64_t ms)
{
    while (state_of(r).none_ms < ms)
        usleep(1000);
}

static void each_name_counts_once_and_standbys_do_not(void **state)
{
    int fds[] = {standby("sequencer"), active("sequencer"), active("dlqd"),
                 inbox("sequencer.inbox")};
    struct reach *r = reach_open("ingress", &t.settings);

    (void)state;
    wait_for(r, 1);
    assert_int_equal(state_of(r).none_ms, 0);
    reach_close(r);
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        close(fds[i]);
}

static void a_process_of_this_host_is_reached_at_its_inbox(void **state)
{
    int fds[] = {inbox("ingress-2.inbox"), inbox("dlqd.inbox"),
                 inbox("ingress.control"), inbox("outbox.inbox"),
                 inbox("sequencer.inbox")};
    struct reach *r = reach_open("sequencer", &t.settings);

    (void)state;
    wait_for(r, 2);
    close(fds[0]); /* it was killed: its file stays */
    wait_for(r, 1);
    reach_close(r);
    for (size_t i = 1; i < COUNT_OF(fds); i++)
        close(fds[i]);
}

/* From the first round that reaches nobody. */
static void it_knows_since_when_nobody_is_reached(void **state)
{
    int fd = standby("sequencer"), connection;
    struct reach *r = reach_open("dlqd", &t.settings);

    (void)state;
    wait_alone(r, TAKEOVER_MS / 2);
    assert_int_equal(state_of(r).reached, 0);
    assert_int_equal(listen(fd, 100), 0);
    wait_for(r, 1);
    assert_int_equal(state_of(r).none_ms, 0);
    /* What was accepted is closed by the other end. */
    connection = accept(fd, NULL, NULL);
    assert_true(connection >= 0);
    assert_int_equal(read(connection, &(char){0}, 1), 0);
    close(connection);
    close(fd);
    wait_alone(r, 1);
    assert_int_equal(state_of(r).reached, 0);
    reach_close(r);
}

/* As with a network that is cut: connections are neither accepted nor refused. */
static void a_round_ends_when_nobody_responds(void **state)
{
    int fd = bound(), full[8];
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port_of(fd))};
    struct reach *r;

    (void)state;
    assert_int_equal(listen(fd, 0), 0);
    for (size_t i = 0; i < COUNT_OF(full); i++) {
        full[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                         0);
        (void)connect(full[i], (struct sockaddr *)&at, sizeof at);
    }
    add_peer("sequencer", port_of(fd));
    r = reach_open("ingress", &t.settings);
    wait_alone(r, 1);
    assert_int_equal(state_of(r).reached, 0);
    reach_close(r);
    for (size_t i = 0; i < COUNT_OF(full); i++)
        close(full[i]);
    close(fd);
}

static void a_reload_brings_other_peers(void **state)
{
    int first = standby("sequencer"), second;
    struct reach *r = reach_open("ingress", &t.settings);

    (void)state;
    wait_alone(r, 1);
    second = active("sequencer");
    reach_reload(r, &t.settings);
    wait_for(r, 1);
    reach_close(r);
    close(first);
    close(second);
}

static void a_host_name_is_looked_up(void **state)
{
    int fd = bound();
    struct reach *r;

    (void)state;
    assert_int_equal(listen(fd, 100), 0);
    t.peers[t.settings.cluster.peer_count++] = (struct cluster_peer){
        .name = "sequencer", .address = gr_printf("localhost:%d", port_of(fd))};
    r = reach_open("ingress", &t.settings);
    wait_for(r, 1);
    reach_close(r);
    close(fd);
}

/* A flood of clients may have used up all descriptors. */
static void without_descriptors_it_does_not_say_that_it_is_alone(void **state)
{
    int fd = active("sequencer");
    struct rlimit all, none;
    struct reach *r;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = all.rlim_max};
    r = reach_open("ingress", &t.settings);
    wait_for(r, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (int i = 0; i < 8; i++) { /* four rounds, which can ask nobody */
        assert_int_equal(state_of(r).reached, 1);
        assert_int_equal(state_of(r).none_ms, 0);
        usleep((useconds_t)reach_every_ms(TAKEOVER_MS) * 1000 / 2);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
    wait_for(r, 1);
    reach_close(r);
    close(fd);
}

/* The alert `active_alone` waits for a minute: a round from before the other processes were started must not last longer. */
static void a_round_begins_often_however_long_takeovers_wait(void **state)
{
    (void)state;
    assert_int_equal(reach_every_ms(3 * SECOND_MS), 750);
    assert_int_equal(reach_every_ms(15 * SECOND_MS), 3750);
    assert_int_equal(reach_every_ms(HOUR_MS), 15 * SECOND_MS);
}

static void messages_go_by_the_sequencer(void **state)
{
    static const struct {
        const char *a, *b;
        bool yes;
    } cases[] = {
        {"ingress", "sequencer", true},     {"ingress-2", "sequencer", true},
        {"sequencer", "deliverer-7", true}, {"dlqd", "sequencer", true},
        {"ingress", "ingress-2", false},    {"ingress", "dlqd", false},
        {"dlqd", "deliverer-1", false},     {"sequencer", "console", false},
        {"sequencer", "outbox", false},     {"sequencer", "sequencer", false},
        {"sequencer", "ingresses", false}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(processes_exchange(cases[i].a, cases[i].b),
                         cases[i].yes);
        assert_int_equal(processes_exchange(cases[i].b, cases[i].a),
                         cases[i].yes);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(each_name_counts_once_and_standbys_do_not),
        T(a_process_of_this_host_is_reached_at_its_inbox),
        T(it_knows_since_when_nobody_is_reached),
        T(a_round_ends_when_nobody_responds),
        T(a_reload_brings_other_peers),
        T(a_host_name_is_looked_up),
        T(without_descriptors_it_does_not_say_that_it_is_alone),
        cmocka_unit_test(a_round_begins_often_however_long_takeovers_wait),
        cmocka_unit_test(messages_go_by_the_sequencer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
