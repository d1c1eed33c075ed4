/* daemon_metrics: declares and measures the metrics that every process has. */
#include "daemon_metrics.h"
#include "db_sums.h"
#include "ipc.h"
#include "log.h"
#include "replica.h"
#include "replicator.h"
#include <czmq.h>

enum {
    COMMON_COMMIT,
    COMMON_STARTED,
    COMMON_STORE,
    COMMON_FREE,
    COMMON_LOG_DROPPED,
    COMMON_BACKLOG,
    COMMON_WINDOW,
    COMMON_LOST,
    COMMON_REWINDS,
    COMMON_UNPROCESSABLE,
    COMMON_DAMAGED,
    COMMON_VERIFIED,
    COMMON_STANDBYS,
    COMMON_STANDBYS_READY,
    COMMON_BEHIND,
    COMMON_PEERS,
    COMMON_APPEND,
    COMMON_MAY_SEND,
    COMMON_UNACKNOWLEDGED,
};

static const struct metric_family families[] = {
    [COMMON_COMMIT] = {.name = "grapnel_commit_seconds",
                       .kind = METRIC_HISTOGRAM,
                       .unit = "seconds",
                       .help = "duration of a commit, including fsync",
                       .per = 1000000,
                       .bounds = metric_commit_bounds_us},
    [COMMON_STARTED] = {.name = "grapnel_start_time_seconds",
                        .kind = METRIC_GAUGE,
                        .unit = "seconds",
                        .help =
                            "start time of the process, in seconds since 1970",
                        .per = 1000},
    [COMMON_STORE] =
        {.name = "grapnel_store_bytes",
         .kind = METRIC_GAUGE,
         .unit = "bytes",
         .help = "size of the database, including its write-ahead log"},
    [COMMON_FREE] =
        {.name = "grapnel_store_free_bytes",
         .kind = METRIC_GAUGE,
         .unit = "bytes",
         .help =
             "free space for the database: on the disk and inside the file"},
    [COMMON_LOG_DROPPED] = {.name = "grapnel_log_dropped_total",
                            .kind = METRIC_COUNTER,
                            .unit = "lines",
                            .help = "log lines that were discarded because "
                                    "nothing read standard error in time"},
    [COMMON_BACKLOG] = {.name = "grapnel_link_backlog",
                        .kind = METRIC_GAUGE,
                        .unit = "messages",
                        .help =
                            "messages for this peer that it has not stored yet",
                        .labels = {"peer"}},
    [COMMON_WINDOW] =
        {.name = "grapnel_link_window",
         .kind = METRIC_GAUGE,
         .unit = "messages",
         .help = "messages for this peer that were sent and not acknowledged",
         .labels = {"peer"}},
    [COMMON_LOST] = {.name = "grapnel_link_lost_total",
                     .kind = METRIC_COUNTER,
                     .unit = "messages",
                     .help = "messages from this peer that were lost after a "
                             "restore, since the database was created",
                     .labels = {"peer"}},
    [COMMON_REWINDS] = {.name = "grapnel_link_set_back_total",
                        .kind = METRIC_COUNTER,
                        .unit = "times",
                        .help = "how often a restore rewound the link, since "
                                "the database was created",
                        .labels = {"peer", "direction"}},
    [COMMON_UNPROCESSABLE] =
        {.name = "grapnel_link_unprocessable_total",
         .kind = METRIC_COUNTER,
         .unit = "messages",
         .help = "messages from this peer that could not be applied and were "
                 "set aside, since the database was created",
         .labels = {"peer"}},
    [COMMON_DAMAGED] = {.name = "grapnel_damaged_total",
                        .kind = METRIC_COUNTER,
                        .unit = "rows",
                        .help = "rows of the database with a wrong checksum"},
    [COMMON_VERIFIED] = {.name = "grapnel_verified_time_seconds",
                         .kind = METRIC_GAUGE,
                         .unit = "seconds",
                         .help = "time of the last check of the database, in "
                                 "seconds since 1970; 0: none since the start",
                         .per = 1000},
    [COMMON_STANDBYS] = {.name = "grapnel_replication_standbys",
                         .kind = METRIC_GAUGE,
                         .unit = "hosts",
                         .help = "other hosts that follow this store; this and "
                                 "the next ones with `replicate` only"},
    [COMMON_STANDBYS_READY] = {.name = "grapnel_replication_standbys_ready",
                               .kind = METRIC_GAUGE,
                               .unit = "hosts",
                               .help = "of these, those that may take over"},
    [COMMON_BEHIND] = {.name = "grapnel_replication_behind_turns",
                       .kind = METRIC_GAUGE,
                       .unit = "turns",
                       .help = "turns that the last of these hosts lacks"},
    [COMMON_PEERS] = {.name = "grapnel_replication_peers",
                      .kind = METRIC_GAUGE,
                      .unit = "processes",
                      .help = "other processes of the pipeline that this one "
                              "reaches, of those it exchanges messages with"},
    [COMMON_APPEND] = {.name = "grapnel_replication_append_seconds",
                       .kind = METRIC_HISTOGRAM,
                       .unit = "seconds",
                       .help = "from when a turn was sent to the replication "
                               "database until it was acknowledged",
                       .per = 1000000,
                       .bounds = metric_append_bounds_us},
    [COMMON_MAY_SEND] = {.name = "grapnel_replication_may_send_seconds",
                         .kind = METRIC_GAUGE,
                         .unit = "seconds",
                         .help = "for how long the process may still send "
                                 "without another acknowledgement",
                         .per = 1000},
    [COMMON_UNACKNOWLEDGED] =
        {.name = "grapnel_replication_unacknowledged_seconds",
         .kind = METRIC_GAUGE,
         .unit = "seconds",
         .help = "since when no statement was acknowledged; 0: the last one "
                 "was. A process that may not send publishes no metrics",
         .per = 1000},
    {0},
};

