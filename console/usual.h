/* usual: how many events a source usually sends, and how many it would have sent since its last
 * one. Pure: the caller looks at the source, in any rhythm, and says what arrived. For learned.c,
 * which stores it (struct usual_hours when an hour ends, struct usual_now after each look).
 *
 * A week has 168 hours (UTC). For each, the rates of the last four weeks are kept. The usual rate
 * of an hour is low rather than right: the second lowest of the four, so that neither one holiday
 * nor one import of a million events decides.
 *
 *   expected  events at the rate of the quietest day of the week at this time of day, and of the
 *             quietest of three hours. So a holiday on which the source behaves as on a weekend is no
 *             silence, nor is the change to summer time.
 *   overdue   events at the rate of this hour of the week, counted after a pause: 26 hours, from
 *             when 20 are missing. For sources that are silent on weekends or at night; one silent
 *             working day may be a holiday.
 *
 * Silence of Poisson traffic with 20 expected events has a probability of e^-20. Events that come
 * in bursts have longer silences, so the longest one that ended by itself is remembered, and
 * forgotten by half in two weeks; only twice as much counts as unusual. */
#ifndef CONSOLE_USUAL_H
#define CONSOLE_USUAL_H

#include "alloc.h"
#include "rc.h"

enum {
    USUAL_HOURS = 7 * 24,
    USUAL_WEEKS = 4,
    USUAL_EVENTS = 20, /* so many missing events are unusual */
    USUAL_DAYS = 14,   /* before this, nothing is unusual */
    USUAL_HOURS_BYTES = USUAL_HOURS * USUAL_WEEKS * 4,
};

/* Events per hour, newest week first; below 0: unknown. */
struct usual_hours {
    float rates[USUAL_HOURS][USUAL_WEEKS];
};

struct usual_now {
    int64_t hour; /* since 1970, the one that is counted; 0: none */
    double count, observed_ms; /* in that hour */
    double learned_ms;         /* observed altogether */
    double expected, missing, pause_ms, overdue;
    double longest, longest_overdue; /* of silences that have ended */
};

struct usual {
    struct usual_hours hours;
    struct usual_now now;
    /* Of the present hour; made from the above: */
    int64_t rated_hour;
    double quiet_rate, week_rate;
};

void usual_init(struct usual *u);
/* The source was watched for the last `span_ms` (0: it was not) before the wall clock `now_ms`, and
 * `events` arrived. Returns true when an hour has ended, and the rates are others. */
bool usual_take(struct usual *u, int64_t now_ms, int64_t span_ms,
                double events);
/* How many events are missing, in relation to earlier silences; above USUAL_EVENTS it is unusual. */
double usual_missing(const struct usual *u);
/* After how many milliseconds without an event more than `above` would be missing, if the source is watched all
 * the time; -1: not within 28 days. `since_now`: as if an event had come at `now_ms`. */
int64_t usual_until(const struct usual *u, int64_t now_ms, bool since_now,
                    double above);
/* The usual rate, events per hour, of an hour of the week (0: Thursday 00:00 UTC, as 1970 began); below 0:
 * unknown. */
double usual_rate(const struct usual *u, int hour_of_week);
/* … of the present hour on the quietest day of the week. */
double usual_quiet_rate(const struct usual *u, int64_t now_ms);

/* The rates as bytes, little endian, for a row. */
void usual_hours_write(const struct usual *u, uint8_t out[USUAL_HOURS_BYTES]);
/* GR_REFUSE: these are not such bytes; nothing was changed. */
GR_MUST_CHECK gr_rc usual_hours_read(struct usual *u, struct bytes in);

#endif
