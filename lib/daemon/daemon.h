/* daemon: the part that all processes have in common: command line, lock, configuration,
 * database, sockets, turn. A process supplies a `struct daemon_plan` and calls
 * daemon_start(), then daemon_run(), from main().
 *
 * daemon_start() is the table of contents of a start:
 *   options → configuration → lock → log → database → inbox → links → control →
 *   metrics → ready
 * and daemon_run() is the loop. After a crash the next start finds what the last turn that
 * committed has left. */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include "acts.h"
#include "bounds.h"
#include "control.h"
#include "daemon_erase.h"
#include "daemon_verify.h"
#include "db.h"
#include "jobs.h"
#include "links.h"
#include "loop.h"
#include "mailbox.h"
#include "metrics.h"
#include "retention.h"
#include "settings.h"

struct replica;

struct daemon_plan {
    const char *process; /* "ingress": the default name and what --help says */
    const char *default_name; /* "deliverer-1" */
    const char *summary;      /* one line */
    const struct db_schema *schema;
    const struct links_ops *links;
    bool
        asks_hosts; /* a console: it asks the processes of other hosts, which do not send to it */
    bool
        replicated; /* `replicate` of the configuration holds for its database */
    bool priority_inbox; /* bind one (mailbox.h); links->urgent says for whom */
    const struct control_command *commands; /* beside the common ones */
    const struct job_kind *jobs;            /* NULL: it has none (jobs.h) */
    const struct metric *metrics;
    int64_t *metric_values;
    const struct metric_family *families; /* may be NULL */
    void *self;                           /* what every callback gets */

    /* In the order of a start and of a turn. NULL is "nothing to do". */
    void (*open)(void *self); /* prepare statements, read memory from disk */
    /* After open(), in a separate transaction, when the database is a copy (db.h): starts
     * again all numbering that peers may have seen from the original. The copy's stamp is
     * cleared in the same transaction. */
    void (*restored)(void *self);
    /* First in a turn, inside the transaction, before any frame, and again after a
     * reload in the middle of a turn. */
    void (*begin)(void *self);
    /* Called after the priority inbox was read in a turn: whether frames of the other inbox
     * may be taken, too. If not, they wait there, and the link's window stops their
     * sender. NULL: yes. */
    bool (*has_time)(void *self);
    /* A frame of another kind than the link's. Inside the transaction. */
    void (*frame)(void *self, int kind, struct bytes frame);
    /* Rows. Returns ms to sleep at most (see loop.h). Called after frames and
     * control requests of this turn were taken. */
    int (*work)(void *self);
    void (*after_commit)(void *self);
    void (*meanwhile)(void *self); /* loop.h */
    bool stands_in; /* meanwhile() also while the loop waits for the disk */
    void (*undo)(void *self);                           /* after a rollback */
    void (*reload)(void *self, struct settings *fresh); /* takes it over */
    /* Called each turn while stopping: true when the process has finished its work and
     * may exit. NULL: at once. */
    bool (*stopped)(void *self);
    void (*close)(void *self);
    /* Once per metrics.interval and for `status`, inside the transaction: set
     * gauges. Those of families that are not set here are not published. */
    void (*measure)(void *self);
    /* For `status`: add fields. */
    void (*status)(void *self, json_t *out);
    /* For `health`: what this process does, or what prevents it, in a few words (static);
     * *ready is true on entry. NULL: "running". */
    const char *(*state)(void *self, bool *ready);
    /* Erases what this process has of a workspace, beside the tables that all have. NULL: there is
     * nothing else. */
    erase_fn *erase;
    /* For arguments of audit rows that name an event or a dead letter. NULL: none do. */
    erase_owns_fn *owns;
};

enum { DAEMON_SOCKETS = 2 }; /* in run_dir, whose files it removes */

struct daemon {
    const struct daemon_plan *plan;
    struct settings *settings; /* the daemon's until reload */
    char name[NAME_MAX_BYTES + 1];
    char *config_path;
    struct db *db;
    struct replica *replica; /* NULL: the database is not replicated */
    char *
        heir; /* the host that gets it; the process stops to hand it over. NULL: it does not */
    struct cluster *cluster; /* NULL: all peers are on this host */
    uint64_t socket_files[DAEMON_SOCKETS]; /* ipc_file() */
    int64_t measured_turn; /* of the replicator: the last one in the metrics */
    struct mailbox *mailbox;
    struct links *links;
    struct control *control;
    struct acts *acts;
    struct jobs *jobs;
    struct audit_keys audit_keys;
    struct erasures *erasures;
    struct metrics *metrics;
    struct loop loop;
    struct retention retention;
    struct daemon_verify verify;
    uint64_t epoch; /* random, this start */
    int64_t started_ms;
    /* This turn took every frame that had come at the wait … */
    bool inbox_empty;
    bool priority_empty; /* … to the priority inbox, if there is one */

    /* daemon.c's own. */
    char *backup_path;
    struct series *commits; /* the histogram of commit times */
    int64_t sockets_ms;     /* mono: the last look at the sockets in run_dir */
    bool sockets_lost;      /* they cannot be bound again, which was logged */
    int64_t commit_us; /* how long the last commit took; -1: there was none */
    int full_turns;    /* rolled back while stopping */
    int64_t full_ms;   /* mono: the last that was rolled back; 0: none */
    int wait_ms;
};

/* Exits on its own for --help, --version, --check and every error. */
void daemon_start(struct daemon *d, const struct daemon_plan *plan, int argc,
                  char **argv);
/* Returns the exit code when the daemon has stopped. */
int daemon_run(struct daemon *d);

/* From after_commit(): the loop sleeps no longer than this before the next turn. */
void daemon_wake_in(struct daemon *d, int ms);

/* Any thread: whether the database waits for the replication database rather than for the disk. */
bool daemon_waits_for_engine(const struct daemon *d);

/* 64 random bits, never 0. */
uint64_t random_id(void);

#endif
