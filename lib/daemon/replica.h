/* replica: how a process whose database is replicated starts and ends. Source: docs/decisions/0126.
 *
 * Every start is that of a standby: it follows the engine's log, binds no socket, and answers nobody. When it owns the store, the start goes on as that of
 * any process, with a replicator beside the loop. A crash at any moment leaves a file that the next start follows from. */
#ifndef DAEMON_REPLICA_H
#define DAEMON_REPLICA_H

#include "replicator.h"
#include "settings.h"
#include <jansson.h>

struct replica;

struct replica_start {
    const struct settings
        *settings;    /* with `replicate`; read during the start only */
    const char *name; /* of the process */
    const char *db_path;
    int lock_fd;           /* of NAME.lock, which this process holds */
    const char *lock_text; /* what the start before this one wrote there */
    int signal_fd;         /* of loop.h */
    int schema;            /* the newest version that this program knows */
    /* On SIGHUP: log files are opened again, and the configuration is checked. Returns the one that is in force then. */
    const struct settings *(*reload)(void *self);
    void *self;
};

/* Whether the database of this process is or should be replicated, and the file agrees. Exits with 78 if the file was replicated and the
 * configuration does not say so, or the other way round: going on would lose or hide rows. */
bool replica_wanted(const struct settings *settings, const char *name,
                    const char *db_path);

/* Returns when this process owns the store. Exits with 0 at SIGTERM, with 74 if the log contradicts the file, with 69 if a setting of the engine can lose
 * what it has acknowledged: a supervisor tries again. While the engine cannot be reached it waits. The caller then calls db_open(), db_replicate() with replicator_turns(), and
 * the loop asks replica_replicator(). */
struct replica *replica_become_owner(const struct replica_start *s);
/* The start has succeeded: if this process is killed, the next start on this host takes over without waiting. A start that fails after its takeover does not
 * call it, so it leaves the store to a host where the start succeeds. NULL is allowed. */
void replica_started(const struct replica *r);
struct replicator *replica_replicator(struct replica *r);
const char *replica_host(const struct replica *r);

/* Whether this host is a standby that may take over; else `why` says what is missing. */
bool replica_can_hand_over(struct replica *r, const char *host, char why[200]);
/* The owner has another configuration. */
void replica_reload(struct replica *r, const struct settings *settings);

/* How many processes of the pipeline this one reaches (reach.h). */
int replica_peers(struct replica *r);
/* Of the owner, after replica_look_ms(), while it may send: whether it should hand over because it reaches no other process, and a standby does
 * (alone.h). It is logged, and `heir` says to whom. It looks only when it is due. */
bool replica_is_alone(struct replica *r, char heir[ENGINE_HOST_BYTES]);
/* Until that is due. */
int replica_look_ms(const struct replica *r);

/* Gives the store away and ends the replicator. No turn is open, and nothing is sent any more. `heir`: the host that takes over at once; NULL: any.
 * NULL for `r` is allowed. */
void replica_release(struct replica *r, const char *heir);
void replica_close(struct replica *r); /* NULL is allowed */

/* Any thread: whether a turn, or all sending, waits for the engine. */
bool replica_waits(struct replica *r);
/* In words, with the last error of the engine; `since_ms`: mono_ms(), when the loop began to wait. */
void replica_waits_why(struct replica *r, int64_t since_ms, char why[200]);

/* The last turn in the engine's log. */
int64_t replica_turn(struct replica *r);
/* See snapshotter_forget(). false: `why` says what it waits for, "" if for nothing but its own work. */
bool replica_forget(struct replica *r, int64_t n, char why[200]);

/* For `status`. */
json_t *replica_json(struct replica *r);

#endif
