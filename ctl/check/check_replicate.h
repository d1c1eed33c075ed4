/* check_replicate: what `grapnel check` finds in the replication database. */
#ifndef CTL_CHECK_REPLICATE_H
#define CTL_CHECK_REPLICATE_H

#include "settings.h"
#include "string_list.h"

/* Connects to `replicate.database`, and adds a line for each finding: an error, if no process of this configuration could work. A database that does not respond
 * is a warning, after some seconds. Without `replicate` it does nothing. */
void check_replicate(const struct settings *s, struct string_list *errors,
                     struct string_list *warnings);

#endif
