/* signed_part: digests of the parts of a request that its signature covers. */
#include "signed_part.h"
#include "bounds.h"
#include "headers.h"
#include "signature.h"
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

bool verify_judges_time(const struct verify *v)
{
    return (v->time.kind != EXPR_NONE || v->form.kind == FORM_KV) &&
           v->past_ms != TOLERANCE_NONE;
}

bool verify_signs_time(const struct verify *v)
{
    const struct expr *e = &v->time;

    if (!verify_judges_time(v) || v->scheme == SCHEME_SHARED_TOKEN)
        return false;
    if (signature_signs(v->signed_content, "ts"))
        return true;
    for (; e && e->kind == EXPR_JSON; e = e->other)
        ;
    return !e && signature_signs(v->signed_content, "body");
}

bool signed_part_lasts(const struct source *source)
{
    const struct verify *v = &source->verify;

    return v->scheme != SCHEME_SHARED_TOKEN && !verify_signs_time(v);
}

/* The URL as the provider knows it, with the query of the request, and without the default
 * port, which a signed URL may contain or not (lib/intake/verify.c). */
static void put_url(struct buf *out, const struct source *source,
                    struct bytes headers)
{
    const char *url = source->public_url ? source->public_url : "";
    const char *port = strncasecmp(url, "https", 5) == 0 ? ":443" : ":80";
    const char *host = strstr(url, "://");
    size_t end = host ? (size_t)(host + 3 - url) + strcspn(host + 3, "/?")
                      : strcspn(url, "?");
    size_t base = strcspn(url, "?"), n = end;
    struct bytes query;

    if (n > strlen(port) &&
        memcmp(url + n - strlen(port), port, strlen(port)) == 0)
        n -= strlen(port);
    buf_put(out, url, n);
    buf_put(out, url + end, base - end);
    if (headers_get(headers, ":query", &query, NULL)) {
        buf_puts(out, "?");
        buf_put(out, query.p, query.n);
    }
}

/* Empty where there is none; verification has already checked it. */
static struct bytes value_of(const struct expr *e, struct subject *subject,
                             struct buf *into)
{
    const char *why;

    if (e->kind == EXPR_NONE || expr_value(e, subject, into, &why) != GR_OK)
        return (struct bytes){"", 0};
    return (struct bytes){into->data, into->len};
}

static gr_rc digest(const struct content *content,
                    uint8_t out[SIGNED_PART_BYTES])
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL);

    for (size_t i = 0; i < content->count && good; i++)
        good = EVP_DigestUpdate(ctx, content->parts[i].p, content->parts[i].n);
    if (!good || !EVP_DigestFinal_ex(ctx, out, NULL))
        die(EXIT_UNAVAILABLE, "libcrypto has no SHA-256");
    EVP_MD_CTX_free(ctx);
    return GR_OK;
}

gr_rc signed_part_digest(const struct source *source, struct subject *subject,
                         uint8_t out[SIGNED_PART_BYTES])
{
    const struct verify *v = &source->verify;
    struct buf found[4];
    struct content content;
    struct bytes given, method;
    struct signing s = {.method = {"POST", 4}, .body = subject->body};
    gr_rc rc;

    for (size_t i = 0; i < COUNT_OF(found); i++)
        buf_init(&found[i], i ? TEXT_MAX_BYTES : HEADERS_MAX_BYTES);
    if (signature_signs(v->signed_content, "url"))
        put_url(&found[0], source, subject->headers);
    s.url = (struct bytes){found[0].data ? found[0].data : "", found[0].len};
    if (headers_get(subject->headers, ":method", &method, NULL))
        s.method = method;
    if (signature_signs(v->signed_content, "id"))
        s.id = value_of(v->id.kind != EXPR_NONE ? &v->id : &source->id, subject,
                        &found[1]);
    if (signature_signs(v->signed_content, "token"))
        s.token = value_of(&v->token, subject, &found[2]);
    if (source->webhook_id)
        s.webhook_id = (struct bytes){source->webhook_id,
                                      strlen(source->webhook_id)};
    given = value_of(&v->body_digest, subject, &found[3]);
    s.no_form = given.n != 0;
    rc = found[0].failed ? GR_REFUSE
                         : content_make(&content, v->signed_content, &s);
    if (rc == GR_OK)
        rc = digest(&content, out);
    if (!found[0].failed)
        content_fini(&content);
    for (size_t i = 0; i < COUNT_OF(found); i++)
        buf_fini(&found[i]);
    return rc;
}
