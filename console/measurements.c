/* measurements: computes the present values of an alert rule from the collector and the
 * tracks. */
#include "measurements.h"
#include "glob.h"
#include "permission.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct track_spec tracks[] = {
#define T(NAME, metric, by, key, values) {metric, by, key, values},
    MEASURE_TRACKS(T)
#undef T
};

struct tracks *measurements_tracks(int64_t mono_now_ms)
{
    return tracks_new(tracks, COUNT_OF(tracks), mono_now_ms);
}

struct measure_request {
    const struct tracks *tracks;
    struct collector *g;
    const struct settings *s;
    const struct alert_rule *rule;
    int64_t now;
    struct measurement_list *out;
};

struct measurement *measurement_add(struct measurement_list *l,
                                    const char *subject)
{
    struct measurement *m;

    l->all = gr_realloc(l->all, (l->count + 1) * sizeof *l->all);
    m = &l->all[l->count++];
    *m = (struct measurement){0};
    snprintf(m->subject, sizeof m->subject, "%.*s", (int)sizeof m->subject - 1,
             subject); /* truncated if it is too long */
    return m;
}

static void report(struct measure_request *q, const char *subject, double value,
                   bool known)
{
    struct measurement *m = measurement_add(q->out, subject);

    m->value = value;
    m->known = known;
}

bool measurement_selects(const struct string_list *globs, const char *name)
{
    for (size_t i = 0; i < globs->count; i++)
        if (glob_match(globs->items[i], name))
            return true;
    return globs->count == 0;
}

/* 0: no process publishes it now. */
static double present_sum(const struct measure_request *q, const char *metric)
{
    double sum = collector_sum(q->g, SERIES(metric), q->now);

    return isnan(sum) ? 0 : sum;
}

/* The sum of a gauge; known while the process that publishes it is heard. */
static void report_gauge(struct measure_request *q, const char *metric,
                         const char *kind)
{
    report(q, "", present_sum(q, metric),
           collector_metric(q->g, metric) && collector_has(q->g, kind, q->now));
}

static void report_backlog(struct measure_request *q)
{
    report(q, "",
           present_sum(q, "grapnel_ingress_backlog") +
               present_sum(q, "grapnel_deliveries_open"),
           collector_has(q->g, "ingress", q->now) &&
               collector_has(q->g, "sequencer", q->now));
}

static bool watched_long(const struct measure_request *q)
{
    return q->now - tracks_began_ms(q->tracks) >= q->rule->window_ms;
}

static void report_growth(struct measure_request *q,
                          enum measurement_track track, const char *label)
{
    report(q, label,
           tracks_growth(q->tracks, track, label, q->rule->window_ms, q->now),
           watched_long(q));
    q->out->all[q->out->count - 1].grows = true;
}

/* The share of bad ones within the window. */
static void report_part(struct measure_request *q, const char *subject,
                        double bad, double all)
{
    bool enough = all >= (double)q->rule->at_least;

    report(q, subject, enough ? bad / all : 0, enough || watched_long(q));
}

static void report_rates(struct measure_request *q, enum measurement_track good,
                         enum measurement_track bad)
{
    int64_t window = q->rule->window_ms;
    const char *label;

    for (size_t i = 0; (label = tracks_label(q->tracks, bad, i)); i++)
        if (measurement_selects(&q->rule->endpoints, label)) {
            double n = tracks_growth(q->tracks, bad, label, window, q->now);

            report_part(
                q, label, n,
                n + tracks_growth(q->tracks, good, label, window, q->now));
        }
}

/* A quantile of a histogram in seconds, divided by `unit_s`. */
static void report_quantile(struct measure_request *q,
                            enum measurement_track track, double quantile,
                            double unit_s)
{
    struct histogram h;
    bool enough;

    tracks_histogram(q->tracks, track, "", q->rule->window_ms, q->now, &h);
    enough = h.total >= (double)q->rule->at_least;
    report(q, "", enough ? histogram_quantile(&h, quantile) / unit_s : 0,
           enough || watched_long(q));
}

static void report_append(struct measure_request *q)
{
    int64_t hold_ms = hold_of_ms(q->s->replicate.takeover_after_ms);

    report_quantile(q, TRACK_APPEND, 0.99, (double)hold_ms / 1000);
}

static void report_waits(struct measure_request *q)
{
    for (struct publisher *t = collector_publishers(q->g); t; t = t->next)
        report(q, t->name, (double)collector_waits_ms(t, q->now) / 1000, true);
}

static void report_duplicates(struct measure_request *q)
{
    int64_t window = q->rule->window_ms;

    report_part(q, "",
                tracks_growth(q->tracks, TRACK_DUPLICATES, "", window, q->now),
                tracks_growth(q->tracks, TRACK_TAKEN, "", window, q->now));
}

static void report_signatures(struct measure_request *q)
{
    const char *label;

    for (size_t i = 0; (label = tracks_label(q->tracks, TRACK_UNAUTHORIZED, i));
         i++)
        if (measurement_selects(&q->rule->sources, label))
            report_growth(q, TRACK_UNAUTHORIZED, label);
}

static void report_each(struct measure_request *q, const char *metric,
                        const char *by)
{
    for (struct collected *p = NULL;
         (p = collector_next(q->g, SERIES(metric), p, q->now));) {
        const char *subject = *by ? collected_label(p, by) : p->publisher->name;

        if (!*by || measurement_selects(&q->rule->endpoints, subject))
            report(q, subject, p->value, true);
    }
}

