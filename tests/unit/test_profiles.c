/* Tests of every profile with tests/vectors.json: values out of providers'
 * documentation and SDKs, and computed ones. P7.
 * grapnel-links: ingress */
#include "config.h"
#include "headers.h"
#include "profile.h"
#include "profile_doc.h"
#include "signature.h"
#include "split.h"
#include "verify.h"
#include <openssl/evp.h>

#include "configured.h"

/* ---- vectors ---- */

static json_t *vectors;

static const char *member(const json_t *v, const char *key, const char *other)
{
    const char *value = json_string_value(json_object_get(v, key));

    return value ? value : other;
}

static void pack(struct buf *packed, const json_t *v)
{
    const char *url = member(v, "url", ""), *query = strchr(url, '?'), *name;
    json_t *value, *one;
    size_t i;

    buf_init(packed, 1 << 20);
    if (query)
        headers_put(packed, ":query", text(query + 1));
    headers_put(packed, ":method", text(member(v, "method", "POST")));
    json_object_foreach(json_object_get(v, "headers"), name, value)
    {
        if (json_is_string(value))
            headers_put(packed, name, text(json_string_value(value)));
        json_array_foreach(value, i, one)
            headers_put(packed, name, text(json_string_value(one)));
    }
}

static struct bytes body_of(const json_t *v, uint8_t out[1 << 16])
{
    const char *base64 = json_string_value(json_object_get(v, "body_b64"));
    const char *body = member(v, "body", "");
    size_t n = json_string_length(json_object_get(v, "body"));

    if (!base64)
        return (struct bytes){body, n};
    n = strlen(base64);
    return (struct bytes){
        out, (size_t)EVP_DecodeBlock(out, (const uint8_t *)base64, (int)n) -
                 (n > 1 && base64[n - 1] == '=') -
                 (n > 1 && base64[n - 2] == '=')};
}

/* What grapnel check --provider prints, pasted into a source. */
static struct settings *as_custom(const char *provider, const char *secret,
                                  const char *url, const char *webhook_id)
{
    json_t *quoted = without_dollars(secret);
    char *secrets = json_dumps(quoted, JSON_ENCODE_ANY), *line, *rest;
    struct settings *s;
    struct buf yaml, errors;
    FILE *f = fopen("g.yaml", "w");

    buf_init(&yaml, 1 << 20);
    buf_init(&errors, 1 << 20);
    profile_as_custom(profile_find(provider), &yaml);
    fprintf(f,
            "sources:\n  - name: s\n    secrets: [%s]\n    public_url: %s\n"
            "    webhook_id: %s\n",
            secrets, url, webhook_id);
    for (line = strtok_r(yaml.data, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest))
        fprintf(f, "    %s\n", line);
    fclose(f);
    s = settings_load("g.yaml", &errors);
    if (!s)
        fail_msg("%s as custom: %s", provider, errors.data);
    buf_fini(&yaml);
    buf_fini(&errors);
    free(secrets);
    json_decref(quoted);
    return s;
}

static enum verification judge_vector(const json_t *v, bool custom)
{
    const char *secrets[] = {member(v, "secret", ""), NULL};
    char *url = gr_strdup(member(v, "url", URL));
    json_t *now = json_object_get(v, "now");
    uint8_t bytes[1 << 16];
    struct settings *s;
    struct buf packed;
    enum verification got;
    int secret;

    url[strcspn(url, "?")] = 0;
    s = custom ? as_custom(member(v, "provider", ""), secrets[0], url,
                           member(v, "webhook_id", "x"))
               : configured(member(v, "provider", ""), secrets, url,
                            member(v, "webhook_id", "x"));
    pack(&packed, v);
    got = verify(&s->sources[0], held(&packed), body_of(v, bytes),
                 now ? json_integer_value(now) * 1000 : NOW_MS, &secret);
    buf_fini(&packed);
    settings_free(s);
    free(url);
    return got;
}

