/* fuzz_verify: requests at a source of each provider. The first byte chooses the
 * profile, the second one of three trials:
 *
 *   0  the input is the whole request: without the secret it is never accepted
 *   1  the input is headers before those of a signed request
 *   2  the input is the body of an otherwise signed request: where the scheme signs
 *      the whole body, it is accepted only if it is the body that was signed
 *
 * What each profile reads from a request (type, workspace, id, handshake) is read
 * from all of them, as from a request of somebody who knows the secret. */
#include "config.h"
#include "fuzz.h"
#include "handshake.h"
#include "headers.h"
#include "keypair.h"
#include "profile.h"
#include "sample.h"
#include "signature.h"
#include "verify.h"
#include <openssl/evp.h>
#include <unistd.h>

#define NOW_MS 1700000000000LL

enum { PROFILES_MAX = 64 };

struct trial {
    struct settings *settings;
    const struct source *source;
    struct event_sample sample;
    EVP_PKEY *key;
};

static struct trial trials[PROFILES_MAX];
static size_t trial_count;
static char folder[] = "/tmp/grapnel-fuzz-XXXXXX";

static struct bytes held(const struct buf *b)
{
    return (struct bytes){b->data ? b->data : "", b->len};
}

static struct settings *configured(const char *provider, const char *secret)
{
    json_t *doc = json_pack("{s:[{s:s,s:s,s:[s],s:s,s:s}]}", "sources", "name",
                            "s", "provider", provider, "secrets", secret,
                            "public_url", "https://hooks.example.com/in/s",
                            "webhook_id", "wh-1");
    struct settings *s;
    struct buf errors;

    fuzz_check(doc && json_dump_file(doc, "verify.yaml", 0) == 0);
    json_decref(doc);
    buf_init(&errors, 1 << 20);
    s = settings_load("verify.yaml", &errors);
    if (!s) {
        fprintf(stderr, "%s", errors.data);
        abort();
    }
    buf_fini(&errors);
    unlink("verify.yaml");
    return s;
}

static void open_trial(const char *provider)
{
    struct trial *t = &trials[trial_count++];
    const struct source *probe = profile_source(profile_find(provider));
    struct sample_options w = {.uuid = "7c9e6679-7425-40de-944b-e07fc1f90ae7",
                               .n = 1,
                               .now_ms = NOW_MS};
    struct buf secret;
    char why[200] = "";
    bool fresh;

    buf_init(&secret, 10000);
    if (sample_needs_key(probe)) {
        t->key = keypair_open(probe, NULL, &fresh, why);
        fuzz_check(keypair_public(probe, t->key, &secret) == GR_OK);
    } else {
        buf_puts(&secret, "b25lIGtleSBvZiB0d2VudHktZm91ciBieXRlcw==");
    }
    t->settings = configured(provider, secret.data);
    t->source = &t->settings->sources[0];
    buf_fini(&secret);
    if (sample_make(&t->sample, t->source, &w, why) != GR_OK ||
        sample_sign(&t->sample, t->source, t->key, why) != GR_OK) {
        fprintf(stderr, "%s: %s\n", provider, why);
        abort();
    }
}

static void enter(void)
{
    if (trial_count)
        return;
    fuzz_check(mkdtemp(folder) && chdir(folder) == 0);
    for (size_t i = 0; profile_name(i); i++)
        if (!profile_is_custom(profile_find(profile_name(i))))
            open_trial(profile_name(i));
    fuzz_check(chdir("/") == 0 && rmdir(folder) == 0);
}

static void try_reading(const struct source *source, struct bytes headers,
                        struct bytes body)
{
    struct subject s = {.source = source->name,
                        .provider = source->provider,
                        .headers = headers,
                        .body = body};
    struct buf out, reply;
    const char *why = NULL, *type = NULL;

    buf_init(&out, 4096);
    buf_init(&reply, 64 * 1024);
    if (profile_event_id(source, &s, &out, &why) != GR_OK)
        fuzz_check(why && *why);
    buf_reset(&out);
    if (profile_type(source, &s, &out, &why) == GR_OK)
        fuzz_check(out.len > 0);
    else
        fuzz_check(why && *why);
    buf_reset(&out);
    if (profile_workspace(source, &s, &out, &why) == GR_OK)
        fuzz_check(out.len > 0);
    else
        fuzz_check(why && *why);
    (void)handshake_response(source->verify.handshake, (struct bytes){"key", 3},
                             body, &reply, &type);
    buf_fini(&reply);
    buf_fini(&out);
    subject_fini(&s);
}

/* Names and values in turns, each up to a 0 byte; an empty name ends them. */
static void read_headers(struct fuzz_input *in, struct buf *headers)
{
    for (int i = 0; i < 64; i++) {
        char *name = fuzz_text(in);

        if (*name)
            headers_put(headers, name, fuzz_part(in));
        else
            i = 64;
        free(name);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    enum verification verdict;
    struct trial *t;
    struct bytes body = {0};
    struct buf headers;
    int secret = -1, way;

    enter();
    t = &trials[fuzz_byte(&in) % trial_count];
    way = fuzz_byte(&in) % 3;
    buf_init(&headers, 1 << 20);
    if (way < 2)
        read_headers(&in, &headers);
    if (way > 0) {
        if (t->sample.query.len)
            headers_put(&headers, ":query", held(&t->sample.query));
        buf_put(&headers, t->sample.headers.data, t->sample.headers.len);
    }
    if (way == 1) {
        struct fuzz_input sample = {(const uint8_t *)t->sample.body.data,
                                    t->sample.body.len};
        body = fuzz_rest(&sample);
    } else {
        body = fuzz_rest(&in);
    }
    verdict = verify(t->source, held(&headers), body, NOW_MS, &secret);
    if (verdict == VERDICT_HOLDS) {
        bool signs_all = t->source->verify.scheme != SCHEME_SHARED_TOKEN &&
                         t->source->verify.signed_content &&
                         signature_signs(t->source->verify.signed_content,
                                         "body");

        fuzz_check(secret == 0);
        fuzz_check(way != 0);
        if (way == 2 && signs_all)
            fuzz_check(body.n == t->sample.body.len &&
                       memcmp(body.p, t->sample.body.data, body.n) == 0);
    }
    try_reading(t->source, held(&headers), body);
    free((void *)body.p);
    buf_fini(&headers);
    return 0;
}
