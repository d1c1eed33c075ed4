/* bulk: many letters at once, and how many there are. Control commands. */
#ifndef DLQD_BULK_H
#define DLQD_BULK_H

#include "control.h"

/* dlq_retry_all: the oldest dead letters that a filter takes, at most `limit`, in
 * one transaction with their requeues. The caller asks again with "after": next
 * until that is null, and may stop at any time: the rest stays dead. */
json_t *bulk_retry(void *self, json_t *args, char why[200]);
/* dlq_resolve_all, dlq_discard_all: the same with a decision, which needs a `note`. */
json_t *bulk_resolve(void *self, json_t *args, char why[200]);
json_t *bulk_discard(void *self, json_t *args, char why[200]);
/* dlq_count: how many dead letters that would be; page by page as well. */
json_t *bulk_count(void *self, json_t *args, char why[200]);
/* dlq_stats: dead letters by state; the dead ones by endpoint, reason and fault. */
json_t *bulk_stats(void *self, json_t *args, char why[200]);

#endif
