/* settings_names: what the configuration names, and where its numbers are
 * published: what a client of the running processes needs to know of it. */
#include "settings.h"
#include <jansson.h>

static void add(json_t *list, const char *name)
{
    if (name)
        json_array_append_new(list, json_string(name));
}

json_t *settings_names(const struct settings *s)
{
    json_t *endpoints = json_array(), *sources = json_array(),
           *policies = json_array(), *alerts = json_array(),
           *notifiers = json_array();

    for (size_t i = 0; i < s->endpoint_count; i++)
        add(endpoints, s->endpoints[i].name);
    for (size_t i = 0; i < s->source_count; i++)
        add(sources, s->sources[i].name);
    for (size_t i = 0; i < s->producer_count; i++)
        add(sources, s->producers[i].name);
    for (size_t i = 0; i < s->policy_count; i++)
        add(policies, s->policies[i].name);
    for (size_t i = 0; i < s->alert_count; i++)
        add(alerts, s->alerts[i].name);
    for (size_t i = 0; i < s->notifier_count; i++)
        add(notifiers, s->notifiers[i].name);
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:I,s:s?}", "endpoints", endpoints,
                     "sources", sources, "policies", policies, "alerts", alerts,
                     "notifiers", notifiers, "metrics_interval_ms",
                     (json_int_t)s->metrics_interval_ms, "metrics_publish",
                     s->metrics_publish);
}
