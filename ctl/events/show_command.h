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
/* The request of an event, from the ingress process that has it, or the sequencer if Grapnel
 * made the event itself. `event`: the sequencer's reply to `trace`, or NULL. `as_sent` NULL: as it
 * came; an event's id: as endpoints get this event, which differs for producers. `raw` gets the bytes
 * of the body, the caller's. NULL: the reason was printed, and *code is the exit code. */
json_t *show_request_of(struct ctl *c, const json_t *event, const char *id,
                        const char *as_sent, struct buf *raw, int *code);

#endif
