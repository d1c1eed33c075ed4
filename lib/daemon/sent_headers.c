/* sent_headers: the values of the headers of a sent request that the deliverer does not store. */
#include "sent_headers.h"
#include "alloc.h"
#include "hops.h"
#include "trace_context.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value ? value : "";
}

/* An integer or a text as text; NULL for another value. */
static json_t *as_text(const json_t *value)
{
    char number[24];

    if (!json_is_integer(value))
        return json_is_string(value) ? json_copy((json_t *)(uintptr_t)value)
                                     : NULL;
    snprintf(number, sizeof number, "%lld",
             (long long)json_integer_value(value));
    return json_string(number);
}

/* The value of one of our own headers, from what the sequencer knows of the event. */
static json_t *event_value(const json_t *event, const char *endpoint,
                           const char *name)
{
    static const char *const fields[][2] = {
        {"grapnel-type", "type"},
        {"grapnel-workspace", "workspace"},
        {"grapnel-time", "received_at"},
        {"grapnel-sequence", "sequence"},
        {"grapnel-clock", "clock"},
        {"grapnel-source-sequence", "source_sequence"},
        {"grapnel-gap", "gap"}};
    json_t *previous = NULL, *d;
    size_t i;

    for (i = 0; i < COUNT_OF(fields); i++)
        if (strcmp(name, fields[i][0]) == 0)
            return as_text(json_object_get(event, fields[i][1]));
    if (strcmp(name, "grapnel-previous") != 0)
        return NULL;
    json_array_foreach(json_object_get(event, "deliveries"), i,
                       d) if (!previous &&
                              strcmp(text(d, "endpoint"), endpoint) == 0)
        previous = as_text(json_object_get(d, "previous"));
    return previous || !event ? previous : json_string("0");
}

/* The value of the header of the event's request with this name, after `number` others of that
 * name. */
static json_t *request_value(const json_t *request, const char *name,
                             size_t number)
{
    json_t *pair;
    size_t i;

    json_array_foreach(json_object_get(request, "headers"), i, pair)
    {
        const char *has = json_string_value(json_array_get(pair, 0));

        if (has && strcasecmp(has, name) == 0 && number-- == 0)
            return json_incref(json_array_get(pair, 1));
    }
    return NULL;
}

/* One hop more than the request that brought the event; NULL: that is not known. */
static json_t *hops_value(const json_t *request)
{
    json_t *came = request_value(request, HOPS_HEADER, 0), *value = NULL;
    const char *hops = came ? json_string_value(came) : "0";

    if (request && hops)
        value = json_sprintf("%ld", strtol(hops, NULL, 10) + 1);
    json_decref(came);
    return value;
}

/* The trace of the event with the span of the attempt; NULL: the event is not known. */
static json_t *trace_value(const json_t *event, const json_t *attempt)
{
    const char *came = text(event, "traceparent"),
               *trace = text(event, "trace_id");

    if (!*trace)
        return NULL;
    return json_sprintf("00-%s-%s-%s", trace, text(attempt, "span_id"),
                        *came ? came + strlen(came) - 2 : "01");
}

/* A header that occurs several times gets its values in their order. */
void sent_headers_fill(json_t *attempt, const json_t *event,
                       const json_t *request)
{
    json_t *headers = json_object_get(json_object_get(attempt, "request"),
                                      "headers"),
           *pair;
    const char *endpoint = json_string_value(
        json_object_get(attempt, "endpoint"));
    size_t i;

    json_array_foreach(headers, i, pair)
    {
        const char *name = json_string_value(json_array_get(pair, 0));
        json_t *value;
        size_t number = 0;

        if (!name || !endpoint || !json_is_null(json_array_get(pair, 1)))
            continue;
        for (size_t k = 0; k < i; k++) {
            const char *other = json_string_value(
                json_array_get(json_array_get(headers, k), 0));

            number += other && strcmp(other, name) == 0;
        }
        if (strcmp(name, HOPS_HEADER) == 0)
            value = hops_value(request);
        else if (strcmp(name, TRACEPARENT_HEADER) == 0)
            value = trace_value(event, attempt);
        else if (strncmp(name, "grapnel-", 8) == 0)
            value = event_value(event, endpoint, name);
        else
            value = request_value(request, name, number);
        if (value)
            json_array_set_new(pair, 1, value);
    }
}
