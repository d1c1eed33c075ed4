/* Tests of http_head: request lines and headers, in memory as libmicrohttpd leaves them, and
 * which are refused. */
#include "alloc.h"
#include "http_head.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct head head;
static struct head_facts facts;
static char raw[64 * 1024];

static char *line_end(char *at, const char *end)
{
    while (at < end && *at != '\n')
        at++;
    return at;
}

/* Take one line apart in place; the byte behind it. */
static char *header_line(char *line, const char *end)
{
    char *lf = line_end(line, end), *colon, *value;
    size_t n = 0;

    *lf = 0;
    if (lf > line && lf[-1] == '\r')
        lf[-1] = 0;
    colon = strchr(line, ':');
    assert_non_null(colon);
    *colon = 0;
    for (value = colon + 1; *value == ' ' || *value == '\t'; value++)
        ;
    n = head.count++;
    if (n < HEAD_MAX_COUNT)
        head.fields[n] = (struct head_field){{line, strlen(line)},
                                             {value, strlen(value)}};
    return lf + 1;
}

static enum head_fault judge_bytes(const char *text, size_t n)
{
    char *at = raw, *end = raw + n, *lf;

    assert_true(n < sizeof raw);
    memcpy(raw, text, n);
    memset(&head, 0, sizeof head);
    head.method = raw;
    lf = line_end(raw, end);
    *lf = 0;
    if (lf > raw && lf[-1] == '\r')
        lf[-1] = 0;
    at = memchr(raw, ' ', n);
    *at++ = 0;
    head.url = at;
    /* The version is behind the last blank of the line, NUL or not. */
    for (head.version = lf; head.version[-1] != ' '; head.version--)
        ;
    head.raw_url_bytes = strcspn(head.url, " ");
    raw[head.version - 1 - raw] = 0;
    for (at = lf + 1; at < end && *at != '\r' && *at != '\n';)
        at = header_line(at, end);
    head.bytes = (size_t)(end - raw);
    if (head.count > HEAD_MAX_COUNT)
        head.count = HEAD_MAX_COUNT + 1;
    return head_check(&head, &facts);
}

static enum head_fault judge(const char *text)
{
    return judge_bytes(text, strlen(text));
}

#define LINE "POST /in/plane HTTP/1.1\r\n"
#define HOST "Host: x\r\n"
#define LEN  "Content-Length: 5\r\n"
#define TE   "Transfer-Encoding: chunked\r\n"
#define END  "\r\n"

static void a_plain_request_is_accepted(void **state)
{
    (void)state;
    assert_int_equal(judge(LINE HOST LEN END), HEAD_FINE);
    assert_true(facts.has_length);
    assert_int_equal(facts.length, 5);
    assert_int_equal(judge(LINE HOST TE END), HEAD_FINE);
    assert_true(facts.chunked);
    assert_int_equal(judge("GET /healthz HTTP/1.0\r\n" END), HEAD_FINE);
    assert_int_equal(judge(LINE "Host:x\r\nA: \r\nB:\r\nC: \t \r\n" END),
                     HEAD_FINE);
    assert_int_equal(judge(LINE HOST "A: caf\xc3\xa9 \r\n" END), HEAD_FINE);
    assert_int_equal(judge(LINE HOST "transfer-encoding: Chunked\r\n" END),
                     HEAD_FINE);
}

