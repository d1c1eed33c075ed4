/* types: what the commands about the catalogue of event types share. For this folder. */
#ifndef CTL_TYPES_H
#define CTL_TYPES_H

#include "ctl.h"

/* The type as the sequencer has it; the caller's. NULL: *unreachable, or there is none; `why`. */
json_t *types_read(struct ctl *c, const char *name, bool *unreachable,
                   char why[200]);
/* Adds the type, or changes it if `was` is not NULL and still has that version. `contents` are
 * the values to set. The reply, the caller's; NULL as ask() says, `why` without "args.". */
json_t *types_put(struct ctl *c, const char *name, const json_t *was,
                  const json_t *contents, bool *unreachable, char why[200]);

#endif
