/* own_grants: the grants that this deliverer has, in memory and on disk, and the states
 * that each passes through. docs/ARCHITECTURE.md ("Work: grants") and
 * tests/model/grants.pml are the specification.
 *
 *        task, granted           revoke, revoked,            nothing in flight,
 *                                or SIGTERM                  `released` is put
 *   (none) ───────────▶ OPEN ───────────────▶ REVOKED ───────────────▶ RELEASED
 *                                                                          │
 *   (none) ◀──────────────────────────── ENDED ◀────────────────────────────┘
 *          rows purged, a lease has passed        sequencer has `released`
 *
 * An OPEN grant is confirmed while its configuration is in memory (lease.h). Only then do
 * attempts begin under it. A grant that has ended is remembered for one lease: a
 * `granted` for it may still be in a pipe, and must not open it again.
 *
 * A grant's id, endpoint and state are a row, written in the turn's transaction, so a
 * crash keeps them; what is below `endpoint` is in memory only. Functions that change
 * state are called inside the transaction. */
#ifndef DELIVERER_OWN_GRANTS_H
#define DELIVERER_OWN_GRANTS_H

#include "bounds.h"
#include "granted_endpoint.h"
#include "lookup.h"
#include "rc.h"
#include <sys/queue.h>

struct deliverer;

/* These numbers are on disk: they never change. */
enum grant_state {
    GRANT_OPEN = 0,
    GRANT_REVOKED = 1,
    GRANT_RELEASED = 2,
    GRANT_ENDED = 3,
};

struct grant {
    LIST_ENTRY(grant) link;         /* of all */
    LIST_ENTRY(grant) closing_link; /* of those that are not OPEN */
    uint64_t id;
    char name[NAME_MAX_BYTES + 1]; /* of the endpoint */
    int state;                     /* enum grant_state */
    bool on_disk;
    uint64_t released_n; /* number of its `released` message in our log */
    int64_t stamp_ms;    /* of the heartbeat whose response confirmed it */
    int64_t ended_ms;    /* mono: ENDED since */
    struct granted_endpoint endpoint;
    /* The state of the last commit, if the grant changed in turn `turn`. */
    uint64_t turn;
    struct {
        int state;
        bool on_disk;
        uint64_t released_n;
    } kept;
};

struct own_grants {
    LIST_HEAD(, grant) all;
    LIST_HEAD(, grant) closing;
    struct lookup ids, names;
    int64_t confirmed; /* how many have a configuration */
};

void own_grants_open(struct deliverer *d); /* reads them from disk */
void own_grants_close(struct deliverer *d);
/* After a rollback, when the queues of tasks are empty: read states and counts again. */
void own_grants_undo(struct deliverer *d);

/* The grant of this id; it is made and stored if it is new. `name`: of its endpoint. */
struct grant *own_grants_take(struct deliverer *d, uint64_t id,
                              struct bytes name);
/* NULL: there is no such grant. */
struct grant *own_grants_find(const struct deliverer *d, uint64_t id);
/* The OPEN grant of the endpoint of this name; NULL: there is none. */
struct grant *own_grants_named(const struct deliverer *d, const char *name);
/* Iterates over all grants: NULL begins and ends. */
struct grant *own_grants_next(const struct deliverer *d, struct grant *g);
struct grant *own_grants_of(struct granted_endpoint *e);

/* Take over `config`: the grant is confirmed. NULL: it is not confirmed. */
void own_grants_set_config(struct deliverer *d, struct grant *g,
                           struct endpoint_config *config);
/* Begin no more attempts under it, drop its waiting tasks, and end it with `released`.
 * Does nothing if it is not OPEN. `why` is a word for the log: ended, link_rewound,
 * revoked or stopping. */
void own_grants_revoke(struct deliverer *d, struct grant *g, const char *why);
void own_grants_revoke_all(struct deliverer *d, const char *why);
/* The process is stopping: revoke all but those of which consumers have deliveries. These stay
 * OPEN on disk: the consumers may end their deliveries after the next start, and if there is
 * none, the sequencer ends the grants when the leases are over. */
void own_grants_stop(struct deliverer *d);
/* The log was rewound: put the `released` of each RELEASED grant into it again. */
void own_grants_release_again(struct deliverer *d);
/* Once a turn: release grants, delete their rows, and forget those that have ended. */
void own_grants_work(struct deliverer *d);

/* `released` of each grant is in the log, but for those of which consumers have deliveries. */
bool own_grants_all_released(const struct deliverer *d);
/* Add `more` (may be below 0) to the number of its scheduled retries. */
void own_grants_count_retries(struct deliverer *d, struct grant *g,
                              int64_t more);

const char *grant_state_name(int state);

#endif
