/* grants: decides which deliverer owns which endpoint, and gives and ends grants. */
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
/* After a start or a reload: each endpoint gets its settings. An endpoint whose
 * configuration changed is revoked and gets a new grant that carries the new one. Rows
 * only; the rest is the turn's. */
void grants_configure(struct sequencer *q, const struct settings *s);
/* The settings are about to change: nothing points at them until then. */
void grants_forget_settings(struct sequencer *q);
/* Once a turn. Returns how long it may sleep (ms). */
int grants_work(struct sequencer *q);

void grants_released(struct sequencer *q, const char *from, uint64_t grant);
void grants_set_back(struct sequencer *q, const char *peer, bool we_are_older);
/* The database is a copy: in the transaction that says so. */
void grants_restored(struct sequencer *q);
/* End all grants of this deliverer: its database is lost, or it is silent. */
void grants_end_all(struct sequencer *q, struct deliverer_peer *d,
                    const char *why);
/* NULL: `grant` is no present one of this deliverer. */
struct endpoint *grants_endpoint_under(struct sequencer *q, uint64_t grant,
                                       const struct deliverer_peer *d);

#endif
