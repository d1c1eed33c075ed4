/* sequencer_commands: what the sequencer answers. */
#include "commands.h"
#include "tables.h"

/* ---- trace ---- */

static const struct value event_args[] = {TEXT("id", ""), {0}};
const struct command_spec command_event = {
    .name = "trace",
    .process = "sequencer",
    .help = "One event: what it is and how its deliveries stand.",
    .args = event_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- events ---- */

static const struct value events_args[] = {
    PATTERN("source", "from this source"),
    PATTERN("type", "of this type"),
    PATTERN("workspace", "of this workspace"),
    PATTERN("endpoint", "of this endpoint"),
    TEXT("status", ""),
    TEXT("id", ""),
    ARGS_TIMES,
    ARG_LIMIT,
    ANY("before", "the `next` of the page before"),
    {0}};
const struct command_spec command_events = {
    .name = "events",
    .process = "sequencer",
    .routes = {{"GET", "/events"}},
    .rows = "events",
    .help = "Newest first (id: the provider's, of the event or its delivery): "
            "{\"events\":[…],\"next\":…}; go on with \"before\": next until "
            "that is null.",
    .args = events_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- deliveries ---- */

static const struct value deliveries_args[] = {
    PATTERN("workspace", "of this workspace"),
    PATTERN("source", "from this source"),
    PATTERN("type", "of this type"),
    PATTERN("endpoint", "of this endpoint"),
    TEXT("status", ""),
    ARGS_TIMES,
    ARG_LIMIT,
    ANY("before", "the `next` of the page before"),
    {0}};
const struct command_spec command_deliveries = {
    .name = "deliveries",
    .process = "sequencer",
    .help = "Newest first: {\"deliveries\":[…],\"next\":…}; go on with "
            "\"before\": next until that is null.",
    .args = deliveries_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- endpoints ---- */

static const struct value endpoints_args[] = {TEXT("name", ""), {0}};
const struct command_spec command_endpoints = {
    .name = "endpoints",
    .process = "sequencer",
    .help = "State, owner, deliveries assigned, waiting and scheduled for a "
            "retry; all without a name.",
    .args = endpoints_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- endpoint_pause ---- */

static const struct value endpoint_pause_args[] = {
    TEXT("name", ""), ARG_WHO, {0}};
const struct command_spec command_endpoint_pause = {
    .name = "endpoint_pause",
    .process = "sequencer",
    .help = "Try nothing until it is resumed.",
    .args = endpoint_pause_args,
    .reply = ANY("reply", ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
};

/* ---- endpoint_resume ---- */

static const struct value endpoint_resume_args[] = {
    TEXT("name", ""), ARG_WHO, {0}};
const struct command_spec command_endpoint_resume = {
    .name = "endpoint_resume",
    .process = "sequencer",
    .help = "Of one that is paused or disabled.",
    .args = endpoint_resume_args,
    .reply = ANY("reply", ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
};

/* ---- retry ---- */

static const struct value retry_args[] = {
    TEXT("event", ""), TEXT("endpoint", "of this endpoint"), ARG_WHO, {0}};
const struct command_spec command_retry = {
    .name = "retry",
    .process = "sequencer",
    .help = "Try open deliveries of an event now, their budgets unchanged: "
            "{\"id\",\"deliveries\":[{\"endpoint\",\"status\",\"accepted\","
            "\"result\",\"why\",\"attempts\",\"deliverer\"}]}.",
    .args = retry_args,
    .reply = ANY("reply", ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
};

/* ---- abandon ---- */

static const struct value abandon_args[] = {
    TEXT("event", ""),
    TEXT("endpoint", "of this endpoint"),
    TEXT("note", ""),
    ARG_WHO,
    {0}};
const struct command_spec command_abandon = {
    .name = "abandon",
    .process = "sequencer",
    .help =
        "Give an open delivery up: a dead letter with the reason abandoned.",
    .args = abandon_args,
    .reply = ANY("reply", ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
};

/* ---- facts ---- */

static const struct value facts_args[] = {
    LIST("ids", &value_id, "", .min = 1, .max = 1000),
    TEXT("endpoint", "of this endpoint"),
    {0}};
const struct command_spec command_facts = {
    .name = "facts",
    .process = "sequencer",
    .help = "Status, source, type, workspace and parts of each of these "
            "events, the reasons of its dead deliveries, and whether the "
            "endpoint is subscribed to it.",
    .args = facts_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- release ---- */

static const struct value release_args[] = {TEXT("event", ""), ARG_WHO, {0}};
const struct command_spec command_release = {
    .name = "release",
    .process = "sequencer",
    .help = "Release a suppressed duplicate.",
    .args = release_args,
    .reply = ANY("reply", ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
};

/* ---- gaps ---- */

static const struct value gaps_args[] = {
    BOOL("open", ""),
    TEXT("source", "from this source"),
    TEXT("workspace", "of this workspace"),
    ARGS_TIMES,
    ARG_LIMIT,
    ANY("before", "the `next` of the page before"),
    {0}};
const struct command_spec command_gaps = {
    .name = "gaps",
    .process = "sequencer",
    .help = "Numbers that are or were missing, newest first: "
            "{\"gaps\":[…],\"next\":…}; go on with \"before\": next until that "
            "is null.",
    .args = gaps_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- close_gap ---- */

static const struct value close_gap_args[] = {
    TEXT("id", ""), TEXT("note", ""), ARG_WHO, {0}};
const struct command_spec command_close_gap = {
    .name = "close_gap",
    .process = "sequencer",
    .help = "Wait no longer for what is missing.",
    .args = close_gap_args,
    .reply = ANY("reply", ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
};

/* ---- workspaces ---- */

static const struct value workspaces_args[] = {
    TEXT("workspace", "of this workspace"), ARG_LIMIT, {0}};
const struct command_spec command_workspaces = {
    .name = "workspaces",
    .process = "sequencer",
    .help = "Numbers, open gaps, what is buffered.",
    .args = workspaces_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

const struct command_spec *const sequencer_commands[] = {
    &command_event,          &command_events,
    &command_deliveries,     &command_endpoints,
    &command_endpoint_pause, &command_endpoint_resume,
    &command_retry,          &command_abandon,
    &command_facts,          &command_release,
    &command_gaps,           &command_close_gap,
    &command_workspaces,     NULL};
