/* sequencer_commands: what the sequencer answers. */
#include "bounds.h"
#include "commands.h"
#include "tables.h"

/* ---- what several commands take ---- */

#define ARG_BEFORE                                                    \
    TEXT("before", "the `next` of the page before: lists older ones", \
         .min = 1, .max = 80)
#define ARG_FILTERS                            \
    PATTERN("workspace", "of this workspace"), \
        PATTERN("source", "from this source"), PATTERN("type", "of this type")
#define ARG_NAME                                                      \
    TEXT("name", "the name of the endpoint", .flags = VALUE_REQUIRED, \
         .min = 1, .max = NAME_MAX_BYTES)
#define ARG_EVENT(h) \
    TEXT("event", h, .flags = VALUE_REQUIRED, .min = 1, .max = 200)
#define ARG_ENDPOINT(h, ...) \
    TEXT("endpoint", h, .min = 1, .max = NAME_MAX_BYTES, __VA_ARGS__)

/* ---- and what their replies have ---- */

#define FIELD_NEXT                                                       \
    TEXT("next",                                                         \
         "ask for the next page with this; null: this is the last page", \
         .flags = VALUE_NULL)

static const struct value event = OBJECT("event", event_fields, "one event");

/* ---- trace ---- */

static const struct value event_args[] = {
    TEXT("id",
         "the evt_ id of the event, or the provider's id of the event "
         "or of its delivery",
         .flags = VALUE_REQUIRED, .min = 1, .max = HEADERS_MAX_BYTES),
    ARG_NEWEST,
    ARG_TENANT,
    {0}};

static const struct value match_fields[] = {
    TEXT("id", "the id of the event"),
    TEXT("provider_id", "the provider's id of the event", .flags = VALUE_NULL),
    TEXT("delivery_id", "the provider's id of its delivery",
         .flags = VALUE_NULL),
    TIME("received_at", "when ingress received it"),
    TEXT("type", "its type"),
    TEXT("workspace", "its workspace"),
    CHOICE("status", event_statuses, "its status"),
    TEXT("duplicate_of", "the id of the event that it is a duplicate of",
         .flags = VALUE_NULL),
    {0}};
static const struct value match = OBJECT("match", match_fields, "one event");
static const struct value matches_fields[] = {
    LIST("matches", &match, "the newest events with this provider id",
         .max = SAME_ID_MAX),
    {0}};
static const struct value matches = OBJECT(
    "reply", matches_fields,
    "if several events have this provider id: ask again with an evt_ id");

const struct command_spec command_event = {
    .name = "trace",
    .process = "sequencer",
    .help = "Shows one event: what it is, its deliveries with their attempts, "
            "and the sequencer's part of its timeline.",
    .args = event_args,
    .reply = OBJECT("reply", event_trace_fields, "the event"),
    .or_reply = &matches,
    .role = ROLE_VIEWER,
    .flags = COMMAND_LOCAL,
};

/* ---- events ---- */

static const struct value events_args[] = {
    ARG_FILTERS,
    PATTERN("endpoint", "with a delivery to this endpoint"),
    CHOICE("status", event_statuses, "with this status"),
    TEXT("id", "with this provider id, of the event or of its delivery",
         .min = 1, .max = TEXT_MAX_BYTES),
    ARGS_TIMES,
    ARG_LIMIT,
    ARG_BEFORE,
    ARG_TENANT,
    {0}};
static const struct value events_fields[] = {
    LIST("events", &event, "the events, newest first"), FIELD_NEXT, {0}};
