/* bulk: control commands for actions on many dead letters, and for counting them. self: struct
 * dlqd. */
#ifndef DLQD_BULK_H
#define DLQD_BULK_H

#include "control.h"
#include "dead_letter_list.h"

/* Walks the dead letters in state dead from the oldest on, behind f->after; numbers of those that
 * match into `n` unless it is NULL, at most `max`. Reads a bounded number of rows. Returns how
 * many match; *next is where to continue (an `after`, the caller's), JSON null at the end. */
int bulk_walk(struct dlqd *d, const struct list_filter *f, int max, int64_t *n,
              json_t **next);

/* dlq_retry_all: retry the oldest dead letters that match a filter, at most `limit`, in one
 * transaction with their requeues. The caller continues with "after": next until that is null,
 * and may stop at any time: the others stay dead. */
json_t *bulk_retry(void *self, json_t *args, char why[200]);
/* dlq_resolve_all, dlq_discard_all: the same with a decision, which needs a `note`. */
json_t *bulk_resolve(void *self, json_t *args, char why[200]);
json_t *bulk_discard(void *self, json_t *args, char why[200]);
/* dlq_count: counts the dead letters that match a filter, page by page. */
json_t *bulk_count(void *self, json_t *args, char why[200]);
/* dlq_stats: the number of dead letters by state; those in state dead also by endpoint, reason
 * and fault. */
json_t *bulk_stats(void *self, json_t *args, char why[200]);

#endif
