/* managed: what the commands about endpoints made at run time share. For this folder; what holds
 * secrets is wiped. */
#ifndef CTL_MANAGED_H
#define CTL_MANAGED_H

#include "ctl.h"

/* The JSON of a file, "-" for standard input; the caller's. NULL: the error was printed. */
json_t *managed_read_json(const char *path, size_t max);
/* The first key that an endpoint has but that is not a setting; NULL: there is none. */
const char *managed_not_setting(const json_t *settings);
/* Asks the sequencer as ask() does; wipes `args` and takes it over. `why` names an argument
 * without "args.". */
json_t *managed_ask(struct ctl *c, const char *what, json_t *args,
                    bool *unreachable, char why[200]);
/* Prints "ID SECRET", or "ID" if the reply has no secret. Returns whether it has one. */
bool managed_print_made(const json_t *reply);

#endif
