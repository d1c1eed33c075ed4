/* ulid: ids that are made from time and sort by it: 48 bits of milliseconds and 80 random
 * bits, as 26 letters of Crockford's base 32 (upper case, so that sorting the text sorts the
 * ids).
 *
 * The ids of one maker always ascend: within one millisecond, or after the clock went
 * backwards, the next id is the last one plus 1. So an index over them grows at its end. */
#ifndef BASE_ULID_H
#define BASE_ULID_H

#include "rc.h"

enum { ULID_BYTES = 26 };

struct ulid {
    uint64_t ms;        /* of the last id, 48 bits */
    uint8_t random[10]; /* of the last id */
};

/* Writes the next id, ended with 0. `now_ms` is the wall clock. */
void ulid_next(struct ulid *u, int64_t now_ms, char out[ULID_BYTES + 1]);
/* Continues after an id that was made before (the last one on disk). GR_REFUSE: it is not
 * an id; `u` is unchanged. */
GR_MUST_CHECK gr_rc ulid_resume(struct ulid *u, const char *text);
/* Whether the text is 26 letters of the alphabet. */
bool ulid_valid(const char *text);
/* Whether it may be one of Grapnel's own ids of events: "evt_" and 26 letters. Ids of Stripe begin so, too, but are shorter. */
bool ulid_is_of_event(const char *text);

#endif
