/* Tests of named_url: which URLs a producer may name, and what is refused because a parser could
 * read it in another way. P8. */
#include "alloc.h"
#include "named_url.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void urls_in_strict_form_are_accepted(void **state)
{
    static const char *const good[] = {
        "https://a.example.com/hooks/1",
        "http://127.0.0.1:8080/",
        "https://a.example.com",
        "https://a.example.com:65535/x?y=%20z&t=1@2&u=../..",
        "https://a_b.example.com/.well-known/...",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++)
        if (named_url_wrong(good[i]))
            fail_msg("%s: %s", good[i], named_url_wrong(good[i]));
    assert_int_equal(named_url_port("https://a.example.com"), 443);
    assert_int_equal(named_url_port("http://a.example.com/"), 80);
    assert_int_equal(named_url_port("http://a.example.com:81/"), 81);
}

static void other_urls_are_refused(void **state)
{
    static const char *const bad[][2] = {
        {"ftp://a.example.com/", "must begin with https://"},
        {"HTTPS://a.example.com/", "must begin with https://"},
        {"//a.example.com/", "must begin with https://"},
        {"https:a.example.com/", "must begin with https://"},
        {"https://u:p@a.example.com/", "a user or a password"},
        {"https://a.example.com@evil.com/", "a user or a password"},
        {"https://a.example.com:80@evil.com/", "a user or a password"},
        {"https://a.example.com\\@evil.com/", "%-encoded"},
        {"https://evil.com\\.a.example.com/", "%-encoded"},
        {"https://a.example.com/ x", "%-encoded"},
        {"https://a.example.com/\n", "%-encoded"},
        {"https://\xc3\xa4.example.com/", "%-encoded"},
        {"https://evil.com#.example.com/", "fragment"},
        {"https://a%2eexample.com/", "no valid host"},
        {"https://[::1]/", "no valid host"},
        {"https:///x", "no valid host"},
        {"https://.example.com/", "no valid host"},
        {"https://a..example.com/", "no valid host"},
        {"https://a.example.com./", "no valid host"},
        {"https://*.example.com/", "no valid host"},
        {"https://a.example.com:/", "no valid port"},
        {"https://a.example.com:0/", "no valid port"},
        {"https://a.example.com:65536/", "no valid port"},
        {"https://a.example.com:80:80/", "no valid port"},
        {"https://a.example.com:*/", "no valid port"},
        {"https://evil.com?.example.com/", "a path before its query"},
        {"https://a.example.com/hooks/../admin", ". or .."},
        {"https://a.example.com/hooks/%2E./admin", ". or .."},
        {"https://a.example.com/hooks/..;x/admin", ". or .."},
        {"https://a.example.com/hooks/..", ". or .."},
        {"https://a.example.com/hooks/..%2fadmin", "encoded slash"},
        {"https://a.example.com/hooks/..%5Cadmin", "encoded slash"},
    };
    char longer[NAMED_URL_MAX_BYTES + 2];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *wrong = named_url_wrong(bad[i][0]);

        if (!wrong || !strstr(wrong, bad[i][1]))
            fail_msg("%s: %s", bad[i][0], wrong ? wrong : "accepted");
    }
    memset(longer, 'a', sizeof longer);
    memcpy(longer, "http://a.b/", 11);
    longer[NAMED_URL_MAX_BYTES + 1] = 0;
    assert_string_equal(named_url_wrong(longer), "is longer than 2048 bytes");
    longer[NAMED_URL_MAX_BYTES] = 0;
    assert_null(named_url_wrong(longer));
}

static void patterns_are_checked(void **state)
{
    static const char *const good[] = {"https://*.example.com/hooks/*",
                                       "http://*:*/*",
                                       "https://a.example.com:8443/x?*"};
    static const char *const bad[][2] = {
        {"https://*.example.com", "has no path: write /*"},
        {"*", "must begin with https://"},
        {"*://a.example.com/*", "must begin with https://"},
        {"https://*@example.com/*", "a user or a password"},
        {"https://a.example.com:8*/*", "no valid port"},
        {"https://a.example.com/../*", ". or .."}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_null(named_url_wrong_pattern(good[i]));
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *wrong = named_url_wrong_pattern(bad[i][0]);

        if (!wrong || !strstr(wrong, bad[i][1]))
            fail_msg("%s: %s", bad[i][0], wrong ? wrong : "accepted");
    }
}

static void a_pattern_matches_part_by_part(void **state)
{
    static const struct {
        const char *pattern, *url;
        bool matches;
    } cases[] = {
        {"https://*.example.com/hooks/*", "https://a.example.com/hooks/1",
         true},
        {"https://*.example.com/hooks/*", "https://A.EXAMPLE.com/hooks/1",
         true},
        {"https://*.example.com/hooks/*", "https://a.b.example.com/hooks/",
         true},
        {"https://*.example.com/hooks/*", "https://a.example.com/hooks/1?x=2",
         true},
        {"https://*.example.com/hooks/*", "https://a.example.com:443/hooks/1",
         true},
        {"https://*.example.com/hooks/*", "https://example.com/hooks/1", false},
        {"https://*.example.com/hooks/*", "https://a.example.com/Hooks/1",
         false},
        {"https://*.example.com/hooks/*", "http://a.example.com/hooks/1",
         false},
        {"https://*.example.com/hooks/*", "https://a.example.com:8443/hooks/1",
         false},
        /* The star of the host does not reach into the path, … */
        {"https://*.example.com/hooks/*",
         "https://evil.com/.example.com/hooks/1", false},
        {"https://*.example.com/hooks/*",
         "https://evil.com/?.example.com/hooks/1", false},
        /* … nor into the end of another name. */
        {"https://*.example.com/hooks/*",
         "https://a.example.com.evil.com/hooks/1", false},
        {"https://a.example.com:*/*", "https://a.example.com:8443/x", true},
        {"https://a.example.com:8443/*", "https://a.example.com/x", false},
        {"https://a.example.com/*", "https://a.example.com", true},
        {"https://a.example.com/x", "https://a.example.com/x?y", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        if (named_url_matches(cases[i].pattern, cases[i].url) !=
            cases[i].matches)
            fail_msg("%s %s", cases[i].pattern, cases[i].url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_in_strict_form_are_accepted),
        cmocka_unit_test(other_urls_are_refused),
        cmocka_unit_test(patterns_are_checked),
        cmocka_unit_test(a_pattern_matches_part_by_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
