/* store_inside: what the files of store share, and nobody else sees. */
#ifndef DLQD_STORE_INSIDE_H
#define DLQD_STORE_INSIDE_H

#include "store.h"

void store_prepare_outgoing(struct store *s);

#endif