static void report_silence_of(struct measure_request *q, const char *name,
                              bool ingress_up)
{
    int64_t since = tracks_grew_ms(q->tracks, TRACK_ACCEPTED, name);

    if (measurement_selects(&q->rule->sources, name))
        report(q, name, (double)(q->now - since) / 1000, ingress_up);
}

/* A producer counts as a source of its name. */
static void report_source_silence(struct measure_request *q)
{
    bool ingress_up = collector_has(q->g, "ingress", q->now);

    for (size_t i = 0; i < q->s->source_count; i++)
        report_silence_of(q, q->s->sources[i].name, ingress_up);
    for (size_t i = 0; i < q->s->producer_count; i++)
        report_silence_of(q, q->s->producers[i].name, ingress_up);
}

/* One that waits for the replication database says so, and nothing else. */
static int64_t silent_ms(const struct publisher *t, int64_t now_ms)
{
    return collector_waits_ms(t, now_ms) ? 0 : now_ms - t->heard_ms;
}

/* A console that was started during the wait has heard nothing else of it. */
static bool has_spoken(const struct publisher *t, int64_t now_ms)
{
    return t->heard || collector_waits_ms(t, now_ms);
}

static void report_process_silence(struct measure_request *q)
{
    static const char *const needed[] = {"ingress", "sequencer", "deliverer",
                                         "dlqd"};
    int64_t began = tracks_began_ms(q->tracks);

    for (struct publisher *t = collector_publishers(q->g); t; t = t->next)
        if (has_spoken(t, q->now))
            report(q, t->name, (double)silent_ms(t, q->now) / 1000, true);
    for (size_t i = 0; i < COUNT_OF(needed); i++) {
        bool there = false;

        for (struct publisher *t = collector_publishers(q->g); t; t = t->next)
            there |= has_spoken(t, q->now) && strcmp(t->kind, needed[i]) == 0;
        if (!there)
            report(q, needed[i], (double)(q->now - began) / 1000, true);
    }
}

void measurements_of(const struct tracks *t, struct collector *g,
                     const struct settings *s, const struct alert_rule *rule,
                     int64_t mono_now_ms, struct measurement_list *out)
{
    struct measure_request q = {t, g, s, rule, mono_now_ms, out};

    *out = (struct measurement_list){0};
    switch ((enum alert_when)rule->when) {
    case ALERT_DEAD_LETTERS:
        report_gauge(&q, "grapnel_dlqd_dead_letters_dead", "dlqd");
        break;
    case ALERT_DEAD_LETTERS_EXPIRING:
        report_gauge(&q, "grapnel_dlqd_dead_letters_expiring", "dlqd");
        break;
    case ALERT_DEAD_LETTER_GROWTH:
        report_growth(&q, TRACK_DEATHS, "");
        break;
    case ALERT_BACKLOG:
        report_backlog(&q);
        break;
    case ALERT_OLDEST_WAITING:
        report_gauge(&q, "grapnel_oldest_open_seconds", "sequencer");
        break;
    case ALERT_DELIVERY_FAILURE_RATE:
        report_rates(&q, TRACK_GOOD, TRACK_BAD);
        break;
    case ALERT_RETRY_FAILURE_RATE:
        report_rates(&q, TRACK_RETRY_GOOD, TRACK_RETRY_BAD);
        break;
    case ALERT_E2E_P95:
        report_quantile(&q, TRACK_END_TO_END, 0.95, 1);
        break;
    case ALERT_OPEN_GAPS:
        report_gauge(&q, "grapnel_gaps_open", "sequencer");
        break;
    case ALERT_HALTED_LANES:
        report_gauge(&q, "grapnel_lanes_halted", "sequencer");
        break;
    case ALERT_ENDPOINT_DISABLED:
        report_each(&q, "grapnel_endpoint_disabled", "endpoint");
        break;
    case ALERT_ENDPOINT_HELD:
        report_each(&q, "grapnel_endpoint_held", "endpoint");
        break;
    case ALERT_ENDPOINT_WAITING:
        report_each(&q, "grapnel_endpoint_waiting_seconds", "endpoint");
        break;
    case ALERT_ENDPOINT_FAILING:
        report_each(&q, "grapnel_endpoint_failing_seconds", "endpoint");
        break;
    case ALERT_DUPLICATE_RATE:
        report_duplicates(&q);
        break;
    case ALERT_SOURCE_SILENT:
        report_source_silence(&q);
        break;
    case ALERT_SIGNATURE_FAILURES:
        report_signatures(&q);
        break;
    case ALERT_PROCESS_SILENT:
        report_process_silence(&q);
        break;
    case ALERT_DISK_LOW:
        report_each(&q, "grapnel_store_free_bytes", "");
        break;
    case ALERT_DAMAGED:
        report_each(&q, "grapnel_damaged_total", "");
        break;
    case ALERT_STANDBYS_READY:
        report_each(&q, "grapnel_replication_standbys_ready", "");
        break;
    case ALERT_STANDBY_BEHIND:
        report_each(&q, "grapnel_replication_behind_turns", "");
        break;
    case ALERT_REPLICATION_PEERS:
        report_each(&q, "grapnel_replication_peers", "");
        break;
    case ALERT_REPLICATION_WAITS:
        report_waits(&q);
        break;
    case ALERT_REPLICATION_P99:
        report_append(&q);
        break;
    case ALERT_DEAD_LETTER:     /* an event by itself, not a state */
    case ALERT_UNUSUAL_SILENCE: /* these are learned (learned.h) */
    case ALERT_NEW_REFUSAL:
    case ALERT_STATUS_MIX:
    case ALERT_WHEN_COUNT:
        break;
    }
}

void measurement_list_fini(struct measurement_list *l)
{
    free(l->all);
    *l = (struct measurement_list){0};
}
