/* api_commands: what only the HTTP API has: the console combines replies of several processes,
 * or reads a body in pieces. */
#include "bounds.h"
#include "commands.h"
#include "tables.h"

#define FIELD_NEXT                                                \
    ANY("next", "for the next page; null: this is the last page", \
        .flags = VALUE_NULL)
#define ARG_NAME                                                      \
    TEXT("name", "the name of the endpoint", .flags = VALUE_REQUIRED, \
         .min = 1, .max = NAME_MAX_BYTES)
#define ARG_EVENT_ID                                                  \
    TEXT("id", "the id of the event, evt_…", .flags = VALUE_REQUIRED, \
         .min = 1, .max = 200)

/* ---- endpoints ---- */

static const struct value endpoint_test_args[] = {ARG_NAME, {0}};
const struct command_spec command_endpoint_test = {
    .name = "endpoint_test",
    .process = "api",
    .help = "Sends one signed event of type `grapnel.test` to an endpoint, and "
            "responds with the request and the endpoint's response.",
    .args = endpoint_test_args,
    .reply = OBJECT("reply", test_fields, ""),
    .role = ROLE_OPERATOR,
    .tenant = TENANT_ENDPOINT,
    .flags = COMMAND_ACTS,
    .routes = {{"POST", "/endpoints/{name}/test"}},
};

const struct command_spec command_stats_read = {
    .name = "stats_read",
    .process = "api",
    .help = "Shows how an endpoint does: its attempts in the last hour or less "
            "by outcome, status and duration, its open deliveries, and its "
            "circuit breaker.",
    .args = endpoint_stats_args,
    .reply = OBJECT("reply", endpoint_throttled_stats_fields, ""),
    .role = ROLE_VIEWER,
    .tenant = TENANT_ENDPOINT,
    .routes = {{"GET", "/endpoints/{name}/stats"}},
};

/* ---- events ---- */

static const char *const stored_statuses[] = {"accepted", "done", NULL};
static const struct value stored_fields[] = {
    TEXT("id", "the id of the event"),
    CHOICE("status", stored_statuses,
           "accepted: the sequencer has not processed it yet; done: it has "
           "left the history; absent: the sequencer did not respond, or no "
           "ingress has the request",
           .flags = VALUE_ABSENT),
    TEXT("source", "the source", .flags = VALUE_ABSENT),
    TIME("received_at", "when ingress received it", .flags = VALUE_ABSENT),
    TEXT("remote", "the address of the client", .flags = VALUE_ABSENT),
    INTEGER("body_bytes", "the size of the request's body",
            .flags = VALUE_ABSENT),
    BOOL("handed_on", "whether the sequencer has acknowledged it",
         .flags = VALUE_ABSENT),
    LIST("timeline", &timeline_step, "what happened to it"),
    LIST("unreachable", &value_text,
         "processes whose part is missing, as they did not respond"),
    {0}};
static const struct value stored = OBJECT(
    "reply", stored_fields, "an event that the sequencer does not know");
static const struct value event_read_args[] = {ARG_EVENT_ID, {0}};
const struct command_spec command_event_read = {
    .name = "event_read",
    .process = "api",
    .help = "Shows one event with its deliveries, their attempts, and its "
            "timeline from all processes.",
    .args = event_read_args,
    .reply = OBJECT("reply", event_trace_fields, "the event"),
    .or_reply = &stored,
    .role = ROLE_VIEWER,
    .tenant = TENANT_EVENT,
    .routes = {{"GET", "/events/{id}"}},
};

static const struct value payload_args[] = {ARG_EVENT_ID, {0}};
const struct command_spec command_payload = {
    .name = "payload",
    .process = "api",
    .help = "Downloads the body of an event as ingress received it. The header "
            "`Grapnel-Content-Type` has its type.",
    .args = payload_args,
    .reply = ANY("reply", "the body"),
    .role = ROLE_VIEWER,
    .tenant = TENANT_EVENT,
    .routes = {{"GET", "/events/{id}/payload"}},
    .media_type = "application/octet-stream",
};

const struct command_spec command_evidence = {
    .name = "evidence",
    .process = "api",
    .help = "Downloads the story of an event as one signed JSON file, which "
            "`verify-evidence.py` verifies. The key pair is that of `grapnel "
            "evidence key`. A body above 256 KiB is refused: use `grapnel "
            "evidence`.",
    .args = payload_args,
    .reply = ANY("reply", "the file"),
    .role = ROLE_OPERATOR,
    .routes = {{"GET", "/events/{id}/evidence"}},
    .media_type = "application/octet-stream",
};

