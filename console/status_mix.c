/* status_mix: compares the statuses of the last one to two hours with those of the past. */
#include "status_mix.h"
#include "clock.h"
#include <math.h>
#include <string.h>

enum { PAST_LEAST = 200, WINDOW_LEAST = 30 /* responses */ };

#define HALF_LIFE_HOURS 168.0
#define IMPROBABLE      20.0 /* -ln of the probability */
#define SMALLEST_RISE   0.02
#define LEARNED_MS      ((double)MIX_DAYS * DAY_MS)

const char *const mix_words[MIX_COUNT] = {
#define C(NAME, word) word,
    MIX_CLASSES(C)
#undef C
};

static double sum(const double counts[MIX_COUNT])
{
    double all = 0;

    for (int i = 0; i < MIX_COUNT; i++)
        all += counts[i];
    return all;
}

/* The past share of a class; never 0, because what has not happened yet may happen. */
static double past_share(const struct mix *m, int class)
{
    return (m->past[class] + 0.5) / (sum(m->past) + MIX_COUNT * 0.5);
}

/* -ln of Chernoff's bound for a share of at least `is` of `n`, when `was` is usual. */
static double improbability(double n, double is, double was)
{
    double rest = is < 1 ? (1 - is) * log((1 - is) / (1 - was)) : 0;

    return n * (is * log(is / was) + rest);
}

bool mix_has_learned(const struct mix *m)
{
    return m->learned_ms >= LEARNED_MS && sum(m->past) >= PAST_LEAST;
}

static double window_count(const struct mix *m)
{
    return sum(m->last) + sum(m->now);
}

static double window_share(const struct mix *m, int class, double n)
{
    return (m->last[class] + m->now[class]) / n;
}

static bool is_improbable(const struct mix *m, int class, double n)
{
    double is = window_share(m, class, n), was = past_share(m, class);

    return is > was + SMALLEST_RISE && improbability(n, is, was) > IMPROBABLE;
}

static bool has_risen(const struct mix *m, int class, double n)
{
    return is_improbable(m, class, n) &&
           window_share(m, class, n) > 1.5 * m->peak[class] + SMALLEST_RISE;
}

/* The hour's largest share is usual from now on; but while the share is improbable, that waits until it is
 * not. It permits more than before, up to a limit, or one outage would hide the
 * next. */
static void settle_peak(struct mix *m, int class, double n)
{
    double permitted = 2 * (m->peak[class] + SMALLEST_RISE);
    double share = m->worst[class];

    if (mix_has_learned(m) && is_improbable(m, class, n))
        return;
    if (mix_has_learned(m) && share > permitted)
        share = permitted;
    if (share > m->peak[class])
        m->peak[class] = share;
    m->worst[class] = 0;
}

static void end_hour(struct mix *m)
{
    double n = window_count(m), kept = exp2(-1 / HALF_LIFE_HOURS);

    for (int i = MIX_2XX + 1; i < MIX_COUNT && n >= WINDOW_LEAST; i++)
        settle_peak(m, i, n);
    for (int i = 0; i < MIX_COUNT; i++) {
        m->past[i] = m->past[i] * kept + m->last[i];
        m->peak[i] *= kept;
        m->last[i] = m->now[i];
        m->now[i] = 0;
    }
    m->hour_ms = 0;
}

void mix_take(struct mix *m, int64_t span_ms, const double came[MIX_COUNT])
{
    double n;

    if (m->hour_ms >= (double)HOUR_MS)
        end_hour(m);
    m->hour_ms += (double)span_ms;
    m->learned_ms += (double)span_ms;
    for (int i = 0; i < MIX_COUNT; i++)
        m->now[i] += came[i];
    n = window_count(m);
    for (int i = MIX_2XX + 1; i < MIX_COUNT && n >= WINDOW_LEAST; i++)
        if (window_share(m, i, n) > m->worst[i])
            m->worst[i] = window_share(m, i, n);
}

struct mix_change mix_judge(const struct mix *m, double at_least)
{
    double n = window_count(m);
    struct mix_change change = {.known = mix_has_learned(m) && n >= at_least &&
                                         n > 0};

    for (int i = MIX_2XX + 1; change.known && i < MIX_COUNT; i++) {
        double is = window_share(m, i, n), was = past_share(m, i);

        if (has_risen(m, i, n) && is - was > change.by)
            change = (struct mix_change){true, i, is - was, was, is};
    }
    return change;
}

double mix_past_count(const struct mix *m)
{
    return sum(m->past);
}

static double share(double part, double all)
{
    return all > 0 ? part / all : 0;
}

double mix_past_share(const struct mix *m, enum mix_class class)
{
    return share(m->past[class], sum(m->past));
}

double mix_recent_count(const struct mix *m)
{
    return window_count(m);
}

double mix_recent_share(const struct mix *m, enum mix_class class)
{
    return share(m->last[class] + m->now[class], window_count(m));
}

static bool are_sane(const double all[MIX_COUNT])
{
    for (int i = 0; i < MIX_COUNT; i++)
        if (!isfinite(all[i]) || all[i] < 0)
            return false;
    return true;
}

bool mix_is_sane(const struct mix *m)
{
    return are_sane(m->now) && are_sane(m->last) && are_sane(m->past) &&
           are_sane(m->peak) && are_sane(m->worst) && isfinite(m->learned_ms) &&
           isfinite(m->hour_ms);
}
