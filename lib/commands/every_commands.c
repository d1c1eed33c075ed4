/* every_commands: what every process answers. */
#include "commands.h"
#include "tables.h"

/* ---- ping ---- */

const struct command_spec command_ping = {
    .name = "ping",
    .process = "every",
    .help = "Whether the process responds.",
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- status ---- */

const struct command_spec command_status = {
    .name = "status",
    .process = "every",
    .help = "The state of this process.",
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- health ---- */

const struct command_spec command_health = {
    .name = "health",
    .process = "every",
    .help = "Whether it is ready, in one line.",
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- names ---- */

const struct command_spec command_names = {
    .name = "names",
    .process = "every",
    .help = "Names of endpoints, sources, policies, alerts and notifiers.",
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- check ---- */

const struct command_spec command_check = {
    .name = "check",
    .process = "every",
    .help = "The changes that a reload would make.",
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- reload ---- */

const struct command_spec command_reload = {
    .name = "reload",
    .process = "every",
    .help = "Read the configuration again.",
    .reply = ANY("reply", ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE | COMMAND_MEMORY,
};

/* ---- backup ---- */

static const struct value backup_args[] = {TEXT("path", ""), {0}};
const struct command_spec command_backup = {
    .name = "backup",
    .process = "every",
    .help = "Copy the database to a new file.",
    .args = backup_args,
    .reply = ANY("reply", ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_LATER,
};

/* ---- verify ---- */

const struct command_spec command_verify = {
    .name = "verify",
    .process = "every",
    .help = "Check the database for damage.",
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_LATER,
};

const struct command_spec *const every_commands[] = {
    &command_ping,   &command_status,
    &command_health, &command_names,
    &command_check,  &command_reload,
    &command_backup, &command_verify,
    &command_audit,  NULL};
