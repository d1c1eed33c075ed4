/* loop: waits, runs one turn after the other, and commits. */
#include "loop.h"
#include "clock.h"
#include "fallback.h"
#include "log.h"
#include "replicator.h"
#include <czmq.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

enum {
    TURN_US = 5000,
    STILL_MS =
        100, /* a turn or a wait that takes longer than expected by this much counts as a
              * stop of the process */
    FULL_WAIT_MS = 250, /* between two tries while the disk is full */
    PATIENCE_MS = 250,  /* until a slow disk counts as a stalled one */
    FALLBACK_MS = 20,   /* between two runs of the fallback thread */
    READ_US = 1000, /* of requests in a commit, even if its sync is shorter */
    LOOK_US = 20,   /* between two looks during a commit; doubles each time */
    LOOK_MAX_US = 50 * 1000,
    REFUSE_MS = 1000,    /* a wait for the engine, until clients get errors */
    STOP_WAIT_MS = 5000, /* a stop waits so long to be allowed to send */
    UNWATCHED_MS = 10,   /* the longest wait while LOOP_MORE_MAX is exceeded */
};

void loop_prepare(struct loop *l)
{
    sigset_t mask;
    struct rlimit files;

    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGHUP);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    signal(SIGPIPE, SIG_IGN);
    l->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    if (l->signal_fd < 0)
        die(EXIT_UNAVAILABLE, "signalfd: %s", strerror(errno));
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    loop_watch_fd(l, l->signal_fd);
    zsys_handler_set(NULL);
}

static int watch(struct loop *l, void *socket, int fd)
{
    assert(l->watch_count < LOOP_WATCH_MAX);
    l->watch[l->watch_count].socket = socket;
    l->watch[l->watch_count].fd = fd;
    l->watch[l->watch_count].wakes = true;
    return l->watch_count++;
}

int loop_watch_socket(struct loop *l, zsock_t *socket)
{
    return watch(l, zsock_resolve(socket), zsock_fd(socket));
}

int loop_watch_fd(struct loop *l, int fd)
{
    return watch(l, NULL, fd);
}

bool loop_ready(const struct loop *l, int w)
{
    return l->watch[w].ready;
}

bool loop_socket_ready(const struct loop *l, zsock_t *socket)
{
    void *is = zsock_resolve(socket);

    for (int i = 0; i < l->watch_count; i++)
        if (l->watch[i].socket == is)
            return l->watch[i].ready;
    return true;
}

bool loop_spent(const struct loop *l)
{
    return mono_us() - l->turn_us > TURN_US + l->requests_us;
}

/* ---- the wait ---- */

/* True also if it cannot be asked: then the turn tries to receive. */
static bool has_events(void *socket, int wanted)
{
    int events = 0;
    size_t n = sizeof events;

    return zmq_getsockopt(socket, ZMQ_EVENTS, &events, &n) != 0 ||
           events & wanted;
}

/* Adds the sockets of `more_items`, and shortens the wait if one is ready or not all of them can be added. */
static int watch_more(struct loop *l, struct pollfd *fds, int *ms, bool *ready)
{
    zmq_pollitem_t items[LOOP_MORE_MAX];
    int n = l->more_items ? l->more_items(l->self, items, LOOP_MORE_MAX) : 0;

    if (n > LOOP_MORE_MAX) {
        *ms = loop_sooner(*ms, UNWATCHED_MS);
        n = LOOP_MORE_MAX;
    }
    for (int i = 0; i < n; i++) {
        size_t bytes = sizeof fds[i].fd;

        fds[i] = (struct pollfd){.fd = -1, .events = POLLIN};
        if (zmq_getsockopt(items[i].socket, ZMQ_FD, &fds[i].fd, &bytes) != 0 ||
            has_events(items[i].socket, items[i].events)) {
            *ms = 0;
            *ready = true;
        }
    }
    return n;
}

