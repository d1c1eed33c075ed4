/* grants: decides which deliverer owns which endpoint, and gives and ends grants.
 *
 * A grant is a row's column before its first task is sent, so a crash never leaves a
 * deliverer with a grant that is unknown here. Calls that write rows are inside the turn's
 * transaction. */
#ifndef SEQUENCER_GRANTS_H
#define SEQUENCER_GRANTS_H

#include "rc.h"

struct sequencer;
struct settings;
struct deliverer_peer;
struct endpoint;

void grants_open(struct sequencer *q);
void grants_close(struct sequencer *q);
/* After a rolled back turn. */
void grants_undo(struct sequencer *q);
/* After a start or a reload: give each endpoint its settings. The grant of an endpoint whose
 * configuration changed is to be revoked; the next grant carries the new one. */
void grants_configure(struct sequencer *q, const struct settings *s);
/* e->encoded_config, of e->settings. */
void grants_encode_config(struct sequencer *q, struct endpoint *e);
/* Whether its deliverer has another configuration than that. */
bool grants_config_differs(const struct sequencer *q, const struct endpoint *e);
/* From now on an attempt may take this long (ms). */
void grants_allow_longer(struct sequencer *q, int64_t longest_ms);
/* The settings are about to be replaced: drop all pointers to them. */
void grants_forget_settings(struct sequencer *q);
/* Once a turn. Returns how long it may sleep (ms). */
int grants_work(struct sequencer *q);

/* A deliverer has released this grant: nothing is in flight under it any more. */
void grants_released(struct sequencer *q, const char *from, uint64_t grant);
/* The link to this peer was set back by a restored copy: revoke its grants. */
void grants_rewound(struct sequencer *q, const char *peer, bool we_are_older);
/* This database is an older copy. In the transaction that notes this. */
void grants_restored(struct sequencer *q);
/* End all grants of this deliverer. `reason`, a word for the log: new_database (it has lost the
 * tasks of its grants), or no_heartbeat (for longer than lease, longest attempt and margin). */
void grants_end_all(struct sequencer *q, struct deliverer_peer *d,
                    const char *reason);
/* NULL: this deliverer does not own an endpoint under `grant`. */
struct endpoint *grants_endpoint_under(struct sequencer *q, uint64_t grant,
                                       const struct deliverer_peer *d);

#endif
