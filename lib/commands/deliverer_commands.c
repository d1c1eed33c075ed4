/* deliverer_commands: what the deliverer answers. */
#include "commands.h"
#include "tables.h"

/* ---- trace ---- */

static const struct value attempts_args[] = {TEXT("id", ""), {0}};
const struct command_spec command_attempts = {
    .name = "trace",
    .process = "deliverer",
    .help = "Attempts of an event here, and its waiting deliveries.",
    .args = attempts_args,
    .reply = ANY("reply", ""),
    .role = ROLE_VIEWER,
};

/* ---- test ---- */

static const struct value test_args[] = {TEXT("config", ""), {0}};
const struct command_spec command_test = {
    .name = "test",
    .process = "deliverer",
    .help = "Sends a test event with this configuration; replies with request "
            "and response.",
    .args = test_args,
    .reply = ANY("reply", ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_LATER,
};

const struct command_spec *const deliverer_commands[] = {&command_attempts,
                                                         &command_test, NULL};
