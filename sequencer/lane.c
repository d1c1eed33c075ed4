#include "lane.h"
#include "le64.h"
#include <openssl/evp.h>
#include <string.h>

int64_t lane_hash(const char *workspace)
{
    uint8_t raw[EVP_MAX_MD_SIZE] = {0};

    if (!EVP_Digest(workspace, strlen(workspace), raw, NULL, EVP_sha256(),
                    NULL))
        die(EXIT_STORAGE, "libcrypto has no SHA-256");
    return (int64_t)(get_le64(raw) >> 2) + 1;
}

int64_t lane_of(enum order_lanes ordered, int64_t hash)
{
    return ordered == LANES_ALL ? 0 : ordered == LANES_WORKSPACE ? hash : -hash;
}

bool lane_is_ordered(int64_t lane)
{
    return lane >= 0;
}

int lane_strange(enum order_lanes ordered, struct lane_range ranges[2])
{
    const struct lane_range below = {INT64_MIN, -1}, zero = {0, 0},
                            above = {1, INT64_MAX};

    ranges[0] = ordered == LANES_NONE ? zero : below;
    ranges[1] = ordered == LANES_WORKSPACE ? zero : above;
    return 2;
}
