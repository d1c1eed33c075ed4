#include "when.h"
#include "clock.h"
#include "conf.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Exactly `n` digits; -1 otherwise. */
static int digits(const char **at, int n)
{
    int value = 0;

    for (int i = 0; i < n; i++, ++*at) {
        if (**at < '0' || **at > '9')
            return -1;
        value = value * 10 + (**at - '0');
    }
    return value;
}

static bool skip(const char **at, char c)
{
    if (**at != c)
        return false;
    ++*at;
    return true;
}

static bool parse_date(const char **at, struct tm *t)
{
    t->tm_year = digits(at, 4) - 1900;
    if (t->tm_year < 70 || !skip(at, '-'))
        return false;
    t->tm_mon = digits(at, 2) - 1;
    if (t->tm_mon < 0 || t->tm_mon > 11 || !skip(at, '-'))
        return false;
    t->tm_mday = digits(at, 2);
    return t->tm_mday >= 1 && t->tm_mday <= 31;
}

/* ".123…": any number of digits, three of them count. */
static bool parse_fraction(const char **at, int *ms)
{
    int weight = 100;

    if (!skip(at, '.'))
        return true;
    if (**at < '0' || **at > '9')
        return false;
    for (; **at >= '0' && **at <= '9'; ++*at, weight /= 10)
        *ms += (**at - '0') * weight;
    return true;
}

static bool parse_clock(const char **at, struct tm *t, int *ms)
{
    t->tm_hour = digits(at, 2);
    if (t->tm_hour < 0 || t->tm_hour > 23 || !skip(at, ':'))
        return false;
    t->tm_min = digits(at, 2);
    if (t->tm_min < 0 || t->tm_min > 59)
        return false;
    if (!skip(at, ':'))
        return true;
    t->tm_sec = digits(at, 2);
    return t->tm_sec >= 0 && t->tm_sec <= 60 && parse_fraction(at, ms);
}

/* Minutes east of UTC. */
static bool parse_zone(const char **at, int *minutes)
{
    int sign = **at == '-' ? -1 : 1, hours, rest;

    if (!**at || skip(at, 'Z') || skip(at, 'z'))
        return true;
    if (!skip(at, '+') && !skip(at, '-'))
        return false;
    hours = digits(at, 2);
    skip(at, ':');
    rest = hours < 0 ? -1 : digits(at, 2);
    *minutes = sign * (hours * 60 + rest);
    return hours >= 0 && hours <= 23 && rest >= 0 && rest <= 59;
}

static bool parse_time(const char *text, int64_t *out_ms)
{
    const char *at = text;
    int ms = 0, zone = 0, day;
    struct tm t = {0};

    if (!parse_date(&at, &t))
        return false;
    if (*at && !skip(&at, 'T') && !skip(&at, 't') && !skip(&at, ' '))
        return false;
    if (at != text + 10 && !parse_clock(&at, &t, &ms))
        return false;
    if (!parse_zone(&at, &zone) || *at)
        return false;
    day = t.tm_mday;
    *out_ms = (int64_t)timegm(&t) * SECOND_MS + ms - zone * MINUTE_MS;
    return t.tm_mday == day; /* timegm() would take the 31st of April */
}

gr_rc when_parse(const char *text, int64_t now_ms, int64_t *ms, char why[200])
{
    const char *wrong;
    int64_t ago_ms;

    if (parse_time(text, ms))
        return GR_OK;
    if (conf_parse_duration(text, &ago_ms, &wrong) == GR_OK) {
        *ms = ago_ms < now_ms ? now_ms - ago_ms : 0;
        return GR_OK;
    }
    snprintf(why, 200,
             "\"%.60s\" is neither a duration (30m, 24h, 7d: so long ago) nor "
             "a time (2026-11-21T10:00:00Z)",
             text);
    return GR_REFUSE;
}
