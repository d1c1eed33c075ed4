/* rate: parses rates, and spaces items evenly. */
#include "rate.h"
#include "clock.h"
#include <stdlib.h>
#include <string.h>

enum {
    SLACK_US = 20 * 1000,
    US_PER_MS = 1000,
};

gr_rc rate_parse(const char *text, struct rate *r, const char **why)
{
    size_t digits = strspn(text, "0123456789");
    int64_t count = digits > 0 && digits < 10 ? atoll(text) : 0;
    const char *unit = text + digits;
    int64_t per_ms = strcmp(unit, "/s") == 0   ? SECOND_MS
                     : strcmp(unit, "/m") == 0 ? MINUTE_MS
                     : strcmp(unit, "/h") == 0 ? HOUR_MS
                                               : 0;

    *why = "is not a rate; write a number and a unit, such as 50/s, 600/m or "
           "1000/h";
    if (digits == 0 || !per_ms)
        return GR_REFUSE;
    *why = "must be from 1 to 1000000 per unit of time";
    if (count < 1 || count > RATE_COUNT_MAX)
        return GR_REFUSE;
    *r = (struct rate){.count = count, .per_ms = per_ms};
    return GR_OK;
}

/* Rounded up, so that the rate is never exceeded. */
int64_t rate_interval_us(const struct rate *r)
{
    return r->count > 0 ? (r->per_ms * US_PER_MS + r->count - 1) / r->count : 0;
}

int64_t rate_slack_us(const struct rate *r)
{
    int64_t interval = rate_interval_us(r);

    return interval > SLACK_US ? interval : SLACK_US;
}

bool bucket_has(const struct bucket *b, int64_t slack_us, int64_t now_us)
{
    return now_us >= bucket_ready_us(b, slack_us);
}

void bucket_take(struct bucket *b, int64_t interval_us, int64_t now_us)
{
    if (b->due_us < now_us)
        b->due_us = now_us;
    b->due_us += interval_us;
}

int64_t bucket_ready_us(const struct bucket *b, int64_t slack_us)
{
    return b->due_us - slack_us;
}
