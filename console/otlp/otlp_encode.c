/* otlp_encode: spans and metrics as OTLP's JSON. */
#include "otlp_encode.h"
#include "clock.h"
#include "json_text.h"
#include "trace_context.h"
#include "wire.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of trace.proto and metrics.proto. */
enum { KIND_INTERNAL = 1, KIND_SERVER = 2, KIND_CLIENT = 3 };
enum { STATUS_UNSET = 0, STATUS_OK = 1, STATUS_ERROR = 2 };
enum { FLAG_SAMPLED = 1, FLAG_KNOWN = 0x100, FLAG_REMOTE = 0x200 };
enum { CUMULATIVE = 2 };

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

/* ---- values ---- */

static json_t *nano(int64_t ms)
{
    return json_sprintf("%" PRId64 "000000", ms > 0 ? ms : 0);
}

/* 0: there is none */
static int64_t ms_of(const json_t *o, const char *key)
{
    const char *text = text_of(o, key);
    int64_t us;

    return *text && rfc3339_parse(text, strlen(text), RFC3339_FULL, &us)
               ? us / 1000
               : 0;
}

static void add_text(json_t *attributes, const char *key, const char *value)
{
    if (*value)
        json_array_append_new(attributes,
                              json_pack("{s:s,s:{s:s}}", "key", key, "value",
                                        "stringValue", value));
}

static void add_number(json_t *attributes, const char *key, const json_t *value)
{
    if (json_is_integer(value))
        json_array_append_new(
            attributes,
            json_pack("{s:s,s:{s:o}}", "key", key, "value", "intValue",
                      json_sprintf("%" JSON_INTEGER_FORMAT,
                                   json_integer_value(value))));
}

/* Consoles of several machines may export under one name: their series differ by the instance. */
static json_t *resource(const char *service)
{
    json_t *attributes = json_array();
    char machine[256] = "";

    gethostname(machine, sizeof machine - 1);
    add_text(attributes, "service.name", service);
    add_text(attributes, "service.instance.id", machine);
    add_text(attributes, "service.version", GRAPNEL_VERSION);
    return json_pack("{s:o}", "attributes", attributes);
}

static json_t *scope(void)
{
    return json_pack("{s:s,s:s}", "name", "grapnel", "version",
                     GRAPNEL_VERSION);
}

/* ---- spans ---- */

static void trace_of(char out[TRACE_ID_CHARS + 1], const json_t *facts)
{
    trace_id_of(out, wire_text(text_of(facts, "traceparent")),
                wire_text(text_of(facts, "id")));
}

bool otlp_sampled(const json_t *facts, double ratio)
{
    const char *came = text_of(facts, "traceparent");
    char trace[TRACE_ID_CHARS + 1];
    uint64_t low;

    if (*came)
        return came[strlen(came) - 1] == '1';
    trace_of(trace, facts);
    low = strtoull(trace + 16, NULL, 16) >> 11; /* 53 bits: exact as a double */
    return (double)low < ratio * 9007199254740992.0;
}

struct span {
    const char *name, *endpoint, *parent_endpoint;
    uint64_t number, parent_number;
    int kind;
    int64_t begin_ms, end_ms;
    bool is_root; /* its parent, if any, is that of the request */
    int status;
    const char *error;
};

static void add_span(json_t *spans, const json_t *facts, const struct span *s,
                     json_t *attributes)
{
    const char *came = text_of(facts, "traceparent");
    struct bytes id = wire_text(text_of(facts, "id"));
    char trace[TRACE_ID_CHARS + 1], span[SPAN_ID_CHARS + 1],
        parent[SPAN_ID_CHARS + 1] = "";
    int flags = FLAG_SAMPLED | FLAG_KNOWN;
    json_t *o;

    trace_of(trace, facts);
    trace_attempt_span(span, id, wire_text(s->endpoint), s->number);
    if (!s->is_root) {
        trace_attempt_span(parent, id, wire_text(s->parent_endpoint),
                           s->parent_number);
    } else if (*came) {
        snprintf(parent, sizeof parent, "%.16s", came + 3 + TRACE_ID_CHARS + 1);
        flags |= FLAG_REMOTE;
    }
    add_text(attributes, "grapnel.event.id", text_of(facts, "id"));
    add_text(attributes, "grapnel.event.type", text_of(facts, "type"));
    add_text(attributes, "grapnel.source", text_of(facts, "source"));
    add_text(attributes, "grapnel.workspace", text_of(facts, "workspace"));
    o = json_pack("{s:s,s:s,s:s,s:i,s:i,s:o,s:o,s:o}", "traceId", trace,
                  "spanId", span, "name", s->name, "kind", s->kind, "flags",
                  flags, "startTimeUnixNano", nano(s->begin_ms),
                  "endTimeUnixNano",
                  nano(s->end_ms > s->begin_ms ? s->end_ms : s->begin_ms),
                  "attributes", attributes);
    if (*parent)
        json_object_set_new(o, "parentSpanId", json_string(parent));
    if (s->status == STATUS_ERROR)
        json_object_set_new(o, "status",
                            json_pack("{s:i,s:o}", "code", STATUS_ERROR,
                                      "message", json_text_of(s->error)));
    else if (s->status == STATUS_OK)
        json_object_set_new(o, "status", json_pack("{s:i}", "code", STATUS_OK));
    json_array_append_new(spans, o);
}

