/* provider_ids: finds events by an id that their provider gave: that of the event (`provider_id`), or of its delivery (`delivery_id`).
 *
 * Such ids are random as a rule (UUIDs). An index of them writes a page for each event, 8 KiB with the file, and people rarely ask.
 * So the ids of a block of PROVIDER_BLOCK event numbers are written at once, soon after its last number was used: hashes in 128
 * parts of about 1 KiB, of which a search reads one in each block. The hashes of later events are in memory.
 *
 * A hash is only a hint: each event that is found is compared. Parts are in the turn's transaction; after a rolled back turn call
 * provider_ids_undo(). After a start the hashes in memory are read again from the events. */
#ifndef SEQUENCER_PROVIDER_IDS_H
#define SEQUENCER_PROVIDER_IDS_H

#include "db.h"

enum {
    PROVIDER_BLOCK_BITS = 14,
    PROVIDER_BLOCK = 1 << PROVIDER_BLOCK_BITS,
    PROVIDER_PART_BITS = 7,
};

struct event_row;
struct provider_ids;

struct provider_ids *provider_ids_open(struct db *db);
void provider_ids_close(struct provider_ids *p);
void provider_ids_undo(struct provider_ids *p);

/* Once a turn: reads a bounded number of events, and writes blocks that are whole. `next_event`: the number of the next
 * event. true: there are more than a turn should read (after an upgrade 1 s for a million events, in turns of 20 ms). */
bool provider_ids_work(struct provider_ids *p, int64_t next_event);
/* Once a second: deletes blocks whose events are all deleted. */
void provider_ids_tidy(struct provider_ids *p);
/* Events may have other ids than before; their block may be written already. */
void provider_ids_note(struct provider_ids *p, const struct event_row *e);

/* The numbers of up to `max` events below number `below` with this id, the newest first. With `source`, only its events whose own id this is; NULL: all
 * events, also those whose delivery has this id. Returns how many; -1: provider_ids_work() has more than 65,536 numbers of events
 * to read, as after an upgrade. */
int provider_ids_find(struct provider_ids *p, const char *source,
                      const char *id, int64_t below, int max, int64_t *events);

#endif
