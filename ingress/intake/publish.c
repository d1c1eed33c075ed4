/* publish: finds the producer by its token, and judges its event or queues its batch. */
#include "publish.h"
#include "headers.h"
#include "ingress.h"
#include "lines.h"
#include "published.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* "Bearer TOKEN", the word in any letter case. false: it is missing, or there are several. */
static bool find_token(const struct request *r, struct bytes *token)
{
    static const char word[] = "bearer ";
    struct bytes value;
    const char *p;
    int count;

    if (!headers_get(request_head(r), "Authorization", &value, &count) ||
        count != 1 || value.n < sizeof word ||
        strncasecmp(value.p, word, sizeof word - 1) != 0)
        return false;
    p = (const char *)value.p + sizeof word - 1;
    value.n -= sizeof word - 1;
    while (value.n && *p == ' ')
        p++, value.n--;
    *token = (struct bytes){p, value.n};
    return value.n > 0;
}

/* Mask the token: only the name of the header is stored. And mark the request as a producer's, for the time
 * when that is no longer configured. */
static void make_head(struct request *r)
{
    enum { MARK_MAX_BYTES = 64 };
    static const char name[] = "Authorization", hidden[] = "Bearer …";
    struct bytes all = request_head(r), n, value;
    struct buf kept;
    size_t at = 0;

    buf_init(&kept, r->headers.max + MARK_MAX_BYTES);
    while (headers_next(all, &at, &n, &value)) {
        char *text = gr_strndup(n.p, n.n);

        if (strcasecmp(text, name) == 0)
            value = (struct bytes){hidden, sizeof hidden - 1};
        headers_put(&kept, text, value);
        free(text);
    }
    headers_put(&kept, PUBLISHED_PAYLOAD,
                (struct bytes){PAYLOAD_EVENT, strlen(PAYLOAD_EVENT)});
    buf_fini(&r->headers);
    r->headers = kept;
}

enum response publish_admit(struct ingress *g, struct request *r)
{
    const struct settings *s = g->daemon.settings;
    const struct producer *p;
    struct bytes token;

    if (!s->producer_count)
        return RESPONSE_PRODUCERS_NONE;
    if (!find_token(r, &token))
        return RESPONSE_TOKEN_MISSING;
    p = settings_token(s, token);
    if (!p)
        return RESPONSE_TOKEN_UNKNOWN;
    snprintf(r->source, sizeof r->source, "%s", p->name);
    make_head(r);
    return RESPONSE_NONE;
}

enum response publish_malformed(struct request *r, const char *field,
                                const char *why)
{
    buf_printf(&r->own_body,
               "{\"error\":{\"code\":\"bad_request\",\"message\":\"%s: %s\","
               "\"field\":\"%s\"}}",
               field, why, field);
    return RESPONSE_EVENT_MALFORMED;
}

/* The configuration may have changed while the body came. */
enum response publish_take(struct ingress *g, struct request *r, bool batch)
{
    const struct producer *p = settings_producer(g->daemon.settings, r->source);
    struct bytes key = {"", 0};
    bool has_key;
    int count = 0;

    if (!p)
        return RESPONSE_TOKEN_UNKNOWN;
    has_key = headers_get(request_head(r), "Idempotency-Key", &key, &count);
    if (batch) {
        if (has_key)
            return publish_malformed(
                r, "Idempotency-Key",
                "is not allowed for a batch: set id in each line");
        r->lines = lines_new(); /* judged later, in pieces */
        return RESPONSE_NONE;
    }
    if (has_key && (count != 1 || !key.n || key.n > PUBLISHED_TEXT_MAX_BYTES))
        return publish_malformed(r, "Idempotency-Key",
                                 "must be sent once, with 1 to 255 bytes");
    return line_judge(g->daemon.settings, g->event_types, p, request_body(r),
                      key, 0, r->event_id, &r->own_body);
}
