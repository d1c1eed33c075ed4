#include "home.h"

static uint64_t mix_name(uint64_t h, const char *name)
{
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 1099511628211ULL;
    return h;
}

uint64_t home_score(const char *endpoint, const char *deliverer)
{
    uint64_t h = mix_name(1469598103934665603ULL, endpoint);

    h = mix_name((h ^ 0xff) * 1099511628211ULL, deliverer);
    h ^= h >> 33; /* splitmix: neighbours in, strangers out */
    h *= 0xff51afd7ed558ccdULL;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53ULL;
    return h ^ h >> 33;
}
