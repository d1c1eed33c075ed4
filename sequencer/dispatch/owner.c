/* owner: computes which deliverer owns an endpoint, by rendezvous hashing. */
#include "owner.h"
#include "hash.h"

uint64_t owner_score(const char *endpoint, const char *deliverer)
{
    uint64_t h = hash_text(HASH_BEGIN_SHORT, endpoint);

    h = hash_name(h, deliverer);
    h ^= h >> 33; /* mixed, so that similar names get unrelated values */
    h *= 0xff51afd7ed558ccdULL;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53ULL;
    return h ^ h >> 33;
}
