/* dlqd_commands: what the dlqd answers. */
#include "bounds.h"
#include "commands.h"
#include "tables.h"

static const char *const states[] = {"dead",     "requeued",  "recovered",
                                     "resolved", "discarded", NULL};
static const char *const states_and_all[] = {
    "dead", "requeued", "recovered", "resolved", "discarded", "all", NULL};

/* Known ones; `refused:` is followed by the reason of an event that was not routed. */
const char *const dead_letter_reasons[] = {"rejected",
                                           "budget_attempts",
                                           "budget_time",
                                           "expired",
                                           "endpoint_gone",
                                           "endpoint_removed",
                                           "blocked_address",
                                           "crashed_deliverer",
                                           "abandoned",
                                           "damaged",
                                           "invalid_transition",
                                           "refused:*",
                                           NULL};

/* Which dead letters. */
#define DEAD_LETTER_FILTERS                                                    \
    PATTERN("endpoint", "of this endpoint"),                                   \
        PATTERN("source", "from this source"),                                 \
        PATTERN("workspace", "of this workspace"),                             \
        PATTERN("type", "of this type"),                                       \
        PATTERN("reason", "with this reason", .choices = dead_letter_reasons), \
        TIME_MS("since_ms", "dead-lettered from this time on"),                \
        TIME_MS("until_ms", "dead-lettered before this time")
#define ARG_NOTE(h) \
    TEXT("note", h, .min = 1, .max = 4000, .flags = VALUE_REQUIRED)
#define ARG_DEAD_LETTER                                                     \
    TEXT("id",                                                              \
         "a dead letter, `dlq_…`, or an event, `evt_…`, that has only one", \
         .min = 1, .max = 200, .flags = VALUE_REQUIRED)
#define ARG_TO                                                              \
    TEXT("to",                                                              \
         "send them to this endpoint instead, which resolves them. If it "  \
         "fails there, a new dead letter is made, but not for a temporary " \
         "endpoint",                                                        \
         .min = 1, .max = NAME_MAX_BYTES)

#define DEAD_LETTER_FIELDS                                                   \
    TEXT("id", "`dlq_…`"), TEXT("event_id", "`evt_…`"),                      \
        TEXT("endpoint", "null: the event was refused before routing",       \
             .flags = VALUE_NULL),                                           \
        TEXT("reason", "why the delivery ended"),                            \
        CHOICE("state", states, "what became of it"),                        \
        INTEGER("attempts", "how many there were"),                          \
        TIME("first_at", "when the first attempt was", .flags = VALUE_NULL), \
        TIME("dead_at", "when it became a dead letter"),                     \
        INTEGER("last_http_status", "of the last attempt",                   \
                .flags = VALUE_NULL),                                        \
        TEXT("last_error", "of the last attempt", .flags = VALUE_NULL),      \
        TEXT("last_response", "the beginning of the last response's body",   \
             .flags = VALUE_NULL),                                           \
        TEXT("note", "of the person who resolved or discarded it",           \
             .flags = VALUE_NULL)

static const struct value dead_letter_fields[] = {DEAD_LETTER_FIELDS, {0}};
static const struct value dead_letter_value = OBJECT("dead_letter",
                                                     dead_letter_fields, "");

/* ---- dlq ---- */

static const struct value dlq_args[] = {
    DEAD_LETTER_FILTERS,
    CHOICE("state", states_and_all,
           "in this state; without it `dead`: those that need a decision"),
    ARG_LIMIT,
    TEXT("before", "the `next` of the page before", .max = 64),
    ARG_TENANT,
    {0}};
static const struct value dlq_reply[] = {
    LIST("dead_letters", &dead_letter_value, "newest first", .max = 1000),
    TEXT("next", "the `before` of the next page; null: this was the last",
         .flags = VALUE_NULL),
    {0}};
