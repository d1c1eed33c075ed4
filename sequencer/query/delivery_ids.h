/* delivery_ids: finds events by the provider's id of their delivery (`delivery_id`, where it is not the id of the event).
 *
 * Such ids are random as a rule (UUIDs). An index of them writes a page for each event, 8 KiB with the file, and people rarely ask.
 * So the ids of a block of DELIVERY_BLOCK event numbers are written at once, soon after its last number was used: hashes in 64
 * parts of about 1 KiB, of which a search reads one in each block. Of the events behind the last block, fewer than two blocks as a
 * rule, it reads the rows.
 *
 * A hash is only a hint: each event that is found is compared. Parts are in the turn's transaction; after a rolled back turn call
 * delivery_ids_undo(). */
#ifndef SEQUENCER_DELIVERY_IDS_H
#define SEQUENCER_DELIVERY_IDS_H

#include "db.h"

enum {
    DELIVERY_BLOCK_BITS = 13,
    DELIVERY_BLOCK = 1 << DELIVERY_BLOCK_BITS,
    DELIVERY_PART_BITS = 6,
};

struct delivery_ids;

struct delivery_ids *delivery_ids_open(struct db *db);
void delivery_ids_close(struct delivery_ids *d);
void delivery_ids_undo(struct delivery_ids *d);

/* Once a turn: reads a bounded number of events, and writes blocks that are whole. `next_event`: the number of the next
 * event. true: there are more than a turn should read (after an upgrade 1 s for a million events, in turns of 60 ms). */
bool delivery_ids_work(struct delivery_ids *d, int64_t next_event);
/* Once a second: deletes blocks whose events are all deleted. */
void delivery_ids_tidy(struct delivery_ids *d);
/* An event may have another delivery id than before; its block may be written already. NULL: it has none. */
void delivery_ids_note(struct delivery_ids *d, int64_t event, const char *id);

/* The numbers of up to `max` events with this id, the newest first. Returns how many. */
int delivery_ids_find(struct delivery_ids *d, const char *id, int max,
                      int64_t *events);

#endif
