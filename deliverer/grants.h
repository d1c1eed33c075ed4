/* grants: whose work this is, and until when we may begin it. The deliverer's
 * side; docs/ARCHITECTURE.md ("Work: grants") and tests/model/grants.pml are
 * the specification.
 *
 *        task, granted           recalled, voided,           nothing in flight,
 *                                or we stop                  `drained` is put
 *   (none) ───────────▶ OPEN ───────────────▶ RECALLED ───────────────▶ DRAINED
 *                                                                          │
 *   (none) ◀──────────────────────────── OVER ◀────────────────────────────┘
 *          rows purged, a lease's time over       sequencer has `drained`
 *
 * An OPEN grant is confirmed while it has a configuration in memory: that came
 * with a `granted` of this run, and the lease has not lapsed since. Only then
 * is anything begun under it. A grant that is over is remembered for one lease:
 * a `granted` for it may still be in a pipe, and must not bring it back. */
#ifndef DELIVERER_GRANTS_H
#define DELIVERER_GRANTS_H

#include "bounds.h"
#include "endpoint.h"
#include "rc.h"

struct deliverer;

/* On disk: forever. */
enum grant_state {
    GRANT_OPEN = 0,
    GRANT_RECALLED = 1,
    GRANT_DRAINED = 2,
    GRANT_OVER = 3,
};

struct grant {
    struct grant *table_next;
    struct grant *closing_next; /* of those that are not OPEN */
    uint64_t id;
    char name[NAME_MAX_BYTES + 1]; /* of the endpoint */
    int state;                     /* enum grant_state */
    bool on_disk;
    uint64_t drained_n; /* number of its `drained` in our log */
    int64_t stamp_ms;   /* of the beat that its confirmation answered */
    int64_t over_ms;    /* mono: OVER since */
    struct endpoint endpoint;
    /* As of the last commit, if anything changed in turn `turn`. */
    uint64_t turn;
    struct {
        int state;
        bool on_disk;
        uint64_t drained_n;
    } kept;
};

struct grants {
    struct grant **table;
    size_t count, room;
    struct grant *closing;
    int64_t confirmed;      /* how many have a configuration */
    int64_t lease_until_ms; /* mono; may begin while it is before this */
    int64_t beat_ms;        /* mono: the next beat */
    int64_t beaten_ms;      /* mono: the last one */
    bool ask;               /* some grant wants its configuration */
    /* Where the sequencer wants heartbeats, by its last heartbeat_ack. */
    char inbox[INBOX_MAX_BYTES + 1];
};

void grants_open(struct deliverer *d); /* read them from disk */
void grants_close(struct deliverer *d);

/* The grant, made if need be; inside of the transaction. */
struct grant *grants_take(struct deliverer *d, uint64_t id, struct bytes name);
struct grant *grants_find(const struct deliverer *d, uint64_t id);
/* Walks all: NULL begins and ends. */
struct grant *grants_next(const struct deliverer *d, struct grant *g);
struct grant *grants_of(struct endpoint *e); /* the one it is in */

/* Frames; inside of the transaction. */
void grants_pulse(struct deliverer *d, struct bytes frame);
void grants_granted(struct deliverer *d, struct bytes frame);
void grants_voided(struct deliverer *d, struct bytes frame);

/* Begin nothing more under it and end it with `drained`. No harm if it is not
 * OPEN. `why` is for the log. */
void grants_recall(struct deliverer *d, struct grant *g, const char *why);
void grants_recall_all(struct deliverer *d, const char *why);
/* Our log was set back: say `drained` again where it was said. */
void grants_drain_again(struct deliverer *d);

/* Inside of the transaction: lapse, drain, purge. */
void grants_work(struct deliverer *d);
/* After the commit: the beat. */
void grants_tell(struct deliverer *d);
int grants_wait_ms(const struct deliverer *d);
void grants_undo(struct deliverer *d);

/* The lease holds, by the clock as it is now. */
bool grants_may_begin(const struct deliverer *d);
/* All that there are, told as drained. */
bool grants_all_drained(const struct deliverer *d);

/* So many more (or fewer) of its rows are retries that wait. */
void grants_count_parked(struct deliverer *d, struct grant *g, int64_t more);

const char *grant_state_name(int state);

#endif
