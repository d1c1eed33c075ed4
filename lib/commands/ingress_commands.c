/* ingress_commands: what the ingress answers. */
#include "bounds.h"
#include "commands.h"
#include "reject_mistakes.h"
#include "tables.h"

/* ---- trace ---- */

static const struct value request_trace_args[] = {
    TEXT("id", "the `evt_` id of the request", .flags = VALUE_REQUIRED),
    TEXT("event", "the `evt_` id of one event of a request of several, for the "
                  "steps of this event"),
    {0}};
static const struct value request_trace_reply[] = {
    TEXT("id", "as asked for"),
    TEXT("source", "the source or producer that sent it"),
    TIME("received_at", "when ingress received it"),
    TEXT("remote", "the address of the client"),
    INTEGER("body_bytes", "the size of its body"),
    BOOL("handed_on", "whether the sequencer has it"),
    INTEGER("secret", "which of the source's secrets signed it, from 0"),
    TEXT(
        "verified_by",
        "how it was verified, by the present configuration of its source; "
        "null: that is no longer configured, a relay made the event, or it was "
        "taken from the list of its provider",
        .flags = VALUE_NULL),
    LIST("headers", &value_header, "without secrets"),
    LIST("timeline", &timeline_step, "the steps that ingress knows"),
    {0}};
static const struct value replayed_reply[] = {
    TEXT("id", "as asked for"),
    LIST("timeline", &timeline_step, "how often it was sent again"),
    {0}};
static const struct value replayed_value = OBJECT(
    "reply", replayed_reply,
    "for an event that a replay made, or one of a request of several");
const struct command_spec command_request_trace = {
    .name = "trace",
    .process = "ingress",
    .also = "outbox reconcile",
    .help = "The archived request of an event, and how often the event was "
            "sent again.",
    .args = request_trace_args,
    .reply = OBJECT("reply", request_trace_reply, ""),
    .or_reply = &replayed_value,
    .role = ROLE_VIEWER,
};

/* ---- find, archive ---- */

static const struct value archived_part = ANY("value", "");
static const struct value archived_value = LIST(
    "event", &archived_part, "`[id, received_ms, source, received_at]`",
    .min = 4, .max = 4);

static const struct value find_args[] = {
    TEXT("id", "the provider's id of an event or a delivery", .min = 1,
         .max = TEXT_MAX_BYTES, .flags = VALUE_REQUIRED),
    {0}};
static const struct value find_reply[] = {
    LIST("events", &archived_value,
         "newest first, each `[id, received_ms, source, received_at]`",
         .max = 20),
    INTEGER("looked_at", "how many of the newest requests were read"),
    TIME("back_to",
         "when the oldest of these was received; null if there are "
         "none",
         .flags = VALUE_NULL),
    {0}};
const struct command_spec command_find = {
    .name = "find",
    .process = "ingress",
    .also = "outbox reconcile",
    .help = "The newest requests that have this id as the value of a header or "
            "as a string in the body. For use while the sequencer, which has "
            "an index of these ids, does not respond.",
    .args = find_args,
    .reply = OBJECT("reply", find_reply, ""),
    .role = ROLE_VIEWER,
    .rows = "events",
};

static const struct value archive_args[] = {
    ARGS_TIMES,
    TEXT("source", "from this source", .max = NAME_MAX_BYTES),
    BOOL("waiting", "true: only requests that the sequencer has not "
                    "acknowledged"),
    INTEGER("limit", "at most this many", .min = 1, .max = 500,
            .otherwise = 500),
    INTEGER("after", "the `next` of the page before", .min = -1),
    {0}};
static const struct value archive_reply[] = {
    LIST("events", &archived_value,
         "oldest first, each `[id, received_ms, source, received_at]`",
         .max = 500),
    INTEGER("next", "the `after` of the next page; null: this was the last",
            .flags = VALUE_NULL),
    {0}};
const struct command_spec command_archive = {
    .name = "archive",
    .process = "ingress",
    .also = "outbox reconcile",
    .help = "Archived requests, oldest first.",
    .args = archive_args,
    .reply = OBJECT("reply", archive_reply, ""),
    .role = ROLE_VIEWER,
    .rows = "events",
};

