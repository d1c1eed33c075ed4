/* out_rows: what a result needs of the rows of `deliveries`, in memory: the rows of deliveries that deliverers
 * have, the numbers of their events, and how many deliveries of an event are open. A cache: anything may be
 * missing at any time, and a row that is there is the same as on disk. Only delivery.c uses it: it drops
 * a row before it writes it, and debug builds compare each row that is taken. After a turn that was
 * rolled back it is cleared. */
#ifndef SEQUENCER_OUT_ROWS_H
#define SEQUENCER_OUT_ROWS_H

#include "delivery.h"

struct out_rows;
struct out_rows *out_rows_open(void);
void out_rows_close(struct out_rows *o);

/* Takes the texts of `d` over, which is empty then. It may replace another row. The id of its event
 * is known from now on. */
void out_rows_give(struct out_rows *o, struct delivery *d);
/* false: it is not here. Otherwise the caller owns it, and it is no longer here. */
bool out_rows_take(struct out_rows *o, int64_t event, int64_t endpoint,
                   struct delivery *d);
void out_rows_drop(struct out_rows *o, int64_t event, int64_t endpoint);
void out_rows_clear(struct out_rows *o);

/* At least so many deliveries of an event are open. */
void out_rows_note_open(struct out_rows *o, int64_t event, int count);
/* One of them has become final. true: others are open. false: unknown. */
bool out_rows_others_open(struct out_rows *o, int64_t event);

/* The number of the event with this id; 0: unknown. That of a purged event may still be there. */
int64_t out_rows_event(const struct out_rows *o, struct bytes id);

#endif
