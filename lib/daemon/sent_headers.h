/* sent_headers: the values of the headers of a sent request that the deliverer does not store, because
 * they are those of the event or of the request that brought it. Pure. For `grapnel show` and
 * evidence. */
#ifndef DAEMON_SENT_HEADERS_H
#define DAEMON_SENT_HEADERS_H

#include <jansson.h>

/* Fills in the null values in attempt["request"]["headers"]. `event`: the sequencer's reply, or NULL;
 * `request`: the stored request, or NULL. A value that no process stores any more stays null. */
void sent_headers_fill(json_t *attempt, const json_t *event,
                       const json_t *request);

#endif
