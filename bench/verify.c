/* bench/verify: what checking a request costs, beside the one call of libcrypto
 * that it can't do without, in the same run. The bare call has a key that is
 * ready and a content that lies in one piece.
 *
 *     bench/verify [--build build/release]
 */
#include "verify.h"
#include "clock.h"
#include "headers.h"
#include "keypair.h"
#include "profile.h"
#include "sample.h"
#include "signature.h"
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 9, ROUND_NS = 20 * 1000 * 1000 };

struct bench {
    struct source source;
    struct signature_key *key;
    EVP_PKEY *private_key;
    struct event_sample sample;
    struct buf headers;
    struct bytes body;
    /* of the bare call */
    const EVP_MD *md; /* of an HMAC */
    const char *digest;
    char *content;
    size_t content_bytes;
    struct candidate signature;
    char *secret;
};

typedef void call_fn(struct bench *b);

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static double once(struct bench *b, call_fn *call, long n)
{
    int64_t from = now_ns();

    for (long i = 0; i < n; i++)
        call(b);
    return (double)(now_ns() - from) / (double)n;
}

/* Both by turns, the best of each: what else the machine does slows both. */
static void measure(struct bench *b, call_fn *ours, call_fn *bare,
                    double *our_ns, double *bare_ns)
{
    long n = (long)(ROUND_NS / once(b, ours, 20)) + 1;

    *our_ns = *bare_ns = 1e18;
    for (int i = 0; i < ROUNDS; i++) {
        double a = once(b, ours, n), c = once(b, bare, n);

        *our_ns = a < *our_ns ? a : *our_ns;
        *bare_ns = c < *bare_ns ? c : *bare_ns;
    }
}

static void our_verify(struct bench *b)
{
    int secret;

    if (verify(&b->source, (struct bytes){b->headers.data, b->headers.len},
               b->body, now_ms(), &secret) != VERDICT_HOLDS)
        die(EXIT_UNAVAILABLE, "%s does not hold", b->source.provider);
}

static void bare_hmac(struct bench *b)
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned n;

    if (!HMAC(b->md, b->secret, (int)strlen(b->secret),
              (const unsigned char *)b->content, b->content_bytes, mac, &n))
        die(EXIT_UNAVAILABLE, "no HMAC");
}

static void bare_public(struct bench *b)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();

    if (!EVP_DigestVerifyInit_ex(ctx, NULL, b->digest, NULL, NULL, b->key->pkey,
                                 NULL) ||
        EVP_DigestVerify(ctx, b->signature.bytes, b->signature.n,
                         (const unsigned char *)b->content,
                         b->content_bytes) != 1)
        die(EXIT_UNAVAILABLE, "the bare call does not hold");
    EVP_MD_CTX_free(ctx);
}

static void bare_digest(struct bench *b)
{
    unsigned char digest[EVP_MAX_MD_SIZE];

    if (!EVP_Digest(b->secret, strlen(b->secret), digest, NULL, EVP_sha256(),
                    NULL))
        die(EXIT_UNAVAILABLE, "no SHA-256");
}

/* What was signed, in one piece, and its signature. */
static void prepare_bare(struct bench *b)
{
    const struct verify *v = &b->source.verify;
    struct signing s = {
        .body = b->body,
        .ts = {"1700000000", 10},
        .id = {"7c9e6679-7425-40de-944b-e07fc1f90ae7", 36},
        .url = {b->source.public_url, strlen(b->source.public_url)},
        .method = {"POST", 4},
        .webhook_id = {"wh-1", 4}};
    struct content c;
    struct buf all;

    buf_init(&all, 1 << 24);
    if (content_make(&c, v->signed_content, &s) != GR_OK)
        die(EXIT_UNAVAILABLE, "no content");
    for (size_t i = 0; i < c.count; i++)
        buf_put(&all, c.parts[i].p, c.parts[i].n);
    if (b->private_key &&
        signature_sign(v, b->key, b->private_key, &c, &b->signature) != GR_OK)
        die(EXIT_UNAVAILABLE, "can't sign");
    content_fini(&c);
    b->content_bytes = all.len;
    b->content = buf_take(&all);
}

static char *make_body(size_t n)
{
    char *body = gr_alloc(n + 1);

    memset(body, 'x', n);
    memcpy(body, "{\"a\":\"", 6);
    memcpy(body + n - 2, "\"}", 2);
    return body;
}

