/* result_log: the log of the link to the sequencer. Its rows are those of `attempts`, whose
 * numbers are the log's. A crash leaves the rows of committed turns; the link sends them
 * again until they are acknowledged. */
#ifndef DELIVERER_RESULT_LOG_H
#define DELIVERER_RESULT_LOG_H

#include "store.h"

struct deliverer;
struct grant;

void result_log_open(struct deliverer *d);
void result_log_close(struct deliverer *d);
/* Inside the transaction: the result of an attempt. Sets row->n. */
void result_log_put(struct deliverer *d, struct attempt_row *row);
/* The same: `released`, since no attempt is in flight under this grant and none will begin.
 * Returns its number. */
uint64_t result_log_put_released(struct deliverer *d, uint64_t grant);
/* The same: this delivery is not known here, although its task was acknowledged. */
void result_log_put_missing(struct deliverer *d, const struct grant *g,
                            const char *event_id, uint64_t task);
/* The durable link's load (links.h). */
bool result_log_load(void *self, const char *peer, uint64_t n, int kind,
                     int64_t ref, struct buf *out);

#endif
