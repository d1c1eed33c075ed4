/* console_commands: what the console answers. */
#include "commands.h"
#include "tables.h"

/* ---- trace ---- */

static const struct value console_trace_args[] = {TEXT("id", ""), {0}};
const struct command_spec command_console_trace = {
    .name = "trace",
    .process = "console",
    .help = "An empty timeline, because no event passes through the console.",
    .args = console_trace_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- alerts ---- */

static const struct value alerts_args[] = {ARG_LIMIT, {0}};
const struct command_spec command_alerts = {
    .name = "alerts",
    .process = "console",
    .help = "Pending and firing alerts, then those that have ended.",
    .args = alerts_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- alerts_test ---- */

static const struct value alerts_test_args[] = {TEXT("name", ""), {0}};
const struct command_spec command_alerts_test = {
    .name = "alerts_test",
    .process = "console",
    .help = "Sends a test to its notifiers and replies with the results.",
    .args = alerts_test_args,
    .reply = ANY("reply", ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_LATER,
};

const struct command_spec *const console_commands[] = {
    &command_console_trace, &command_alerts, &command_alerts_test, NULL};
