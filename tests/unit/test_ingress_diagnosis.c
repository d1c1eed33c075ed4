/* Tests of diagnosis: each usual mistake, planted into a valid request of ten providers, is named
 * first; a request that nothing explains gets no finding; and no text has a secret. */
#include "clock.h"
#include "config.h"
#include "diagnosis.h"
#include "headers.h"
#include "profile.h"
#include "sample.h"
#include "signature.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NOW_MS 1700000000000LL
#define BODY                                                   \
    "{\"id\": \"evt_1\", \"name\": \"Ren\xc3\xa9\", \"url\": " \
    "\"https://a.example/b\", \"n\": 1.50}"
#define COMPACT                                                               \
    "{\"id\":\"evt_1\",\"name\":\"Ren\xc3\xa9\",\"url\":\"https://a.example/" \
    "b\",\"n\":1.50}"
#define FORM "From=%2B1555&Body=hello+world&EventType=delivered"

/* All of base64, so that each can be decoded by mistake. */
#define SECRET "c2VjcmV0LW9mLXRoaXMtc291cmNlLTAx"
#define OTHER  "c2VjcmV0LW9mLW90aGVyLXNvdXJjZTAy"
#define SPACED "c2VjcmV0LXdpdGgtYS1zcGFjZS0wMDMz "

static const char *const providers[] = {
    "stripe", "github",     "shopify", "slack",    "standard-webhooks",
    "square", "hubspot-v3", "omise",   "typeform", "twilio"};

static struct settings *settings;

static void add_source(json_t *list, const char *provider, const char *behind,
                       const char *secret)
{
    char *name = gr_printf("%s%s", provider, behind);
    char *url = gr_printf("https://hooks.example.com/in/%s", name);

    json_array_append_new(list, json_pack("{s:s,s:s,s:[s],s:s}", "name", name,
                                          "provider", provider, "secrets",
                                          secret, "public_url", url));
    free(name);
    free(url);
}

static bool is_raw(const char *provider)
{
    return strcmp(provider, "standard-webhooks") != 0 &&
           strcmp(provider, "omise") != 0;
}

static int load(void **state)
{
    static char folder[] = "/tmp/grapnel-test-diagnosis-XXXXXX";
    json_t *list = json_array(), *doc;
    struct buf errors;

    (void)state;
    clock_test_set(NOW_MS);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    for (size_t i = 0; i < COUNT_OF(providers); i++) {
        char other[64];

        add_source(list, providers[i], "", SECRET);
        /* of another environment; each is unlike the others */
        snprintf(other, sizeof other, "%.28s%04zu", OTHER, i);
        add_source(list, providers[i], "-test", other);
        if (is_raw(providers[i]))
            add_source(list, providers[i], "-spaced", SPACED);
    }
    json_array_append_new(list,
                          json_pack("{s:s,s:s,s:[s]}", "name", "lab",
                                    "provider", "gitlab", "secrets", "token"));
    doc = json_pack("{s:o}", "sources", list);
    assert_int_equal(json_dump_file(doc, "g.yaml", 0), 0);
    json_decref(doc);
    buf_init(&errors, 1 << 20);
    settings = settings_load("g.yaml", &errors);
    if (!settings)
        fail_msg("%s", errors.data);
    buf_fini(&errors);
    unlink("g.yaml");
    return rmdir(folder);
}

static int unload(void **state)
{
    (void)state;
    settings_free(settings);
    clock_test_off();
    return 0;
}

/* ---- a request, and what is changed in it ---- */

/* How the sender makes it; NULL or 0: as the source expects. */
struct sender {
    const char *secret, *signed_content, *prefix, *url;
    enum key_encoding secret_encoding;
    bool sets_encoding, sets_hash, sets_unit, swaps_encoding;
    enum scheme scheme;
    enum time_unit unit;
    int64_t late_ms;
    const char *provider; /* signs as this one does */
};

struct sent {
    struct buf headers, body;
};

static struct bytes text(const char *s)
{
    return (struct bytes){s, strlen(s)};
}