static void every_vector_has_its_verdict(void **state)
{
    size_t i, wrong = 0;
    json_t *v;

    (void)state;
    assert_true(json_array_size(vectors) > 0);
    json_array_foreach(vectors, i, v)
    {
        enum verification got = judge_vector(v, false);
        bool valid = json_is_true(json_object_get(v, "valid"));

        if ((got == VERDICT_HOLDS) == valid)
            continue;
        print_error("%s: got %s, want %s: %s\n", member(v, "id", ""),
                    verdict_name(got), valid ? "holds" : "a refusal",
                    member(v, "note", ""));
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

static void every_profile_has_vectors(void **state)
{
    size_t k, found;
    json_t *v;

    (void)state;
    for (size_t i = 0; profile_name(i); i++) {
        found = 0;
        json_array_foreach(vectors, k, v)
            found += strcmp(member(v, "provider", ""), profile_name(i)) == 0;
        if (!found && !profile_is_custom(profile_find(profile_name(i))))
            fail_msg("%s has no vector", profile_name(i));
    }
}

/* A source that reads its event id elsewhere must not change what is signed. */
static void the_signed_id_is_the_profiles_own(void **state)
{
    (void)state;
    for (size_t i = 0; profile_name(i); i++) {
        const struct verify *v =
            &profile_source(profile_find(profile_name(i)))->verify;

        if (signature_signs(v->signed_content, "id") && v->id.kind == EXPR_NONE)
            fail_msg("%s signs the source's id", profile_name(i));
    }
}

/* ---- custom says all that a profile says ---- */

static void custom_can_express_every_profile(void **state)
{
    bool custom = true;
    size_t i, wrong = 0;
    json_t *v;

    (void)state;
    json_array_foreach(vectors, i, v)
    {
        enum verification got = judge_vector(v, custom);
        bool valid = json_is_true(json_object_get(v, "valid"));

        if ((got == VERDICT_HOLDS) != valid)
            print_error("%s as custom: got %s\n", member(v, "id", ""),
                        verdict_name(got));
        wrong += (got == VERDICT_HOLDS) != valid;
    }
    assert_int_equal(wrong, 0);
}

/* ---- and what it is taken for ---- */

/* Of the vectors' bodies, which are as the providers send them. */
static const struct {
    const char *vector, *id, *type, *workspace;
} understood_vectors[] = {
    {"discord-01", "", "1", "default"},
    {"gitlab-01", "f5e5f430-f57b-4e6e-9fac-d9128cd7232f", "push_hook",
     "default"},
    {"intercom-01", "notif_1", "conversation.user.created", "xyz"},
    {"linear-01", "234d1a4e-b617-4388-90fe-adc3633d6b72", "comment.create",
     "org-1"},
    {"mailgun-01", "CPgfbmQMTCKtHW6uIWtuVe", "delivered", "default"},
    {"omise-02", "evnt_test_5h2m123lxlx4z7yh9a2", "charge.complete", "default"},
    {"paddle-03", "evt_01hs0tqfme2xwb2hvwv87p8y3w", "customer.created",
     "default"},
    {"paypal-01", "WH-2WR32451HC0233532-67976317FL4543714",
     "PAYMENT.SALE.COMPLETED", "default"},
    {"plane-04", "", "issue.created", "d2d97c94-a6ad-4012-b526-5577c0d7c769"},
    {"sendgrid-01", "ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA",
     "dropped", "default"},
    {"sentry-01", "", "unknown", "a8e5d37a"},
    {"shopify-01", "", "orders/create", "shop.myshopify.com"},
    {"slack-01", "398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
     "/webhook-collect", "T1DC2JH3J"},
    {"stripe-01", "evt_test_webhook", "unknown", "default"},
    {"svix-01", "msg_p5jXN8AQM9LWM0D4loKWxJek", "unknown", "default"},
    {"twilio-01", "", "unknown", "default"},
    {"twilio-03", "", "unknown", "default"},
    {"typeform-01", "01H", "form_response", "lT4Z3j"},
    {"vercel-01", "uev_1", "deployment.created", "team_1"},
    {"zoom-01", "", "meeting.started", "AAAAAABBBB"},
};

static const json_t *vector_named(const char *id)
{
    json_t *v;
    size_t i;

    json_array_foreach(vectors, i,
                       v) if (strcmp(member(v, "id", ""), id) == 0) return v;
    fail_msg("there is no vector %s", id);
    return NULL;
}

static void requests_of_providers_are_parsed(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(understood_vectors); i++) {
        const json_t *v = vector_named(understood_vectors[i].vector);
        const char *provider = member(v, "provider", ""), *why = "";
        const struct source *source = profile_source(profile_find(provider));
        struct buf packed, id, type, workspace;
        struct split parts = {0};
        uint8_t bytes[1 << 16];
        struct subject s = {.source = "s", .provider = provider};

        pack(&packed, v);
        s.headers = held(&packed);
        s.body = body_of(v, bytes);
        if (source->batch && split_body(s.body, &parts, &why) == GR_OK &&
            parts.count)
            s.body = parts.parts[0];
        buf_init(&id, 4096);
        buf_put(&id, "", 0);
        buf_init(&type, 4096);
        buf_init(&workspace, 4096);
        if (profile_event_id(source, &s, &id, &why) != GR_OK ||
            profile_type(source, &s, &type, &why) != GR_OK ||
            profile_workspace(source, &s, &workspace, &why) != GR_OK)
            fail_msg("%s: %s", understood_vectors[i].vector, why);
        assert_string_equal(id.data, understood_vectors[i].id);
        assert_string_equal(type.data, understood_vectors[i].type);
        assert_string_equal(workspace.data, understood_vectors[i].workspace);
        split_fini(&parts);
        subject_fini(&s);
        buf_fini(&id);
        buf_fini(&type);
        buf_fini(&workspace);
        buf_fini(&packed);
    }
}

/* ---- docs/PROVIDERS.md ---- */

static char *page_path; /* absolute */

/* GRAPNEL_WRITE_DOCS=1 writes it anew. */
static void the_document_matches_the_table(void **state)
{
    struct buf want;
    char *there;
    FILE *f;

    (void)state;
    buf_init(&want, 1 << 20);
    profile_document(&want);
    assert_false(want.failed);
    if (getenv("GRAPNEL_WRITE_DOCS")) {
        f = fopen(page_path, "w");
        assert_non_null(f);
        fwrite(want.data, 1, want.len, f);
        fclose(f);
    }
    f = fopen(page_path, "r");
    assert_non_null(f);
    there = gr_alloc(want.max);
    there[fread(there, 1, want.max - 1, f)] = 0;
    fclose(f);
    assert_string_equal(there, want.data);
    free(there);
    buf_fini(&want);
}

static char *beside(const char *path)
{
    char here[4096];

    if (*__FILE__ == '/' || !getcwd(here, sizeof here))
        *here = 0;
    return gr_printf("%s%s%.*s%s", here, *here ? "/" : "",
                     (int)(strrchr(__FILE__, '/') + 1 - __FILE__), __FILE__,
                     path);
}

static int open_all(void **state)
{
    char *path = beside("../vectors.json");

    page_path = beside("../../docs/PROVIDERS.md");
    (void)state;
    vectors = json_load_file(path, 0, NULL);
    free(path);
    return !vectors || !mkdtemp(folder) || chdir(folder);
}

static int close_all(void **state)
{
    (void)state;
    json_decref(vectors);
    free(page_path);
    unlink("g.yaml");
    return chdir("/") || rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_has_its_verdict),
        cmocka_unit_test(every_profile_has_vectors),
        cmocka_unit_test(the_signed_id_is_the_profiles_own),
        cmocka_unit_test(custom_can_express_every_profile),
        cmocka_unit_test(requests_of_providers_are_parsed),
        cmocka_unit_test(the_document_matches_the_table),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
