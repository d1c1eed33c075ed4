#include "clock.h"
#include "log.h"
#include <stdio.h>
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

void rfc3339(char out[RFC3339_BYTES], int64_t wall_ms)
{
    time_t s;
    struct tm tm;
    char day[24];
    int ms;

    if (wall_ms < YEAR_1000_MS)
        wall_ms = YEAR_1000_MS;
    if (wall_ms > YEAR_9999_MS)
        wall_ms = YEAR_9999_MS;
    ms = (int)(wall_ms % 1000 + 1000) % 1000;
    s = (time_t)((wall_ms - ms) / 1000);
    gmtime_r(&s, &tm);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, RFC3339_BYTES, "%s.%03dZ", day, ms);
}
