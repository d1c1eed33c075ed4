/* loop: the event loop of every daemon. A turn waits, reads, works on rows, commits, sends.
 *
 *   wait      for sockets, signals, or until the time that work() asked for
 *   work      rows only: take, record, claim (inside a transaction)
 *   commit    from here on it is promised (a process may read on meanwhile)
 *   send      sockets only: responses, acknowledgements, frames, requests
 *
 * When the disk is full the turn is rolled back, `undo` reads memory again from
 * disk, and after_commit() is not called. */
#ifndef DAEMON_LOOP_H
#define DAEMON_LOOP_H

#include "db.h"
#include "ipc.h"
#include "rc.h"
#include "turn_pace.h"
#include <zmq.h>

enum {
    LOOP_WATCH_MAX = 16,
    LOOP_MORE_MAX = 64, /* of `more_items` */
};

struct replicator;

struct loop {
    void *self;
    struct db *db; /* may be NULL */
    /* Returns how long the loop may sleep, in ms (0: there is more to do; negative: until
     * there is input). */
    int (*work)(void *self);
    void (*after_commit)(void *self);
    void (*undo)(void *self);
    void (*reload)(void *self); /* SIGHUP, between turns; may be NULL */
    /* During a commit, if work() has set `read_on`: reads from `read_on_fd` into memory. It
     * must not touch rows or send this turn's results. */
    void (*meanwhile)(void *self);
    /* Sockets to wait for beside the watches, in this wait only. Returns their number; if
     * they are more than `max`, `max` are written, and the wait is short. May be NULL. */
    int (*more_items)(void *self, zmq_pollitem_t *items, int max);

    /* While the sync of any other commit is under way in a thread: does one bounded piece of work that
     * only reads rows, and tells nobody before after_commit(). false: there is none. The thread is
     * only used if reads_wait() is true, or was within the last second. May both be NULL. */
    bool (*read)(void *self);
    bool (*reads_wait)(void *self);

    /* The same while the loop waits for the disk in any other way (a small commit, the
     * WAL): after about 250 ms, and then about every 20 ms, in a thread of fallback.h. May
     * be NULL. */
    void (*during_stall)(void *self);

    /* Of a replicated store, else NULL. The loop calls after_commit() only while this process may send, also after a turn
     * without rows. While it may not, or a turn is not in the engine's log yet, the loop waits as for a stalled disk. If SIGTERM
     * arrives and that lasts 5 s more, the process ends without sending (69). */
    struct replicator *replicator;

    /* After 1 s of such a wait, and then in each round of it: clients get an error instead of a reply that waits. The database is not used. May be
     * NULL. */
    void (*refuse)(void *self);

    /* For the process to read. */
    int64_t now_ms, mono_ms; /* read once per turn, after the wait */
    /* mono_ms without the time in which this process was stopped: a turn that took too
     * long, a wait that lasted longer than asked for (stopped, swapped out, a closed
     * laptop). Use it to judge the silence of peers: their frames may be waiting. */
    int64_t awake_ms;
    int64_t turn_us; /* start of this turn's work, mono_us() */
    /* How long requests of the control socket took in the turn before. Messages may take so much
     * longer in this turn: reads must not take time from deliveries. */
    int64_t requests_us;
    bool undone;       /* the turn before was rolled back */
    int64_t commit_us; /* how long its commit took; -1: it had no rows */
    /* Mono: when the loop began to wait for the disk, or to be allowed to send; 0: it does not wait. */
    int64_t disk_ms;
    bool stopping; /* SIGTERM or SIGINT was received; begin nothing new */
    /* For the process to set. */
    bool done;    /* leave the loop after this turn */
    bool read_on; /* commit this turn in a thread, and call `meanwhile` */
    int read_on_fd;
    /* work() sets it if nothing depends on the next turn but the time at which it comes: while the thread has to wait for a
     * processor, that turn begins up to so many µs after this one (turn_pace.h). */
    int64_t may_wait_us;
    /* work() sets it: messages of patient watches may wait so long for other input. A turn then takes both, and has one
     * commit for them. */
    int patient_ms;
    int wait_ms; /* after_commit() may shorten or replace what work() returned */

    /* loop_watch_…() fills these. */
    struct {
        void *socket; /* ZeroMQ, or NULL */
        int fd;
        bool wakes;   /* a process may set it to false for a descriptor */
        bool patient; /* see patient_ms */
        bool ready;
    } watch[LOOP_WATCH_MAX];
    int watch_count;
    int signal_fd;
    struct turn_pace pace;     /* loop.c's */
    struct fallback *fallback; /* loop.c's */
    int64_t
        read_ms; /* loop.c's: mono, when a request last waited for a sync; 0: never */
    int64_t stop_ms; /* loop.c's: mono, when it was told to stop; 0: never */
    bool reload_due; /* loop.c's: SIGHUP was received */
};

/* Blocks the signals that the loop takes (TERM, INT, HUP) and ignores SIGPIPE; call it
 * before any thread starts, ZeroMQ's included. It also raises the soft limit of open files
 * to the hard one. */
void loop_prepare(struct loop *loop);
int loop_watch_socket(struct loop *loop, zsock_t *socket);
int loop_watch_fd(struct loop *loop, int fd);
/* Whether this watch woke the present turn. */
bool loop_ready(const struct loop *loop, int watch);
/* Whether a socket had a message at the last wait; true for one that is not watched. A message that came since is for the next
 * turn. To receive from a socket without a message costs two system calls, so a turn should not try. */
bool loop_socket_ready(const struct loop *loop, zsock_t *socket);
/* Whether the turn has used its 5 ms; the rest is for the next turn. */
bool loop_spent(const struct loop *loop);
/* From after_commit(): whether the loop will leave the processor to others before the next turn. */
bool loop_will_wait(const struct loop *loop);
/* The shorter one of two waits in ms; a negative one has no end. */
int loop_sooner(int a, int b);
/* Runs turns until `done` is set. */
void loop_run(struct loop *loop);

#endif
