/* top_data: computes what `grapnel top` shows from metrics and replies. */
#include "top_data.h"
#include "clock.h"
#include "json_text.h"
#include "rates.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The share of failed attempts from which an endpoint is marked. */
static const double failing_part = 0.05;

struct build {
    struct top_data *f;
    const struct top_input *in;
};

const char *top_state_name(enum top_state s)
{
    static const char *const names[] = {
        [TOP_UP] = "up", [TOP_SILENT] = "silent", [TOP_DOWN] = "down"};

    return names[s];
}

/* ---- sums over metrics ---- */

/* The next fresh series of a metric, after p. */
static struct collected *next_of(const struct build *b, const char *name,
                                 const struct collected *p)
{
    return collector_next(b->in->collector, SERIES(name), p, b->in->mono_ms);
}

/* NAN: no process publishes it now. */
static double now_of(const struct build *b, const struct series_query *q)
{
    return collector_sum(b->in->collector, q, b->in->mono_ms);
}

static double rate_sum(const struct build *b, const char *name)
{
    return rates_sum(b->in->collector, SERIES(name), b->in->mono_ms);
}

static double part(double of, double all)
{
    return all > 0 ? of / all : NAN;
}

static double plus(double a, double b)
{
    return isnan(a) ? b : isnan(b) ? a : a + b;
}

static void take_totals(struct build *b)
{
    struct top_data *f = b->f;
    struct histogram end_to_end = {0};
    static const char open[] = "grapnel_deliveries_open";

    f->accepted = rate_sum(b, "grapnel_ingress_accepted_total");
    f->refused = plus(rate_sum(b, "grapnel_ingress_refused_4xx_total"),
                      rate_sum(b, "grapnel_ingress_refused_5xx_total"));
    f->duplicates = part(rate_sum(b, "grapnel_events_duplicate_total"),
                         rate_sum(b, "grapnel_events_taken_total"));
    f->delivered = rate_sum(b, "grapnel_deliveries_delivered_total");
    f->dead = rate_sum(b, "grapnel_deliveries_dead_total");
    f->attempts = rate_sum(b, "grapnel_attempts_total");
    f->failed = part(plus(rate_sum(b, "grapnel_attempts_retrying_total"),
                          rate_sum(b, "grapnel_attempts_dead_total")),
                     f->attempts);
    rates_histogram(b->in->collector, SERIES("grapnel_end_to_end_seconds"),
                    b->in->mono_ms, &end_to_end);
    f->p50_s = histogram_quantile(&end_to_end, 0.5);
    f->p95_s = histogram_quantile(&end_to_end, 0.95);
    f->p99_s = histogram_quantile(&end_to_end, 0.99);
    f->at_ingress = now_of(b, SERIES("grapnel_ingress_pending"));
    f->to_sequencer = now_of(b, SERIES("grapnel_ingress_backlog"));
    f->held = now_of(b, SERIES("grapnel_events_buffered"));
    f->waiting = now_of(b, SERIES(open, .label = "status", .value = "waiting"));
    f->out = now_of(b, SERIES(open, .label = "status", .value = "in_flight"));
    f->retrying = now_of(b,
                         SERIES(open, .label = "status", .value = "retrying"));
    f->dead_letters = now_of(b, SERIES("grapnel_dlqd_dead_letters_dead"));
    f->oldest_s = now_of(b, SERIES("grapnel_oldest_open_seconds"));
    for (const struct collected *p = NULL;
         (p = next_of(b, "grapnel_ingress_backlog_oldest_seconds", p));)
        f->oldest_s = fmax(f->oldest_s, p->value); /* fmax() ignores NAN */
    f->gaps_open = now_of(b, SERIES("grapnel_gaps_open"));
}

/* ---- processes ---- */

