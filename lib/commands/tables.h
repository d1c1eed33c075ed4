/* tables: short forms for the declarations of commands. Only the tables in this folder include
 * it. Each form is one row; further members may follow: TEXT("note", "the reason",
 * .flags = VALUE_REQUIRED). */
#ifndef COMMANDS_TABLES_H
#define COMMANDS_TABLES_H

#include "command_spec.h"

#define VALUE(kind, n, h, ...)                          \
    {                                                   \
        .type = kind, .name = n, .help = h, __VA_ARGS__ \
    }

#define TEXT(n, ...)        VALUE(VALUE_TEXT, n, __VA_ARGS__)
#define PATTERN(n, ...)     VALUE(VALUE_PATTERN, n, __VA_ARGS__)
#define INTEGER(n, ...)     VALUE(VALUE_INTEGER, n, __VA_ARGS__)
#define NUMBER(n, ...)      VALUE(VALUE_NUMBER, n, __VA_ARGS__)
#define BOOL(n, ...)        VALUE(VALUE_BOOL, n, __VA_ARGS__)
#define TIME(n, ...)        VALUE(VALUE_TIME, n, __VA_ARGS__)
#define TIME_MS(n, ...)     VALUE(VALUE_TIME_MS, n, __VA_ARGS__)
#define DURATION_MS(n, ...) VALUE(VALUE_DURATION_MS, n, __VA_ARGS__)
#define BASE64(n, ...)      VALUE(VALUE_BASE64, n, __VA_ARGS__)
#define ANY(n, ...)         VALUE(VALUE_ANY, n, __VA_ARGS__)

/* `of`: an array of words that ends with NULL */
#define CHOICE(n, of, ...) VALUE(VALUE_CHOICE, n, __VA_ARGS__, .choices = of)
/* `of`: an array of fields that ends with {0} */
#define OBJECT(n, of, ...) VALUE(VALUE_OBJECT, n, __VA_ARGS__, .fields = of)
/* `of`: the address of one value */
#define LIST(n, of, ...) VALUE(VALUE_LIST, n, __VA_ARGS__, .item = of)
#define MAP(n, of, ...)  VALUE(VALUE_MAP, n, __VA_ARGS__, .item = of)

/* What an endpoint's deliverer knows of it. */
#define ENDPOINT_THROTTLE_FIELDS                                               \
    CHOICE("breaker", breaker_states,                                          \
           "its circuit breaker. open, probing: it fails continuously and "    \
           "gets one attempt at a time; null: no deliverer has the "           \
           "endpoint, or it did not respond",                                  \
           .flags = VALUE_NULL),                                               \
        INTEGER("window",                                                      \
                "attempts that may be in progress at the same time; null: as " \
                "above",                                                       \
                .flags = VALUE_NULL),                                          \
        INTEGER("rate_wait_ms",                                                \
                "how long its `rate_limit` still holds up deliveries that "    \
                "wait at the deliverer; 0: it holds up none; null: as above",  \
                .flags = VALUE_NULL)

/* What lists take. */
#define ARGS_TIMES                            \
    TIME_MS("since_ms", "from this time on"), \
        TIME_MS("until_ms", "before this time")
#define ARG_LIMIT                                                \
    INTEGER("limit", "at most this many", .min = 1, .max = 1000, \
            .otherwise = 100)
/* What the console asks for GET /stream. */
#define ARGS_RECENT                                                \
    TEXT("after",                                                  \
         "the `last` of the reply before; without it there is no " \
         "item in the reply",                                      \
         .min = 1, .max = 20)
#define FIELDS_RECENT                                                     \
    TEXT("last", "the `after` of the next request"),                      \
        BOOL("skipped", "whether there were more than a reply can have; " \
                        "then it has the newest")
#define ATTEMPT_FACTS                                                          \
    TEXT("event_id", "the id of the event"),                                   \
        TEXT("endpoint", "the name of the endpoint"),                          \
        INTEGER("n", "the number of the attempt, from 1"),                     \
        TIME("at", "when it began"),                                           \
        INTEGER("http_status",                                                 \
                "the status of the response; null: there was none",            \
                .flags = VALUE_NULL),                                          \
        TEXT("error", "why it failed; null: it did not", .flags = VALUE_NULL), \
        INTEGER("duration_ms", "how long it took"),                            \
        CHOICE("outcome", attempt_outcomes,                                    \
               "released: it was interrupted, or the delivery ended "          \
               "elsewhere"),                                                   \
        TEXT("reason", "why it had this outcome; null: there is no reason",    \
             .flags = VALUE_NULL),                                             \
        TIME("next_attempt_at",                                                \
             "when the next attempt is due; null: there is none",              \
             .flags = VALUE_NULL)
