/* deliverer: the memory of this process, and its callbacks for the daemon's loop (turn.c). */
#ifndef DELIVERER_DELIVERER_H
#define DELIVERER_DELIVERER_H

#include "busy_lanes.h"
#include "daemon.h"
#include "endpoint_test.h"
#include "lease.h"
#include "own_grants.h"
#include "pull.h"
#include "purge_pace.h"
#include "quarantine.h"
#include "result_log.h"
#include "store.h"
#include "stored_numbers.h"
#include "takes.h"
#include "task.h"
#include "templates.h"
#include "transfers.h"

/* The peer that sends tasks and receives results. */
#define SEQUENCER "sequencer"

enum deliverer_metric {
    METRIC_ATTEMPTS,
    METRIC_DELIVERED,
    METRIC_RETRYING,
    METRIC_DEAD,
    METRIC_RELEASED,
    METRIC_IN_FLIGHT,
    METRIC_QUEUED,
    METRIC_SCHEDULED_RETRIES,
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
    METRIC_TAKEN,
    METRIC_TAKES_WAITING,
    METRIC_COUNT,
};

enum deliverer_family {
    FAMILY_ATTEMPTS,
    FAMILY_RESPONSES,
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
    struct own_grants own_grants;
    struct lease lease;
    struct tasks tasks;
    struct transfers transfers;
    struct buf result; /* the message of one, being made (result_log.h) */
    struct templates templates;
    struct endpoint_test endpoint_tests[ENDPOINT_TESTS_MAX];
    struct takes takes;
    struct pull pull;
    struct schedule schedule; /* which endpoint is next */
    struct busy_lanes busy_lanes;
    struct quarantine quarantine;
    bool lane_ended; /* an ended attempt is of a lane: commit it at once */
    bool stuck;      /* no runnable endpoint may begin one more attempt now */

    /* The number of this turn. Memory that changes inside the transaction is marked with
     * it, so that undo() knows which changes were not committed. */
    uint64_t turn;
    struct stored_numbers numbers;      /* of the link from the sequencer */
    struct stored_numbers numbers_kept; /* as of the last commit, if … */
    uint64_t numbers_turn;              /* … they changed in this turn */

    bool full;      /* the last turn was rolled back: only outcomes now */
    bool low;       /* little space is left on the disk: no new tasks */
    bool store_all; /* too many numbers are past the cursor: write all rows */
    int64_t scheduled_retries;
    int64_t tidy_ms; /* mono: check space and delete old attempts then */
    struct purge_pace purge_pace;

    int64_t stop_ms;         /* mono: when SIGTERM was received; 0 */
    int64_t all_released_ms; /* mono: when all grants were released; 0 */

    int64_t metrics[METRIC_COUNT];
};

/* turn.c: the callbacks of this process (daemon.h) */
void deliverer_open(void *self);
void deliverer_restored(void *self);
void deliverer_frame(void *self, int kind, struct bytes frame);
int deliverer_work(void *self);
void deliverer_meanwhile(void *self);
void deliverer_after_commit(void *self);
void deliverer_undo(void *self);
bool deliverer_stopped(void *self);
void deliverer_close(void *self);
void deliverer_measure(void *self);
void deliverer_status(void *self, json_t *out);
/* The command `throttle`. */
json_t *deliverer_throttle(void *self, json_t *args, char why[200]);
erase_fn deliverer_erase;

#endif