static void take_processes(struct build *b)
{
    const struct top_input *in = b->in;

    b->f->processes = gr_alloc((in->seen_count + 1) * sizeof *b->f->processes);
    b->f->process_count = in->seen_count;
    for (size_t i = 0; i < in->seen_count; i++) {
        const char *name = in->seen[i].name;
        const struct publisher *t = collector_publisher(in->collector, name);
        struct top_process *p = &b->f->processes[i];
        struct histogram commits = {0};

        snprintf(p->name, sizeof p->name, "%s", name);
        snprintf(p->host, sizeof p->host, "%s",
                 in->seen[i].host ? in->seen[i].host : "");
        p->silent_ms = in->mono_ms -
                       (t && t->heard_ms ? t->heard_ms : in->began_mono_ms);
        p->state = !in->seen[i].listens          ? TOP_DOWN
                   : p->silent_ms > in->stale_ms ? TOP_SILENT
                                                 : TOP_UP;
        p->up_s = (double)in->now_ms / 1000 -
                  now_of(b,
                         SERIES("grapnel_start_time_seconds", .process = name));
        p->backlog = now_of(b, SERIES("grapnel_link_backlog", .process = name));
        p->store_bytes = now_of(b,
                                SERIES("grapnel_store_bytes", .process = name));
        p->free_bytes = now_of(
            b, SERIES("grapnel_store_free_bytes", .process = name));
        rates_histogram(in->collector,
                        SERIES("grapnel_commit_seconds", .process = name),
                        in->mono_ms, &commits);
        p->commit_p99_s = histogram_quantile(&commits, 0.99);
    }
}

/* ---- endpoints ---- */

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct top_endpoint *)a)->name,
                  ((const struct top_endpoint *)b)->name);
}

static struct top_endpoint *find(const struct top_data *f, const char *name)
{
    struct top_endpoint key;

    snprintf(key.name, sizeof key.name, "%s", name);
    return f->endpoint_count ? bsearch(&key, f->endpoints, f->endpoint_count,
                                       sizeof key, compare)
                             : NULL;
}

static void add_name(struct top_data *f, size_t *capacity, const char *name)
{
    struct top_endpoint *e;

    if (f->endpoint_count == *capacity) {
        *capacity = *capacity ? 2 * *capacity : 64;
        f->endpoints = gr_realloc(f->endpoints,
                                  *capacity * sizeof *f->endpoints);
    }
    e = &f->endpoints[f->endpoint_count++];
    *e = (struct top_endpoint){.rate = NAN,
                               .failed = NAN,
                               .p95_s = NAN,
                               .in_flight = NAN,
                               .waiting = NAN,
                               .retrying = NAN};
    snprintf(e->name, sizeof e->name, "%s", name);
}

/* Every endpoint of the configuration, of the sequencer and of the metrics, once, sorted. */
static void take_names(struct build *b)
{
    struct top_data *f = b->f;
    size_t capacity = 0, n = 0, i;
    json_t *e;

    for (const char *const *name = b->in->endpoints; name && *name; name++)
        add_name(b->f, &capacity, *name);
    json_array_foreach(b->in->endpoint_list, i, e)
    {
        const char *name = json_string_value(json_object_get(e, "name"));

        if (name)
            add_name(b->f, &capacity, name);
    }
    for (const struct collected *p = NULL;
         (p = next_of(b, "grapnel_endpoint_attempts_total", p));)
        if (*collected_label(p, "endpoint"))
            add_name(b->f, &capacity, collected_label(p, "endpoint"));
    if (!f->endpoint_count)
        return;
    qsort(f->endpoints, f->endpoint_count, sizeof *f->endpoints, compare);
    for (i = 1; i < f->endpoint_count; i++)
        if (compare(&f->endpoints[n], &f->endpoints[i]) != 0)
            f->endpoints[++n] = f->endpoints[i];
    f->endpoint_count = n + 1;
}

static double number_of(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    return json_is_number(v) ? json_number_value(v) : NAN;
}

/* Adds a gauge of each endpoint to the double at `offset` of it. */
static void take_gauge(struct build *b, const char *name, size_t offset)
{
    for (const struct collected *p = NULL; (p = next_of(b, name, p));) {
        struct top_endpoint *e = find(b->f, collected_label(p, "endpoint"));

        if (e)
            *(double *)((char *)e + offset) += p->value;
    }
}