struct metrics_tables daemon_metrics_tables(const struct daemon_plan *plan)
{
    return (struct metrics_tables){.numbers = plan->metrics,
                                   .values = plan->metric_values,
                                   .families = plan->families,
                                   .common = families};
}

void daemon_metrics_open(struct daemon *d)
{
    struct metrics_tables tables = daemon_metrics_tables(d->plan);

    zsock_t *pub = zsock_new(ZMQ_PUB);

    ipc_bind(pub, d->settings->run_dir, d->name, "metrics");
    d->metrics = metrics_open(pub, d->name, d->plan->process, d->epoch,
                              d->settings->metrics_interval_ms, &tables);
    d->commits = metrics_common(d->metrics, COMMON_COMMIT, NULL);
}

int daemon_metrics_bind_again(struct daemon *d)
{
    return ipc_bind_again(metrics_socket(d->metrics), d->settings->run_dir,
                          d->name, "metrics");
}

static void set(struct daemon *d, int family, const char *peer,
                const char *direction, uint64_t v)
{
    const char *const labels[] = {peer, direction};

    series_set(metrics_common(d->metrics, family, labels), (int64_t)v);
}

static void measure_links(struct daemon *d)
{
    struct link_state l;
    int at = 0;

    while (links_each(d->links, &at, &l)) {
        set(d, COMMON_REWINDS, l.peer, l.out ? "out" : "in", l.rewinds);
        if (l.out) {
            set(d, COMMON_BACKLOG, l.peer, NULL, l.next - 1 - l.done);
            set(d, COMMON_WINDOW, l.peer, NULL, l.window);
        } else {
            set(d, COMMON_LOST, l.peer, NULL, l.lost);
            set(d, COMMON_UNPROCESSABLE, l.peer, NULL, l.unprocessable);
        }
    }
}

static void measure_replication(struct daemon *d)
{
    struct replicator_state s;

    if (!d->loop.replicator)
        return;
    replicator_state(d->loop.replicator, &s);
    set(d, COMMON_STANDBYS, NULL, NULL, (uint64_t)s.standbys);
    set(d, COMMON_STANDBYS_READY, NULL, NULL, (uint64_t)s.ready);
    set(d, COMMON_BEHIND, NULL, NULL, (uint64_t)s.behind);
    set(d, COMMON_PEERS, NULL, NULL, (uint64_t)replica_peers(d->replica));
    set(d, COMMON_MAY_SEND, NULL, NULL, (uint64_t)s.may_send_ms);
    set(d, COMMON_UNACKNOWLEDGED, NULL, NULL,
        s.failing_since_ms && s.failing_since_ms < d->loop.now_ms
            ? (uint64_t)(d->loop.now_ms - s.failing_since_ms)
            : 0);
}

void daemon_measure_turn(struct daemon *d)
{
    struct replicator_state s;

    if (d->loop.commit_us < 0)
        return;
    series_observe(d->commits, d->loop.commit_us);
    if (!d->loop.replicator)
        return;
    replicator_state(d->loop.replicator, &s);
    if (s.n != d->measured_turn && s.append_us >= 0)
        series_observe(metrics_common(d->metrics, COMMON_APPEND, NULL),
                       s.append_us);
    d->measured_turn = s.n;
}

void daemon_measure(struct daemon *d)
{
    metrics_measure(d->metrics);
    set(d, COMMON_STARTED, NULL, NULL, (uint64_t)d->started_ms);
    set(d, COMMON_STORE, NULL, NULL, (uint64_t)db_size_bytes(d->db));
    set(d, COMMON_FREE, NULL, NULL, (uint64_t)db_free_bytes(d->db));
    set(d, COMMON_LOG_DROPPED, NULL, NULL, log_dropped_count());
    set(d, COMMON_VERIFIED, NULL, NULL, (uint64_t)d->verify.ended_ms);
    set(d, COMMON_DAMAGED, NULL, NULL, (uint64_t)db_damage_count());
    measure_links(d);
    measure_replication(d);
    if (d->plan->measure)
        d->plan->measure(d->plan->self);
}
