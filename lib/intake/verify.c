/* verify: finds signature, time and id in a request, and checks them by the source's rules. */
#include "verify.h"
#include "bounds.h"
#include "clock.h"
#include "headers.h"
#include "signature.h"
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

enum { TIME_DIGITS_MAX = 15 };

const char *verdict_name(enum verification v)
{
    static const char *const names[] = {
#define V(NAME, text) text,
        VERDICTS(V)
#undef V
    };

    return names[v];
}

/* One request that is being judged. Values found in it borrow from it. */
struct judging {
    const struct source *source;
    const struct verify *v;
    struct subject subject;
    struct signing signing;
    struct bytes ts; /* of a kv form */
    struct candidate candidates[CANDIDATES_MAX];
    size_t count;
    struct buf found[4]; /* decoded signature, time, id and token */
    struct buf url;
    int64_t now_ms, sent_ms;
};

/* ---- find values ---- */

static struct bytes strip(struct bytes b)
{
    const char *p = b.p;

    while (b.n && (p[b.n - 1] == ' ' || p[b.n - 1] == '\t'))
        b.n--;
    while (b.n && (*p == ' ' || *p == '\t'))
        p++, b.n--;
    return (struct bytes){p, b.n};
}

/* The value of an expression, in `into` unless it is a header. */
static enum verification look(struct judging *j, const struct expr *e,
                              struct buf *into, struct bytes *value,
                              enum verification missing,
                              enum verification malformed)
{
    const char *why = expr_not_there;
    int count;

    for (; e->kind == EXPR_HEADER; e = e->other) {
        if (headers_get(j->subject.headers, e->text, value, &count)) {
            *value = strip(*value);
            return count != 1 ? malformed : value->n ? VERDICT_HOLDS : missing;
        }
        if (!e->other)
            return missing;
    }
    if (expr_value(e, &j->subject, into, &why) != GR_OK)
        return why == expr_not_there ? missing : malformed;
    *value = (struct bytes){into->data, into->len};
    return VERDICT_HOLDS;
}

static enum verification find_signature(struct judging *j, struct bytes *value)
{
    const struct string_list *names = &j->v->headers;
    int count;

    for (size_t i = 0; i < names->count; i++) {
        if (!headers_get(j->subject.headers, names->items[i], value, &count))
            continue;
        *value = strip(*value);
        if (count != 1) /* it is unclear which one to check */
            return VERDICT_SIGNATURE_MALFORMED;
        return value->n ? VERDICT_HOLDS : VERDICT_SIGNATURE_MISSING;
    }
    if (j->v->signature.kind == EXPR_NONE)
        return VERDICT_SIGNATURE_MISSING;
    return look(j, &j->v->signature, &j->found[0], value,
                VERDICT_SIGNATURE_MISSING, VERDICT_SIGNATURE_MALFORMED);
}

/* ---- one or several signatures ---- */

static bool behind(struct bytes *text, const char *prefix)
{
    size_t n = prefix ? strlen(prefix) : 0;

    if (text->n < n || (n && memcmp(text->p, prefix, n) != 0))
        return false;
    text->p = (const char *)text->p + n;
    text->n -= n;
    return true;
}

/* Keep a signature of the configured form; ignore others. false: there are too many. */
static bool add_candidate(struct judging *j, struct bytes text)
{
    if (!behind(&text, j->v->form.prefix) || !behind(&text, j->v->prefix))
        return true;
    if (j->count == signature_candidates_max(j->v))
        return false;
    if (signature_decode(j->v, text, &j->candidates[j->count]) == GR_OK)
        j->count++;
    return true;
}

static struct bytes next_item(struct bytes *rest, char separator)
{
    const char *p = rest->p, *end = memchr(p, separator, rest->n);
    size_t n = end ? (size_t)(end - p) : rest->n;

    *rest = end ? (struct bytes){end + 1, rest->n - n - 1}
                : (struct bytes){p + n, 0};
    return strip((struct bytes){p, n});
}

static bool is_key(struct bytes item, const char *key)
{
    size_t n = strlen(key);

    return item.n > n && memcmp(item.p, key, n) == 0 &&
           ((const char *)item.p)[n] == '=';
}

/* Read one pair. false: the time occurs twice, or there are too many signatures. */
static bool add_pair(struct judging *j, struct bytes item)
{
    const struct form *f = &j->v->form;
    const char *p = item.p;

    if (is_key(item, f->ts_key)) {
        if (j->ts.n)
            return false;
        j->ts = (struct bytes){p + strlen(f->ts_key) + 1,
                               item.n - strlen(f->ts_key) - 1};
    } else if (is_key(item, f->sig_key)) {
        return add_candidate(j,
                             (struct bytes){p + strlen(f->sig_key) + 1,
                                            item.n - strlen(f->sig_key) - 1});
    }
    return true;
}

