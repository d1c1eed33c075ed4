#include "remote.h"
#include "headers.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { CHAIN_MAX_BYTES = 4096 };

static bool read_address(const char *text, uint8_t out[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (inet_pton(AF_INET6, text, out) == 1)
        return true;
    memcpy(out, mapped, sizeof mapped);
    return inet_pton(AF_INET, text, out + sizeof mapped) == 1;
}

static void print_address(const uint8_t a[16], char out[INET6_ADDRSTRLEN])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool four = memcmp(a, mapped, sizeof mapped) == 0;

    inet_ntop(four ? AF_INET : AF_INET6, a + (four ? 12 : 0), out,
              INET6_ADDRSTRLEN);
}

static bool is_trusted(const struct cidr *trusted, size_t count,
                       const uint8_t address[16])
{
    for (size_t i = 0; i < count; i++)
        if (network_has(&trusted[i], address))
            return true;
    return false;
}

/* All X-Forwarded-For are one list, in their order. */
static void gather(struct bytes headers, struct buf *chain)
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
    return read_address(p, out);
}

void remote_find(const struct cidr *trusted, size_t count, struct bytes headers,
                 char address[INET6_ADDRSTRLEN])
{
    uint8_t now[16], before[16];
    struct buf chain;

    if (!count || !read_address(address, now) ||
        !is_trusted(trusted, count, now))
        return;
    buf_init(&chain, CHAIN_MAX_BYTES);
    gather(headers, &chain);
    for (size_t end = chain.failed ? 0 : chain.len; end;) {
        size_t from = end;

        while (from && chain.data[from - 1] != ',')
            from--;
        if (!read_item(chain.data + from, end - from, before))
            break; /* what stands before can't be believed either */
        memcpy(now, before, sizeof now);
        if (!is_trusted(trusted, count, now))
            break;
        end = from ? from - 1 : 0;
    }
    buf_fini(&chain);
    print_address(now, address);
}
