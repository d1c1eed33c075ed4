/* Tests of classify: each libcurl code and each status has exactly one outcome. P2. */
#include "alloc.h"
#include "classify.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void list(struct retry_policy *p, int from, int to)
{
    for (int s = from; s <= to; s++)
        p->retry_on.status[s / 8] |= (uint8_t)(1u << (s % 8));
}

/* network, 408, 425, 429, 5xx */
static struct retry_policy by_default(void)
{
    struct retry_policy p = {.retry_on = {.network = true}};

    list(&p, 408, 408);
    list(&p, 425, 425);
    list(&p, 429, 429);
    list(&p, 500, 599);
    return p;
}

static void expect(const struct transfer_result *a,
                   const struct retry_policy *p, enum attempt_verdict verdict,
                   const char *reason)
{
    struct judgement j = classify(a, p);
    char text[ERROR_TEXT_BYTES];

    classify_text(a, text);
    if (j.verdict != verdict || strcmp(j.reason, reason) != 0)
        fail_msg("code %d status %ld (%s): got %d \"%s\", want %d \"%s\"",
                 (int)a->code, a->status, text, (int)j.verdict, j.reason,
                 (int)verdict, reason);
    if (verdict != VERDICT_DELIVERED && !text[0])
        fail_msg("code %d status %ld: says nothing", (int)a->code, a->status);
}

static void expect_status(long status, const struct retry_policy *p,
                          enum attempt_verdict verdict, const char *reason)
{
    expect(&(struct transfer_result){.responded = true,
                                     .opened = true,
                                     .status = status},
           p, verdict, reason);
}

static void every_status_has_an_outcome(void **state)
{
    struct retry_policy p = by_default();

    (void)state;
    for (long s = 200; s < 300; s++)
        expect_status(s, &p, VERDICT_DELIVERED, "");
    for (long s = 300; s < 500; s++)
        if (s == 410)
            expect_status(s, &p, VERDICT_DEAD, "endpoint_gone");
        else if (s == 408 || s == 425 || s == 429)
            expect_status(s, &p, VERDICT_RETRY, "");
        else
            expect_status(s, &p, VERDICT_DEAD, "rejected");
    for (long s = 500; s < 600; s++)
        expect_status(s, &p, VERDICT_RETRY, "");
    expect_status(101, &p, VERDICT_RETRY, "");
    expect_status(0, &p, VERDICT_RETRY, "");
    expect_status(999, &p, VERDICT_RETRY, "");
    expect_status(-1, &p, VERDICT_RETRY, "");
}

static void a_policy_decides_what_is_tried_again(void **state)
{
    struct retry_policy strict = {.retry_on = {.network = true}};
    struct retry_policy broad = by_default();

    (void)state;
    list(&strict, 502, 504);
    expect_status(500, &strict, VERDICT_DEAD, "rejected");
    expect_status(503, &strict, VERDICT_RETRY, "");
    list(&broad, 300, 499);
    expect_status(404, &broad, VERDICT_RETRY, "");
    expect_status(301, &broad, VERDICT_RETRY, "");
    expect_status(301, &strict, VERDICT_DEAD, "rejected");
    expect_status(410, &broad, VERDICT_DEAD, "endpoint_gone");
}

static void complete_headers_of_a_2xx_are_a_delivery(void **state)
{
    static const CURLcode after[] = {CURLE_OK,
                                     CURLE_PARTIAL_FILE,
                                     CURLE_WRITE_ERROR,
                                     CURLE_OPERATION_TIMEDOUT,
                                     CURLE_RECV_ERROR,
                                     CURLE_BAD_CONTENT_ENCODING,
                                     CURLE_FILESIZE_EXCEEDED};
    struct retry_policy p = by_default();

    (void)state;
    for (size_t i = 0; i < COUNT_OF(after); i++) {
        expect(&(struct transfer_result){.code = after[i],
                                         .responded = true,
                                         .opened = true,
                                         .status = 204},
               &p, VERDICT_DELIVERED, "");
        expect(&(struct transfer_result){.code = after[i],
                                         .responded = true,
                                         .opened = true,
                                         .status = 400},
               &p, VERDICT_DEAD, "rejected");
    }
}

static bool is_fault(int code)
{
    /* Not 27, 58 and 98: an endpoint makes those by a header line of 100 KB,
     * or by asking for a certificate, and would never come to an end. */
    static const int faults[] = {2,  4,  26, 43, 48, 49, 53,
                                 54, 59, 66, 77, 82, 97, 99};

    for (size_t i = 0; i < COUNT_OF(faults); i++)
        if (faults[i] == code)
            return true;
    return false;
}

/* docs/OUTCOMES.md: an unknown failure is tried again, never dropped. */
static void every_curl_code_has_an_outcome(void **state)
{
    struct retry_policy p = by_default(), never = {0};

    (void)state;
    for (int code = 0; code < CURL_LAST + 20; code++) {
        struct transfer_result a = {.code = (CURLcode)code, .opened = true};

        if (is_fault(code)) {
            expect(&a, &p, VERDICT_FAULT, "");
            expect(&a, &never, VERDICT_FAULT, "");
        } else {
            expect(&a, &p, VERDICT_RETRY, "");
            expect(&a, &never, VERDICT_DEAD, "rejected");
        }
    }
}

