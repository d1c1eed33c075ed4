/* doors: the ingress processes that we take events from, and the time in which
 * what is missing could have come by them.
 *
 * *Door time* is a clock of its own, in ms, on disk: while something is waited
 * for it runs only when this process does not stand still and every door
 * answers. So an outage of ours takes nothing away from a gap's wait.
 *
 * A wait that was over at door time t has *been judged* when every door has
 * shown that nothing it received before t is still to come: we ask each with a
 * sounding, which carries the door time; it answers with the number of its next
 * row; when we have taken all rows before that, it has shown t.
 *
 * A door that has not answered for FORGOTTEN_MS is waited for no longer. */
#ifndef SEQUENCER_DOORS_H
#define SEQUENCER_DOORS_H

#include "rc.h"
#include "wire.h"

struct sequencer;
struct doors;

struct doors *doors_open(struct sequencer *q);
void doors_close(struct doors *d);
void doors_undo(struct doors *d);

/* An event came by this door. */
/* This ingress came back from an older copy (or we did): its numbers begin again
 * from lower ones, so an answer that names a higher one counts no more. */
void doors_set_back(struct doors *d, const char *name);
void doors_came(struct doors *d, const char *from, int64_t received_ms);
void doors_sounded(struct doors *d, const struct wire_sounded *s);

/* Time passes, and what the doors answered counts. */
void doors_work(struct doors *d);
/* The door time at which the next wait is over; INT64_MAX: nothing is waited
 * for. */
void doors_due(struct doors *d, int64_t due);
/* After the commit: ask. Returns how long the loop may sleep; -1: for ever. */
int doors_tell(struct doors *d);

int64_t doors_time(struct doors *d);
int64_t doors_judged(const struct doors *d);
/* A receive time before which nothing is likely to come any more; 0: not
 * known. */
int64_t doors_received_ms(const struct doors *d);
/* A door that keeps everybody waiting; NULL: none. */
const char *doors_missing(const struct doors *d);

#endif
