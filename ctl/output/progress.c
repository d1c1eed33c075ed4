/* progress: draws the progress bar of a command on standard error. */
#include "progress.h"
#include "clock.h"
#include "table.h"
#include <stdarg.h>
#include <stdio.h>

enum { WIDTH = 30, TELLING_MS = 500 };

void progress_begin(struct progress *p, bool shows)
{
    *p = (struct progress){.shows = shows, .begun_ms = mono_ms()};
}

int64_t progress_left_ms(double part, int64_t took_ms)
{
    if (part <= 0 || took_ms < TELLING_MS)
        return -1;
    return part >= 1 ? 0 : (int64_t)((double)took_ms * (1 - part) / part);
}

void progress_show(struct progress *p, double part, const char *fmt, ...)
{
    int64_t left = progress_left_ms(part, mono_ms() - p->begun_ms);
    int filled = (int)(part * WIDTH);
    char text[32];
    va_list ap;

    if (!p->shows)
        return;
    filled = filled < 0 ? 0 : filled > WIDTH ? WIDTH : filled;
    fprintf(stderr, "\r%.*s%.*s ", filled, "##############################",
            WIDTH - filled, "..............................");
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    if (left >= 0)
        fprintf(stderr, ", %s left",
                human_ms((left + 999) / SECOND_MS * SECOND_MS, text));
    fprintf(stderr, "\033[K");
    p->drawn = true;
}

void progress_end(struct progress *p)
{
    if (p->drawn)
        fprintf(stderr, "\n");
    p->drawn = false;
}