static const struct source *source_of(const char *provider, const char *behind)
{
    char *name = gr_printf("%s%s", provider, behind);
    const struct source *s = settings_source(settings, name);

    assert_non_null(s);
    free(name);
    return s;
}

static bool is_form(const struct source *s)
{
    return strcmp(s->provider, "twilio") == 0;
}

static struct sent send_it(const struct source *source,
                           const struct sender *how, const char *body)
{
    struct source by = *source;
    struct string_list secrets = {.items = (char *[]){NULL}, .count = 1};
    struct signature_key *key;
    struct event_sample sample;
    struct sample_options options = {
        .uuid = "0b5a4a6c-3a5c-4a58-9d3f-51f4d1f2a301",
        .now_ms = NOW_MS + how->late_ms,
        .has_body = true,
        .given = text(body)};
    struct sent out;
    const char *why;
    char error[200] = "";

    if (how->provider) {
        by.verify = profile_source(profile_find(how->provider))->verify;
        by.id = profile_source(profile_find(how->provider))->id;
        by.provider = (char *)(uintptr_t)how->provider;
        by.profile = profile_find(how->provider);
    }
    if (how->signed_content)
        by.verify.signed_content = (char *)(uintptr_t)how->signed_content;
    if (how->prefix)
        by.verify.prefix = (char *)(uintptr_t)how->prefix;
    if (how->url)
        by.public_url = (char *)(uintptr_t)how->url;
    if (how->sets_encoding)
        by.verify.secret_encoding = how->secret_encoding;
    if (how->sets_hash)
        by.verify.scheme = how->scheme;
    if (how->sets_unit)
        by.verify.time_unit = how->unit;
    if (how->swaps_encoding)
        by.verify.encoding = by.verify.encoding == ENCODING_HEX
                                 ? ENCODING_BASE64
                                 : ENCODING_HEX;
    secrets.items[0] = (char *)(uintptr_t)(how->secret
                                               ? how->secret
                                               : source->secrets.items[0]);
    by.secrets = secrets;
    assert_int_equal(
        signature_key_new(&by.verify, secrets.items[0], &key, &why), GR_OK);
    by.keys = &key;
    clock_test_set(NOW_MS + how->late_ms);
    assert_int_equal(sample_make(&sample, &by, &options, error), GR_OK);
    if (sample_sign(&sample, &by, NULL, error) != GR_OK)
        fail_msg("%s: %s", source->name, error);
    clock_test_set(NOW_MS);
    buf_init(&out.headers, 1 << 20);
    buf_init(&out.body, 1 << 20);
    if (sample.query.len)
        headers_put(&out.headers, ":query",
                    (struct bytes){sample.query.data, sample.query.len});
    headers_put(&out.headers, "Host", text("hooks.example.com"));
    buf_put(&out.headers, sample.headers.data, sample.headers.len);
    buf_put(&out.body, sample.body.data, sample.body.len);
    sample_fini(&sample);
    signature_key_free(key);
    return out;
}

static void set_body(struct sent *s, const char *body)
{
    buf_reset(&s->body);
    buf_puts(&s->body, body);
}

/* The header of the signature gets another name; NULL: it is gone. `again`: it is there twice. */
static void change_header(struct sent *s, const struct source *source,
                          const char *name, bool again)
{
    struct buf out;
    struct bytes n, v;
    size_t at = 0;

    buf_init(&out, 1 << 20);
    while (headers_next((struct bytes){s->headers.data, s->headers.len}, &at,
                        &n, &v)) {
        bool is = n.n == strlen(source->verify.headers.items[0]) &&
                  memcmp(n.p, source->verify.headers.items[0], n.n) == 0;
        char *own = gr_strndup(n.p, n.n);

        if (!is || name || again)
            headers_put(&out, is && name ? name : own, v);
        if (is && again)
            headers_put(&out, own, v);
        free(own);
    }
    buf_fini(&s->headers);
    s->headers = out;
}

