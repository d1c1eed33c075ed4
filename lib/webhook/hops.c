/* hops: reads and writes the header that ends loops. */
#include "hops.h"
#include "headers.h"
#include <string.h>
#include <strings.h>

int hops_of(struct bytes headers)
{
    static const char header[] = HOPS_HEADER;
    struct bytes name, value;
    size_t at = 0;
    int most = 0;

    while (headers_next(headers, &at, &name, &value)) {
        const char *digit = value.p;
        int hops;

        if (name.n != sizeof header - 1 ||
            strncasecmp(name.p, header, name.n) != 0)
            continue;
        hops = value.n == 1 && *digit >= '0' && *digit <= '0' + HOPS_MAX
                   ? *digit - '0'
                   : HOPS_MAX + 1;
        if (hops > most)
            most = hops;
    }
    return most;
}

void hops_put(struct buf *headers, int hops)
{
    char digit = (char)('0' + hops);

    headers_put(headers, HOPS_HEADER, (struct bytes){&digit, 1});
}
