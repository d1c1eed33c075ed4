/* Tests of guard: no URL makes Grapnel connect to a private address. P8. */
#include "guard.h"
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

static const struct guard closed;

static void every_blocked_range_is_refused_at_both_ends(void **state)
{
    static const char *const refused[] = {
        "0.0.0.0",
        "0.255.255.255",
        "10.0.0.0",
        "10.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.0.0",
        "169.254.169.254",
        "169.254.255.255",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.0",
        "192.0.0.255",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.0",
        "192.168.255.255",
        "198.18.0.0",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.0",
        "255.255.255.255",
        "168.63.129.16",
        "::",
        "::1",
        "::2",
        "::ffff:127.0.0.1",
        "::ffff:10.1.2.3",
        "::ffff:169.254.169.254",
        "::ffff:168.63.129.16",
        "::127.0.0.1",
        "::ffff:0:0:0",
        "::ffff:0:127.0.0.1",
        "::ffff:0:8.8.8.8",
        "64:ff9b::",
        "64:ff9b::127.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b::192.168.1.1",
        "64:ff9b::168.63.129.16",
        "64:ff9b:1::1",
        "64:ff9b:1:ffff::",
        "100::1",
        "100:0:0:1::1",
        "fd00:ec2::254",
        "100.100.100.200",
        "2001::1",
        "2001:1ff:ffff::",
        "2001:db8::1",
        "2002:7f00:1::",
        "3fff::1",
        "3fff:fff:ffff::",
        "5f00::1",
        "fc00::1",
        "fdff::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "feff::1",
        "ff00::1",
        "ff02::1",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(refused); i++)
        if (guard_allows_text(&closed, refused[i], 443))
            fail_msg("%s is allowed", refused[i]);
}

static void their_neighbours_are_allowed(void **state)
{
    static const char *const allowed[] = {
        "1.0.0.0",         "1.1.1.1",         "8.8.8.8",
        "9.255.255.255",   "11.0.0.0",        "100.63.255.255",
        "100.128.0.0",     "126.255.255.255", "128.0.0.1",
        "168.63.129.15",   "168.63.129.17",   "169.253.255.255",
        "169.255.0.0",     "172.15.255.255",  "172.32.0.0",
        "192.0.1.0",       "192.0.3.0",       "192.88.98.255",
        "192.88.100.0",    "192.167.255.255", "192.169.0.0",
        "198.17.255.255",  "198.20.0.0",      "198.51.99.255",
        "198.51.101.0",    "203.0.112.255",   "203.0.114.0",
        "223.255.255.255", "::ffff:8.8.8.8",  "64:ff9a::1",
        "64:ff9b:2::1",    "2001:200::1",     "2001:db7::1",
        "2001:db9::1",     "2003::1",         "2606:4700::1111",
        "3ffe::1",         "3fff:1000::1",    "5eff::1",
        "5f01::1",         "fb00::1",         "64:ff9b::8.8.8.8",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(allowed); i++)
        if (!guard_allows_text(&closed, allowed[i], 443))
            fail_msg("%s is refused", allowed[i]);
}

/* The spellings that libcurl and getaddrinfo take for the machine itself: what
 * they resolve to is what is judged. */
static void no_spelling_of_loopback_gets_through(void **state)
{
    static const char *const spellings[] = {
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "017700000001",
        "127.1",
        "127.0.1",
        "0",
        "0.0.0.0",
        "localhost",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "0:0:0:0:0:0:0:1",
    };
    struct addrinfo *list, *one;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(spellings); i++) {
        if (getaddrinfo(spellings[i], "80", NULL, &list) != 0)
            continue;
        for (one = list; one; one = one->ai_next)
            if (guard_allows(&closed, one->ai_addr))
                fail_msg("%s is allowed", spellings[i]);
        freeaddrinfo(list);
    }
}

static void only_internet_addresses_are_allowed(void **state)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};

    (void)state;
    assert_false(guard_allows(&closed, (struct sockaddr *)&local));
    assert_false(guard_allows_text(&closed, "", 443));
    assert_false(guard_allows_text(&closed, "example.com", 443));
    assert_false(guard_allows_text(&closed, "8.8.8.8:80", 443));
    assert_false(guard_allows_text(&closed, "/run/x.sock", 443));
}

static struct guard with(bool allow_private, const char *cidrs)
{
    struct guard g;

    assert_int_equal(
        guard_init(&g, allow_private, (struct bytes){cidrs, strlen(cidrs)}),
        GR_OK);
    return g;
}

static void an_operator_may_open_everything(void **state)
{
    struct guard g = with(true, "");

    (void)state;
    assert_true(guard_allows_text(&g, "127.0.0.1", 443));
    assert_true(guard_allows_text(&g, "::1", 443));
    guard_fini(&g);
}

static void an_operator_may_open_some_networks_only(void **state)
{
    struct guard g = with(false, "10.1.0.0/16 192.168.1.7 fd00:1::/32 ::1/128");

    (void)state;
    assert_true(guard_allows_text(&g, "10.1.255.255", 443));
    assert_true(guard_allows_text(&g, "::ffff:10.1.0.1", 443));
    assert_false(guard_allows_text(&g, "10.2.0.0", 443));
    assert_true(guard_allows_text(&g, "192.168.1.7", 443));
    assert_false(guard_allows_text(&g, "192.168.1.8", 443));
    assert_true(guard_allows_text(&g, "fd00:1::5", 443));
    assert_false(guard_allows_text(&g, "fd00:2::5", 443));
    assert_true(guard_allows_text(&g, "::1", 443));
    assert_false(guard_allows_text(&g, "127.0.0.1", 443));
    assert_true(guard_allows_text(&g, "8.8.8.8", 443));
    guard_fini(&g);
}

static void ports_may_be_restricted(void **state)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6,
                               .sin6_port = htons(8443)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(22)};
    struct guard g = {.ports = {{443, 8443}, 2}};

    (void)state;
    inet_pton(AF_INET, "8.8.8.8", &four.sin_addr);
    inet_pton(AF_INET6, "2606:4700::1111", &six.sin6_addr);
    assert_true(guard_allows_text(&g, "8.8.8.8", 443));
    assert_false(guard_allows_text(&g, "8.8.8.8", 80));
    assert_false(guard_allows_text(&g, "10.0.0.1", 443));
    assert_true(guard_allows(&g, (struct sockaddr *)&six));
    assert_false(guard_allows(&g, (struct sockaddr *)&four));
    g.allow.all = true; /* to every address, not to every port */
    assert_false(guard_allows(&g, (struct sockaddr *)&four));
}

static void an_invalid_network_refuses_the_whole_list(void **state)
{
    static const char *const bad[] = {"10.0.0.0/33", "10.0.0.0/-1", "::/129",
                                      "10.0.0/8",    "10.0.0.0/",   "x",
                                      "10.0.0.0/8x", "::1 nonsense"};
    struct guard g;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(
            guard_init(&g, false, (struct bytes){bad[i], strlen(bad[i])}),
            GR_REFUSE);
        guard_fini(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_blocked_range_is_refused_at_both_ends),
        cmocka_unit_test(their_neighbours_are_allowed),
        cmocka_unit_test(no_spelling_of_loopback_gets_through),
        cmocka_unit_test(only_internet_addresses_are_allowed),
        cmocka_unit_test(an_operator_may_open_everything),
        cmocka_unit_test(an_operator_may_open_some_networks_only),
        cmocka_unit_test(ports_may_be_restricted),
        cmocka_unit_test(an_invalid_network_refuses_the_whole_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