const struct command_spec command_events = {
    .name = "events",
    .process = "sequencer",
    .help = "Lists events, newest first.",
    .args = events_args,
    .reply = OBJECT("reply", events_fields, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_READS,
    .tenant = TENANT_LIST,
    .routes = {{"GET", "/events"}},
    .rows = "events",
};

/* ---- deliveries ---- */

static const char *const delivery_searches[] = {
    "waiting",   "in_flight", "retrying",  "open",
    "delivered", "dead",      "abandoned", NULL};
static const struct value deliveries_args[] = {
    ARG_FILTERS,
    PATTERN("endpoint", "to this endpoint"),
    CHOICE("status", delivery_searches,
           "with this status; open: waiting, in_flight or retrying"),
    ARGS_TIMES,
    ARG_LIMIT,
    ARG_BEFORE,
    ARG_TENANT,
    {0}};
static const struct value found_fields[] = {
    TEXT("event_id", "the id of the event"),
    TEXT("endpoint", "the name of the endpoint"),
    CHOICE("status", delivery_statuses, "the state of the delivery"),
    TEXT("source", "the source of the event"),
    TEXT("type", "its type"),
    TEXT("workspace", "its workspace"),
    INTEGER("sequence", "its number in the workspace; null: it has none",
            .flags = VALUE_NULL),
    INTEGER("attempts", "how many attempts were made"),
    INTEGER("last_http_status",
            "the status of the newest response; null: there was none",
            .flags = VALUE_NULL),
    TEXT("last_error", "why the newest attempt failed; null: it did not",
         .flags = VALUE_NULL),
    TEXT("reason", "why it is dead or abandoned; null: it is not",
         .flags = VALUE_NULL),
    TIME("received_at", "when ingress received the event"),
    TIME("next_attempt_at",
         "when the next attempt is due; null: as soon as possible, or never",
         .flags = VALUE_NULL),
    {0}};
static const struct value found = OBJECT("delivery", found_fields,
                                         "one delivery");
static const struct value deliveries_fields[] = {
    LIST("deliveries", &found, "the deliveries, newest first"),
    FIELD_NEXT,
    {0}};
const struct command_spec command_deliveries = {
    .name = "deliveries",
    .process = "sequencer",
    .help = "Lists deliveries, newest first.",
    .args = deliveries_args,
    .reply = OBJECT("reply", deliveries_fields, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_READS,
    .tenant = TENANT_LIST,
    .routes = {{"GET", "/deliveries"}},
    .rows = "deliveries",
};

/* ---- endpoint ---- */

static const char *const endpoint_states[] = {
    "active", "paused", "disabled", "held", "off", "removed", NULL};
static const char *const endpoint_orders[] = {"none", "workspace", "all", NULL};
static const struct value halted_fields[] = {
    TEXT("workspace", "the workspace of the lane; null: the lane has all",
         .flags = VALUE_NULL),
    TEXT("ordering_key",
         "the ordering key of the lane; null: its events have none",
         .flags = VALUE_NULL),
    TIME("since", "since when it is halted"),
    TEXT("event_id", "the event that halts it"),
    TEXT("dead_letter_id",
         "the dead letter that halts it: retry, resolve or discard it"),
    {0}};
static const struct value halted = OBJECT("lane", halted_fields, "one lane");
static const char *const endpoint_managers[] = {"file", "api", NULL};
#define ENDPOINT_FIELDS                                                        \
    TEXT("name", "its name; the id of one that was made at run time"),         \
        CHOICE(                                                                \
            "state", endpoint_states,                                          \
            "held: it refuses every event, and gets one attempt at a time; "   \
            "off: `enabled: false`; removed: no longer in the configuration"), \
        TIME("since",                                                          \
             "since when it is paused, disabled or held; null: it is not",     \
             .flags = VALUE_NULL),                                             \
        TEXT("reason", "why it is paused, disabled or held; null: it is not",  \
             .flags = VALUE_NULL),                                             \
        TIME("failing_since",                                                  \
             "since when all of its attempts fail; null: they do not",         \
             .flags = VALUE_NULL),                                             \
        CHOICE("ordered", endpoint_orders,                                     \
               "which deliveries are made one at a time: none, those of one "  \
               "workspace, or all"),                                           \
        TEXT("owner", "the deliverer that sends to it; null: there is none",   \
             .flags = VALUE_NULL),                                             \
        INTEGER("in_flight", "deliveries that its deliverer has"),             \
        INTEGER("waiting", "deliveries that wait, counted up to 10,000"),      \
        BOOL("waiting_more", "whether more than those may wait"),              \
        INTEGER("retrying", "deliveries that are scheduled for a retry, "      \
                            "counted up to 10,000"),                           \
        INTEGER("halted_lanes", "how many lanes a dead letter halts"),         \
        NUMBER("failing_seconds", "for how long it has failed, without the "   \
                                  "time while it was paused"),                 \
        NUMBER("success_rate",                                                 \
               "the share of attempts that delivered in the last minutes, "    \
               "from 0 "                                                       \
               "to 1; null: there were none",                                  \
               .flags = VALUE_NULL),                                           \
        NUMBER("latency_ms",                                                   \
               "the mean duration of attempts that delivered in the last "     \
               "minutes; "                                                     \
               "null: there were none",                                        \
               .flags = VALUE_NULL),                                           \
        LIST("halted", &halted, "the oldest 100 halted lanes", .max = 100),    \
        CHOICE("managed_by", endpoint_managers,                                \
               "file: by grapnel.yaml; api: it was made at run time; null: "   \
               "it is "                                                        \
               "removed",                                                      \
               .flags = VALUE_NULL),                                           \
        INTEGER("version",                                                     \
                "of its settings; null: it was not made at run time. HTTP "    \
                "shows it "                                                    \
                "as `ETag`, too",                                              \
                .flags = VALUE_NULL),                                          \
        TEXT("description", "what it is for; null: not given",                 \
             .flags = VALUE_NULL),                                             \
        TEXT(                                                                  \
            "workspace",                                                       \
            "the only workspace whose events it gets; null: it gets those of " \
            "several or all, or is in grapnel.yaml",                           \
            .flags = VALUE_NULL),                                              \
        TIME("created_at", "when it was made; null: not at run time",          \
             .flags = VALUE_NULL),                                             \
        TEXT("created_by", "who made it; null: not at run time",               \
             .flags = VALUE_NULL),                                             \
        TIME("changed_at",                                                     \
             "when its settings last changed; null: not at run time",          \
             .flags = VALUE_NULL),                                             \
        BOOL("temporary",                                                      \
             "whether it was made by `grapnel listen` or POST "                \
             "/temporary-endpoints: its deliveries end as `abandoned`, "       \
             "without dead letters"),                                          \
        TIME("expires_at",                                                     \
             "when it is deleted if no consumer takes from it until then; "    \
             "null: it is not temporary",                                      \
             .flags = VALUE_NULL),                                             \
        ANY("settings", "its settings, without those that have their "         \
                        "defaults; \"…\" stands "                            \
                        "for a secret")

static const struct value endpoint_fields[] = {ENDPOINT_FIELDS, {0}};
#define CHANGED_FIELDS                                                       \
    ENDPOINT_FIELDS,                                                         \
        INTEGER("effective_from",                                            \
                "the number of the first event that it concerns"),           \
        TEXT("secret",                                                       \
             "the new signing secret, which is shown only here; null: none " \
             "was made",                                                     \
             .flags = VALUE_NULL | VALUE_SECRET)
const struct value endpoint_changed_fields[] = {
    CHANGED_FIELDS,
    LIST("warnings", &value_text,
         "probable mistakes, as sentences: a private address that is not "
         "permitted; absent: there are none",
         .flags = VALUE_ABSENT),
    {0}};
const struct value endpoint_rotated_fields[] = {
    CHANGED_FIELDS,
    TIME("old_secrets_end_at",
         "when requests are no longer signed with the old ones; null: at once",
         .flags = VALUE_NULL),
    {0}};
static const struct value endpoint = OBJECT("endpoint", endpoint_fields,
                                            "one endpoint");

static const struct value endpoint_args[] = {ARG_NAME, {0}};
const struct command_spec command_endpoint = {
    .name = "endpoint",
    .process = "sequencer",
    .help = "Shows one endpoint: its state and the number of its deliveries.",
    .args = endpoint_args,
    .reply = OBJECT("reply", endpoint_fields, "the endpoint"),
    .role = ROLE_VIEWER,
    .flags = COMMAND_READS,
    .tenant = TENANT_ENDPOINT,
    .routes = {{"GET", "/endpoints/{name}"}},
};

/* ---- endpoint_stats ---- */

static const struct value outcome_counts[] = {
    INTEGER("delivered", "a 2xx response"),
    INTEGER("retrying", "they failed, and a retry was scheduled"),
    INTEGER("dead", "they failed for good"),
    {0}};
static const struct value status_counts[] = {
    INTEGER("2xx", "a status from 200 to 299"),
    INTEGER("3xx", "from 300 to 399"),
    INTEGER("4xx", "from 400 to 499"),
    INTEGER("5xx", "from 500 to 599"),
    INTEGER("none", "no response; all those of a pull endpoint"),
    {0}};
static const struct value percentile_fields[] = {
    NUMBER("p50", "half of them are shorter", .flags = VALUE_NULL),
    NUMBER("p95", "95 % are shorter", .flags = VALUE_NULL),
    NUMBER("p99", "99 % are shorter", .flags = VALUE_NULL),
    {0}};
#define STATS_FIELDS                                                           \
    TEXT("name", "the name of the endpoint"),                                  \
        CHOICE("state", endpoint_states, "as in `endpoint`"),                  \
        TEXT("owner", "the deliverer that sends to it; null: there is none",   \
             .flags = VALUE_NULL),                                             \
        TIME("from",                                                           \
             "the attempts are those that ended from then on: the begin of "   \
             "the period, rounded down to 5 minutes; later if the sequencer "  \
             "was started later, or has dropped older counts, of which it "    \
             "keeps those of 10,000 endpoints"),                               \
        TIME("to", "… until then"),                                            \
        NUMBER("success_rate",                                                 \
               "the share of attempts that delivered, from 0 to 1; null: "     \
               "there were none",                                              \
               .flags = VALUE_NULL),                                           \
        INTEGER("attempts", "how many attempts ended"),                        \
        OBJECT("outcomes", outcome_counts, "the attempts by outcome"),         \
        OBJECT("statuses", status_counts, "the attempts by HTTP status"),      \
        OBJECT("latency_ms", percentile_fields,                                \
               "durations of attempts with a response, in milliseconds, "      \
               "computed from counts by duration; null: there were none"),     \
        INTEGER("in_flight", "deliveries that its deliverer has"),             \
        INTEGER("waiting", "deliveries that wait, counted up to 10,000"),      \
        BOOL("waiting_more", "whether more than those may wait"),              \
        INTEGER("retrying", "deliveries that are scheduled for a retry, "      \
                            "counted up to 10,000"),                           \
        TIME("oldest_waiting_at",                                              \
             "since when the oldest of these deliveries is open; null: there " \
             "is none",                                                        \
             .flags = VALUE_NULL),                                             \
        TIME("last_success_at",                                                \
             "when the last attempt that delivered began, since `from` or "    \
             "before; null: not known",                                        \
             .flags = VALUE_NULL),                                             \
        TIME("last_failure_at", "the same of one that failed",                 \
             .flags = VALUE_NULL),                                             \
        TIME("failing_since",                                                  \
             "since when all of its attempts fail; null: they do not",         \
             .flags = VALUE_NULL)
const struct value endpoint_stats_args[] = {
    ARG_NAME,
    DURATION_MS("period_ms", "of the last so long, such as 15m; absent: 1h",
                .min = 5 * 60 * 1000, .max = 60 * 60 * 1000),
    {0}};
static const struct value endpoint_stats_fields[] = {STATS_FIELDS, {0}};
const struct value endpoint_throttled_stats_fields[] = {
    STATS_FIELDS, ENDPOINT_THROTTLE_FIELDS, {0}};
const struct command_spec command_endpoint_stats = {
    .name = "endpoint_stats",
    .process = "sequencer",
    .help = "Attempts at one endpoint that ended in a period, and its open "
            "deliveries.",
    .args = endpoint_stats_args,
    .reply = OBJECT("reply", endpoint_stats_fields, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_READS,
};

/* ---- endpoint_plan ---- */

static const char *const backoff_kinds[] = {"exponential", "fixed", "schedule",
                                            NULL};
static const char *const plan_ends[] = {"budget_attempts", "budget_time", NULL};
static const struct value planned_fields[] = {
    INTEGER("n", "the number of the attempt, from 1"),
    INTEGER("wait_ms", "the wait before it, without jitter"),
    INTEGER("min_ms", "the shortest wait that jitter makes"),
    INTEGER("max_ms", "the longest one; a `Retry-After` may make it longer"),
    INTEGER("at_ms", "when it begins, without jitter and if each attempt "
                     "fails at once: so long after the first one"),
    {0}};
static const struct value planned = OBJECT("attempt", planned_fields,
                                           "one attempt");
static const struct value placed_fields[] = {
    TEXT("event_id", "the id of the event"),
    TEXT("type", "its type"),
    TEXT("workspace", "its workspace"),
    CHOICE("status", delivery_statuses, "the state of the delivery"),
    INTEGER("attempts",
            "how many attempts of its present budget have ended; a new budget "
            "begins when it is sent again"),
    TIME("first_attempt_at",
         "when the first of them began; null: there is none",
         .flags = VALUE_NULL),
    TIME("next_attempt_at",
         "when the next one is due; null: as soon as possible",
         .flags = VALUE_NULL),
    INTEGER("due_after_ms",
            "the same as a time after the first attempt, without the time for "
            "which the endpoint was paused, disabled or held; null: as above",
            .flags = VALUE_NULL),
    TEXT("policy",
         "the retry policy that its route or its event chose; null: that of "
         "the endpoint applies",
         .flags = VALUE_NULL),
    {0}};
static const struct value placed = OBJECT("delivery", placed_fields,
                                          "one delivery");
static const struct value place_fields[] = {
    INTEGER("attempts", "how many attempts of their budget have ended"),
    INTEGER("deliveries", "how many open deliveries have had so many"),
    {0}};
static const struct value place_count = OBJECT("count", place_fields,
                                               "deliveries");
static const struct value plan_args[] = {
    ARG_NAME,
    TEXT("event",
         "only its delivery of this event, by the retry policy that the event "
         "or its route chose",
         .min = 1, .max = 200),
    ARG_TENANT,
    {0}};
static const struct value plan_fields[] = {
    TEXT("name", "the name of the endpoint"),
    CHOICE("state", endpoint_states, "as in `endpoint`"),
    TEXT("policy", "the name of its retry policy"),
    CHOICE("backoff", backoff_kinds, "how the waits grow"),
    TEXT("retry_on", "the failures that are retried, as the file names them"),
    BOOL("respect_retry_after",
         "whether the header `Retry-After` of a response may lengthen a wait"),
    INTEGER("max_attempts", "the maximum number of attempts; null: no limit",
            .flags = VALUE_NULL),
    INTEGER("max_duration_ms",
            "the maximum time since the first attempt; null: no limit",
            .flags = VALUE_NULL),
    LIST("attempts", &planned, "the attempts of a delivery that always fails",
         .max = 200),
    BOOL("attempts_more", "whether there are more than the 200 of `attempts`"),
    CHOICE("gives_up", plan_ends,
           "which limit makes it a dead letter after the last of them; null: "
           "there are more",
           .flags = VALUE_NULL),
    LIST("deliveries", &placed,
         "open deliveries: those with a scheduled attempt first, by its time",
         .max = 100),
    LIST("counts", &place_count,
         "the open deliveries by their attempts, counted up to 1,000 at the "
         "deliverer and 1,000 that wait in the sequencer"),
    BOOL("counts_more", "whether there may be more than those"),
    {0}};
const struct command_spec command_endpoint_plan = {
    .name = "endpoint_plan",
    .process = "sequencer",
    .help =
        "Shows the attempts that the retry policy of an endpoint makes, and "
        "where its open deliveries stand on that plan.",
    .args = plan_args,
    .reply = OBJECT("reply", plan_fields, "the plan"),
    .role = ROLE_VIEWER,
    .tenant = TENANT_ENDPOINT,
    .routes = {{"GET", "/endpoints/{name}/plan"}},
};

/* ---- routing ---- */

static const char *const rule_names[] = {"source", "type", "workspace", "where",
                                         NULL};
static const struct value rule_fields[] = {
    CHOICE("rule", rule_names, "which part of the subscription"),
    INTEGER("route",
            "the number of the route of the file that has it, from 1; null: "
            "the endpoint itself has it",
            .flags = VALUE_NULL),
    TEXT("value", "the value of the event; null: `where` looks at several",
         .flags = VALUE_NULL),
    LIST("patterns", &value_text,
         "the first 20 patterns; empty: any value matches", .max = 20),
    INTEGER("patterns_more", "how many patterns there are beside those"),
    TEXT("pattern", "the first pattern that matches; null: no pattern does",
         .flags = VALUE_NULL),
    BOOL("met",
         "whether it is met; null: that depends on headers and body, which "
         "are not known",
         .flags = VALUE_NULL),
    {0}};
static const struct value rule = OBJECT("rule", rule_fields, "one rule");
#define FIELD_RULES                                                         \
    LIST("rules", &rule,                                                    \
         "the rules of the subscription that matches, or of the first ten " \
         "that do not",                                                     \
         .max = 40)
#define ARG_SOME_ENDPOINTS PATTERN("endpoint", "only endpoints of this name")
#define ARG_AFTER \
    TEXT("after", "the `next` of the page before", .min = 1, .max = 20)
static const struct value routing_args[] = {
    TEXT("source", "the source of the event", .flags = VALUE_REQUIRED, .min = 1,
         .max = NAME_MAX_BYTES),
    TEXT("type", "the type of the event", .flags = VALUE_REQUIRED, .min = 1,
         .max = TEXT_MAX_BYTES),
    TEXT("workspace", "the workspace of the event; absent: default", .min = 1,
         .max = TEXT_MAX_BYTES),
    ARG_SOME_ENDPOINTS,
    ARG_LIMIT,
    ARG_AFTER,
    ARG_TENANT,
    {0}};
static const struct value prospective_fields[] = {
    TEXT("endpoint", "the name of the endpoint"),
    CHOICE("state", endpoint_states, "as in `endpoint`"),
    BOOL("subscribed",
         "whether it would get the event; null: that depends on a condition "
         "(`where`)",
         .flags = VALUE_NULL),
    TEXT("why", "the rule that decides, as a sentence for people"),
    FIELD_RULES,
    TEXT("then",
         "what would become of the delivery now, as a sentence; null: there "
         "would be none",
         .flags = VALUE_NULL),
    INTEGER("halted_lanes", "how many of its lanes a dead letter halts"),
    TEXT("note",
         "why no such event can come from this source; null: it may come",
         .flags = VALUE_NULL),
    {0}};
static const struct value prospective = OBJECT("endpoint", prospective_fields,
                                               "one endpoint");
static const struct value routing_fields[] = {
    LIST("endpoints", &prospective, "the endpoints, oldest first"),
    FIELD_NEXT,
    {0}};
const struct command_spec command_routing = {
    .name = "routing",
    .process = "sequencer",
    .help = "Says for each endpoint whether it would get an event with this "
            "source, type and workspace, and names the rule that decides.",
    .args = routing_args,
    .reply = OBJECT("reply", routing_fields, ""),
    .role = ROLE_VIEWER,
    .tenant = TENANT_LIST,
    .routes = {{"GET", "/routing"}},
    .rows = "endpoints",
};

/* ---- event_routing ---- */

static const char *const routing_statuses[] = {
    "waiting", "in_flight", "retrying",   "delivered",
    "dead",    "abandoned", "not_routed", NULL};
static const char *const causes[] = {"delivered",
                                     "dead",
                                     "abandoned",
                                     "in_flight",
                                     "retry_scheduled",
                                     "capacity",
                                     "no_deliverer",
                                     "paused",
                                     "disabled",
                                     "held",
                                     "off",
                                     "removed",
                                     "lane_blocked",
                                     "lane_halted",
                                     "breaker_open",
                                     "duplicate",
                                     "ignored",
                                     "refused",
                                     "buffered",
                                     "split",
                                     "not_subscribed",
                                     "not_listed",
                                     "made_later",
                                     "subscribed_later",
                                     "condition",
                                     "rate_limit",
                                     NULL};
static const struct value event_routing_args[] = {
    TEXT("id", "the id of the event", .flags = VALUE_REQUIRED, .min = 1,
         .max = 200),
    ARG_SOME_ENDPOINTS,
    ARG_LIMIT,
    ARG_AFTER,
    ARG_TENANT,
    {0}};
#define ROUTED_FIELDS                                                          \
    TEXT("endpoint", "the name of the endpoint"),                              \
        CHOICE("status", routing_statuses,                                     \
               "the state of its delivery; not_routed: it has none"),          \
        CHOICE("cause", causes,                                                \
               "what that is due to. in_flight: its deliverer has it; "        \
               "capacity: it is due, and waits for the end of others; "        \
               "breaker_open, rate_limit: only in HTTP; not_listed: its "      \
               "sender chose "                                                 \
               "other endpoints; condition: a condition on data that is no "   \
               "longer stored decided"),                                       \
        TEXT("why", "the same as a sentence for people"),                      \
        BOOL("routed", "whether the event was routed to it"),                  \
        BOOL("changed_since",                                                  \
             "whether the settings by which `why` judges have changed after "  \
             "the event was routed: then it may have been otherwise"),         \
        FIELD_RULES,                                                           \
        TIME("since", "since when it is so; null: not known",                  \
             .flags = VALUE_NULL),                                             \
        TIME("until", "when the next attempt is due; null: not known",         \
             .flags = VALUE_NULL),                                             \
        TEXT("event_id",                                                       \
             "the event that it waits for, or is a duplicate of; null: there " \
             "is none",                                                        \
             .flags = VALUE_NULL),                                             \
        TEXT("dead_letter_id",                                                 \
             "the dead letter that it is, or that halts its lane; null: "      \
             "there is none",                                                  \
             .flags = VALUE_NULL),                                             \
        TEXT("deliverer",                                                      \
             "the deliverer that sends to the endpoint; null: there is none, " \
             "or the delivery has ended",                                      \
             .flags = VALUE_NULL)
static const struct value routed_fields[] = {ROUTED_FIELDS, {0}};
static const struct value routed = OBJECT("endpoint", routed_fields,
                                          "one endpoint");
static const struct value event_routing_fields[] = {
    LIST("endpoints", &routed,
         "the endpoints, oldest first. One that is removed is listed only if "
         "it has a delivery, or is asked for by its whole name"),
    FIELD_NEXT,
    {0}};
const struct command_spec command_event_routing = {
    .name = "event_routing",
    .process = "sequencer",
    .help = "Says for each endpoint what became of a stored event: delivered, "
            "what the delivery waits for, why it is dead, or why the event was "
            "not routed to it. Over HTTP the circuit breakers and rate limits "
            "of the first 20 endpoints that wait are asked, too.",
    .args = event_routing_args,
    .reply = OBJECT("reply", event_routing_fields, ""),
    .role = ROLE_VIEWER,
    .tenant = TENANT_EVENT,
    .routes = {{"GET", "/events/{id}/routing"}},
    .rows = "endpoints",
};

/* ---- endpoints ---- */

static const struct value endpoints_args[] = {
    TEXT("workspace",
         "made at run time, and only for the events of this workspace",
         .min = 1, .max = TEXT_MAX_BYTES),
    ARG_LIMIT,
    TEXT("after", "the `next` of the page before", .min = 1, .max = 20),
    ARG_TENANT,
    {0}};
static const struct value endpoints_fields[] = {
    LIST("endpoints", &endpoint, "the endpoints, oldest first"),
    FIELD_NEXT,
    {0}};
const struct command_spec command_endpoints = {
    .name = "endpoints",
    .process = "sequencer",
    .help = "Lists endpoints with their state and the number of their "
            "deliveries. A removed endpoint is forgotten at the first reload "
            "or start after its last event has left the history.",
    .args = endpoints_args,
    .reply = OBJECT("reply", endpoints_fields, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_READS,
    .tenant = TENANT_LIST,
    .routes = {{"GET", "/endpoints"}},
    .rows = "endpoints",
};

/* ---- endpoint_pause ---- */

static const struct value endpoint_pause_args[] = {ARG_NAME, ARG_WHO, {0}};
const struct command_spec command_endpoint_pause = {
    .name = "endpoint_pause",
    .process = "sequencer",
    .help = "Pauses an endpoint: no attempts are made until it is resumed. Its "
            "deliveries wait, and that time does not count in their retry "
            "budgets.",
    .args = endpoint_pause_args,
    .reply = OBJECT("reply", endpoint_fields, "the endpoint"),
    .role = ROLE_OPERATOR,
    .tenant = TENANT_ENDPOINT,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
    .routes = {{"POST", "/endpoints/{name}/pause"}},
};

/* ---- endpoint_resume ---- */

static const struct value endpoint_resume_args[] = {ARG_NAME, ARG_WHO, {0}};
const struct command_spec command_endpoint_resume = {
    .name = "endpoint_resume",
    .process = "sequencer",
    .help = "Resumes an endpoint that is paused, disabled or held.",
    .args = endpoint_resume_args,
    .reply = OBJECT("reply", endpoint_fields, "the endpoint"),
    .role = ROLE_OPERATOR,
    .tenant = TENANT_ENDPOINT,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
    .routes = {{"POST", "/endpoints/{name}/resume"}},
};

/* ---- retry ---- */

static const struct value retry_args[] = {
    ARG_EVENT("the id of the event"),
    ARG_ENDPOINT("only the delivery to this endpoint"),
    ARG_WHO,
    {0}};

static const char *const retry_results[] = {
    "now",       "in_flight",    "queued", "behind",    "paused",
    "disabled",  "no_deliverer", "off",    "delivered", "dead",
    "abandoned", "removed",      NULL};
static const struct value retried_fields[] = {
    TEXT("endpoint", "the name of the endpoint"),
    CHOICE("status", delivery_statuses, "the state of the delivery"),
    BOOL("accepted", "whether it is tried; false: it is delivered or dead"),
    CHOICE("result", retry_results,
           "now: its deliverer was told; in_flight: an attempt is in "
           "progress; queued: sent when its endpoint has capacity; behind: an "
           "earlier event of its lane is first; paused, disabled, off, "
           "no_deliverer, removed: sent when that has ended"),
    TEXT("why", "a sentence about the result; null: it needs none",
         .flags = VALUE_NULL),
    INTEGER("attempts", "how many attempts were made"),
    TEXT("deliverer", "the deliverer that sends to it; null: there is none",
         .flags = VALUE_NULL),
    {0}};
static const struct value retried = OBJECT("delivery", retried_fields,
                                           "one delivery");
static const struct value retry_fields[] = {
    TEXT("id", "the id of the event"),
    LIST("deliveries", &retried, "its deliveries"),
    {0}};
const struct command_spec command_retry = {
    .name = "retry",
    .process = "sequencer",
    .help = "Tries the open deliveries of an event now. Their budgets and "
            "attempts do not change.",
    .args = retry_args,
    .reply = OBJECT("reply", retry_fields, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
    .routes = {{"POST", "/events/{event}/retry"}},
};

/* ---- abandon ---- */

static const struct value abandon_args[] = {
    ARG_EVENT("the id of the event"),
    ARG_ENDPOINT("the endpoint of the delivery", .flags = VALUE_REQUIRED),
    TEXT("note", "why, for others", .flags = VALUE_REQUIRED, .min = 1,
         .max = 4000),
    ARG_WHO,
    {0}};
static const struct value abandon_fields[] = {
    TEXT("id", "the id of the event"),
    TEXT("endpoint", "the name of the endpoint"),
    TEXT("dead_letter_id",
         "the id of the dead letter that it becomes; null: it is for a "
         "temporary endpoint, and has none",
         .flags = VALUE_NULL),
    BOOL("in_flight",
         "whether an attempt may be in progress: its lane waits for it, and "
         "if it succeeds, the dead letter becomes `recovered`"),
    {0}};
const struct command_spec command_abandon = {
    .name = "abandon",
    .process = "sequencer",
    .help = "Abandons an open delivery: it becomes a dead letter with the "
            "reason `abandoned`.",
    .args = abandon_args,
    .reply = OBJECT("reply", abandon_fields, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
    .routes = {{"POST", "/events/{event}/abandon"}},
};

/* ---- facts ---- */

static const struct value facts_args[] = {
    LIST("ids", &value_id,
         "the ids of events; none: it only says whether the endpoint exists",
         .flags = VALUE_REQUIRED, .max = 500),
    ARG_ENDPOINT("says whether this endpoint is subscribed to them; "
                 "`not_found` if no endpoint has this name"),
    {0}};

static const char *const plain_statuses[] = {"routed",   "duplicate", "refused",
                                             "buffered", "ignored",   "split",
                                             "erased",   NULL};
static const struct value fact_fields[] = {
    TEXT("id", "the id of the event"),
    CHOICE("status", plain_statuses,
           "split: a request that carried several events; erased: it was "
           "routed, and its workspace was erased later"),
    TEXT("workspace", "its workspace"),
    TEXT("duplicate_of", "the id of the event that it is a duplicate of",
         .flags = VALUE_NULL),
    LIST("events", &value_text,
         "if it is a request that carried several events: their ids"),
    TEXT("source", "its source"),
    TEXT("type", "its type"),
    BOOL("subscribed",
         "whether the endpoint has the event or is subscribed to it; null: "
         "that depends on headers and body, which the sequencer does not have",
         .flags = VALUE_NULL),
    LIST("reasons", &value_text, "why its dead deliveries are dead"),
    TEXT("request",
         "the id of its request; absent unless that carried several events",
         .flags = VALUE_ABSENT),
    {0}};
static const struct value fact = OBJECT("event", fact_fields,
                                        "one event; null: it is not known",
                                        .flags = VALUE_NULL);
static const struct value facts_fields[] = {
    LIST("events", &fact,
         "the events, in the order of `ids`; null: it is not known"),
    {0}};
const struct command_spec command_facts = {
    .name = "facts",
    .process = "sequencer",
    .help = "Says what `grapnel replay` needs to know about each of these "
            "events.",
    .args = facts_args,
    .reply = OBJECT("reply", facts_fields, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_LOCAL,
};

/* ---- release ---- */

static const char *const released_statuses[] = {"released", NULL};
static const struct value release_args[] = {
    ARG_EVENT("the id of the suppressed duplicate"), ARG_WHO, {0}};
static const struct value release_fields[] = {
    TEXT("id", "the id of the event"),
    CHOICE("status", released_statuses, "what it is now"),
    {0}};
const struct command_spec command_release = {
    .name = "release",
    .process = "sequencer",
    .help = "Releases a suppressed duplicate: it is delivered like any event.",
    .args = release_args,
    .reply = OBJECT("reply", release_fields, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
    .routes = {{"POST", "/events/{event}/release"}},
};

/* ---- gaps ---- */

static const char *const gap_statuses[] = {"open",   "filled",     "skipped",
                                           "closed", "reconciled", NULL};
static const struct value gaps_args[] = {
    BOOL("open", "only open gaps"),
    PATTERN("source", "from this source"),
    PATTERN("workspace", "of this workspace"),
    ARGS_TIMES,
    ARG_LIMIT,
    ARG_BEFORE,
    {0}};
static const struct value gap_fields[] = {
    TEXT("id", "the id of the gap"),
    TEXT("source", "the source"),
    TEXT("workspace", "the workspace"),
    TEXT("type", "the type of the events; null: any type", .flags = VALUE_NULL),
    INTEGER("from", "the first missing number", .min = INT64_MIN),
    INTEGER("to", "the last missing number", .min = INT64_MIN),
    CHOICE("status", gap_statuses,
           "filled: the events arrived; skipped: the wait for them ended; "
           "closed: an operator closed the gap; reconciled: an event that "
           "never arrived, and was taken from the list of its provider "
           "(`note` has its ids, `from` and `to` are 0)"),
    TIME("opened_at", "when a later event arrived"),
    TIME("closed_at", "when it ended; null: it is open", .flags = VALUE_NULL),
    TEXT("note", "why it ended; null: there is no note", .flags = VALUE_NULL),
    TEXT("waits_for",
         "an ingress that does not respond and may have the events; null: "
         "there is none; absent: the gap is not open",
         .flags = VALUE_NULL | VALUE_ABSENT),
    {0}};
static const struct value gap = OBJECT("gap", gap_fields, "one gap");
static const struct value gaps_fields[] = {
    LIST("gaps", &gap, "the gaps, newest first"), FIELD_NEXT, {0}};
const struct command_spec command_gaps = {
    .name = "gaps",
    .process = "sequencer",
    .help =
        "Lists numbers of providers that are or were missing, newest first.",
    .args = gaps_args,
    .reply = OBJECT("reply", gaps_fields, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_READS,
    .routes = {{"GET", "/gaps"}},
    .rows = "gaps",
};

/* ---- listed ---- */

static const struct value value_provider_id = TEXT("", "", .min = 1,
                                                   .max = 1024);
static const struct value value_missing = BOOL("", "");
static const struct value listed_args[] = {
    TEXT("source", "the source", .flags = VALUE_REQUIRED),
    LIST("provider_ids", &value_provider_id, "the provider's ids of events",
         .flags = VALUE_REQUIRED, .min = 1, .max = 500),
    LIST("own_ids", &value_id,
         "the ids that these events have if they were taken from a list",
         .flags = VALUE_REQUIRED, .min = 1, .max = 500),
    {0}};
static const struct value listed_fields[] = {
    LIST("missing", &value_missing,
         "for the first of them, at least one: whether no stored event has "
         "it. Ask again for the rest"),
    INTEGER("clock", "the watermark clock"),
    INTEGER("arrived", "the watermark clock up to which every ingress was "
                       "read: what is missing is final when it has reached "
                       "`clock` of an earlier reply"),
    INTEGER("purged_ms", "when the youngest event that was purged had been "
                         "taken in, in ms since 1970 (0: none was purged): "
                         "whether earlier events have arrived is unknown"),
    {0}};
const struct command_spec command_listed = {
    .name = "listed",
    .process = "sequencer",
    .help = "Says which of the events that a provider lists have never "
            "arrived. For reconcile.",
    .args = listed_args,
    .reply = OBJECT("reply", listed_fields, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_LOCAL,
};

/* ---- close_gap ---- */

static const char *const closed_statuses[] = {"closed", NULL};
static const struct value close_gap_args[] = {
    TEXT("id", "the id of the gap, such as gap_12", .flags = VALUE_REQUIRED,
         .min = 1, .max = 200),
    TEXT("note", "why, for others", .flags = VALUE_REQUIRED, .min = 1,
         .max = 1000),
    ARG_WHO,
    {0}};
static const struct value close_gap_fields[] = {
    TEXT("id", "the id of the gap"),
    CHOICE("status", closed_statuses, "what it is now"),
    {0}};
const struct command_spec command_close_gap = {
    .name = "close_gap",
    .process = "sequencer",
    .help = "Closes a gap: the sequencer no longer waits for these numbers, "
            "and releases the events that waited for them.",
    .args = close_gap_args,
    .reply = OBJECT("reply", close_gap_fields, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
    .routes = {{"POST", "/gaps/{id}/close"}},
};

/* ---- workspace ---- */

static const struct value count = INTEGER("count", "of events with this type");
static const struct value workspace_fields[] = {
    TEXT("workspace", "its name"),
    INTEGER("sequence", "the number of its newest event; 0: it has none yet"),
    MAP("clock", &count, "how many events of each type it has had"),
    INTEGER("open_gaps", "how many of its gaps are open"),
    INTEGER("buffered", "how many of its events are buffered"),
    {0}};
static const struct value workspace = OBJECT("workspace", workspace_fields,
                                             "one workspace");

static const struct value workspace_args[] = {
    TEXT("workspace", "the name of the workspace", .flags = VALUE_REQUIRED,
         .min = 1),
    {0}};
const struct command_spec command_workspace = {
    .name = "workspace",
    .process = "sequencer",
    .help = "Shows one workspace: its numbers, open gaps and buffered events.",
    .args = workspace_args,
    .reply = OBJECT("reply", workspace_fields, "the workspace"),
    .role = ROLE_VIEWER,
    .flags = COMMAND_READS,
    .tenant = TENANT_WORKSPACE,
    .routes = {{"GET", "/workspaces/{workspace}"}},
};

/* ---- workspace_erase ---- */

/* Not in the audit row, which says who erased it. */
static const struct value workspace_erase_args[] = {
    TEXT("workspace", "the name of the workspace", .min = 1,
         .flags = VALUE_REQUIRED | VALUE_SECRET),
    {0}};
const struct command_spec command_workspace_erase = {
    .name = "workspace_erase",
    .process = "sequencer",
    .help = "Makes a job that erases what all processes have of a workspace: "
            "bodies, headers, names, attempts, responses, dead letters, "
            "refused requests. Numbers, times and counts stay. From then on "
            "its events are refused with 410. The job cannot be cancelled; its "
            "`result` says what still has the data.",
    .args = workspace_erase_args,
    .reply = OBJECT("reply", job_fields, "the job"),
    .role = ROLE_ADMIN,
    .flags = COMMAND_ACTS,
    .routes = {{"DELETE", "/workspaces/{workspace}"}},
};

/* ---- workspaces ---- */

static const struct value workspaces_args[] = {
    ARG_LIMIT,
    TEXT("after", "the `next` of the page before", .min = 1,
         .max = 2 * TEXT_MAX_BYTES),
    {0}};
static const struct value workspaces_fields[] = {
    LIST("workspaces", &workspace, "the workspaces, sorted by name"),
    FIELD_NEXT,
    {0}};
const struct command_spec command_workspaces = {
    .name = "workspaces",
    .process = "sequencer",
    .help = "Lists workspaces by name, with their numbers, open gaps and "
            "buffered events.",
    .args = workspaces_args,
    .reply = OBJECT("reply", workspaces_fields, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_READS,
    .routes = {{"GET", "/workspaces"}},
    .rows = "workspaces",
};

/* ---- alert_event ---- */

static const char *const changed_alert_states[] = {"firing", "resolved", NULL};
static const struct value alert_event_args[] = {
    INTEGER("n", "the console's number of the report", .flags = VALUE_REQUIRED,
            .min = 1),
    CHOICE("state", changed_alert_states, "what became of it",
           .flags = VALUE_REQUIRED),
    TEXT("name", "the name of the rule", .flags = VALUE_REQUIRED, .min = 1,
         .max = NAME_MAX_BYTES),
    TEXT("when", "what the rule is about", .flags = VALUE_REQUIRED),
    TEXT("subject", "what the alert is about, such as an endpoint",
         .flags = VALUE_REQUIRED, .max = NAME_MAX_BYTES),
    TEXT("severity", "that of the rule", .flags = VALUE_REQUIRED),
    TIME_MS("since_ms", "when the condition was met", .flags = VALUE_REQUIRED),
    NUMBER("value", "that was compared with the limit",
           .flags = VALUE_REQUIRED),
    TEXT("summary", "what is wrong, for people", .flags = VALUE_REQUIRED),
    {0}};
static const struct value alert_event_fields[] = {
    INTEGER("n", "the `n` of the request"),
    BOOL("written",
         "whether it makes an event now or after the present minute; false: "
         "it was reported before, or no endpoint is subscribed"),
    {0}};
const struct command_spec command_alert_event = {
    .name = "alert_event",
    .process = "sequencer",
    .help = "Makes the operational event `grapnel.alert.firing` or "
            "`grapnel.alert.resolved`, once. For the console.",
    .args = alert_event_args,
    .reply = OBJECT("reply", alert_event_fields, ""),
    .role = ROLE_ADMIN,
    .flags = COMMAND_LOCAL,
};

/* ---- recent_events ---- */

static const struct value recent_args[] = {
    ARGS_RECENT,
    LIST("ids", &value_id, "events whose workspace and source are wanted, too",
         .max = 1000),
    LIST("endpoints", &value_text, "endpoints whose workspace is wanted",
         .max = 1000),
    {0}};
static const struct value recent_owner_fields[] = {
    TEXT("endpoint", "its name"),
    TEXT("workspace", "the only one that it was made for at run time"),
    {0}};
static const struct value recent_owner = OBJECT("endpoint", recent_owner_fields,
                                                "");
static const struct value recent_of_fields[] = {
    TEXT("id", "the id of the event"),
    TEXT("source", "its source"),
    TEXT("type", "its type"),
    TEXT("workspace", "its workspace"),
    TEXT("traceparent", "that of its request; null: it had no valid one",
         .flags = VALUE_NULL),
    TIME("taken_at", "when the sequencer stored it"),
    TIME("released_at",
         "when it was routed or ignored after that; null: at once, or never",
         .flags = VALUE_NULL),
    {0}};
static const struct value recent_of = OBJECT("event", recent_of_fields, "");
static const struct value recent_fields[] = {
    LIST("events", &event, "oldest first"),
    FIELDS_RECENT,
    LIST("of", &recent_of, "the events of `ids` that are stored"),
    LIST("owners", &recent_owner, "those of `endpoints` that have a workspace"),
    LIST("hidden", &value_id,
         "those of `events` that tokens of their workspace do not see"),
    {0}};
const struct command_spec command_recent_events = {
    .name = "recent_events",
    .process = "sequencer",
    .help =
        "Events that were taken after a number. For the console, which "
        "asks while somebody listens to GET /stream, or spans are exported.",
    .args = recent_args,
    .reply = OBJECT("reply", recent_fields, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_LOCAL | COMMAND_READS,
};

const struct command_spec *const sequencer_commands[] = {
    &command_event,
    &command_events,
    &command_deliveries,
    &command_endpoint,
    &command_endpoint_stats,
    &command_endpoint_plan,
    &command_routing,
    &command_event_routing,
    &command_endpoints,
    &command_endpoint_pause,
    &command_endpoint_resume,
    &command_endpoint_create,
    &command_endpoint_change,
    &command_endpoint_rotate,
    &command_endpoint_delete,
    &command_temporary_create,
    &command_temporary_delete,
    &command_endpoint_secrets,
    &command_retry,
    &command_abandon,
    &command_facts,
    &command_release,
    &command_gaps,
    &command_close_gap,
    &command_listed,
    &command_workspace,
    &command_workspaces,
    &command_workspace_erase,
    &command_tokens,
    &command_token_create,
    &command_token_revoke,
    &command_token_check,
    &command_tenant_check,
    &command_alert_event,
    &command_operational_archive,
    &command_operational_request,
    &command_operational_resend,
    &command_pull_want,
    &command_event_types,
    &command_event_type,
    &command_event_type_create,
    &command_event_type_change,
    &command_event_type_delete,
    &command_event_catalogue,
    &command_recent_events,
    NULL};
