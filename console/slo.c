/* slo: service levels and the figures of endpoints, over the last hour (or since
 * we began, if that is less), as gauges of ours. Parts of a million inside. */
#include "clock.h"
#include "console.h"
#include <math.h>

enum { WINDOW_MS = 3600 * 1000, PER = 1000000 };

const struct metric console_metrics[] = {
    [M_FRAMES] = {"grapnel_console_frames_total", METRIC_COUNTER, "frames",
                  "of numbers that were taken and forwarded"},
    [M_SENSELESS] = {"grapnel_console_senseless_total", METRIC_COUNTER,
                     "frames", "that made no sense"},
    [M_SUBSCRIBERS] = {"grapnel_console_subscribers", METRIC_GAUGE, "monitors",
                       "connected to metrics.publish"},
    [M_MONITORS_REFUSED] = {"grapnel_console_monitors_refused_total",
                            METRIC_COUNTER, "connections",
                            "to metrics.publish, closed because they broke "
                            "the protocol or its bounds"},
    [M_FRAMES_DROPPED] = {"grapnel_console_frames_dropped_total",
                          METRIC_COUNTER, "frames",
                          "that a monitor lost because it reads too slowly"},
    [M_TOLD] = {"grapnel_notifications_told_total", METRIC_COUNTER,
                "notifications", "that their notifier took"},
    [M_NOT_TOLD] = {"grapnel_notifications_failed_total", METRIC_COUNTER,
                    "tries", "that it did not take"},
    [M_GIVEN_UP] = {"grapnel_notifications_given_up_total", METRIC_COUNTER,
                    "notifications", "after a day"},
    [M_UNTOLD] = {"grapnel_notifications_waiting", METRIC_GAUGE,
                  "notifications", "not taken yet"},
    [M_COUNT] = {0},
};

const struct metric_family console_families[] = {
    [F_FIRING] = {.name = "grapnel_alerts_firing",
                  .kind = METRIC_GAUGE,
                  .unit = "alerts",
                  .help = "that fire now",
                  .labels = {"severity"}},
    [F_SLO_SUCCESS] = {.name = "grapnel_slo_delivery_success_ratio",
                       .kind = METRIC_GAUGE,
                       .unit = "",
                       .help = "delivered of all that ended, last hour; goal "
                               "0.999",
                       .per = PER},
    [F_SLO_P95] =
        {.name = "grapnel_slo_end_to_end_p95_seconds",
         .kind = METRIC_GAUGE,
         .unit = "seconds",
         .help = "from the HTTP request to the endpoint's 2xx, last hour; "
                 "goal 5",
         .per = PER},
    [F_SLO_P99] = {.name = "grapnel_slo_end_to_end_p99_seconds",
                   .kind = METRIC_GAUGE,
                   .unit = "seconds",
                   .help = "the same, 99 of 100",
                   .per = PER},
    [F_SLO_DEDUPE] = {.name = "grapnel_slo_dedupe_hit_ratio",
                      .kind = METRIC_GAUGE,
                      .unit = "",
                      .help = "repeats of all events taken, last hour",
                      .per = PER},
    [F_MEAN_RETRIES] = {.name = "grapnel_endpoint_mean_retries",
                        .kind = METRIC_GAUGE,
                        .unit = "retries",
                        .help = "of a delivery that ended, last hour",
                        .labels = {"endpoint"},
                        .per = PER},
    [F_MEAN_WAIT] = {.name = "grapnel_endpoint_mean_retry_wait_seconds",
                     .kind = METRIC_GAUGE,
                     .unit = "seconds",
                     .help = "before a retry, last hour",
                     .labels = {"endpoint"},
                     .per = PER},
    [F_RETRY_SUCCESS] = {.name = "grapnel_endpoint_retry_success_ratio",
                         .kind = METRIC_GAUGE,
                         .unit = "",
                         .help = "retries that delivered, last hour",
                         .labels = {"endpoint"},
                         .per = PER},
    [F_COUNT] = {0},
};

static void set(struct console *c, enum console_family f, const char *label,
                double v)
{
    series_set(METRIC_SERIES(c->daemon.metrics, f, label),
               (int64_t)llround(v * PER));
}

static double grown(const struct console *c, enum fact_track track,
                    const char *label)
{
    return facts_growth(c->facts, track, label, WINDOW_MS,
                        c->daemon.loop.mono_ms);
}

static void measure_endpoint(struct console *c, const char *name)
{
    double ended = grown(c, TRACK_ENDED, name),
           parked = grown(c, TRACK_PARKED, name),
           wait = grown(c, TRACK_RETRY_WAIT, name),
           good = grown(c, TRACK_RETRY_GOOD, name),
           bad = grown(c, TRACK_RETRY_BAD, name);

    if (ended > 0)
        set(c, F_MEAN_RETRIES, name, (good + bad) / ended);
    if (parked > 0)
        set(c, F_MEAN_WAIT, name, wait / parked);
    if (good + bad > 0)
        set(c, F_RETRY_SUCCESS, name, good / (good + bad));
}

static void measure_levels(struct console *c)
{
    double delivered = grown(c, TRACK_DELIVERED, ""),
           dead = grown(c, TRACK_DEAD, ""), taken = grown(c, TRACK_TAKEN, ""),
           count, p95, p99;

    if (delivered + dead > 0)
        set(c, F_SLO_SUCCESS, NULL, delivered / (delivered + dead));
    if (taken > 0)
        set(c, F_SLO_DEDUPE, NULL, grown(c, TRACK_DUPLICATES, "") / taken);
    p95 = facts_quantile(c->facts, 0.95, WINDOW_MS, c->daemon.loop.mono_ms,
                         &count);
    p99 = facts_quantile(c->facts, 0.99, WINDOW_MS, c->daemon.loop.mono_ms,
                         &count);
    if (count > 0) {
        set(c, F_SLO_P95, NULL, p95);
        set(c, F_SLO_P99, NULL, p99);
    }
}

void slo_measure(struct console *c)
{
    static const int severities[] = {SEVERITY_INFO, SEVERITY_WARNING,
                                     SEVERITY_CRITICAL};
    const char *label;
    size_t at = 0;

    facts_take(c->facts, c->gather, WINDOW_MS, c->daemon.loop.mono_ms);
    for (size_t i = 0; i < COUNT_OF(severities); i++) {
        const char *name = rule_severity(severities[i]);

        series_set(METRIC_SERIES(c->daemon.metrics, F_FIRING, name),
                   alerts_firing(c, name));
    }
    measure_levels(c);
    while ((label = facts_labels(c->facts, TRACK_ENDED, &at)))
        measure_endpoint(c, label);
    c->metrics[M_UNTOLD] = store_notifications_left(&c->store);
}