static enum verification read_signatures(struct judging *j, struct bytes value)
{
    const struct form *f = &j->v->form;
    bool good = true;

    if (f->kind == FORM_PLAIN)
        good = add_candidate(j, value);
    while (f->kind != FORM_PLAIN && value.n && good) {
        struct bytes item = next_item(&value, f->separator);

        good = f->kind == FORM_KV ? add_pair(j, item)
                                  : !item.n || add_candidate(j, item);
    }
    return good && j->count ? VERDICT_HOLDS : VERDICT_SIGNATURE_MALFORMED;
}

/* ---- time ---- */

/* ^[1-9][0-9]{0,14}$, so that nothing overflows and each time has one spelling. */
static enum verification parse_time(struct bytes text, enum time_unit unit,
                                    int64_t *ms)
{
    const char *p = text.p;
    int64_t value = 0;

    if (!text.n)
        return VERDICT_TIMESTAMP_MISSING;
    if (unit == UNIT_RFC3339) {
        if (!rfc3339_parse(text.p, text.n, RFC3339_FULL, &value))
            return VERDICT_TIMESTAMP_MALFORMED;
        *ms = value / 1000;
        return VERDICT_HOLDS;
    }
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

static bool has_time(const struct verify *v)
{
    return v->time.kind != EXPR_NONE || v->form.kind == FORM_KV;
}

static enum verification find_time(struct judging *j)
{
    enum verification verdict = VERDICT_HOLDS;

    if (j->v->time.kind == EXPR_NONE)
        j->signing.ts = j->ts;
    else
        verdict = look(j, &j->v->time, &j->found[1], &j->signing.ts,
                       VERDICT_TIMESTAMP_MISSING, VERDICT_TIMESTAMP_MALFORMED);
    if (verdict == VERDICT_HOLDS)
        verdict = parse_time(j->signing.ts, j->v->time_unit, &j->sent_ms);
    return verdict;
}

static bool is_stale(const struct judging *j)
{
    int64_t skew = j->source->clock_skew_ms;
    int64_t past = j->v->past_ms ? j->v->past_ms : skew;
    int64_t future = j->v->future_ms ? j->v->future_ms : skew;

    return (past != TOLERANCE_NONE && j->now_ms - j->sent_ms > past) ||
           (future != TOLERANCE_NONE && j->sent_ms - j->now_ms > future);
}

/* ---- what was signed ---- */

/* The URL as the provider knows it: the configured one, with the query that came. Senders
 * differ in whether they write the default port: `port` makes the other form than the
 * configured one. false: there is no other form. */
static bool make_url(struct judging *j, bool port)
{
    const char *url = j->source->public_url ? j->source->public_url : "";
    const char *host = strstr(url, "://"), *after, *number;
    struct bytes query;
    size_t n, base = strcspn(url, "?");

    buf_reset(&j->url);
    after = host ? host + 3 + strcspn(host + 3, "/?") : url + base;
    n = (size_t)(after - url);
    number = strncmp(url, "https", 5) == 0 ? ":443" : ":80";
    if (port && n > strlen(number) &&
        memcmp(after - strlen(number), number, strlen(number)) == 0) {
        buf_put(&j->url, url, n - strlen(number));
    } else if (port && host &&
               strcspn(host + 3, ":") < strcspn(host + 3, "/?")) {
        return false; /* another port, or an IPv6 address */
    } else {
        buf_put(&j->url, url, n);
        buf_puts(&j->url, port ? number : "");
    }
    buf_put(&j->url, after, base - n);
    if (headers_get(j->subject.headers, ":query", &query, NULL)) {
        buf_puts(&j->url, "?");
        buf_put(&j->url, query.p, query.n);
    }
    j->signing.url = (struct bytes){j->url.data, j->url.len};
    return !j->url.failed;
}

/* A digest of the body that is part of the signed content must be correct. */
static enum verification check_digest(struct judging *j)
{
    static const struct expr digest = {.kind = EXPR_BODY_SHA256};
    struct bytes given;
    struct buf text, made;
    const char *why;
    bool same;

    if (j->v->body_digest.kind == EXPR_NONE)
        return VERDICT_HOLDS;
    buf_init(&text, TEXT_MAX_BYTES);
    buf_init(&made, TEXT_MAX_BYTES);
    j->signing.no_form = look(j, &j->v->body_digest, &text, &given,
                              VERDICT_SIGNATURE_MISSING,
                              VERDICT_SIGNATURE_MALFORMED) == VERDICT_HOLDS;
    same = !j->signing.no_form ||
           (expr_value(&digest, &j->subject, &made, &why) == GR_OK &&
            given.n == made.len &&
            CRYPTO_memcmp(given.p, made.data, made.len) == 0);
    buf_fini(&text);
    buf_fini(&made);
    return same ? VERDICT_HOLDS : VERDICT_SIGNATURE_MISMATCH;
}

/* Every secret is tried, also after one fits, so that the time does not reveal which. */
static int fitting_secret(struct judging *j)
{
    struct content content;
    int fits = -1;

    if (content_make(&content, j->v->signed_content, &j->signing) == GR_OK)
        for (size_t i = 0; i < j->source->secrets.count; i++)
            if (signature_fits(j->source->keys[i], &content, j->candidates,
                               j->count) &&
                fits < 0)
                fits = (int)i;
    content_fini(&content);
    return fits;
}

static enum verification check_signature(struct judging *j, int *secret)
{
    bool url = signature_signs(j->v->signed_content, "url");

    if (url && !make_url(j, false))
        return VERDICT_SIGNATURE_MISMATCH;
    *secret = fitting_secret(j);
    if (*secret < 0 && url && make_url(j, true))
        *secret = fitting_secret(j);
    return *secret < 0 ? VERDICT_SIGNATURE_MISMATCH : VERDICT_HOLDS;
}

/* ---- judge ---- */

static enum verification judge(struct judging *j, int *secret)
{
    /* Whether to read the time before checking the signature. If it is not part of the signed
     * content, it may be in the body, which is parsed only after the check. */
    bool first = j->v->time.kind == EXPR_NONE ||
                 j->v->time.kind == EXPR_HEADER ||
                 signature_signs(j->v->signed_content, "ts");
    struct bytes value;
    enum verification verdict;

    verdict = find_signature(j, &value);
    if (verdict == VERDICT_HOLDS && j->v->refuses_empty_body &&
        !j->signing.body.n)
        verdict = VERDICT_BODY_MISSING;
    if (verdict == VERDICT_HOLDS)
        verdict = read_signatures(j, value);
    if (verdict == VERDICT_HOLDS && has_time(j->v) && first)
        verdict = find_time(j);
    if (verdict == VERDICT_HOLDS && signature_signs(j->v->signed_content, "id"))
        verdict = look(j,
                       j->v->id.kind != EXPR_NONE ? &j->v->id : &j->source->id,
                       &j->found[2], &j->signing.id, VERDICT_ID_MISSING,
                       VERDICT_ID_MALFORMED);
    if (verdict == VERDICT_HOLDS &&
        signature_signs(j->v->signed_content, "token"))
        verdict = look(j, &j->v->token, &j->found[3], &j->signing.token,
                       VERDICT_SIGNATURE_MISSING, VERDICT_SIGNATURE_MALFORMED);
    if (verdict == VERDICT_HOLDS)
        verdict = check_digest(j);
    if (verdict == VERDICT_HOLDS)
        verdict = check_signature(j, secret);
    if (verdict == VERDICT_HOLDS && has_time(j->v) && !first)
        verdict = find_time(j);
    if (verdict == VERDICT_HOLDS && has_time(j->v) && is_stale(j))
        verdict = VERDICT_TIMESTAMP_STALE;
    return verdict;
}

enum verification verify(const struct source *source, struct bytes headers,
                         struct bytes body, int64_t now_ms, int *secret)
{
    struct judging j;
    enum verification verdict;
    struct bytes method;

    /* All fields but `candidates`: 4 KB that need no zeroes. */
    j.source = source;
    j.v = &source->verify;
    j.subject = (struct subject){.source = source->name,
                                 .provider = source->provider,
                                 .headers = headers,
                                 .body = body};
    j.signing = (struct signing){.method = {"POST", 4}, .body = body};
    if (headers_get(headers, ":method", &method, NULL))
        j.signing.method = method;
    if (source->webhook_id)
        j.signing.webhook_id = (struct bytes){source->webhook_id,
                                              strlen(source->webhook_id)};
    j.ts = (struct bytes){"", 0};
    j.count = 0;
    j.now_ms = j.sent_ms = now_ms;
    for (size_t i = 0; i < COUNT_OF(j.found); i++)
        buf_init(&j.found[i], TEXT_MAX_BYTES);
    buf_init(&j.url, HEADERS_MAX_BYTES);
    verdict = judge(&j, secret);
    for (size_t i = 0; i < COUNT_OF(j.found); i++)
        buf_fini(&j.found[i]);
    buf_fini(&j.url);
    subject_fini(&j.subject);
    return verdict;
}
