/* hops: how many times an event and those that caused it have passed through Grapnel, in the
 * header `grapnel-hops`, so that a loop ends: an endpoint may send what it gets back to an
 * ingress. Each delivery has one hop more than the request that brought its event; ingress
 * refuses a request with more than HOPS_MAX. Pure. */
#ifndef WEBHOOK_HOPS_H
#define WEBHOOK_HOPS_H

#include "alloc.h"

#define HOPS_HEADER "grapnel-hops"
enum { HOPS_MAX = 3 };

/* The hops that packed headers (headers.h) name: the largest number if there are several
 * headers, 0 without any. A value that is not a number from 0 to HOPS_MAX counts as
 * HOPS_MAX + 1: Grapnel does not send such a value. */
int hops_of(struct bytes headers);
/* Adds the header. */
void hops_put(struct buf *headers, int hops);

#endif