void otlp_event_spans(json_t *spans, const json_t *event, const json_t *facts)
{
    int64_t received = ms_of(event, "received_at"),
            taken = ms_of(facts, "taken_at"),
            released = ms_of(facts, "released_at");
    const char *status = text_of(event, "status");
    bool refused = strcmp(status, "refused") == 0;
    json_t *attributes = json_array();

    add_span(spans, facts,
             &(struct span){.name = "receive",
                            .endpoint = "",
                            .kind = KIND_SERVER,
                            .begin_ms = received,
                            .end_ms = taken,
                            .is_root = true},
             json_array());
    add_text(attributes, "grapnel.status", status);
    add_span(spans, facts,
             &(struct span){.name = "sequence",
                            .endpoint = "",
                            .parent_endpoint = "",
                            .number = 1,
                            .kind = KIND_INTERNAL,
                            .begin_ms = taken,
                            .end_ms = released ? released : taken,
                            .status = refused ? STATUS_ERROR : STATUS_UNSET,
                            .error = text_of(event, "reason")},
             attributes);
}

void otlp_attempt_spans(json_t *spans, const json_t *attempt,
                        const json_t *facts)
{
    const char *outcome = text_of(attempt, "outcome"),
               *endpoint = text_of(attempt, "endpoint");
    bool delivered = strcmp(outcome, "delivered") == 0,
         dead = strcmp(outcome, "dead") == 0;
    int64_t at = ms_of(attempt, "at"), released = ms_of(facts, "released_at"),
            end = at +
                  json_integer_value(json_object_get(attempt, "duration_ms"));
    json_t *attributes = json_array();
    struct span span = {
        .name = "attempt",
        .endpoint = endpoint,
        .parent_endpoint = endpoint,
        .number = (uint64_t)json_integer_value(json_object_get(attempt, "n")),
        .kind = KIND_CLIENT,
        .begin_ms = at,
        .end_ms = end,
        .status = delivered ? STATUS_OK : STATUS_ERROR,
        .error = text_of(attempt, "error")};

    add_text(attributes, "grapnel.endpoint", endpoint);
    add_text(attributes, "grapnel.outcome", outcome);
    add_number(attributes, "grapnel.attempt", json_object_get(attempt, "n"));
    add_number(attributes, "http.response.status_code",
               json_object_get(attempt, "http_status"));
    add_span(spans, facts, &span, attributes);
    if (!delivered && !dead)
        return;
    attributes = json_array();
    add_text(attributes, "grapnel.endpoint", endpoint);
    add_number(attributes, "grapnel.attempts", json_object_get(attempt, "n"));
    span.name = "deliver";
    span.parent_endpoint = "";
    span.number = 0;
    span.kind = KIND_INTERNAL;
    span.begin_ms = released ? released : ms_of(facts, "taken_at");
    span.error = text_of(attempt, "reason");
    add_span(spans, facts, &span, attributes);
}

static char *as_text(json_t *doc)
{
    char *text = json_dumps(doc, JSON_COMPACT);

    json_decref(doc);
    return text;
}

char *otlp_trace_request(const json_t *spans, size_t count, const char *service)
{
    json_t *some = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append(some, json_array_get(spans, i));
    return as_text(json_pack("{s:[{s:o,s:[{s:o,s:o}]}]}", "resourceSpans",
                             "resource", resource(service), "scopeSpans",
                             "scope", scope(), "spans", some));
}

/* ---- metrics ---- */

