/* process_client: asks the processes over their control sockets, and never waits for them.
 *
 * Each process gets at most 8 requests at the same time, each on a connection of its own, and 64
 * more wait for one of these; any further one ends at once. Requests that a process may keep open
 * for long (`waits`) have 64 connections of their own. Used from the loop's thread only. A
 * crash forgets all requests; a process that has read one handles it anyway. */
#ifndef CONSOLE_PROCESS_CLIENT_H
#define CONSOLE_PROCESS_CLIENT_H

#include "bounds.h"
#include "control.h"
#include <jansson.h>
#include <sys/queue.h>

struct process_client;

enum question_end {
    QUESTION_OPEN,       /* it has not ended */
    QUESTION_REPLIED,    /* `reply` */
    QUESTION_REFUSED,    /* `code` and `why` */
    QUESTION_UNREADABLE, /* the reply is not valid, or too large */
    QUESTION_BUSY,       /* too many wait for this process */
    /* `why` of these two is empty for a process of this host. */
    QUESTION_UNAVAILABLE, /* it does not run, and did not get the request */
    QUESTION_LOST,        /* it ended between request and reply */
    QUESTION_TIMEOUT,     /* it has not replied in time … */
    QUESTION_UNHEARD,     /* … and did not get the request */
};

/* A request to a process; the memory is the caller's, who sets the first two members. It
 * must stay until the question has ended or was cancelled. */
struct process_question {
    void *self;
    bool wants_text; /* `reply_text` instead of `reply`, if that is possible */
    /* when it has ended: */
    enum question_end end;
    json_t *reply; /* the caller's */
    char *reply_text;
    char code[CONTROL_CODE_BYTES];
    char why[200];
    char name[NAME_MAX_BYTES + 1]; /* of the process */

    /* process_client.c's */
    TAILQ_ENTRY(process_question) link;
    struct process_socket *socket;
    struct process_peer *peer; /* NULL: it is not waiting and not asked */
    char *text;
    int64_t due_ms;
};

struct process_client *process_client_open(const char *run_dir);
void process_client_close(struct process_client *p);
int process_client_fd(const struct process_client *p); /* for the loop */

/* Asks; borrows args and by (NULL: none; acts.h). process_client_ended() returns it later, never before the next
 * process_client_run(). */
void process_client_ask(struct process_client *p, struct process_question *q,
                        const char *process, const char *ask, json_t *args,
                        json_t *by, int64_t mono_ms, int timeout_ms,
                        bool waits);
/* Its end is not reported; process_question_fini() is not needed. */
void process_client_cancel(struct process_client *p,
                           struct process_question *q);
void process_question_fini(struct process_question *q);

/* Reads and writes. Returns how long the loop may sleep, in ms; -1: until the descriptor is
 * ready. */
int process_client_run(struct process_client *p, int64_t mono_ms);
/* The next question that has ended; NULL: there is no further one. */
struct process_question *process_client_ended(struct process_client *p);

#endif
