/* clock: reads the clocks, and parses and prints times. */
#include "clock.h"
#include "log.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { STEP_MS = 1000, SLEW_PART = 100 };

/* rfc3339() writes years of four digits only; strftime does not pad shorter ones. */
#define YEAR_1000_MS (-30610224000000LL)
#define YEAR_9999_MS 253402300799999LL

static struct {
    bool started, test, stepped;
    int64_t wall_us, boot_us; /* the same instant on both clocks */
    int64_t followed_us;      /* mono time of the last clock_follow() */
    int64_t test_ms;
} clk;

static int64_t read_us(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

int64_t mono_us(void)
{
    return clk.test ? clk.test_ms * 1000 : read_us(CLOCK_BOOTTIME);
}

int64_t thread_us(void)
{
    return read_us(CLOCK_THREAD_CPUTIME_ID);
}

int64_t mono_ms(void)
{
    return mono_us() / 1000;
}

static int64_t now_us(void)
{
    if (!clk.started) {
        clk.wall_us = read_us(CLOCK_REALTIME);
        clk.boot_us = read_us(CLOCK_BOOTTIME);
        clk.followed_us = clk.boot_us;
        clk.started = true;
    }
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
    int64_t ours, off, boot, max;

    if (clk.test)
        return;
    ours = now_us();
    off = read_us(CLOCK_REALTIME) - ours;
    boot = read_us(CLOCK_BOOTTIME);
    max = (boot - clk.followed_us) / SLEW_PART;
    clk.followed_us = boot;
    if ((off > STEP_MS * 1000 || off < -STEP_MS * 1000) != clk.stepped) {
        clk.stepped = !clk.stepped;
        log_warn(
            NULL,
            clk.stepped
                ? "the system clock was changed; event times follow it slowly"
                : "event times agree with the system clock again",
            LI("off_ms", off / 1000));
    }
    if (off > max)
        off = max;
    if (off < -max)
        off = -max;
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

/* Most times are in the same second as the one before, so its text is kept. */
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

/* ---- reading RFC 3339 ---- */

struct reader {
    const char *p, *end;
    bool shortened; /* RFC3339_SHORT */
};

/* Reads exactly `n` digits; -1 if there are fewer. */
static int digits(struct reader *r, int n)
{
    int value = 0;

    for (; n; n--, r->p++) {
        if (r->p == r->end || *r->p < '0' || *r->p > '9')
            return -1;
        value = value * 10 + (*r->p - '0');
    }
    return value;
}

static bool skip_any(struct reader *r, const char *chars)
{
    if (r->p == r->end || !*r->p || !strchr(chars, *r->p))
        return false;
    r->p++;
    return true;
}

static bool read_date(struct reader *r, struct tm *tm)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year = digits(r, 4), month, day;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    if (year < 0 || !skip_any(r, "-"))
        return false;
    month = digits(r, 2);
    if (month < 1 || month > 12 || !skip_any(r, "-"))
        return false;
    day = digits(r, 2);
    tm->tm_year = year - 1900;
    tm->tm_mon = month - 1;
    tm->tm_mday = day;
    return day >= 1 && day <= days[month - 1] + (month == 2 && leap);
}

/* ".123456789": any number of digits, of which the first six count. */
static bool read_fraction(struct reader *r, int64_t *us)
{
    int64_t unit = 100000;
    const char *first;

    if (!skip_any(r, "."))
        return true;
    first = r->p;
    for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++, unit /= 10)
        *us += (*r->p - '0') * unit;
    return r->p > first;
}

static bool read_time(struct reader *r, struct tm *tm, int64_t *us)
{
    tm->tm_hour = digits(r, 2);
    if (tm->tm_hour < 0 || tm->tm_hour > 23 || !skip_any(r, ":"))
        return false;
    tm->tm_min = digits(r, 2);
    if (tm->tm_min < 0 || tm->tm_min > 59)
        return false;
    if (!skip_any(r, ":"))
        return r->shortened;
    tm->tm_sec = digits(r, 2);
    return tm->tm_sec >= 0 && tm->tm_sec <= 60 && read_fraction(r, us);
}

/* Seconds east of UTC. */
static bool read_offset(struct reader *r, int *east_s)
{
    int sign, hours, minutes;

    *east_s = 0;
    if (r->p == r->end)
        return r->shortened;
    if (skip_any(r, "Zz"))
        return true;
    sign = *r->p == '-' ? -1 : 1;
    if (!skip_any(r, "+-"))
        return false;
    hours = digits(r, 2);
    if (hours < 0 || hours > 23 || (!skip_any(r, ":") && !r->shortened))
        return false;
    minutes = digits(r, 2);
    *east_s = sign * (hours * 60 + minutes) * 60;
    return minutes >= 0 && minutes <= 59;
}

bool rfc3339_parse(const char *text, size_t n, enum rfc3339_form form,
                   int64_t *wall_us)
{
    struct reader r = {text, text + n, form == RFC3339_SHORT};
    struct tm tm = {0};
    int east_s = 0;
    bool leap_second;
    int64_t us = 0, s;

    if (!read_date(&r, &tm))
        return false;
    if ((r.p < r.end || !r.shortened) &&
        (!skip_any(&r, "Tt ") || !read_time(&r, &tm, &us) ||
         !read_offset(&r, &east_s)))
        return false;
    leap_second = tm.tm_sec == 60;
    s = (int64_t)timegm(&tm) - east_s;
    /* A leap second is the last second of a day in UTC. */
    if (r.p != r.end || (leap_second && s % (DAY_MS / SECOND_MS) != 0))
        return false;
    *wall_us = s * 1000000 + us;
    return true;
}
