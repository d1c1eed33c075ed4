/* reach: connects to the other processes of the pipeline, and counts which accept. */
#include "reach.h"
#include "alloc.h"
#include "bounds.h"
#include "clock.h"
#include "ipc.h"
#include "processes.h"
#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVERY_MIN_MS = 250,
    EVERY_MAX_MS = 15 * SECOND_MS, /* the alert active_alone waits a minute */
    ROUND_MS = 1000,               /* for all connections of a round */
    ADDRESSES_MAX = 4              /* of one host name */
};

#define SUFFIX ".inbox"

struct place {
    struct sockaddr_storage at;
    socklen_t size;
};

/* An instance in `cluster.peers`. */
struct target {
    char *name, *address; /* host:port, of the inbox */
    struct place places[ADDRESSES_MAX];
    int count;    /* of places */
    bool numeric; /* the address needs no resolver */
    bool reached; /* in the last round, so its places are right */
};

struct targets {
    struct target *all;
    size_t count;
};

struct attempt {
    int fd;
    struct target *target;
};

struct reach {
    char *name, *run_dir;
    int64_t every_ms;
    struct targets targets; /* the thread's */
    /* The thread's: the target with which the next round begins, as names of a silent resolver fill this one. */
    size_t resolve_next;
    int64_t none_since_ms; /* the thread's; mono_ms(); 0: some are reached */

    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool stop, resolving;
    bool has_fresh;
    struct targets fresh; /* for the next round */
    struct reach_state state;
};

int64_t reach_every_ms(int64_t takeover_after_ms)
{
    int64_t ms = takeover_after_ms / 4;

    return ms < EVERY_MIN_MS   ? EVERY_MIN_MS
           : ms > EVERY_MAX_MS ? EVERY_MAX_MS
                               : ms;
}

/* ---- whom to ask ---- */

static void targets_fini(struct targets *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->all[i].name);
        free(t->all[i].address);
    }
    free(t->all);
    *t = (struct targets){0};
}

/* false: it has no such address now, and the places stay. */
static bool look_up(struct target *t, int flags)
{
    const char *colon = strrchr(t->address, ':');
    size_t n = (size_t)(colon - t->address), bracket = *t->address == '[';
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV | flags};
    struct addrinfo *found = NULL;
    char *host = gr_strndup(t->address + bracket, n - 2 * bracket);
    bool good = getaddrinfo(host, colon + 1, &hints, &found) == 0;

    free(host);
    if (!good)
        return false;
    t->count = 0;
    for (struct addrinfo *a = found; a && t->count < ADDRESSES_MAX;
         a = a->ai_next) {
        struct place *p = &t->places[t->count++];

        memcpy(&p->at, a->ai_addr, a->ai_addrlen);
        p->size = a->ai_addrlen;
    }
    freeaddrinfo(found);
    return true;
}

static struct targets targets_of(const char *name, const struct settings *s)
{
    struct targets t = {0};

    t.all = gr_alloc((s->cluster.peer_count + 1) * sizeof *t.all);
    for (size_t i = 0; i < s->cluster.peer_count; i++) {
        const struct cluster_peer *peer = &s->cluster.peers[i];
        struct target *to = &t.all[t.count];

        if (!processes_exchange(name, peer->name))
            continue;
        *to = (struct target){.name = gr_strdup(peer->name),
                              .address = gr_strdup(peer->address)};
        to->numeric = look_up(to, AI_NUMERICHOST);
        t.count++;
    }
    return t;
}

/* A resolver may take many seconds when the network is cut, so reach_close() does not wait for it. false: stop. */
static bool resolve(struct reach *r, struct target *t)
{
    bool stop;

    pthread_mutex_lock(&r->lock);
    r->resolving = !r->stop;
    stop = r->stop;
    pthread_mutex_unlock(&r->lock);
    if (stop)
        return false;
    (void)look_up(t, 0);
    pthread_mutex_lock(&r->lock);
    r->resolving = false;
    stop = r->stop;
    pthread_mutex_unlock(&r->lock);
    return !stop;
}

/* ---- one round ---- */

struct round {
    struct string_list reached; /* names */
    bool blind;                 /* not all could be asked */
};

static void note_reached(struct round *round, const char *name)
{
    if (!string_list_has(&round->reached, name))
        string_list_add(&round->reached, name);
}