/* ---- request ---- */

#define ARG_OFFSET \
    INTEGER("offset", "of the piece in the body; headers come with 0")
static const struct value request_args[] = {
    TEXT("id", "the `evt_` id of the request", .flags = VALUE_REQUIRED),
    TEXT("event", "the `evt_` id of one event of a request of several, for the "
                  "body of this event"),
    ARG_OFFSET,
    TEXT("as_sent", "of a producer's request: the id of its event, for the "
                    "body that endpoints get"),
    {0}};
static const struct value request_reply[] = {
    TEXT("id", "of the event or the request"),
    TEXT("source", "the source or producer that sent it"),
    TIME("received_at", "when ingress received it"),
    TEXT("remote", "the address of the client"),
    TEXT("process", "the ingress that has it"),
    LIST("headers", &value_header, "without secrets; with `offset` 0",
         .flags = VALUE_ABSENT),
    LIST("masked", &value_text,
         "where a shared token was before the request was stored, such as "
         "`X-Gitlab-Token` or `query:token`; with `offset` 0",
         .flags = VALUE_ABSENT),
    INTEGER("body_bytes", "the size of the whole body"),
    INTEGER("offset", "of this piece"),
    BASE64("body_b64", "at most 256 KiB of the body from `offset` on; ask "
                       "again until you have `body_bytes`"),
    {0}};
const struct command_spec command_request = {
    .name = "request",
    .process = "ingress",
    .also = "outbox reconcile",
    .help = "An archived request as it was received, with a piece of its body.",
    .args = request_args,
    .reply = OBJECT("reply", request_reply, ""),
    .role = ROLE_VIEWER,
};

/* ---- rejects, reject ---- */

#define REJECT_FIELDS                                                        \
    TEXT("id", "`rej_…`", .flags = VALUE_NULL),                              \
        TIME("at", "when it was refused"),                                   \
        TEXT("source", "its source; empty: the request names no configured " \
                       "source"),                                            \
        TEXT("reason", "why it was refused"),                                \
        INTEGER("status", "the HTTP status of the response"),                \
        TEXT("remote", "the address of the client"),                         \
        TEXT("delivery_id",                                                  \
             "the provider's delivery id, where a header has "               \
             "it",                                                           \
             .flags = VALUE_NULL),                                           \
        TEXT("method", "of the request"),                                    \
        TEXT("path", "of the request, without its query"),                   \
        INTEGER("body_bytes", "the size of its body, as far as it arrived"), \
        BOOL("has_body", "whether the body is kept"),                        \
        LIST("headers", &value_header, "without secrets; the first 2 KiB"),  \
        TEXT("process", "the ingress that refused it")

static const struct value rejects_args[] = {
    TEXT("source", "of this source; `-`: requests that name no configured "
                   "source"),
    TEXT("id", "with this delivery id of the provider in a header"),
    ARGS_TIMES,
    INTEGER("limit", "at most this many", .min = 1, .max = 10000,
            .otherwise = 100),
    {0}};
static const struct value reject_row[] = {REJECT_FIELDS, {0}};
static const struct value reject_value = OBJECT("reject", reject_row, "");
static const struct value rejects_reply[] = {
    LIST("rejects", &reject_value, "newest first"), {0}};
const struct command_spec command_rejects = {
    .name = "rejects",
    .process = "ingress",
    .help = "Refused requests, newest first. Of each source, the last thousand "
            "are kept.",
    .args = rejects_args,
    .reply = OBJECT("reply", rejects_reply, ""),
    .role = ROLE_VIEWER,
    .routes = {{"GET", "/rejects"}},
    .rows = "rejects",
};

static const struct value reject_args[] = {
    TEXT("id", "`rej_…`, of the refused request", .min = 1,
         .flags = VALUE_REQUIRED),
    ARG_OFFSET,
    {0}};