static json_t *labels_of(const struct collected *p)
{
    json_t *attributes = json_array();

    add_text(attributes, "process", p->publisher->name);
    for (int i = 0; i < p->label_count; i++)
        add_text(attributes, p->keys[i], p->values[i]);
    return attributes;
}

static json_t *point(const struct collected *p, int64_t since_ms,
                     int64_t now_ms)
{
    bool gauge = p->metric->kind == METRIC_GAUGE;
    double value = gauge ? p->value : collected_total(p);
    json_t *o = json_pack("{s:o,s:o,s:f}", "attributes", labels_of(p),
                          "timeUnixNano", nano(now_ms), "asDouble",
                          isfinite(value) ? value : 0.0);

    if (!gauge)
        json_object_set_new(o, "startTimeUnixNano", nano(since_ms));
    return o;
}

static json_t *histogram_point(const struct collected *p, int64_t since_ms,
                               int64_t now_ms)
{
    json_t *counts = json_array(), *bounds = json_array();
    double all = 0;

    for (int i = 0; i <= p->bounds; i++) {
        double count = p->count_bases[i] + p->counts[i];

        all += count;
        json_array_append_new(counts, json_sprintf("%.0f", count));
        if (i < p->bounds)
            json_array_append_new(bounds, json_real(p->le[i]));
    }
    return json_pack("{s:o,s:o,s:o,s:o,s:f,s:o,s:o}", "attributes",
                     labels_of(p), "startTimeUnixNano", nano(since_ms),
                     "timeUnixNano", nano(now_ms), "count",
                     json_sprintf("%.0f", all), "sum", collected_total(p),
                     "bucketCounts", counts, "explicitBounds", bounds);
}

/* As UCUM has it, which is what OpenTelemetry asks for; things that are counted are an annotation. A backend
 * that appends the unit to the name, as Prometheus' translation does, then leaves our names as they are. */
static json_t *unit_of(const char *unit)
{
    static const char *const known[][2] = {
        {"seconds", "s"}, {"bytes", "By"}, {"percent", "%"}};
    char *text;
    json_t *o;

    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (strcmp(unit, known[i][0]) == 0)
            return json_string(known[i][1]);
    text = gr_printf("{%s}", unit);
    for (char *at = text; *at; at++)
        if (*at == ' ')
            *at = '_'; /* an annotation has no blanks */
    o = json_text_of(text);
    free(text);
    return o;
}

static json_t *metric_json(const struct collected_metric *m, json_t *points)
{
    json_t *o = json_pack("{s:s}", "name", m->name);

    if (m->help)
        json_object_set_new(o, "description", json_text_of(m->help));
    if (m->unit && *m->unit)
        json_object_set_new(o, "unit", unit_of(m->unit));
    if (m->kind == METRIC_GAUGE)
        json_object_set_new(o, "gauge",
                            json_pack("{s:o}", "dataPoints", points));
    else if (m->kind == METRIC_COUNTER)
        json_object_set_new(o, "sum",
                            json_pack("{s:o,s:i,s:b}", "dataPoints", points,
                                      "aggregationTemporality", CUMULATIVE,
                                      "isMonotonic", 1));
    else
        json_object_set_new(o, "histogram",
                            json_pack("{s:o,s:i}", "dataPoints", points,
                                      "aggregationTemporality", CUMULATIVE));
    return o;
}

char *otlp_metrics_request(struct collector *g, const char *service,
                           int64_t since_ms, int64_t now_ms, int64_t mono_ms,
                           int64_t *points)
{
    json_t *metrics = json_array();

    *points = 0;
    for (const struct collected_metric *m = collector_metrics(g); m;
         m = m->next) {
        json_t *list = json_array();

        for (const struct collected *p = m->series; p; p = p->next) {
            bool histogram = m->kind == METRIC_HISTOGRAM;

            if (!collected_fresh(p, mono_ms) || (histogram && !p->bounds))
                continue;
            json_array_append_new(
                list, histogram ? histogram_point(p, since_ms, now_ms)
                                : point(p, since_ms, now_ms));
        }
        *points += (int64_t)json_array_size(list);
        if (json_array_size(list))
            json_array_append_new(metrics, metric_json(m, list));
        else
            json_decref(list);
    }
    if (!*points) {
        json_decref(metrics);
        return NULL;
    }
    return as_text(json_pack("{s:[{s:o,s:[{s:o,s:o}]}]}", "resourceMetrics",
                             "resource", resource(service), "scopeMetrics",
                             "scope", scope(), "metrics", metrics));
}