static bool has_secret(const char *where)
{
    for (size_t i = 0; i < settings->source_count; i++) {
        const char *secret = settings->sources[i].secrets.items[0];

        if (strlen(secret) > 8 && strstr(where, secret))
            return true;
    }
    return false;
}

static struct diagnosis explain(const struct source *source, struct sent *s)
{
    char *path = gr_printf("/in/%s", source->name);
    struct diagnosis d;

    diagnose(&d, &(struct diagnosed){
                     .settings = settings,
                     .source = source,
                     .headers = {s->headers.data, s->headers.len},
                     .body = {s->body.data ? s->body.data : "", s->body.len},
                     .path = path,
                     .judged_ms = NOW_MS});
    free(path);
    for (size_t i = 0; i < d.count; i++) {
        assert_false(has_secret(d.findings[i].text));
        assert_false(has_secret(d.findings[i].fix));
    }
    buf_fini(&s->headers);
    buf_fini(&s->body);
    return d;
}

static int planted;

static void expect(const struct source *source, struct sent s,
                   enum reject_mistake mistake, const char *part)
{
    struct diagnosis d = explain(source, &s);

    if (!d.count || d.findings[0].mistake != mistake || !d.findings[0].certain)
        fail_msg("%s: %s is not named, but %s: %s", source->name,
                 mistake_word(mistake),
                 d.count ? mistake_word(d.findings[0].mistake) : "nothing",
                 d.count ? d.findings[0].text : "");
    if (d.count != 1)
        fail_msg("%s: beside %s: %s", source->name, mistake_word(mistake),
                 d.findings[1].text);
    if (part && !strstr(d.findings[0].text, part))
        fail_msg("%s: %s: no \"%s\" in: %s", source->name,
                 mistake_word(mistake), part, d.findings[0].text);
    assert_true(d.complete);
    diagnosis_fini(&d);
    planted++;
}

/* ---- the mistakes ---- */

static void plant_secrets(const struct source *s, const char *body)
{
    const struct source *test = source_of(s->provider, "-test");
    bool raw = is_raw(s->provider);
    char *name = gr_printf("the source %s-test", s->provider);

    expect(s,
           send_it(s, &(struct sender){.secret = test->secrets.items[0]}, body),
           MISTAKE_OTHER_SOURCE, name);
    free(name);
    expect(
        s,
        send_it(s,
                &(struct sender){.sets_encoding = true,
                                 .secret_encoding = raw ? KEY_BASE64 : KEY_RAW},
                body),
        MISTAKE_SECRET_ENCODING, NULL);
    expect(s,
           send_it(s,
                   &(struct sender){.secret = "undefined",
                                    .sets_encoding = true,
                                    .secret_encoding = KEY_RAW},
                   body),
           MISTAKE_SECRET_PLACEHOLDER, "undefined");
    if (raw) {
        char *trimmed = gr_strndup(SPACED, strlen(SPACED) - 1);

        expect(
            source_of(s->provider, "-spaced"),
            send_it(s,
                    &(struct sender){
                        .secret = trimmed,
                        .url = source_of(s->provider, "-spaced")->public_url},
                    body),
            MISTAKE_SECRET_SPACES, NULL);
        free(trimmed);
        expect(s, send_it(s, &(struct sender){.secret = "whsec_" SECRET}, body),
               MISTAKE_SECRET_PREFIX, NULL);
        expect(s, send_it(s, &(struct sender){.secret = SECRET "\n"}, body),
               MISTAKE_SECRET_SPACES, "newline");
    }
}

