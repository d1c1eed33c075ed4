/* spans: adds readings of the clock to spans, and computes ages from them. */
#include "spans.h"
#include "clock.h"

/* Longer than a restart takes; a step of the clock that is shorter makes an age wrong by no
 * more than this. */
#define STEP_MS HOUR_MS

static int64_t length(const struct spans *s, int i)
{
    return s->at[i].last_ms - s->at[i].first_ms;
}

/* Removes one span: never the newest, which still grows. The oldest, before which no step
 * is known, is removed only if all are long: then the machine has run for months and is off
 * every night. */
static void drop_one(struct spans *s)
{
    int min = 1;

    for (int i = 2; i < s->count - 1; i++)
        if (length(s, i) < length(s, min))
            min = i;
    if (length(s, min) >= STEP_MS)
        min = 0;
    for (int i = min; i + 1 < s->count; i++)
        s->at[i] = s->at[i + 1];
    s->count--;
}

bool spans_see(struct spans *s, int64_t now_ms)
{
    int64_t last = s->count ? s->at[s->count - 1].last_ms : 0;

    if (s->count && now_ms >= last - STEP_MS && now_ms <= last + STEP_MS) {
        if (now_ms > last)
            s->at[s->count - 1].last_ms = now_ms;
        return false;
    }
    if (s->count == SPANS_MAX)
        drop_one(s);
    s->at[s->count].first_ms = s->at[s->count].last_ms = now_ms;
    s->count++;
    return true;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Goes back through the spans as far as `keep_ms` reaches. If the clock was set back, a
 * date may be in several spans: the earliest moment is right for all of them. */
int64_t spans_before(const struct spans *s, int64_t now_ms, int64_t keep_ms)
{
    int64_t at = now_ms, left = keep_ms, before = now_ms - keep_ms;

    for (int i = s->count - 1; i > 0; i--) {
        int64_t ran = at > s->at[i].first_ms ? at - s->at[i].first_ms : 0;

        if (left <= ran)
            break;
        before = earlier(before, s->at[i].first_ms); /* all rows are young */
        left -= ran;
        at = s->at[i - 1].last_ms;
    }
    return earlier(before, at - left);
}

int64_t spans_after(const struct spans *s, int64_t now_ms, int64_t keep_ms)
{
    if (!s->count || now_ms - s->at[s->count - 1].first_ms < keep_ms)
        return INT64_MAX;
    return now_ms + STEP_MS;
}
