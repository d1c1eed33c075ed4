/* large_turn: how a turn that is too long for one statement of the engine, such as a migration, gets into the log.
 *
 * Its form is cut into slices. Each is written into the engine on its own, beside the log, while the beats go on; nobody reads them yet. Then the turn is appended as
 * any other, with a row that only says how long the form is. So a turn is in the log as a whole or not at all, and a takeover in the middle leaves
 * slices that forget_slices() deletes. The chain is that of the whole form. */
#ifndef REPLICATION_LARGE_TURN_H
#define REPLICATION_LARGE_TURN_H

#include "seal.h"

/* A longer form goes in slices. */
enum { LARGE_TURN_BYTES = 32 * 1024 * 1024 };

/* For a form of so many bytes. */
int64_t large_turn_slices(size_t form_bytes);
/* `about`: of the turn; its kind is not used. `sealed` is emptied first. */
void large_turn_seal(struct sealer *s, const struct seal_about *about,
                     struct bytes form, int64_t slice, struct buf *sealed);
/* Appends this slice to `form`. GR_REFUSE: it is not this slice of this turn, or `form` would become longer than it may. */
GR_MUST_CHECK gr_rc large_turn_open(struct sealer *s,
                                    const struct seal_about *about,
                                    int64_t slice, struct bytes sealed,
                                    struct buf *form, char why[200]);

/* What the log has instead of the form. */
void large_turn_put_row(size_t form_bytes, struct buf *row);
/* The bytes of the form that this row of the log stands for; 0: it is a form itself. */
size_t large_turn_bytes(struct bytes row);

#endif