#define ARG_TENANT                                                      \
    TEXT("tenant",                                                      \
         "only what belongs to this workspace and to endpoints of its " \
         "own, compared as bytes; the API sets it for the token of a "  \
         "workspace",                                                   \
         .min = 1, .max = TEXT_MAX_BYTES, .flags = VALUE_LOCAL)
#define ARG_WHO                                                \
    TEXT("who", "the name that the history shows", .max = 128, \
         .flags = VALUE_LOCAL)

/* Of a verification of the audit chain of one process. */
#define AUDIT_PAGE_FIELDS(also)                                           \
    INTEGER("last", "the last of them", .flags = also, .min = INT64_MIN), \
        INTEGER("begins_after", "the chain begins after this row",        \
                .flags = also, .min = INT64_MIN),                         \
        TIME("begins_at", "since when", .flags = VALUE_NULL | also),      \
        INTEGER("unchained", "rows from before there was a chain",        \
                .flags = also),                                           \
        TEXT("key", "the id of the key in use", .flags = also)

/* tables.c: values that several commands have */
extern const struct value value_text; /* an item of a list of texts */
extern const struct value value_id;
extern const struct value value_header; /* an item of `headers` */

/* event_fields.c: events, deliveries and timelines */
extern const char *const event_statuses[], *const delivery_statuses[];
extern const struct value event_fields[]; /* as lists have an event */
/* as `trace` has it: with clock, deliveries, timeline, events and request */
extern const struct value event_trace_fields[];
#define ARG_NEWEST                                                             \
    INTEGER("newest",                                                          \
            "only so many attempts of each delivery, the newest; absent: all", \
            .min = 1, .max = 1000, .flags = VALUE_LOCAL)
extern const struct value timeline_step; /* {"at","process","what"} */

/* deliverer_commands.c: an exchange with an endpoint, an attempt, and a test */
extern const char *const attempt_outcomes[];
extern const struct value timing_fields[], sent_fields[], response_fields[],
    made_attempt_fields[], test_fields[];

/* sequencer_commands.c: an endpoint after a change, and after a rotation */
extern const struct value endpoint_changed_fields[], endpoint_rotated_fields[];

extern const struct value endpoint_stats_args[],
    endpoint_throttled_stats_fields[];

/* tables.c */
extern const char *const breaker_states[];

/* act_commands.c */
extern const struct value audit_row[], audit_restore, audit_finding;

/* every_commands.c: a job, the reply to `status`, a database */
extern const struct value job_fields[], status_reply[], store_fields[];
/* ingress_commands.c: what a replay takes */
extern const struct value replay_args[];

#define EVENT_FIELDS                                                           \
    TEXT("id", "the id of the event"), TEXT("source", "the source"),           \
        TEXT("provider_id",                                                    \
             "the provider's id of the event; null: it has "                   \
             "none",                                                           \
             .flags = VALUE_NULL),                                             \
        TEXT("delivery_id",                                                    \
             "the provider's id of its delivery; null: it has none, or the "   \
             "request has it, which carried several events",                   \
             .flags = VALUE_NULL),                                             \
        TEXT("type", "the type"), TEXT("workspace", "the workspace"),          \
        INTEGER("sequence",                                                    \
                "the number in its workspace; null: it has none (yet)",        \
                .flags = VALUE_NULL),                                          \
        INTEGER("source_sequence",                                             \
                "the number that the provider gave it; null: it gives none",   \
                .flags = VALUE_NULL, .min = INT64_MIN),                        \
        TIME("received_at", "when ingress received it"),                       \
        CHOICE("status", event_statuses,                                       \
               "done: all of its deliveries have ended; expired: all are "     \
               "dead because the event expired"),                              \
        TEXT("reason",                                                         \
             "why it is refused or ignored, or has no delivery; null: there "  \
             "is no reason",                                                   \
             .flags = VALUE_NULL),                                             \
        TEXT("duplicate_of",                                                   \
             "the id of the event that it is a duplicate of; null: it is "     \
             "not, or that is no longer stored",                               \
             .flags = VALUE_NULL),                                             \
        BOOL("late", "whether later events of its stream were delivered "      \
                     "before it"),                                             \
        TEXT("gap",                                                            \
             "the numbers that it did not wait for, such as 3-5; null: it "    \
             "waited for all",                                                 \
             .flags = VALUE_NULL),                                             \
        BOOL("reconciled", "whether it never arrived, and was taken from the " \
                           "list of its provider")

#endif
