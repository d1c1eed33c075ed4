/* apply: writes turns into the file of a standby, which SQLite never opens meanwhile.
 *
 * A turn is whole pages, so applying one again after a crash is exact, and so is applying all turns after a position to a file that has parts of them. The position file
 * is written after the pages are synced, so the file is never older than its position. Until the last turn that any page is of has been applied, the
 * file is a mixture; a standby uses it only at the end of the log. */
#ifndef REPLICATION_APPLY_H
#define REPLICATION_APPLY_H

#include "position_file.h"
#include "turn.h"

/* Of a form: more than any turn may have (REPLICATOR_TURN_BYTES). */
enum { APPLY_FORM_MAX_BYTES = 1040 * 1024 * 1024 };

/* Whether this is the beginning of a history that began without a file: n is 0, and the chain is zeros. A history that begins with the content of a file has another
 * chain at n = 0, so that no other host takes an empty file for its beginning. */
bool position_is_empty(const struct position *at);

struct applied;

/* Opens a file with a position that no active writes. NULL: there is no file, no position, or cut_to() (cut.h) has not been called. */
struct applied *applied_open(const char *db_path);
/* Makes an empty file, or takes one that is there, at a position that position_is_empty(). NULL: the disk is full. */
struct applied *applied_create(const char *db_path, const struct position *at);
void applied_close(struct applied *a); /* NULL is allowed */

/* Of what was applied; it is not durable before applied_sync(). */
const struct position *applied_position(const struct applied *a);
/* Whether no page is known to be of a later turn (position_file.h, whole_from). */
bool applied_is_whole(const struct applied *a);

/* Writes the pages of this turn, which must follow the position (history, n + 1, and `chain` is its chain), and sets the file's size. The first turn of an empty file
 * must have all pages. Not synced yet. GR_REFUSE: it does not follow; nothing was written. GR_AGAIN: the disk is full; repeat it. */
GR_MUST_CHECK gr_rc applied_turn(struct applied *a, struct bytes form,
                                 const uint8_t chain[CHAIN_BYTES],
                                 char why[200]);
/* Makes what was applied durable: fdatasync, then the position file. GR_AGAIN: the disk is full; repeat it. */
GR_MUST_CHECK gr_rc applied_sync(struct applied *a, char why[200]);

/* Notes in the position file that this start may become the owner, before it tries: after a crash, the next start on this host knows it. zeros: none. GR_AGAIN: the disk is full; repeat it. */
GR_MUST_CHECK gr_rc applied_note_holder(struct applied *a,
                                        const uint8_t holder[HOLDER_BYTES]);
const uint8_t *applied_holder(const struct applied *a);
/* The file belongs to an active from now on: notes it in the position file, before SQLite opens the file. Call it after applied_sync(). GR_AGAIN: the disk is full; repeat it. */
GR_MUST_CHECK gr_rc applied_hand_over(struct applied *a);

#endif
