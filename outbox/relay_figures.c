/* relay_figures: computes the rates and the lag of a relay over the last minute. */
#include "relay_figures.h"
#include "clock.h"
#include "histogram.h"
#include "window.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLE_MS = 5000,
    SAMPLES = 16,
    AT_TAKEN = 0,
    AT_WRITTEN,
    AT_LAG,
    WIDTH = AT_LAG + METRIC_BOUNDS_MAX + 1,
};

void figures_init(struct relay_figures *f)
{
    *f = (struct relay_figures){.look = {.waiting = -1, .oldest_ms = -1},
                                .past = window_new(SAMPLES, WIDTH)};
}

void figures_fini(struct relay_figures *f)
{
    free(f->past);
    f->past = NULL;
}

void figures_sample(struct relay_figures *f, int64_t mono_now_ms)
{
    double *values;

    if (f->sampled_ms && mono_now_ms - f->sampled_ms < SAMPLE_MS)
        return;
    f->sampled_ms = mono_now_ms;
    values = window_add(f->past, mono_now_ms);
    values[AT_TAKEN] = f->taken;
    values[AT_WRITTEN] = f->written;
    memcpy(values + AT_LAG, f->lag, sizeof f->lag);
}

void figures_connected(struct relay_figures *f, int64_t now_ms, const char *why)
{
    bool connected = !*why;

    if (!f->since_ms || connected != f->connected)
        f->since_ms = now_ms;
    f->connected = connected;
    if (!connected)
        snprintf(f->error, sizeof f->error, "%s", why);
}

void figures_taken(struct relay_figures *f, int64_t age_ms)
{
    int i = 0;

    f->taken++;
    if (age_ms < 0)
        return;
    while (metric_latency_bounds_ms[i] && age_ms > metric_latency_bounds_ms[i])
        i++;
    f->lag[i]++;
}

static json_t *quantile(const struct histogram *h, double part)
{
    double ms = histogram_quantile(h, part);

    return isnan(ms) ? json_null() : json_real(round(ms * 10) / 10);
}

static json_t *number_or_null(int64_t n)
{
    return n < 0 ? json_null() : json_integer(n);
}

json_t *figures_json(const struct relay_figures *f, int64_t mono_now_ms)
{
    struct window_sample then = window_last(f->past, mono_now_ms - MINUTE_MS);
    struct histogram lag = {0};
    double le[METRIC_BOUNDS_MAX], seconds = MINUTE_MS / 1000.0;
    char since[RFC3339_BYTES] = "";
    int bounds = 0;

    for (; metric_latency_bounds_ms[bounds]; bounds++)
        le[bounds] = (double)metric_latency_bounds_ms[bounds];
    if (!then.values) { /* it is younger than a minute */
        then = window_first(f->past, 0);
        seconds = then.values ? (double)(mono_now_ms - then.time_ms) / 1000 : 0;
        if (seconds < 1)
            seconds = 1;
    }
    histogram_add(&lag, bounds, le, f->lag,
                  then.values ? then.values + AT_LAG : NULL);
    rfc3339(since, f->since_ms);
    return json_pack(
        "{s:b,s:o,s:s*,s:o,s:o,s:f,s:f,s:o,s:o}", "connected",
        (int)f->connected, "since",
        f->since_ms ? json_string(since) : json_null(), "error",
        *f->error ? f->error : NULL, "waiting", number_or_null(f->look.waiting),
        "oldest_ms", number_or_null(f->look.waiting ? f->look.oldest_ms : -1),
        "taken_per_s",
        (f->taken - (then.values ? then.values[AT_TAKEN] : 0)) / seconds,
        "written_per_s",
        (f->written - (then.values ? then.values[AT_WRITTEN] : 0)) / seconds,
        "lag_p50_ms", quantile(&lag, 0.5), "lag_p99_ms", quantile(&lag, 0.99));
}
