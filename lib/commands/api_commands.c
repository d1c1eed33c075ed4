/* api_commands: what only the HTTP API has: the console combines replies of several processes,
 * or reads a body in pieces. */
#include "commands.h"
#include "tables.h"

const struct command_spec *const api_commands[] = {NULL};
