/* event_intake: takes events in. Parses each accepted request, finds duplicates, asks for its
 * position in its stream, routes it, and stores its row and body. A stored event goes the
 * same way again when it leaves the buffer, when its dead letter is requeued, or when an
 * operator overrides what was decided about it.
 *
 * Called for messages of the durable link and for control requests, inside the turn's
 * transaction: after a crash before its commit, the sender sends the message again. */
#ifndef SEQUENCER_EVENT_INTAKE_H
#define SEQUENCER_EVENT_INTAKE_H

#include "rc.h"
#include "wire.h"
#include <jansson.h>

struct sequencer;
struct endpoint;

/* The number of a new event's row. A number is never given twice, also when the rows with
 * the highest numbers were purged: keys and logs of links remember numbers for longer. */
int64_t intake_number(struct sequencer *q);

/* A new event from ingress. GR_AGAIN: the disk is nearly full; GR_REFUSE: the message is
 * malformed. */
gr_rc intake_accepted(struct sequencer *q, const char *from,
                      const struct wire_accepted *m);
/* The same of an event that an operator sends again and that is unknown here: it is not
 * checked for duplicates, order or transitions. */
gr_rc intake_replayed(struct sequencer *q, const char *from,
                      const struct wire_accepted *m,
                      const struct wire_replayed *replayed);
/* An operational event (operational_events.h) with this id and data, for the endpoints that are
 * subscribed to it. Without any it is not written. */
void intake_operational(struct sequencer *q, const char *id, const char *type,
                        const char *workspace, int hops, json_t *data);
/* An internal event, for one endpoint. */
void intake_internal(struct sequencer *q, struct endpoint *e, const char *type,
                     const char *workspace, struct bytes body,
                     int64_t expires_ms);

/* Process event n again: it was refused, or ignored, in `generation` of its dead letter. The
 * transition of an ignored event is forced. GR_REFUSE: it is neither refused nor ignored. */
gr_rc intake_reprocess(struct sequencer *q, int64_t n, int64_t generation);
/* An operator (`who`) has a duplicate delivered all the same. GR_REFUSE: `why`. */
gr_rc intake_release(struct sequencer *q, const char *id, const char *who,
                     char why[200]);
/* Event n is released from the buffer, although the numbers `gap` are missing ("": none
 * are). `generation`: as streams_admit() was told. */
void intake_release_buffered(struct sequencer *q, int64_t n, int64_t generation,
                             const char *gap);

#endif