static void take_attempts(struct build *b)
{
    for (const struct collected *p = NULL;
         (p = next_of(b, "grapnel_endpoint_attempts_total", p));) {
        struct top_endpoint *e = find(b->f, collected_label(p, "endpoint"));
        const char *outcome = collected_label(p, "outcome");
        double rate = rate_of(p);

        if (!e || isnan(rate))
            continue;
        e->rate = plus(e->rate, rate);
        if (strcmp(outcome, "delivered") == 0)
            e->good += rate;
        else if (strcmp(outcome, "released") != 0)
            e->bad += rate;
    }
}

static void take_latencies(struct build *b)
{
    struct histogram *all = gr_alloc((b->f->endpoint_count + 1) * sizeof *all);

    for (const struct collected *p = NULL;
         (p = next_of(b, "grapnel_attempt_seconds", p));) {
        struct top_endpoint *e = find(b->f, collected_label(p, "endpoint"));

        if (e)
            rate_histogram(p, &all[e - b->f->endpoints]);
    }
    for (size_t i = 0; i < b->f->endpoint_count; i++)
        b->f->endpoints[i].p95_s = histogram_quantile(&all[i], 0.95);
    free(all);
}

/* Sets the worst trouble of the endpoint in a few words; a worse one has a larger weight. */
static void judge(struct top_endpoint *e)
{
    char words[80];

    snprintf(words, sizeof words, "%s", e->trouble);
    e->failed = part(e->bad, e->good + e->bad);
    if (strcmp(e->state, "disabled") == 0 || e->disabled > 0) {
        e->mark = MARK_TROUBLE;
        e->weight = 900;
        snprintf(e->trouble, sizeof e->trouble, "disabled%s%.60s",
                 *words ? ": " : "", words);
        snprintf(e->state, sizeof e->state, "disabled");
    } else if (e->halted > 0) {
        e->mark = MARK_TROUBLE;
        e->weight = 800;
        snprintf(e->trouble, sizeof e->trouble, "%.0f halted", e->halted);
    } else if (strcmp(e->state, "held") == 0 || e->held > 0) {
        e->mark = MARK_TROUBLE;
        e->weight = 750;
        snprintf(e->trouble, sizeof e->trouble, "held%s%.60s",
                 *words ? ": " : "", words);
    } else if (e->breaker > 0) {
        e->mark = MARK_TROUBLE;
        e->weight = 700;
        snprintf(e->trouble, sizeof e->trouble, "breaker open");
    } else if (e->failing_s > 0) {
        e->mark = MARK_TROUBLE;
        e->weight = 600;
        snprintf(e->trouble, sizeof e->trouble, "failing");
    } else if (e->known && e->no_owner && strcmp(e->state, "active") == 0 &&
               (e->waiting > 0 || e->retrying > 0)) { /* an idle one has none */
        e->mark = MARK_WARNING;
        e->weight = 500;
        snprintf(e->trouble, sizeof e->trouble, "no deliverer");
    } else if (e->failed >= failing_part) { /* not when it is NAN */
        e->mark = MARK_WARNING;
        e->weight = 400;
        snprintf(e->trouble, sizeof e->trouble, "fails");
    } else if (strcmp(e->state, "paused") == 0) {
        e->mark = MARK_WARNING;
        e->weight = 300;
        snprintf(e->trouble, sizeof e->trouble, "paused");
    }
    if (e->failed > 0)
        e->weight += 90 * e->failed;
}

