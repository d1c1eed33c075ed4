/* owner: which deliverer owns an endpoint, by rendezvous hashing: of all running deliverers the
 * one with the highest score. Pure; grants.c calls it.
 *
 * Each start has the same result, each deliverer gets its share, and when a deliverer starts
 * or stops only its own endpoints move. */
#ifndef SEQUENCER_OWNER_H
#define SEQUENCER_OWNER_H

#include <stdint.h>

/* Never change this function: an upgrade would move endpoints between deliverers. */
uint64_t owner_score(const char *endpoint, const char *deliverer);

#endif