static void an_invalid_url_is_not_retried(void **state)
{
    struct retry_policy p = by_default();

    (void)state;
    expect(&(struct transfer_result){.code = CURLE_UNSUPPORTED_PROTOCOL}, &p,
           VERDICT_DEAD, "rejected");
    expect(&(struct transfer_result){.code = CURLE_URL_MALFORMAT}, &p,
           VERDICT_DEAD, "rejected");
    /* The same code after a connection: a response that was not HTTP. */
    expect(&(struct transfer_result){.code = CURLE_UNSUPPORTED_PROTOCOL,
                                     .opened = true},
           &p, VERDICT_RETRY, "");
}

static void
a_refused_address_is_told_apart_from_a_refused_connection(void **state)
{
    struct retry_policy p = by_default();
    char text[ERROR_TEXT_BYTES];

    (void)state;
    expect(&(struct transfer_result){.code = CURLE_COULDNT_CONNECT,
                                     .blocked = true},
           &p, VERDICT_DEAD, "blocked_address");
    expect(&(struct transfer_result){.code = CURLE_ABORTED_BY_CALLBACK,
                                     .blocked = true,
                                     .opened = true},
           &p, VERDICT_DEAD, "blocked_address");
    /* One of its addresses is public, and down. */
    expect(&(struct transfer_result){.code = CURLE_COULDNT_CONNECT,
                                     .blocked = true,
                                     .opened = true},
           &p, VERDICT_RETRY, "");
    expect(&(struct transfer_result){.code = CURLE_COULDNT_CONNECT,
                                     .opened = true},
           &p, VERDICT_RETRY, "");
    expect(&(struct transfer_result){.code = CURLE_COULDNT_CONNECT,
                                     .starved = true},
           &p, VERDICT_FAULT, "");
    /* Reset as soon as it was open: libcurl can't say whose address it is. */
    expect(&(struct transfer_result){.code = CURLE_ABORTED_BY_CALLBACK,
                                     .opened = true,
                                     .lost = true},
           &p, VERDICT_RETRY, "");
    classify_text(&(struct transfer_result){.code = CURLE_ABORTED_BY_CALLBACK,
                                            .opened = true,
                                            .lost = true},
                  text);
    assert_string_equal(text, "connection closed unexpectedly");
    classify_text(&(struct transfer_result){.code = CURLE_COULDNT_CONNECT,
                                            .opened = true,
                                            .os_errno = ECONNREFUSED},
                  text);
    assert_string_equal(text, "connection refused");
    classify_text(&(struct transfer_result){.responded = true, .status = 503},
                  text);
    assert_string_equal(text, "responded 503");
    classify_text(&(struct transfer_result){.responded = true, .status = 200},
                  text);
    assert_string_equal(text, "");
}

/* What people do about them differs: renew, rename, trust. */
static void the_reason_of_an_untrusted_certificate_is_reported(void **state)
{
    struct transfer_result a = {.code = CURLE_PEER_FAILED_VERIFICATION,
                                .opened = true,
                                .tls = "certificate has expired"};
    char text[ERROR_TEXT_BYTES];

    (void)state;
    classify_text(&a, text);
    assert_string_equal(text, "TLS: the certificate is not trusted: "
                              "certificate has expired");
}

/* GRAPNEL_WRITE_DOCS=1 writes it anew. */
static void the_document_matches_the_code(void **state)
{
    const char *here = __FILE__;
    char *path = gr_printf("%.*s/../../docs/OUTCOMES.md",
                           (int)(strrchr(here, '/') - here), here);
    struct retry_policy p = by_default();
    struct buf want;
    char *have = gr_alloc(1 << 16);
    FILE *f;

    (void)state;
    buf_init(&want, 1 << 16);
    classify_document(&want, &p);
    if (getenv("GRAPNEL_WRITE_DOCS")) {
        f = fopen(path, "w");
        assert_non_null(f);
        assert_int_not_equal(fputs(want.data, f), EOF);
        fclose(f);
    }
    f = fopen(path, "r");
    assert_non_null(f);
    have[fread(have, 1, (1 << 16) - 1, f)] = 0;
    fclose(f);
    assert_string_equal(have, want.data);
    free(have);
    free(path);
    buf_fini(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_an_outcome),
        cmocka_unit_test(a_policy_decides_what_is_tried_again),
        cmocka_unit_test(complete_headers_of_a_2xx_are_a_delivery),
        cmocka_unit_test(every_curl_code_has_an_outcome),
        cmocka_unit_test(an_invalid_url_is_not_retried),
        cmocka_unit_test(
            a_refused_address_is_told_apart_from_a_refused_connection),
        cmocka_unit_test(the_reason_of_an_untrusted_certificate_is_reported),
        cmocka_unit_test(the_document_matches_the_code),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
