/* bulk_job: POST /dead-letters/bulk: jobs that retry, resolve or discard the dead letters that
 * match a filter (jobs.h). */
#ifndef DLQD_BULK_JOB_H
#define DLQD_BULK_JOB_H

#include "jobs.h"

extern const struct job_kind bulk_jobs[];

/* Control command dlq_bulk. self: struct dlqd. */
json_t *bulk_job_make(void *self, json_t *args, char why[200]);

#endif