static void take_endpoints(struct build *b)
{
    json_t *reply;
    size_t i;

    take_names(b);
    json_array_foreach(b->in->endpoint_list, i, reply)
    {
        const char *name = json_string_value(json_object_get(reply, "name"));
        const char *state = json_string_value(json_object_get(reply, "state"));
        const char *why = json_string_value(json_object_get(reply, "reason"));
        struct top_endpoint *e = name ? find(b->f, name) : NULL;

        if (!e || !state)
            continue;
        e->known = true;
        snprintf(e->state, sizeof e->state, "%s", state);
        if (why && strcmp(state, "paused") != 0)
            snprintf(e->trouble, sizeof e->trouble, "%s", why);
        e->in_flight = number_of(reply, "in_flight");
        e->waiting = number_of(reply, "waiting");
        e->waiting_more = json_is_true(json_object_get(reply, "waiting_more"));
        e->retrying = number_of(reply, "retrying");
        e->halted = number_of(reply, "halted_lanes");
        e->no_owner = json_is_null(json_object_get(reply, "owner"));
    }
    take_gauge(b, "grapnel_endpoint_disabled",
               offsetof(struct top_endpoint, disabled));
    take_gauge(b, "grapnel_endpoint_held", offsetof(struct top_endpoint, held));
    take_gauge(b, "grapnel_endpoint_failing_seconds",
               offsetof(struct top_endpoint, failing_s));
    take_gauge(b, "grapnel_endpoint_breaker_open",
               offsetof(struct top_endpoint, breaker));
    take_attempts(b);
    take_latencies(b);
    for (i = 0; i < b->f->endpoint_count; i++)
        judge(&b->f->endpoints[i]);
}

/* ---- gaps and alerts, from replies ---- */

static char *copy(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return gr_strdup(text ? text : "");
}

static int64_t age_of(const struct build *b, const json_t *o, const char *key)
{
    const char *at = json_string_value(json_object_get(o, key));
    int64_t us;

    if (!at || !rfc3339_parse(at, strlen(at), RFC3339_FULL, &us) ||
        us / 1000 > b->in->now_ms)
        return 0;
    return b->in->now_ms - us / 1000;
}

static void take_gaps(struct build *b)
{
    struct top_data *f = b->f;
    json_t *g;
    size_t i;

    f->gaps = gr_alloc((json_array_size(b->in->gap_list) + 1) *
                       sizeof *f->gaps);
    json_array_foreach(b->in->gap_list, i, g)
    {
        json_int_t from = json_integer_value(json_object_get(g, "from")),
                   to = json_integer_value(json_object_get(g, "to"));

        f->gaps[f->gap_count++] = (struct top_gap){
            .id = copy(g, "id"),
            .source = copy(g, "source"),
            .workspace = copy(g, "workspace"),
            .numbers = from == to ? gr_printf("%lld", (long long)from)
                                  : gr_printf("%lld-%lld", (long long)from,
                                              (long long)to),
            .age_ms = age_of(b, g, "opened_at")};
    }
}

static void take_alerts(struct build *b)
{
    struct top_data *f = b->f;
    json_t *a;
    size_t i;

    f->alerts = gr_alloc((json_array_size(b->in->alert_list) + 1) *
                         sizeof *f->alerts);
    json_array_foreach(b->in->alert_list, i, a)
    {
        const char *state = json_string_value(json_object_get(a, "state"));

        if (!state || strcmp(state, "firing") != 0)
            continue;
        f->alerts[f->alert_count++] = (struct top_alert){
            .name = copy(a, "name"),
            .severity = copy(a, "severity"),
            .subject = copy(a, "subject"),
            .state = copy(a, "state"),
            .summary = copy(a, "summary"),
            .age_ms = age_of(b, a, "since")};
    }
}

void top_data_build(struct top_data *f, const struct top_input *in)
{
    struct build b = {.f = f, .in = in};

    *f = (struct top_data){.now_ms = in->now_ms};
    snprintf(f->sequencer_why, sizeof f->sequencer_why, "%s",
             in->sequencer_why);
    snprintf(f->console_why, sizeof f->console_why, "%s", in->console_why);
    take_totals(&b);
    take_processes(&b);
    take_endpoints(&b);
    take_gaps(&b);
    take_alerts(&b);
}

