/* slo: publishes service levels and the figures of endpoints over the last hour, or since
 * the start of the console if that is less, as gauges. */
#include "clock.h"
#include "console.h"
#include <math.h>

enum { WINDOW_MS = 3600 * 1000 };

static void set(struct console *c, enum console_family f, const char *label,
                double v)
{
    series_set(METRIC_SERIES(c->daemon.metrics, f, label),
               (int64_t)llround(v * SLO_PER));
}

static double grown(const struct console *c, enum measurement_track track,
                    const char *label)
{
    return tracks_growth(c->tracks, track, label, WINDOW_MS,
                         c->daemon.loop.mono_ms);
}

static void measure_endpoint(struct console *c, const char *name)
{
    double ended = grown(c, TRACK_ENDED, name),
           retrying = grown(c, TRACK_RETRYING, name),
           wait = grown(c, TRACK_RETRY_WAIT, name),
           good = grown(c, TRACK_RETRY_GOOD, name),
           bad = grown(c, TRACK_RETRY_BAD, name);

    if (ended > 0)
        set(c, F_MEAN_RETRIES, name, (good + bad) / ended);
    if (retrying > 0)
        set(c, F_MEAN_WAIT, name, wait / retrying);
    if (good + bad > 0)
        set(c, F_RETRY_SUCCESS, name, good / (good + bad));
}

static void measure_levels(struct console *c)
{
    double delivered = grown(c, TRACK_DELIVERED, ""),
           dead = grown(c, TRACK_DEAD, ""), taken = grown(c, TRACK_TAKEN, "");
    struct histogram latency;

    if (delivered + dead > 0)
        set(c, F_SLO_SUCCESS, NULL, delivered / (delivered + dead));
    if (taken > 0)
        set(c, F_SLO_DEDUPE, NULL, grown(c, TRACK_DUPLICATES, "") / taken);
    tracks_histogram(c->tracks, TRACK_END_TO_END, "", WINDOW_MS,
                     c->daemon.loop.mono_ms, &latency);
    if (latency.total > 0) {
        set(c, F_SLO_P95, NULL, histogram_quantile(&latency, 0.95));
        set(c, F_SLO_P99, NULL, histogram_quantile(&latency, 0.99));
    }
}

void slo_measure(struct console *c)
{
    static const int severities[] = {SEVERITY_INFO, SEVERITY_WARNING,
                                     SEVERITY_CRITICAL};
    const char *label;

    tracks_take(c->tracks, c->collector, WINDOW_MS, c->daemon.loop.mono_ms);
    for (size_t i = 0; i < COUNT_OF(severities); i++) {
        const char *name = rule_severity(severities[i]);

        series_set(METRIC_SERIES(c->daemon.metrics, F_FIRING, name),
                   alerts_firing(c, name));
    }
    measure_levels(c);
    for (size_t i = 0; (label = tracks_label(c->tracks, TRACK_ENDED, i)); i++)
        measure_endpoint(c, label);
    learned_publish(c->learned);
    c->metrics[M_NOTIFICATIONS_WAITING] = store_notifications_left(&c->store);
}
