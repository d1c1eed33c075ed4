/* publication: reads the event of a producer out of its request. */
#include "publication.h"
#include "headers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Endpoints get a body that is made here, whatever content type the request had. */
static void copy_headers(struct bytes all, const char *content_type,
                         struct buf *out)
{
    static const char type[] = "Content-Type";
    struct bytes name, value;
    size_t at = 0;

    headers_put(out, type, (struct bytes){content_type, strlen(content_type)});
    while (headers_next(all, &at, &name, &value)) {
        char *text = gr_strndup(name.p, name.n);

        if (strcasecmp(text, type) != 0 && strcmp(text, PUBLISHED_PAYLOAD) != 0)
            headers_put(out, text, value);
        free(text);
    }
}

void publication_put_expires(struct buf *headers, int64_t at_ms)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)at_ms);

    headers_put(headers, PUBLISHED_EXPIRES, (struct bytes){text, (size_t)n});
}

int64_t publication_expires_ms(struct bytes headers)
{
    struct bytes name, value;
    size_t at = 0;
    char text[24] = "";

    if (!headers_next(headers, &at, &name, &value) ||
        name.n != strlen(PUBLISHED_EXPIRES) ||
        memcmp(name.p, PUBLISHED_EXPIRES, name.n) != 0 ||
        value.n >= sizeof text)
        return 0;
    memcpy(text, value.p, value.n);
    return strtoll(text, NULL, 10);
}

struct bytes publication_url(struct bytes headers, const char *endpoint)
{
    struct bytes name, value;
    size_t at = 0, n = strlen(endpoint);

    while (headers_next(headers, &at, &name, &value) && name.n &&
           *(const char *)name.p == ':')
        if (name.n == strlen(PUBLISHED_URL) &&
            memcmp(name.p, PUBLISHED_URL, name.n) == 0 && value.n > n + 1 &&
            memcmp(value.p, endpoint, n) == 0 &&
            ((const char *)value.p)[n] == ' ')
            return (struct bytes){(const char *)value.p + n + 1,
                                  value.n - n - 1};
    return (struct bytes){"", 0};
}

struct bytes publication_ordering_key(struct bytes headers)
{
    struct bytes name, value;
    size_t at = 0;

    while (headers_next(headers, &at, &name, &value) && name.n &&
           *(const char *)name.p == ':')
        if (name.n == strlen(PUBLISHED_ORDERING_KEY) &&
            memcmp(name.p, PUBLISHED_ORDERING_KEY, name.n) == 0)
            return value;
    return (struct bytes){"", 0};
}

static void put_url(struct buf *headers, const struct published *p)
{
    char *value = gr_printf(
        "%s %s", json_string_value(json_array_get(p->endpoints, 0)), p->url);

    headers_put(headers, PUBLISHED_URL, (struct bytes){value, strlen(value)});
    free(value);
}

gr_rc publication_read(struct publication *u, struct bytes headers,
                       struct bytes body, const char *event_id,
                       int64_t received_ms)
{
    struct published_wrong wrong;

    memset(u, 0, sizeof *u);
    buf_init(&u->headers, 2 * HEADERS_MAX_BYTES);
    buf_init(&u->body, body.n + 4096);
    if (published_read(&u->p, body, &wrong) != GR_OK) {
        snprintf(u->why, sizeof u->why, "%s%s%s", wrong.field,
                 *wrong.field ? ": " : "the body ", wrong.why);
        return GR_REFUSE;
    }
    if (u->p.id)
        u->key = (struct bytes){u->p.id, strlen(u->p.id)};
    else if (!headers_get(headers, "Idempotency-Key", &u->key, NULL))
        u->key = (struct bytes){"", 0};
    if (u->p.expires_in_ms)
        publication_put_expires(&u->headers, received_ms + u->p.expires_in_ms);
    if (u->p.url)
        put_url(&u->headers, &u->p);
    if (u->p.ordering_key)
        headers_put(
            &u->headers, PUBLISHED_ORDERING_KEY,
            (struct bytes){u->p.ordering_key, strlen(u->p.ordering_key)});
    copy_headers(
        headers,
        published_sent(&u->p, headers, event_id, received_ms, &u->body),
        &u->headers);
    u->is = !u->headers.failed && !u->body.failed;
    if (!u->is)
        snprintf(u->why, sizeof u->why, "it is too large");
    return u->is ? GR_OK : GR_REFUSE;
}

void publication_fini(struct publication *u)
{
    if (!u->headers.max) /* never read */
        return;
    published_fini(&u->p);
    buf_fini(&u->headers);
    buf_fini(&u->body);
    u->is = false;
}
