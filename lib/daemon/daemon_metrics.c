#include "daemon_metrics.h"
#include "db_sums.h"
#include "log.h"

enum {
    COMMON_COMMIT,
    COMMON_STARTED,
    COMMON_STORE,
    COMMON_ROOM,
    COMMON_LOG_DROPPED,
    COMMON_BACKLOG,
    COMMON_WINDOW,
    COMMON_LOST,
    COMMON_SET_BACK,
    COMMON_UNPROCESSABLE,
    COMMON_DAMAGED,
    COMMON_VERIFIED,
};

static const struct metric_family families[] = {
    [COMMON_COMMIT] = {.name = "grapnel_commit_seconds",
                       .kind = METRIC_HISTOGRAM,
                       .unit = "seconds",
                       .help = "a turn's commit to its database, fsync and all",
                       .per = 1000000,
                       .bounds = metric_commit_bounds_us},
    [COMMON_STARTED] = {.name = "grapnel_start_time_seconds",
                        .kind = METRIC_GAUGE,
                        .unit = "seconds",
                        .help = "when the process started, since 1970",
                        .per = 1000},
    [COMMON_STORE] = {.name = "grapnel_store_bytes",
                      .kind = METRIC_GAUGE,
                      .unit = "bytes",
                      .help = "size of the database, with its log"},
    [COMMON_ROOM] = {.name = "grapnel_store_room_bytes",
                     .kind = METRIC_GAUGE,
                     .unit = "bytes",
                     .help = "that the database can still take: free on its "
                             "disk and inside of it"},
    [COMMON_LOG_DROPPED] = {.name = "grapnel_log_dropped_total",
                            .kind = METRIC_COUNTER,
                            .unit = "lines",
                            .help = "of the log that nobody read in time"},
    [COMMON_BACKLOG] = {.name = "grapnel_hop_backlog",
                        .kind = METRIC_GAUGE,
                        .unit = "messages",
                        .help = "for this peer, not on its disk yet",
                        .labels = {"peer"}},
    [COMMON_WINDOW] = {.name = "grapnel_hop_window",
                       .kind = METRIC_GAUGE,
                       .unit = "messages",
                       .help = "of these, those that were sent and are not "
                               "acknowledged",
                       .labels = {"peer"}},
    [COMMON_LOST] = {.name = "grapnel_hop_lost_total",
                     .kind = METRIC_COUNTER,
                     .unit = "messages",
                     .help = "from this peer that nobody holds any more, after "
                             "a restored copy; since the file was made",
                     .labels = {"peer"}},
    [COMMON_SET_BACK] = {.name = "grapnel_hop_set_back_total",
                         .kind = METRIC_COUNTER,
                         .unit = "times",
                         .help = "the link was set back by a restored copy; "
                                 "since the file was made",
                         .labels = {"peer", "direction"}},
    [COMMON_UNPROCESSABLE] = {.name = "grapnel_hop_unprocessable_total",
                              .kind = METRIC_COUNTER,
                              .unit = "messages",
                              .help = "from this peer that were set aside "
                                      "with their bytes; since the file was "
                                      "made",
                              .labels = {"peer"}},
    [COMMON_DAMAGED] = {.name = "grapnel_damaged_total",
                        .kind = METRIC_COUNTER,
                        .unit = "rows",
                        .help = "of the database that were not what was "
                                "written when they were read or verified"},
    [COMMON_VERIFIED] = {.name = "grapnel_verified_time_seconds",
                         .kind = METRIC_GAUGE,
                         .unit = "seconds",
                         .help = "when the database was looked through last, "
                                 "since 1970; 0: not since the start",
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

    d->metrics = metrics_open(d->zmq, d->settings->run_dir, d->name,
                              d->plan->process, d->run,
                              d->settings->metrics_interval_ms, &tables);
    d->commits = metrics_common(d->metrics, COMMON_COMMIT, NULL);
}

static void set(struct daemon *d, int family, const char *peer,
                const char *direction, uint64_t v)
{
    const char *const labels[] = {peer, direction};

    series_set(metrics_common(d->metrics, family, labels), (int64_t)v);
}

static void measure_links(struct daemon *d)
{
    struct hop_link l;
    int at = 0;

    while (hop_links(d->hop, &at, &l)) {
        set(d, COMMON_SET_BACK, l.peer, l.out ? "out" : "in", l.set_back);
        if (l.out) {
            set(d, COMMON_BACKLOG, l.peer, NULL, l.next - 1 - l.done);
            set(d, COMMON_WINDOW, l.peer, NULL, l.window);
        } else {
            set(d, COMMON_LOST, l.peer, NULL, l.lost);
            set(d, COMMON_UNPROCESSABLE, l.peer, NULL, l.unprocessable);
        }
    }
}

void daemon_measure(struct daemon *d)
{
    metrics_measure(d->metrics);
    set(d, COMMON_STARTED, NULL, NULL, (uint64_t)d->started_ms);
    set(d, COMMON_STORE, NULL, NULL, (uint64_t)db_size_bytes(d->db));
    set(d, COMMON_ROOM, NULL, NULL, (uint64_t)db_room_bytes(d->db));
    set(d, COMMON_LOG_DROPPED, NULL, NULL, log_dropped_count());
    set(d, COMMON_VERIFIED, NULL, NULL, (uint64_t)d->verify.ended_ms);
    set(d, COMMON_DAMAGED, NULL, NULL, (uint64_t)db_damage_count());
    measure_links(d);
    if (d->plan->measure)
        d->plan->measure(d->plan->self);
}