static void plant_signatures(const struct source *s, const char *body)
{
    bool sha1 = s->verify.scheme == SCHEME_HMAC_SHA1;
    struct sent sent;

    expect(s, send_it(s, &(struct sender){.swaps_encoding = true}, body),
           MISTAKE_SIGNATURE_ENCODING, NULL);
    expect(s,
           send_it(s,
                   &(struct sender){.sets_hash = true,
                                    .scheme = sha1 ? SCHEME_HMAC_SHA256
                                                   : SCHEME_HMAC_SHA1},
                   body),
           MISTAKE_SIGNATURE_ALGORITHM, sha1 ? "HMAC-SHA256" : "HMAC-SHA1");
    expect(
        s,
        send_it(s,
                &(struct sender){.prefix = s->verify.prefix && *s->verify.prefix
                                               ? ""
                                               : "sha256="},
                body),
        MISTAKE_SIGNATURE_PREFIX, NULL);
    sent = send_it(s, &(struct sender){0}, body);
    change_header(&sent, s, "X-Renamed-Signature", false);
    if (s->verify.form.kind != FORM_KV) /* it has the time, too */
        expect(s, sent, MISTAKE_HEADER_RENAMED, "X-Renamed-Signature");
    else
        buf_fini(&sent.headers), buf_fini(&sent.body);
    sent = send_it(s, &(struct sender){0}, body);
    change_header(&sent, s, NULL, false);
    expect(s, sent, MISTAKE_HEADER_MISSING, s->verify.headers.items[0]);
    sent = send_it(s, &(struct sender){0}, body);
    change_header(&sent, s, NULL, true);
    expect(s, sent, MISTAKE_HEADER_TWICE, s->verify.headers.items[0]);
}

static void plant_bodies(const struct source *s)
{
    struct sent sent;

    if (is_form(s)) /* its fields are signed, not its bytes */
        return;
    sent = send_it(s, &(struct sender){0}, COMPACT);
    set_body(&sent, BODY);
    expect(s, sent, MISTAKE_BODY_JSON, "without white space");
    sent = send_it(s, &(struct sender){0}, BODY);
    set_body(&sent, COMPACT);
    expect(s, sent, MISTAKE_BODY_JSON, "a space after each comma and colon");
    sent = send_it(s, &(struct sender){0}, COMPACT);
    set_body(&sent,
             "{\n  \"id\": \"evt_1\",\n  \"name\": \"Ren\\u00e9\",\n  "
             "\"url\": \"https:\\/\\/a.example\\/b\",\n  \"n\": 1.50\n}");
    expect(s, sent, MISTAKE_BODY_JSON, NULL);
    sent = send_it(s, &(struct sender){0}, BODY);
    set_body(&sent, BODY "\n");
    expect(s, sent, MISTAKE_BODY_SPACES, "at its end");
    sent = send_it(s, &(struct sender){0}, BODY "\r\n");
    set_body(&sent, BODY);
    expect(s, sent, MISTAKE_BODY_SPACES, "CR LF at its end");
    sent = send_it(s, &(struct sender){0}, BODY);
    set_body(&sent, "{\"id\": \"evt_1\", \"name\": \"Ren\xe9\", \"url\": "
                    "\"https://a.example/b\", \"n\": 1.50}");
    expect(s, sent, MISTAKE_BODY_CHARSET, "in UTF-8");
}

static void plant_times(const struct source *s, const char *body)
{
    bool ms = s->verify.time_unit == UNIT_MS;

    if (!signature_signs(s->verify.signed_content, "ts"))
        return;
    expect(s, send_it(s, &(struct sender){.late_ms = -20 * MINUTE_MS}, body),
           MISTAKE_TIME_OLD, "20 min 0 s before");
    expect(s, send_it(s, &(struct sender){.late_ms = 20 * MINUTE_MS}, body),
           MISTAKE_TIME_AHEAD, "20 min 0 s after");
    expect(s,
           send_it(s,
                   &(struct sender){.sets_unit = true,
                                    .unit = ms ? UNIT_S : UNIT_MS},
                   body),
           MISTAKE_TIME_UNIT, ms ? "in seconds" : "in milliseconds");
}

