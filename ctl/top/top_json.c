/* top_json: one look at everything, as --json prints it. What is not known is
 * null. */
#include "clock.h"
#include "json_text.h"
#include "top_data.h"
#include <math.h>

static json_t *number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *process_json(const struct top_process *p)
{
    return json_pack("{s:s,s:s,s:o,s:o,s:o,s:o,s:o}", "process", p->name,
                     "state", top_state_name(p->state), "up_s", number(p->up_s),
                     "backlog", number(p->backlog), "commit_p99_s",
                     number(p->commit_p99_s), "store_bytes",
                     number(p->store_bytes), "free_bytes",
                     number(p->free_bytes));
}

static json_t *endpoint_json(const struct top_endpoint *e)
{
    return json_pack(
        "{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "endpoint", e->name, "state",
        *e->state ? json_string(e->state) : json_null(), "trouble",
        json_text_or_null(e->trouble), "attempts_per_s", number(e->rate),
        "failed_ratio", number(e->failed), "p95_s", number(e->p95_s),
        "in_flight", number(e->in_flight), "waiting", number(e->waiting),
        "retrying", number(e->retrying));
}

static json_t *gap_json(const struct top_gap *g)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:I}", "id", json_text_of(g->id),
                     "source", json_text_of(g->source), "workspace",
                     json_text_of(g->workspace), "numbers",
                     json_text_of(g->numbers), "age_ms", (json_int_t)g->age_ms);
}

static json_t *alert_json(const struct top_alert *a)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:I}", "name", json_text_of(a->name),
                     "severity", json_text_of(a->severity), "subject",
                     json_text_of(a->subject), "summary",
                     json_text_of(a->summary), "age_ms", (json_int_t)a->age_ms);
}

static json_t *rates_json(const struct top_data *f)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "accepted_per_s",
                     number(f->accepted), "refused_per_s", number(f->refused),
                     "delivered_per_s", number(f->delivered), "dead_per_s",
                     number(f->dead), "attempts_per_s", number(f->attempts),
                     "duplicates_ratio", number(f->duplicates), "failed_ratio",
                     number(f->failed));
}

static json_t *depths_json(const struct top_data *f)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "ingress",
                     number(f->at_ingress), "to_sequencer",
                     number(f->to_sequencer), "held", number(f->held),
                     "waiting", number(f->waiting), "out", number(f->out),
                     "retrying", number(f->retrying), "dead_letters",
                     number(f->dead_letters), "oldest_s", number(f->oldest_s),
                     "gaps_open", number(f->gaps_open));
}

json_t *top_data_json(const struct top_data *f)
{
    json_t *processes = json_array(), *endpoints = json_array(),
           *gaps = json_array(), *alerts = json_array();
    char at[RFC3339_BYTES];

    rfc3339(at, f->now_ms);
    for (size_t i = 0; i < f->process_count; i++)
        json_array_append_new(processes, process_json(&f->processes[i]));
    for (size_t i = 0; i < f->endpoint_count; i++)
        json_array_append_new(endpoints, endpoint_json(&f->endpoints[i]));
    for (size_t i = 0; i < f->gap_count; i++)
        json_array_append_new(gaps, gap_json(&f->gaps[i]));
    for (size_t i = 0; i < f->alert_count; i++)
        json_array_append_new(alerts, alert_json(&f->alerts[i]));
    return json_pack("{s:s,s:o,s:{s:o,s:o,s:o},s:o,s:o,s:o,s:o,s:o}", "at", at,
                     "rates", rates_json(f), "end_to_end", "p50_s",
                     number(f->p50_s), "p95_s", number(f->p95_s), "p99_s",
                     number(f->p99_s), "depths", depths_json(f), "processes",
                     processes, "endpoints", endpoints, "gaps", gaps, "alerts",
                     alerts);
}