/* ---- attempts ---- */

static const struct value attempt_args[] = {
    TEXT("id", "EVENT.ENDPOINT.N: the N-th attempt of an event at an endpoint",
         .flags = VALUE_REQUIRED, .min = 1, .max = 200),
    {0}};
const struct command_spec command_attempt = {
    .name = "attempt",
    .process = "api",
    .help = "Shows one attempt with the request as it was sent, without "
            "secrets, and the response.",
    .args = attempt_args,
    .reply = OBJECT("reply", made_attempt_fields, "the attempt"),
    .role = ROLE_VIEWER,
    .tenant = TENANT_ATTEMPT,
    .routes = {{"GET", "/attempts/{id}"}},
};

/* ---- stream ---- */

static const struct value stream_args[] = {
    TEXT("kinds",
         "`event`, `attempt` and `alert`, or some of them, with commas between "
         "them; absent: all",
         .min = 1, .max = 100),
    TEXT("workspace", "only what belongs to this workspace", .max = 1024),
    TEXT("endpoint", "only attempts at this endpoint, and alerts about it",
         .min = 1, .max = NAME_MAX_BYTES),
    TEXT("source",
         "only events from this source, their attempts, and alerts about it",
         .min = 1, .max = NAME_MAX_BYTES),
    INTEGER("seconds", "the stream ends after so many; absent: never", .min = 1,
            .max = 24 * 3600),
    {0}};
const struct command_spec command_stream = {
    .name = "stream",
    .process = "api",
    .help =
        "Server-sent events: events that the sequencer takes, attempts that "
        "end, and alerts that fire or are resolved, as they happen. "
        "`Last-Event-ID` resumes a stream.",
    .args = stream_args,
    .reply = ANY("reply", "server-sent events"),
    .role = ROLE_VIEWER,
    .tenant = TENANT_STREAM,
    .routes = {{"GET", "/stream"}},
    .media_type = "text/event-stream",
};

/* ---- audit ---- */

static const struct value audit_item = OBJECT("row", audit_row, "a row");
static const struct value audit_list_args[] = {
    ARGS_TIMES, ARG_LIMIT, ANY("before", "the `next` of the page before"), {0}};
static const struct value audit_list_fields[] = {
    LIST("audit", &audit_item, "the rows"), FIELD_NEXT, {0}};
const struct command_spec command_audit_list = {
    .name = "audit_list",
    .process = "api",
    .help = "Lists what was changed, on all processes, and by whom, newest "
            "first.",
    .args = audit_list_args,
    .reply = OBJECT("reply", audit_list_fields, ""),
    .role = ROLE_ADMIN,
    .routes = {{"GET", "/audit"}},
    .rows = "audit",
};

/* ---- audit_verify_all ---- */

static const struct value verify_all_args[] = {
    TEXT("head",
         "published hashes that must be in a chain, as PROCESS:ROW:HASH or "
         "the hash alone; several with commas",
         .min = 1, .max = 4000),
    {0}};
static const struct value verified_fields[] = {
    TEXT("process", "its name"),
    BOOL("ok", "whether it verified its chain and found nothing wrong"),
    BOOL("reached", "whether it responded"),
    TEXT("error",
         "why its chain is not verified; null: it is. Then there are "
         "further fields",
         .flags = VALUE_NULL),
    INTEGER("rows", "how many rows were verified", .flags = VALUE_ABSENT),
    AUDIT_PAGE_FIELDS(VALUE_ABSENT),
    LIST("restores", &audit_restore,
         "restores: hashes that were published before a restore may be of "
         "rows that it replaced",
         .flags = VALUE_ABSENT),
    LIST("findings", &audit_finding, "what is wrong", .flags = VALUE_ABSENT,
         .max = 1000),
    INTEGER("findings_more", "further findings", .flags = VALUE_ABSENT),
    {0}};
static const struct value verified = OBJECT("process", verified_fields, "");
static const struct value missing_head_fields[] = {
    TEXT("head", "the published hash"),
    TEXT("process", "its process; null: the hash was given alone",
         .flags = VALUE_NULL),
    TEXT("problem", "what that means, for people"),
    {0}};
static const struct value missing_head = OBJECT("hash", missing_head_fields,
                                                "");
