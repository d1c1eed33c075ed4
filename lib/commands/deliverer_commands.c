/* deliverer_commands: what a deliverer answers. */
#include "bounds.h"
#include "commands.h"
#include "tables.h"

/* ---- an exchange with an endpoint ---- */

const struct value timing_fields[] = {
    NUMBER("dns_ms", "its address was known", .flags = VALUE_NULL),
    NUMBER("connect_ms", "the connection was open", .flags = VALUE_NULL),
    NUMBER("tls_ms", "the TLS handshake had ended", .flags = VALUE_NULL),
    NUMBER("first_byte_ms", "the first byte of the response arrived",
           .flags = VALUE_NULL),
    NUMBER("total_ms", "the attempt ended", .flags = VALUE_NULL),
    {0}};
const struct value response_fields[] = {
    TEXT("http_version", "1.0, 1.1 or 2; null: another", .flags = VALUE_NULL),
    TEXT("headers", "its headers, as they arrived"),
    TEXT("body", "the first 16 KiB of its body"),
    {0}};

#define FIELD_TIMINGS                                                     \
    OBJECT("timings", timing_fields,                                      \
           "in milliseconds since the attempt began; null: there was no " \
           "such step")
#define FIELD_RESPONSE                                                        \
    OBJECT("response", response_fields, "the response; null: there was none", \
           .flags = VALUE_NULL)
#define FIELD_SENDS                                                        \
    INTEGER("sends", "2: a kept connection was dead, and the request was " \
                     "sent again")

/* ---- trace ---- */

static const struct value attempts_args[] = {
    TEXT("id", "the evt_ id of the event", .flags = VALUE_REQUIRED, .min = 1,
         .max = 200),
    TEXT("endpoint", "only attempts at this endpoint", .min = 1,
         .max = NAME_MAX_BYTES),
    INTEGER("n", "only attempts with this number", .min = 1, .max = INT64_MAX),
    ARG_NEWEST,
    {0}};

static const struct value sent_part = TEXT(
    "text", "a name, then its value; null: the event's own value",
    .flags = VALUE_NULL);
static const struct value sent_header = LIST(
    "header", &sent_part, "[name, value]", .min = 2, .max = 2);
const struct value sent_fields[] = {
    BOOL("rebuilt",
         "true for an attempt that delivered: then the event's own values are "
         "null, and `grapnel show --attempt` takes them from the sequencer "
         "and ingress"),
    TEXT("method", "POST or PUT"),
    TEXT("url", "without its query; absent if it is too long to be kept",
         .flags = VALUE_ABSENT),
    LIST("headers", &sent_header, "in the order in which they were sent"),
    {0}};

const char *const attempt_outcomes[] = {"delivered", "retrying", "dead",
                                        "released", NULL};
const struct value made_attempt_fields[] = {
    TEXT("endpoint", "the name of the endpoint"),
    INTEGER("n", "the number of the attempt, from 1"),
    TIME("at", "when it began"),
    INTEGER("http_status", "the status of the response; null: there was none",
            .flags = VALUE_NULL),
    TEXT("error", "why it failed; null: it did not", .flags = VALUE_NULL),
    INTEGER("duration_ms", "how long it took"),
    CHOICE("outcome", attempt_outcomes,
           "released: it was interrupted, or the delivery ended elsewhere"),
    TEXT("reason", "why it had this outcome; null: there is no reason",
         .flags = VALUE_NULL),
    TIME("next_attempt_at", "when the next attempt is due; null: there is none",
         .flags = VALUE_NULL),
    TEXT("deliverer", "the deliverer that made it"),
    FIELD_SENDS,
    OBJECT("request", sent_fields,
           "the request as it was sent, at most 4 KiB, without secrets and "
           "the values of headers that the endpoint's configuration adds; "
           "null: nothing was sent, or it is no longer kept",
           .flags = VALUE_NULL),
    FIELD_TIMINGS,
    FIELD_RESPONSE,
    TEXT("span_id", "its span in the event's trace, which its `traceparent` "
                    "names"),
    {0}};
static const struct value attempt = OBJECT("attempt", made_attempt_fields,
                                           "one attempt");

static const char *const task_states[] = {"queued", "in_flight", "retrying",
                                          NULL};
static const char *const circuits[] = {"closed", "open", "probing", NULL};
static const struct value waiting_fields[] = {
    TEXT("endpoint", "the name of the endpoint"),
    CHOICE("state", task_states, "retrying: scheduled for a retry"),
    INTEGER("attempts", "how many attempts were made"),
    TIME("next_attempt_at",
         "when the next attempt is due; null: as soon as possible",
         .flags = VALUE_NULL),
    TEXT("deliverer", "the deliverer that has it"),
    CHOICE("circuit", circuits, "the circuit breaker of the endpoint"),
    {0}};
static const struct value waiting = OBJECT("delivery", waiting_fields,
                                           "one delivery");
static const struct value attempts_fields[] = {
    TEXT("id", "the id of the event"),
    LIST("attempts", &attempt, "attempts that this deliverer made"),
    LIST("waiting", &waiting, "deliveries that this deliverer has"),
    {0}};
