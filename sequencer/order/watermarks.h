/* watermarks: the ingress processes that send events, and the clock by which waits for
 * missing events run.
 *
 * The *watermark clock*, in ms, is stored on disk. While an event is waited for, it runs
 * only when this process runs and every ingress responds. So an outage of Grapnel does
 * not shorten a gap's wait.
 *
 * A wait that expires at t of the watermark clock ends when all events that any ingress
 * received before t have arrived. To find out, each ingress gets a watermark request with
 * the watermark clock, and responds with the number of its next row. When all rows before
 * that number have been received, that ingress has confirmed t.
 *
 * An ingress that has not responded for FORGOTTEN_MS is forgotten.
 *
 * Rows (names of ingress processes, the clock) are written inside the turn's transaction. A
 * crash sets the clock back by at most KEPT_MS, and every ingress is asked again. */
#ifndef SEQUENCER_WATERMARKS_H
#define SEQUENCER_WATERMARKS_H

#include "rc.h"
#include "wire.h"

struct sequencer;
struct watermarks;

struct watermarks *watermarks_open(struct sequencer *q);
void watermarks_close(struct watermarks *w);
void watermarks_undo(struct watermarks *w);

/* This ingress, or this process, was restored from an older copy: row numbers begin again from
 * lower ones, so a response with a higher one does not count any more. */
void watermarks_rewound(struct watermarks *w, const char *name);
/* This ingress has sent an event. */
void watermarks_event(struct watermarks *w, const char *from,
                      int64_t received_ms);
/* An ingress has responded to a watermark request. */
void watermarks_take(struct watermarks *w, const struct wire_watermark *s);

/* Once a turn: advance the clock, if all ingress processes respond. */
void watermarks_work(struct watermarks *w);
/* The watermark clock at which the next wait ends; INT64_MAX: no event waits. */
void watermarks_set_due(struct watermarks *w, int64_t due);
/* After the commit: send requests that are due. Returns how long the loop may sleep (ms); -1: no
 * limit. */
int watermarks_flush(struct watermarks *w);

int64_t watermarks_clock(struct watermarks *w);
/* The present watermark clock; every ingress is asked until it is confirmed, though no event waits. */
int64_t watermarks_want(struct watermarks *w);
/* All events received before this time of the watermark clock have arrived, so waits that expire
 * at or before it end. */
int64_t watermarks_arrived(const struct watermarks *w);
/* A receive time before which no more events are expected; 0: not known. */
int64_t watermarks_received_ms(const struct watermarks *w);
/* An ingress that does not respond, and so delays all waits; NULL: all respond. */
const char *watermarks_silent_ingress(const struct watermarks *w);

#endif
