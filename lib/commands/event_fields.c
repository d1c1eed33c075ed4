/* event_fields: the fields of events, deliveries, attempts and timelines in replies. */
#include "tables.h"

const char *const event_statuses[] = {"buffered",  "routed",  "done",
                                      "duplicate", "ignored", "refused",
                                      "expired",   NULL};

const char *const delivery_statuses[] = {
    "waiting", "in_flight", "retrying", "delivered", "dead", "abandoned", NULL};

const struct value event_fields[] = {EVENT_FIELDS, {0}};

/* ---- a timeline ---- */

static const struct value step_fields[] = {
    TIME("at", "when it happened"),
    TEXT("process", "the process that reports it"),
    TEXT("what", "a sentence for people; programs should not parse it"),
    {0}};
const struct value timeline_step = OBJECT("step", step_fields, "one step");

/* ---- one event in full ---- */

static const struct value attempt_fields[] = {
    INTEGER("n", "the number of the attempt, from 1"),
    TIME("at", "when it began"),
    INTEGER("http_status", "the status of the response; null: there was none",
            .flags = VALUE_NULL),
    TEXT("error", "why it failed; null: it succeeded", .flags = VALUE_NULL),
    INTEGER("duration_ms", "how long it took"),
    TEXT("deliverer", "the deliverer that made it; null: it is not known",
         .flags = VALUE_NULL),
    /* the HTTP API adds what the deliverer has of it: */
    INTEGER("sends", "in HTTP: how often the request was sent",
            .flags = VALUE_ABSENT),
    OBJECT("request", sent_fields, "in HTTP: the request as it was sent",
           .flags = VALUE_ABSENT | VALUE_NULL),
    OBJECT("timings", timing_fields, "in HTTP: how long its steps took",
           .flags = VALUE_ABSENT),
    OBJECT("response", response_fields, "in HTTP: the response",
           .flags = VALUE_ABSENT | VALUE_NULL),
    TEXT("span_id", "in HTTP: its span in the event's trace",
         .flags = VALUE_ABSENT),
    {0}};
static const struct value attempt = OBJECT("attempt", attempt_fields,
                                           "one attempt");

static const struct value retry_fields[] = {
    TEXT("policy", "the name of the retry policy"),
    INTEGER("max_attempts", "the maximum number of attempts; null: no limit",
            .flags = VALUE_NULL),
    INTEGER("max_duration_ms",
            "the maximum time since the first attempt; null: no limit",
            .flags = VALUE_NULL),
    {0}};

static const char *const priorities[] = {"high", "normal", "low", NULL};

static const struct value delivery_fields[] = {
    TEXT("endpoint", "the name of the endpoint"),
    CHOICE("status", delivery_statuses, "the state of the delivery"),
    TEXT("reason", "why it is dead or abandoned; null: it is not",
         .flags = VALUE_NULL),
    INTEGER("previous",
            "the number of the workspace's event before this one at the "
            "endpoint; null: there was none",
            .flags = VALUE_NULL),
    LIST("attempts", &attempt,
         "its attempts whose results the sequencer has, oldest first"),
    INTEGER("attempts_left_out",
            "how many older attempts `attempts` leaves out: over HTTP it has "
            "about the newest 100"),
    TIME("next_attempt_at",
         "when the next attempt is due; null: as soon as possible, or never",
         .flags = VALUE_NULL),
    CHOICE("priority", priorities,
           "which deliveries leave first while others wait for the same "
           "endpoint: as its route or its event chose"),
    OBJECT("retry", retry_fields,
           "the retry policy that its route or its event chose; null: that of "
           "its endpoint applies",
           .flags = VALUE_NULL),
    {0}};
static const struct value delivery = OBJECT("delivery", delivery_fields,
                                            "one delivery");

static const struct value part_fields[] = {
    TEXT("id", "the id of the event"),
    TEXT("provider_id", "the provider's id of the event", .flags = VALUE_NULL),
    TEXT("type", "its type"),
    TEXT("workspace", "its workspace"),
    CHOICE("status", event_statuses, "its status"),
    {0}};
static const struct value part = OBJECT("event", part_fields, "one event");

const struct value event_trace_fields[] = {
    EVENT_FIELDS,
    TEXT("clock",
         "how many events of each type the workspace had then, as "
         "type=count,type=count",
         .flags = VALUE_NULL),
    TEXT("ordering_key",
         "the ordering key that its producer gave it: its lane in its "
         "workspace; null: it has none",
         .flags = VALUE_NULL),
    TEXT("trace_id",
         "its trace (W3C Trace Context): that of its request, or made of its "
         "id"),
    TEXT("traceparent",
         "the valid `traceparent` of its request; null: it had none",
         .flags = VALUE_NULL),
    LIST("deliveries", &delivery, "its deliveries, one for each endpoint"),
    LIST("timeline", &timeline_step,
         "what happened to it; the sequencer also reports the attempts"),
    LIST("events", &part,
         "if it is a request that carried several events: these"),
    TEXT("request",
         "if it arrived in a request that carried several events: the id of "
         "the request",
         .flags = VALUE_NULL),
    LIST("unreachable", &value_text,
         "in HTTP: processes whose part is missing, as they did not respond",
         .flags = VALUE_ABSENT),
    {0}};
