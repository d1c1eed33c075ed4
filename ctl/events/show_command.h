/* show_command: reads a stored request with its body. For `show` and `rejects show`. */
#ifndef CTL_SHOW_COMMAND_H
#define CTL_SHOW_COMMAND_H

#include "ask.h"
#include "bounds.h"
#include "ctl.h"

/* Asks for a request (`what` of the question: request or reject), again and again until the body is
 * complete, because a reply has only a piece of it. Returns the first reply with the whole "body", or
 * "body_b64" if it is not UTF-8; `raw` gets its bytes, the caller's. NULL: the question says why, as
 * after ask_all(); `raw` is the caller's, too. The question's `args` stay the caller's. */
json_t *show_fetch(struct ctl *c, struct question *q, struct buf *raw);

/* Why no process gave the request of an event: the first that could not be reached, and the first that
 * refused for another reason than that it does not have it; "": none. Both empty: nobody has it. */
struct show_absence {
    char away[NAME_MAX_BYTES + 1], away_why[200];
    char failed[NAME_MAX_BYTES + 1], failed_why[200];
};
/* The request of an event, from the process of these that has it, or the sequencer if Grapnel
 * made the event itself. `event`: the sequencer's reply to `trace`, or NULL. `as_sent` NULL: as it
 * came; an event's id: as endpoints get this event, which differs for producers. `raw` gets the bytes
 * of the body, the caller's. NULL: `absence` says why, and nothing was printed. */
json_t *show_request_find(struct ctl *c, const struct processes *p,
                          const json_t *event, const char *id,
                          const char *as_sent, struct buf *raw,
                          struct show_absence *absence);

#endif
