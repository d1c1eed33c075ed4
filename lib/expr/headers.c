/* headers: packs and reads lists of headers, and recognises secret ones. */
#include "headers.h"
#include <string.h>
#include <strings.h>

static void put_u32(char *to, size_t n)
{
    for (int i = 0; i < 4; i++, n >>= 8)
        to[i] = (char)(n & 0xff);
}

static size_t get_u32(const unsigned char *p)
{
    return (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 |
           (size_t)p[3] << 24;
}

void headers_put(struct buf *packed, const char *name, struct bytes value)
{
    size_t n = strlen(name);
    char *to;

    if (n > UINT32_MAX || value.n > UINT32_MAX) {
        packed->failed = true;
        return;
    }
    to = buf_add(packed, HEADERS_FRONT_BYTES + n + value.n);
    if (!to)
        return;
    put_u32(to, n);
    put_u32(to + 4, value.n);
    memcpy(to + HEADERS_FRONT_BYTES, name, n);
    if (value.n)
        memcpy(to + HEADERS_FRONT_BYTES + n, value.p, value.n);
}

bool headers_next(struct bytes packed, size_t *at, struct bytes *name,
                  struct bytes *value)
{
    const unsigned char *p = packed.p;
    size_t left, name_n, value_n;

    if (*at > packed.n || packed.n - *at < HEADERS_FRONT_BYTES)
        return false;
    p += *at;
    left = packed.n - *at - HEADERS_FRONT_BYTES;
    name_n = get_u32(p);
    value_n = get_u32(p + 4);
    if (name_n > left || value_n > left - name_n)
        return false;
    *name = (struct bytes){p + HEADERS_FRONT_BYTES, name_n};
    *value = (struct bytes){p + HEADERS_FRONT_BYTES + name_n, value_n};
    *at += HEADERS_FRONT_BYTES + name_n + value_n;
    return true;
}

bool headers_valid(struct bytes packed)
{
    struct bytes name, value;
    size_t at = 0;

    while (headers_next(packed, &at, &name, &value))
        if (name.n == 0)
            return false;
    return at == packed.n;
}

bool headers_get(struct bytes packed, const char *name, struct bytes *value,
                 int *count)
{
    struct bytes n, v;
    size_t at = 0, want = strlen(name);
    int found = 0;

    while (headers_next(packed, &at, &n, &v)) {
        if (n.n != want || strncasecmp(n.p, name, want) != 0)
            continue;
        if (found++ == 0)
            *value = v;
        if (!count)
            break;
    }
    if (count)
        *count = found;
    return found > 0;
}

bool headers_name_valid(const char *name)
{
    if (!*name)
        return false;
    for (; *name; name++)
        if (!(*name >= 'a' && *name <= 'z') &&
            !(*name >= 'A' && *name <= 'Z') &&
            !(*name >= '0' && *name <= '9') &&
            !strchr("!#$%&'*+-.^_`|~", *name))
            return false;
    return true;
}

static bool has_word(struct bytes name, const char *word)
{
    size_t n = strlen(word);
    const char *p = name.p;

    for (size_t i = 0; i + n <= name.n; i++)
        if (strncasecmp(p + i, word, n) == 0)
            return true;
    return false;
}

bool headers_secret(struct bytes name)
{
    static const char *const words[] = {"authorization", "cookie", "signature",
                                        "token",         "secret", "api-key",
                                        "api_key",       "apikey", "password"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has_word(name, words[i]))
            return true;
    return false;
}
