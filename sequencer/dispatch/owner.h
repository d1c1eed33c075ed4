/* owner: the deliverer that owns an endpoint, by rendezvous hashing: of all running
 * deliverers the one with the highest score. Pure.
 *
 * So each start has the same result, each deliverer gets its share, and when a deliverer
 * starts or stops only its own endpoints move. */
#ifndef SEQUENCER_OWNER_H
#define SEQUENCER_OWNER_H

#include <stdint.h>

/* Changing what this gives moves endpoints at every upgrade. */
uint64_t owner_score(const char *endpoint, const char *deliverer);

#endif
