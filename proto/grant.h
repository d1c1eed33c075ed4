/* grant: the times of the lease, which both ends of a grant must agree on.
 * docs/ARCHITECTURE.md ("Work: grants") tells the protocol.
 *
 * A deliverer may begin attempts until `lease` after the *sending* of the last
 * beat that was answered, by its own CLOCK_BOOTTIME. The sequencer ends the
 * grants of a deliverer whose last answer it sent longer ago than
 * grant_silence_ms(). Both constants are part of the protocol: change them only
 * when no two versions run side by side.
 *
 * An endpoint's timeout may be at most LONGEST_ATTEMPT_MS, and the deliverer
 * cuts a longer one to that; the sequencer may count with the longest timeout
 * that it has ever sent to that deliverer in this start, or simply with
 * LONGEST_ATTEMPT_MS.
 *
 * A `drained` for a present grant that nobody recalled: the deliverer gives its
 * work back by itself, because it stops (from then on it does not beat) or
 * because its link was set back. Count it as gone until its next beat, and give
 * it nothing before. A `drained` for any other grant says nothing. */
#ifndef PROTO_GRANT_H
#define PROTO_GRANT_H

#include "clock.h"
#include "rc.h"

enum {
    LEASE_MS = 5000,
    BEAT_MS = 1000,   /* the deliverer says that it is there */
    MARGIN_MS = 1000, /* clocks' rates, and the way of a frame */
    LONGEST_ATTEMPT_MS = 300000,
};

/* LEASE_MS, or what GRAPNEL_TEST_LEASE_MS says (at least 50; read once). */
int64_t grant_lease_ms(void);
/* BEAT_MS, shortened with the lease: a fifth of it. */
int64_t grant_beat_ms(void);
/* MARGIN_MS, shortened with the lease: a fifth of it. */
int64_t grant_margin_ms(void);
/* So long after the last answer nothing that was begun under its grants can
 * still be in flight at a deliverer. */
int64_t grant_silence_ms(int64_t longest_attempt_ms);

#endif
