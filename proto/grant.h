/* grant: the times of the lease, which both ends of a grant must agree on.
 * docs/ARCHITECTURE.md ("Work: grants") describes the protocol.
 *
 * A deliverer may begin attempts until `lease` after the *sending* of the last
 * heartbeat that was acknowledged, by its own CLOCK_BOOTTIME. The sequencer ends the
 * grants of a deliverer whose last response it sent longer ago than
 * grant_silence_ms(). LEASE_MS and MARGIN_MS are part of the protocol: change
 * them only when no two versions run side by side.
 *
 * An endpoint's timeout is at most LONGEST_ATTEMPT_MS (endpoint_settings.h). The sequencer
 * stores the longest attempt that its configurations allow, and counts with that.
 *
 * A `released` for a present grant that was not revoked: the deliverer gives its work
 * back by itself, because it stops (then it sends no more heartbeats) or because its
 * link was rewound. Give it no grant before its next heartbeat. A `released` for any
 * other grant is ignored. */
#ifndef PROTO_GRANT_H
#define PROTO_GRANT_H

#include "clock.h"
#include "rc.h"

enum {
    LEASE_MS = 5000,
    HEARTBEAT_MS = 1000, /* how often a deliverer sends one */
    MARGIN_MS = 1000,    /* for clock rates and a frame's transport */
};

/* LEASE_MS, or the value of GRAPNEL_TEST_LEASE_MS (at least 50; read once). */
int64_t grant_lease_ms(void);
/* HEARTBEAT_MS, shortened with the lease: a fifth of it. */
int64_t grant_heartbeat_ms(void);
/* MARGIN_MS, shortened with the lease: a fifth of it. */
int64_t grant_margin_ms(void);
/* This long after the last response to a deliverer, no attempt that it began under its
 * grants can still be in flight. */
int64_t grant_silence_ms(int64_t longest_attempt_ms);

#endif
