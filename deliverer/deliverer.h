/* deliverer: what this process has in memory. loop.c tells its turn. */
#ifndef DELIVERER_DELIVERER_H
#define DELIVERER_DELIVERER_H

#include "attempt.h"
#include "care.h"
#include "daemon.h"
#include "grants.h"
#include "probe.h"
#include "results.h"
#include "settle.h"
#include "store.h"
#include "task.h"
#include "templates.h"

/* Who sends us work and takes our results. */
#define SEQUENCER "sequencer"

enum deliverer_metric {
    METRIC_ATTEMPTS,
    METRIC_DELIVERED,
    METRIC_PARKED,
    METRIC_DEAD,
    METRIC_RELEASED,
    METRIC_IN_FLIGHT,
    METRIC_QUEUED,
    METRIC_PARKED_ROWS,
    METRIC_CONNECTIONS,
    METRIC_REUSED,
    METRIC_REUSE,
    METRIC_RESENT,
    METRIC_OPENED,
    METRIC_OPEN,
    METRIC_PROBES,
    METRIC_PULLED,
    METRIC_GRANTS,
    METRIC_CONFIRMED,
    METRIC_LEASE,
    METRIC_COUNT,
};

enum deliverer_family {
    FAMILY_ATTEMPTS,
    FAMILY_RETRIES,
    FAMILY_RETRY_WAIT,
    FAMILY_ATTEMPT_SECONDS,
    FAMILY_BREAKER,
    FAMILY_WINDOW,
    FAMILY_COUNT,
};

struct deliverer {
    struct daemon daemon;
    struct store store;
    struct grants grants;
    struct tasks tasks;
    struct flights flights;
    struct results results;
    struct templates templates;
    struct probe probe;
    struct schedule schedule; /* whose turn it is */
    struct lanes lanes;       /* that have a request in flight */
    struct care care;
    bool lane_ended; /* one of them: it does not wait for company */
    bool stuck; /* those in line have their share of what may be in flight */

    /* The number of this turn. What changes in memory inside of a transaction
     * carries it, so that undo() knows what was not committed. */
    uint64_t turn;
    struct settle settle;      /* of the link from the sequencer */
    struct settle settle_kept; /* as of the last commit, if … */
    uint64_t settle_turn;      /* … it changed in this turn */

    bool full;       /* the last turn was rolled back: only outcomes now */
    bool low;        /* little room left on the disk: no new tasks */
    bool settle_all; /* numbers ran out: everything to rows */
    int64_t parked_rows;
    int64_t tidy_ms; /* mono: look at room and history again */

    int64_t stop_ms;    /* mono: SIGTERM came; 0 */
    int64_t drained_ms; /* mono: and since then all is drained; 0 */

    int64_t metrics[METRIC_COUNT];
};

extern const struct daemon_plan deliverer_plan;
extern const struct metric deliverer_metrics[];
extern const struct metric_family deliverer_families[];

#endif
