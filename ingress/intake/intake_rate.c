/* intake_rate: measures the sequencer, and makes pauses of what it finds. */
#include "intake_rate.h"
#include "bounds.h"
#include "clock.h"

enum {
    LOOK_MS = 100,
    SMOOTHING = 8,
    PAUSE_MAX_US = 100 * 1000,
    /* A response waits for one pause per group of requests before it. */
    RESPONSE_MAX_US = 1000 * 1000,
    /* A late wake-up is made up for to this extent. */
    SLACK_US = 20 * 1000,
};

/* Turn on above the target, off below half of it. In between, the permitted rate brings the
 * wait back to the target: it is half of the measured rate at twice the target, five quarters
 * below it. */
static void decide(struct intake_rate *p, const struct intake_rate_facts *f)
{
    int64_t rate = p->per_s > 0 ? p->per_s : 1;

    p->wait_ms = (int64_t)f->backlog * SECOND_MS / rate;
    if (!f->responds || !p->per_s)
        p->on = false;
    else if (p->wait_ms > f->target_ms)
        p->on = true;
    else if (p->wait_ms < f->target_ms / 2)
        p->on = false;
    if (!p->on) {
        p->next_us = 0;
        return;
    }
    p->allowed = rate * f->target_ms / (p->wait_ms > 0 ? p->wait_ms : 1);
    if (p->allowed < rate / 2)
        p->allowed = rate / 2;
    else if (p->allowed > rate + rate / 4)
        p->allowed = rate + rate / 4;
    if (p->allowed < 1)
        p->allowed = 1;
}

void intake_rate_look(struct intake_rate *p, const struct intake_rate_facts *f)
{
    if (p->looked_ms && f->now_ms - p->looked_ms < LOOK_MS)
        return;
    /* Measure only while events wait: a sequencer without work shows nothing about its speed. */
    if (p->looked_ms && f->cursor >= p->cursor && f->backlog) {
        int64_t took_ms = f->now_ms - p->looked_ms;
        int64_t now = (int64_t)(f->cursor - p->cursor) * SECOND_MS / took_ms;

        p->per_s += p->per_s ? (now - p->per_s) / SMOOTHING : now;
    }
    p->looked_ms = f->now_ms;
    p->cursor = f->cursor;
    decide(p, f);
}

void intake_rate_stored(struct intake_rate *p, int64_t now_us, int64_t events,
                        int64_t connections)
{
    int64_t groups = (connections + TURN_MAX_COUNT - 1) / TURN_MAX_COUNT;
    int64_t max = RESPONSE_MAX_US / (groups > 0 ? groups : 1);

    if (!p->on)
        return;
    if (p->next_us < now_us - SLACK_US)
        p->next_us = now_us - SLACK_US;
    p->next_us += events * 1000000 / p->allowed;
    if (max > PAUSE_MAX_US)
        max = PAUSE_MAX_US;
    if (p->next_us > now_us + max)
        p->next_us = now_us + max;
}

int intake_rate_pause_ms(const struct intake_rate *p, int64_t now_us)
{
    if (!p->on || p->next_us <= now_us)
        return 0;
    return (int)((p->next_us - now_us + 999) / 1000);
}
