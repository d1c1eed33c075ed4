/* Tests of framing: which chunked bodies are accepted, however their bytes are cut. */
#include "framing.h"
#include "rc.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* In two pieces, and the rest byte by byte. */
static enum framing_state read_all(const char *text, size_t n, size_t cut)
{
    struct framing f = {0};

    framing_read(&f, text, cut);
    for (size_t i = cut; i < n; i++)
        framing_read(&f, text + i, 1);
    return f.state;
}

static void expect(const char *text, enum framing_state state)
{
    size_t n = strlen(text);

    for (size_t cut = 0; cut <= n; cut++)
        if (read_all(text, n, cut) != state)
            fail_msg("\"%s\" cut at %zu: %d", text, cut,
                     (int)read_all(text, n, cut));
}

static void valid_chunked_bodies_end(void **state)
{
    static const char *const good[] = {
        "0\r\n\r\n",
        "5\r\nabcde\r\n0\r\n\r\n",
        "00000000000000ff;a=b;c=\"d\"\r\n"
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"
        "\r\n000\r\n\r\n",
        "2\r\n\n\r\r\n0;\tlast\r\nX: y\r\nZ: \xc3\xa4\r\n\r\n",
        "0\r\n\r\nPOST / HTTP/1.1\n\n", /* the next one's */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++)
        expect(good[i], FRAMING_END);
    expect("5\r\nab", FRAMING_DATA);
    expect("0\r\nX: y\r\n", FRAMING_TRAILER_NEW);
}

static void invalid_chunked_bodies_are_refused(void **state)
{
    static const char *const bad[] = {
        "5\nabcde\r\n0\r\n\r\n",
        "5\r\nabcde\n0\r\n\r\n",
        "5\r\nabcde\r\n0\n\r\n",
        "5\r\nabcde\r\n0\r\n\n",
        "5\r\nabcde\r\n0\r\nX: y\n",
        "5\r\nabcde\r\r\n0\r\n\r\n",
        "5;a\nabcde\r\n",
        "5;a\001\r\n",
        "5\rabcde",
        "5 \r\nabcde\r\n",
        " 5\r\n",
        "+5\r\n",
        "0x5\r\n",
        "\r\n",
        ";a\r\n",
        "g\r\n",
        "5\r\nabcdef\r\n",
        "00000000000000005\r\n",
        "0\r\n folded\r\n\r\n",
        "0\r\nX: y\r\n z\r\n\r\n",
        "0\r\nX: y\rz\r\n\r\n",
        "0\r\nX: \177\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        expect(bad[i], FRAMING_BAD);
}

static void a_nul_byte_is_refused(void **state)
{
    (void)state;
    for (size_t cut = 0; cut <= 5; cut++)
        assert_int_equal(read_all("5;\0\r\n", 5, cut), FRAMING_BAD);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_chunked_bodies_end),
        cmocka_unit_test(invalid_chunked_bodies_are_refused),
        cmocka_unit_test(a_nul_byte_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
