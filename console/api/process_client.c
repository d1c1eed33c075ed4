/* process_client: a pool of control sockets for each process, and the queues before them. */
#include "process_client.h"
#include "clock.h"
#include "ipc.h"
#include "process_socket.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    SOCKETS_MAX = 8,  /* of a process */
    WAITING_MAX = 64, /* for a process */
    PATIENT_MAX = 64, /* sockets for requests that a process may keep open */
    EVENTS_AT_ONCE = 64,
};

TAILQ_HEAD(questions, process_question);
TAILQ_HEAD(sockets, process_socket);

/* A process that was asked. It is kept, as there are few. */
struct process_peer {
    TAILQ_ENTRY(process_peer) link;
    char name[NAME_MAX_BYTES + 1];
    bool waits; /* for requests that it may keep open */
    struct sockets sockets;
    int socket_count, waiting_count;
    struct questions waiting, asked;
};

struct process_client {
    char *run_dir;
    int epoll;
    TAILQ_HEAD(, process_peer) peers;
    struct questions ended;
};

struct process_client *process_client_open(const char *run_dir)
{
    struct process_client *p = gr_alloc(sizeof *p);

    p->run_dir = gr_strdup(run_dir);
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (p->epoll < 0)
        die(EXIT_UNAVAILABLE, "no epoll: %s", strerror(errno));
    TAILQ_INIT(&p->peers);
    TAILQ_INIT(&p->ended);
    return p;
}

int process_client_fd(const struct process_client *p)
{
    return p->epoll;
}

/* ---- the end of a question ---- */

static void socket_close(struct process_socket *s)
{
    TAILQ_REMOVE(&s->process->sockets, s, link);
    s->process->socket_count--;
    process_socket_close(s);
}

/* Takes it from its queue, and from its socket, which stays open. */
static void detach(struct process_question *q)
{
    struct process_peer *peer = q->peer;

    if (q->socket) {
        q->socket->question = NULL;
        TAILQ_REMOVE(&peer->asked, q, link);
    } else {
        TAILQ_REMOVE(&peer->waiting, q, link);
        peer->waiting_count--;
    }
    q->socket = NULL;
    q->peer = NULL;
    free(q->text);
    q->text = NULL;
}

static void end(struct process_client *p, struct process_question *q,
                enum question_end how)
{
    q->end = how;
    if (q->peer)
        detach(q);
    TAILQ_INSERT_TAIL(&p->ended, q, link);
}

void process_question_fini(struct process_question *q)
{
    json_decref(q->reply);
    q->reply = NULL;
    free(q->reply_text);
    q->reply_text = NULL;
}

void process_client_cancel(struct process_client *p, struct process_question *q)
{
    struct process_socket *s = q->socket;

    if (q->peer) {
        detach(q);
        if (s) /* its reply would be taken for that of the next question */
            socket_close(s);
    } else if (q->end != QUESTION_OPEN) {
        struct process_question *other;

        TAILQ_FOREACH(other, &p->ended, link)
        if (other == q)
            break;
        if (other)
            TAILQ_REMOVE(&p->ended, q, link);
        process_question_fini(q);
    }
}

struct process_question *process_client_ended(struct process_client *p)
{
    struct process_question *q = TAILQ_FIRST(&p->ended);

    if (q)
        TAILQ_REMOVE(&p->ended, q, link);
    return q;
}

/* ---- asking ---- */

/* Gives a waiting question to a socket. false: the socket was broken; it is closed, and the
 * question waits again. */
static bool give(struct process_client *p, struct process_socket *s,
                 struct process_question *q)
{
    TAILQ_REMOVE(&q->peer->waiting, q, link);
    q->peer->waiting_count--;
    TAILQ_INSERT_TAIL(&q->peer->asked, q, link);
    q->socket = s;
    s->question = q;
    if (process_socket_ask(s, p->epoll, q->text))
        return true;
    TAILQ_REMOVE(&q->peer->asked, q, link);
    TAILQ_INSERT_HEAD(&q->peer->waiting, q, link);
    q->peer->waiting_count++;
    q->socket = NULL;
    socket_close(s);
    return false;
}

/* An idle socket of the process, or a new one. NULL: all are in use, or *how says why it cannot
 * be asked. */
static struct process_socket *socket_for(struct process_client *p,
                                         struct process_peer *peer,
                                         enum question_end *how)
{
    uint64_t file = ipc_file(p->run_dir, peer->name, "control");
    struct process_socket *s, *next;
    bool busy;

    for (s = TAILQ_FIRST(&peer->sockets); s; s = next) {
        next = TAILQ_NEXT(s, link);
        if (s->question)
            continue;
        if (s->file == file)
            return s;
        socket_close(s); /* it leads to a former process (proxy.h) */
    }
    if (peer->socket_count == (peer->waits ? PATIENT_MAX : SOCKETS_MAX))
        return NULL;
    s = process_socket_open(p->run_dir, peer->name, p->epoll, &busy);
    if (!s) {
        *how = busy ? QUESTION_UNHEARD : QUESTION_UNAVAILABLE;
        return NULL;
    }
    s->process = peer;
    peer->socket_count++;
    TAILQ_INSERT_TAIL(&peer->sockets, s, link);
    return s;
}

