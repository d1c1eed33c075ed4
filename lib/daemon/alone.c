/* alone: compares how long an active has reached nobody with what a standby reaches. */
#include "alone.h"
#include "clock.h"
#include <stdlib.h>

bool alone_should_hand_over(const struct alone_facts *f)
{
    return f->owned_ms >= f->tenure_ms && f->none_ms >= f->takeover_after_ms &&
           f->heir_ms >= f->takeover_after_ms;
}

int64_t alone_tenure_ms(void)
{
    const char *text = getenv("GRAPNEL_TEST_ALONE_MS");
    int64_t ms = text ? strtoll(text, NULL, 10) : 0;

    return ms > 0 ? ms : 10 * MINUTE_MS;
}
