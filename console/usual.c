/* usual: learns the rates of a source by the hour of the week, and counts missing events. */
#include "usual.h"
#include "clock.h"
#include <math.h>
#include <string.h>

enum { UNKNOWN = -1 };

#define ENOUGH_MS    (30.0 * MINUTE_MS) /* of an hour, so that its rate counts */
#define PAUSE_MS     (26.0 * HOUR_MS)
#define HALF_LIFE_MS (14.0 * DAY_MS)
#define LEARNED_MS   ((double)USUAL_DAYS * DAY_MS)
#define AHEAD_MS     (28 * DAY_MS)
#define RATE_MAX     1e9F /* a higher one is a wrong counter */

void usual_init(struct usual *u)
{
    *u = (struct usual){.rated_hour = -1};
    for (int i = 0; i < USUAL_HOURS; i++)
        for (int k = 0; k < USUAL_WEEKS; k++)
            u->hours.rates[i][k] = UNKNOWN;
}

/* ---- rates ---- */

static int hour_of_week(int64_t hour)
{
    return (int)(((hour % USUAL_HOURS) + USUAL_HOURS) % USUAL_HOURS);
}

/* The second lowest of three or four weeks, else the lowest; UNKNOWN: there is none. */
static double slot_rate(const struct usual *u, int slot)
{
    double lowest = INFINITY, second = INFINITY;
    int known = 0;

    for (int k = 0; k < USUAL_WEEKS; k++) {
        double rate = u->hours.rates[slot][k];

        if (rate < 0)
            continue;
        known++;
        if (rate < lowest) {
            second = lowest;
            lowest = rate;
        } else if (rate < second) {
            second = rate;
        }
    }
    return known == 0 ? UNKNOWN : known < 3 ? lowest : second;
}

/* The lowest rate of this hour, the one before and the one after, of all days of the week. */
static double quiet_rate(const struct usual *u, int64_t hour)
{
    double lowest = INFINITY;

    for (int day = 0; day < 7; day++)
        for (int near = -1; near <= 1; near++) {
            double rate = slot_rate(u, hour_of_week(hour + day * 24 + near));

            if (rate < lowest)
                lowest = rate;
        }
    return lowest < 0 ? 0 : lowest;
}

static void rate_hour(struct usual *u, int64_t hour)
{
    double rate = slot_rate(u, hour_of_week(hour));

    if (u->rated_hour == hour)
        return;
    u->rated_hour = hour;
    u->quiet_rate = quiet_rate(u, hour);
    u->week_rate = rate < 0 ? 0 : rate;
}

/* The hour has ended: its rate is the newest of its hour of the week, if it was observed for long
 * enough. */
static bool end_hour(struct usual *u)
{
    float *rates = u->hours.rates[hour_of_week(u->now.hour)];
    double rate;

    if (u->now.observed_ms < ENOUGH_MS)
        return false;
    rate = u->now.count * (double)HOUR_MS / u->now.observed_ms;
    memmove(rates + 1, rates, (USUAL_WEEKS - 1) * sizeof *rates);
    rates[0] = rate < RATE_MAX ? (float)rate : RATE_MAX;
    u->rated_hour = -1;
    return true;
}

/* ---- silence ---- */

static double allowed(double longest)
{
    return 2 * longest > USUAL_EVENTS ? 2 * longest : USUAL_EVENTS;
}

/* A silence that was unusual counts no more than what was allowed: the source may have been broken,
 * and the next time it should be found, too. */
static double longer(const struct usual *u, double longest, double ended)
{
    if (u->now.learned_ms >= LEARNED_MS && ended > allowed(longest))
        ended = allowed(longest);
    return ended > longest ? ended : longest;
}

static void end_silence(struct usual *u)
{
    struct usual_now *n = &u->now;

    n->longest = longer(u, n->longest, n->expected);
    n->longest_overdue = longer(u, n->longest_overdue, n->overdue);
    n->expected = n->missing = n->pause_ms = n->overdue = 0;
}

