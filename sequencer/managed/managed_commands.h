/* managed_commands: the control commands that make, change and delete endpoints at run time.
 *
 * Each takes effect in its own transaction, and its reply is sent after the commit. A crash
 * before that leaves the endpoint as it was. */
#ifndef SEQUENCER_MANAGED_COMMANDS_H
#define SEQUENCER_MANAGED_COMMANDS_H

#include "control.h"

struct sequencer;
struct endpoint;

json_t *managed_create_command(void *self, json_t *args, char why[200]);
json_t *managed_change_command(void *self, json_t *args, char why[200]);
json_t *managed_rotate_command(void *self, json_t *args, char why[200]);
json_t *managed_delete_command(void *self, json_t *args, char why[200]);
json_t *temporary_create_command(void *self, json_t *args, char why[200]);
json_t *temporary_delete_command(void *self, json_t *args, char why[200]);
/* The settings with secrets, for a program on the same machine. */
json_t *managed_secrets_command(void *self, json_t *args, char why[200]);

/* Adds what an endpoint is to the reply that says how it does: `managed_by`, `version`,
 * `settings` (secrets masked) … */
void managed_describe(struct sequencer *q, const struct endpoint *e,
                      json_t *out);

#endif
