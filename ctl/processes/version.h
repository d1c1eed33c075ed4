/* version: finds processes that run another version than this command. For all commands. */
#ifndef CTL_VERSION_H
#define CTL_VERSION_H

#include "ctl.h"

/* Whether a process of `rows` ({"process", "version"}; one without a version is skipped) has
 * another version than this command. */
bool version_is_mixed(const json_t *rows);
/* Print these processes, and what to do; prints nothing if all have the same version. */
void version_print_mixed(struct ctl *c, const json_t *rows);

#endif
