/* sources: what the configuration and the metrics of all processes say about sources and producers. */
#include "console.h"
#include "json_text.h"
#include "profile.h"
#include "profile_doc.h"
#include "sample.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The sum of a counter over all processes; null if no process of this kind is heard. */
static json_t *count_of(struct console *c, const char *kind, const char *metric,
                        const char *source)
{
    int64_t now = c->daemon.loop.mono_ms;
    double n = collector_sum(
        c->collector, SERIES(metric, .label = "source", .value = source), now);

    if (!collector_has(c->collector, kind, now))
        return json_null();
    return json_integer(isnan(n) ? 0 : (json_int_t)n);
}

/* The largest or the smallest value of a gauge in seconds; null: there is none. */
static json_t *time_of(struct console *c, const struct series_query *q,
                       const char *kind, bool largest)
{
    const struct collected *at = NULL;
    double found = NAN;

    while ((at = collector_next(c->collector, q, at, c->daemon.loop.mono_ms))) {
        if (strcmp(at->publisher->kind, kind) != 0)
            continue;
        if (isnan(found) || (largest ? at->value > found : at->value < found))
            found = at->value;
    }
    return isnan(found) ? json_null()
                        : json_time((int64_t)(found * 1000 + 0.5));
}

static int most_first(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    json_int_t m = json_integer_value(json_object_get(x, "count")),
               n = json_integer_value(json_object_get(y, "count"));

    return m == n  ? strcmp(json_string_value(json_object_get(x, "reason")),
                            json_string_value(json_object_get(y, "reason")))
           : m < n ? 1
                   : -1;
}

/* Of all processes together. */
static json_t *reasons_of(struct console *c, const char *source)
{
    const struct series_query *q = SERIES("grapnel_ingress_rejected_total",
                                          .label = "source", .value = source);
    const struct collected *at = NULL;
    json_t *sums = json_object(), *list = json_array(), *n, **rows;
    const char *reason;
    size_t count = 0;

    while ((at = collector_next(c->collector, q, at, c->daemon.loop.mono_ms))) {
        reason = collected_label(at, "reason");
        n = json_object_get(sums, reason);
        json_object_set_new(
            sums, reason,
            json_integer(json_integer_value(n) + (json_int_t)at->value));
    }
    rows = gr_alloc((json_object_size(sums) + 1) * sizeof(*rows));
    json_object_foreach(sums, reason, n)
        rows[count++] = json_pack("{s:s,s:O}", "reason", reason, "count", n);
    qsort(rows, count, sizeof(*rows), most_first);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, rows[i]);
    free(rows);
    json_decref(sums);
    return list;
}

/* `provider` NULL: it is a producer. */
static json_t *row_of(struct console *c, const char *name, const char *provider)
{
    json_t *accepted = count_of(c, "ingress",
                                "grapnel_ingress_source_accepted_total", name),
           *refused = count_of(c, "ingress", "grapnel_ingress_rejected_total",
                               name);
    json_t *requests = json_is_null(accepted)
                           ? json_null()
                           : json_integer(json_integer_value(accepted) +
                                          json_integer_value(refused));

    return json_pack(
        "{s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "name", name, "kind",
        provider ? "source" : "producer", "provider", json_text_of(provider),
        "requests", requests, "accepted", accepted, "refused", refused,
        "reasons", reasons_of(c, name), "duplicates",
        count_of(c, "sequencer", "grapnel_source_duplicates_total", name),
        "last_event_at",
        time_of(c,
                SERIES("grapnel_ingress_source_last_event_seconds",
                       .label = "source", .value = name),
                "ingress", true),
        "counted_since",
        time_of(c, SERIES("grapnel_start_time_seconds"), "ingress", false),
        "missing", learned_show_missing(c, name));
}

json_t *sources_list(void *self, json_t *args, char why[200])
{
    struct console *c = self;
    const struct settings *s = c->daemon.settings;
    json_t *list = json_array();

    (void)args, (void)why;
    for (size_t i = 0; i < s->source_count; i++)
        json_array_append_new(
            list, row_of(c, s->sources[i].name, s->sources[i].provider));
    for (size_t i = 0; i < s->producer_count; i++)
        json_array_append_new(list, row_of(c, s->producers[i].name, NULL));
    return json_pack("{s:o}", "sources", list);
}

/* ---- one ---- */

static void add_fact(void *list, const char *name, const char *text)
{
    json_array_append_new(list,
                          json_pack("{s:s,s:s}", "name", name, "text", text));
}

static void add_source(json_t *row, const struct source *s)
{
    struct profile_words w = profile_words(s->profile);
    json_t *facts = json_array();

    source_describe(s, add_fact, facts);
    json_object_update_new(
        row, json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:i}", "url",
                       json_text_or_null(s->public_url), "title",
                       json_text_or_null(w.title), "secret",
                       json_text_or_null(w.secret), "setup",
                       json_text_or_null(w.setup), "failure",
                       json_text_or_null(w.failure), "notes",
                       json_text_or_null(w.notes), "facts", facts, "no_test",
                       json_text_or_null(source_test_refusal(s)), "secrets",
                       (int)s->secrets.count));
}

json_t *sources_read(void *self, json_t *args, char why[200])
{
    struct console *c = self;
    const struct settings *s = c->daemon.settings;
    const char *name = json_string_value(json_object_get(args, "name"));
    const struct source *source = settings_source(s, name);
    const struct producer *producer = NULL;
    char *path, *url;
    json_t *row;

    for (size_t i = 0; i < s->producer_count; i++)
        if (strcmp(s->producers[i].name, name) == 0)
            producer = &s->producers[i];
    if (!source && !producer) {
        control_fail(why, CONTROL_NOT_FOUND,
                     "there is no source and no producer \"%.60s\": GET "
                     "/sources lists them",
                     name);
        return NULL;
    }
    path = source ? gr_printf("in/%s", name) : gr_strdup("v1/events");
    url = sample_url(s, path);
    row = row_of(c, name, source ? source->provider : NULL);
    json_object_set_new(row, "local_url", json_string(url));
    json_object_set_new(row, "usual", learned_show_source(c, name));
    json_object_set_new(row, "path", json_sprintf("/%s", path));
    free(path);
    free(url);
    if (source)
        add_source(row, source);
    else
        json_object_update_new(
            row,
            json_pack("{s:n,s:n,s:n,s:n,s:n,s:n,s:[],s:s,s:i}", "url", "title",
                      "secret", "setup", "failure", "notes", "facts", "no_test",
                      "only a program with a token of this producer can "
                      "publish its events",
                      "secrets", (int)producer->tokens.count));
    return row;
}
