/* remote: reads X-Forwarded-For from its end, as far as trusted proxies wrote it. */
#include "remote.h"
#include "headers.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { CHAIN_MAX_BYTES = 4096 };

static bool is_trusted(const struct cidr *trusted, size_t count,
                       const uint8_t address[16])
{
    for (size_t i = 0; i < count; i++)
        if (network_has(&trusted[i], address))
            return true;
    return false;
}

/* Several X-Forwarded-For headers are one list, in their order. */
static void collect(struct bytes headers, struct buf *chain)
{
    static const char wanted[] = "x-forwarded-for";
    struct bytes name, value;
    size_t at = 0;

    while (headers_next(headers, &at, &name, &value)) {
        if (name.n != sizeof wanted - 1 ||
            strncasecmp(name.p, wanted, name.n) != 0)
            continue;
        if (chain->len)
            buf_put(chain, ",", 1);
        buf_put(chain, value.p, value.n);
    }
}

/* "1.2.3.4", " [::1]:80", "1.2.3.4:80": some proxies add the port. */
static bool read_item(const char *from, size_t n, uint8_t out[16])
{
    char text[INET6_ADDRSTRLEN + 16], *p = text, *end;

    while (n && (*from == ' ' || *from == '\t'))
        from++, n--;
    while (n && (from[n - 1] == ' ' || from[n - 1] == '\t'))
        n--;
    if (n >= sizeof text || memchr(from, 0, n))
        return false;
    memcpy(text, from, n);
    text[n] = 0;
    if (*p == '[' && (end = strchr(p, ']'))) {
        *end = 0;
        p++;
    } else if ((end = strchr(p, ':')) && !strchr(end + 1, ':')) {
        *end = 0;
    }
    return address_parse(out, p);
}

void remote_find(const struct cidr *trusted, size_t count, struct bytes headers,
                 char address[INET6_ADDRSTRLEN])
{
    uint8_t now[16], before[16];
    struct buf chain;

    if (!count || !address_parse(now, address) ||
        !is_trusted(trusted, count, now))
        return;
    buf_init(&chain, CHAIN_MAX_BYTES);
    collect(headers, &chain);
    for (size_t end = chain.failed ? 0 : chain.len; end;) {
        size_t from = end;

        while (from && chain.data[from - 1] != ',')
            from--;
        if (!read_item(chain.data + from, end - from, before))
            break; /* the addresses before it cannot be trusted either */
        memcpy(now, before, sizeof now);
        if (!is_trusted(trusted, count, now))
            break;
        end = from ? from - 1 : 0;
    }
    buf_fini(&chain);
    address_text(address, now);
}