static void a_repeated_length_is_refused(void **state)
{
    static const char *const wrong[] = {
        LINE HOST LEN TE END,
        LINE HOST TE LEN END,
        LINE HOST LEN LEN END,
        LINE HOST TE TE END,
        LINE HOST "Content-Length: 5, 5\r\n" END,
        LINE HOST "Content-Length: +5\r\n" END,
        LINE HOST "Content-Length: -1\r\n" END,
        LINE HOST "Content-Length: 0x5\r\n" END,
        LINE HOST "Content-Length:\r\n" END,
        LINE HOST "Content-Length: 9223372036854775808\r\n" END,
        LINE HOST "Transfer-Encoding: xchunked\r\n" END,
        LINE HOST "Transfer-Encoding: chunked, identity\r\n" END,
        LINE HOST "Transfer-Encoding: identity\r\n" END,
        LINE HOST "Transfer-Encoding: chunked \r\n" END,
        LINE HOST "Transfer-Encoding:\r\n" END,
        "POST /in/plane HTTP/1.0\r\n" TE END,
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        if (judge(wrong[i]) != HEAD_LENGTH_AMBIGUOUS)
            fail_msg("taken: %s", wrong[i]);
}

static void one_host_is_required(void **state)
{
    (void)state;
    assert_int_equal(judge(LINE LEN END), HEAD_HOST_MISSING);
    assert_int_equal(judge(LINE HOST "host: y\r\n" END), HEAD_HOST_DOUBLED);
    assert_int_equal(judge("POST / HTTP/1.0\r\n" HOST HOST END),
                     HEAD_HOST_DOUBLED);
}

static void bytes_that_the_parser_hides_are_found(void **state)
{
    static const char nul_in_value[] = LINE HOST "A: b\0c\r\nD: e\r\n" END;
    static const char nul_in_last[] = LINE HOST "A: b\0c\r\n" END;
    static const char nul_in_url[] = "POST /in/plane\0x HTTP/1.1\r\n" HOST END;

    (void)state;
    assert_int_equal(judge_bytes(nul_in_value, sizeof nul_in_value - 1),
                     HEAD_MALFORMED);
    assert_int_equal(judge_bytes(nul_in_last, sizeof nul_in_last - 1),
                     HEAD_MALFORMED);
    assert_int_equal(judge(LINE HOST "A: b\nC: d\r\n" END), HEAD_MALFORMED);
    assert_int_equal(judge(LINE HOST "A: b\r\n\n"), HEAD_MALFORMED);
    assert_int_equal(judge("POST / HTTP/1.1\n" HOST END), HEAD_MALFORMED);
    judge_bytes(nul_in_url, sizeof nul_in_url - 1);
    head.raw_url_bytes = strlen("/in/plane"); /* as on_line() sees it */
    assert_int_equal(head_check(&head, &facts), HEAD_MALFORMED);
}

/* libmicrohttpd 0.9.75 hangs a folded line on the header's name, which it
 * copies somewhere else. */
static void a_folded_line_is_refused(void **state)
{
    static char moved[] = "Ab";

    (void)state;
    assert_int_equal(judge(LINE HOST "A: v\r\nB: w\r\n" END), HEAD_FINE);
    head.fields[1].name = (struct bytes){moved, 2};
    assert_int_equal(head_check(&head, &facts), HEAD_MALFORMED);
}

static void names_are_tokens_and_values_have_no_controls(void **state)
{
    static const char *const wrong[] = {
        LINE HOST "A : b\r\n" END,    LINE " Host: x\r\n" END,
        LINE HOST ": b\r\n" END,      LINE HOST "\xc3\xa9: b\r\n" END,
        LINE HOST "A(: b\r\n" END,    LINE HOST "A: b\rc\r\n" END,
        LINE HOST "A: b\x01\r\n" END, LINE HOST "A: b\x7f\r\n" END,
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        if (judge(wrong[i]) != HEAD_MALFORMED)
            fail_msg("taken: %s", wrong[i]);
}

static void only_two_versions_are_known(void **state)
{
    (void)state;
    assert_int_equal(judge("POST / HTTP/1.32\r\n" HOST END), HEAD_MALFORMED);
    assert_int_equal(judge("POST / HTTP/2.0\r\n" HOST END), HEAD_MALFORMED);
    assert_int_equal(judge("P(ST / HTTP/1.1\r\n" HOST END), HEAD_MALFORMED);
}

static void too_many_or_too_large_headers_are_431(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, sizeof raw);
    buf_puts(&b, LINE HOST);
    for (int i = 0; i < HEAD_MAX_COUNT - 1; i++)
        buf_puts(&b, "A: b\r\n");
    buf_puts(&b, END);
    assert_int_equal(judge(b.data), HEAD_FINE);
    b.len -= 2;
    buf_puts(&b, "A: b\r\n" END);
    assert_int_equal(judge(b.data), HEAD_TOO_LARGE);
    buf_reset(&b);
    buf_puts(&b, LINE HOST "A: ");
    for (int i = 0; i < HEAD_MAX_BYTES; i++)
        buf_puts(&b, "a");
    buf_puts(&b, "\r\n" END);
    assert_int_equal(judge(b.data), HEAD_TOO_LARGE);
    buf_fini(&b);
}

static void other_relevant_headers_are_noted(void **state)
{
    (void)state;
    assert_int_equal(judge(LINE HOST "Content-Encoding: gzip\r\n" END),
                     HEAD_FINE);
    assert_true(facts.compressed);
    assert_int_equal(judge(LINE HOST "content-encoding: Identity\r\n" END),
                     HEAD_FINE);
    assert_false(facts.compressed);
    assert_int_equal(judge(LINE HOST "Expect: 100-Continue\r\n" END),
                     HEAD_FINE);
    assert_true(facts.expects);
    assert_int_equal(judge("POST / HTTP/1.0\r\nExpect: 100-continue\r\n" END),
                     HEAD_FINE);
    assert_false(facts.expects);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_request_is_accepted),
        cmocka_unit_test(a_repeated_length_is_refused),
        cmocka_unit_test(one_host_is_required),
        cmocka_unit_test(bytes_that_the_parser_hides_are_found),
        cmocka_unit_test(a_folded_line_is_refused),
        cmocka_unit_test(names_are_tokens_and_values_have_no_controls),
        cmocka_unit_test(only_two_versions_are_known),
        cmocka_unit_test(too_many_or_too_large_headers_are_431),
        cmocka_unit_test(other_relevant_headers_are_noted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
