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
    stmt *put, *list, *next_due, *waiting, *drop, *later, *last, *ended, *end,
        *unend, *again, *forget, *purge, *start, *next_relay, *forget_relay;
    int64_t next_n;
    /* Marks of archived rows below it are deleted. */
    int64_t purged_n;
    /* When outcomes of removed relays are looked for (mono). */
    int64_t removed_ms;
    /* What waits from before the start is due. */
    bool started;
};

void outcomes_open(struct outbox *o);
/* After a rollback. */
void outcomes_undo(struct outbox *o);

/* Cuts what is written to error_message, which may be a short column, to 200 bytes. */
void outcomes_cut(char *error);

/* For links_ops: a message of the sequencer. */
gr_rc outcomes_apply(void *self, const char *from, uint64_t n,
                     struct bytes msg);

/* Reads up to `max` outcomes for this relay that are due: those that the database has refused, or the
 * others. Those of rows of another table than this are deleted. Returns how many; texts are the
 * caller's. */
size_t outcomes_list(struct outbox *o, const char *relay, const char *table,
                     bool refused, struct driver_write *writes, size_t max);
/* When the next one is due that is not due now (mono); 0: there is none. */
int64_t outcomes_due_ms(struct outbox *o, const char *relay);
/* How many wait, counted up to 10,000. */
int64_t outcomes_waiting(struct outbox *o, const char *relay);
/* The database has committed what is `written`: deletes those that did not change meanwhile, notes the
 * events that ended, and puts off what the rows did not take. */
void outcomes_written(struct outbox *o, const char *relay,
                      const struct driver_write *writes, size_t count);

/* A row is new whose event is known. true: its final outcome is in the row, so a person has reset
 * it. */
bool outcomes_ended(struct outbox *o, const char *event_id);
/* Such an event is sent again: this is noted. */
void outcomes_reset(struct outbox *o, const char *event_id);
/* Each turn: deletes marks of events that have left the archive, and outcomes of relays that were
 * removed. In the first one, all is due. */
void outcomes_purge(struct outbox *o);

#endif