/* The descriptor of a ZeroMQ socket becomes readable when its state changes, not while it has messages
 * (zmq_getsockopt(3), ZMQ_FD). So each is asked for its events before the wait, and those that changed once more after it.
 * It may end early, without an event: a peer that connects changes the state, too.
 * zmq_poll() asks all of them before and after its wait, with two system calls each, and calls poll() twice. With `patiently`,
 * patient watches do not end the wait, and stay as they are. Returns whether a socket of `more_items` may be ready: the next wait may
 * not have it. */
static bool wait_for(struct loop *l, int ms, bool patiently)
{
    struct pollfd fds[LOOP_WATCH_MAX + LOOP_MORE_MAX];
    bool more = false;
    int n = l->watch_count + watch_more(l, fds + l->watch_count, &ms, &more);

    for (int i = 0; i < l->watch_count; i++) {
        void *socket = l->watch[i].socket;

        fds[i] = (struct pollfd){.fd = l->watch[i].wakes ? l->watch[i].fd : -1,
                                 .events = POLLIN};
        if (patiently && l->watch[i].patient) {
            fds[i].fd = -1;
            continue;
        }
        l->watch[i].ready = socket && has_events(socket, ZMQ_POLLIN);
        if (l->watch[i].ready)
            ms = 0;
    }
    if (poll(fds, (nfds_t)n, ms) <= 0)
        return more;
    for (int i = 0; i < l->watch_count; i++) {
        void *socket = l->watch[i].socket;

        if (fds[i].revents && !l->watch[i].ready)
            l->watch[i].ready = !socket || has_events(socket, ZMQ_POLLIN);
    }
    for (int i = l->watch_count; i < n; i++)
        more = more || fds[i].revents;
    return more;
}

static bool has_only_patient_input(const struct loop *l)
{
    bool input = false;

    for (int i = 0; i < l->watch_count; i++) {
        if (l->watch[i].ready && !l->watch[i].patient)
            return false;
        input |= l->watch[i].ready;
    }
    return input;
}

/* Waits for input, or for `ms`. */
static void wait_for_input(struct loop *l, int ms)
{
    int64_t began_ms = mono_ms(), left_ms;
    bool more = wait_for(l, ms, false);

    if (more || !l->patient_ms || l->stopping || l->undone ||
        !has_only_patient_input(l))
        return;
    left_ms = ms < 0 ? l->patient_ms : ms - (mono_ms() - began_ms);
    if (left_ms > l->patient_ms)
        left_ms = l->patient_ms;
    if (left_ms > 0)
        wait_for(l, (int)left_ms, true);
}

static void read_signals(struct loop *l)
{
    struct signalfd_siginfo info;

    while (read(l->signal_fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGHUP)
            l->reload_due = true;
        else if (!l->stop_ms)
            l->stop_ms = mono_ms();
    }
}

static void take_signals(struct loop *l)
{
    read_signals(l);
    if (l->reload_due && l->reload)
        l->reload(l->self);
    l->reload_due = false;
    if (l->stop_ms && !l->stopping) {
        log_info(NULL, "stopping");
        l->stopping = true;
    }
}

static bool waits_long(const struct loop *l)
{
    return l->replicator && mono_ms() - l->disk_ms >= REFUSE_MS;
}

/* In each round of a wait that can last as long as an outage of the engine. The process may end so: nobody was told of what is
 * not in the engine's log. */
static void wait_on(struct loop *l)
{
    int64_t now = mono_ms(), since_ms;

    if (!l->replicator)
        return;
    if (l->refuse && waits_long(l))
        l->refuse(l->self);
    read_signals(l);
    since_ms = l->stop_ms > l->disk_ms ? l->stop_ms : l->disk_ms;
    if (l->stop_ms && now - since_ms >= STOP_WAIT_MS)
        die(EXIT_UNAVAILABLE,
            "stopped without sending: the last turn was not acknowledged by "
            "the replication engine within %lld ms. Nothing is lost: nobody "
            "was "
            "told of it",
            (long long)(now - l->disk_ms));
}

