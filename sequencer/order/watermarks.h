/* watermarks: the ingress processes that send events, and the clock by which waits for
 * missing events run.
 *
 * The *watermark clock*, in ms, is stored on disk. While an event is waited for, it runs
 * only when this process runs and every ingress responds. So an outage of Grapnel does
 * not shorten a gap's wait.
 *
 * A wait that ended at t of the watermark clock has *been judged* when every ingress has
 * shown that no event that it received before t is still to come. Each ingress gets a
 * watermark request with the watermark clock, and responds with the number of its next
 * row. When all rows before that number have been received, it has shown t.
 *
 * An ingress that has not responded for FORGOTTEN_MS is waited for no longer. */
#ifndef SEQUENCER_WATERMARKS_H
#define SEQUENCER_WATERMARKS_H

#include "rc.h"
#include "wire.h"

struct sequencer;
struct watermarks;

struct watermarks *watermarks_open(struct sequencer *q);
void watermarks_close(struct watermarks *d);
void watermarks_undo(struct watermarks *d);

/* This ingress came back from an older copy (or we did): its numbers begin again
 * from lower ones, so a response that names a higher one counts no more. */
void watermarks_set_back(struct watermarks *d, const char *name);
/* An event came by this ingress. */
void watermarks_event(struct watermarks *d, const char *from,
                      int64_t received_ms);
void watermarks_take(struct watermarks *d, const struct wire_watermark *s);

/* Time passes, and what the ingress processes answered counts. */
void watermarks_work(struct watermarks *d);
/* The watermark clock at which the next wait ends; INT64_MAX: nothing is waited
 * for. */
void watermarks_due(struct watermarks *d, int64_t due);
/* After the commit: ask. Returns how long the loop may sleep; -1: for ever. */
int watermarks_flush(struct watermarks *d);

int64_t watermarks_clock(struct watermarks *d);
int64_t watermarks_judged(const struct watermarks *d);
/* A receive time before which nothing is likely to come any more; 0: not
 * known. */
int64_t watermarks_received_ms(const struct watermarks *d);
/* An ingress that delays all waits; NULL: none. */
const char *watermarks_silent_ingress(const struct watermarks *d);

#endif
