/* store_erase: the statements that erase a workspace in sequencer.db. Writes belong in the turn's
 * transaction. */
#ifndef SEQUENCER_STORE_ERASE_H
#define SEQUENCER_STORE_ERASE_H

#include "bounds.h"
#include "db.h"

struct store_erase;
struct store_erase *store_erase_open(struct db *db);
void store_erase_close(struct store_erase *s);

/* Whether it has events, endpoints or tokens. */
bool store_erase_knows(struct store_erase *s, const char *workspace);
/* Each workspace, until `fn` returns false. */
typedef bool erase_name_fn(void *arg, const char *workspace);
void store_erase_names(struct store_erase *s, erase_name_fn *fn, void *arg);

/* Events behind number `after` whose workspace is `workspace` (NULL: unknown) or `label`, the one that
 * it got when it was erased before. At most `max`, and fewer if they have many deliveries; returns how many.
 * *looked_at: all up to this number were looked at. */
struct erase_event {
    int64_t n;
    char id[EVENT_ID_BYTES + 1];
};
int store_erase_events(struct store_erase *s, int64_t after,
                       const char *workspace, const char *label, int max,
                       struct erase_event *events, int64_t *looked_at);
/* Whether a deliverer may still have a copy of one of its deliveries. */
bool store_erase_is_out(struct store_erase *s, int64_t event);
/* Leaves the numbers, ids and times of an event. Its body is the caller's. */
void store_erase_event(struct store_erase *s, const struct erase_event *e,
                       const char *label);
/* The events that wait in streams of the workspace wait no more; gaps and what was done about them;
 * operational events that wait for the end of a minute. */
void store_erase_streams(struct store_erase *s, const char *workspace);
/* States of objects, a limited number; true: there may be more. */
bool store_erase_objects(struct store_erase *s, const char *workspace);
/* Its last number and clock. Returns the number. */
int64_t store_erase_workspace(struct store_erase *s, const char *workspace);

#endif