/* Waits until the commit has ended, or for a short time, which doubles. */
static void look(struct pollfd *ended, struct timespec *wait)
{
    ppoll(ended, 1, wait, NULL);
    if (wait->tv_nsec < LOOK_MAX_US * 1000)
        wait->tv_nsec *= 2;
}

/* During the commit it reads new input in batches, at first after LOOK_US: that input waits
 * for the next commit anyway. */
static gr_rc commit_and_read_on(struct loop *l)
{
    struct timespec wait = {.tv_nsec = LOOK_US * 1000};
    struct pollfd ended = {.events = POLLIN};

    l->disk_ms = mono_ms();
    db_commit_begin(l->db);
    ended.fd = db_commit_fd(l->db);
    do {
        l->meanwhile(l->self);
        wait_on(l);
        look(&ended, &wait);
    } while (!ended.revents);
    l->meanwhile(l->self);
    l->disk_ms = 0;
    return db_commit_end(l->db);
}

/* Until the commit ends, the loop uses only the database. */
static void disk_begin(struct loop *l)
{
    l->disk_ms = mono_ms();
    fallback_begin(l->fallback);
}

static void disk_end(struct loop *l)
{
    fallback_end(l->fallback);
    l->disk_ms = 0;
}

/* An fsync is up to half of a busy loop's time, and needs no processor. */
static bool reads_during_sync(struct loop *l)
{
    if (!l->read || !db_dirty(l->db))
        return false;
    if (l->reads_wait(l->self))
        l->read_ms = l->mono_ms;
    return l->read_ms && l->mono_ms - l->read_ms < SECOND_MS;
}

static gr_rc commit_and_read(struct loop *l)
{
    struct timespec none = {0}, wait = {.tv_nsec = LOOK_US * 1000};
    struct pollfd ended = {.events = POLLIN};
    int64_t begun_us = mono_us();
    bool has_read;

    if (db_commit_write(l->db) != GR_OK)
        return GR_AGAIN;
    ended.fd = db_commit_fd(l->db);
    db_read_begin(l->db);
    do {
        has_read = !waits_long(l) && l->read(l->self);

        wait_on(l);
        if (has_read)
            ppoll(&ended, 1, &none, NULL);
        else
            look(&ended, &wait);
        /* There are fewer commits while this waits, so each has more requests. */
    } while (!ended.revents || (has_read && l->may_wait_us && l->pace.steps &&
                                mono_us() - begun_us < READ_US));
    db_read_end(l->db);
    return db_commit_end(l->db);
}

static gr_rc commit_and_wait(struct loop *l)
{
    struct timespec wait = {.tv_nsec = LOOK_US * 1000};
    struct pollfd ended = {.events = POLLIN};

    db_commit_begin(l->db);
    ended.fd = db_commit_fd(l->db);
    do {
        wait_on(l);
        look(&ended, &wait);
    } while (!ended.revents);
    return db_commit_end(l->db);
}

/* A turn that has to reach the engine's log, which may last long. */
static gr_rc commit_replicated(struct loop *l)
{
    return l->read ? commit_and_read(l) : commit_and_wait(l);
}

static gr_rc commit_here(struct loop *l)
{
    gr_rc rc;

    disk_begin(l);
    if (l->replicator && db_has_turn(l->db))
        rc = commit_replicated(l);
    else
        rc = reads_during_sync(l) ? commit_and_read(l) : db_commit(l->db);
    disk_end(l);
    return rc;
}

/* ---- whether it may send ---- */

/* Asks the clocks after everything was read that this turn answers. */
static bool may_send(const struct loop *l)
{
    return !l->replicator || replicator_may_send(l->replicator);
}

static void wait_round(struct loop *l, struct timespec *wait)
{
    struct pollfd none = {.fd = -1};

    replicator_in_turn(l->replicator, true); /* waiting is no standstill */
    wait_on(l);
    look(&none, wait);
}

/* The database is not used meanwhile. */
static void wait_to_send(struct loop *l)
{
    struct timespec wait = {.tv_nsec = LOOK_US * 1000};

    if (l->read_on) {
        l->disk_ms = mono_ms();
        while (!may_send(l)) {
            l->meanwhile(l->self);
            wait_round(l, &wait);
        }
        l->disk_ms = 0;
        return;
    }
    disk_begin(l);
    while (!may_send(l))
        wait_round(l, &wait);
    disk_end(l);
}

