/* ingress_commands: what the ingress answers. */
#include "commands.h"
#include "tables.h"

/* ---- find ---- */

static const struct value find_args[] = {TEXT("id", ""), {0}};
const struct command_spec command_find = {
    .name = "find",
    .process = "ingress",
    .help = "The newest requests that have this provider id as a header's "
            "value or as a string in the body: {\"events\":[[id, received_ms, "
            "source, received_at]…],\"looked_at\":…,\"back_to\":…}.",
    .args = find_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- trace ---- */

static const struct value request_trace_args[] = {
    TEXT("id", ""), TEXT("event", ""), {0}};
const struct command_spec command_request_trace = {
    .name = "trace",
    .process = "ingress",
    .help = "The archived request of an event, and how often the event was "
            "sent again.",
    .args = request_trace_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- request ---- */

static const struct value request_args[] = {TEXT("id", ""),
                                            TEXT("event", ""),
                                            INTEGER("offset", ""),
                                            TEXT("as_sent", ""),
                                            {0}};
const struct command_spec command_request = {
    .name = "request",
    .process = "ingress",
    .help = "An archived request: with offset 0 its headers, and body_b64, the "
            "piece of its body_bytes at offset (event: the body of this event "
            "in a request of several; as_sent: of a producer's request, the "
            "body that endpoints get for the event with this id).",
    .args = request_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- reject ---- */

static const struct value reject_args[] = {
    TEXT("id", ""), INTEGER("offset", ""), {0}};
const struct command_spec command_reject = {
    .name = "reject",
    .process = "ingress",
    .help = "A refused request, in the same form.",
    .args = reject_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- rejects ---- */

static const struct value rejects_args[] = {TEXT("source", "from this source"),
                                            TEXT("id", ""),
                                            ARGS_TIMES,
                                            ARG_LIMIT,
                                            {0}};
const struct command_spec command_rejects = {
    .name = "rejects",
    .process = "ingress",
    .help = "Refused requests, newest first (id: the provider's delivery id, "
            "if a header has it).",
    .args = rejects_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- archive ---- */

static const struct value archive_args[] = {
    ARGS_TIMES,          TEXT("source", "from this source"),
    ARG_LIMIT,           ANY("after", "the `next` of the page before"),
    BOOL("waiting", ""), {0}};
const struct command_spec command_archive = {
    .name = "archive",
    .process = "ingress",
    .help = "Archived events, oldest first (waiting: only events that the "
            "sequencer has not acknowledged): {\"events\":[[id, received_ms, "
            "source, received_at]…],\"next\":…}; continue with \"after\": next "
            "until that is null.",
    .args = archive_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- resend ---- */

static const struct value resend_args[] = {ANY("events", ""),
                                           TEXT("endpoint", "of this endpoint"),
                                           BOOL("always", ""),
                                           BOOL("new_id", ""),
                                           ARG_WHO,
                                           {0}};
const struct command_spec command_resend = {
    .name = "resend",
    .process = "ingress",
    .help = "Send these events again ({\"id\"}, or {\"id\",\"request\"} for "
            "one of a request of several): "
            "{\"resent\":[{\"id\",\"new_id\"}…],\"missing\":[id…]}.",
    .args = resend_args,
    .reply = ANY("reply", ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
};

const struct command_spec *const ingress_commands[] = {
    &command_find,    &command_request_trace, &command_request, &command_reject,
    &command_rejects, &command_archive,       &command_resend,  NULL};
