/* network: parses addresses and networks, and compares them. */
#include "network.h"
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

bool address_parse(uint8_t out[16], const char *text)
{
    if (inet_pton(AF_INET6, text, out) == 1)
        return true;
    memcpy(out, mapped, sizeof mapped);
    return inet_pton(AF_INET, text, out + sizeof mapped) == 1;
}

bool address_is_v4(const uint8_t address[16])
{
    return memcmp(address, mapped, sizeof mapped) == 0;
}

void address_text(char out[INET6_ADDRSTRLEN], const uint8_t address[16])
{
    if (address_is_v4(address))
        inet_ntop(AF_INET, address + sizeof mapped, out, INET6_ADDRSTRLEN);
    else
        inet_ntop(AF_INET6, address, out, INET6_ADDRSTRLEN);
}

/* Only digits, without a leading zero. */
static bool parse_bits(const char *text, int max, int *bits)
{
    size_t n = strspn(text, "0123456789");

    if (n == 0 || n > 3 || text[n] || (n > 1 && *text == '0'))
        return false;
    *bits = (int)strtol(text, NULL, 10);
    return *bits <= max;
}

const char *network_parse(struct cidr *out, const char *text)
{
    size_t n = strcspn(text, "/");
    char address[INET6_ADDRSTRLEN] = "";
    int max = memchr(text, ':', n) ? 128 : 32, bits = max;

    if (n < sizeof address)
        memcpy(address, text, n);
    if (!address_parse(out->address, address))
        return "is not a network such as 10.0.0.0/8 or fd00::/8";
    if (text[n] && !parse_bits(text + n + 1, max, &bits))
        return "has no valid prefix length after the slash";
    out->prefix_bits = 128 - max + bits;
    for (int bit = out->prefix_bits; bit < 128; bit++)
        if (out->address[bit / 8] & (0x80 >> bit % 8))
            return "has bits set after its prefix (for 10.1.2.3/8 write "
                   "10.0.0.0/8)";
    return NULL;
}

void network_put(const struct cidr *network, struct buf *out)
{
    bool four = network->prefix_bits >= 96 && address_is_v4(network->address);
    char text[INET6_ADDRSTRLEN];

    if (four)
        address_text(text, network->address);
    else
        inet_ntop(AF_INET6, network->address, text, sizeof text);
    buf_printf(out, "%s/%d", text, network->prefix_bits - (four ? 96 : 0));
}

bool network_has(const struct cidr *network, const uint8_t address[16])
{
    int whole = network->prefix_bits / 8, rest = network->prefix_bits % 8;

    if (memcmp(network->address, address, (size_t)whole) != 0)
        return false;
    return !rest || !((network->address[whole] ^ address[whole]) >> (8 - rest));
}

bool host_is_local(const char *host, size_t n)
{
    char text[64] = ""; /* of an address */
    unsigned char address[4];

    if (n < sizeof text)
        memcpy(text, host, n);
    return !n || *host == '/' || *host == '@' ||
           strcmp(text, "localhost") == 0 || strcmp(text, "::1") == 0 ||
           (inet_pton(AF_INET, text, address) == 1 && address[0] == 127);
}