static void plant_urls(const struct source *s, const char *body)
{
    static const char *const urls[] = {
        "http://hooks.example.com/in/%s", "https://hooks.example.com/in/%s/",
        "https://hooks.example.com:8443/in/%s", "https://hooks.example.com"};

    if (!signature_signs(s->verify.signed_content, "url"))
        return;
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        char url[200], *at = strstr(urls[i], "%s");
        struct sent sent;

        snprintf(url, sizeof url, "%.*s%s%s",
                 (int)(at ? (size_t)(at - urls[i]) : strlen(urls[i])), urls[i],
                 at ? s->name : "", at ? at + 2 : "");
        sent = send_it(s, &(struct sender){.url = url}, body);
        if (i == 2) /* as a proxy reports it */
            headers_put(&sent.headers, "X-Forwarded-Host",
                        text("hooks.example.com:8443"));
        expect(s, sent, MISTAKE_PUBLIC_URL, url);
    }
}

static void plant_providers(const struct source *s, const char *body)
{
    const char *other = strcmp(s->provider, "github") == 0 ? "typeform"
                                                           : "github";

    expect(s, send_it(s, &(struct sender){.provider = other}, body),
           MISTAKE_OTHER_PROVIDER, other);
    if (strcmp(s->verify.signed_content, "{body}") != 0 &&
        s->verify.form.kind != FORM_KV && !is_form(s) &&
        s->verify.encoding == ENCODING_BASE64)
        expect(s,
               send_it(s, &(struct sender){.signed_content = "{body}"}, body),
               MISTAKE_SIGNED_CONTENT, "`{body}`");
}

static void test_planted_mistakes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(providers); i++) {
        const struct source *s = source_of(providers[i], "");
        const char *body = is_form(s) ? FORM : BODY;

        planted = 0;
        plant_secrets(s, body);
        plant_signatures(s, body);
        plant_bodies(s);
        plant_times(s, body);
        plant_urls(s, body);
        plant_providers(s, body);
        if (planted < 12)
            fail_msg("%s: only %d mistakes", providers[i], planted);
    }
}

static void test_a_valid_request_is_accepted_now(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(providers); i++) {
        const struct source *s = source_of(providers[i], "");

        expect(s, send_it(s, &(struct sender){0}, is_form(s) ? FORM : BODY),
               MISTAKE_ACCEPTED_NOW, NULL);
    }
}

/* A secret, a body and a signature that belong to nobody here: no claim. */
static void test_what_nothing_explains(void **state)
{
    static const char *const bodies[] = {
        BODY, COMPACT, "[1,2", "x", FORM, "\xff\xfe{}", "{\"a\":\"\\ud83d\"}"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(providers); i++)
        for (size_t k = 0; k < COUNT_OF(bodies); k++) {
            const struct source *s = source_of(providers[i], "");
            struct sent sent = send_it(
                s,
                &(struct sender){.secret = "bm9ib2R5LWhlcmUtaGFzLXRoaXMtMDQ0"},
                bodies[k]);
            struct diagnosis d = explain(s, &sent);

            if (d.count)
                fail_msg("%s: %s", s->name, d.findings[0].text);
            assert_true(d.complete);
            assert_true(d.tried > 20);
            diagnosis_fini(&d);
        }
}

static void test_two_mistakes_are_both_named(void **state)
{
    const struct source *s = source_of("github", "");
    struct sent sent = send_it(s, &(struct sender){.prefix = ""}, BODY);
    struct diagnosis d;

    (void)state;
    change_header(&sent, s, "X-Renamed", false);
    d = explain(s, &sent);
    assert_int_equal(d.count, 2);
    assert_int_equal(d.findings[0].mistake, MISTAKE_HEADER_RENAMED);
    assert_int_equal(d.findings[1].mistake, MISTAKE_SIGNATURE_PREFIX);
    diagnosis_fini(&d);
    s = source_of("slack", "");
    sent = send_it(
        s, &(struct sender){.secret = "undefined", .late_ms = -HOUR_MS}, BODY);
    d = explain(s, &sent);
    assert_int_equal(d.count, 2);
    assert_int_equal(d.findings[0].mistake, MISTAKE_SECRET_PLACEHOLDER);
    assert_int_equal(d.findings[1].mistake, MISTAKE_TIME_OLD);
    assert_non_null(strstr(d.findings[1].fix, "time zone"));
    diagnosis_fini(&d);
}

