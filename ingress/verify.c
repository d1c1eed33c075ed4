#include "verify.h"
#include "bounds.h"
#include "clock.h"
#include "headers.h"
#include "signature.h"
#include <stdlib.h>
#include <string.h>

enum { TIME_DIGITS_MAX = 15 };

const char *verdict_name(enum verdict v)
{
    static const char *const names[] = {
#define V(NAME, text) text,
        VERDICTS(V)
#undef V
    };

    return names[v];
}

static struct bytes strip(struct bytes b)
{
    const char *p = b.p;

    while (b.n && (p[b.n - 1] == ' ' || p[b.n - 1] == '\t'))
        b.n--;
    while (b.n && (*p == ' ' || *p == '\t'))
        p++, b.n--;
    return (struct bytes){p, b.n};
}

static enum verdict find_signature(const struct verify *v, struct bytes headers,
                                   uint8_t mac[MAC_BYTES])
{
    struct bytes value;
    int count;

    if (!headers_get(headers, v->header, &value, &count))
        return VERDICT_SIGNATURE_MISSING;
    if (count != 1) /* which of the two? */
        return VERDICT_SIGNATURE_MALFORMED;
    value = strip(value);
    if (!value.n)
        return VERDICT_SIGNATURE_MISSING;
    return signature_parse(v, value, mac) == GR_OK
               ? VERDICT_HOLDS
               : VERDICT_SIGNATURE_MALFORMED;
}

/* ^[1-9][0-9]{0,14}$, so that nothing overflows and nothing has two spellings. */
static enum verdict parse_time(struct bytes text, enum time_unit unit,
                               int64_t *ms)
{
    const char *p = text.p;
    int64_t value = 0;

    if (!text.n)
        return VERDICT_TIMESTAMP_MISSING;
    if (text.n > TIME_DIGITS_MAX || *p == '0')
        return VERDICT_TIMESTAMP_MALFORMED;
    for (size_t i = 0; i < text.n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return VERDICT_TIMESTAMP_MALFORMED;
        value = value * 10 + (p[i] - '0');
    }
    *ms = unit == UNIT_MS ? value : value * SECOND_MS;
    return VERDICT_HOLDS;
}

static enum verdict time_from_header(const struct verify *v,
                                     struct bytes headers, struct bytes *text,
                                     int64_t *ms)
{
    int count;

    if (!headers_get(headers, v->time.text, text, &count))
        return VERDICT_TIMESTAMP_MISSING;
    if (count != 1)
        return VERDICT_TIMESTAMP_MALFORMED;
    *text = strip(*text);
    return parse_time(*text, v->time_unit, ms);
}

/* A time inside the body: read only once the signature over the body holds. */
static enum verdict time_from_body(const struct verify *v, struct bytes headers,
                                   struct bytes body, int64_t *ms)
{
    struct subject subject = {.headers = headers, .body = body};
    enum verdict verdict;
    const char *why;
    struct buf text;

    buf_init(&text, TEXT_MAX_BYTES);
    verdict = VERDICT_TIMESTAMP_MISSING;
    if (expr_value(&v->time, &subject, &text, &why) == GR_OK)
        verdict = parse_time((struct bytes){text.data, text.len}, v->time_unit,
                             ms);
    else if (why != expr_not_there)
        verdict = VERDICT_TIMESTAMP_MALFORMED;
    buf_fini(&text);
    subject_fini(&subject);
    return verdict;
}

/* Every secret is tried, also after one fits, so that the time that it takes
 * does not tell which. */
static int fitting_secret(const struct source *source, struct bytes content,
                          const uint8_t given[MAC_BYTES])
{
    uint8_t mac[MAC_BYTES];
    struct buf key;
    int fits = -1;

    buf_init(&key, TEXT_MAX_BYTES);
    for (size_t i = 0; i < source->secrets.count; i++) {
        buf_reset(&key);
        if (signature_key(&source->verify, source->secrets.items[i], &key) !=
                GR_OK ||
            !key.len)
            continue; /* the configuration refuses these */
        signature_mac(mac, (struct bytes){key.data, key.len}, content);
        if (signature_same(mac, given) && fits < 0)
            fits = (int)i;
    }
    if (key.data)
        explicit_bzero(key.data, key.cap);
    buf_fini(&key);
    return fits;
}

static enum verdict check_mac(const struct source *source, struct bytes ts,
                              struct bytes body, const uint8_t mac[MAC_BYTES],
                              int *secret)
{
    struct bytes content = body;
    struct buf made;

    buf_init(&made, BODY_MAX_BYTES + TEXT_MAX_BYTES);
    if (strcmp(source->verify.signed_content, "{body}") != 0) {
        if (signature_content(&source->verify, ts, body, &made) != GR_OK) {
            buf_fini(&made);
            return VERDICT_SIGNATURE_MISMATCH;
        }
        content = (struct bytes){made.data, made.len};
    }
    *secret = fitting_secret(source, content, mac);
    buf_fini(&made);
    return *secret < 0 ? VERDICT_SIGNATURE_MISMATCH : VERDICT_HOLDS;
}

enum verdict verify(const struct source *source, struct bytes headers,
                    struct bytes body, int64_t now_ms, int *secret)
{
    const struct verify *v = &source->verify;
    struct bytes ts = {"", 0};
    uint8_t mac[MAC_BYTES];
    enum verdict verdict;
    int64_t sent_ms = now_ms;

    verdict = find_signature(v, headers, mac);
    if (verdict == VERDICT_HOLDS && v->time.kind == EXPR_HEADER)
        verdict = time_from_header(v, headers, &ts, &sent_ms);
    if (verdict == VERDICT_HOLDS)
        verdict = check_mac(source, ts, body, mac, secret);
    if (verdict == VERDICT_HOLDS && v->time.kind != EXPR_HEADER &&
        v->time.kind != EXPR_NONE)
        verdict = time_from_body(v, headers, body, &sent_ms);
    if (verdict == VERDICT_HOLDS &&
        llabs(now_ms - sent_ms) > source->clock_skew_ms)
        verdict = VERDICT_TIMESTAMP_STALE;
    return verdict;
}
