/* replay_job: POST /replays: a job that sends the archived events of a period again (jobs.h).
 *
 * Ingress has the requests, and the sequencer knows their types, workspaces and deliveries: the job
 * asks it for `facts` over its control socket, page by page, without waiting for the reply. While
 * the sequencer is away, the job waits. Each event becomes a row of `replays` in the transaction that
 * moves the job's position, under an action id made of job and event. */
#ifndef ARCHIVE_REPLAY_JOB_H
#define ARCHIVE_REPLAY_JOB_H

#include "jobs.h"

extern const struct job_kind replay_jobs[];

/* Control command replay. self: struct archive. */
json_t *replay_job_make(void *self, json_t *args, char why[200]);

/* At the end of the process: frees what a job keeps in memory. */
struct replay_reading;
void replay_reading_free(struct replay_reading *r);

#endif
