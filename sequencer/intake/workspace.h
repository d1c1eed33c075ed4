/* workspace: each workspace's numbers: its last sequence, how many events of each type it had
 * (the clock), the last number routed to each endpoint, and where its next delivery is in the
 * endpoint's queue.
 *
 * The cache of the table `workspaces`: store.c reads rows into it, and writes those that a
 * turn has changed at its end. After a crash the rows of the last commit are read again. */
#ifndef SEQUENCER_WORKSPACE_H
#define SEQUENCER_WORKSPACE_H

#include "alloc.h"
#include "lane.h"
#include "lookup.h"
#include "rc.h"
#include <sys/queue.h>

enum {
    CLOCK_MAX_BYTES = 2048,
    POSITION_QUEUE_SHIFT = 32,
    /* More types than this in one workspace are counted together, as `*`. */
    TYPES_MAX = 1024,
};

struct type_tally {
    char *type;
    uint64_t count;
};

struct routed {
    int64_t endpoint;
    uint64_t sequence;
    int64_t positions[PRIORITIES]; /* in the endpoint's queues (queue_add()) */
};

struct workspace {
    char *name;
    int64_t lane; /* its number in lanes (lane.h) */
    uint64_t sequence;
    struct type_tally *tallies; /* by type's name */
    size_t tally_count;
    struct routed *routed;
    size_t routed_count;
    bool dirty;
    SLIST_ENTRY(workspace) dirty_next;
};

struct workspaces {
    struct lookup names;
    SLIST_HEAD(, workspace) dirty;
};

/* Empty the cache: after a rolled back turn, or when there are too many. */
void workspaces_clear(struct workspaces *w);
struct workspace *workspaces_find(struct workspaces *w, const char *name);
struct workspace *workspaces_add(struct workspaces *w, const char *name);
/* Read what workspace_clock(), workspace_routed_blob() and workspace_positions_blob() wrote. */
void workspace_read(struct workspace *ws, uint64_t sequence, const char *clock,
                    struct bytes routed, struct bytes positions);

/* It is to be written at the end of the turn. */
void workspace_changed(struct workspaces *w, struct workspace *ws);
/* The next number; counts the type, and marks the row as changed. */
uint64_t workspace_number(struct workspaces *w, struct workspace *ws,
                          const char *type);
/* "issue.created=7,issue.updated=12", sorted by type. If that is longer than `max` bytes, only
 * the part of `type`. */
void workspace_clock(const struct workspace *ws, const char *type, size_t max,
                     struct buf *out);
/* Returns the last number routed to `endpoint`, and replaces it by `sequence`. */
uint64_t workspace_routed(struct workspace *ws, int64_t endpoint,
                          uint64_t sequence);
/* Forgets the numbers of endpoints for which `is_over` is true, if `endpoint` has none: before
 * workspace_routed() adds it. */
typedef bool workspace_over_fn(void *arg, int64_t endpoint);
void workspace_forget_routed(struct workspace *ws, int64_t endpoint,
                             workspace_over_fn *is_over, void *arg);
void workspace_routed_blob(const struct workspace *ws, struct buf *out);
/* Its position in this queue of `endpoint`, until another endpoint is added; NULL: it has none, and
 * `add` is false. */
int64_t *workspace_position(struct workspace *ws, int64_t endpoint,
                            enum priority priority, bool add);
/* Those that are not 0: 8 bytes for the endpoint and the number of the queue, which is shifted by
 * POSITION_QUEUE_SHIFT, and 8 bytes for the position. */
void workspace_positions_blob(const struct workspace *ws, struct buf *out);

#endif
