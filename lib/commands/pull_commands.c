/* pull_commands: what a deliverer does for consumers of pull endpoints. */
#include "bounds.h"
#include "clock.h"
#include "commands.h"
#include "tables.h"

enum { TAKE_MAX = 1000, WAIT_MAX_MS = 30 * 1000 };

#define ARG_PULL_ENDPOINT                                       \
    TEXT("endpoint", "the name of the pull endpoint", .min = 1, \
         .max = NAME_MAX_BYTES, .flags = VALUE_REQUIRED)

/* ---- take ---- */

static const struct value take_args[] = {
    ARG_PULL_ENDPOINT,
    INTEGER("max", "at most this many deliveries", .min = 1, .max = TAKE_MAX,
            .otherwise = 100),
    DURATION_MS("wait_ms",
                "how long to wait if there is nothing to take, at most 30s; "
                "absent: not at all",
                .max = WAIT_MAX_MS),
    DURATION_MS("lease_ms",
                "until when each delivery must be ended, from now on: at most "
                "the endpoint's `timeout`, which is the default",
                .min = 1000, .max = 5 * MINUTE_MS),
    ARG_TENANT,
    {0}};
static const struct value pulled_fields[] = {
    TEXT("event_id", "the id of the event"),
    TEXT("type", "its type"),
    TEXT("workspace", "its workspace"),
    TEXT("source", "the source or producer"),
    TIME("received_at", "when ingress received it"),
    INTEGER("sequence", "its number in the workspace; null: it has none",
            .flags = VALUE_NULL),
    INTEGER("previous",
            "the number of the event before it that this endpoint gets; null: "
            "there is none",
            .flags = VALUE_NULL),
    TEXT("clock", "the numbers by type at that moment: issue.created=7,…",
         .flags = VALUE_NULL),
    INTEGER("attempt", "the number of this attempt, from 1"),
    LIST("headers", &value_header,
         "[name, value]: those that a request to an endpoint has, with the "
         "signatures"),
    TEXT("body", "the body; null: it is not plain text", .flags = VALUE_NULL),
    BASE64("body_base64", "then the body in base64; else null",
           .flags = VALUE_NULL),
    {0}};
static const struct value pulled = OBJECT("", pulled_fields, "a delivery");
static const struct value take_reply[] = {
    TEXT("take", "the id of the take; null: there is nothing to take",
         .flags = VALUE_NULL),
    TIME("until", "when the lease ends", .flags = VALUE_NULL),
    LIST("deliveries", &pulled, "the deliveries, the oldest first"),
    {0}};
const struct command_spec command_pull_take = {
    .name = "pull_take",
    .process = "deliverer",
    .help = "Takes deliveries of a pull endpoint that are due: each is an "
            "attempt, which `ack`, `retry` or `dead` ends, or the end of the "
            "lease. Headers and bodies have 2 MiB together, unless the first "
            "delivery alone is larger. With the same Idempotency-Key, the "
            "same take.",
    .args = take_args,
    .reply = OBJECT("reply", take_reply, ""),
    .role = ROLE_OPERATOR,
    .tenant = TENANT_ENDPOINT,
    .flags = COMMAND_ACTS | COMMAND_FREQUENT,
    .routes = {{"POST", "/pull/{endpoint}/take"}},
};

/* ---- want ---- */

static const struct value want_args[] = {ARG_PULL_ENDPOINT, {0}};
static const struct value want_reply[] = {
    TEXT("name", "the name of the endpoint"),
    TEXT("state", "whether attempts are made: `active`, `held`, or why not"),
    TEXT("owner", "the deliverer that has it; null: none has",
         .flags = VALUE_NULL),
    {0}};
const struct command_spec command_pull_want = {
    .name = "pull_want",
    .process = "sequencer",
    .help = "A consumer waits for deliveries of this pull endpoint: give it to "
            "a deliverer, if none has it. For the console.",
    .args = want_args,
    .reply = OBJECT("reply", want_reply, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_LOCAL,
};

/* ---- the end of deliveries ---- */

static const struct value event_id = TEXT("", "of an event", .min = 1,
                                          .max = 64);
#define ARGS_TAKEN                                                        \
    ARG_PULL_ENDPOINT,                                                    \
        TEXT("take", "the id of the take", .min = 1, .max = 200,          \
             .flags = VALUE_REQUIRED),                                    \
        LIST("deliveries", &event_id,                                     \
             "the event ids of deliveries of the take; absent: all that " \
             "have not ended",                                            \
             .min = 1, .max = TAKE_MAX)
#define ARG_NOTE(h) TEXT("note", h, .min = 1, .max = 150)
static const struct value taken_reply[] = {
    LIST("deliveries", &event_id, "those that have ended so"),
    INTEGER("open", "how many deliveries of the take have not ended"),
    {0}};

static const struct value ack_args[] = {ARGS_TAKEN, {0}};
const struct command_spec command_pull_ack = {
    .name = "pull_ack",
    .process = "deliverer",
    .help = "Ends deliveries of a take: they are delivered. 409 if one has "
            "ended otherwise: then nothing is changed, but an acknowledgement "
            "after the lease is recorded as a late result.",
    .args = ack_args,
    .reply = OBJECT("reply", taken_reply, ""),
    .role = ROLE_OPERATOR,
    .tenant = TENANT_ENDPOINT,
    .flags = COMMAND_ACTS | COMMAND_FREQUENT | COMMAND_REPEATABLE,
    .routes = {{"POST", "/pull/{endpoint}/ack"}},
};

static const struct value retry_args[] = {
    ARGS_TAKEN,
    DURATION_MS("delay_ms",
                "when they are due again, from now on, at most 24h; absent: as "
                "the retry policy says",
                .max = DAY_MS),
    ARG_NOTE("why, for people"),
    {0}};
const struct command_spec command_pull_retry = {
    .name = "pull_retry",
    .process = "deliverer",
    .help = "Ends the attempt of deliveries of a take as failed: they are due "
            "again later, within the budget of the retry policy. 409 if one "
            "has ended otherwise: then nothing is changed.",
    .args = retry_args,
    .reply = OBJECT("reply", taken_reply, ""),
    .role = ROLE_OPERATOR,
    .tenant = TENANT_ENDPOINT,
    .flags = COMMAND_ACTS | COMMAND_FREQUENT | COMMAND_REPEATABLE,
    .routes = {{"POST", "/pull/{endpoint}/retry"}},
};

static const struct value dead_args[] = {
    ARGS_TAKEN, ARG_NOTE("why, for people"), {0}};
const struct command_spec command_pull_dead = {
    .name = "pull_dead",
    .process = "deliverer",
    .help = "Ends deliveries of a take for good: they are dead letters. 409 if "
            "one has ended otherwise: then nothing is changed.",
    .args = dead_args,
    .reply = OBJECT("reply", taken_reply, ""),
    .role = ROLE_OPERATOR,
    .tenant = TENANT_ENDPOINT,
    .flags = COMMAND_ACTS | COMMAND_FREQUENT | COMMAND_REPEATABLE,
    .routes = {{"POST", "/pull/{endpoint}/dead"}},
};
