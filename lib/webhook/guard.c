/* guard: the lists of blocked networks, and the check of an address against them. */
#include "guard.h"
#include "alloc.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define V4(a, b, c, d, bits)                                                \
    {                                                                       \
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}, 96 + (bits) \
    }
#define V6(bits, ...)       \
    {                       \
        {__VA_ARGS__}, bits \
    }

static const struct cidr blocked_v4[] = {
    V4(0, 0, 0, 0, 8),        /* this network */
    V4(10, 0, 0, 0, 8),       /* private */
    V4(100, 64, 0, 0, 10),    /* carriers' NAT */
    V4(127, 0, 0, 0, 8),      /* loopback */
    V4(168, 63, 129, 16, 32), /* a cloud's host service */
    V4(169, 254, 0, 0, 16),   /* link-local, clouds' metadata */
    V4(172, 16, 0, 0, 12),    /* private */
    V4(192, 0, 0, 0, 24),     /* protocol assignments */
    V4(192, 0, 2, 0, 24),     /* documentation */
    V4(192, 88, 99, 0, 24),   /* 6to4 relays */
    V4(192, 168, 0, 0, 16),   /* private */
    V4(198, 18, 0, 0, 15),    /* benchmarks */
    V4(198, 51, 100, 0, 24),  /* documentation */
    V4(203, 0, 113, 0, 24),   /* documentation */
    V4(224, 0, 0, 0, 4),      /* multicast */
    V4(240, 0, 0, 0, 4),      /* reserved, broadcast */
};

static const struct cidr blocked_v6[] = {
    V6(96, 0),                                  /* ::, ::1, IPv4-compatible */
    V6(96, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff), /* translated IPv4 (SIIT) */
    V6(48, 0, 0x64, 0xff, 0x9b, 0,
       1),        /* local NAT64: the network decides where it leads */
    V6(64, 1, 0), /* discard */
    V6(64, 1, 0, 0, 0, 0, 0, 0, 1), /* dummy */
    V6(23, 0x20, 0x01),             /* protocol assignments, Teredo */
    V6(32, 0x20, 0x01, 0x0d, 0xb8), /* documentation */
    V6(16, 0x20, 0x02),             /* 6to4: any IPv4 may be inside */
    V6(20, 0x3f, 0xff),             /* documentation */
    V6(16, 0x5f, 0x00),             /* segment routing */
    V6(7, 0xfc),                    /* unique local */
    V6(10, 0xfe, 0x80),             /* link-local */
    V6(10, 0xfe, 0xc0),             /* site-local */
    V6(8, 0xff),                    /* multicast */
};

static bool in_any(const uint8_t address[16], const struct cidr *networks,
                   size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (network_has(&networks[i], address))
            return true;
    return false;
}

static void map_v4(uint8_t out[16], const void *v4)
{
    memset(out, 0, 10);
    memset(out + 10, 0xff, 2);
    memcpy(out + 12, v4, 4);
}

static bool is_private(const uint8_t address[16])
{
    /* Where only IPv6 is available, every IPv4 endpoint is reached by 64:ff9b::a.b.c.d
     * (NAT64, RFC 6052), a private one as well: the IPv4 address inside counts. */
    static const uint8_t nat64[12] = {0, 0x64, 0xff, 0x9b};
    uint8_t inside[16];

    if (memcmp(address, nat64, sizeof nat64) == 0) {
        map_v4(inside, address + 12);
        address = inside;
    }
    if (address_is_v4(address))
        return in_any(address, blocked_v4, COUNT_OF(blocked_v4));
    return in_any(address, blocked_v6, COUNT_OF(blocked_v6));
}

bool guard_allows_port(const struct guard *g, int port)
{
    for (size_t i = 0; i < g->ports.count; i++)
        if (g->ports.items[i] == port)
            return true;
    return g->ports.count == 0;
}

static bool allows(const struct guard *g, const uint8_t address[16])
{
    return g->allow.all || !is_private(address) ||
           in_any(address, g->allow.cidrs, g->allow.count);
}

bool guard_allows(const struct guard *g, const struct sockaddr *to)
{
    const struct sockaddr_in *v4 = (const void *)to;
    const struct sockaddr_in6 *v6 = (const void *)to;
    uint8_t address[16];
    int port;

    if (to->sa_family == AF_INET) {
        map_v4(address, &v4->sin_addr);
        port = ntohs(v4->sin_port);
    } else if (to->sa_family == AF_INET6) {
        memcpy(address, &v6->sin6_addr, 16);
        port = ntohs(v6->sin6_port);
    } else {
        return false;
    }
    return guard_allows_port(g, port) && allows(g, address);
}

int guard_describe(const struct sockaddr *to, char text[INET6_ADDRSTRLEN])
{
    const struct sockaddr_in *v4 = (const void *)to;
    const struct sockaddr_in6 *v6 = (const void *)to;

    text[0] = 0;
    if (to->sa_family == AF_INET) {
        inet_ntop(AF_INET, &v4->sin_addr, text, INET6_ADDRSTRLEN);
        return ntohs(v4->sin_port);
    }
    if (to->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &v6->sin6_addr, text, INET6_ADDRSTRLEN);
        return ntohs(v6->sin6_port);
    }
    return 0;
}

bool guard_allows_text(const struct guard *g, const char *text, int port)
{
    uint8_t address[16];

    return address_parse(address, text) && guard_allows_port(g, port) &&
           allows(g, address);
}

gr_rc guard_init(struct guard *g, bool allow_private, struct bytes cidrs)
{
    char *text = gr_strndup(cidrs.p ? cidrs.p : "", cidrs.n), *word, *rest;
    struct allow_private *a = &g->allow;
    gr_rc rc = GR_OK;

    *g = (struct guard){.allow.all = allow_private};
    for (word = strtok_r(text, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        a->cidrs = gr_realloc(a->cidrs, (a->count + 1) * sizeof *a->cidrs);
        if (network_parse(&a->cidrs[a->count], word)) {
            rc = GR_REFUSE;
            break;
        }
        a->count++;
    }
    free(text);
    return rc;
}

void guard_fini(struct guard *g)
{
    free(g->allow.cidrs);
    *g = (struct guard){0};
}