static const struct value reject_reply[] = {
    REJECT_FIELDS,
    INTEGER("offset", "of this piece; absent if the body is not kept",
            .flags = VALUE_ABSENT),
    BASE64("body_b64",
           "at most 256 KiB of the body from `offset` on, as in `request`; "
           "absent if the body is not kept",
           .flags = VALUE_ABSENT),
    {0}};
const struct command_spec command_reject = {
    .name = "reject",
    .process = "ingress",
    .help = "One refused request. Its body is kept for a day; the bodies have "
            "64 MiB in all.",
    .args = reject_args,
    .reply = OBJECT("reply", reject_reply, ""),
    .role = ROLE_VIEWER,
    .routes = {{"GET", "/rejects/{id}"}},
};

/* ---- reject_explain ---- */

static const char *const mistakes[] = {
#define M(NAME, word, help) word,
    REJECT_MISTAKES(M)
#undef M
        NULL};
#define M(NAME, word, help) "`" word "`: " help "; "
static const struct value finding_fields[] = {
    CHOICE("mistake", mistakes, REJECT_MISTAKES(M) "others may be added"),
    BOOL("certain", "true: it is proved, as the signature is valid under this "
                    "mistake, or the part is missing; false: a hint"),
    TEXT("text", "what is wrong"),
    TEXT("fix", "what to do"),
    {0}};
#undef M
static const struct value finding_value = OBJECT("finding", finding_fields, "");
static const struct value explain_reject_args[] = {
    TEXT("id", "`rej_…`, of the refused request", .min = 1,
         .flags = VALUE_REQUIRED),
    {0}};
static const struct value explain_reject_reply[] = {
    TEXT("id", "`rej_…`"),
    TIME("at", "when it was refused"),
    TEXT("source", "its source; empty: the request names no configured source"),
    TEXT("reason", "why it was refused"),
    INTEGER("status", "the HTTP status of the response"),
    LIST("findings", &finding_value,
         "what to look at first is first; empty: no usual mistake explains it"),
    INTEGER("tried", "how many signatures were made and compared"),
    BOOL("complete", "false: the body is so large that the search was ended"),
    TEXT("note", "why less could be compared; null: all could",
         .flags = VALUE_NULL),
    TEXT("process", "the ingress that refused it"),
    {0}};
const struct command_spec command_reject_explain = {
    .name = "reject_explain",
    .process = "ingress",
    .help = "Names the usual mistake behind a refused request, such as the "
            "secret of another source, a body that a proxy changed, or a wrong "
            "clock. Ingress compares with its secrets and says nothing of "
            "them. It takes up to 20 ms of ingress; at most 5 in a second.",
    .args = explain_reject_args,
    .reply = OBJECT("reply", explain_reject_reply, ""),
    .role = ROLE_OPERATOR,
    .routes = {{"GET", "/rejects/{id}/explanation"}},
};

/* ---- resend ---- */

static const struct value resend_event_fields[] = {
    TEXT("id", "the `evt_` id of the event", .min = EVENT_ID_BYTES,
         .max = EVENT_ID_BYTES, .flags = VALUE_REQUIRED),
    TEXT("request", "the `evt_` id of its request, if that has several events"),
    {0}};
static const struct value resend_event = OBJECT("event", resend_event_fields,
                                                "");
static const struct value resend_args[] = {
    LIST("events", &resend_event, "several events, instead of `event`",
         .min = 1, .max = 500, .flags = VALUE_LOCAL),
    TEXT("event", "the `evt_` id of one event", .min = 1, .max = 200),
    TEXT("endpoint", "only to this endpoint", .max = NAME_MAX_BYTES),
    BOOL("always", "true: to that endpoint even if it is not subscribed"),
    BOOL("new_id", "true: as new events, with new ids"),
    ARG_WHO,
    {0}};
static const struct value resent_fields[] = {
    TEXT("id", "of the event"),
    TEXT("new_id", "with `new_id`, the id of the new event",
         .flags = VALUE_NULL),
    {0}};
static const struct value resent_value = OBJECT("event", resent_fields, "");
static const struct value resend_reply[] = {
    LIST("resent", &resent_value, "the events that are sent again"),
    LIST("missing", &value_id, "ids that are not in the archive"),
    {0}};
