/* What is signed of a request has one digest, however the rest is changed. P7. */
#include "config.h"
#include "configured.h"
#include "headers.h"
#include "profile.h"
#include "signed_part.h"

static const char *const secrets[] = {"k", NULL};

static int folder_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    return chdir(folder);
}

static int folder_down(void **state)
{
    (void)state;
    unlink("g.yaml");
    return rmdir(folder);
}

/* Of a request with this query (NULL: none) and header. */
static void digest_of(const char *provider, const char *url, const char *query,
                      const char *header, const char *body, uint8_t out[32])
{
    struct settings *s = configured(provider, secrets, url, "w");
    struct subject subject = {.source = "s", .body = {body, strlen(body)}};
    struct buf headers;

    buf_init(&headers, 4096);
    if (query)
        headers_put(&headers, ":query", text(query));
    headers_put(&headers, "x-any", text(header));
    subject.headers = held(&headers);
    assert_int_equal(signed_part_digest(&s->sources[0], &subject, out), GR_OK);
    subject_fini(&subject);
    buf_fini(&headers);
    settings_free(s);
}

static void is_same(bool same, const uint8_t *a, const uint8_t *b)
{
    assert_int_equal(memcmp(a, b, 32) == 0, same);
}

static void only_the_body_counts_where_only_it_is_signed(void **state)
{
    uint8_t a[32], b[32];

    (void)state;
    digest_of("github", URL, NULL, "1", "{}", a);
    digest_of("github", URL, "x=1", "2", "{}", b);
    is_same(true, a, b);
    digest_of("github", URL, NULL, "1", "{ }", b);
    is_same(false, a, b);
}

static void a_url_counts_as_it_is_signed(void **state)
{
    uint8_t a[32], b[32];

    (void)state;
    digest_of("square", "https://h.example/in/s", "a=1", "1", "{}", a);
    digest_of("square", "https://h.example:443/in/s", "a=1", "1", "{}", b);
    is_same(true, a, b);
    digest_of("square", "https://h.example/in/s", "a=2", "1", "{}", b);
    is_same(false, a, b);
    digest_of("square", "https://h.example/in/s", NULL, "1", "{}", b);
    is_same(false, a, b);
    /* What is moved from the body into the query is signed just as before. */
    digest_of("square", "https://h.example/in/s", "a", "1", "=1{}", b);
    is_same(true, a, b);
}

static void a_form_counts_in_any_spelling(void **state)
{
    uint8_t a[32], b[32];

    (void)state;
    digest_of("twilio", URL, NULL, "1", "A=1&B=2", a);
    digest_of("twilio", URL, NULL, "1", "B=%32&A=1", b);
    is_same(true, a, b);
    digest_of("twilio", URL, NULL, "1", "A=1B2", b);
    is_same(true, a, b);
    digest_of("twilio", URL, NULL, "1", "A=1&B=3", b);
    is_same(false, a, b);
}

/* Each profile has replays only where an old request is not refused, and says then
 * by what its bodies are told apart. */
static void profiles_have_replays_where_it_is_useful(void **state)
{
    static const char *const with[] = {
        "plane",  "github", "shopify",   "typeform", "intercom",
        "vercel", "square", "bitbucket", "jira",     "sentry"};
    size_t count = 0;

    (void)state;
    for (size_t i = 0; profile_name(i); i++) {
        const struct source *s = profile_source(profile_find(profile_name(i)));
        bool has = s->dedupe.replays_ms > 0;

        if (profile_is_custom(s->profile))
            continue;
        count += has;
        assert_int_equal(has, s->dedupe.unique.kind != EXPR_NONE);
        if (has) {
            assert_true(signed_part_lasts(s));
            assert_int_equal(s->dedupe.replays_ms, 30LL * 24 * 3600 * 1000);
        }
    }
    assert_int_equal(count, COUNT_OF(with));
    for (size_t i = 0; i < COUNT_OF(with); i++)
        assert_true(profile_source(profile_find(with[i]))->dedupe.replays_ms >
                    0);
    assert_false(signed_part_lasts(profile_source(profile_find("stripe"))));
    assert_false(signed_part_lasts(profile_source(profile_find("linear"))));
    assert_false(signed_part_lasts(profile_source(profile_find("gitlab"))));
    assert_false(signed_part_lasts(profile_source(profile_find("paypal"))));
    assert_true(signed_part_lasts(profile_source(profile_find("twilio"))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_body_counts_where_only_it_is_signed),
        cmocka_unit_test(a_url_counts_as_it_is_signed),
        cmocka_unit_test(a_form_counts_in_any_spelling),
        cmocka_unit_test(profiles_have_replays_where_it_is_useful),
    };

    return cmocka_run_group_tests(tests, folder_up, folder_down);
}
