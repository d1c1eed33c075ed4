/* split: splits a request that carries several events. Pure.
 *
 * Its body is a JSON list; each element is the body of one event, byte for byte as it was
 * sent. */
#ifndef ROUTING_SPLIT_H
#define ROUTING_SPLIT_H

#include "bounds.h"
#include "rc.h"

enum { PARTS_MAX_COUNT = 10000 };

struct split {
    struct bytes *parts; /* into the body; the array is owned */
    size_t count;        /* 0: the body is not a list, but one event */
};

/* GR_REFUSE: it cannot be split, and `why` (a static sentence) says why. Call split_fini()
 * in either case. */
GR_MUST_CHECK gr_rc split_body(struct bytes body, struct split *s,
                               const char **why);
void split_fini(struct split *s);

/* Writes the id of the event at `index`. It is made of the request's id alone, so it is the
 * same whenever the request is split again, and it has the same time, so ids stay nearly
 * ascending. */
void split_id(char out[EVENT_ID_BYTES + 1], const char *request_id,
              size_t index);

#endif
