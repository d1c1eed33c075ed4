/* home: which deliverer an endpoint belongs to, by rendezvous hashing: of those that
 * are here the one with the highest score. Pure.
 *
 * So every start comes to the same, each deliverer gets its share, and when one
 * comes or goes only the endpoints move that are, or were, its own. */
#ifndef SEQUENCER_HOME_H
#define SEQUENCER_HOME_H

#include <stdint.h>

/* Changing what this gives moves endpoints at every upgrade. */
uint64_t home_score(const char *endpoint, const char *deliverer);

#endif
