/* priority: from which queue of an endpoint the next delivery is taken. Pure.
 *
 * Of ten deliveries that leave while all queues have some, seven are `high`, two `normal` and one `low`. The turn
 * of an empty queue is given to the first of high, normal and low that is not empty. So no queue waits for ever,
 * `low` has a tenth whatever the others do, and no turn is lost. */
#ifndef SEQUENCER_PRIORITY_H
#define SEQUENCER_PRIORITY_H

#include "settings.h"

enum { PRIORITY_TURNS = 10 };

/* `taken`: how many deliveries were taken before. `waiting` has the bit 1 << p of each priority whose queue may have
 * some. PRIORITY_UNCHOSEN: no queue has any. */
enum priority priority_next(unsigned taken, unsigned waiting);

#endif
