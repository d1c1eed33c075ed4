/* take: what comes over the hop, and where it goes. */
#ifndef DELIVERER_TAKE_H
#define DELIVERER_TAKE_H

#include "rc.h"

/* The hop's apply (hop.h). */
gr_rc take_message(void *self, const char *from, uint64_t n, struct bytes msg);
/* The hop's set_back. */
void take_set_back(void *self, const char *peer, bool we_are_older);

#endif