void top_data_fini(struct top_data *f)
{
    for (size_t i = 0; i < f->gap_count; i++) {
        free(f->gaps[i].id);
        free(f->gaps[i].source);
        free(f->gaps[i].workspace);
        free(f->gaps[i].numbers);
    }
    for (size_t i = 0; i < f->alert_count; i++) {
        free(f->alerts[i].name);
        free(f->alerts[i].severity);
        free(f->alerts[i].subject);
        free(f->alerts[i].state);
        free(f->alerts[i].summary);
    }
    free(f->processes);
    free(f->endpoints);
    free(f->gaps);
    free(f->alerts);
    *f = (struct top_data){0};
}

/* ---- as JSON: unknown numbers are null ---- */

static json_t *number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

json_t *top_data_json(const struct top_data *f)
{
    json_t *processes = json_array(), *endpoints = json_array(),
           *gaps = json_array(), *alerts = json_array(), *rates, *depths;
    char at[RFC3339_BYTES];

    rfc3339(at, f->now_ms);
    rates = json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "accepted_per_s",
                      number(f->accepted), "refused_per_s", number(f->refused),
                      "delivered_per_s", number(f->delivered), "dead_per_s",
                      number(f->dead), "attempts_per_s", number(f->attempts),
                      "duplicates_ratio", number(f->duplicates), "failed_ratio",
                      number(f->failed));
    depths = json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "ingress",
                       number(f->at_ingress), "to_sequencer",
                       number(f->to_sequencer), "held", number(f->held),
                       "waiting", number(f->waiting), "out", number(f->out),
                       "retrying", number(f->retrying), "dead_letters",
                       number(f->dead_letters), "oldest_s", number(f->oldest_s),
                       "gaps_open", number(f->gaps_open));
    for (size_t i = 0; i < f->process_count; i++) {
        const struct top_process *p = &f->processes[i];

        json_array_append_new(
            processes,
            json_pack("{s:s,s:o,s:s,s:o,s:o,s:o,s:o,s:o}", "process", p->name,
                      "host", json_text_or_null(*p->host ? p->host : NULL),
                      "state", top_state_name(p->state), "up_s",
                      number(p->up_s), "backlog", number(p->backlog),
                      "commit_p99_s", number(p->commit_p99_s), "store_bytes",
                      number(p->store_bytes), "free_bytes",
                      number(p->free_bytes)));
    }
    for (size_t i = 0; i < f->endpoint_count; i++) {
        const struct top_endpoint *e = &f->endpoints[i];

        json_array_append_new(
            endpoints,
            json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "endpoint",
                      e->name, "state", json_text_or_null(e->state), "trouble",
                      json_text_or_null(e->trouble), "attempts_per_s",
                      number(e->rate), "failed_ratio", number(e->failed),
                      "p95_s", number(e->p95_s), "in_flight",
                      number(e->in_flight), "waiting", number(e->waiting),
                      "retrying", number(e->retrying)));
    }
    for (size_t i = 0; i < f->gap_count; i++)
        json_array_append_new(
            gaps, json_pack("{s:o,s:o,s:o,s:o,s:I}", "id",
                            json_text_of(f->gaps[i].id), "source",
                            json_text_of(f->gaps[i].source), "workspace",
                            json_text_of(f->gaps[i].workspace), "numbers",
                            json_text_of(f->gaps[i].numbers), "age_ms",
                            (json_int_t)f->gaps[i].age_ms));
    for (size_t i = 0; i < f->alert_count; i++)
        json_array_append_new(
            alerts, json_pack("{s:o,s:o,s:o,s:o,s:I}", "name",
                              json_text_of(f->alerts[i].name), "severity",
                              json_text_of(f->alerts[i].severity), "subject",
                              json_text_of(f->alerts[i].subject), "summary",
                              json_text_of(f->alerts[i].summary), "age_ms",
                              (json_int_t)f->alerts[i].age_ms));
    return json_pack("{s:s,s:o,s:{s:o,s:o,s:o},s:o,s:o,s:o,s:o,s:o}", "at", at,
                     "rates", rates, "end_to_end", "p50_s", number(f->p50_s),
                     "p95_s", number(f->p95_s), "p99_s", number(f->p99_s),
                     "depths", depths, "processes", processes, "endpoints",
                     endpoints, "gaps", gaps, "alerts", alerts);
}