/* After an hour both are possible, a provider's retry more so. */
static void test_a_retry_is_not_called_a_time_zone(void **state)
{
    static const int64_t ages_ms[] = {30 * MINUTE_MS, HOUR_MS, 2 * HOUR_MS,
                                      6 * HOUR_MS};
    const struct source *s = source_of("slack", "");
    struct diagnosis d;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(ages_ms); i++) {
        struct sent sent = send_it(s, &(struct sender){.late_ms = -ages_ms[i]},
                                   BODY);

        d = explain(s, &sent);
        assert_int_equal(d.count, 1);
        assert_int_equal(d.findings[0].mistake, MISTAKE_TIME_OLD);
        assert_non_null(strstr(d.findings[0].fix, "retry"));
        assert_non_null(strstr(d.findings[0].fix, "clock_skew"));
        diagnosis_fini(&d);
    }
    struct sent sent = send_it(s, &(struct sender){.late_ms = -40 * MINUTE_MS},
                               BODY);

    d = explain(s, &sent);
    assert_null(strstr(d.findings[0].fix, "time zone"));
    diagnosis_fini(&d);
}

/* A hint, not a claim. */
static void test_the_mode_is_a_hint(void **state)
{
    const struct source *s = source_of("stripe", "");
    struct sent sent = send_it(s,
                               &(struct sender){.secret = "whsec_of_test_mode"},
                               "{\"id\": \"evt_1\", \"livemode\": false}");
    struct diagnosis d = explain(s, &sent);

    (void)state;
    assert_int_equal(d.count, 1);
    assert_int_equal(d.findings[0].mistake, MISTAKE_TEST_MODE);
    assert_false(d.findings[0].certain);
    assert_non_null(strstr(d.findings[0].text, "test mode"));
    diagnosis_fini(&d);
}

/* A large body ends the search before all was tried, and says so; what needs no search is found. */
static void test_large_bodies_are_bounded(void **state)
{
    const struct source *s = source_of("github", "");
    size_t n = 900 * 1024;
    char *body = gr_alloc(n + 1);
    struct sent sent;
    struct diagnosis d;

    (void)state;
    memset(body, ' ', n);
    memcpy(body, "{\"a\":\"", 6);
    memset(body + 6, 'x', n - 8);
    memcpy(body + n - 2, "\"}", 2);
    sent = send_it(s, &(struct sender){.secret = "nobody's"}, body);
    d = explain(s, &sent);
    assert_int_equal(d.count, 0);
    assert_false(d.complete);
    diagnosis_fini(&d);
    sent = send_it(s, &(struct sender){.secret = SECRET "\n"}, body);
    d = explain(s, &sent);
    assert_int_equal(d.count, 1);
    assert_int_equal(d.findings[0].mistake, MISTAKE_SECRET_SPACES);
    diagnosis_fini(&d);
    free(body);
}

/* A shared token is not compared; a missing header is seen. */
static void test_shared_tokens(void **state)
{
    const struct source *s = settings_source(settings, "lab");
    struct sent sent = {0};
    struct diagnosis d;

    (void)state;
    for (int has = 0; has < 2; has++) {
        buf_init(&sent.headers, 1000);
        buf_init(&sent.body, 1000);
        if (has)
            headers_put(&sent.headers, "X-Gitlab-Token", text("\u2026"));
        d = explain(s, &sent);
        assert_int_equal(d.count, !has);
        if (!has)
            assert_int_equal(d.findings[0].mistake, MISTAKE_HEADER_MISSING);
        diagnosis_fini(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planted_mistakes),
        cmocka_unit_test(test_a_valid_request_is_accepted_now),
        cmocka_unit_test(test_what_nothing_explains),
        cmocka_unit_test(test_two_mistakes_are_both_named),
        cmocka_unit_test(test_a_retry_is_not_called_a_time_zone),
        cmocka_unit_test(test_the_mode_is_a_hint),
        cmocka_unit_test(test_large_bodies_are_bounded),
        cmocka_unit_test(test_shared_tokens),
    };

    return cmocka_run_group_tests(tests, load, unload);
}
