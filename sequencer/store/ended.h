/* ended: the tokens that were revoked and the endpoints that were deleted, in state_dir/ended: one
 * line each, with the time and the id. Ids are never used again.
 *
 * The file is the second place in which these acts are recorded: it is in no backup, so a database
 * that is restored from an older copy does not make a revoked token valid, or deliver to a deleted
 * endpoint. A line is written and synced before the act is confirmed. What has a line has ended,
 * also if the process died before it committed the act, or the commit failed.
 *
 * The last line may be incomplete after a crash; then its act was not confirmed, and it is dropped.
 * Lines are kept for ENDED_KEEP_DAYS: copies that are older bring back what ended before. Only the
 * sequencer reads and writes the file. */
#ifndef SEQUENCER_ENDED_H
#define SEQUENCER_ENDED_H

#include "rc.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ENDED_KEEP_DAYS = 400, /* as rows of revoked tokens, and of the audit */
    ENDED_MAX = 200 * 1000,
    /* Endpoints leave space for all tokens that there can be. */
    ENDED_ENDPOINTS_MAX = 190 * 1000,
    ENDED_ID_BYTES = 63,
};

struct ended;

/* Drops lines from before `before_ms`. Ends the process (74) if the file cannot be read or is not as
 * ended_add() writes it. */
struct ended *ended_open(const char *state_dir, int64_t before_ms);
void ended_close(struct ended *e);

size_t ended_count(const struct ended *e);
/* When it ended; 0: it has not. */
int64_t ended_at(const struct ended *e, const char *id);
/* Adds a line and syncs it; nothing if the id has one. GR_REFUSE: it cannot be written, or there are `max` lines; `why` says
 * so, and the act must not be confirmed. */
GR_MUST_CHECK gr_rc ended_add(struct ended *e, const char *id, size_t max,
                              int64_t now_ms, char why[200]);
/* What the reply to such an act says if its turn is rolled back. */
#define ENDED_UNDONE                                                          \
    "the disk is full: it has ended, and stays so, but this is not recorded " \
    "yet; free disk space, then repeat the request"

#endif