/* -1: it cannot be reached; *blind: it could not be asked. */
static int begin_to_connect(const struct place *p, bool *blind)
{
    int fd = socket(p->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    0);

    if (fd < 0) {
        *blind = *blind || (errno != EAFNOSUPPORT);
        return -1;
    }
    if (connect(fd, (const struct sockaddr *)&p->at, p->size) == 0 ||
        errno == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}

static bool is_connected(int fd)
{
    int error = 0;
    socklen_t n = sizeof error;

    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0 && !error;
}

/* Waits until each connection is accepted or refused, or the round's time is over. What has arrived meanwhile counts, however late this thread looks. */
static void wait_for_all(struct round *round, struct attempt *attempts,
                         size_t count)
{
    struct pollfd *fds = gr_alloc((count + 1) * sizeof *fds);
    int64_t until_ms = mono_ms() + ROUND_MS, left_ms = ROUND_MS;
    size_t open = count;
    bool last = false;

    for (size_t i = 0; i < count; i++)
        fds[i] = (struct pollfd){.fd = attempts[i].fd, .events = POLLOUT};
    while (open && !last) {
        last = left_ms <= 0;
        if (poll(fds, count, last ? 0 : (int)left_ms) < 0 && errno != EINTR)
            break;
        for (size_t i = 0; i < count; i++) {
            if (fds[i].fd < 0 || !fds[i].revents)
                continue;
            if (is_connected(fds[i].fd)) {
                attempts[i].target->reached = true;
                note_reached(round, attempts[i].target->name);
            }
            fds[i].fd = -1;
            open--;
        }
        left_ms = until_ms - mono_ms();
    }
    free(fds);
}

static void ask_hosts(struct reach *r, struct round *round)
{
    struct attempt *attempts = gr_alloc((r->targets.count * ADDRESSES_MAX + 1) *
                                        sizeof *attempts);
    int64_t began_ms = mono_ms();
    size_t count = 0, first = r->resolve_next;

    for (size_t i = 0; i < r->targets.count; i++) {
        size_t at = (first + i) % r->targets.count;
        struct target *t = &r->targets.all[at];

        if (!t->numeric && !t->reached && mono_ms() - began_ms < ROUND_MS) {
            r->resolve_next = at + 1;
            if (!resolve(r, t))
                break;
        }
        t->reached = false;
        for (int k = 0; k < t->count; k++) {
            int fd = begin_to_connect(&t->places[k], &round->blind);

            if (fd >= 0)
                attempts[count++] = (struct attempt){fd, t};
        }
    }
    wait_for_all(round, attempts, count);
    for (size_t i = 0; i < count; i++)
        close(attempts[i].fd);
    free(attempts);
}

static void ask_here(const struct reach *r, struct round *round)
{
    DIR *dir = opendir(r->run_dir);
    struct dirent *e;

    round->blind = round->blind || !dir;
    while (dir && (e = readdir(dir))) {
        size_t n = strlen(e->d_name), s = strlen(SUFFIX);
        char name[NAME_MAX_BYTES + 1];

        if (n <= s || n - s > NAME_MAX_BYTES ||
            strcmp(e->d_name + n - s, SUFFIX) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(n - s), e->d_name);
        if (processes_exchange(r->name, name) &&
            ipc_listens(r->run_dir, name, &SUFFIX[1]))
            note_reached(round, name);
    }
    if (dir)
        closedir(dir);
}

static void take_fresh(struct reach *r)
{
    pthread_mutex_lock(&r->lock);
    if (r->has_fresh) {
        targets_fini(&r->targets);
        r->targets = r->fresh;
        r->fresh = (struct targets){0};
        r->has_fresh = false;
    }
    pthread_mutex_unlock(&r->lock);
}

static void ask(struct reach *r)
{
    int64_t began_ms = mono_ms();
    struct round round = {0};
    int reached;

    take_fresh(r);
    ask_here(r, &round);
    ask_hosts(r, &round);
    reached = (int)round.reached.count;
    if (reached || round.blind)
        r->none_since_ms = 0;
    else if (!r->none_since_ms)
        r->none_since_ms = began_ms;
    pthread_mutex_lock(&r->lock);
    if (reached || !round.blind)
        r->state.reached = reached;
    r->state.none_ms = r->none_since_ms ? mono_ms() - r->none_since_ms : 0;
    pthread_mutex_unlock(&r->lock);
    string_list_fini(&round.reached);
}

/* ---- the thread ---- */

static struct timespec later(int64_t ms)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += ms / SECOND_MS;
    at.tv_nsec += ms % SECOND_MS * 1000000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

static void *reach_main(void *arg)
{
    struct reach *r = arg;

    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        struct timespec next = later(r->every_ms);

        pthread_mutex_unlock(&r->lock);
        ask(r);
        pthread_mutex_lock(&r->lock);
        while (!r->stop && pthread_cond_timedwait(&r->changed, &r->lock,
                                                  &next) != ETIMEDOUT)
            ;
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

struct reach *reach_open(const char *name, const struct settings *s)
{
    struct reach *r = gr_alloc(sizeof *r);
    pthread_condattr_t monotonic;

    r->name = gr_strdup(name);
    r->run_dir = gr_strdup(s->run_dir);
    r->every_ms = reach_every_ms(s->replicate.takeover_after_ms);
    r->targets = targets_of(name, s);
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&r->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&r->thread, NULL, reach_main, r) != 0)
        die(EXIT_UNAVAILABLE, "can't start the thread that looks for peers");
    return r;
}

void reach_close(struct reach *r)
{
    bool resolving;

    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    resolving = r->resolving;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    if (resolving) { /* the process ends; the thread keeps what it uses */
        pthread_detach(r->thread);
        return;
    }
    pthread_join(r->thread, NULL);
    targets_fini(&r->targets);
    targets_fini(&r->fresh);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
    free(r->name);
    free(r->run_dir);
    free(r);
}

void reach_reload(struct reach *r, const struct settings *s)
{
    struct targets fresh = targets_of(r->name, s);

    pthread_mutex_lock(&r->lock);
    targets_fini(&r->fresh);
    r->fresh = fresh;
    r->has_fresh = true;
    pthread_mutex_unlock(&r->lock);
}

void reach_state(struct reach *r, struct reach_state *out)
{
    pthread_mutex_lock(&r->lock);
    *out = r->state;
    pthread_mutex_unlock(&r->lock);
}