static const struct value verify_all_fields[] = {
    BOOL("ok", "whether all chains are whole and have all of `head`"),
    LIST("processes", &verified, "one for each process"),
    LIST("missing_heads", &missing_head, "hashes of `head` that no row has",
         .max = 20),
    {0}};
const struct command_spec command_audit_verify_all = {
    .name = "audit_verify_all",
    .process = "api",
    .help = "Each process verifies the hash chain over its audit rows, in "
            "steps of 500 rows.",
    .args = verify_all_args,
    .reply = OBJECT("reply", verify_all_fields, ""),
    .role = ROLE_ADMIN,
    .routes = {{"GET", "/audit/verify"}},
};

/* ---- processes ---- */

static const struct value process_fields[] = {
    TEXT("process", "its name"),
    TEXT("kind", "its program: `ingress`, `outbox`, `reconcile`, `sequencer`, "
                 "`deliverer`, "
                 "`dlqd` or `console`"),
    TEXT("host",
         "its host and address, if it runs on another host than this console; "
         "null: it runs on this one",
         .flags = VALUE_NULL),
    BOOL("up", "whether it responds"),
    BOOL("ready", "whether it can do its work"),
    TEXT("state", "what it does, or what prevents it, in a few words"),
    TEXT("version", "its version of Grapnel; null: unknown",
         .flags = VALUE_NULL),
    INTEGER("pid", "its number in the operating system; null: unknown",
            .flags = VALUE_NULL),
    TIME("started_at", "when it started; null: unknown", .flags = VALUE_NULL),
    INTEGER("waiting",
            "messages that other processes do not have yet; null: unknown",
            .flags = VALUE_NULL),
    OBJECT("store", store_fields, "its database; null: unknown",
           .flags = VALUE_NULL),
    LIST("problems", &value_text, "what is wrong and what to do, in sentences"),
    {0}};
static const struct value process_value = OBJECT("process", process_fields, "");
static const struct value processes_fields[] = {
    LIST("processes", &process_value, "those of a kind together"), {0}};
const struct command_spec command_processes = {
    .name = "processes",
    .process = "api",
    .help = "Lists the processes with their state and database: each that has "
            "a socket in `run_dir`, and those that are needed and do not run.",
    .reply = OBJECT("reply", processes_fields, ""),
    .role = ROLE_VIEWER,
    .routes = {{"GET", "/processes"}},
    .rows = "processes",
};

static const struct value process_args[] = {
    TEXT("process", "its name, such as `deliverer-1`", .min = 1,
         .max = NAME_MAX_BYTES, .flags = VALUE_REQUIRED),
    {0}};
const struct command_spec command_process = {
    .name = "process",
    .process = "api",
    .help = "Shows one process: its database, its links, its metrics, and "
            "endpoints in trouble.",
    .args = process_args,
    .reply = OBJECT("reply", status_reply, ""),
    .role = ROLE_VIEWER,
    .routes = {{"GET", "/processes/{process}"}},
};

/* ---- replays ---- */

static const struct value job_item = OBJECT("job", job_fields, "a job");
static const struct value missing_fields[] = {
    TEXT("process", "its name"), TEXT("why", "the reason"), {0}};
static const struct value missing_item = OBJECT("missing", missing_fields, "");
static const struct value replays_fields[] = {
    LIST("jobs", &job_item, "one for each ingress"),
    LIST("missing", &missing_item,
         "processes that have an archive and made no job, as far as is known: "
         "their events are not sent. Repeat the request with the same "
         "Idempotency-Key when they run"),
    {0}};
const struct command_spec command_replays = {
    .name = "replays",
    .process = "api",
    .help = "Makes a job at each ingress that sends the archived events that "
            "match again, oldest first. The `result` of a job has how many "
            "were left out, by reason, and how many may turn out not to be "
            "subscribed to.",
    .args = replay_args,
    .reply = OBJECT("reply", replays_fields, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
    .routes = {{"POST", "/replays"}},
};

const struct command_spec *const api_commands[] = {&command_endpoint_test,
                                                   &command_stats_read,
                                                   &command_event_read,
                                                   &command_payload,
                                                   &command_evidence,
                                                   &command_attempt,
                                                   &command_stream,
                                                   &command_audit_list,
                                                   &command_audit_verify_all,
                                                   &command_processes,
                                                   &command_process,
                                                   &command_replays,
                                                   NULL};
