/* http_head: checks a request's line and headers, strictly. */
#include "http_head.h"
#include <string.h>
#include <strings.h>

static bool is(struct bytes b, const char *text)
{
    return b.n == strlen(text) && strncasecmp(b.p, text, b.n) == 0;
}

/* The letters of RFC 9110's token; a table, as each letter of each name is looked up. */
static const bool token_letters[256] = {
    ['!'] = true,         ['#' ... '\''] = true, ['*'] = true,
    ['+'] = true,         ['-'] = true,          ['.'] = true,
    ['0' ... '9'] = true, ['A' ... 'Z'] = true,  ['^' ... 'z'] = true,
    ['|'] = true,         ['~'] = true,
};

static bool token(struct bytes name)
{
    const unsigned char *p = name.p;

    for (size_t i = 0; i < name.n; i++)
        if (!token_letters[p[i]])
            return false;
    return name.n > 0;
}

/* No control character except a tab; bytes above 127 are left to the application (RFC 9110,
 * obs-text). It reads to the end in any case, so that the compiler can compare many bytes at
 * once. */
static bool plain(struct bytes value)
{
    const unsigned char *p = value.p;
    unsigned char bad = 0;

    for (size_t i = 0; i < value.n; i++)
        bad |= (unsigned char)((p[i] < ' ') & (p[i] != '\t')) | (p[i] == 127);
    return !bad;
}

/* Name, colon, blanks, value, without a gap between them. Moves `*at` behind the end of the
 * line. */
static bool gapless(const struct head_field *f, const char **at)
{
    const char *name = f->name.p, *value = f->value.p;

    if (name != *at || value <= name + f->name.n)
        return false;
    for (const char *p = name + f->name.n + 1; p < value; p++)
        if (*p != ' ' && *p != '\t')
            return false; /* also if the value is far away */
    *at = value + f->value.n + 2;
    return true;
}

static bool whole(const struct head *h)
{
    const char *at = h->version + strlen(h->version) + 2;

    for (size_t i = 0; i < h->count; i++)
        if ((!h->parsed_strictly && !gapless(&h->fields[i], &at)) ||
            !token(h->fields[i].name) || !plain(h->fields[i].value))
            return false;
    return h->parsed_strictly || at + 2 == h->method + h->bytes;
}

static bool line_fits(const struct head *h)
{
    struct bytes url = {h->url, strlen(h->url)};

    return token((struct bytes){h->method, strlen(h->method)}) &&
           (h->parsed_strictly ||
            (h->url == h->method + strlen(h->method) + 1 &&
             h->raw_url_bytes == (size_t)(h->version - 1 - h->url))) &&
           plain(url) && !strpbrk(h->url, " \t") &&
           (strcmp(h->version, "HTTP/1.1") == 0 ||
            strcmp(h->version, "HTTP/1.0") == 0);
}

static bool digits(struct bytes b, uint64_t *out)
{
    const char *p = b.p;

    *out = 0;
    for (size_t i = 0; i < b.n; i++) {
        if (p[i] < '0' || p[i] > '9' || i > 17) /* 10^18 is large enough */
            return false;
        *out = *out * 10 + (uint64_t)(p[i] - '0');
    }
    return b.n > 0;
}

/* How often each header that ingress must understand occurs. */
struct seen_fields {
    int host, length, coding, expect;
    bool length_fits, chunked;
};

static void look(const struct head_field *f, struct seen_fields *seen,
                 struct head_facts *facts)
{
    if (is(f->name, "host")) {
        seen->host++;
    } else if (is(f->name, "content-length")) {
        seen->length++;
        seen->length_fits = digits(f->value, &facts->length);
    } else if (is(f->name, "transfer-encoding")) {
        seen->coding++;
        seen->chunked = is(f->value, "chunked");
    } else if (is(f->name, "content-encoding")) {
        facts->compressed |= f->value.n && !is(f->value, "identity");
    } else if (is(f->name, "expect")) {
        facts->expects |= is(f->value, "100-continue");
    }
}

enum head_fault head_check(const struct head *h, struct head_facts *facts)
{
    struct seen_fields seen = {0};
    bool old = strcmp(h->version, "HTTP/1.0") == 0;

    *facts = (struct head_facts){0};
    if (h->count > HEAD_MAX_COUNT || h->bytes > HEAD_MAX_BYTES)
        return HEAD_TOO_LARGE;
    if (!line_fits(h) || !whole(h))
        return HEAD_MALFORMED;
    for (size_t i = 0; i < h->count; i++)
        look(&h->fields[i], &seen, facts);
    if (seen.length + seen.coding > 1 || (seen.coding && old) ||
        (seen.coding && !seen.chunked) || (seen.length && !seen.length_fits))
        return HEAD_LENGTH_AMBIGUOUS;
    if (seen.host > 1)
        return HEAD_HOST_DOUBLED;
    if (!seen.host && !old)
        return HEAD_HOST_MISSING;
    facts->chunked = seen.coding > 0;
    facts->has_length = seen.length > 0;
    facts->expects &= !old;
    return HEAD_FINE;
}

const char *head_path(const struct head *h)
{
    const char *at = strstr(h->url, "://");
    size_t scheme = at ? (size_t)(at - h->url) : 0;

    if ((scheme != 4 || strncasecmp(h->url, "http", 4) != 0) &&
        (scheme != 5 || strncasecmp(h->url, "https", 5) != 0))
        return h->url;
    at += 3;
    at += strcspn(at, "/");
    return *at ? at : "/";
}
