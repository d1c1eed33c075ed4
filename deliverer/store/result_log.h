/* result_log: the link's log to the sequencer. Its rows are those of `attempts`,
 * whose numbers are the log's; those of the present turn are kept as messages
 * too, so that they leave without being read again. */
#ifndef DELIVERER_RESULT_LOG_H
#define DELIVERER_RESULT_LOG_H

#include "store.h"

enum { RESULT_LOG_KEPT = 512 };

struct deliverer;
struct grant;

struct result_log {
    uint64_t turn;  /* in which the messages were made */
    uint64_t first; /* number of the first of them */
    int count;
    size_t ends[RESULT_LOG_KEPT];
    struct buf messages; /* one behind the other */
};

void result_log_open(struct deliverer *d);
void result_log_close(struct deliverer *d);
/* Inside of the transaction: what an attempt came to. Sets row->n. */
void result_log_put(struct deliverer *d, struct attempt_row *row);
/* Nothing is in flight under this grant, or ever will be. Returns its number.
 */
uint64_t result_log_put_released(struct deliverer *d, uint64_t grant);
/* This delivery is not known here, though its task has been taken. */
void result_log_put_missing(struct deliverer *d, const struct grant *g,
                            const char *event_id, uint64_t task);
/* The durable link's load (links.h). */
bool result_log_load(void *self, const char *peer, uint64_t n, int kind,
                     int64_t ref, struct buf *out);

#endif
