/* trace_context: parses and makes traceparent and tracestate. */
#include "trace_context.h"
#include "headers.h"
#include "siphash.h"
#include <string.h>
#include <strings.h>

enum {
    VERSION_AT = 0,
    TRACE_AT = 3,
    SPAN_AT = TRACE_AT + TRACE_ID_CHARS + 1,
    FLAGS_AT = SPAN_AT + SPAN_ID_CHARS + 1,
    LONG_MEMBER_BYTES = 128,
    KEY_MAX_BYTES = 256,
    VALUE_MAX_BYTES = 256,
    TENANT_MAX_BYTES = 241,
    SYSTEM_MAX_BYTES = 14,
};

/* Other programs must make the same ids, and they are not secret: the keys never change. */
static const struct siphash_key high = {0x6772617063747831, 1},
                                low = {0x6772617063747831, 2},
                                span = {0x6772617063747831, 3};

static bool is_name(struct bytes name, const char *header)
{
    return name.n == strlen(header) && strncasecmp(name.p, header, name.n) == 0;
}

/* ---- traceparent ---- */

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Only lower case. */
static bool is_hex(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (digit(p[i]) < 0)
            return false;
    return true;
}

static bool is_zero(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != '0')
            return false;
    return true;
}

/* A later version may have more fields after these. */
static bool is_valid(struct bytes value)
{
    const char *p = value.p;

    if (value.n < TRACEPARENT_CHARS || !is_hex(p + VERSION_AT, 2) ||
        memcmp(p, "ff", 2) == 0)
        return false;
    if (value.n > TRACEPARENT_CHARS &&
        (memcmp(p, "00", 2) == 0 || p[TRACEPARENT_CHARS] != '-'))
        return false;
    return p[TRACE_AT - 1] == '-' && p[SPAN_AT - 1] == '-' &&
           p[FLAGS_AT - 1] == '-' && is_hex(p + TRACE_AT, TRACE_ID_CHARS) &&
           !is_zero(p + TRACE_AT, TRACE_ID_CHARS) &&
           is_hex(p + SPAN_AT, SPAN_ID_CHARS) &&
           !is_zero(p + SPAN_AT, SPAN_ID_CHARS) && is_hex(p + FLAGS_AT, 2);
}

bool traceparent_read(struct bytes headers, char out[TRACEPARENT_CHARS + 1])
{
    struct bytes name, value, found = {"", 0};
    size_t at = 0;
    int count = 0;

    *out = 0;
    while (headers_next(headers, &at, &name, &value))
        if (is_name(name, TRACEPARENT_HEADER)) {
            found = value;
            count++;
        }
    if (count != 1 || !is_valid(found))
        return false;
    memcpy(out, found.p, TRACEPARENT_CHARS);
    memcpy(out, "00", 2);
    out[FLAGS_AT] = '0';
    out[FLAGS_AT + 1] = digit(out[FLAGS_AT + 1]) & 1 ? '1' : '0';
    out[TRACEPARENT_CHARS] = 0;
    return true;
}

static void put_hex(char *out, uint64_t value)
{
    static const char digits[] = "0123456789abcdef";

    for (int i = SPAN_ID_CHARS - 1; i >= 0; i--, value >>= 4)
        out[i] = digits[value & 15];
}

void trace_id_of(char out[TRACE_ID_CHARS + 1], struct bytes traceparent,
                 struct bytes event_id)
{
    if (traceparent.n == TRACEPARENT_CHARS) {
        memcpy(out, (const char *)traceparent.p + TRACE_AT, TRACE_ID_CHARS);
    } else {
        put_hex(out, siphash(high, 2, 4, event_id.p, event_id.n) | 1);
        put_hex(out + SPAN_ID_CHARS,
                siphash(low, 2, 4, event_id.p, event_id.n));
    }
    out[TRACE_ID_CHARS] = 0;
}

void trace_attempt_span(char out[SPAN_ID_CHARS + 1], struct bytes event_id,
                        struct bytes endpoint, uint64_t attempt)
{
    struct siphash_key key = span;
    uint64_t id;

    key.k1 ^= siphash(span, 2, 4, endpoint.p, endpoint.n);
    key.k0 ^= attempt << 8;
    id = siphash(key, 2, 4, event_id.p, event_id.n);
    put_hex(out, id ? id : 1);
    out[SPAN_ID_CHARS] = 0;
}

void traceparent_of_attempt(char out[TRACEPARENT_CHARS + 1],
                            struct bytes traceparent, struct bytes event_id,
                            struct bytes endpoint, uint64_t attempt)
{
    bool came = traceparent.n == TRACEPARENT_CHARS;