const struct command_spec command_attempts = {
    .name = "trace",
    .process = "deliverer",
    .help = "Shows the attempts that this deliverer made for an event, and the "
            "deliveries of the event that wait here.",
    .args = attempts_args,
    .reply = OBJECT("reply", attempts_fields, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_LOCAL,
};

/* ---- recent_attempts ---- */

static const struct value recent_args[] = {ARGS_RECENT, {0}};
static const struct value recent_attempt_fields[] = {ATTEMPT_FACTS, {0}};
static const struct value recent_attempt = OBJECT(
    "attempt", recent_attempt_fields, "one attempt");
static const struct value recent_fields[] = {
    LIST("attempts", &recent_attempt, "oldest first"), FIELDS_RECENT, {0}};
const struct command_spec command_recent_attempts = {
    .name = "recent_attempts",
    .process = "deliverer",
    .help = "Attempts that ended after a number. For the console, which asks "
            "while somebody listens to GET /stream.",
    .args = recent_args,
    .reply = OBJECT("reply", recent_fields, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_LOCAL | COMMAND_READS,
};

/* ---- test ---- */

static const struct value drill_fields[] = {
    TEXT("step", "the value of the header `grapnel-drill`; empty: without it",
         .flags = VALUE_REQUIRED, .max = 40),
    TEXT("event_id", "its id", .min = EVENT_ID_BYTES, .max = EVENT_ID_BYTES,
         .flags = VALUE_REQUIRED),
    TEXT("type", "its type", .min = 1, .max = 200, .flags = VALUE_REQUIRED),
    TEXT("workspace", "its workspace", .min = 1, .max = 200,
         .flags = VALUE_REQUIRED),
    INTEGER("series", "the header `grapnel-series`", .min = 1, .max = INT64_MAX,
            .flags = VALUE_REQUIRED),
    INTEGER("sequence", "the header `grapnel-sequence`", .min = 1,
            .max = INT32_MAX, .flags = VALUE_REQUIRED),
    INTEGER("previous", "the header `grapnel-previous`", .max = INT32_MAX),
    INTEGER("attempt", "the header `grapnel-attempt`", .min = 1, .max = 100,
            .otherwise = 1),
    BOOL("replay", "true: with the header `grapnel-replay`"),
    INTEGER("signed_offset_ms",
            "it is signed with a time that is later by this", .min = -86400000,
            .max = 86400000),
    TEXT("body",
         "its body, a JSON object; without it, one that says what it "
         "is",
         .max = 16 * 1024),
    INTEGER("padding", "the body is longer by this many bytes",
            .max = 1024 * 1024),
    INTEGER("bytes_per_s", "the body is sent at this rate; 0: at once",
            .max = INT32_MAX),
    {0}};
static const struct value test_args[] = {
    BASE64("config", "an endpoint_config (WIRE.md)",
           .flags = VALUE_REQUIRED | VALUE_SECRET),
    TEXT("endpoint", "its name, for the audit row"),
    OBJECT("drill", drill_fields,
           "what the request is to be; without it, the usual test. "
           "`grapnel drill` sends it"),
    {0}};
static const char *const verdicts[] = {"delivered", "retried", "dead",
                                       "our_fault", NULL};
static const struct value header_part = TEXT("text", "a name, then its value");
static const struct value header = LIST("header", &header_part, "[name, value]",
                                        .min = 2, .max = 2);
static const struct value test_request_fields[] = {
    TEXT("method", "POST or PUT"),
    TEXT("url", "the URL"),
    LIST("headers", &header, "in the order in which they were sent"),
    TEXT("body", "the first 16 KiB of the body"),
    {0}};
const struct value test_fields[] = {
    TEXT("event_id", "the id of the test event"),
    TEXT("deliverer", "the deliverer that sent it"),
    CHOICE("verdict", verdicts,
           "what would happen to an event; our_fault: the deliverer itself "
           "failed"),
    TEXT("reason", "why it is dead; null: it is not", .flags = VALUE_NULL),
    INTEGER("http_status", "the status of the response; null: there was none",
            .flags = VALUE_NULL),
    TEXT("error", "why it failed; null: it did not", .flags = VALUE_NULL),
    FIELD_TIMINGS,
    OBJECT("request", test_request_fields,
           "the request, without the values of headers that the endpoint's "
           "configuration adds"),
    FIELD_SENDS,
    FIELD_RESPONSE,
    {0}};
const struct command_spec command_test = {
    .name = "test",
    .process = "deliverer",
    .help = "Sends one signed event of type `grapnel.test` with this "
            "configuration, like an attempt, and replies at its end with the "
            "request and the response.",
    .args = test_args,
    .reply = OBJECT("reply", test_fields, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_LATER | COMMAND_SEVERAL | COMMAND_LOCAL,
};

/* ---- throttle ---- */

static const struct value throttle_args[] = {
    TEXT("endpoint", "the name of the endpoint", .flags = VALUE_REQUIRED,
         .min = 1, .max = NAME_MAX_BYTES),
    {0}};
static const struct value throttle_fields[] = {ENDPOINT_THROTTLE_FIELDS, {0}};
const struct command_spec command_throttle = {
    .name = "throttle",
    .process = "deliverer",
    .help = "Shows how fast attempts at an endpoint may be made.",
    .args = throttle_args,
    .reply = OBJECT("reply", throttle_fields, ""),
    .role = ROLE_VIEWER,
};

const struct command_spec *const deliverer_commands[] = {
    &command_attempts,   &command_recent_attempts, &command_test,
    &command_throttle,   &command_pull_take,       &command_pull_ack,
    &command_pull_retry, &command_pull_dead,       NULL};