const struct command_spec command_dlq = {
    .name = "dlq",
    .process = "dlqd",
    .help = "Dead letters, newest first.",
    .args = dlq_args,
    .reply = OBJECT("reply", dlq_reply, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_READS,
    .tenant = TENANT_DEAD_LETTERS,
    .routes = {{"GET", "/dead-letters"}},
    .rows = "dead_letters",
};

/* ---- dlq_show ---- */

static const struct value dlq_show_args[] = {ARG_DEAD_LETTER, ARG_TENANT, {0}};
static const struct value history_fields[] = {
    TIME("at", "when it changed"),
    CHOICE("from", states, "the state before; null: there was none",
           .flags = VALUE_NULL),
    CHOICE("to", states, "the state after"),
    TEXT("what", "who did it, or what happened"),
    {0}};
static const struct value history_value = OBJECT("change", history_fields, "");
static const struct value dlq_show_reply[] = {
    DEAD_LETTER_FIELDS,
    INTEGER("generation", "how often the delivery was routed or requeued"),
    TEXT("source", "of the event"),
    TEXT("provider_id", "the provider's id of the event", .flags = VALUE_NULL),
    TEXT("delivery_id", "the provider's id of the event's delivery",
         .flags = VALUE_NULL),
    TEXT("type", "of the event"),
    TEXT("workspace", "of the event"),
    INTEGER("sequence", "the number of the event in its workspace",
            .flags = VALUE_NULL),
    TIME("received_at", "when ingress received it"),
    LIST("headers", &value_header,
         "of the event's request; absent if they are no longer stored, and "
         "with the token of a workspace",
         .flags = VALUE_ABSENT),
    TEXT("body", "of the event; absent if it is not UTF-8, or no longer stored",
         .flags = VALUE_ABSENT),
    BASE64("body_b64", "a body that is not UTF-8; else absent",
           .flags = VALUE_ABSENT),
    LIST("history", &history_value, "its changes of state, oldest first"),
    {0}};
const struct command_spec command_dlq_show = {
    .name = "dlq_show",
    .process = "dlqd",
    .help = "One dead letter with its headers, body and history.",
    .args = dlq_show_args,
    .reply = OBJECT("reply", dlq_show_reply, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_READS,
    .tenant = TENANT_DEAD_LETTER,
    .routes = {{"GET", "/dead-letters/{id}"}},
};

/* ---- dlq_retry ---- */

static const struct value refused_fields[] = {
    TEXT("id", "as asked for"), TEXT("why", "the reason"), {0}};
static const struct value refused_value = OBJECT("refused", refused_fields, "");
#define REPLY_REFUSED \
    LIST("refused", &refused_value, "those that did not change")
#define REPLY_NEXT                                                        \
    TEXT("next", "the `after` of the next page; null: this was the last", \
         .flags = VALUE_NULL)

static const struct value dlq_retry_args[] = {
    LIST("ids", &value_id, "several of these, instead of `id`", .min = 1,
         .max = 1000, .flags = VALUE_LOCAL),
    TEXT("id", "a dead letter, or an event for all of its dead letters",
         .min = 1, .max = 200),
    ARG_TO,
    ARG_TENANT,
    ARG_WHO,
    {0}};
static const struct value dlq_retry_reply[] = {
    LIST("requeued", &value_id, "the dead letters that changed"),
    REPLY_REFUSED,
    {0}};
const struct command_spec command_dlq_retry = {
    .name = "dlq_retry",
    .process = "dlqd",
    .help = "Requeues dead letters: they are delivered again, with a new retry "
            "budget. Only one that is `dead` can be requeued; its state then "
            "shows the result. With `id`, it is an error if none is "
            "requeued.",
    .args = dlq_retry_args,
    .reply = OBJECT("reply", dlq_retry_reply, ""),
    .role = ROLE_OPERATOR,
    .tenant = TENANT_DEAD_LETTER,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
    .routes = {{"POST", "/dead-letters/{id}/retry"}},
};

/* ---- dlq_resolve, dlq_discard ---- */

static const struct value dlq_resolve_args[] = {
    ARG_DEAD_LETTER, ARG_NOTE("what was done"), ARG_TENANT, ARG_WHO, {0}};
const struct command_spec command_dlq_resolve = {
    .name = "dlq_resolve",
    .process = "dlqd",
    .help = "Marks a dead letter as handled in another way. Only one that is "
            "`dead`; a lane that it halts continues.",
    .args = dlq_resolve_args,
    .reply = OBJECT("reply", dead_letter_fields, "the dead letter"),
    .role = ROLE_OPERATOR,
    .tenant = TENANT_DEAD_LETTER,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
    .routes = {{"POST", "/dead-letters/{id}/resolve"}},
};

static const struct value dlq_discard_args[] = {
    ARG_DEAD_LETTER, ARG_NOTE("the reason"), ARG_TENANT, ARG_WHO, {0}};
const struct command_spec command_dlq_discard = {
    .name = "dlq_discard",
    .process = "dlqd",
    .help = "Marks a dead letter as no longer needed. Only one that is "
            "`dead`; a lane that it halts continues.",
    .args = dlq_discard_args,
    .reply = OBJECT("reply", dead_letter_fields, "the dead letter"),
    .role = ROLE_OPERATOR,
    .tenant = TENANT_DEAD_LETTER,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
    .routes = {{"POST", "/dead-letters/{id}/discard"}},
};

/* ---- dlq_retry_all, dlq_resolve_all, dlq_discard_all ---- */

#define ARG_AFTER TEXT("after", "the `next` of the page before", .max = 64)
#define ARG_PAGE                                                \
    INTEGER("limit", "at most this many", .min = 1, .max = 500, \
            .otherwise = 100)

static const struct value dlq_retry_all_args[] = {
    DEAD_LETTER_FILTERS, ARG_PAGE, ARG_AFTER, ARG_TO, ARG_WHO, {0}};
static const struct value dlq_retry_all_reply[] = {
    LIST("requeued", &value_id, "the dead letters that changed", .max = 500),
    REPLY_REFUSED,
    REPLY_NEXT,
    {0}};
const struct command_spec command_dlq_retry_all = {
    .name = "dlq_retry_all",
    .process = "dlqd",
    .help = "Requeues the oldest of the `dead` dead letters that match, in one "
            "transaction.",
    .args = dlq_retry_all_args,
    .reply = OBJECT("reply", dlq_retry_all_reply, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
};

static const struct value dlq_resolve_all_args[] = {
    DEAD_LETTER_FILTERS,       ARG_PAGE, ARG_AFTER,
    ARG_NOTE("what was done"), ARG_WHO,  {0}};
static const struct value dlq_resolve_all_reply[] = {
    LIST("resolved", &value_id, "the dead letters that changed", .max = 500),
    REPLY_REFUSED,
    REPLY_NEXT,
    {0}};
const struct command_spec command_dlq_resolve_all = {
    .name = "dlq_resolve_all",
    .process = "dlqd",
    .help = "Resolves the oldest of the `dead` dead letters that match, in one "
            "transaction.",
    .args = dlq_resolve_all_args,
    .reply = OBJECT("reply", dlq_resolve_all_reply, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
};

static const struct value dlq_discard_all_args[] = {
    DEAD_LETTER_FILTERS,    ARG_PAGE, ARG_AFTER,
    ARG_NOTE("the reason"), ARG_WHO,  {0}};
static const struct value dlq_discard_all_reply[] = {
    LIST("discarded", &value_id, "the dead letters that changed", .max = 500),
    REPLY_REFUSED,
    REPLY_NEXT,
    {0}};
const struct command_spec command_dlq_discard_all = {
    .name = "dlq_discard_all",
    .process = "dlqd",
    .help = "Discards the oldest of the `dead` dead letters that match, in one "
            "transaction.",
    .args = dlq_discard_all_args,
    .reply = OBJECT("reply", dlq_discard_all_reply, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
};

/* ---- dlq_bulk ---- */

static const char *const bulk_actions[] = {"retry", "resolve", "discard", NULL};
static const struct value dlq_bulk_args[] = {
    CHOICE("action", bulk_actions, "what to do with each",
           .flags = VALUE_REQUIRED),
    DEAD_LETTER_FILTERS,
    TEXT("note", "what was done, or the reason: for resolve and discard",
         .min = 1, .max = 4000),
    ARG_TO,
    INTEGER("limit", "at most this many, the oldest ones; without it, all",
            .min = 1, .max = 1000000000),
    INTEGER("rate", "at most this many a second", .min = 1, .max = 1000,
            .otherwise = 100),
    BOOL("dry_run", "true: only count them"),
    {0}};
const struct command_spec command_dlq_bulk = {
    .name = "dlq_bulk",
    .process = "dlqd",
    .help = "Makes a job that retries, resolves or discards the `dead` dead "
            "letters that match, oldest first. Those that become dead after "
            "the job was made are not among them.",
    .args = dlq_bulk_args,
    .reply = OBJECT("reply", job_fields, "the job"),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
    .routes = {{"POST", "/dead-letters/bulk"}},
};

/* ---- dlq_count, dlq_stats ---- */

static const struct value dlq_count_args[] = {
    DEAD_LETTER_FILTERS, ARG_AFTER, {0}};
static const struct value dlq_count_reply[] = {
    INTEGER("count", "how many match on this page"), REPLY_NEXT, {0}};
const struct command_spec command_dlq_count = {
    .name = "dlq_count",
    .process = "dlqd",
    .help = "Counts the `dead` dead letters that match, page by page.",
    .args = dlq_count_args,
    .reply = OBJECT("reply", dlq_count_reply, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_READS,
};

static const struct value count_value = INTEGER("count", "");
static const struct value dlq_stats_reply[] = {
    INTEGER("dead", "how many need a decision"),
    INTEGER("requeued", "how many are tried again"),
    INTEGER("recovered", "how many were delivered after all"),
    INTEGER("resolved", "how many were handled in another way"),
    INTEGER("discarded", "how many were not needed"),
    MAP("by_endpoint", &count_value,
        "of those that are `dead`; empty name: refused before routing"),
    MAP("by_reason", &count_value, "of those that are `dead`"),
    MAP("by_fault", &count_value,
        "of those that are `dead`: of the `endpoint` (it refused, or could not "
        "be reached), the `event` (it is invalid, or came too late), or the "
        "`pipeline` (Grapnel's, or its operator's)"),
    {0}};
const struct command_spec command_dlq_stats = {
    .name = "dlq_stats",
    .process = "dlqd",
    .help = "The number of dead letters by state, and of those that need a "
            "decision by endpoint, reason and fault.",
    .reply = OBJECT("reply", dlq_stats_reply, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_READS,
    .routes = {{"GET", "/dead-letters/stats"}},
};

/* ---- dlq_new_dead_letters ---- */

static const struct value dlq_new_dead_letters_args[] = {
    INTEGER("after", "the `next` of the page before", .min = -1),
    TIME_MS("since_ms", "without `after` (or with -1): from this time on"),
    INTEGER("limit", "at most this many", .min = 1, .max = 1000,
            .otherwise = 1000),
    {0}};
static const struct value news_fields[] = {
    TEXT("id", "`dlq_…`"),
    TEXT("event_id", "`evt_…`"),
    TEXT("endpoint", "null: the event was refused before routing",
         .flags = VALUE_NULL),
    TEXT("reason", "why the delivery ended"),
    INTEGER("http_status", "of the last attempt; 0: there was no response"),
    TEXT("error", "of the last attempt; may be empty"),
    TIME("dead_at", "when it became a dead letter"),
    {0}};
static const struct value news_value = OBJECT("dead_letter", news_fields, "");
static const struct value dlq_new_dead_letters_reply[] = {
    INTEGER("after", "as asked for", .min = -1, .flags = VALUE_NULL),
    LIST("dead_letters", &news_value, "in the order in which they became dead",
         .max = 1000),
    INTEGER("next", "the `after` of the next page"),
    BOOL("more", "whether there are more now"),
    {0}};
const struct command_spec command_dlq_new_dead_letters = {
    .name = "dlq_new_dead_letters",
    .process = "dlqd",
    .help =
        "One entry for each time that a delivery became a dead letter, "
        "oldest first. Without `after` and `since_ms` there are no entries, "
        "and `next` is the present end.",
    .args = dlq_new_dead_letters_args,
    .reply = OBJECT("reply", dlq_new_dead_letters_reply, ""),
    .role = ROLE_VIEWER,
    .rows = "dead_letters",
};

/* ---- trace ---- */

static const struct value dead_letter_trace_args[] = {
    TEXT("id", "the `evt_` id of an event", .flags = VALUE_REQUIRED), {0}};
static const struct value dead_letter_trace_reply[] = {
    LIST("timeline", &timeline_step, "the changes of its dead letters"), {0}};
const struct command_spec command_dead_letter_trace = {
    .name = "trace",
    .process = "dlqd",
    .help = "The history of an event's dead letters.",
    .args = dead_letter_trace_args,
    .reply = OBJECT("reply", dead_letter_trace_reply, ""),
    .role = ROLE_VIEWER,
};

const struct command_spec *const dlqd_commands[] = {
    &command_dlq,
    &command_dlq_show,
    &command_dlq_retry,
    &command_dlq_resolve,
    &command_dlq_discard,
    &command_dlq_retry_all,
    &command_dlq_resolve_all,
    &command_dlq_discard_all,
    &command_dlq_bulk,
    &command_dlq_count,
    &command_dlq_stats,
    &command_dlq_new_dead_letters,
    &command_dead_letter_trace,
    NULL};
