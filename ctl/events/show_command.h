/* show_command: reads a stored request with its body. For `show` and `rejects show`. */
#ifndef CTL_SHOW_COMMAND_H
#define CTL_SHOW_COMMAND_H

#include "ctl.h"

/* Asks for a request (`what`: request or reject), again and again until the body is complete,
 * because a reply has only a piece of it. Returns the first reply with the whole "body", or
 * "body_b64" if it is not UTF-8; `raw` gets its bytes, the caller's. NULL: *unreachable and
 * `why` as ask() sets them; `raw` is the caller's, too. */
json_t *show_fetch(struct ctl *c, const char *process, const char *what,
                   json_t *args, struct buf *raw, bool *unreachable,
                   char why[200]);

#endif