bool usual_take(struct usual *u, int64_t now_ms, int64_t span_ms, double events)
{
    struct usual_now *n = &u->now;
    int64_t hour = now_ms / HOUR_MS;
    double hours = (double)span_ms / (double)HOUR_MS, kept;
    bool ended = false;

    if (n->hour != hour) {
        ended = n->hour && end_hour(u);
        n->hour = hour;
        n->count = n->observed_ms = 0;
    }
    rate_hour(u, hour);
    if (span_ms > 0) {
        kept = exp2(-(double)span_ms / HALF_LIFE_MS);
        n->longest *= kept;
        n->longest_overdue *= kept;
        n->learned_ms += (double)span_ms;
        n->observed_ms += (double)span_ms;
        n->count += events;
    }
    if (events > 0) {
        end_silence(u);
        return ended;
    }
    n->expected += u->quiet_rate * hours;
    n->missing += u->week_rate * hours;
    if (n->pause_ms >= PAUSE_MS)
        n->overdue += u->week_rate * hours;
    else if (n->missing > USUAL_EVENTS)
        n->pause_ms += (double)span_ms;
    return ended;
}

double usual_missing(const struct usual *u)
{
    const struct usual_now *n = &u->now;
    double soon = n->expected * USUAL_EVENTS / allowed(n->longest),
           late = n->overdue * USUAL_EVENTS / allowed(n->longest_overdue);

    if (n->learned_ms < LEARNED_MS)
        return 0;
    return soon > late ? soon : late;
}

/* ---- what is to come ---- */

/* Looks as often as the result needs: after a second at first, every few minutes in the end. */
static int64_t step_after(int64_t ms)
{
    int64_t step = ms / 64;

    return step < SECOND_MS       ? SECOND_MS
           : step > 5 * MINUTE_MS ? 5 * MINUTE_MS
                                  : step;
}

int64_t usual_until(const struct usual *u, int64_t now_ms, bool since_now,
                    double above)
{
    struct usual copy = *u;
    int64_t step, after = 0;

    if (since_now)
        usual_take(&copy, now_ms, 0, 1);
    while (after <= AHEAD_MS) {
        if (usual_missing(&copy) > above)
            return after;
        step = step_after(after);
        after += step;
        usual_take(&copy, now_ms + after, step, 0);
    }
    return -1;
}

double usual_rate(const struct usual *u, int hour)
{
    return slot_rate(u, hour_of_week(hour));
}

double usual_quiet_rate(const struct usual *u, int64_t now_ms)
{
    return quiet_rate(u, now_ms / HOUR_MS);
}

/* ---- bytes ---- */

void usual_hours_write(const struct usual *u, uint8_t out[USUAL_HOURS_BYTES])
{
    for (int i = 0; i < USUAL_HOURS; i++)
        for (int k = 0; k < USUAL_WEEKS; k++) {
            uint32_t bits;

            memcpy(&bits, &u->hours.rates[i][k], sizeof bits);
            for (int b = 0; b < 4; b++)
                *out++ = (uint8_t)(bits >> (8 * b));
        }
}

gr_rc usual_hours_read(struct usual *u, struct bytes in)
{
    struct usual_hours read;
    const uint8_t *at = in.p;

    if (in.n != USUAL_HOURS_BYTES)
        return GR_REFUSE;
    for (int i = 0; i < USUAL_HOURS; i++)
        for (int k = 0; k < USUAL_WEEKS; k++, at += 4) {
            uint32_t bits = 0;
            float rate;

            for (int b = 0; b < 4; b++)
                bits |= (uint32_t)at[b] << (8 * b);
            memcpy(&rate, &bits, sizeof rate);
            if (!(rate >= UNKNOWN && rate <= RATE_MAX))
                return GR_REFUSE;
            read.rates[i][k] = rate;
        }
    u->hours = read;
    u->rated_hour = -1;
    return GR_OK;
}
