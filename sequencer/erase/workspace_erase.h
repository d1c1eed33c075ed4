/* workspace_erase: DELETE /workspaces/{workspace}: the job that erases what all processes have of a
 * workspace (docs/decisions/0101).
 *
 * The erasure is recorded in state_dir/erasures before anything else, so events of the workspace are
 * refused from then on, also after a restore. The job asks each process that has a database in
 * state_dir, and those of other hosts if `cluster.peers` has a console, over its control socket (daemon_erase.h), without waiting for the reply, and repeats
 * each request until it is done: a process that is away delays it. Its position is stored
 * with each step, so it continues after a crash. It cannot be cancelled. */
#ifndef SEQUENCER_WORKSPACE_ERASE_H
#define SEQUENCER_WORKSPACE_ERASE_H

#include "daemon_erase.h"
#include "jobs.h"

struct sequencer;
struct erasing;

struct erasing *workspace_erase_open(struct sequencer *q);
void workspace_erase_close(struct erasing *e);
void workspace_erase_undo(struct erasing *e);
/* Once a second: after a process was restored from an older copy, makes the job that erases all
 * erased workspaces again. */
void workspace_erase_look(struct sequencer *q);
/* This peer was restored from an older copy. If it is on another host, where we do not see it start, the same is done. */
void workspace_erase_peer_rewound(struct sequencer *q, const char *peer);

/* Whether this workspace was erased. */
bool workspace_erased(const struct sequencer *q, struct bytes workspace);
/* The workspace of its events: "erased:" and the beginning of the hash. */
enum { ERASED_LABEL_BYTES = 24 };
void workspace_erased_label(const char *hash,
                            char label[ERASED_LABEL_BYTES + 1]);
bool workspace_is_erased_label(const char *workspace);

/* daemon_plan's `owns`. self: struct sequencer. */
erase_owns_fn workspace_erase_owns;

extern const struct job_kind workspace_erase_jobs[];
/* Control command workspace_erase. self: struct sequencer. */
json_t *workspace_erase_ask(void *self, json_t *args, char why[200]);

#endif