static void open_key(struct bench *b)
{
    char why[200];
    const char *wrong;
    struct buf half;
    bool fresh;

    b->secret = gr_strdup("b25lIGtleSBvZiB0d2VudHktZm91ciBieXRlcw==");
    if (sample_needs_key(&b->source)) {
        b->private_key = keypair_open(&b->source, NULL, &fresh, why);
        buf_init(&half, 10000);
        if (keypair_public(&b->source, b->private_key, &half) != GR_OK)
            die(EXIT_UNAVAILABLE, "no public half");
        free(b->secret);
        b->secret = buf_take(&half);
    }
    if (signature_key_new(&b->source.verify, b->secret, &b->key, &wrong) !=
        GR_OK)
        die(EXIT_UNAVAILABLE, "%s", wrong);
    b->source.secrets = (struct string_list){&b->secret, 1};
    b->source.keys = &b->key;
}

static void run(const char *provider, const char *what, enum scheme scheme,
                size_t bytes)
{
    static const char *const digests[] = {
        [SCHEME_HMAC_SHA256] = "SHA256", [SCHEME_HMAC_SHA1] = "SHA1",
        [SCHEME_HMAC_SHA512] = "SHA512", [SCHEME_ED25519] = NULL,
        [SCHEME_ECDSA_P256] = "SHA256",  [SCHEME_RSA_SHA256] = "SHA256",
        [SCHEME_SHARED_TOKEN] = NULL};
    struct bench b = {.source = *profile_source(profile_find(provider)),
                      .digest = digests[scheme]};
    char *body = make_body(bytes), why[200];
    struct sample_options w = {.uuid = "7c9e6679-7425-40de-944b-e07fc1f90ae7",
                               .now_ms = now_ms(),
                               .has_body = true,
                               .given = {body, bytes}};
    call_fn *bare = scheme == SCHEME_SHARED_TOKEN ? bare_digest : bare_hmac;
    double ours, theirs;

    b.source.verify.scheme = scheme;
    b.source.public_url = gr_strdup("https://hooks.example.com/in/s");
    b.source.webhook_id = gr_strdup("wh-1");
    open_key(&b);
    if (sample_make(&b.sample, &b.source, &w, why) != GR_OK ||
        sample_sign(&b.sample, &b.source, b.private_key, why) != GR_OK)
        die(EXIT_UNAVAILABLE, "%s", why);
    buf_init(&b.headers, 1 << 20);
    if (b.sample.query.len)
        headers_put(&b.headers, ":query",
                    (struct bytes){b.sample.query.data, b.sample.query.len});
    buf_put(&b.headers, b.sample.headers.data, b.sample.headers.len);
    b.body = (struct bytes){b.sample.body.data, b.sample.body.len};
    prepare_bare(&b);
    b.md = b.digest ? EVP_get_digestbyname(b.digest) : NULL;
    if (b.private_key)
        bare = bare_public;
    measure(&b, our_verify, bare, &ours, &theirs);
    printf("%-14s %-20s %6zu B  %10.2f us  %10.2f us  %6.2f\n", what, provider,
           bytes, ours / 1000, theirs / 1000, ours / theirs);
    fflush(stdout);
    sample_fini(&b.sample);
    buf_fini(&b.headers);
    signature_key_free(b.key);
    EVP_PKEY_free(b.private_key);
    free(b.secret);
    free(b.content);
    free(b.source.public_url);
    free(b.source.webhook_id);
    free(body);
}

int main(void)
{
    static const struct {
        const char *what, *provider;
        enum scheme scheme;
    } all[] = {
        {"HMAC-SHA256", "github", SCHEME_HMAC_SHA256},
        {"HMAC-SHA256", "stripe", SCHEME_HMAC_SHA256},
        {"HMAC-SHA256", "standard-webhooks", SCHEME_HMAC_SHA256},
        {"HMAC-SHA1", "vercel", SCHEME_HMAC_SHA1},
        {"HMAC-SHA512", "github", SCHEME_HMAC_SHA512},
        {"Ed25519", "discord", SCHEME_ED25519},
        {"ECDSA P-256", "sendgrid", SCHEME_ECDSA_P256},
        {"RSA-2048", "paypal", SCHEME_RSA_SHA256},
        {"shared token", "gitlab", SCHEME_SHARED_TOKEN},
    };
    static const size_t sizes[] = {1024, 65536};

    printf("%-14s %-20s %8s  %13s  %13s  %6s\n", "scheme", "profile", "body",
           "verify()", "bare call", "ratio");
    for (size_t k = 0; k < COUNT_OF(sizes); k++)
        for (size_t i = 0; i < COUNT_OF(all); i++)
            run(all[i].provider, all[i].what, all[i].scheme, sizes[k]);
    return 0;
}
