/* outcomes: what became of events, on the way from the sequencer to the rows of the applications'
 * tables. The sequencer's messages are stored here, a later one in place of an earlier one; relays
 * write them in batches, and delete them when the database has committed them. After a crash they are
 * written again, which changes nothing. All functions work inside the turn's transaction. */
#ifndef OUTBOX_OUTCOMES_H
#define OUTBOX_OUTCOMES_H

#include "db.h"
#include "driver.h"

struct outbox;

struct outcomes {
    struct db *db;
    stmt *put, *list, *drop, *later, *last, *ended, *end, *unend, *again,
        *forget, *purge;
    int64_t next_n;
    int64_t purged_n; /* marks of archived rows below it are deleted */
};

void outcomes_open(struct outbox *o);
/* After a rollback. */
void outcomes_undo(struct outbox *o);

/* For links_ops: a message of the sequencer. */
gr_rc outcomes_apply(void *self, const char *from, uint64_t n,
                     struct bytes msg);

/* Reads up to `max` outcomes for this relay. Returns how many; texts are the caller's. */
size_t outcomes_list(struct outbox *o, const char *relay,
                     struct driver_write *writes, size_t max);
/* The database has committed them: deletes those that did not change meanwhile, and notes the events
 * that ended. */
void outcomes_written(struct outbox *o, const struct driver_write *writes,
                      size_t count);

/* A row is new whose event is known. true: its final outcome is in the row, so a person has reset it,
 * and it is to be sent again; this is noted. */
bool outcomes_reset(struct outbox *o, const char *event_id);
/* Each turn: deletes marks of events that have left the archive. */
void outcomes_purge(struct outbox *o);

#endif
