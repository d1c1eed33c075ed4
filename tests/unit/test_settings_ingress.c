/* Tests of ingress's settings: producers and their tokens, proxies, limits. */
#include "config.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct settings *load(const char *text)
{
    char path[] = "/tmp/grapnel-ingress-XXXXXX";
    int fd = mkstemp(path);
    struct settings *s;
    struct buf errors;

    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    buf_init(&errors, 1 << 16);
    s = settings_load(path, &errors);
    if (!s)
        fail_msg("%s", errors.data);
    buf_fini(&errors);
    unlink(path);
    return s;
}

static struct bytes text(const char *s)
{
    return (struct bytes){s, strlen(s)};
}

static void a_token_identifies_its_producer_and_is_kept_as_a_hash(void **state)
{
    struct settings *s = load("producers:\n"
                              "  - {name: billing, tokens: [t-one, t-two],"
                              " workspaces: ['acct_*'], types: ['invoice.*'],"
                              " rate_limit: 50/s}\n"
                              "  - {name: crm, tokens: t-three}\n");
    struct buf out;

    (void)state;
    assert_string_equal(settings_token(s, text("t-one"))->name, "billing");
    assert_string_equal(settings_token(s, text("t-two"))->name, "billing");
    assert_string_equal(settings_token(s, text("t-three"))->name, "crm");
    assert_null(settings_token(s, text("t-")));
    assert_null(settings_token(s, text("t-one ")));
    assert_null(settings_token(s, text("")));
    assert_ptr_equal(settings_producer(s, "crm"), &s->producers[1]);
    assert_null(settings_producer(s, "none"));
    assert_int_equal(s->producers[0].rate_limit.count, 50);
    /* wiped: a fingerprint is left */
    assert_string_not_equal(s->producers[0].tokens.items[0], "t-one");
    assert_int_equal(strlen(s->producers[0].tokens.items[0]), 16);
    buf_init(&out, 1 << 16);
    settings_print(s, &out);
    assert_null(strstr(out.data, "t-"));
    assert_non_null(strstr(out.data, "invoice.*"));
    buf_fini(&out);
    settings_free(s);
}

static bool trusts(const struct settings *s, const uint8_t address[16])
{
    for (size_t i = 0; i < s->ingress.trusted_proxy_count; i++)
        if (network_has(&s->ingress.trusted_proxies[i], address))
            return true;
    return false;
}

static void addresses_are_matched_with_networks(void **state)
{
    static const uint8_t in4[16] = {[10] = 0xff, 0xff, 172, 16, 33, 1},
                         out4[16] = {[10] = 0xff, 0xff, 172, 16, 48, 1},
                         in6[16] = {0xfd, 1}, out6[16] = {0xfe, 1},
                         one[16] = {[10] = 0xff, 0xff, 192, 0, 2, 7},
                         two[16] = {[10] = 0xff, 0xff, 192, 0, 2, 6};
    struct settings *s = load("ingress: {trusted_proxies: [172.16.32.0/20,"
                              " 'fd00::/8', 192.0.2.7]}\n");
    struct buf out;

    (void)state;
    assert_true(trusts(s, in4) && trusts(s, in6) && trusts(s, one));
    assert_false(trusts(s, out4) || trusts(s, out6) || trusts(s, two));
    buf_init(&out, 1 << 16);
    settings_print(s, &out);
    assert_non_null(strstr(
        out.data, "[\"172.16.32.0/20\", \"fd00::/8\", \"192.0.2.7/32\"]"));
    buf_fini(&out);
    settings_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_identifies_its_producer_and_is_kept_as_a_hash),
        cmocka_unit_test(addresses_are_matched_with_networks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
