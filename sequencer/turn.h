/* turn: the sequencer's start, turn and end, as the daemon calls them (daemon.h). Only main.c
 * includes it, for its plan. `self` is the struct sequencer.
 *
 * Rows change only in sequencer_begin() and sequencer_work(), which run inside the turn's
 * transaction. sequencer_after_commit() sends what must not be sent before that is on disk. */
#ifndef SEQUENCER_TURN_H
#define SEQUENCER_TURN_H

#include <stdbool.h>

struct settings;

void sequencer_open(void *self);
/* The database is an older copy. Called in the transaction that notes this. */
void sequencer_restored(void *self);
/* May the turn take more events now? */
bool sequencer_has_time(void *self);
/* First in each transaction: match the endpoints with the settings if either has changed. */
void sequencer_begin(void *self);
/* Returns how long the loop may sleep (ms): 0: there is more to do, -1: no limit. */
int sequencer_work(void *self);
void sequencer_after_commit(void *self);
/* The turn was rolled back: read from disk what memory has of it. */
void sequencer_undo(void *self);
/* The settings are about to be replaced: drop all pointers to them. */
void sequencer_reload(void *self, struct settings *fresh);
void sequencer_close(void *self);

#endif