static void send_results(struct loop *l)
{
    if (!may_send(l))
        wait_to_send(l);
    l->after_commit(l->self);
}

static void tidy(struct loop *l)
{
    disk_begin(l);
    db_tidy(l->db);
    disk_end(l);
}

/* Reads the clock twice, which is cheap compared with an fsync, and only in turns with
 * rows. */
static gr_rc commit(struct loop *l)
{
    int64_t begun_us = db_dirty(l->db) ? mono_us() : -1;
    gr_rc rc = l->read_on ? commit_and_read_on(l) : commit_here(l);

    l->commit_us = begun_us < 0 ? -1 : mono_us() - begun_us;
    return rc;
}

/* One turn's transaction. Returns how long the loop may sleep. */
static int work(struct loop *l)
{
    if (!l->db) {
        l->wait_ms = l->work(l->self);
        l->after_commit(l->self);
        return l->wait_ms;
    }
    db_begin(l->db);
    l->read_on = false;
    l->may_wait_us = 0;
    l->patient_ms = 0;
    l->wait_ms = l->work(l->self);
    l->undone = commit(l) != GR_OK;
    if (!l->undone) { /* from here on the turn is durable */
        send_results(l);
        tidy(l);
        return l->wait_ms;
    }
    log_warn(NULL, "the disk is full; the last changes were rolled back",
             LS("file", db_path(l->db)),
             LI("free_bytes", db_free_bytes(l->db)));
    if (l->undo)
        l->undo(l->self);
    tidy(l); /* may free space */
    usleep(FULL_WAIT_MS * 1000);
    return 0;
}

static int64_t past(int64_t took_ms, int64_t asked_ms)
{
    return asked_ms >= 0 && took_ms > asked_ms + STILL_MS ? took_ms - asked_ms
                                                          : 0;
}

static int64_t processor_wait_us(const struct loop *l)
{
    if (!l->may_wait_us || l->undone || l->stopping || l->done)
        return 0;
    return turn_pace_wait_us(&l->pace, l->turn_us, l->may_wait_us, mono_us());
}

bool loop_will_wait(const struct loop *l)
{
    return processor_wait_us(l) > 0;
}

/* Peers go on meanwhile, and what they send is for the next turn. */
static void leave_processor(const struct loop *l)
{
    int64_t us = processor_wait_us(l);

    if (us)
        usleep((useconds_t)us);
}

int loop_sooner(int a, int b)
{
    return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

void loop_run(struct loop *l)
{
    int wait_ms = 0;
    int64_t slept_ms = mono_ms(), followed_ms = slept_ms, still_ms = 0;

    if (l->during_stall)
        l->fallback = fallback_open(l->during_stall, l->self, PATIENCE_MS,
                                    FALLBACK_MS);
    while (!l->done) {
        wait_for_input(l, wait_ms);
        l->mono_ms = mono_ms();
        still_ms += past(l->mono_ms - slept_ms, wait_ms);
        l->awake_ms = l->mono_ms - still_ms;
        l->now_ms = now_ms();
        l->turn_us = mono_us();
        turn_pace_look(&l->pace, l->mono_ms);
        log_turn(l->mono_ms);
        take_signals(l);
        if (l->replicator)
            replicator_in_turn(l->replicator, true);
        wait_ms = work(l);
        if (l->replicator)
            replicator_in_turn(l->replicator, false);
        leave_processor(l);
        slept_ms = mono_ms();
        still_ms += past(slept_ms - l->mono_ms, 0);
        if (l->mono_ms - followed_ms >= SECOND_MS) {
            clock_follow();
            followed_ms = l->mono_ms;
        }
    }
    fallback_close(l->fallback);
    l->fallback = NULL;
    log_turn(l->mono_ms + SECOND_MS); /* time that was not yet added */
}
