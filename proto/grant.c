/* grant: computes the times of the lease, which tests can shorten. */
#include "grant.h"
#include <errno.h>
#include <stdlib.h>

enum { MIN_LEASE_MS = 50 };

int64_t grant_lease_ms(void)
{
    static int64_t lease_ms;
    const char *text;
    char *end;
    long long ms;

    if (lease_ms)
        return lease_ms;
    lease_ms = LEASE_MS;
    text = getenv("GRAPNEL_TEST_LEASE_MS");
    if (text) {
        errno = 0;
        ms = strtoll(text, &end, 10);
        if (!errno && end != text && !*end && ms >= MIN_LEASE_MS &&
            ms <= HOUR_MS)
            lease_ms = ms;
    }
    return lease_ms;
}

int64_t grant_heartbeat_ms(void)
{
    return grant_lease_ms() * HEARTBEAT_MS / LEASE_MS;
}

int64_t grant_margin_ms(void)
{
    return grant_lease_ms() * MARGIN_MS / LEASE_MS;
}

int64_t grant_silence_ms(int64_t longest_attempt_ms)
{
    return grant_lease_ms() + longest_attempt_ms + grant_margin_ms();
}
