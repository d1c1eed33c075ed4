/* proxied: one process that is on another host, or may be: its sockets in run_dir, the connections to the places where it
 * may run, and the requests that wait for its replies. Used in the thread of proxy.c only.
 *
 * While a process of this host has the sockets in run_dir, nothing is forwarded. They are bound here when none has them, and
 * when the one that has them does not answer and an instance on another host does (active.h). */
#ifndef CONSOLE_PROXIED_H
#define CONSOLE_PROXIED_H

#include "bounds.h"
#include "cluster.h"
#include "instance.h"
#include "near_instance.h"
#include "run_sockets.h"
#include <sys/queue.h>
#include <zmq.h>

struct proxied {
    TAILQ_ENTRY(proxied) link;
    char name[NAME_MAX_BYTES + 1];
    bool wanted; /* proxy.c's */

    /* proxied.c's */
    char *run_dir;
    struct run_sockets sockets;
    struct near_instance near;
    char near_host[NAME_MAX_BYTES + 1]; /* of an instance of this host, or "" */
    struct instance *instances;         /* on other hosts */
    int count;
    char *places;   /* all, as text, to notice other ones */
    int active;     /* which is asked; `count`: that of this host; -1: none */
    int key_number; /* cluster_key_number() at the last connect */
    int64_t round;  /* of pings */
    bool told;      /* the log has that two answer */
    int64_t look_due_ms, asked_ms; /* mono; asked: for its metrics */
    uint64_t last;                 /* number of a request */
    int waiting_count;
    TAILQ_HEAD(, proxied_request) waiting; /* oldest first */
};

/* Where it may run; the texts are owned. */
struct place {
    char *host; /* "": it has one place */
    bool here;
    char *route; /* cluster_place() */
};

struct proxied *proxied_open(const char *run_dir, const char *name);
/* Connects to these places, if they, their keys or that of this process are other ones than before. Takes the list over. */
void proxied_set_places(struct proxied *p, struct cluster *cluster,
                        struct place *places, size_t count);
/* `removed`: the configuration no longer has it, so NAME.host is removed, too. */
void proxied_close(struct proxied *p, bool removed);

/* The most that proxied_items() returns now. */
int proxied_sockets(const struct proxied *p);
/* What to wait for. Returns how many. */
int proxied_items(const struct proxied *p, zmq_pollitem_t *items);
/* Takes what has come, and does what is due. */
void proxied_work(struct proxied *p);

#endif
