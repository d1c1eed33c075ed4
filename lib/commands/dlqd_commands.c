/* dlqd_commands: what the dlqd answers. */
#include "commands.h"
#include "tables.h"

/* ---- dlq ---- */

static const struct value dlq_args[] = {
    TEXT("state", ""),
    PATTERN("endpoint", "of this endpoint"),
    PATTERN("workspace", "of this workspace"),
    PATTERN("type", "of this type"),
    PATTERN("reason", "with this reason"),
    PATTERN("source", "from this source"),
    ARGS_TIMES,
    ARG_LIMIT,
    ANY("before", "the `next` of the page before"),
    {0}};
const struct command_spec command_dlq = {
    .name = "dlq",
    .process = "dlqd",
    .help = "Dead letters, newest first: {\"dead_letters\":[…],\"next\":…}; "
            "pass next as before until it is null.",
    .args = dlq_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- dlq_show ---- */

static const struct value dlq_show_args[] = {TEXT("id", ""), {0}};
const struct command_spec command_dlq_show = {
    .name = "dlq_show",
    .process = "dlqd",
    .help = "One dead letter with headers, body and history.",
    .args = dlq_show_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- dlq_retry ---- */

static const struct value dlq_retry_args[] = {
    LIST("ids", &value_id, "", .min = 1, .max = 1000),
    TEXT("to", ""),
    ARG_WHO,
    {0}};
const struct command_spec command_dlq_retry = {
    .name = "dlq_retry",
    .process = "dlqd",
    .help = "Requeues dead letters: "
            "{\"requeued\":[id…],\"refused\":[{\"id\",\"why\"}]}.",
    .args = dlq_retry_args,
    .reply = ANY("reply", ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
};

/* ---- dlq_retry_all ---- */

static const struct value dlq_retry_all_args[] = {
    PATTERN("endpoint", "of this endpoint"),
    PATTERN("workspace", "of this workspace"),
    PATTERN("type", "of this type"),
    PATTERN("reason", "with this reason"),
    PATTERN("source", "from this source"),
    ARGS_TIMES,
    ARG_LIMIT,
    ANY("after", "the `next` of the page before"),
    TEXT("to", ""),
    ARG_WHO,
    {0}};
const struct command_spec command_dlq_retry_all = {
    .name = "dlq_retry_all",
    .process = "dlqd",
    .help = "Requeues the oldest matching dead letters: "
            "{\"requeued\":[id…],\"refused\":[{\"id\",\"why\"}],\"next\":…}; "
            "pass next as after until it is null.",
    .args = dlq_retry_all_args,
    .reply = ANY("reply", ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
};

/* ---- dlq_resolve_all ---- */

static const struct value dlq_resolve_all_args[] = {
    PATTERN("endpoint", "of this endpoint"),
    PATTERN("workspace", "of this workspace"),
    PATTERN("type", "of this type"),
    PATTERN("reason", "with this reason"),
    PATTERN("source", "from this source"),
    ARGS_TIMES,
    ARG_LIMIT,
    ANY("after", "the `next` of the page before"),
    TEXT("note", ""),
    ARG_WHO,
    {0}};
const struct command_spec command_dlq_resolve_all = {
    .name = "dlq_resolve_all",
    .process = "dlqd",
    .help = "Resolves the oldest matching dead letters: "
            "{\"resolved\":[id…],\"refused\":[],\"next\":…}; pass next as "
            "after until it is null.",
    .args = dlq_resolve_all_args,
    .reply = ANY("reply", ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
};

/* ---- dlq_discard_all ---- */

static const struct value dlq_discard_all_args[] = {
    PATTERN("endpoint", "of this endpoint"),
    PATTERN("workspace", "of this workspace"),
    PATTERN("type", "of this type"),
    PATTERN("reason", "with this reason"),
    PATTERN("source", "from this source"),
    ARGS_TIMES,
    ARG_LIMIT,
    ANY("after", "the `next` of the page before"),
    TEXT("note", ""),
    ARG_WHO,
    {0}};
const struct command_spec command_dlq_discard_all = {
    .name = "dlq_discard_all",
    .process = "dlqd",
    .help = "Discards the oldest matching dead letters: "
            "{\"discarded\":[id…],\"refused\":[],\"next\":…}; pass next as "
            "after until it is null.",
    .args = dlq_discard_all_args,
    .reply = ANY("reply", ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
};

/* ---- dlq_count ---- */

static const struct value dlq_count_args[] = {
    PATTERN("endpoint", "of this endpoint"),
    PATTERN("workspace", "of this workspace"),
    PATTERN("type", "of this type"),
    PATTERN("reason", "with this reason"),
    PATTERN("source", "from this source"),
    ARGS_TIMES,
    ARG_LIMIT,
    ANY("after", "the `next` of the page before"),
    TEXT("to", ""),
    TEXT("note", ""),
    ARG_WHO,
    {0}};
const struct command_spec command_dlq_count = {
    .name = "dlq_count",
    .process = "dlqd",
    .help = "Counts matching dead letters, page by page: {\"count\",\"next\"}.",
    .args = dlq_count_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- dlq_stats ---- */

const struct command_spec command_dlq_stats = {
    .name = "dlq_stats",
    .process = "dlqd",
    .help = "The number of dead letters by state; of those in state dead, by "
            "endpoint, reason and fault.",
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- dlq_resolve ---- */

static const struct value dlq_resolve_args[] = {
    TEXT("id", ""), TEXT("note", ""), ARG_WHO, {0}};
const struct command_spec command_dlq_resolve = {
    .name = "dlq_resolve",
    .process = "dlqd",
    .help = "Resolves a dead letter that was handled in another way: the dead "
            "letter.",
    .args = dlq_resolve_args,
    .reply = ANY("reply", ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
};

/* ---- dlq_discard ---- */

static const struct value dlq_discard_args[] = {
    TEXT("id", ""), TEXT("note", ""), ARG_WHO, {0}};
const struct command_spec command_dlq_discard = {
    .name = "dlq_discard",
    .process = "dlqd",
    .help = "Discards a dead letter that is not needed: the dead letter.",
    .args = dlq_discard_args,
    .reply = ANY("reply", ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
};

/* ---- dlq_new_dead_letters ---- */

static const struct value dlq_new_dead_letters_args[] = {
    ANY("after", "the `next` of the page before"),
    TIME_MS("since_ms", "from this time on"),
    ARG_LIMIT,
    {0}};
const struct command_spec command_dlq_new_dead_letters = {
    .name = "dlq_new_dead_letters",
    .process = "dlqd",
    .help = "One entry for each time that a delivery became a dead letter, "
            "oldest first; pass next as after.",
    .args = dlq_new_dead_letters_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- trace ---- */

static const struct value dead_letter_trace_args[] = {TEXT("id", ""), {0}};
const struct command_spec command_dead_letter_trace = {
    .name = "trace",
    .process = "dlqd",
    .help = "The history of an event's dead letters.",
    .args = dead_letter_trace_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

const struct command_spec *const dlqd_commands[] = {
    &command_dlq,
    &command_dlq_show,
    &command_dlq_retry,
    &command_dlq_retry_all,
    &command_dlq_resolve_all,
    &command_dlq_discard_all,
    &command_dlq_count,
    &command_dlq_stats,
    &command_dlq_resolve,
    &command_dlq_discard,
    &command_dlq_new_dead_letters,
    &command_dead_letter_trace,
    NULL};
