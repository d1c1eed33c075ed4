/* trouble: an endpoint with a problem, as `grapnel status` shows it. The sequencer and
 * each deliverer list the ones they know in their status: `troubles`, and in
 * `troubles_more` the number of those not listed. */
#ifndef DAEMON_TROUBLE_H
#define DAEMON_TROUBLE_H

#include "json_text.h"

enum {
    TROUBLES_SHOWN = 100, /* by one process */
    TROUBLE_BYTES = 160,  /* of `why` */
};

/* `state`: held, disabled, paused or failing; `since_ms` is wall time. Caller owns. */
static inline json_t *trouble_json(const char *endpoint, const char *state,
                                   int64_t since_ms, const char *why)
{
    return json_pack("{s:o,s:s,s:o,s:o}", "endpoint", json_text_of(endpoint),
                     "state", state, "since", json_time(since_ms), "reason",
                     json_text_or_null(why));
}

#endif