    memcpy(out, "00-", 3);
    trace_id_of(out + TRACE_AT, traceparent, event_id);
    out[SPAN_AT - 1] = '-';
    trace_attempt_span(out + SPAN_AT, event_id, endpoint, attempt);
    out[FLAGS_AT - 1] = '-';
    memcpy(out + FLAGS_AT, came ? (const char *)traceparent.p + FLAGS_AT : "01",
           2);
    out[TRACEPARENT_CHARS] = 0;
}

/* ---- tracestate ---- */

struct state {
    struct bytes members[TRACESTATE_MAX_COUNT];
    size_t count;
};

static size_t key_bytes(struct bytes member)
{
    const char *equals = memchr(member.p, '=', member.n);

    return equals ? (size_t)(equals - (const char *)member.p) : 0;
}

/* `may_be_digit`: the first one may be, too. */
static bool is_key_part(const char *p, size_t n, size_t max, bool may_be_digit)
{
    if (!n || n > max || (!may_be_digit && *p >= '0' && *p <= '9'))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!(p[i] >= 'a' && p[i] <= 'z') && !(p[i] >= '0' && p[i] <= '9') &&
            (!i || !p[i] || !strchr("_-*/", p[i])))
            return false;
    return true;
}

static bool is_key(const char *p, size_t n)
{
    const char *at = memchr(p, '@', n);
    size_t tenant = at ? (size_t)(at - p) : 0;

    if (!at)
        return is_key_part(p, n, KEY_MAX_BYTES, false);
    return is_key_part(p, tenant, TENANT_MAX_BYTES, true) &&
           is_key_part(at + 1, n - tenant - 1, SYSTEM_MAX_BYTES, false);
}

static bool is_value(const char *p, size_t n)
{
    if (!n || n > VALUE_MAX_BYTES || p[n - 1] == ' ')
        return false;
    for (size_t i = 0; i < n; i++)
        if (p[i] < 0x20 || p[i] > 0x7e || p[i] == ',' || p[i] == '=')
            return false;
    return true;
}

/* false: the whole list is invalid. */
static bool add_member(struct state *s, const char *p, size_t n)
{
    struct bytes member;
    size_t key;

    while (n && (*p == ' ' || *p == '\t'))
        p++, n--;
    while (n && (p[n - 1] == ' ' || p[n - 1] == '\t'))
        n--;
    if (!n)
        return true; /* an empty member is allowed */
    member = (struct bytes){p, n};
    key = key_bytes(member);
    if (s->count == TRACESTATE_MAX_COUNT || !is_key(p, key) ||
        !is_value(p + key + 1, n - key - 1))
        return false;
    for (size_t i = 0; i < s->count; i++)
        if (key_bytes(s->members[i]) == key &&
            memcmp(s->members[i].p, p, key) == 0)
            return false;
    s->members[s->count++] = member;
    return true;
}

static bool add_members(struct state *s, struct bytes value)
{
    const char *p = value.p, *end = p + value.n;

    for (;;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));

        if (!add_member(s, p, (size_t)((comma ? comma : end) - p)))
            return false;
        if (!comma)
            return true;
        p = comma + 1;
    }
}

static void drop_one(struct state *s)
{
    size_t which = s->count - 1;

    for (size_t i = s->count; i-- > 0;)
        if (s->members[i].n > LONG_MEMBER_BYTES) {
            which = i;
            break;
        }
    s->count--;
    memmove(&s->members[which], &s->members[which + 1],
            (s->count - which) * sizeof *s->members);
}

static size_t bytes_of(const struct state *s)
{
    size_t all = s->count ? s->count - 1 : 0;

    for (size_t i = 0; i < s->count; i++)
        all += s->members[i].n;
    return all;
}

void tracestate_put(struct bytes headers, struct buf *out)
{
    struct state s = {.count = 0};
    struct bytes name, value;
    struct buf text;
    size_t at = 0;

    while (headers_next(headers, &at, &name, &value))
        if (is_name(name, TRACESTATE_HEADER) && !add_members(&s, value))
            return;
    while (bytes_of(&s) > TRACESTATE_MAX_BYTES)
        drop_one(&s);
    if (!s.count)
        return;
    buf_init(&text, TRACESTATE_MAX_BYTES + 1);
    for (size_t i = 0; i < s.count; i++) {
        buf_puts(&text, i ? "," : "");
        buf_put(&text, s.members[i].p, s.members[i].n);
    }
    headers_put(out, TRACESTATE_HEADER, (struct bytes){text.data, text.len});
    buf_fini(&text);
}
