/* prometheus: writes the collected metrics in Prometheus' text format 0.0.4. */
#include "prometheus.h"
#include <math.h>

static void put_escaped(struct buf *out, const char *s, bool quotes)
{
    for (; *s; s++)
        if (*s == '\\')
            buf_puts(out, "\\\\");
        else if (*s == '\n')
            buf_puts(out, "\\n");
        else if (*s == '"' && quotes)
            buf_puts(out, "\\\"");
        else
            buf_put(out, s, 1);
}

void prometheus_about(struct buf *out, const char *name, enum metric_kind kind,
                      const char *unit, const char *help)
{
    static const char *const kinds[] = {[METRIC_COUNTER] = "counter",
                                        [METRIC_GAUGE] = "gauge",
                                        [METRIC_HISTOGRAM] = "histogram"};

    buf_printf(out, "# HELP %s ", name);
    if (unit && *unit)
        buf_printf(out, "%s: ", unit);
    put_escaped(out, help ? help : "", false);
    buf_printf(out, "\n# TYPE %s %s\n", name, kinds[kind]);
}

static void put_number(struct buf *out, double v)
{
    if (v == floor(v) && fabs(v) < 1e15)
        buf_printf(out, "%.0f\n", v);
    else
        buf_printf(out, "%.9g\n", v);
}

void prometheus_number(struct buf *out, const char *name, const char *key,
                       const char *label, double v)
{
    buf_puts(out, name);
    if (key) {
        buf_printf(out, "{%s=\"", key);
        put_escaped(out, label, true);
        buf_puts(out, "\"}");
    }
    buf_puts(out, " ");
    put_number(out, v);
}

static void put_series_name(struct buf *out, const struct collected *p,
                            const char *suffix)
{
    buf_printf(out, "%s%s{process=\"", p->metric->name, suffix);
    put_escaped(out, p->publisher->name, true);
    buf_puts(out, "\"");
    for (int i = 0; i < p->label_count; i++) {
        buf_printf(out, ",%s=\"", p->keys[i]);
        put_escaped(out, p->values[i], true);
        buf_puts(out, "\"");
    }
}

static void put_histogram(struct buf *out, const struct collected *p)
{
    double so_far = 0;

    for (int i = 0; i <= p->bounds; i++) {
        so_far += p->counts[i];
        put_series_name(out, p, "_bucket");
        if (i < p->bounds)
            buf_printf(out, ",le=\"%.9g\"} ", p->le[i]);
        else
            buf_puts(out, ",le=\"+Inf\"} ");
        put_number(out, so_far);
    }
    put_series_name(out, p, "_sum");
    buf_puts(out, "} ");
    put_number(out, p->value);
    put_series_name(out, p, "_count");
    buf_puts(out, "} ");
    put_number(out, so_far);
}

static void put_metric(struct buf *out, const struct collected_metric *metric,
                       int64_t mono_now_ms)
{
    bool said = false;

    for (const struct collected *p = metric->series; p; p = p->next) {
        bool histogram = metric->kind == METRIC_HISTOGRAM;

        if (!collected_fresh(p, mono_now_ms) || (histogram && !p->bounds))
            continue;
        if (!said)
            prometheus_about(out, metric->name, metric->kind, metric->unit,
                             metric->help);
        said = true;
        if (histogram) {
            put_histogram(out, p);
        } else {
            put_series_name(out, p, "");
            buf_puts(out, "} ");
            put_number(out, p->value);
        }
    }
}

void prometheus_text(struct collector *g, int64_t mono_now_ms, struct buf *out)
{
    for (const struct collected_metric *metric = collector_metrics(g); metric;
         metric = metric->next)
        put_metric(out, metric, mono_now_ms);
    prometheus_about(out, "grapnel_up", METRIC_GAUGE, "",
                     "1: the process has published lately");
    for (struct publisher *t = collector_publishers(g); t; t = t->next)
        prometheus_number(out, "grapnel_up", "process", t->name,
                          collector_hears(t, mono_now_ms));
}