static void start_waiting(struct process_client *p, struct process_peer *peer)
{
    struct process_question *q;

    while ((q = TAILQ_FIRST(&peer->waiting))) {
        enum question_end how = QUESTION_OPEN;
        struct process_socket *s = socket_for(p, peer, &how);

        if (s)
            give(p, s, q);
        else if (how != QUESTION_OPEN)
            end(p, q, how);
        else
            return;
    }
}

static struct process_peer *peer_of(struct process_client *p, const char *name,
                                    bool waits)
{
    struct process_peer *peer;

    TAILQ_FOREACH(peer, &p->peers, link)
    if (peer->waits == waits && strcmp(peer->name, name) == 0)
        return peer;
    peer = gr_alloc(sizeof *peer);
    peer->waits = waits;
    snprintf(peer->name, sizeof peer->name, "%s", name);
    TAILQ_INIT(&peer->sockets);
    TAILQ_INIT(&peer->waiting);
    TAILQ_INIT(&peer->asked);
    TAILQ_INSERT_TAIL(&p->peers, peer, link);
    return peer;
}

void process_client_ask(struct process_client *p, struct process_question *q,
                        const char *process, const char *ask, json_t *args,
                        json_t *by, int64_t mono_ms_now, int timeout_ms,
                        bool waits)
{
    struct process_peer *peer = peer_of(p, process, waits);

    *q = (struct process_question){.self = q->self,
                                   .wants_text = q->wants_text,
                                   .due_ms = mono_ms_now + timeout_ms};
    memcpy(q->name, peer->name, sizeof q->name);
    if (peer->waiting_count == WAITING_MAX) {
        end(p, q, QUESTION_BUSY);
        return;
    }
    q->text = control_question(ask, args, by);
    q->peer = peer;
    TAILQ_INSERT_TAIL(&peer->waiting, q, link);
    peer->waiting_count++;
    start_waiting(p, peer);
}

/* ---- replies ---- */

static void take_reply(struct process_client *p, struct process_socket *s)
{
    struct process_question *q = s->question;
    struct bytes text;

    if (q->wants_text && control_reply_in(s->reply, &text))
        q->reply_text = gr_strndup(text.p, text.n);
    else
        q->reply = control_reading(s->reply, q->code, q->why);
    process_socket_done(s);
    end(p, q,
        q->reply || q->reply_text                   ? QUESTION_REPLIED
        : strcmp(q->code, CONTROL_UNREACHABLE) == 0 ? QUESTION_UNAVAILABLE
        : strcmp(q->code, CONTROL_LOST) == 0        ? QUESTION_LOST
        : *q->code                                  ? QUESTION_REFUSED
                                                    : QUESTION_UNREADABLE);
}

static void run_socket(struct process_client *p, struct process_socket *s)
{
    struct process_question *q = s->question;
    bool heard = q && process_socket_was_heard(s);

    switch (process_socket_run(s, p->epoll)) {
    case SOCKET_REPLY:
        take_reply(p, s);
        break;
    case SOCKET_ENDED:
        if (q)
            end(p, q, heard ? QUESTION_LOST : QUESTION_UNAVAILABLE);
        socket_close(s);
        break;
    default:
        break;
    }
}

/* Ends the questions that are due, and returns the time to the next one, or -1. */
static int end_due(struct process_client *p, struct questions *all,
                   int64_t mono_now_ms)
{
    struct process_question *q, *next;
    int wait_ms = -1;

    for (q = TAILQ_FIRST(all); q; q = next) {
        struct process_socket *s = q->socket;
        int64_t left = q->due_ms - mono_now_ms;

        next = TAILQ_NEXT(q, link);
        if (left > 0) {
            wait_ms = loop_sooner(wait_ms, (int)left);
            continue;
        }
        end(p, q,
            s && process_socket_was_heard(s) ? QUESTION_TIMEOUT
                                             : QUESTION_UNHEARD);
        if (s) /* its reply may still come */
            socket_close(s);
    }
    return wait_ms;
}

int process_client_run(struct process_client *p, int64_t mono_now_ms)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int n = epoll_wait(p->epoll, events, EVENTS_AT_ONCE, 0), wait_ms = -1;
    struct process_peer *peer;

    /* Each event belongs to another socket, and closes only that one; giving the next question
     * to a socket may close any. */
    for (int i = 0; i < n; i++)
        run_socket(p, events[i].data.ptr);
    TAILQ_FOREACH(peer, &p->peers, link)
    {
        wait_ms = loop_sooner(wait_ms, end_due(p, &peer->asked, mono_now_ms));
        wait_ms = loop_sooner(wait_ms, end_due(p, &peer->waiting, mono_now_ms));
        start_waiting(p, peer);
    }
    return TAILQ_EMPTY(&p->ended) ? wait_ms : 0;
}

void process_client_close(struct process_client *p)
{
    struct process_peer *peer;
    struct process_socket *s;

    while ((peer = TAILQ_FIRST(&p->peers))) {
        while ((s = TAILQ_FIRST(&peer->sockets)))
            socket_close(s);
        TAILQ_REMOVE(&p->peers, peer, link);
        free(peer);
    }
    close(p->epoll);
    free(p->run_dir);
    free(p);
}
