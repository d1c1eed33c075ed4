/* own_grants: the grants that this deliverer has, and until when it may begin attempts
 * under them. docs/ARCHITECTURE.md ("Work: grants") and tests/model/grants.pml are
 * the specification.
 *
 *        task, granted           revoke, revoked,            nothing in flight,
 *                                or SIGTERM                  `released` is put
 *   (none) ───────────▶ OPEN ───────────────▶ REVOKED ───────────────▶ RELEASED
 *                                                                          │
 *   (none) ◀──────────────────────────── ENDED ◀────────────────────────────┘
 *          rows purged, a lease has passed        sequencer has `released`
 *
 * An OPEN grant is confirmed while its configuration is in memory: a `granted` of this
 * epoch brought it, and the lease has not lapsed since. Only then do attempts begin
 * under it. A grant that has ended is remembered for one lease:
 * a `granted` for it may still be in a pipe, and must not bring it back. */
#ifndef DELIVERER_OWN_GRANTS_H
#define DELIVERER_OWN_GRANTS_H

#include "bounds.h"
#include "granted_endpoint.h"
#include "lookup.h"
#include "rc.h"
#include <sys/queue.h>

struct deliverer;

/* On disk: forever. */
enum grant_state {
    GRANT_OPEN = 0,
    GRANT_REVOKED = 1,
    GRANT_RELEASED = 2,
    GRANT_ENDED = 3,
};

struct grant {
    LIST_ENTRY(grant) link;     /* of all */
    struct grant *closing_next; /* of those that are not OPEN */
    uint64_t id;
    char name[NAME_MAX_BYTES + 1]; /* of the endpoint */
    int state;                     /* enum grant_state */
    bool on_disk;
    uint64_t released_n; /* number of its `released` in our log */
    int64_t stamp_ms;    /* of the heartbeat that its confirmation answered */
    int64_t ended_ms;    /* mono: ENDED since */
    struct granted_endpoint endpoint;
    /* As of the last commit, if anything changed in turn `turn`. */
    uint64_t turn;
    struct {
        int state;
        bool on_disk;
        uint64_t released_n;
    } kept;
};

struct own_grants {
    LIST_HEAD(, grant) all;
    struct lookup ids;
    struct grant *closing;
    int64_t confirmed;         /* how many have a configuration */
    int64_t lease_until_ms;    /* mono; may begin while it is before this */
    int64_t heartbeat_ms;      /* mono: the next heartbeat */
    int64_t heartbeat_sent_ms; /* mono: the last one */
    bool ask;                  /* some grant needs its configuration */
    /* Where the sequencer receives heartbeats, by its last heartbeat_ack. */
    char inbox[INBOX_MAX_BYTES + 1];
};

void own_grants_open(struct deliverer *d); /* read them from disk */
void own_grants_close(struct deliverer *d);

/* The grant, made if need be; inside of the transaction. */
struct grant *own_grants_take(struct deliverer *d, uint64_t id,
                              struct bytes name);
struct grant *own_grants_find(const struct deliverer *d, uint64_t id);
/* Iterates over all: NULL begins and ends. */
struct grant *own_grants_next(const struct deliverer *d, struct grant *g);
struct grant *
own_grants_of(struct granted_endpoint *e); /* the grant of this endpoint */

/* Frames; inside of the transaction. */
void own_grants_heartbeat_ack(struct deliverer *d, struct bytes frame);
void own_grants_granted(struct deliverer *d, struct bytes frame);
void own_grants_revoked(struct deliverer *d, struct bytes frame);

/* Begin no more attempts under it and end it with `released`. Does nothing if it is not
 * OPEN. `why` is for the log. */
void own_grants_revoke(struct deliverer *d, struct grant *g, const char *why);
void own_grants_revoke_all(struct deliverer *d, const char *why);
/* The log was set back: put `released` into it again where it was before. */
void own_grants_release_again(struct deliverer *d);

/* Inside of the transaction: lapse, release, purge. */
void own_grants_work(struct deliverer *d);
/* After the commit: the heartbeat. */
void own_grants_flush(struct deliverer *d);
int own_grants_wait_ms(const struct deliverer *d);
void own_grants_undo(struct deliverer *d);

/* The lease has not expired at this moment. */
bool own_grants_may_begin(const struct deliverer *d);
/* `released` of all grants is in the log. */
bool own_grants_all_released(const struct deliverer *d);

/* Add `more` (may be below 0) to the number of its scheduled retries. */
void own_grants_count_retries(struct deliverer *d, struct grant *g,
                              int64_t more);

const char *grant_state_name(int state);

#endif
