/* Tests of networks of a configuration: parse, print, and test which addresses belong. */
#include "network.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void a_network_is_written_as_it_is_read(void **state)
{
    static const char *const strings[][2] = {
        {"10.0.0.0/8", "10.0.0.0/8"}, {"192.168.1.7", "192.168.1.7/32"},
        {"0.0.0.0/0", "0.0.0.0/0"},   {"fd00::/8", "fd00::/8"},
        {"::1", "::1/128"},           {"::/0", "::/0"}};
    struct buf out;
    struct cidr c;

    (void)state;
    buf_init(&out, 100);
    for (size_t i = 0; i < COUNT_OF(strings); i++) {
        assert_null(network_parse(&c, strings[i][0]));
        buf_reset(&out);
        network_put(&c, &out);
        assert_string_equal(out.data, strings[i][1]);
    }
    buf_fini(&out);
}

static void an_invalid_network_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "x",
        "10.0.0/8",
        "10.0.0.0/",
        "10.0.0.0/33",
        "::/129",
        "10.0.0.0/-1",
        "10.0.0.0/08",
        "10.0.0.0/8x",
        "10.1.0.0/8",
        "fd00::1/8",
        "10.0.0.0/8 ",
        "1.2.3.4/32/",
        "0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0/1"};
    struct cidr c;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_non_null(network_parse(&c, bad[i]));
}

static void an_address_is_in_the_networks_that_begin_like_it(void **state)
{
    static const struct {
        const char *network, *address;
        bool in;
    } cases[] = {{"10.0.0.0/8", "10.255.0.1", true},
                 {"10.0.0.0/8", "11.0.0.0", false},
                 {"10.0.0.0/9", "10.128.0.0", false},
                 {"0.0.0.0/0", "8.8.8.8", true},
                 {"0.0.0.0/0", "::1", false},
                 {"::/0", "8.8.8.8", true},
                 {"fd00::/8", "fdff::1", true},
                 {"fd00::/8", "fe00::1", false},
                 {"127.0.0.1", "127.0.0.1", true},
                 {"127.0.0.1", "127.0.0.2", false},
                 {"10.0.0.0/8", "::ffff:10.0.0.1", true}};
    uint8_t address[16];
    struct cidr c;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_null(network_parse(&c, cases[i].network));
        assert_true(address_parse(address, cases[i].address));
        assert_int_equal(network_has(&c, address), cases[i].in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_is_written_as_it_is_read),
        cmocka_unit_test(an_invalid_network_is_refused),
        cmocka_unit_test(an_address_is_in_the_networks_that_begin_like_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
