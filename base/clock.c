#include "clock.h"
#include "log.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { STEP_MS = 1000, SLEW_PART = 100 };

/* What we write of RFC 3339: four digits of year, strftime pads none. */
#define YEAR_1000_MS (-30610224000000LL)
#define YEAR_9999_MS 253402300799999LL

static struct {
    bool started, test, stepped;
    int64_t wall_us, boot_us; /* the same instant on both */
    int64_t followed_us;      /* mono time of the last clock_follow() */
    int64_t test_ms;
} clk;

static int64_t read_us(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static void start(void)
{
    clk.wall_us = read_us(CLOCK_REALTIME);
    clk.boot_us = read_us(CLOCK_BOOTTIME);
    clk.followed_us = clk.boot_us;
    clk.started = true;
}

int64_t mono_us(void)
{
    return clk.test ? clk.test_ms * 1000 : read_us(CLOCK_BOOTTIME);
}

int64_t mono_ms(void)
{
    return mono_us() / 1000;
}

static int64_t now_us(void)
{
    if (!clk.started)
        start();
    return clk.wall_us + (read_us(CLOCK_BOOTTIME) - clk.boot_us);
}

int64_t now_ms(void)
{
    return clk.test ? clk.test_ms : now_us() / 1000;
}

int64_t system_ms(void)
{
    return clk.test ? clk.test_ms : read_us(CLOCK_REALTIME) / 1000;
}

void clock_follow(void)
{
    int64_t ours, off, boot, most;

    if (clk.test)
        return;
    ours = now_us();
    off = read_us(CLOCK_REALTIME) - ours;
    boot = read_us(CLOCK_BOOTTIME);
    most = (boot - clk.followed_us) / SLEW_PART;
    clk.followed_us = boot;
    if ((off > STEP_MS * 1000 || off < -STEP_MS * 1000) != clk.stepped) {
        clk.stepped = !clk.stepped;
        log_warn(NULL,
                 clk.stepped ? "the system clock was stepped; following slowly"
                             : "the system clock and ours agree again",
                 LI("off_ms", off / 1000));
    }
    if (off > most)
        off = most;
    if (off < -most)
        off = -most;
    clk.wall_us += off;
}

void clock_test_set(int64_t wall_ms)
{
    clk.test = true;
    clk.test_ms = wall_ms;
}

void clock_test_advance(int64_t ms)
{
    clk.test_ms += ms;
}

void clock_test_off(void)
{
    clk.test = false;
}

/* Most are of the same second as the one before. */
void rfc3339(char out[RFC3339_BYTES], int64_t wall_ms)
{
    static _Thread_local time_t last_s;
    static _Thread_local char last[RFC3339_BYTES] = "1970-01-01T00:00:00.000Z";
    time_t s;
    struct tm tm;
    int ms;

    if (wall_ms < YEAR_1000_MS)
        wall_ms = YEAR_1000_MS;
    if (wall_ms > YEAR_9999_MS)
        wall_ms = YEAR_9999_MS;
    ms = (int)(wall_ms % 1000 + 1000) % 1000;
    s = (time_t)((wall_ms - ms) / 1000);
    if (s != last_s) {
        gmtime_r(&s, &tm);
        strftime(last, sizeof last, "%Y-%m-%dT%H:%M:%S.000Z", &tm);
        last_s = s;
    }
    memcpy(out, last, RFC3339_BYTES);
    for (char *digit = strchr(out, 'Z') - 1; ms; digit--, ms /= 10)
        *digit = (char)('0' + ms % 10);
}

/* Exactly `n` digits at `*p`, moving it; -1: there are none. */
static int digits(const char **p, const char *end, int n)
{
    int value = 0;

    for (; n; n--, (*p)++) {
        if (*p == end || **p < '0' || **p > '9')
            return -1;
        value = value * 10 + (**p - '0');
    }
    return value;
}

static bool letter(const char **p, const char *end, char c)
{
    return *p < end && *(*p)++ == c;
}

/* Behind the seconds: ".123456" to milliseconds. */
static bool fraction(const char **p, const char *end, int *ms)
{
    int unit = 100;

    *ms = 0;
    if (*p == end || **p != '.')
        return true;
    for ((*p)++; *p < end && **p >= '0' && **p <= '9'; (*p)++, unit /= 10)
        *ms += (**p - '0') * unit;
    return (*p)[-1] != '.';
}

static bool offset(const char **p, const char *end, int *minutes)
{
    int sign, h, m;

    *minutes = 0;
    if (*p == end)
        return false;
    if (**p == 'Z' || **p == 'z')
        return ++*p == end;
    if (**p != '+' && **p != '-')
        return false;
    sign = *(*p)++ == '-' ? -1 : 1;
    h = digits(p, end, 2);
    if (h < 0 || h > 23 || !letter(p, end, ':'))
        return false;
    m = digits(p, end, 2);
    *minutes = sign * (h * 60 + m);
    return m >= 0 && m < 60 && *p == end;
}

bool rfc3339_parse(const char *text, size_t n, int64_t *wall_ms)
{
    const char *p = text, *end = text + n;
    struct tm tm = {0}, again;
    int ms, minutes;
    time_t at;

    tm.tm_year = digits(&p, end, 4) - 1900;
    if (tm.tm_year < -900 || !letter(&p, end, '-') ||
        (tm.tm_mon = digits(&p, end, 2) - 1) < 0 || !letter(&p, end, '-') ||
        (tm.tm_mday = digits(&p, end, 2)) < 1 || !letter(&p, end, 'T') ||
        (tm.tm_hour = digits(&p, end, 2)) < 0 || !letter(&p, end, ':') ||
        (tm.tm_min = digits(&p, end, 2)) < 0 || !letter(&p, end, ':') ||
        (tm.tm_sec = digits(&p, end, 2)) < 0 || !fraction(&p, end, &ms) ||
        !offset(&p, end, &minutes))
        return false;
    again = tm;
    at = timegm(&again); /* which puts the 31st of June into July */
    if (again.tm_mon != tm.tm_mon || again.tm_mday != tm.tm_mday ||
        again.tm_hour != tm.tm_hour || again.tm_min != tm.tm_min)
        return false;
    *wall_ms = (int64_t)at * 1000 + ms - (int64_t)minutes * MINUTE_MS;
    return true;
}