const struct command_spec command_resend = {
    .name = "resend",
    .process = "ingress",
    .also = "outbox reconcile",
    .help = "Sends archived events again. They keep their ids and numbers.",
    .args = resend_args,
    .reply = OBJECT("reply", resend_reply, ""),
    .role = ROLE_OPERATOR,
    .tenant = TENANT_DELIVERY,
    .flags = COMMAND_ACTS,
    .routes = {{"POST", "/events/{event}/resend"}},
};

/* ---- replay ---- */

const struct value replay_args[] = {
    TIME_MS("since_ms", "received from this time on", .flags = VALUE_REQUIRED),
    TIME_MS("until_ms", "received before this time; without it, now"),
    TEXT("endpoint",
         "only to this endpoint, and only events that it is subscribed to or "
         "has had",
         .min = 1, .max = NAME_MAX_BYTES),
    PATTERN("source", "from this source"),
    PATTERN("workspace", "of this workspace"),
    PATTERN("type", "of this type"),
    PATTERN("reason", "with a delivery that is dead for this reason"),
    BOOL("new_id", "true: as new events, with new ids"),
    INTEGER("limit", "at most this many of each ingress; without it, all",
            .min = 1, .max = 1000000000),
    INTEGER("rate", "at most this many a second", .min = 1, .max = 1000,
            .otherwise = 500),
    BOOL("dry_run", "true: only count them"),
    {0}};
const struct command_spec command_replay = {
    .name = "replay",
    .process = "ingress",
    .also = "outbox reconcile",
    .help = "Makes a job that sends the archived events that match again, "
            "oldest first. Its `result` has how many were left out, by "
            "reason, and how many may turn out not to be subscribed to.",
    .args = replay_args,
    .reply = OBJECT("reply", job_fields, "the job"),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
};

/* ---- the same of operational events ---- */

static const struct value operational_archive_args[] = {
    ARGS_TIMES,
    TEXT("source", "`grapnel`; another one has no events here",
         .max = NAME_MAX_BYTES),
    INTEGER("limit", "at most this many", .min = 1, .max = 500,
            .otherwise = 500),
    INTEGER("after", "the `next` of the page before", .min = -1),
    {0}};
const struct command_spec command_operational_archive = {
    .name = "archive",
    .process = "sequencer",
    .help = "Grapnel's own events, oldest first.",
    .args = operational_archive_args,
    .reply = OBJECT("reply", archive_reply, ""),
    .role = ROLE_VIEWER,
    .rows = "events",
};

static const struct value operational_request_args[] = {
    TEXT("id", "the `evt_` id of the event", .flags = VALUE_REQUIRED),
    ARG_OFFSET,
    {0}};
const struct command_spec command_operational_request = {
    .name = "request",
    .process = "sequencer",
    .help = "One of Grapnel's own events as endpoints get it, with a piece of "
            "its body. The sequencer keeps it for `history.keep`.",
    .args = operational_request_args,
    .reply = OBJECT("reply", request_reply, ""),
    .role = ROLE_VIEWER,
};

static const struct value operational_resend_args[] = {
    LIST("events", &resend_event, "the events", .min = 1, .max = 500,
         .flags = VALUE_REQUIRED),
    TEXT("endpoint", "only to this endpoint", .max = NAME_MAX_BYTES),
    BOOL("always", "true: to that endpoint even if it is not subscribed"),
    BOOL("new_id", "must not be true: these events keep their ids"),
    ARG_WHO,
    {0}};
const struct command_spec command_operational_resend = {
    .name = "resend",
    .process = "sequencer",
    .help = "Sends Grapnel's own events again. They keep their ids.",
    .args = operational_resend_args,
    .reply = OBJECT("reply", resend_reply, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
};

const struct command_spec *const ingress_commands[] = {
    &command_request_trace, &command_find,
    &command_request,       &command_rejects,
    &command_reject,        &command_reject_explain,
    &command_archive,       &command_resend,
    &command_replay,        NULL};
